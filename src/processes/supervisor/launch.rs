//! Starts the command: sets its limits, then executes its program.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::Mode;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{self, DumpableBehavior, Pid, Resource, Rlimit, WaitOptions};

use crate::processes::kernel::{self, Fork};
use crate::processes::protocol::Job;

/// A model has no use for core files.
const CORE_BYTES: u64 = 0;
/// Enough for any build; a leak is stopped early.
const OPEN_FILES: u64 = 4096;
/// No single file may fill the disk.
const FILE_BYTES: u64 = 8 << 30;
/// When memory runs out, the kernel kills the command before the server.
const OOM_SCORE: &str = "500";

/// Starts the command in the working directory, which it then shares with this process:
/// see [`kernel::fork_sharing_directory`]. An error says why it did not start.
pub(super) fn start(job: &Job) -> io::Result<Pid> {
    let (outcome, report) = pipe_with(PipeFlags::CLOEXEC)?;
    match kernel::fork_sharing_directory()? {
        Fork::Child => {
            let errno = become_command(job).raw_os_error().unwrap_or(libc::EINVAL);
            // If this write fails too, the parent sees a started command that exits.
            _ = File::from(report).write_all(&errno.to_ne_bytes());
            kernel::exit_now(127)
        }
        Fork::Parent(pid) => {
            drop(report);
            started(outcome).map(|()| pid).inspect_err(|_| {
                // The child is about to exit. Unreaped it could outlive the supervisor for a
                // moment, and the server would take it for something that the command left.
                _ = process::waitpid(Some(pid), WaitOptions::empty());
            })
        }
    }
}

/// Waits until the program has started: then the pipe closes without an error number.
fn started(outcome: OwnedFd) -> io::Result<()> {
    let mut errno = [0; 4];
    match File::from(outcome).read_exact(&mut errno) {
        Ok(()) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
        Err(_) => Ok(()),
    }
}

/// Executes the command's program. Returns only if it failed.
fn become_command(job: &Job) -> io::Error {
    if let Err(error) = process::setpgid(None, None) {
        return error.into();
    }
    limit(Resource::Core, CORE_BYTES);
    limit(Resource::Nofile, OPEN_FILES);
    limit(Resource::Fsize, FILE_BYTES);
    raise_oom_score();
    if let Some(mask) = job.umask {
        process::umask(Mode::from_raw_mode(mask));
    }
    let variables = job.environment.iter().map(|(name, value)| (name, value));
    Command::new(OsStr::new(&job.program)).args(&job.arguments).env_clear().envs(variables).exec()
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
