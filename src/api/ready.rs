//! Answers `GET /ready`: whether upstream can be reached. Needs no key and gives no
//! details. The result is cached, so frequent requests cost little.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::upstream::Client;

/// How long a result is reused.
const MAX_AGE: Duration = Duration::from_secs(2);

/// Whether upstream answered the last probe.
#[derive(Debug)]
pub(crate) struct Readiness {
    upstream: Arc<Client>,
    last: Mutex<Option<(Instant, bool)>>,
}

impl Readiness {
    pub(crate) fn new(upstream: Arc<Client>) -> Self {
        Self { upstream, last: Mutex::default() }
    }

    /// Concurrent requests share one probe.
    pub(crate) async fn is_reachable(&self) -> bool {
        let mut last = self.last.lock().await;
        if let Some((asked, reachable)) = *last
            && asked.elapsed() < MAX_AGE
        {
            return reachable;
        }
        let reachable = self.upstream.probe().await.is_ok();
        *last = Some((Instant::now(), reachable));
        reachable
    }
}

pub(crate) async fn show(State(readiness): State<Arc<Readiness>>) -> impl IntoResponse {
    let (status, body) = if readiness.is_reachable().await {
        (StatusCode::OK, r#"{"status":"ready"}"#)
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"not_ready"}"#)
    };
    (status, [(CONTENT_TYPE, "application/json")], body)
}
