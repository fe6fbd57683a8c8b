//! Answers `GET /toolhand/v1/sessions/{session}`: the session with the messages of its newest
//! branch.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::api::path_id::PathId;
use crate::api::request_context::RequestContext;
use crate::errors::ApiError;
use crate::http::budgeted_body::budgeted_body;
use crate::memory_budget::MemoryBudget;
use crate::sessions::rest::Rest;

pub(crate) async fn show(
    State(rest): State<Arc<Rest>>,
    State(memory_budget): State<MemoryBudget>,
    context: RequestContext,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let session = rest.export(context.scope, context.client_key.mode, &id).await?;
    let json = serde_json::to_vec(&session).expect("writing to memory does not fail");
    let body = budgeted_body(json.into(), memory_budget.reservation())?;
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}
