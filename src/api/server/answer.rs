//! The body of an answer on its way to the wire, piece by piece as the client
//! takes it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::pace::{Go, Pace};
use super::phase::Answering;
use crate::openai::error::{ApiError, ErrorCode};

/// The most that is handed to hyper at once, as it copies what it is handed: far
/// more than one write takes.
const PIECE: usize = 64 << 10;

/// A response body that keeps its request alive until it is sent.
#[derive(Debug)]
pub(super) struct ResponseBody {
    body: Body,
    /// What is left of a frame that is larger than a piece.
    rest: Bytes,
    kind: Kind,
    /// What was sent so far ends with an event, not in the middle of one.
    ends_event: bool,
    pace: Arc<Pace>,
    /// `limits.slow_client`.
    patience: Duration,
    _answering: Answering,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A stream of events, which can be told how it ends.
    Events,
    Other,
    /// Nothing more is said.
    Over,
}

/// The client took nothing for too long; hyper closes the connection for it.
#[derive(Debug, thiserror::Error)]
#[error("the client takes nothing of its answer")]
struct Untaken;

type Polled = Poll<Option<Result<Frame<Bytes>, axum::Error>>>;

impl ResponseBody {
    pub(super) fn of(
        response: Response,
        pace: Arc<Pace>,
        patience: Duration,
        answering: Answering,
    ) -> hyper::Response<Self> {
        let content_type = response.headers().get(hyper::header::CONTENT_TYPE);
        let is_events =
            content_type.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let kind = if is_events { Kind::Events } else { Kind::Other };
        let rest = Bytes::new();
        response.map(|body| Self {
            body,
            rest,
            kind,
            ends_event: true,
            pace,
            patience,
            _answering: answering,
        })
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Polled {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        self.ends_event = data.ends_with(b"\n\n");
                        self.rest = data;
                    }
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    /// The client has taken nothing for too long. Whatever still works on the answer
    /// ends here, and a stream that had not ended gets its one terminal event.
    fn give_up(&mut self, cx: &mut Context<'_>) -> Polled {
        let kind = std::mem::replace(&mut self.kind, Kind::Over);
        let has_ended = matches!(Pin::new(&mut self.body).poll_frame(cx), Poll::Ready(None));
        self.body = Body::empty();
        let rest = std::mem::take(&mut self.rest);
        Poll::Ready(match kind {
            Kind::Over => None,
            Kind::Other => Some(Err(axum::Error::new(Untaken))),
            Kind::Events if has_ended => (!rest.is_empty()).then(|| Ok(Frame::data(rest))),
            Kind::Events => {
                let end = if self.ends_event { "" } else { "\n\n" };
                let word = last_word(self.patience);
                let last = [&rest[..], end.as_bytes(), word.as_bytes()].concat();
                Some(Ok(Frame::data(last.into())))
            }
        })
    }
}

fn last_word(patience: Duration) -> String {
    let message = format!(
        "Nothing of the answer was read for {} s, so it was ended; read it as it comes.",
        patience.as_secs_f64()
    );
    let error = ApiError::new(ErrorCode::SlowClient, message);
    format!("data: {}\n\ndata: [DONE]\n\n", error.body())
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        match ready!(self.pace.poll_go(cx)) {
            Go::On => self.poll_piece(cx),
            Go::Stop => self.give_up(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
