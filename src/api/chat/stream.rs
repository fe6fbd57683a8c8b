//! Streams the answer: events as they come, and comments during silence.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::time::{Instant, Sleep, sleep};

use super::encode::Encoder;
use crate::agent::events::{Failure, TurnEvent};
use crate::memory_budget::{Exhausted, Reservation};
use crate::sessions::running::Subscriber;

/// Proxies commonly cut connections that are silent for a minute.
const COMMENT: &[u8] = b": keep-alive\n\n";

/// Owns the subscription to the turn: dropping the body may stop the turn.
#[derive(Debug)]
pub(super) struct EventStream {
    /// `None` once the terminal event has been written.
    turn: Option<Subscriber>,
    encoder: Encoder,
    /// Events that came while the head was held back.
    first: VecDeque<TurnEvent>,
    keep_alive: KeepAlive,
    /// Counts the bytes handed to hyper until it asks for more.
    reservation: Reservation,
}

impl EventStream {
    pub(super) fn new(
        turn: Subscriber,
        first: VecDeque<TurnEvent>,
        encoder: Encoder,
        keep_alive: Duration,
        reservation: Reservation,
    ) -> Self {
        let keep_alive = KeepAlive::new(keep_alive);
        Self { turn: Some(turn), encoder, first, keep_alive, reservation }
    }

    fn encode(&mut self, events: VecDeque<TurnEvent>) -> Bytes {
        /// Most chunks of a stream are smaller.
        const USUAL_CHUNK: usize = 512;
        let mut out = Vec::with_capacity(USUAL_CHUNK);
        let running = self.encoder.running();
        for event in events {
            if event.is_terminal() {
                self.turn = None;
            }
            self.encoder.encode(event, &mut out);
        }
        if let Err(exhausted) = self.reservation.hold(out.capacity()) {
            self.encoder.take_back(running);
            out = self.overloaded(exhausted);
        }
        Bytes::from(out)
    }

    /// Ends the stream with the error `overloaded`.
    fn overloaded(&mut self, exhausted: Exhausted) -> Vec<u8> {
        let mut out = Vec::new();
        let failure = Failure { error: exhausted.into(), tools_ran: false };
        self.encoder.encode(TurnEvent::Failed(Box::new(failure)), &mut out);
        self.turn = None;
        out
    }

    fn poll_events(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return Poll::Ready(Some(self.encode(first)));
        }
        loop {
            let Some(turn) = &mut self.turn else { return Poll::Ready(None) };
            let Some(events) = ready!(turn.poll_take(context)) else { return Poll::Ready(None) };
            let bytes = self.encode(events);
            if !bytes.is_empty() {
                return Poll::Ready(Some(bytes));
            }
        }
    }
}

impl Stream for EventStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let next = this.poll_events(context);
        this.keep_alive.poll(next, context)
    }
}

/// Sends comments while a stream is silent.
#[derive(Debug)]
pub(super) struct KeepAlive {
    /// `turns.keep_alive`.
    interval: Duration,
    silence: Pin<Box<Sleep>>,
}

impl KeepAlive {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, silence: Box::pin(sleep(interval)) }
    }

    /// `next` is what the stream has to send now.
    pub(super) fn poll(
        &mut self,
        next: Poll<Option<Bytes>>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Infallible>>> {
        if let Poll::Ready(bytes) = next {
            self.silence.as_mut().reset(Instant::now() + self.interval);
            return Poll::Ready(bytes.map(Ok));
        }
        ready!(self.silence.as_mut().poll(context));
        self.silence.as_mut().reset(Instant::now() + self.interval);
        // Poll the timer once more, so that it wakes this task for the next comment.
        let _ = self.silence.as_mut().poll(context);
        Poll::Ready(Some(Ok(Bytes::from_static(COMMENT))))
    }
}
