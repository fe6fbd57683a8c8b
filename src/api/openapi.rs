//! Answers `GET /openapi.yaml` with the description of this API.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

const DOCUMENT: &str = include_str!("../../openapi.yaml");

pub(crate) async fn show() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/yaml")], DOCUMENT)
}
