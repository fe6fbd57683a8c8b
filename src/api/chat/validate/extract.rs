//! What the chat handler is given: a request that has passed every check.

use std::sync::Arc;

use axum::extract::{FromRef, FromRequest, FromRequestParts, Request};
use axum::http::HeaderMap;
use bytes::Bytes;

use super::{Context, validate};
use crate::api::chat::retries::Sent;
use crate::api::request_context::RequestContext;
use crate::blocking::VALIDATION;
use crate::buffers::Buffers;
use crate::http::body;
use crate::openai::error::{ApiError, ErrorCode};
use crate::sessions::request::ChatRequest;

/// A body of this size is checked where it holds up no other request.
const LARGE: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Validated {
    pub(crate) request: ChatRequest,
    pub(crate) context: RequestContext,
    /// How it is known again when it is sent again.
    pub(crate) sent: Sent,
}

impl<S: Sync> FromRequest<S> for Validated
where
    Arc<Context>: FromRef<S>,
    Buffers: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let rules = Arc::<Context>::from_ref(state);
        let (mut parts, body) = request.into_parts();
        let Ok(context) = RequestContext::from_request_parts(&mut parts, state).await;
        let headers = parts.headers.clone();
        let share = Buffers::from_ref(state).share();
        let request = Request::from_parts(parts, body);
        let (body, _share) = body::read_json(request, &rules.limits, share).await?;
        let (request, sent) = if body.len() < LARGE {
            read(&body, &headers, &rules)?
        } else {
            read_aside(body, headers, rules).await?
        };
        tracing::info!(
            request = %context.request_id,
            key = %context.key_id,
            model = request.model,
            messages = request.messages.len(),
            "chat completion"
        );
        Ok(Self { request, context, sent })
    }
}

fn read(
    body: &[u8],
    headers: &HeaderMap,
    rules: &Context,
) -> Result<(ChatRequest, Sent), ApiError> {
    Ok((validate(body, headers, rules)?, Sent::of(headers, body)))
}

async fn read_aside(
    body: Bytes,
    headers: HeaderMap,
    rules: Arc<Context>,
) -> Result<(ChatRequest, Sent), ApiError> {
    VALIDATION
        .run(move || read(&body, &headers, &rules))
        .await
        .map_err(|overloaded| ApiError::new(ErrorCode::Overloaded, overloaded.to_string()))?
}
