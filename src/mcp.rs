//! Runs the operator's MCP servers and calls their tools.
//!
//! Each server has a task of its own ([`server`]), so one that hangs or dies leaves the others
//! alone. Only [`client`], [`connection`], [`http_post`],
//! [`waiting_requests`] and [`streamable_http`] know rmcp. What a server says is
//! untrusted: its lists are bounded and looked at ([`definitions`], [`names`]), what it was first
//! seen to offer is remembered ([`pins`]), and its words are data.

mod answer;
mod client;
mod configured;
mod connection;
mod definitions;
mod error_words;
mod http_post;
mod last_words;
mod launcher;
mod lines;
mod listening;
mod mended;
mod names;
mod offers;
mod owner;
mod pins;
mod progress;
mod public_hosts;
mod redaction;
mod request_budget;
mod restarts;
mod server;
mod server_input;
mod settings;
mod stdio_requests;
mod streamable_http;
#[cfg(test)]
mod tests;
mod waiting_requests;
mod workspace_file;
mod written_server;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};
use tokio::time::Instant;

pub(crate) use self::answer::{McpAnswer, McpPart};
use self::client::{Client, RequestFault, RequestTimeouts};
pub(crate) use self::configured::{McpSection, ValueSource};
pub(crate) use self::connection::McpReach;
pub(crate) use self::definitions::{McpTool, WithheldTool};
pub(crate) use self::launcher::{McpLauncher, McpSandboxes};
pub(crate) use self::offers::{McpPrompt, McpResource};
pub(crate) use self::owner::TrustedFile;
use self::pins::{PinFile, Pins};
pub(crate) use self::server::{IncompleteTool, McpState};
use self::server::{Offers, REVOKED, Server, ServerServices, Status};
use self::settings::PinPolicy;
pub(crate) use self::settings::{McpScope, McpSettings};
pub(crate) use self::workspace_file::{WorkspaceServer, servers_of};
use crate::sync;
use crate::text;

/// Longer than any server may take to start: each has a limit of its own.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// The most of a server's instructions that the model is told.
const MAX_INSTRUCTIONS_BYTES: usize = 2 << 10;

/// The MCP servers. Ends them all when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct McpServers(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    servers: Vec<Arc<Server>>,
    /// Those of scope `key`, by server and client key.
    of_keys: Mutex<HashMap<(String, String), ServerOfKey>>,
    services: ServerServices,
    running: Mutex<JoinSet<()>>,
}

/// A client key's own process or session of a server.
#[derive(Debug)]
struct ServerOfKey {
    server: Arc<Server>,
    running: AbortHandle,
}

/// What the servers offer at one moment. A turn keeps it.
#[derive(Clone, Debug, Default)]
pub(crate) struct McpSnapshot {
    /// By advertised name.
    pub(crate) tools: Vec<Arc<McpTool>>,
    pub(crate) resources: Vec<McpResource>,
    pub(crate) prompts: Vec<McpPrompt>,
    /// Tools that a server has and that are not offered, and why.
    pub(crate) withheld: Vec<WithheldTool>,
    /// Servers that are not running, and why.
    pub(crate) not_running: Vec<(String, String)>,
    /// The servers' own words on how they are used, where the operator lets them be told.
    pub(crate) instructions: Vec<(String, String)>,
}

/// What the operator has taken of a server.
#[derive(Debug)]
pub(crate) struct AcceptedTools {
    /// How many were offered before.
    pub(crate) known: usize,
    /// Those that were withheld.
    pub(crate) changed: Vec<Arc<McpTool>>,
}

/// A server as `check` and `status` show it.
#[derive(Clone, Debug)]
pub(crate) struct McpServerStatus {
    pub(crate) name: String,
    pub(crate) state: McpState,
    pub(crate) version: Option<String>,
    pub(crate) tools: usize,
    pub(crate) withheld: Vec<WithheldTool>,
    /// Tools that are offered without something of their schemas.
    pub(crate) incomplete: Vec<IncompleteTool>,
    pub(crate) started_in: Option<Duration>,
    /// For whom a process or session of it is.
    pub(crate) scope: McpScope,
}

/// Why a call has no answer. The text is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct McpFault(pub(crate) String);

