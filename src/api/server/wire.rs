//! The bytes of one connection, with the deadlines and the size of each head.
//!
//! hyper has one timer for the head and for waiting between requests, and lets
//! heads of half again the limit pass; so both are kept here, where the bytes are.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use tracing::{debug, warn};

use super::pace::{Pace, Stall, Verdict};
use super::refusal::Refusal;
use crate::limits::Limits;

/// How much of a head is read at once.
const PIECE: usize = 8192;

/// How much may wait in the kernel to be sent. What waits there can no longer be
/// merged, nor can its pace be seen; the kernel's own choice is 4 MiB. Throughput
/// is the same: what is on its way does not count.
const UNSENT: u32 = 16 << 10;

/// A stream to a client. What a socket can do beyond that is nothing to others.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin {
    /// Bounds what waits in the kernel to be sent, or lifts the bound.
    fn bound_unsent(&self, _is_bounded: bool) {}
}

impl Socket for TcpStream {
    fn bound_unsent(&self, is_bounded: bool) {
        let most = if is_bounded { UNSENT } else { u32::MAX };
        if let Err(error) = SockRef::from(self).set_tcp_notsent_lowat(most) {
            debug!(%error, "cannot set TCP_NOTSENT_LOWAT");
        }
    }
}

/// What a connection is doing; the wire and the handler share it.
#[derive(Debug, Default)]
pub(super) struct Phase(AtomicU8);

/// A head is being read, or awaited for the first time.
const HEAD: u8 = 0;
/// A request is being answered: its own deadlines hold.
const ANSWERING: u8 = 1;
/// Kept for a further request.
const IDLE: u8 = 2;

impl Phase {
    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, phase: u8) {
        self.0.store(phase, Ordering::Relaxed);
    }

    pub(super) fn is_answering(&self) -> bool {
        self.get() == ANSWERING
    }

    /// Says that a request is being answered, until the guard is dropped.
    pub(super) fn head_complete(self: &Arc<Self>) -> Answering {
        self.set(ANSWERING);
        Answering(self.clone())
    }
}

/// A request whose answer is not out yet.
#[derive(Debug)]
pub(super) struct Answering(Arc<Phase>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.set(IDLE);
    }
}

/// A stream whose heads come in time and stay small.
#[derive(Debug)]
pub(super) struct Wire<IO> {
    stream: IO,
    phase: Arc<Phase>,
    header_time: Duration,
    idle_time: Duration,
    head_limit: usize,
    /// Bytes of the head that is being read.
    head_bytes: usize,
    deadline: Pin<Box<Sleep>>,
    /// The phase the deadline was set for.
    timed: u8,
    refusal: Option<Refusal>,
    pace: Arc<Pace>,
    stall: Stall,
    /// The last word to an overdue client was taken: nothing more is heard of it.
    is_over: bool,
}

impl<IO: Socket> Wire<IO> {
    pub(super) fn new(stream: IO, phase: Arc<Phase>, pace: Arc<Pace>, limits: &Limits) -> Self {
        stream.bound_unsent(true);
        Self {
            stream,
            phase,
            header_time: limits.header_time,
            idle_time: limits.idle_connection,
            head_limit: limits.head_bytes,
            head_bytes: 0,
            deadline: Box::pin(sleep(limits.header_time)),
            timed: HEAD,
            refusal: None,
            pace,
            stall: Stall::new(limits.slow_client),
            is_over: false,
        }
    }

    /// Why the connection ends, where the client has to be told.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    pub(super) fn get_mut(&mut self) -> &mut IO {
        &mut self.stream
    }

    fn set_deadline(&mut self, phase: u8) {
        let time = if phase == IDLE { self.idle_time } else { self.header_time };
        self.deadline.as_mut().reset(Instant::now() + time);
        self.timed = phase;
    }

    /// Whether the client took too long with its head, or its next request.
    fn poll_deadline(&mut self, phase: u8, cx: &mut Context<'_>) -> io::Result<()> {
        if self.timed != phase {
            self.set_deadline(phase);
        }
        if !self.pace.is_flowing() {
            // It is not idle: the end of its answer still waits to be taken.
            return Ok(());
        }
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// The kernel took none of a write.
    fn stalled(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self.stall.no_room(&self.pace, cx) {
            Verdict::Wait => {}
            Verdict::Overdue => {
                let waited = self.stall.patience();
                warn!(code = "slow_client", ?waited, "a client does not read its answer");
                self.stream.bound_unsent(false);
            }
            Verdict::Gone => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
        Poll::Pending
    }

    fn count_head(&mut self, phase: u8, read: usize) {
        if phase == IDLE && read > 0 {
            self.head_bytes = 0;
            self.phase.set(HEAD);
        }
        self.head_bytes += read;
    }
}

impl<IO: Socket> AsyncRead for Wire<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let phase = self.phase.get();
        if phase == ANSWERING {
            self.timed = ANSWERING;
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        if self.is_over {
            return Poll::Ready(Ok(()));
        }
        self.poll_deadline(phase, cx)?;
        let so_far = if phase == HEAD { self.head_bytes } else { 0 };
        let left = self.head_limit.saturating_sub(so_far);
        if left == 0 {
            self.refusal = Some(Refusal::HeadTooLarge);
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let mut piece = [0; PIECE];
        let mut piece = ReadBuf::new(&mut piece[..left.min(PIECE).min(buffer.remaining())]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece))?;
        buffer.put_slice(piece.filled());
        self.count_head(phase, piece.filled().len());
        Poll::Ready(Ok(()))
    }
}

impl<IO: Socket> AsyncWrite for Wire<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(refusal) = Refusal::of_hyper(bytes) {
            self.refusal = Some(refusal);
            return Poll::Ready(Ok(bytes.len()));
        }
        let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(cx, bytes) else {
            return self.stalled(cx);
        };
        let written = written?;
        let this = &mut *self;
        this.stall.progress(&this.pace);
        if self.phase.get() == IDLE {
            // The end of an answer: the client is still reading.
            self.set_deadline(IDLE);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.phase.get() == IDLE {
            // hyper need not read before the next request comes: see to the wake-up here.
            self.poll_deadline(IDLE, cx)?;
            if self.pace.is_overdue() && !self.is_over {
                self.is_over = true;
                cx.waker().wake_by_ref();
            }
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
