//! Reads and writes the bytes of one connection. Enforces the deadline and the size of
//! each head (`docs/threats.md`, H19, H20, H22, H24).
//!
//! hyper uses one timer for the head and for the wait between requests, and accepts heads
//! of one and a half times the limit. So this module keeps both limits itself. hyper also
//! reads ahead during an answer, which would hide the next head. So it gets one message
//! at a time.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use tracing::{debug, warn};

use super::admission::Admission;
use super::connection_state::{ConnectionState, Phase};
use super::framing;
use super::refusal::Refusal;
use super::write_stall::{StallOutcome, StallTimer, WriteStall};
use crate::limits::Limits;

/// How much is read at once if a message may end within it.
const PIECE: usize = 8192;

/// Divides `limits.header_time` for the first head of a probationary connection.
const PROBATION_PART: u32 = 20;

/// The most that may wait in the kernel to be sent; the kernel's own choice is 4 MiB.
/// Events that wait in the kernel can no longer be merged, and it hides whether the
/// client reads. Throughput does not suffer: bytes in flight do not count.
const MAX_UNSENT: u32 = 16 << 10;

/// A connection to a client. Only a TCP socket has limits to set; tests use pipes.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin {
    /// Limits how much may wait in the kernel, and for how long, given
    /// `limits.slow_client`.
    fn bound_unsent(&self, _slow_client: Duration) {}

    /// Removes the limit on what may wait in the kernel.
    fn lift_bound(&self) {}
}

impl Socket for TcpStream {
    fn bound_unsent(&self, slow_client: Duration) {
        let socket = SockRef::from(self);
        // A host that is gone acknowledges nothing. If there is more to send, the
        // slow-client limit notices it and sends a terminal event; so this timeout must
        // come after that.
        let set = socket
            .set_tcp_notsent_lowat(MAX_UNSENT)
            .and_then(|()| socket.set_tcp_user_timeout(Some(2 * slow_client)));
        if let Err(error) = set {
            debug!(%error, "cannot bound what waits to be sent");
        }
    }

    fn lift_bound(&self) {
        if let Err(error) = SockRef::from(self).set_tcp_notsent_lowat(u32::MAX) {
            debug!(%error, "cannot lift the bound of what waits to be sent");
        }
    }
}

/// A stream that enforces the limits of heads. It gives hyper one message at a time; what
/// follows waits here and in the kernel.
#[derive(Debug)]
pub(super) struct Wire<IO> {
    stream: IO,
    state: Arc<ConnectionState>,
    admission: Arc<Admission>,
    header_time: Duration,
    idle_time: Duration,
    head_limit: usize,
    message: Message,
    /// Bytes read after the current message.
    ahead: BytesMut,
    /// When the deadline was set.
    since: Instant,
    deadline: Pin<Box<Sleep>>,
    /// The phase that the deadline was set for.
    timed: Phase,
    refusal: Option<Refusal>,
    /// Whether something was written that the client may still have to read.
    has_written: bool,
    stall: Arc<WriteStall>,
    stall_timer: StallTimer,
    /// The kernel took the terminal event of an overdue client. Nothing more is read.
    is_over: bool,
}

/// How much of the current message hyper has been given.
#[derive(Debug)]
enum Message {
    /// A head, of which hyper has this many bytes.
    Head {
        end: framing::Head,
        bytes: usize,
    },
    Body(framing::Body),
    /// All of it.
    Whole,
}

impl Message {
    fn new() -> Self {
        Self::Head { end: framing::Head::default(), bytes: 0 }
    }
}

impl<IO: Socket> Wire<IO> {
    pub(super) fn new(
        stream: IO,
        state: Arc<ConnectionState>,
        stall: Arc<WriteStall>,
        admission: Arc<Admission>,
        limits: &Limits,
    ) -> Self {
        let part = if admission.has_short_deadline() { PROBATION_PART } else { 1 };
        stream.bound_unsent(limits.slow_client);
        Self {
            stream,
            state,
            admission,
            header_time: limits.header_time,
            idle_time: limits.idle_connection,
            head_limit: limits.head_bytes,
            message: Message::new(),
            ahead: BytesMut::new(),
            since: Instant::now(),
            deadline: Box::pin(sleep(limits.header_time / part)),
            timed: Phase::ReadingHead,
            refusal: None,
            has_written: false,
            stall,
            stall_timer: StallTimer::new(limits.slow_client),
            is_over: false,
        }
    }

    /// Why the connection ends, if the client has to be told.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// Whether the client may still have something to read.
    pub(super) fn has_written(&self) -> bool {
        self.has_written
    }

    pub(super) fn get_mut(&mut self) -> &mut IO {
        &mut self.stream
    }

    fn set_deadline(&mut self, phase: Phase) {
        let time = if phase == Phase::Idle { self.idle_time } else { self.header_time };
        self.since = Instant::now();
        self.deadline.as_mut().reset(self.since + time);
        self.timed = phase;
    }

    /// Fails when the client is too late with its head or with its next request.
    fn poll_deadline(&mut self, phase: Phase, cx: &mut Context<'_>) -> io::Result<()> {
        if self.timed != phase {
            self.set_deadline(phase);
        }
        if !self.stall.is_flowing() {
            // The connection is not idle: the end of its answer is still unsent.
            return Ok(());
        }
        while self.deadline.as_mut().poll(cx).is_ready() {
            let whole_time = self.since + self.header_time;
            let was_short = phase == Phase::ReadingHead && self.deadline.deadline() < whole_time;
            if !was_short || !self.admission.may_stay() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.deadline.as_mut().reset(whole_time);
        }
        Ok(())
    }