impl McpServers {
    /// Starts nothing yet. `state_dir` holds the pins.
    pub(crate) fn new(settings: McpSettings, reach: McpReach, state_dir: &Path) -> Self {
        let services = ServerServices {
            reach,
            pins: Arc::new(PinFile::new(state_dir)),
            policy: settings.pin,
            backoff: settings.backoff,
        };
        let servers: Vec<Arc<Server>> = settings
            .servers
            .into_iter()
            .map(|settings| Arc::new(Server::new(Arc::new(settings))))
            .collect();
        Self(Arc::new(Parts {
            servers,
            of_keys: Mutex::default(),
            services,
            running: Mutex::new(JoinSet::new()),
        }))
    }

    /// Starts all servers at once, and waits for none. Called once, in a runtime.
    pub(crate) fn start(&self) {
        for server in &self.0.servers {
            self.spawn(server);
        }
    }

    /// Starts all servers, and waits until none is starting any more.
    pub(crate) async fn start_and_wait(&self) {
        self.start();
        self.ready_within(PATIENCE).await;
    }

    /// Starts one server alone, and waits until it is no longer starting.
    pub(crate) async fn start_only(&self, name: &str) -> Result<(), McpFault> {
        let server = self.server(name)?;
        self.spawn(&server);
        server.wait_until_started(PATIENCE).await;
        Ok(())
    }

    /// Ends all servers.
    pub(crate) async fn end(&self) {
        let mut running = std::mem::take(&mut *sync::lock(&self.0.running));
        running.shutdown().await;
    }

    /// Stops the servers of client keys that do not count any more: a revoked key leaves nothing.
    pub(crate) fn stop_servers_of_other_keys(&self, is_living: impl Fn(&str) -> bool) {
        sync::lock(&self.0.of_keys).retain(|(name, key), of_key| {
            let is_kept = is_living(key);
            if !is_kept {
                tracing::info!(server = name, key, "ended the MCP server of a revoked key");
                of_key.running.abort();
            }
            is_kept
        });
    }

    fn spawn(&self, server: &Arc<Server>) -> AbortHandle {
        let (server, services) = (server.clone(), self.0.services.clone());
        let mut running = sync::lock(&self.0.running);
        // Those that ended with their keys.
        while running.try_join_next().is_some() {}
        running.spawn(async move {
            if AssertUnwindSafe(server.run(services)).catch_unwind().await.is_err() {
                server.crashed();
            }
        })
    }

    /// Waits until no server is starting any more, at most this long.
    pub(crate) async fn ready_within(&self, within: Duration) {
        let until = Instant::now() + within;
        for server in &self.0.servers {
            server.wait_until_started(until.saturating_duration_since(Instant::now())).await;
        }
    }

    /// Looks whether the servers of workspaces are still trusted, and ends those that are not.
    pub(crate) async fn end_untrusted(&self) {
        let of_keys: Vec<Arc<Server>> = {
            let of_keys = sync::lock(&self.0.of_keys);
            of_keys.values().map(|of_key| Arc::clone(&of_key.server)).collect()
        };
        let servers = self.0.servers.iter().chain(&of_keys);
        join_all(servers.map(|server| server.is_still_trusted())).await;
    }

    /// What the servers offer now. Looks at the file of pins, which takes microseconds.
    pub(crate) fn snapshot(&self) -> McpSnapshot {
        let mut snapshot = McpSnapshot::default();
        for server in &self.0.servers {
            let name = &server.settings.name;
            if server.is_revoked() {
                let McpFault(why) = not_running(name, &McpState::Off(REVOKED.into()));
                snapshot.not_running.push((name.clone(), why));
                continue;
            }
            let Status { state, offers, .. } = server.now();
            if state != McpState::Ready {
                let McpFault(why) = not_running(name, &state);
                snapshot.not_running.push((name.clone(), why));
            }
            server.pin_the_rest(&self.0.services, &offers.tools);
            let (tools, withheld) = self.offered(server, &offers);
            snapshot.tools.extend(tools);
            snapshot.withheld.extend(withheld);
            snapshot.resources.extend(offers.resources.iter().cloned());
            snapshot.prompts.extend(offers.prompts.iter().cloned());
            if server.settings.instructions
                && let Some(words) = &offers.facts.instructions
            {
                let words = text::prefix(words, MAX_INSTRUCTIONS_BYTES).to_owned();
                snapshot.instructions.push((name.clone(), words));
            }
        }
        snapshot.tools.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot
    }

