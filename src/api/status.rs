//! Answers `GET /toolhand/v1/status`: the version, upstream, and which features are on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::Serialize;
use tokio::time::Instant;

use super::ready::Readiness;
use crate::lsp::LanguageServers;
#[cfg(feature = "lsp")]
use crate::lsp::ReportedServer;
use crate::mcp::{McpServerStatus, McpServers};
use crate::processes;
use crate::processes::confinement::Level;
use crate::processes::sandbox::Trial;
use crate::upstream::{Client, KnownLesson, Lesson};
use crate::workspace::Workspace;

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
    /// `None`: there are none.
    pub(crate) languages: Option<LanguagesAbout>,
}

/// The language servers of the server's workspace.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "lsp"), expect(dead_code, reason = "there are none in this build"))]
pub(crate) struct LanguagesAbout {
    pub(crate) servers: Arc<LanguageServers>,
    pub(crate) workspace: Arc<Workspace>,
}

#[derive(Serialize)]
struct LanguageServer {
    name: String,
    /// The directory of the project that it was started for.
    root: Option<String>,
    state: &'static str,
    why: String,
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
    language_servers: Vec<LanguageServer>,
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
    /// The models that are left out, each with what would bring it.
    left_out: BTreeMap<String, String>,
    /// The lessons from models' errors that hold now.
    traits: Vec<LearntTrait>,
}

#[derive(Serialize)]
struct LearntTrait {
    model: String,
    /// The part of a request that it is about.
    member: &'static str,
    sense: &'static str,
    /// The number of turns that have met the error.
    proofs: u32,
    /// Whether the requests of other turns are changed.
    applied: bool,
    /// The provider's sentence, redacted.
    evidence: String,
    expires_in_seconds: u64,
}

#[derive(Serialize)]
struct Auth {
    required: bool,
}

pub(crate) async fn show(
    State(about): State<Arc<About>>,
    State(readiness): State<Arc<Readiness>>,
    State(client): State<Arc<Client>>,
) -> impl IntoResponse {
    let sandbox = sandbox(&about).await;
    if let Some(servers) = &about.mcp {
        servers.end_untrusted().await;
    }
    let about = about.as_ref().clone();
    let language_servers = language_servers(about.languages.as_ref()).await;
    Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: about.started.elapsed().as_secs(),
        upstream: Upstream {
            url: about.upstream_url,
            reachable: readiness.is_reachable().await,
            left_out: client.settings().model_hints.left_out.clone(),
            traits: client.traits().known(Instant::now()).into_iter().map(learnt_trait).collect(),
        },
        sandbox,
        auth: Auth { required: about.auth_required },
        workspace: about.workspace.display().to_string(),
        permission_mode: about.permission_mode,
        features: about.features,
        mcp: about.mcp.iter().flat_map(McpServers::states).map(mcp_server).collect(),
        language_servers,
    })
}

fn learnt_trait(known: KnownLesson) -> LearntTrait {
    let Lesson { model, learnt, evidence } = known.lesson;
    LearntTrait {
        model,
        member: learnt.member(),
        sense: learnt.sense().word(),
        proofs: known.proofs,
        applied: known.is_applied,
        evidence,
        expires_in_seconds: known.expires_in.as_secs(),
    }
}

fn mcp_server(server: McpServerStatus) -> McpServer {
    let McpServerStatus { name, state, tools, .. } = server;
    McpServer { name, state: state.name(), tools, why: state.why().map(str::to_owned) }
}

#[cfg(not(feature = "lsp"))]
#[expect(clippy::unused_async, reason = "as that of a build with them")]
async fn language_servers(_: Option<&LanguagesAbout>) -> Vec<LanguageServer> {
    Vec::new()
}

#[cfg(feature = "lsp")]
async fn language_servers(about: Option<&LanguagesAbout>) -> Vec<LanguageServer> {
    let Some(LanguagesAbout { servers, workspace }) = about else { return Vec::new() };
    let report = servers.report(workspace).await;
    let server = |it: ReportedServer| {
        let ReportedServer { name, root, state, .. } = it;
        let root = root.map(|root| root.display().to_string());
        LanguageServer { name, root, state: state.word(), why: state.why() }
    };
    report.servers.into_iter().map(server).collect()
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
