//! `GET /health`: the process answers. Open, and says nothing else.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

pub(crate) async fn show() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], r#"{"status":"ok"}"#)
}
