//! Answers `POST /toolhand/v1/approvals/{approval}`: records a person's decision.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::response::IntoResponse;

use crate::api::path_id::PathId;
use crate::api::request_context::RequestContext;
use crate::api::strict_json;
use crate::errors::{ApiError, ErrorCode};
use crate::http::body;
use crate::limits::Limits;
use crate::memory_budget::MemoryBudget;
use crate::permissions::GrantHolder;
use crate::sessions::id_sources::IdSources;
use crate::sessions::rest::Rest;

pub(crate) async fn decide(
    State(rest): State<Arc<Rest>>,
    State(limits): State<Arc<Limits>>,
    State(memory_budget): State<MemoryBudget>,
    State(id_sources): State<Arc<IdSources>>,
    request: Request,
) -> Result<impl IntoResponse, ApiError> {
    let (mut parts, body) = request.into_parts();
    let Ok(context) = RequestContext::from_request_parts(&mut parts, &id_sources).await;
    let Ok(PathId(id)) = PathId::from_request_parts(&mut parts, &()).await;
    let request = Request::from_parts(parts, body);
    let (body, _share) = body::read_json(request, &limits, memory_budget.reservation()).await?;
    // Each member has one possible reading: what is approved is what the person sent.
    strict_json::check(&body)?;
    let body = serde_json::from_slice(&body).map_err(|error| {
        ApiError::new(ErrorCode::InvalidJson, format!("The body is not valid JSON: {error}."))
    })?;
    let holder = GrantHolder { key: context.key_id, scope: context.scope };
    Ok(Json(rest.decide(holder, &id, &body).await?))
}
