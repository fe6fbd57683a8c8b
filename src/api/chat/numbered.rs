//! Streams a turn to those who look on: each SSE event has an `id`, behind which
//! `Last-Event-ID` goes on.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::Stream;

use super::NO_BUFFERING;
use super::encode::Encoder;
use super::stream::KeepAlive;
use crate::agent::events::{Failure, TurnEvent};
use crate::memory_budget::Reservation;
use crate::sessions::running::{Position, Subscriber};

const DONE: &[u8] = b"data: [DONE]\n\n";

/// Answers with the events behind `position`, where `turn` goes on.
pub(in crate::api) fn follow(
    turn: Subscriber,
    position: Position,
    keep_alive: Duration,
    reservation: Reservation,
) -> Response {
    let shape = turn.shape.clone();
    let mut encoder = Encoder::new(&shape.envelope, shape.form.progress, shape.form.include_usage);
    let mut before = Vec::new();
    for event in turn.told_before() {
        encoder.encode(event, &mut before);
        before.clear();
    }
    let keep_alive = KeepAlive::new(keep_alive);
    let numbering = Numbering { encoder, position };
    let body = NumberedStream { turn: Some(turn), numbering, keep_alive, reservation };
    let content_type = (CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    ([content_type, NO_BUFFERING], Body::from_stream(body)).into_response()
}

#[derive(Debug)]
struct NumberedStream {
    /// `None` once the terminal event has been written.
    turn: Option<Subscriber>,
    numbering: Numbering,
    keep_alive: KeepAlive,
    /// Counts the bytes handed to hyper until it asks for more.
    reservation: Reservation,
}

/// Encodes events, and numbers what comes out.
#[derive(Debug)]
struct Numbering {
    encoder: Encoder,
    /// Where the client is.
    position: Position,
}

impl NumberedStream {
    fn poll_events(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            let Some(turn) = &mut self.turn else { return Poll::Ready(None) };
            let out = if let Some(events) = ready!(turn.poll_numbered(context)) {
                if turn.is_retold() {
                    self.numbering.position = self.numbering.position.in_record();
                }
                self.encode(events)
            } else {
                // The client has seen all but the end.
                self.turn = None;
                DONE.to_vec()
            };
            if !out.is_empty() {
                return Poll::Ready(Some(Bytes::from(out)));
            }
        }
    }

    fn encode(&mut self, events: VecDeque<(Position, TurnEvent)>) -> Vec<u8> {
        let mut out = Vec::new();
        for (behind, event) in events {
            if event.is_terminal() {
                self.turn = None;
            }
            self.numbering.encode(event, behind, &mut out);
        }
        if let Err(exhausted) = self.reservation.hold(out.capacity()) {
            self.turn = None;
            out = Vec::new();
            let failure = Failure { error: exhausted.into(), tools_ran: false };
            self.numbering.encoder.encode(TurnEvent::Failed(Box::new(failure)), &mut out);
        }
        out
    }
}

impl Numbering {
    fn encode(&mut self, event: TurnEvent, behind: Position, out: &mut Vec<u8>) {
        let (is_failure, is_terminal) =
            (matches!(event, TurnEvent::Failed(_)), event.is_terminal());
        let mut encoded = Vec::new();
        self.encoder.encode(event, &mut encoded);
        let sse_events = sse_events(&encoded);
        let last = sse_events.len().saturating_sub(1);
        // How many SSE events a client has that knows this many of them. What fails ends first
        // the tools that run: of those a record knows nothing, so they do not count.
        let written_with = |index: usize| match (is_failure, is_terminal) {
            (true, _) => usize::from(index + 1 >= last),
            (false, true) => (index + 1).min(last),
            (false, false) => index + 1,
        };
        // What was written of the end says nothing of events before it.
        let seen = if self.position.is_at_end && !is_terminal { 0 } else { self.position.written };
        let skipped = match (is_failure, is_terminal) {
            (true, _) if seen > 0 => last,
            (true, _) => 0,
            (false, true) => seen.min(last),
            (false, false) => seen,
        };
        for (index, sse_event) in sse_events.iter().enumerate().skip(skipped) {
            let id = if index == last && !is_terminal {
                behind
            } else {
                let (written, is_at_end) = (written_with(index), is_terminal);
                Position { written, is_at_end, ..self.position }
            };
            out.extend_from_slice(format!("id: {id}\n").as_bytes());
            out.extend_from_slice(sse_event);
        }
        self.position = if self.position.is_at_end && !is_terminal {
            Position { written: self.position.written, is_at_end: true, ..behind }
        } else {
            behind
        };
    }
}

