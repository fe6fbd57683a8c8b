//! Extracts and validates the chat completion of an HTTP request.

use std::sync::Arc;

use axum::extract::{FromRef, FromRequest, FromRequestParts, Request};
use axum::http::HeaderMap;
use bytes::Bytes;

use super::{Context, key_bounds, validate};
use crate::api::request_context::RequestContext;
use crate::blocking::VALIDATION;
use crate::errors::{ApiError, ErrorCode};
use crate::http::body;
use crate::memory_budget::MemoryBudget;
use crate::sessions::id_sources::IdSources;
use crate::sessions::request::ChatRequest;
use crate::sessions::running::RequestFingerprint;
use crate::tools::catalogue::ToolSnapshot;

/// Bodies of this size are validated on the blocking pool, so that they delay no other
/// request.
const MIN_BLOCKING_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Validated {
    pub(crate) request: ChatRequest,
    pub(crate) context: RequestContext,
    /// Identifies the request when it is sent again.
    pub(crate) fingerprint: RequestFingerprint,
}

impl<S: Sync> FromRequest<S> for Validated
where
    Arc<Context>: FromRef<S>,
    Arc<IdSources>: FromRef<S>,
    MemoryBudget: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let rules = Arc::<Context>::from_ref(state);
        let (mut parts, body) = request.into_parts();
        let Ok(context) = RequestContext::from_request_parts(&mut parts, state).await;
        let rules = key_bounds::bounded(rules, &context.client_key)?;
        let headers = parts.headers.clone();
        let tools = rules.catalogue.for_turn().await;
        let reservation = MemoryBudget::from_ref(state).reservation();
        let request = Request::from_parts(parts, body);
        let (body, _share) = body::read_json(request, &rules.limits, reservation).await?;
        let (request, fingerprint) = if body.len() < MIN_BLOCKING_BYTES {
            read(&body, &headers, &rules, &tools)?
        } else {
            read_aside(body, headers, rules, tools).await?
        };
        tracing::info!(
            request = %context.request_id,
            key = %context.key_id,
            model = request.model,
            messages = request.messages.len(),
            "chat completion"
        );
        Ok(Self { request, context, fingerprint })
    }
}

fn read(
    body: &[u8],
    headers: &HeaderMap,
    rules: &Context,
    tools: &ToolSnapshot,
) -> Result<(ChatRequest, RequestFingerprint), ApiError> {
    let request = validate(body, headers, rules, tools)?;
    let fingerprint = RequestFingerprint::from_request(headers, request.named.as_ref(), body);
    Ok((request, fingerprint))
}

async fn read_aside(
    body: Bytes,
    headers: HeaderMap,
    rules: Arc<Context>,
    tools: ToolSnapshot,
) -> Result<(ChatRequest, RequestFingerprint), ApiError> {
    VALIDATION
        .run(move || read(&body, &headers, &rules, &tools))
        .await
        .map_err(|overloaded| ApiError::new(ErrorCode::Overloaded, overloaded.to_string()))?
}
