//! Passes an answer's body to hyper piece by piece, as the client takes it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::connection_state::Answering;
use super::write_stall::{Permission, WriteStall};
use crate::errors::{ApiError, ErrorCode};

/// The most that is given to hyper at once, because hyper copies it. Far more than one
/// write takes.
const MAX_PIECE: usize = 64 << 10;

/// A response body that keeps its request's state until it is sent.
#[derive(Debug)]
pub(super) struct ResponseBody {
    body: Body,
    /// The rest of a frame that is larger than a piece.
    rest: Bytes,
    kind: Kind,
    /// Whether the bytes sent so far end with a whole event.
    ends_event: bool,
    stall: Arc<WriteStall>,
    /// `limits.slow_client`.
    slow_client: Duration,
    _answering: Answering,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Server-sent events, which can end with an error event.
    Events,
    Other,
    /// Nothing more is sent.
    Ended,
}

/// The client took nothing for too long. hyper closes the connection on this error.
#[derive(Debug, thiserror::Error)]
#[error("the client takes nothing of its answer")]
struct SlowClient;

type Polled = Poll<Option<Result<Frame<Bytes>, axum::Error>>>;

impl ResponseBody {
    pub(super) fn wrap(
        response: Response,
        stall: Arc<WriteStall>,
        slow_client: Duration,
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
            stall,
            slow_client,
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
        let piece = self.rest.split_to(self.rest.len().min(MAX_PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    /// Ends the answer for a client that has taken nothing for too long. This drops the
    /// body, and with it the work that feeds it. A stream without its terminal event gets
    /// one.
    fn poll_terminate(&mut self, cx: &mut Context<'_>) -> Polled {
        let kind = std::mem::replace(&mut self.kind, Kind::Ended);
        let has_ended = matches!(Pin::new(&mut self.body).poll_frame(cx), Poll::Ready(None));
        self.body = Body::empty();
        let rest = std::mem::take(&mut self.rest);
        Poll::Ready(match kind {
            Kind::Ended => None,
            Kind::Other => Some(Err(axum::Error::new(SlowClient))),
            Kind::Events if has_ended => (!rest.is_empty()).then(|| Ok(Frame::data(rest))),
            Kind::Events => {
                let end = if self.ends_event { "" } else { "\n\n" };
                let error = terminal_event(self.slow_client);
                let last = [&rest[..], end.as_bytes(), error.as_bytes()].concat();
                Some(Ok(Frame::data(last.into())))
            }
        })
    }
}

fn terminal_event(slow_client: Duration) -> String {
    let message = format!(
        "Nothing of the answer was read for {} s, so it was ended; read it as it comes.",
        slow_client.as_secs_f64()
    );
    let error = ApiError::new(ErrorCode::SlowClient, message);
    format!("data: {}\n\ndata: [DONE]\n\n", error.body())
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        match ready!(self.stall.poll_permission(cx)) {
            Permission::Continue => self.poll_piece(cx),
            Permission::Terminate => self.poll_terminate(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
