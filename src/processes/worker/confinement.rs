//! Takes everything from this process that parsing does not need.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use libc::c_long;
use rustix::process::{self, Resource, Rlimit, Signal};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

/// What a task may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerLimits {
    /// Address space.
    pub(crate) memory_bytes: u64,
    /// Also ends a worker whose server has ended, and so measures no time.
    pub(crate) cpu_seconds: u64,
}

/// When memory runs out, the kernel ends a worker before anything else.
const OOM_SCORE: &str = "1000";

/// Reading what is open, answering, memory, time, and the end. Every other call fails: nothing
/// can be opened, connected to, started or signalled.
const ALLOWED: [c_long; 28] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_close,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Confines this process for good. What it has open stays so.
pub(crate) fn confine_self(limits: WorkerLimits) -> io::Result<()> {
    process::set_parent_process_death_signal(Some(Signal::KILL))?;
    _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, 0)?;
    limit(Resource::Cpu, limits.cpu_seconds)?;
    limit(Resource::As, limits.memory_bytes)?;
    close_off()
}

/// Refuses this thread, and those that it starts, every system call but the allowed ones.
fn close_off() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let allowed: BTreeMap<_, _> = ALLOWED.into_iter().map(|call| (call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(allowed, refused, SeccompAction::Allow, arch);
    let program: Result<BpfProgram, _> = filter.and_then(TryInto::try_into);
    let program = program.map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)
}

fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let there = process::getrlimit(resource).maximum;
    let limit = Some(there.map_or(most, |there| there.min(most)));
    Ok(process::setrlimit(resource, Rlimit { current: limit, maximum: limit })?)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixStream;
    use std::process::Command;
    use std::thread;

    use rustix::fs::{CWD, Mode, OFlags, openat};

    use super::*;

    #[test]
    fn t33_a_worker_opens_starts_and_signals_nothing() {
        let attempts = || {
            close_off().unwrap();
            [
                openat(CWD, "/etc/passwd", OFlags::RDONLY, Mode::empty())
                    .map(drop)
                    .map_err(Into::into),
                openat(CWD, "/proc/self/mem", OFlags::RDWR, Mode::empty())
                    .map(drop)
                    .map_err(Into::into),
                fs::read_dir("/").map(drop),
                fs::metadata("/").map(drop),
                fs::remove_file("/nowhere"),
                TcpListener::bind("127.0.0.1:0").map(drop),
                UdpSocket::bind("127.0.0.1:0").map(drop),
                UnixStream::pair().map(drop),
                Command::new("/bin/true").status().map(drop),
                thread::Builder::new().spawn(|| ()).map(drop),
                process::kill_process(process::getpid(), Signal::CONT).map_err(Into::into),
            ]
            .map(|attempt: io::Result<()>| attempt.map_err(|error| error.kind()))
        };
        for (number, outcome) in thread::spawn(attempts).join().unwrap().into_iter().enumerate() {
            assert_eq!(outcome, Err(io::ErrorKind::PermissionDenied), "{number}");
        }
    }
}
