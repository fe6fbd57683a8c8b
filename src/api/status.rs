//! `GET /toolhand/v1/status`: what this server is, what is on and what is not.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::Serialize;
use tokio::time::Instant;

use super::App;
use super::auth::Keys;

/// What does not change while the server runs; `app` knows it.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) started: Instant,
    pub(crate) workspace: PathBuf,
    pub(crate) permission_mode: String,
    pub(crate) sandbox: Sandbox,
    pub(crate) features: Vec<Feature>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sandbox {
    /// As configured: `auto`, `required` or `off`.
    pub(crate) mode: String,
    /// What holds commands back in fact.
    pub(crate) level: String,
    pub(crate) why: String,
}

/// Something that may be on or off, and why it is so.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Feature {
    pub(crate) name: String,
    pub(crate) on: bool,
    pub(crate) why: String,
}

#[derive(Serialize)]
struct Status {
    version: &'static str,
    uptime_seconds: u64,
    upstream: Upstream,
    sandbox: Sandbox,
    auth: Auth,
    workspace: String,
    permission_mode: String,
    features: Vec<Feature>,
}

#[derive(Serialize)]
struct Upstream {
    url: String,
    reachable: bool,
}

#[derive(Serialize)]
struct Auth {
    required: bool,
}

pub(crate) async fn show(State(app): State<Arc<App>>) -> impl IntoResponse {
    let About { started, workspace, permission_mode, sandbox, features } = app.about.clone();
    Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: started.elapsed().as_secs(),
        upstream: Upstream {
            url: app.upstream.settings().url.to_string(),
            reachable: app.readiness.is_reachable(&app.upstream).await,
        },
        sandbox,
        auth: Auth { required: !matches!(app.keys, Keys::NotRequired) },
        workspace: workspace.display().to_string(),
        permission_mode,
        features,
    })
}
