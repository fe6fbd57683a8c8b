//! Starts the command: sets its limits, then executes its program.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek as _, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use rustix::fs::{MemfdFlags, Mode, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{self, DumpableBehavior, Pid, Resource, Rlimit, WaitOptions};
use rustix::stdio;
use rustix::system::uname;

use super::control_group::ControlGroup;
use super::handover::{self, ToParent};
use super::modes::Roots;
use super::{MAX_PROCESSES, crowd, long_script};
use crate::processes::confinement::{Level, Prepared};
use crate::processes::kernel::{self, Fork};
use crate::processes::protocol::{self, Input, Job, LaunchStep};

/// A model has no use for core files.
const CORE_BYTES: u64 = 0;
/// Enough for any build; a leak is stopped early.
const OPEN_FILES: u64 = 4096;
/// No single file may fill the disk.
const FILE_BYTES: u64 = 8 << 30;
/// When memory runs out, the kernel kills the command before the server.
pub(super) const OOM_SCORE: &str = "500";

/// Starts the command in the working directory, which it then shares with this process:
/// see [`kernel::fork_sharing_directory`]. An error says why it did not start.
pub(super) fn start(
    job: &Job,
    group: Option<&ControlGroup>,
) -> Result<Pid, (LaunchStep, io::Error)> {
    let confinement = job.confinement.as_ref().map(Prepared::new).transpose();
    let confinement = confinement.map_err(|error| (LaunchStep::Confine, error))?;
    let handover = confinement.as_ref().filter(|it| it.hands_over()).map(|_| handover::pair());
    let handover = handover.transpose().map_err(|error| (LaunchStep::Confine, error))?;
    let execute = |error: io::Error| (LaunchStep::Execute, error);
    let (outcome, report) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| execute(error.into()))?;
    let forked = group.and_then(|group| group.fork().ok());
    let is_inside_group = forked.is_some();
    match forked.map_or_else(kernel::fork_sharing_directory, Ok).map_err(execute)? {
        Fork::Child => {
            let to_parent = handover.map(|(to_parent, _)| to_parent);
            if let Some(group) = group.filter(|_| !is_inside_group) {
                // Outside of it the command runs all the same, and is ended process by process.
                _ = group.enter();
            }
            let (step, error) = become_command(job, confinement, to_parent);
            // If this write fails too, the parent sees a started command that exits.
            _ = File::from(report).write_all(&failure(step, &error));
            kernel::exit_now(127)
        }
        Fork::Parent(pid) => {
            drop(report);
            if let Some(((_, from_child), confinement)) = handover.zip(job.confinement.as_ref()) {
                let roots = Roots::of(confinement);
                // It waits for the listener, which comes before the command does.
                thread::spawn(move || from_child.listener().map(|it| roots.serve(&it)));
            }
            started(outcome).map(|()| pid).inspect_err(|_| {
                // The child is about to exit. Unreaped it could outlive the supervisor for a
                // moment, and the server would take it for something that the command left.
                _ = process::waitpid(Some(pid), WaitOptions::empty());
            })
        }
    }
}

/// A failed start on its way to the parent: whether the confinement was at fault, and the
/// error's number.
fn failure(step: LaunchStep, error: &io::Error) -> [u8; 5] {
    let [a, b, c, d] = error.raw_os_error().unwrap_or(libc::EINVAL).to_ne_bytes();
    [u8::from(step == LaunchStep::Confine), a, b, c, d]
}

/// Waits until the program has started: then the pipe closes without a failure.
fn started(outcome: OwnedFd) -> Result<(), (LaunchStep, io::Error)> {
    let mut failure = [0; 5];
    if File::from(outcome).read_exact(&mut failure).is_err() {
        return Ok(());
    }
    let [is_confinement, errno @ ..] = failure;
    let step = if is_confinement == 1 { LaunchStep::Confine } else { LaunchStep::Execute };
    Err((step, io::Error::from_raw_os_error(i32::from_ne_bytes(errno))))
}

