//! Answers `GET /toolhand/v1/turns`: the turns under way.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::api::request_context::RequestContext;
use crate::errors::ApiError;
use crate::sessions::rest::Rest;

pub(crate) async fn list(
    State(rest): State<Arc<Rest>>,
    context: RequestContext,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(rest.turns(context.scope).await?))
}
