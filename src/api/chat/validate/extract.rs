//! What the chat handler is given: a request that has passed every check.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::HeaderMap;
use bytes::Bytes;

use super::validate;
use crate::api::chat::retries::Sent;
use crate::api::facts::RequestFacts;
use crate::api::{App, body};
use crate::blocking::VALIDATION;
use crate::openai::error::{ApiError, ErrorCode};
use crate::sessions::request::ChatRequest;

/// A body of this size is checked where it holds up no other request.
const LARGE: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Validated {
    pub(crate) request: ChatRequest,
    pub(crate) facts: RequestFacts,
    /// How it is known again when it is sent again.
    pub(crate) sent: Sent,
}

impl FromRequest<Arc<App>> for Validated {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let Ok(facts) = RequestFacts::from_request_parts(&mut parts, app).await;
        let headers = parts.headers.clone();
        let share = app.buffers.share();
        let request = Request::from_parts(parts, body);
        let (body, _share) = body::read_json(request, &app.limits, share).await?;
        let (request, sent) = if body.len() < LARGE {
            read(&body, &headers, app)?
        } else {
            read_aside(body, headers, app.clone()).await?
        };
        tracing::info!(
            request = %facts.request_id,
            key = %facts.key_id,
            model = request.model,
            messages = request.messages.len(),
            "chat completion"
        );
        Ok(Self { request, facts, sent })
    }
}

fn read(body: &[u8], headers: &HeaderMap, app: &App) -> Result<(ChatRequest, Sent), ApiError> {
    Ok((validate(body, headers, &app.chat)?, Sent::of(headers, body)))
}

async fn read_aside(
    body: Bytes,
    headers: HeaderMap,
    app: Arc<App>,
) -> Result<(ChatRequest, Sent), ApiError> {
    VALIDATION
        .run(move || read(&body, &headers, &app))
        .await
        .map_err(|overloaded| ApiError::new(ErrorCode::Overloaded, overloaded.to_string()))?
}
