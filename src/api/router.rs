//! Every route on one page.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;

use super::passthrough::Routes;
use super::{
    App, auth, chat, cors, errors, facts, framed, health, hosts, models, openapi, passthrough,
    ready, server, status, tools,
};
use crate::openai::error::{ApiError, ErrorCode};

/// The whole server as a service. A request passes the layers in this order: it is
/// named, its panics are caught, it is turned away when there is no room, its framing,
/// host and origin are checked, CORS is answered; then come its key and its route. They
/// stand around the routes and not on each: a route is cloned for each request, with
/// every layer on it.
pub(crate) fn router(app: Arc<App>) -> Router {
    let cors = Arc::new(cors::layer(&app.settings.allow_origins));
    let layers = ServiceBuilder::new()
        .layer(from_fn(facts::identify))
        .layer(CatchPanicLayer::custom(errors::panicked))
        .layer(from_fn(server::turn_away))
        .layer(from_fn(framed::check))
        .layer(from_fn_with_state(app.clone(), hosts::check))
        .layer(from_fn_with_state(cors, cors::answer));
    Router::new().fallback_service(layers.service(routes(app)))
}

fn routes(app: Arc<App>) -> Router {
    let open = Router::new()
        .route("/health", get(health::show))
        .route("/ready", get(ready::show))
        .method_not_allowed_fallback(method_not_allowed);

    let with_key = Router::new()
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::show))
        .merge(forwarded(&app.settings.forwarded))
        .route("/toolhand/v1/status", get(status::show))
        .route("/toolhand/v1/tools", get(tools::list))
        .route("/openapi.yaml", get(openapi::show))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(app.clone(), auth::require_key));

    open.merge(with_key).fallback(unknown_route).with_state(app)
}

/// `upstream.passthrough`: OpenAI's routes, and whatever else the operator names.
fn forwarded(routes: &Routes) -> Router<Arc<App>> {
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

#[cfg(test)]
mod tests;
