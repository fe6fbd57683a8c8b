//! Wraps the system calls that no safe library offers.
#![expect(
    unsafe_code,
    reason = "fork, clone, exec, close_range, signal, seccomp, mounts and descriptors by number \
              have no safe form"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{Pid, Signal};

pub(super) mod notifications;

/// The process in which a fork returned.
pub(super) enum Fork {
    Parent(Pid),
    Child,
}

/// Forks this process. Only for a process with one thread: a lock that another thread
/// held would stay locked in the child.
pub(super) fn fork() -> io::Result<Fork> {
    // SAFETY: the supervisor has one thread until its command runs, so the child's memory
    // is consistent.
    returned(unsafe { libc::fork() }.into())
}

/// Like [`fork`], but the child shares its working directory with the parent. When the
/// command changes it, the parent's changes too, and stays known after the command has
/// ended. The child may do little more than exec.
pub(super) fn fork_sharing_directory() -> io::Result<Fork> {
    let flags = libc::c_long::from(libc::CLONE_FS | libc::SIGCHLD);
    // SAFETY: one thread, as above. No stack is passed, so the child continues on its own
    // copy of this one, as after a fork. No other pointer is passed.
    returned(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })
}

/// The same, and the child begins in a control group, whose directory is passed. To move a process
/// there later, the kernel waits until no processor looks at any process's groups, which
/// takes milliseconds on a busy machine. Needs Linux 5.7.
pub(super) fn fork_into_group(group: BorrowedFd<'_>) -> io::Result<Fork> {
    let arguments = CloneArguments {
        flags: u64::from(libc::CLONE_FS.cast_unsigned()) | CLONE_INTO_CGROUP,
        exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
        cgroup: u64::from(group.as_raw_fd().cast_unsigned()),
        ..CloneArguments::default()
    };
    // SAFETY: as above. The kernel only reads the arguments, of the size that it is told.
    returned(unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>())
    })
}

/// The constant of that name in libc has the wrong type.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// What `clone3` takes.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

fn returned(pid: libc::c_long) -> io::Result<Fork> {
    // A negative number would mean every process, or a group of them.
    match i32::try_from(pid) {
        Ok(0) => Ok(Fork::Child),
        Ok(pid @ 1..) => Pid::from_raw(pid).map(Fork::Parent).ok_or_else(io::Error::last_os_error),
        Ok(_) | Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Marks all descriptors from 3 up as close-on-exec, whoever opened them.
pub(super) fn close_others_on_exec() -> io::Result<()> {
    // SAFETY: no pointer is passed, and no descriptor is closed here.
    let done = unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Resets every signal that the server was started to ignore: `nohup` ignores HUP, and a
/// script ignores INT and QUIT for what it starts with `&`. PIPE stays ignored, because
/// it must not end the supervisor; std resets it for a command.
pub(super) fn ignore_no_signals() {
    for signal in (1..=libc::SIGRTMAX()).filter(|signal| *signal != libc::SIGPIPE) {
        // SAFETY: installs no function. KILL, STOP and the signals that libc reserves are
        // refused, and need no reset.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Replaces the program of this process. Descriptors, working directory and signal
/// settings stay. Returns only if it failed.
pub(crate) fn execute(program: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let list = |texts: &[CString]| -> Vec<_> {
        texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let (arguments, environment) = (list(arguments), list(environment));
    // SAFETY: both lists end with null, and their strings outlive the call.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// Takes a descriptor that this process was started with. Nothing else in this process
/// may own it.
pub(crate) fn take_descriptor(number: RawFd) -> OwnedFd {
    // SAFETY: the caller has checked that it is open and what it is. Nothing in this
    // process has opened it, so nothing else closes it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Signals every process that this one may signal, but for itself and the first one. The kernel
/// does it in one step, in which nothing can be started.
pub(super) fn signal_everyone(signal: Signal) {
    // SAFETY: takes no pointer. Whoever calls it has made sure that only a command's own
    // processes can be signalled.
    unsafe { libc::kill(-1, signal.as_raw()) };
}

/// Lets this thread run before all that are not real-time, however many there are. What it starts
/// from now on does not inherit that. Fails where this process may not: mostly only root may.
pub(super) fn run_before_others() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel only reads the parameters, which live until the call returns.
    let done = unsafe {
        libc::sched_setscheduler(
            0,
            libc::SCHED_RR | libc::SCHED_RESET_ON_FORK,
            &raw const parameters,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives this process mounts of its own, of which no other one learns. Needs `CAP_SYS_ADMIN`.
pub(super) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: takes no pointer. This process has one thread, and no descriptor of its stays
    // behind: those that are open go on to work.
    let done = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(mount_change("/", flags)?)
}

/// What `mount_setattr` changes.
#[repr(C)]
#[derive(Default)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// `MOUNT_ATTR_RDONLY`.
const READ_ONLY: u64 = 1;

/// Makes a mount, and those below it, read-only.
pub(super) fn make_read_only(mount: BorrowedFd<'_>) -> io::Result<()> {
    let attributes = MountAttributes { set: READ_ONLY, ..MountAttributes::default() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the kernel only reads the text, which ends with null, and the attributes, of the
    // size that it is told. Both live until the call returns.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ends this process at once, without destructors or the parent's exit handlers.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: takes no pointer and does not return.
    unsafe { libc::_exit(code) }
}
