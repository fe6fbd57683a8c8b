//! Answers `POST /v1/chat/completions`: starts a turn and encodes its events.

mod collect;
mod completion;
mod encode;
mod frontend_answers;
pub(crate) mod idempotency;
mod kept;
mod lists;
mod log;
mod progress_choice;
mod shared_turn;
mod stream;
pub(crate) mod validate;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use tokio::time::{Instant, timeout_at};

use self::collect::Collected;
use self::completion::Completion;
use self::encode::{Encoder, Envelope};
use self::idempotency::{Idempotency, RequestFingerprint};
use self::shared_turn::{Retention, SharedTurn, Subscriber};
use self::stream::EventStream;
use super::request_context::RequestContext;
use super::runs::RunLimits;
use crate::agent::events::{Failure, TurnEvent};
use crate::errors::{ApiError, ErrorCode};
use crate::http::budgeted_body::budgeted_body;
use crate::http::errors::never_retry;
use crate::http::headers::{SESSION, TURN};
use crate::ids::CompletionId;
use crate::memory_budget::{Exhausted, MemoryBudget, Reservation};
use crate::sessions::Sessions;
use crate::sessions::request::{ChatRequest, Progress};

/// nginx buffers answers unless this header forbids it.
const NO_BUFFERING: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

/// The services that a chat completion needs.
#[derive(Debug)]
pub(crate) struct Chat {
    pub(crate) turns: Sessions,
    pub(crate) runs: RunLimits,
    /// Turns that a retry may join.
    pub(crate) idempotency: Idempotency,
    pub(crate) memory_budget: MemoryBudget,
}

/// Answers one chat completion.
pub(crate) async fn create(
    State(chat): State<Arc<Chat>>,
    request: validate::Validated,
) -> Response {
    let validate::Validated { request, context, fingerprint } = request;
    let key = context.key_id.clone();
    let start = || start(&chat, request, context, fingerprint);
    let subscriber = match chat.idempotency.listen(&key, fingerprint, start).await {
        Ok(subscriber) => subscriber,
        Err(error) if error.code == ErrorCode::Cancelled => {
            return never_retry(error.into_response());
        }
        Err(error) => return error.into_response(),
    };
    let run = subscriber.run.clone();
    let session = (SESSION, header(&run.session.to_string()));
    let id = (TURN, header(&run.turn.to_string()));
    let response = if run.shape.stream {
        streamed(&chat, subscriber, &run.shape).await
    } else {
        whole(subscriber, &run.shape, chat.memory_budget.reservation()).await
    };
    ([session, id], response).into_response()
}

/// Starts a new turn, if the limits of turns allow one more.
fn start(
    chat: &Chat,
    mut request: ChatRequest,
    context: RequestContext,
    fingerprint: RequestFingerprint,
) -> Result<Subscriber, ApiError> {
    let permit = chat.runs.permit(&context.key_id)?;
    let shape = Shape::from_request(&request, chat.turns.default_progress());
    request.progress = Some(shape.progress);
    let turn = chat.turns.start(request, context.upstream_headers)?;
    let retention =
        if turn.has_tools || fingerprint.is_named() { Retention::All } else { Retention::Nothing };
    Ok(SharedTurn::begin(turn, permit, shape, retention, chat.idempotency.memory()))
}

/// How the answer is encoded.
#[derive(Debug)]
struct Shape {
    envelope: Envelope,
    stream: bool,
    include_usage: bool,
    progress: Progress,
}

impl Shape {
    fn from_request(request: &ChatRequest, configured: Progress) -> Self {
        let envelope = Envelope {
            id: CompletionId::random().to_string(),
            created: seconds_since_1970(),
            model: request.model.clone(),
        };
        Self {
            envelope,
            stream: request.stream,
            include_usage: request.include_usage,
            progress: progress_choice::choose(request.progress, configured, request.frontend),
        }
    }
}

/// Holds the head back until the first event that releases it or until `turns.head_hold`,
/// so that a quick failure has its own status.
async fn streamed(chat: &Chat, mut subscriber: Subscriber, shape: &Shape) -> Response {
    let deadline = Instant::now() + chat.turns.settings().head_hold;
    let mut first = VecDeque::new();
    while !first.iter().any(TurnEvent::releases_head) {
        match timeout_at(deadline, subscriber.take()).await {
            Ok(Some(events)) => first.extend(events),
            Ok(None) => return failed(&Failure::crash()),
            Err(_) => break,
        }
    }
    if let Some(TurnEvent::Failed(failure)) = first.iter().find(|event| event.releases_head()) {
        return failed(failure);
    }
    let encoder = Encoder::new(&shape.envelope, shape.progress, shape.include_usage);
    let body = EventStream::new(
        subscriber,
        first,
        encoder,
        chat.turns.settings().keep_alive,
        chat.memory_budget.reservation(),
    );
    let content_type = (CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    ([content_type, NO_BUFFERING], Body::from_stream(body)).into_response()
}

async fn whole(mut subscriber: Subscriber, shape: &Shape, mut memory: Reservation) -> Response {
    /// Collected texts grow piece by piece, so a buffer may have twice the size of its
    /// text. The completion is written while they are still kept.
    const COPIES: usize = 3;
    let mut collected = Collected::new(shape.progress);
    let (mut size_estimate, mut tools_ran) = (0, false);
    let overloaded =
        |exhausted: Exhausted, tools_ran| failed(&Failure { error: exhausted.into(), tools_ran });
    while let Some(events) = subscriber.take().await {
        for event in events {
            match event {
                TurnEvent::Finished(finished) => {
                    let completion = Completion::new(&mut collected, &shape.envelope, &finished);
                    return json(&completion, memory)
                        .unwrap_or_else(|exhausted| overloaded(exhausted, tools_ran));
                }
                TurnEvent::Failed(failure) => return failed(&failure),
                event => {
                    tools_ran |= matches!(event, TurnEvent::ToolStarted(_));
                    size_estimate += event.size_estimate();
                    if let Err(exhausted) = memory.hold(COPIES * size_estimate) {
                        return overloaded(exhausted, tools_ran);
                    }
                    collected.push(event);
                }
            }
        }
    }
    failed(&Failure::crash())
}

fn json(completion: &Completion<'_>, memory: Reservation) -> Result<Response, Exhausted> {
    let content_type = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = serde_json::to_vec(completion).expect("writing to memory does not fail");
    let body = budgeted_body(body.into(), memory)?;
    Ok(([content_type], body).into_response())
}

fn failed(failure: &Failure) -> Response {
    let response = failure.error.clone().into_response();
    if failure.tools_ran { never_retry(response) } else { response }
}

fn header(id: &str) -> HeaderValue {
    HeaderValue::from_str(id).expect("our ids are plain ASCII")
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
