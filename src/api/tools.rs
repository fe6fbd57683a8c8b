//! Answers `GET /toolhand/v1/tools`: the tool definitions as they go upstream.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::json;

use crate::tools::catalogue::ToolCatalogue;

pub(crate) async fn list(State(tools): State<ToolCatalogue>) -> impl IntoResponse {
    let toolset = tools.snapshot();
    Json(json!({ "object": "list", "data": toolset.definitions() }))
}
