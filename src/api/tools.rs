//! `GET /toolhand/v1/tools`: the definitions as they go upstream.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::json;

use super::App;

pub(crate) async fn list(State(app): State<Arc<App>>) -> impl IntoResponse {
    Json(json!({ "object": "list", "data": app.chat.toolset.definitions() }))
}
