//! Answers `GET /toolhand/v1/tools`: the tool definitions as they go upstream for
//! the default workspace.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::json;

use crate::tools::catalogue::ToolCatalogue;

pub(crate) async fn list(State(tools): State<ToolCatalogue>) -> impl IntoResponse {
    let snapshot = tools.snapshot().await;
    let toolset = snapshot.in_workspace(None);
    Json(json!({ "object": "list", "data": toolset.definitions() }))
}
