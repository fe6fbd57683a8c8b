//! What a connection is doing; its wire and its handler tell each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::Waker;

use futures::task::AtomicWaker;
use hyper::body::Body as HttpBody;

use super::framing;

/// The wire and the handler share it.
#[derive(Debug)]
pub(super) struct Phase {
    now: AtomicU8,
    /// The length of the body behind the head that was just read.
    body: AtomicU64,
    /// Who waits to read on.
    reader: AtomicWaker,
}

/// A head is being read, or awaited for the first time.
pub(super) const HEAD: u8 = 0;
/// A request is being answered: its own deadlines hold.
pub(super) const ANSWERING: u8 = 1;
/// Kept for a further request.
pub(super) const IDLE: u8 = 2;

/// Instead of a length: the head has not been understood yet.
const NOT_YET: u64 = u64::MAX;
/// Instead of a length: the body comes in chunks.
const IN_CHUNKS: u64 = u64::MAX - 1;

impl Default for Phase {
    fn default() -> Self {
        let body = AtomicU64::new(NOT_YET);
        Self { now: AtomicU8::new(HEAD), body, reader: AtomicWaker::new() }
    }
}

impl Phase {
    pub(super) fn get(&self) -> u8 {
        self.now.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, phase: u8) {
        self.now.store(phase, Ordering::Relaxed);
    }

    /// Wakes who waits to read on, when the answer is out.
    pub(super) fn wake_after_answer(&self, reader: &Waker) {
        self.reader.register(reader);
    }

    pub(super) fn is_answering(&self) -> bool {
        self.get() == ANSWERING
    }

    /// Says that a request with this body is being answered, until the guard is
    /// dropped.
    pub(super) fn head_complete(self: &Arc<Self>, body: &impl HttpBody) -> Answering {
        let length = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
        self.body.store(length.unwrap_or(IN_CHUNKS), Ordering::Relaxed);
        self.set(ANSWERING);
        Answering(self.clone())
    }

    /// The body behind the head that was handed out, once hyper has read that.
    pub(super) fn take_body(&self) -> Option<framing::Body> {
        match self.body.swap(NOT_YET, Ordering::Relaxed) {
            NOT_YET => None,
            IN_CHUNKS => Some(framing::Body::chunked()),
            length => Some(framing::Body::Left(length)),
        }
    }
}

/// A request whose answer is not out yet.
#[derive(Debug)]
pub(super) struct Answering(Arc<Phase>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.set(IDLE);
        self.0.reader.wake();
    }
}
