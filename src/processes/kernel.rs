//! The calls that no safe library offers.
#![expect(
    unsafe_code,
    reason = "fork, clone, exec, close_range, signal and descriptors by number have no safe form"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::ptr;

use rustix::process::Pid;

/// Which process a fork returned in.
pub(super) enum Fork {
    Parent(Pid),
    Child,
}

/// Splits the process in two. Only for a process that has one thread: what another
/// one held would stay locked in the child for ever.
pub(super) fn fork() -> io::Result<Fork> {
    // SAFETY: the supervisor has one thread until its command runs, so the child
    // finds memory as whole as the parent's.
    returned(unsafe { libc::fork() }.into())
}

/// As [`fork`], but the child's working directory *is* the parent's: when the child
/// (or the program it becomes) moves, the parent has moved, and still knows where
/// to once the child is dead. The child may do little more than exec.
pub(super) fn fork_sharing_directory() -> io::Result<Fork> {
    let flags = libc::c_long::from(libc::CLONE_FS | libc::SIGCHLD);
    // SAFETY: one thread, as above; no stack is given, so the child goes on on its
    // own copy of this one, as after a fork; no other pointer is passed.
    returned(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })
}

fn returned(pid: libc::c_long) -> io::Result<Fork> {
    match i32::try_from(pid).ok().and_then(Pid::from_raw) {
        Some(pid) => Ok(Fork::Parent(pid)),
        None if pid == 0 => Ok(Fork::Child),
        None => Err(io::Error::last_os_error()),
    }
}

/// Marks all descriptors from 3 up close-on-exec, whoever opened them.
pub(super) fn close_others_on_exec() -> io::Result<()> {
    // SAFETY: no pointer is passed, and no descriptor is closed now.
    let done = unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives every signal its usual effect, whatever the server was started to ignore:
/// `nohup` ignores HUP, and a script INT and QUIT for what it starts with `&`. PIPE
/// is left as it is, for it must not end the supervisor; std resets it for a command.
pub(super) fn ignore_no_signals() {
    for signal in (1..=libc::SIGRTMAX()).filter(|signal| *signal != libc::SIGPIPE) {
        // SAFETY: no function of ours is installed. KILL, STOP and what libc keeps for
        // itself are refused, and need no reset.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Makes this process run `program`, with everything else as it is: descriptors, working
/// directory, signals that are blocked or ignored. Returns only if it failed.
pub(crate) fn execute(program: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let list = |texts: &[CString]| -> Vec<_> {
        texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let (arguments, environment) = (list(arguments), list(environment));
    // SAFETY: both lists end with null and point to texts that outlive the call.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// The descriptor of that number, which this process was started with. It must belong to
/// nothing else in this process.
pub(crate) fn take_descriptor(number: RawFd) -> OwnedFd {
    // SAFETY: the caller has seen that it is open, and what it is; nothing in this
    // process has opened it, so nothing else closes it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Ends this process at once: no destructor, no exit handler of the parent's.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: takes no pointer and does not return.
    unsafe { libc::_exit(code) }
}