    /// The tools of a server that are offered, and those that are not.
    fn offered(&self, server: &Server, offers: &Offers) -> (Vec<Arc<McpTool>>, Vec<WithheldTool>) {
        let pins = self.0.services.pins.current();
        let mut withheld = offers.dropped.clone();
        let mut offered = Vec::new();
        for tool in &offers.tools {
            match self.pin_fault(server, &pins, tool) {
                None => offered.push(tool.clone()),
                Some(why) => withheld.push(WithheldTool {
                    server: server.settings.name.clone(),
                    own_name: tool.own_name.clone(),
                    name: Some(tool.name.clone()),
                    why,
                }),
            }
        }
        (offered, withheld)
    }

    /// Why a tool that a server has is not offered.
    fn pin_fault(&self, server: &Server, pins: &Pins, tool: &McpTool) -> Option<String> {
        let (policy, name) = (self.0.services.policy, &server.settings.name);
        let pins = match pins {
            _ if policy == PinPolicy::Off => return None,
            Ok(pins) => pins,
            Err(why) => return Some(format!("mcp-pins.toml {why}")),
        };
        let pins = pins::of_server(pins, name, &server.launch_digest);
        pins::fault(policy, pins, tool).map(|fault| fault.why(name))
    }

    /// Each server as it is now.
    pub(crate) fn states(&self) -> Vec<McpServerStatus> {
        let state = |server: &Arc<Server>| {
            let now = server.now();
            let (tools, withheld) = self.offered(server, &now.offers);
            McpServerStatus {
                name: server.settings.name.clone(),
                state: self.fault_of_a_key(server).unwrap_or(now.state),
                version: now.offers.facts.version.clone(),
                tools: tools.len(),
                withheld,
                incomplete: now.offers.incomplete_tools(),
                started_in: now.started_in,
                scope: server.settings.scope,
            }
        };
        self.0.servers.iter().map(state).collect()
    }

    /// The state of a client key's own server that does not run, if one does not.
    fn fault_of_a_key(&self, server: &Server) -> Option<McpState> {
        let name = &server.settings.name;
        let of_keys = sync::lock(&self.0.of_keys);
        let its = of_keys.iter().filter(|((of, _), _)| of == name);
        its.map(|(_, of_key)| of_key.server.now().state).find_map(|state| match state {
            McpState::Failed(why) => Some(McpState::Failed(format!("for a client key: {why}"))),
            McpState::Off(why) => Some(McpState::Off(format!("for a client key: {why}"))),
            McpState::NeedsAuth => Some(McpState::NeedsAuth),
            McpState::Starting | McpState::Ready => None,
        })
    }

    /// Takes the tools of a server as they are now.
    pub(crate) async fn accept(&self, name: &str) -> Result<AcceptedTools, McpFault> {
        let server = self.server(name)?;
        let Status { state, offers, .. } = server.now();
        if state != McpState::Ready {
            return Err(not_running(name, &state));
        }
        let (offered, _) = self.offered(&server, &offers);
        let is_offered = |tool: &Arc<McpTool>| offered.iter().any(|same| Arc::ptr_eq(same, tool));
        let (known, changed): (Vec<_>, Vec<_>) = offers.tools.iter().cloned().partition(is_offered);
        let (pins, seen) = (self.0.services.pins.clone(), server.pins(&offers.tools));
        let accepted = spawn_blocking(move || pins.accept(&seen)).await;
        accepted.unwrap_or_else(|error| Err(error.to_string())).map_err(McpFault)?;
        Ok(AcceptedTools { known: known.len(), changed })
    }

    /// Calls a tool once, and never again. Dropping the future tells the server so.
    pub(crate) async fn call(
        &self,
        key: &str,
        tool: &McpTool,
        arguments: Map<String, Value>,
        progress: Option<watch::Sender<String>>,
    ) -> Result<McpAnswer, McpFault> {
        let server = self.server_for(key, &tool.server).await?;
        let client = running(&server)?;
        self.expect_offered(&server, tool)?;
        let timeouts = timeouts(&server);
        let result = client.call(&tool.own_name, arguments, timeouts, progress).await;
        let result = result.map_err(|fault| call_fault(&server, &fault))?;
        answer::of_call(result, client.redaction()).map_err(McpFault)
    }

    /// The digest of the server that is configured under this name; empty if there is none. What
    /// people allow a server counts for this digest alone.
    pub(crate) fn identity(&self, name: &str) -> Arc<str> {
        self.server(name).map_or_else(|_| Arc::from(""), |server| server.settings.identity())
    }

    /// An error if there is no server of this name.
    pub(crate) fn expect_server(&self, name: &str) -> Result<(), McpFault> {
        self.server(name).map(drop)
    }

