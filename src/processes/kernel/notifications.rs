//! Lets one process answer system calls of another (seccomp user notifications).

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use seccompiler::BpfProgram;

/// Where the system calls arrive that a filter hands over.
#[derive(Debug)]
pub(in crate::processes) struct Listener(OwnedFd);

/// A system call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(in crate::processes) struct Notification {
    id: u64,
    /// The thread that has made it.
    pub(in crate::processes) thread: u32,
    pub(in crate::processes) call: i32,
    pub(in crate::processes) arguments: [u64; 6],
}

impl Listener {
    /// Puts a filter in force that hands calls over, for this process and all that it starts.
    /// `no_new_privs` must be set.
    pub(in crate::processes) fn install(filter: &BpfProgram) -> io::Result<Self> {
        let length = u16::try_from(filter.len()).map_err(io::Error::other)?;
        let program = libc::sock_fprog { len: length, filter: filter.as_ptr().cast_mut().cast() };
        // A call that was handed over goes on whatever signal comes, but for one that kills.
        let flags =
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        let (call, mode) = (libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER);
        // SAFETY: the kernel only reads the program, which outlives the call. Its instructions
        // have the same layout in both crates: the kernel's own.
        let descriptor = unsafe { libc::syscall(call, mode, flags, &raw const program) };
        match i32::try_from(descriptor) {
            // SAFETY: the kernel has just opened it, for whoever made the call.
            Ok(descriptor @ 0..) => Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) })),
            Ok(_) | Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// Waits for a call. Fails when nobody is left who could make one.
    pub(in crate::processes) fn next(&self) -> io::Result<Notification> {
        loop {
            let data = libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
            let mut told = libc::seccomp_notif { id: 0, pid: 0, flags: 0, data };
            let Err(error) = self.request(libc::SECCOMP_IOCTL_NOTIF_RECV, &mut told) else {
                let (call, arguments) = (told.data.nr, told.data.args);
                return Ok(Notification { id: told.id, thread: told.pid, call, arguments });
            };
            // A signal has come, or the caller has died before its call was read.
            let is_passing = matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR));
            if !is_passing || !self.has_callers() {
                return Err(error);
            }
        }
    }

    /// Whether the caller still waits. As long as it does, its number is no other process's.
    pub(in crate::processes) fn waits(&self, notification: &Notification) -> bool {
        let mut id = notification.id;
        self.request(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id).is_ok()
    }

    pub(in crate::processes) fn answer(
        &self,
        notification: &Notification,
        result: Result<(), Errno>,
    ) {
        let (id, error) = (notification.id, result.err().map_or(0, |it| -it.raw_os_error()));
        let mut response = libc::seccomp_notif_resp { id, val: 0, error, flags: 0 };
        // Who has died needs no answer.
        _ = self.request(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response);
    }

    fn has_callers(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut polled = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        poll(&mut polled, Some(&now)).is_ok() && !polled[0].revents().contains(PollFlags::HUP)
    }

    fn request<T>(&self, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
        // SAFETY: each request above takes a pointer to the structure that it is called with,
        // and the kernel keeps none.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), request, &raw mut *argument) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl From<OwnedFd> for Listener {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl From<Listener> for OwnedFd {
    fn from(Listener(descriptor): Listener) -> Self {
        descriptor
    }
}
