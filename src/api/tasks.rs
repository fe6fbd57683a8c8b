//! Answers `GET /toolhand/v1/tasks`: the background tasks, the one started last first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use super::request_context::RequestContext;
use crate::sessions::rest::Rest;

pub(crate) async fn list(
    State(rest): State<Arc<Rest>>,
    context: RequestContext,
) -> impl IntoResponse {
    Json(rest.tasks(context.scope))
}
