//! Passes the listener of a filter from the child that installs it to its parent.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::processes::kernel::notifications::Listener;

/// Room for one descriptor.
const ROOM: usize = rustix::cmsg_space!(ScmRights(1));

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
        let listener = OwnedFd::from(listener);
        let descriptors = [listener.as_fd()];
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(&self.0, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::empty())?;
        Ok(())
    }
}

impl FromChild {
    /// Waits for the listener. `None`: the child has none, or it has ended.
    pub(super) fn listener(self) -> Option<Listener> {
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut ancillary = RecvAncillaryBuffer::new(&mut room);
        let mut byte = [0];
        let mut bytes = [IoSliceMut::new(&mut byte)];
        recvmsg(&self.0, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
        let descriptors = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        descriptors.flatten().next().map(Listener::from)
    }
}
