//! Answers `GET /toolhand/v1/tools`: the tool definitions as they go upstream.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::json;

use super::request_context::RequestContext;
use crate::tools::catalogue::ToolCatalogue;

pub(crate) async fn list(
    State(tools): State<ToolCatalogue>,
    context: RequestContext,
) -> impl IntoResponse {
    let toolset = tools.snapshot(&context.key_id);
    Json(json!({ "object": "list", "data": toolset.definitions() }))
}
