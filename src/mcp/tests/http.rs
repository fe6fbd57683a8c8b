//! Servers over HTTP that answer what they should not.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::any;
use tokio::net::TcpListener;

use super::*;
use crate::secret::Secret;

/// Starts a server for these routes. Returns its base URL.
async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    #[expect(clippy::disallowed_methods, reason = "it ends with the runtime of the test")]
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

async fn state_of(url: &str) -> McpState {
    let mut ground = Ground::new();
    ground.settings.backoff = Vec::new();
    let headers = vec![(reqwest::header::AUTHORIZATION, Secret::new("Bearer sk-very-secret"))];
    let transport = McpTransport::Http { url: url.parse().unwrap(), headers };
    ground.settings.servers.push(McpServerSettings::new("web", transport));
    let servers = ground.start().await;
    until(&servers, "web", |state| !matches!(state, McpState::Starting | McpState::Failed(_)))
        .await;
    servers.states()[0].state.clone()
}

#[tokio::test]
async fn m11_a_redirect_is_not_followed_and_takes_no_key_with_it() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let elsewhere = serve(Router::new().route(
        "/mcp",
        any(move || async move {
            counted.fetch_add(1, Ordering::Relaxed);
            StatusCode::OK
        }),
    ))
    .await;
    for status in [StatusCode::FOUND, StatusCode::TEMPORARY_REDIRECT] {
        let location = format!("{elsewhere}/mcp");
        let answer =
            move || async move { (status, [(header::LOCATION, location)]).into_response() };
        let url = serve(Router::new().route("/mcp", any(answer))).await;

        let state = state_of(&format!("{url}/mcp")).await;

        assert!(matches!(state, McpState::Off(_)), "{state:?}");
    }
    assert_eq!(requests.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_server_that_wants_an_authorization_is_told_apart() {
    let answer = |headers: HeaderMap| async move {
        assert_eq!(headers[header::AUTHORIZATION], "Bearer sk-very-secret");
        let challenge = "Bearer resource_metadata=\"http://169.254.169.254/\"";
        (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)])
    };
    let url = serve(Router::new().route("/mcp", any(answer))).await;
    assert_eq!(state_of(&format!("{url}/mcp")).await, McpState::NeedsAuth);
}

#[tokio::test]
async fn a_page_is_no_server() {
    let answer = || async { ([(header::CONTENT_TYPE, "text/html")], "<p>sk-very-secret</p>") };
    let url = serve(Router::new().route("/mcp", any(answer))).await;
    let state = state_of(&format!("{url}/mcp")).await;
    let why = state.why().unwrap();
    assert!(why.contains("neither JSON nor an event stream") || why.contains("HTTP"), "{why}");
    assert!(!why.contains("secret"), "{why}");
}