    /// Handles a write of which the kernel took nothing.
    fn stalled(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self.stall_timer.no_room(&self.stall, cx) {
            StallOutcome::Wait => {}
            StallOutcome::Overdue => {
                let waited = self.stall_timer.slow_client();
                warn!(code = "slow_client", ?waited, "a client does not read its answer");
                self.stream.lift_bound();
            }
            StallOutcome::GiveUp => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
        Poll::Pending
    }

    /// Gives hyper some of the bytes that were read ahead.
    fn hand_out(&mut self, count: usize, buffer: &mut ReadBuf<'_>) {
        buffer.put_slice(&self.ahead.split_to(count));
        if self.ahead.is_empty() {
            self.ahead = BytesMut::new();
        }
    }

    /// Reads from the socket unless bytes are already waiting. Returns false at the end
    /// of the stream.
    fn poll_ahead(&mut self, max: usize, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.ahead.is_empty() {
            let mut piece = [MaybeUninit::uninit(); PIECE];
            let mut piece = ReadBuf::uninit(&mut piece[..max.min(PIECE)]);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece))?;
            self.ahead.extend_from_slice(piece.filled());
        }
        Poll::Ready(Ok(!self.ahead.is_empty()))
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !ready!(self.poll_ahead(PIECE, cx))? {
            return Poll::Ready(Ok(()));
        }
        if self.state.phase() == Phase::Idle {
            self.state.set_phase(Phase::ReadingHead);
            self.poll_deadline(Phase::ReadingHead, cx)?;
        }
        let Message::Head { end, bytes } = &mut self.message else { return Poll::Pending };
        let max = (self.head_limit - *bytes).min(self.ahead.len()).min(buffer.remaining());
        if *bytes == self.head_limit {
            self.refusal = Some(Refusal::HeadTooLarge);
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let count = end.end_in(&self.ahead[..max]).unwrap_or(max);
        *bytes += count;
        self.hand_out(count, buffer);
        Poll::Ready(Ok(()))
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Message::Body(body) = &mut self.message else { return Poll::Pending };
        let room = buffer.remaining();
        let max = match body {
            framing::Body::Remaining(left) => usize::try_from(*left).unwrap_or(usize::MAX),
            framing::Body::Chunked(_) => PIECE,
            framing::Body::Invalid => {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
        };
        if self.ahead.is_empty() && max >= room && !matches!(body, framing::Body::Chunked(_)) {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
            let (_, is_whole) = body.take(&buffer.filled()[before..]);
            self.end_message_if(is_whole);
            return Poll::Ready(Ok(()));
        }
        if !ready!(self.poll_ahead(max, cx))? {
            return Poll::Ready(Ok(()));
        }
        let Message::Body(body) = &mut self.message else { return Poll::Pending };
        let there = self.ahead.len().min(room);
        let (count, is_whole) = body.take(&self.ahead[..there]);
        self.end_message_if(is_whole);
        self.hand_out(count, buffer);
        Poll::Ready(Ok(()))
    }

    fn end_message_if(&mut self, is_whole: bool) {
        if is_whole {
            self.message = Message::Whole;
        }
    }

    /// Waits during an answer. hyper gets nothing of the next message, but learns of the
    /// end of the stream.
    fn poll_behind(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state.wake_after_answer(cx.waker());
        if self.ahead.is_empty() && !ready!(self.poll_ahead(PIECE, cx))? {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }
}

impl<IO: Socket> AsyncRead for Wire<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(body) = self.state.take_body() {
            let is_empty = matches!(body, framing::Body::Remaining(0));
            self.message = if is_empty { Message::Whole } else { Message::Body(body) };
        }
        let phase = self.state.phase();
        if phase == Phase::Answering {
            self.timed = Phase::Answering;
        } else if self.is_over {
            return Poll::Ready(Ok(()));
        } else {
            self.poll_deadline(phase, cx)?;
            if matches!(self.message, Message::Whole) {
                self.message = Message::new();
            }
        }
        match self.message {
            Message::Head { .. } => self.poll_head(cx, buffer),
            Message::Body(_) => self.poll_body(cx, buffer),
            Message::Whole => self.poll_behind(cx),
        }
    }
}

impl<IO: Socket> AsyncWrite for Wire<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(refusal) = Refusal::from_hyper(bytes) {
            self.refusal = Some(refusal);
            return Poll::Ready(Ok(bytes.len()));
        }
        let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(cx, bytes) else {
            return self.stalled(cx);
        };
        let written = written?;
        self.has_written = true;
        let this = &mut *self;
        this.stall_timer.progress(&this.stall);
        if self.state.phase() == Phase::Idle {
            // The end of an answer was written: the client is still reading, so the idle
            // time restarts.
            self.set_deadline(Phase::Idle);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state.phase() == Phase::Idle {
            // hyper may not read before the next request comes, so arm the timer here.
            self.poll_deadline(Phase::Idle, cx)?;
            if self.stall.is_overdue() && !self.is_over {
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