/// Executes the command's program. Returns only if it failed.
fn become_command(
    job: &Job,
    confinement: Option<Prepared>,
    to_parent: Option<ToParent>,
) -> (LaunchStep, io::Error) {
    if let Err(error) = process::setpgid(None, None) {
        return (LaunchStep::Execute, error.into());
    }
    limit(Resource::Core, CORE_BYTES);
    limit(Resource::Nofile, OPEN_FILES);
    limit(Resource::Fsize, FILE_BYTES);
    if let Some(most) = most_processes(job) {
        limit(Resource::Nproc, most as u64);
    }
    raise_oom_score();
    if let Input::Text(text) = &job.input
        && let Err(error) = put_on_stdin(text)
    {
        return (LaunchStep::Execute, error);
    }
    let readable = match long_script::readable(&job.program, &job.arguments) {
        Ok(readable) => readable,
        Err(error) => return (LaunchStep::Execute, error),
    };
    if let Some(mask) = job.umask {
        process::umask(Mode::from_raw_mode(mask));
    }
    let hand_over = |listener| to_parent.map_or(Ok(()), |to_parent| to_parent.hand_over(listener));
    if let Some(Err(error)) = confinement.map(|prepared| prepared.apply(hand_over)) {
        return (LaunchStep::Confine, error);
    }
    if let Some(targets) = &job.probes {
        _ = io::stdout().write_all(&protocol::line(&targets.attempt()));
    }
    let variables = job.environment.iter().map(|(name, value)| (name, value));
    let mut program = Command::new(OsStr::new(&job.program));
    program.args(readable.arguments.iter().map(|argument| &**argument));
    (LaunchStep::Execute, program.env_clear().envs(variables).exec())
}

/// Puts the text on standard input. A file in memory has an end and never blocks, whether or not
/// the command reads it.
fn put_on_stdin(text: &str) -> io::Result<()> {
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(stdio::dup2_stdin(file)?)
}

/// The limit by which the kernel helps. It counts none of root's processes, wherever they are.
fn most_processes(job: &Job) -> Option<usize> {
    match job.confinement.as_ref().map(|confinement| confinement.level) {
        _ if process::geteuid().is_root() => None,
        Some(Level::Bwrap) => {
            counts_by_namespace(uname().release().to_bytes()).then_some(MAX_PROCESSES)
        }
        // All of the user's count. So this only bounds how far a command gets before the reaper
        // has counted its own.
        Some(Level::Landlock) | None => {
            Some(crowd::of_the_machine().saturating_add(2 * MAX_PROCESSES))
        }
    }
}

/// Linux 5.14 began to count those of a user namespace by themselves. Before it, all processes of
/// the user count together, and a limit would hit a build because of what else runs.
fn counts_by_namespace(release: &[u8]) -> bool {
    let text = String::from_utf8_lossy(release);
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or_default();
    (5, 14) <= (next(), next())
}

/// Raises the command's OOM score. Not every system allows that; the command runs all the
/// same.
fn raise_oom_score() {
    // In a non-dumpable process this file belongs to root. Make the process dumpable for
    // the write: it holds nothing but the command's own data.
    _ = process::set_dumpable_behavior(DumpableBehavior::Dumpable);
    _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    _ = process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Lowers a limit to `most`, unless the current hard limit is lower.
fn limit(resource: Resource, most: u64) {
    let there = process::getrlimit(resource).maximum;
    let limit = Some(there.map_or(most, |there| there.min(most)));
    // Lowering a limit cannot fail.
    _ = process::setrlimit(resource, Rlimit { current: limit, maximum: limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_counts_by_namespace_since_5_14() {
        for (release, counts) in [
            ("5.13.19-generic", false),
            ("5.14.0", true),
            ("6.1.0-18-amd64", true),
            ("4.20.0", false),
            ("10.0", true),
            ("", false),
        ] {
            assert_eq!(counts_by_namespace(release.as_bytes()), counts, "{release}");
        }
    }
}
