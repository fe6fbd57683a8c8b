//! Answers `GET /toolhand/v1/status`: the version, upstream, and which features are on.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::Serialize;
use tokio::time::Instant;

use super::ready::Readiness;

/// The part of the status that does not change while the server runs. `app` builds it.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) started: Instant,
    pub(crate) upstream_url: String,
    pub(crate) auth_required: bool,
    pub(crate) workspace: PathBuf,
    pub(crate) permission_mode: String,
    pub(crate) sandbox: Sandbox,
    pub(crate) features: Vec<Feature>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sandbox {
    /// As configured: `auto`, `required` or `off`.
    pub(crate) mode: String,
    /// What confines commands in fact.
    pub(crate) level: String,
    pub(crate) why: String,
}

/// A feature, whether it is on, and why.
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

pub(crate) async fn show(
    State(about): State<Arc<About>>,
    State(readiness): State<Arc<Readiness>>,
) -> impl IntoResponse {
    let about = about.as_ref().clone();
    Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: about.started.elapsed().as_secs(),
        upstream: Upstream { url: about.upstream_url, reachable: readiness.is_reachable().await },
        sandbox: about.sandbox,
        auth: Auth { required: about.auth_required },
        workspace: about.workspace.display().to_string(),
        permission_mode: about.permission_mode,
        features: about.features,
    })
}
