//! Answers `POST /toolhand/v1/turns/{turn}/cancel`: stops the turn, and returns when it is over.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::api::path_id::PathId;
use crate::api::request_context::RequestContext;
use crate::errors::ApiError;
use crate::sessions::rest::Rest;

pub(crate) async fn cancel(
    State(rest): State<Arc<Rest>>,
    context: RequestContext,
    PathId(id): PathId,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(rest.cancel(context.scope, &id).await?))
}
