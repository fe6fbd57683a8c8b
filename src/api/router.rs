//! Lists every route and the checks before it.

use std::sync::Arc;

use axum::Router;
use axum::http::Method;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;

use super::passthrough::Routes;
use super::state::ApiState;
use super::{
    approvals, chat, health, models, openapi, passthrough, ready, root, sessions, status, tasks,
    tools, turns, unknown_route,
};
use crate::errors::{ApiError, ErrorCode};
use crate::http::{admission, auth, cors, errors, hosts, request_id, transfer_encoding};

/// Builds the whole server as a service. Each request gets its id, and a panic in a
/// handler is caught. The open routes come first, all others after them.
///
/// Layers wrap the routers, not each route, where that is possible: axum clones a route
/// for each request, with every layer on it.
pub(crate) fn router(state: ApiState) -> Router {
    let layers = ServiceBuilder::new()
        .layer(from_fn(request_id::identify))
        .layer(CatchPanicLayer::custom(errors::panicked));
    let all = open_routes(&state).fallback_service(guarded(state));
    Router::new().fallback_service(layers.service(all))
}

/// The routes that need no key. They are answered even when there is no room for more
/// connections.
fn open_routes(state: &ApiState) -> Router {
    let cors = Arc::new(cors::layer(&state.hosts.origins));
    let layers = ServiceBuilder::new()
        .layer(from_fn(transfer_encoding::check))
        .layer(from_fn_with_state(Arc::clone(&state.hosts), hosts::check_open))
        .layer(from_fn_with_state(cors, cors::answer));
    Router::new()
        .route("/", get(root::show))
        .route("/health", get(health::show))
        .route("/ready", get(ready::show))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(layers)
        .with_state(state.clone())
}

/// All other routes, behind these checks in order: room for the connection, unambiguous
/// body length, host and origin, CORS, key.
fn guarded(state: ApiState) -> Router {
    let cors = Arc::new(cors::layer(&state.hosts.origins));
    let layers = ServiceBuilder::new()
        .layer(from_fn(admission::turn_away))
        .layer(from_fn(transfer_encoding::check))
        .layer(from_fn_with_state(Arc::clone(&state.hosts), hosts::check))
        .layer(from_fn_with_state(cors, cors::answer));
    let unknown = Router::new().fallback(unknown_route::answer).with_state(state.clone());
    let routes = routes_with_key(state).fallback_service(unknown);
    Router::new().fallback_service(layers.service(routes))
}

fn routes_with_key(state: ApiState) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::show))
        .merge(forwarded(&state.forwarded))
        .route("/toolhand/v1/status", get(status::show))
        .route("/toolhand/v1/tools", get(tools::list))
        .route("/toolhand/v1/sessions", get(sessions::list::list))
        .route(
            "/toolhand/v1/sessions/{session}",
            get(sessions::show::show).delete(sessions::delete::delete),
        )
        .route("/toolhand/v1/turns", get(turns::list::list))
        .route("/toolhand/v1/turns/{turn}/stream", get(turns::stream::stream))
        .route("/toolhand/v1/turns/{turn}/cancel", post(turns::cancel::cancel))
        .route("/toolhand/v1/tasks", get(tasks::list))
        .route("/toolhand/v1/approvals", get(approvals::list::list))
        .route("/toolhand/v1/approvals/{approval}", post(approvals::decide::decide))
        .route("/openapi.yaml", get(openapi::show))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(&state.authenticator), auth::require_key))
        .with_state(state)
}

/// Routes of `upstream.passthrough`: OpenAI's, and others that the operator names.
fn forwarded(routes: &Routes) -> Router<ApiState> {
    let mut all = Router::new();
    for route in &routes.known {
        all = all.route(&format!("/v1/{route}"), post(passthrough::forward));
    }
    for route in &routes.further {
        let any = get(passthrough::forward).post(passthrough::forward).delete(passthrough::forward);
        all = all
            .route(&format!("/v1/{route}"), any.clone())
            .route(&format!("/v1/{route}/{{*rest}}"), any);
    }
    all
}

async fn method_not_allowed(method: Method) -> ApiError {
    ApiError::new(ErrorCode::MethodNotAllowed, format!("{method} is not allowed here."))
}

#[cfg(test)]
mod tests;
