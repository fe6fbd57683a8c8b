//! Asks the running server of a state directory about its upstream. The key of the LiteLLM
//! that `up` starts is kept nowhere, so nobody else can ask it.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Body, Method};
use serde::Deserialize;
use tokio::time::timeout;

use super::models;
use crate::app::running_server::{RunningServer, StartedBy};
use crate::limits::Limits;
use crate::memory_budget::MemoryBudget;
use crate::secret::Secret;
use crate::upstream::{BodyFault, Client, TraceHeaders, UpstreamSettings, whole_body};

/// The server probes its upstream before it answers, which may take as long as this.
const STATUS_TIMEOUT: Duration = Duration::from_secs(30);

/// Many times the size of a status.
const MAX_STATUS: usize = 1 << 20;

#[derive(Deserialize)]
struct Status {
    version: String,
    upstream: Upstream,
}

#[derive(Deserialize)]
struct Upstream {
    url: String,
    reachable: bool,
    /// The models that `up` leaves out, each with what would bring it.
    #[serde(default)]
    left_out: BTreeMap<String, String>,
}

/// One line: where the server is, and who started it.
pub(super) fn describe(server: &RunningServer) -> String {
    let started_by = match &server.started_by {
        StartedBy::Serve => "serve",
        StartedBy::Up { .. } => "up",
    };
    format!(
        "server: {} runs here, process {}, started by {started_by}",
        server.base_url(),
        server.process.pid
    )
}

/// On its upstream: whether it answers, which models it has, and which are left out. The error if
/// that or the server does not answer.
pub(super) async fn describe_upstream(
    server: &RunningServer,
    key: Option<&Secret>,
) -> Result<String, String> {
    let failed = |reason: String| format!("server: {}: {reason}", server.base_url());
    let status = timeout(STATUS_TIMEOUT, status(server, key)).await;
    let status = status.map_err(|_| failed(format!("no answer in {STATUS_TIMEOUT:?}")))?;
    let Status { version, upstream } = status.map_err(failed)?;
    let Upstream { url, reachable, left_out } = upstream;
    if !reachable {
        return Err(format!(
            "upstream: {url} does not answer the running server (version {version}); its log on \
             stderr says more"
        ));
    }
    let line = format!("upstream: {url} answers the running server (version {version})");
    let models = client(server, "/v1", key).map_err(failed)?.models().await;
    let offered = models.map_err(|fault| failed(fault.to_string()))?;
    Ok(format!("{line}\n{}", models::report(&models::names(&offered), &left_out)))
}

/// A client to one of the server's APIs.
fn client(server: &RunningServer, path: &str, key: Option<&Secret>) -> Result<Client, String> {
    let url = format!("http://{}{path}", server.address());
    let settings = UpstreamSettings { url: url.parse()?, ..UpstreamSettings::default() };
    let limits = Limits::default();
    Client::new(&settings, &limits, key, MemoryBudget::new(limits.buffers))
}

async fn status(server: &RunningServer, key: Option<&Secret>) -> Result<Status, String> {
    let client = client(server, "/toolhand/v1", key)?;
    let headers = TraceHeaders::default();
    let request = client.forward(Method::GET, "/status", None, &headers, Body::default());
    let response = request.await.map_err(|fault| match key {
        Some(_) => format!("{fault} (asked with the client key of the state directory)"),
        None => format!("{fault} (asked without a key: the state directory has none)"),
    })?;
    let body = whole_body(response, MAX_STATUS).await.map_err(|fault| match fault {
        BodyFault::TooLarge(_) => "its status has no end".to_owned(),
        BodyFault::Broken(error) => error.to_string(),
    })?;
    serde_json::from_slice(&body)
        .map_err(|error| format!("its status is none of toolhand's: {error}"))
}
