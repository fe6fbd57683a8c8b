//! Passes the listener of a filter from the child that installs it to its parent.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::processes::descriptors;
use crate::processes::kernel::notifications::Listener;

/// The child's end.
#[derive(Debug)]
pub(super) struct ToParent(UnixStream);

/// The parent's end.
#[derive(Debug)]
pub(super) struct FromChild(UnixStream);

/// Both are closed when a program is executed.
pub(super) fn pair() -> io::Result<(ToParent, FromChild)> {
    let (to_parent, from_child) = UnixStream::pair()?;
    Ok((ToParent(to_parent), FromChild(from_child)))
}

impl ToParent {
    pub(super) fn hand_over(self, listener: Listener) -> io::Result<()> {
        descriptors::send(&self.0, OwnedFd::from(listener))
    }
}

impl FromChild {
    /// Waits for the listener. `None`: the child has none, or it has ended.
    pub(super) fn listener(self) -> Option<Listener> {
        descriptors::receive(&self.0).map(Listener::from)
    }
}
