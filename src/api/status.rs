//! Answers `GET /toolhand/v1/status`: the version, upstream, and which features are on.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::Serialize;
use tokio::time::Instant;

use super::ready::Readiness;
use crate::mcp::{McpServerStatus, McpServers};
use crate::processes;
use crate::processes::confinement::Level;
use crate::processes::sandbox::Trial;

/// The part of the status that does not change while the server runs. `app` builds it.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) started: Instant,
    pub(crate) upstream_url: String,
    pub(crate) auth_required: bool,
    pub(crate) workspace: PathBuf,
    pub(crate) permission_mode: String,
    /// As configured: `auto`, `required` or `off`.
    pub(crate) sandbox_mode: String,
    pub(crate) sandbox: processes::sandbox::Sandbox,
    pub(crate) features: Vec<Feature>,
    pub(crate) mcp: Option<McpServers>,
}

#[derive(Serialize)]
struct Sandbox {
    mode: String,
    /// What confines commands in fact, or `none`.
    level: &'static str,
    why: String,
    /// Each level that was tried, up to the one that passed.
    trials: Vec<Trial>,
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
    mcp: Vec<McpServer>,
}

#[derive(Serialize)]
struct McpServer {
    name: String,
    state: &'static str,
    /// How many tools it offers.
    tools: usize,
    why: Option<String>,
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
    let sandbox = sandbox(&about).await;
    let about = about.as_ref().clone();
    Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: about.started.elapsed().as_secs(),
        upstream: Upstream { url: about.upstream_url, reachable: readiness.is_reachable().await },
        sandbox,
        auth: Auth { required: about.auth_required },
        workspace: about.workspace.display().to_string(),
        permission_mode: about.permission_mode,
        features: about.features,
        mcp: about.mcp.iter().flat_map(McpServers::states).map(mcp_server).collect(),
    })
}

fn mcp_server(server: McpServerStatus) -> McpServer {
    let McpServerStatus { name, state, tools, .. } = server;
    McpServer { name, state: state.name(), tools, why: state.why().map(str::to_owned) }
}

/// Waits for the trials, which a server that has just started still runs.
async fn sandbox(about: &About) -> Sandbox {
    let mode = about.sandbox_mode.clone();
    if mode == "off" {
        let why = "the operator does without".to_owned();
        return Sandbox { mode, level: "none", why, trials: Vec::new() };
    }
    let outcome = about.sandbox.outcome().await;
    let level = outcome.level.map_or("none", Level::name);
    Sandbox { mode, level, why: outcome.sentence(), trials: outcome.trials.clone() }
}
