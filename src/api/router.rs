//! Every route on one page.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;

use super::{App, auth, chat, cors, errors, facts, health, hosts};
use crate::openai::error::{ApiError, ErrorCode};

/// The whole server as a service. A request passes the layers from the last to
/// the first: named, caught when it panics, host and origin, CORS, then its route
/// and the key.
pub(crate) fn router(app: Arc<App>) -> Router {
    let open = Router::new().route("/health", get(health::show));

    let with_key = Router::new()
        .route("/v1/chat/completions", post(chat::create))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(app.clone(), auth::require_key));

    open.method_not_allowed_fallback(method_not_allowed)
        .merge(with_key)
        .fallback(unknown_route)
        .layer(from_fn_with_state(cors::layer(&app.settings.allow_origins), cors::answer))
        .layer(from_fn_with_state(app.clone(), hosts::check))
        .layer(CatchPanicLayer::custom(errors::panicked))
        .layer(from_fn(facts::identify))
        .with_state(app)
}

/// The routes that need no key.
pub(crate) fn is_open(path: &str) -> bool {
    matches!(path, "/health" | "/ready")
}

async fn unknown_route(request: Request) -> ApiError {
    ApiError::new(
        ErrorCode::UnknownRoute,
        format!("There is no route {} {}.", request.method(), request.uri().path()),
    )
}

async fn method_not_allowed(method: Method) -> ApiError {
    ApiError::new(ErrorCode::MethodNotAllowed, format!("{method} is not allowed here."))
}