    /// Reads a resource. Its address goes to the server as it is.
    pub(crate) async fn read_resource(
        &self,
        key: &str,
        server: &str,
        uri: &str,
    ) -> Result<McpAnswer, McpFault> {
        let server = self.server_for(key, server).await?;
        let client = running(&server)?;
        let result = client.read_resource(uri, timeouts(&server)).await;
        let result = result.map_err(|fault| call_fault(&server, &fault))?;
        answer::of_resource(result, client.redaction()).map_err(McpFault)
    }

    /// The text of a prompt, with the words behind the command as its arguments.
    pub(crate) async fn prompt(
        &self,
        key: &str,
        prompt: &McpPrompt,
        words: &str,
    ) -> Result<String, McpFault> {
        let arguments = offers::prompt_arguments(prompt, words).map_err(McpFault)?;
        let server = self.server_for(key, &prompt.server).await?;
        let client = running(&server)?;
        let result = client.prompt(&prompt.name, arguments, timeouts(&server)).await;
        let result = result.map_err(|fault| call_fault(&server, &fault))?;
        let result = answer::complete(result).map_err(McpFault)?;
        Ok(offers::prompt_text(&result, client.redaction()))
    }

    fn server(&self, name: &str) -> Result<Arc<Server>, McpFault> {
        let found = self.0.servers.iter().find(|server| server.settings.name == name);
        found
            .cloned()
            .ok_or_else(|| McpFault(format!("there is no MCP server {}", text::quoted_name(name))))
    }

    /// The server that answers this client key. One of scope `key` is started at its first call.
    async fn server_for(&self, key: &str, name: &str) -> Result<Arc<Server>, McpFault> {
        let for_all = self.server(name)?;
        match for_all.is_still_trusted().await {
            Ok(true) => {}
            Ok(false) => return Err(not_running(name, &McpState::Off(REVOKED.into()))),
            Err(overloaded) => return Err(McpFault(overloaded.to_string())),
        }
        if for_all.settings.scope == McpScope::All {
            return Ok(for_all);
        }
        let of_key = {
            let mut of_keys = sync::lock(&self.0.of_keys);
            let start = || {
                let server = Arc::new(Server::new(for_all.settings.clone()));
                let running = self.spawn(&server);
                ServerOfKey { server, running }
            };
            let of_key = of_keys.entry((name.to_owned(), key.to_owned())).or_insert_with(start);
            Arc::clone(&of_key.server)
        };
        of_key.wait_until_started(of_key.settings.start_timeout).await;
        Ok(of_key)
    }

    /// A tool may have changed, or gone, since the turn began.
    fn expect_offered(&self, server: &Server, tool: &McpTool) -> Result<(), McpFault> {
        let offers = server.now().offers;
        let why = if let Some(now) = offers.tool(&tool.own_name) {
            let fault = self.pin_fault(server, &self.0.services.pins.current(), now);
            let is_same = now.digest == tool.digest;
            fault.or_else(|| (!is_same).then(|| "the server has changed it".to_owned()))
        } else {
            let dropped = offers.dropped.iter().find(|now| now.own_name == tool.own_name);
            Some(dropped.map_or("the server has it no more", |now| &now.why).to_owned())
        };
        let told = |why| McpFault(format!("{} is not offered any more: {why}", tool.name));
        why.map_or(Ok(()), |why| Err(told(why)))
    }
}

fn running(server: &Server) -> Result<Client, McpFault> {
    let now = server.now();
    now.client.ok_or_else(|| not_running(&server.settings.name, &now.state))
}

fn not_running(name: &str, state: &McpState) -> McpFault {
    let why = state.why().unwrap_or("it is still starting");
    McpFault(format!("the MCP server {name} is not running: {why}"))
}

fn timeouts(server: &Server) -> RequestTimeouts {
    RequestTimeouts { silent: server.settings.timeout, total: server.settings.max_time }
}

fn call_fault(server: &Server, fault: &RequestFault) -> McpFault {
    let name = &server.settings.name;
    McpFault(match fault {
        RequestFault::Refused(why) => format!("the MCP server {name} refuses this: {why}"),
        RequestFault::TimedOut => format!(
            "the MCP server {name} did not answer in time; whether the call took effect is unknown"
        ),
        RequestFault::Failed(why) => format!(
            "the MCP server {name} did not answer this: {why}; whether it took effect is unknown"
        ),
        RequestFault::Ended => format!(
            "the MCP server {name} ended while this call ran; whether it took effect is unknown"
        ),
        RequestFault::Malformed => format!(
            "the answer of the MCP server {name} is malformed; whether it took effect is unknown"
        ),
    })
}
