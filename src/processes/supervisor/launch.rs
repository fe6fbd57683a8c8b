//! Starts the command: limits first, then the program.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::Mode;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{self, DumpableBehavior, Pid, Resource, Rlimit};

use crate::processes::kernel::{self, Fork};
use crate::processes::protocol::Job;

/// A core file is of no use to a model.
const CORE_BYTES: u64 = 0;
/// Enough for any build; a leak ends early.
const OPEN_FILES: u64 = 4096;
/// No single file may fill the disk.
const FILE_BYTES: u64 = 8 << 30;
/// When memory runs out, the command goes before the server.
const OOM_SCORE: &str = "500";

/// Starts the command in the working directory, which from now on is the command's:
/// see [`kernel::fork_sharing_directory`]. An error is the reason why it did not run.
pub(super) fn start(job: &Job) -> io::Result<Pid> {
    let (outcome, teller) = pipe_with(PipeFlags::CLOEXEC)?;
    match kernel::fork_sharing_directory()? {
        Fork::Child => {
            let errno = become_command(job).raw_os_error().unwrap_or(libc::EINVAL);
            // Where even this fails, the parent reads a started command that exits.
            _ = File::from(teller).write_all(&errno.to_ne_bytes());
            kernel::exit_now(127)
        }
        Fork::Parent(pid) => {
            drop(teller);
            started(outcome).map(|()| pid)
        }
    }
}

/// The pipe closes unwritten when the program takes over.
fn started(outcome: OwnedFd) -> io::Result<()> {
    let mut errno = [0; 4];
    match File::from(outcome).read_exact(&mut errno) {
        Ok(()) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
        Err(_) => Ok(()),
    }
}

/// Returns only if it failed.
fn become_command(job: &Job) -> io::Error {
    if let Err(error) = process::setpgid(None, None) {
        return error.into();
    }
    limit(Resource::Core, CORE_BYTES);
    limit(Resource::Nofile, OPEN_FILES);
    limit(Resource::Fsize, FILE_BYTES);
    lower_value();
    if let Some(mask) = job.umask {
        process::umask(Mode::from_raw_mode(mask));
    }
    let variables = job.environment.iter().map(|(name, value)| (name, value));
    Command::new(OsStr::new(&job.program)).args(&job.arguments).env_clear().envs(variables).exec()
}

/// Not every system lets us; the command runs all the same.
fn lower_value() {
    // The file is root's as long as this process, like its parent, is not to be traced.
    // It is about to become one that is: it holds nothing that is not the command's.
    _ = process::set_dumpable_behavior(DumpableBehavior::Dumpable);
    _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    _ = process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// At most `most`, and never more than the limit that is there.
fn limit(resource: Resource, most: u64) {
    let there = process::getrlimit(resource).maximum;
    let limit = Some(there.map_or(most, |there| there.min(most)));
    // Lowering a limit cannot be refused.
    _ = process::setrlimit(resource, Rlimit { current: limit, maximum: limit });
}
