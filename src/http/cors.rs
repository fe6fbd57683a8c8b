//! Answers CORS requests from pages of the configured origins. [`super::hosts`] has
//! refused all others before.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{ORIGIN, RETRY_AFTER};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use serde::Deserialize;
use tower::{Layer, ServiceExt};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use super::headers::{REQUEST_ID, SESSION, SHOULD_RETRY, TURN};
use super::hosts::Origin;

/// `[cors]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CorsSettings {
    pub(crate) allow_origins: Vec<Origin>,
}

pub(crate) fn layer(origins: &[Origin]) -> CorsLayer {
    let origins = origins.iter().filter_map(|origin| HeaderValue::from_str(origin.as_str()).ok());
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([REQUEST_ID, RETRY_AFTER, SHOULD_RETRY, SESSION, TURN])
}

/// Adds CORS headers to answers for pages only. Answers a page's preflight without a key,
/// because browsers send none with it.
pub(crate) async fn answer(
    State(cors): State<Arc<CorsLayer>>,
    request: Request,
    next: Next,
) -> Response {
    if request.headers().contains_key(ORIGIN) {
        let Ok(response) = cors.layer(next).oneshot(request).await;
        response
    } else {
        next.run(request).await
    }
}
