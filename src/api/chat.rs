//! Answers `POST /v1/chat/completions`: starts a turn and encodes its events.

mod collect;
mod completion;
mod delivered_failures;
mod encode;
mod frontend_answers;
mod lists;
pub(super) mod numbered;
mod progress_choice;
mod stream;
pub(crate) mod validate;

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use tokio::time::{Instant, timeout_at};

use self::collect::Collected;
use self::completion::Completion;
pub(crate) use self::delivered_failures::DeliveredFailures;
use self::delivered_failures::FailureAnswer;
use self::encode::Encoder;
use self::stream::EventStream;
use super::request_context::RequestContext;
use crate::agent::events::{Failure, TurnEvent};
use crate::clock;
use crate::errors::{ApiError, ErrorCode};
use crate::http::budgeted_body::budgeted_body;
use crate::http::errors::never_retry;
use crate::http::headers::{SESSION, TURN, header_value};
use crate::ids::{KeyId, Scope, TurnId};
use crate::memory_budget::{Exhausted, MemoryBudget, Reservation};
use crate::sessions::Sessions;
use crate::sessions::begin::Caller;
use crate::sessions::message::Role;
use crate::sessions::request::{ChatRequest, Progress};
use crate::sessions::running::Subscriber;
use crate::sessions::running::limits::{RunLimits, RunPermit};
use crate::sessions::running::shape::{AnswerForm, AnswerShape, Envelope};
use crate::store::StoreError;

/// nginx buffers answers unless this header forbids it.
const NO_BUFFERING: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

/// The services that a chat completion needs.
#[derive(Debug)]
pub(crate) struct Chat {
    pub(crate) turns: Sessions,
    pub(crate) runs: RunLimits,
    pub(crate) memory_budget: MemoryBudget,
    pub(crate) failures: DeliveredFailures,
}

/// Answers one chat completion.
pub(crate) async fn create(
    State(chat): State<Arc<Chat>>,
    request: validate::Validated,
) -> Response {
    let validate::Validated { mut request, context, fingerprint } = request;
    if let Some(failure) = chat.failures.answer(context.scope, fingerprint) {
        return failure;
    }
    let form = form_of(&request, chat.turns.default_progress());
    request.progress = Some(form.progress);
    let model = request.model.clone();
    let scope = context.scope;
    let named = request.named.as_ref().map(|named| header_value(named.text()));
    let without_turn = |response: Response| match named {
        Some(name) => ([(SESSION, name)], response).into_response(),
        None => response,
    };
    match waits_for_a_person(&chat, scope, &request).await {
        Ok(true) => {
            let shape = shape_without_turn(model, form);
            return without_turn(frontend_answers::no_follow_ups(&shape));
        }
        Ok(false) => {}
        Err(error) => return ApiError::from(error).into_response(),
    }
    let begin = async || {
        let permit = run_permit(&chat, scope, &context.key_id).await?;
        let RequestContext { client_key, upstream_headers: headers, .. } = context;
        let caller = Caller {
            scope,
            key: client_key.id.clone(),
            disconnect_grace: client_key.disconnect_grace,
            revoked: client_key.revoked.clone(),
            fingerprint,
            form,
            headers,
        };
        // The largest future of a request by far, and done before the answer begins.
        Box::pin(chat.turns.begin(request, caller, permit)).await
    };
    let subscriber = match chat.turns.running.listen(scope, fingerprint, form, begin).await {
        Ok(Some(subscriber)) => subscriber,
        Ok(None) => {
            let shape = shape_without_turn(model, form);
            return without_turn(frontend_answers::nothing_to_do(&shape));
        }
        Err(error) if error.code == ErrorCode::Cancelled => {
            return never_retry(error.into_response());
        }
        Err(error) => return error.into_response(),
    };
    let session = header_value(&subscriber.session);
    let turn = header_value(subscriber.turn.as_str());
    let shape = Arc::clone(&subscriber.shape);
    let answered = if shape.form.stream {
        streamed(&chat, subscriber, &shape).await
    } else {
        whole(subscriber, &shape, chat.memory_budget.reservation()).await
    };
    match answered {
        Ok(response) => ([(SESSION, session), (TURN, turn)], response).into_response(),
        Err(Failure { error, tools_ran: true }) => {
            // Whoever stops a turn may ask for it anew at once.
            let is_stop = error.code == ErrorCode::Cancelled;
            let failure = FailureAnswer { error, session, turn };
            if !shape.form.stream && !is_stop {
                chat.failures.note(scope, fingerprint, failure.clone());
            }
            failure.into_response()
        }
        Err(Failure { error, tools_ran: false }) => {
            ([(SESSION, session), (TURN, turn)], error).into_response()
        }
    }
}

