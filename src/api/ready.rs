//! `GET /ready`: upstream answers. Open, without details; asking often costs little.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::App;
use crate::upstream::Client;

/// How long an answer of upstream is repeated.
const KEPT: Duration = Duration::from_secs(2);

/// Whether upstream answered when it was last asked.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, bool)>>);

impl Readiness {
    /// Those who ask at once wait for one probe together.
    pub(crate) async fn is_reachable(&self, upstream: &Client) -> bool {
        let mut last = self.0.lock().await;
        if let Some((asked, reachable)) = *last
            && asked.elapsed() < KEPT
        {
            return reachable;
        }
        let reachable = upstream.probe().await.is_ok();
        *last = Some((Instant::now(), reachable));
        reachable
    }
}

pub(crate) async fn show(State(app): State<Arc<App>>) -> impl IntoResponse {
    let (status, body) = if app.readiness.is_reachable(&app.upstream).await {
        (StatusCode::OK, r#"{"status":"ready"}"#)
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"not_ready"}"#)
    };
    (status, [(CONTENT_TYPE, "application/json")], body)
}
