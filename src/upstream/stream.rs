//! Reads one answer from upstream chunk by chunk, and enforces its deadlines.

mod decode;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use reqwest::Response;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::deadlines::{Deadlines, Expired};
use super::fault::Fault;
use super::settings::UpstreamSettings;
use super::sse::guard::SseLimits;
use crate::memory_budget::Reservation;
use crate::openai::chunk::Chunk;
use crate::sync;
use decode::Decoder;

/// A line takes three times its length: its pieces, the line joined from them, and the text
/// parsed from it.
const READING: usize = 3;

/// What [`ChunkStream::next`] returns.
#[derive(Debug)]
pub(crate) enum StreamEvent {
    Chunk(Box<Chunk>),
    /// `[DONE]`, or the end of an unstreamed completion.
    Done,
    /// The stream ended after a `finish_reason`, without `[DONE]`.
    End,
}

/// One answer from upstream. Dropping it closes the connection, unless the answer has ended.
#[derive(Debug)]
pub(crate) struct ChunkStream {
    /// `None` when nothing more will be read.
    response: Option<Response>,
    decoder: Decoder,
    /// The last event, until all that comes before it was returned.
    last: Option<Result<StreamEvent, Fault>>,
    deadlines: Deadlines,
    /// Fires at the next deadline, or at an earlier one that has since moved.
    alarm: Pin<Box<Sleep>>,
    drains: Arc<Draining>,
    reservation: Reservation,
}

/// The outcome of one read.
enum Received {
    Bytes(Bytes),
    End,
    Broken(Fault),
    Expired(Expired),
}

impl ChunkStream {
    pub(super) fn new(
        response: Response,
        caps: SseLimits,
        settings: &UpstreamSettings,
        drains: Arc<Draining>,
        reservation: Reservation,
    ) -> Self {
        let deadlines = Deadlines::new(settings, Instant::now());
        let alarm = Box::pin(sleep_until(deadlines.next()));
        let decoder = Decoder::new(caps);
        let response = Some(response);
        Self { response, decoder, last: None, deadlines, alarm, drains, reservation }
    }

    /// The next event. After the last one, [`StreamEvent::End`] each time. Cancel-safe: no byte
    /// is lost.
    pub(crate) async fn next(&mut self) -> Result<StreamEvent, Fault> {
        loop {
            if let Some(event) = self.next_buffered() {
                return event;
            }
            match self.read().await {
                Received::Bytes(bytes) => self.push(bytes),
                Received::End => self.finish(),
                Received::Broken(fault) => self.broken(fault),
                Received::Expired(expired) => self.expired(expired),
            }
        }
    }

    /// The next event of what has been read already, if there is one.
    pub(crate) fn next_buffered(&mut self) -> Option<Result<StreamEvent, Fault>> {
        let event = self.last.take().or_else(|| self.decoder.next())?;
        let is_last = !matches!(event, Ok(StreamEvent::Chunk(_)));
        if is_last && let Some(rest) = self.decoder.rest() {
            self.last = Some(event);
            return Some(self.note(Ok(StreamEvent::Chunk(Box::new(rest)))));
        }
        Some(self.note(event))
    }

    /// Gives bytes to the decoder, and reserves memory for what it holds.
    fn push(&mut self, bytes: Bytes) {
        self.decoder.push(bytes);
        self.reserve(READING * self.decoder.held());
    }

    /// Notes the end of the body, and reserves memory for parsing what is left of it.
    fn finish(&mut self) {
        /// The most that a JSON value takes beside its text.
        const VALUE: usize = 64;
        self.decoder.finish();
        let (held, values) = (self.decoder.held(), self.decoder.values_in_whole_answer());
        self.reserve(READING * held + VALUE * values);
    }

    fn reserve(&mut self, bytes: usize) {
        if let Err(exhausted) = self.reservation.hold(bytes) {
            self.end_here(Err(exhausted.into()));
        }
    }

    /// Updates the deadlines, and returns the connection to the pool after the last event.
    fn note(&mut self, event: Result<StreamEvent, Fault>) -> Result<StreamEvent, Fault> {
        match &event {
            Ok(StreamEvent::Chunk(chunk)) => {
                if chunk.is_progress() {
                    self.deadlines.data_came(Instant::now());
                }
                if chunk.finish_reason.is_some() && !self.deadlines.is_finished() {
                    self.deadlines.finished();
                    self.alarm.as_mut().reset(self.deadlines.next());
                }
            }
            Ok(StreamEvent::Done) => self.give_back(),
            Ok(StreamEvent::End) | Err(_) => self.response = None,
        }
        event
    }

    /// Waits for bytes, the end of the body, or a deadline.
    async fn read(&mut self) -> Received {
        let Some(response) = &mut self.response else { return Received::End };
        loop {
            tokio::select! {
                // Bytes that have come count even if a deadline passed meanwhile.
                biased;
                read = response.chunk() => {
                    self.deadlines.bytes_came(Instant::now());
                    return match read {
                        Ok(Some(bytes)) => Received::Bytes(bytes),
                        Ok(None) => Received::End,
                        Err(error) => Received::Broken(Fault::from_body_error(&error)),
                    };
                }
                () = self.alarm.as_mut() => {
                    if let Some(expired) = self.deadlines.expired(Instant::now()) {
                        return Received::Expired(expired);
                    }
                    self.alarm.as_mut().reset(self.deadlines.next());
                }
            }
        }
    }

    /// The connection broke. An answer that was already complete stays one.
    fn broken(&mut self, fault: Fault) {
        self.end_here(if self.deadlines.is_finished() { Ok(StreamEvent::End) } else { Err(fault) });
    }

    fn expired(&mut self, expired: Expired) {
        self.end_here(match expired {
            Expired::End => Ok(StreamEvent::End),
            Expired::Idle(time) => Err(Fault::Idle(time)),
            Expired::Comment(time) => Err(Fault::Comment(time)),
        });
    }

    /// Ends the stream with this event, and closes the connection.
    fn end_here(&mut self, with: Result<StreamEvent, Fault>) {
        self.decoder.end();
        self.response = None;
        self.last = Some(with);
    }

    /// Returns the connection to the pool: the rest of the body must be read for that.
    fn give_back(&mut self) {
        if let Some(response) = self.response.take() {
            self.drains.drain(response, self.decoder.ignored);
        }
    }
}

/// Reads the rest of bodies behind their `[DONE]`, so that their connections can be reused.
/// Usually only the end of the body follows.
#[derive(Debug, Default)]
pub(super) struct Draining(Mutex<JoinSet<()>>);

impl Draining {
    /// How long the rest may take before the connection is closed: within the 1 s that
    /// docs/stream.md promises under Cancel.
    const TIME: Duration = Duration::from_millis(500);

    /// `ignored` bytes behind the `[DONE]` have been read already.
    fn drain(&self, mut response: Response, mut ignored: usize) {
        match response.chunk().now_or_never() {
            Some(Ok(None) | Err(_)) => return count(ignored),
            Some(Ok(Some(bytes))) => ignored += bytes.len(),
            None => {}
        }
        let mut tasks = sync::lock(&self.0);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let to_the_end = async {
                while let Ok(Some(bytes)) = response.chunk().await {
                    ignored += bytes.len();
                }
            };
            timeout(Self::TIME, to_the_end).await.ok();
            count(ignored);
        });
    }
}

/// Logs how much an upstream sent after its end.
fn count(ignored: usize) {
    if ignored > 0 {
        tracing::warn!(bytes = ignored, "upstream sent more after [DONE]; it was ignored");
    }
}
