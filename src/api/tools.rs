//! Answers `GET /toolhand/v1/tools`: the tool definitions as they go upstream.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::json;

use crate::tools::toolset::Toolset;

pub(crate) async fn list(State(toolset): State<Toolset>) -> impl IntoResponse {
    Json(json!({ "object": "list", "data": toolset.definitions() }))
}
