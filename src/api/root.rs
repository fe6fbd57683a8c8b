//! Answers `GET /` with a few lines for someone who opens the address in a browser. Needs no
//! key and tells nothing of this server.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::http::hosts::HostPolicy;

pub(crate) async fn show(
    State(policy): State<Arc<HostPolicy>>,
    headers: HeaderMap,
) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], text(policy.hosts.own_url(&headers)))
}

/// `url` is this server's own, as the client reached it.
fn text(url: Option<String>) -> String {
    let base = url.map_or_else(
        || "the address of this page, followed by v1".to_owned(),
        |url| format!("{url}/v1"),
    );
    format!(
        "toolhand: an OpenAI-compatible endpoint that gives any model hands.\n\
         \n\
         Base URL for clients: {base}\n\
         Key: a client key of this server, as the API key of the client\n\
         Routes: /openapi.yaml describes them (it needs the key)\n\
         Guide: README.md in toolhand's repository\n"
    )
}