/// The SSE events in `encoded`, each with its blank line.
fn sse_events(encoded: &[u8]) -> Vec<&[u8]> {
    let mut events = Vec::new();
    let mut rest = encoded;
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") {
        let (event, behind) = rest.split_at(end + 2);
        events.push(event);
        rest = behind;
    }
    events
}

impl Stream for NumberedStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let next = this.poll_events(context);
        this.keep_alive.poll(next, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::events::{Headline, ToolStart};
    use crate::errors::{ApiError, ErrorCode};
    use crate::ids::TurnId;
    use crate::sessions::request::Progress;
    use crate::sessions::running::shape::Envelope;

    fn numbering(position: Position) -> Numbering {
        let envelope = Envelope {
            id: "id".to_owned(),
            turn: TurnId::random(),
            created: 1,
            model: "m".to_owned(),
        };
        Numbering { encoder: Encoder::new(&envelope, Progress::Events, false), position }
    }

    fn started() -> TurnEvent {
        let (call_id, tool) = ("c1".to_owned(), "Read".to_owned());
        TurnEvent::ToolStarted(Box::new(ToolStart {
            call_id,
            slot: 0,
            tool,
            headline: Headline::default(),
            arguments: None,
        }))
    }

    fn failed() -> TurnEvent {
        let error = ApiError::new(ErrorCode::Internal, "no");
        TurnEvent::Failed(Box::new(Failure { error, tools_ran: true }))
    }

    /// The `(id, data)` of what is written.
    fn written(numbering: &mut Numbering, event: TurnEvent) -> Vec<(Position, String)> {
        let mut out = Vec::new();
        numbering.encode(event, Position::default(), &mut out);
        let text = String::from_utf8(out).unwrap();
        let events = text.split_terminator("\n\n").map(|event| event.split_once('\n').unwrap());
        let id = |id: &str| id.strip_prefix("id: ").unwrap().parse().unwrap();
        events.map(|(own, data)| (id(own), data.to_owned())).collect()
    }

    #[test]
    fn the_first_event_with_its_role_can_be_gone_on_behind() {
        let text = || TurnEvent::Text("Hi".to_owned());
        let all = written(&mut numbering(Position::default()), text());
        assert_eq!(all.len(), 2);

        let behind = written(&mut numbering(all[0].0), text());

        assert_eq!(behind, all[1..]);
    }

    #[test]
    fn a_failure_is_never_lost_and_its_end_comes_again() {
        let mut whole = numbering(Position::default());
        written(&mut whole, started());
        // The end of the tool, the error, and the end of the stream.
        let all = written(&mut whole, failed());
        assert_eq!(all.len(), 3);

        let mut behind = Vec::new();
        for (id, _) in all {
            // The record tells nothing of the tool.
            let told = written(&mut numbering(id), failed());
            behind.push(told.into_iter().map(|(_, data)| data).collect::<Vec<_>>());
        }

        assert!(behind[0].len() == 2 && behind[0][0].contains("internal"), "{behind:?}");
        assert_eq!(behind[1], ["data: [DONE]"]);
        assert_eq!(behind[2], ["data: [DONE]"]);
    }
}