/// Lets one more turn run. A turn that is being stopped makes room within moments.
async fn run_permit(chat: &Chat, scope: Scope, key: &KeyId) -> Result<RunPermit, ApiError> {
    if let Ok(permit) = chat.runs.permit(key) {
        return Ok(permit);
    }
    chat.turns.running.stopped(scope, None).await;
    chat.runs.permit(key)
}

/// Whether a frontend asks what the user could say next, while a question waits for the user.
async fn waits_for_a_person(
    chat: &Chat,
    scope: Scope,
    request: &ChatRequest,
) -> Result<bool, StoreError> {
    let users = request.messages.iter().rev().find(|message| message.role == Role::User);
    let Some(prompt) = users.filter(|_| request.is_background).map(|message| message.text()) else {
        return Ok(false);
    };
    if !frontend_answers::asks_for_follow_ups(&prompt) {
        return Ok(false);
    }
    let quotes = |code: &str| frontend_answers::quotes_code(&prompt, code);
    chat.turns.is_suspended(scope, request, quotes).await
}

/// How an answer is shown that needs no turn.
fn shape_without_turn(model: String, form: AnswerForm) -> AnswerShape {
    let envelope = Envelope::of_turn(&TurnId::random(), clock::now_ms(), model);
    AnswerShape { envelope, form }
}

fn form_of(request: &ChatRequest, default_progress: Progress) -> AnswerForm {
    AnswerForm {
        stream: request.stream,
        include_usage: request.include_usage,
        progress: progress_choice::choose(request.progress, default_progress, request.frontend),
    }
}

/// Holds the head back until the first event that releases it or until `turns.head_hold`,
/// so that a quick failure has its own status.
async fn streamed(
    chat: &Chat,
    mut subscriber: Subscriber,
    shape: &AnswerShape,
) -> Result<Response, Failure> {
    let deadline = Instant::now() + chat.turns.settings().head_hold;
    let mut first = VecDeque::new();
    while !first.iter().any(TurnEvent::releases_head) {
        match timeout_at(deadline, subscriber.take()).await {
            Ok(Some(events)) => first.extend(events),
            Ok(None) => return Err(Failure::crash()),
            Err(_) => break,
        }
    }
    if let Some(TurnEvent::Failed(failure)) = first.iter().find(|event| event.releases_head()) {
        return Err(Failure::clone(failure));
    }
    let encoder = Encoder::new(&shape.envelope, shape.form.progress, shape.form.include_usage);
    let body = EventStream::new(
        subscriber,
        first,
        encoder,
        chat.turns.settings().keep_alive,
        chat.memory_budget.reservation(),
    );
    let content_type = (CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(([content_type, NO_BUFFERING], Body::from_stream(body)).into_response())
}

async fn whole(
    mut subscriber: Subscriber,
    shape: &AnswerShape,
    mut memory: Reservation,
) -> Result<Response, Failure> {
    /// Collected texts grow piece by piece, so a buffer may have twice the size of its
    /// text. The completion is written while they are still kept.
    const COPIES: usize = 3;
    let mut collected = Collected::new(shape.form.progress);
    let (mut size_estimate, mut tools_ran) = (0, false);
    let overloaded =
        |exhausted: Exhausted, tools_ran| Failure { error: exhausted.into(), tools_ran };
    while let Some(events) = subscriber.take().await {
        for event in events {
            match event {
                TurnEvent::Finished(finished) => {
                    let completion = Completion::new(&mut collected, &shape.envelope, &finished);
                    return json(&completion, memory)
                        .map_err(|exhausted| overloaded(exhausted, tools_ran));
                }
                TurnEvent::Failed(failure) => return Err(*failure),
                event => {
                    tools_ran |= matches!(event, TurnEvent::ToolStarted(_));
                    size_estimate += event.size_estimate();
                    if let Err(exhausted) = memory.hold(COPIES * size_estimate) {
                        return Err(overloaded(exhausted, tools_ran));
                    }
                    collected.push(event);
                }
            }
        }
    }
    Err(Failure::crash())
}

fn json(completion: &Completion<'_>, memory: Reservation) -> Result<Response, Exhausted> {
    let content_type = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = serde_json::to_vec(completion).expect("writing to memory does not fail");
    let body = budgeted_body(body.into(), memory)?;
    Ok(([content_type], body).into_response())
}
