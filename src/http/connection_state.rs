//! Tells a connection's wire what its handler is doing.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use futures::task::AtomicWaker;
use hyper::body::Body as HttpBody;

use super::framing;

use crate::sync;

/// The state of a connection, shared by the wire and the handler.
#[derive(Debug, Default)]
pub(super) struct ConnectionState {
    now: Mutex<Now>,
    /// The task that waits to read the next message.
    reader: AtomicWaker,
}

#[derive(Debug, Default)]
struct Now {
    phase: Phase,
    /// The body after the head that hyper has just read, until the wire takes it.
    body: Option<framing::Body>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Reading a head, or waiting for the first one.
    #[default]
    ReadingHead,
    /// Answering a request. The request has deadlines of its own.
    Answering,
    /// Waiting for a further request.
    Idle,
}

impl ConnectionState {
    pub(super) fn phase(&self) -> Phase {
        self.now().phase
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.now().phase = phase;
    }

    /// Wakes this task when the answer has been sent.
    pub(super) fn wake_after_answer(&self, reader: &Waker) {
        self.reader.register(reader);
    }

    /// Marks the connection as answering a request with this body, until the guard is
    /// dropped.
    pub(super) fn head_complete(self: &Arc<Self>, body: &impl HttpBody) -> Answering {
        let length = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
        let body = length.map_or_else(framing::Body::chunked, framing::Body::Remaining);
        *self.now() = Now { phase: Phase::Answering, body: Some(body) };
        Answering(self.clone())
    }

    /// Takes the body after the head that hyper has just read.
    pub(super) fn take_body(&self) -> Option<framing::Body> {
        self.now().body.take()
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        sync::lock(&self.now)
    }
}

/// A request whose answer has not been sent.
#[derive(Debug)]
pub(super) struct Answering(Arc<ConnectionState>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.set_phase(Phase::Idle);
        self.0.reader.wake();
    }
}
