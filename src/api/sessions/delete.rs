//! Answers `DELETE /toolhand/v1/sessions/{session}`: stops what runs in it, and removes it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::api::path_id::PathId;
use crate::api::request_context::RequestContext;
use crate::errors::ApiError;
use crate::sessions::rest::Rest;

pub(crate) async fn delete(
    State(rest): State<Arc<Rest>>,
    context: RequestContext,
    PathId(id): PathId,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(rest.delete(context.scope, &id).await?))
}
