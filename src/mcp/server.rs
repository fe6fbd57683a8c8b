//! Keeps one server running: starts it, lists what it offers, lists again when it says so, and
//! restarts it when it has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::client::{Client, RequestFault};
use super::connection::{Connection, McpReach, ServerFacts, StartFault};
use super::definitions::{MAX_TOOLS, McpTool, WithheldTool, definitions};
use super::last_words::with_last_words;
use super::offers::{McpPrompt, McpResource, prompts, resources};
use super::owner::McpOwner;
use super::pins::{self, PinFault, PinFile, ServerPins};
use super::redaction::Redaction;
use super::restarts::Restarts;
use super::settings::{McpServerSettings, PinPolicy};
use super::streamable_http::SESSION_ENDED;
use crate::blocking::{DEFINITIONS, FILES, Overloaded};
use crate::processes::StderrTail;

/// The most resources, templates and prompts of a server, each.
const MAX_OFFERS: usize = 1_000;

/// How long a server's resources and prompts are waited for, once its tools are known.
const MAX_OFFERS_WAIT: Duration = Duration::from_secs(5);

/// The least between two lists. A server may say without end that its list has changed.
pub(super) const REFRESH_INTERVAL: Duration = Duration::from_millis(500);

/// Why a server of a workspace is off.
pub(super) const REVOKED: &str = "the workspace's .mcp.json has changed, or is no longer trusted: the operator trusts it with \
     `toolhand trust`, and restarts toolhand";

/// Whether a server can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum McpState {
    Starting,
    Ready,
    /// It has ended, and is started again.
    Failed(String),
    /// It is not started again.
    Off(String),
    /// It wants an authorization that toolhand does not have.
    NeedsAuth,
}

impl McpState {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Failed(_) => "failed",
            Self::Off(_) => "off",
            Self::NeedsAuth => "needs_auth",
        }
    }

    pub(crate) fn why(&self) -> Option<&str> {
        match self {
            Self::Failed(why) | Self::Off(why) => Some(why),
            Self::NeedsAuth => {
                Some("it answers 401; its key is to be set by the operator, in its `headers`")
            }
            Self::Starting | Self::Ready => None,
        }
    }
}

/// What a server offers.
#[derive(Clone, Debug, Default)]
pub(super) struct Offers {
    pub(super) tools: Vec<Arc<McpTool>>,
    pub(super) dropped: Vec<WithheldTool>,
    pub(super) resources: Vec<McpResource>,
    pub(super) prompts: Vec<McpPrompt>,
    pub(super) facts: ServerFacts,
}

/// A tool that is offered, and of whose schema something cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IncompleteTool {
    pub(crate) own_name: String,
    /// In words.
    pub(crate) left_out: String,
}

impl Offers {
    pub(super) fn incomplete_tools(&self) -> Vec<IncompleteTool> {
        let incomplete = self.tools.iter().filter(|tool| !tool.schema.left_out().is_empty());
        incomplete
            .map(|tool| IncompleteTool {
                own_name: tool.own_name.clone(),
                left_out: tool.schema.left_out().join("; "),
            })
            .collect()
    }

    pub(super) fn tool(&self, own_name: &str) -> Option<&Arc<McpTool>> {
        self.tools.iter().find(|tool| tool.own_name == own_name)
    }
}

/// A server as it is now.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) state: McpState,
    /// Kept while the server is restarted, so that the definitions in a request do not change.
    pub(super) offers: Arc<Offers>,
    pub(super) client: Option<Client>,
    /// How long the last start took.
    pub(super) started_in: Option<Duration>,
}

/// One process or session of a server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) settings: Arc<McpServerSettings>,
    pub(super) launch_digest: String,
    pub(super) status: watch::Sender<Status>,
    is_revoked: AtomicBool,
    /// Notified when the server may not run any more.
    revoked: Notify,
}

/// What a server's task needs besides the server.
#[derive(Clone, Debug)]
pub(super) struct ServerServices {
    pub(super) reach: McpReach,
    pub(super) pins: Arc<PinFile>,
    pub(super) policy: PinPolicy,
    pub(super) backoff: Vec<Duration>,
}

impl ServerServices {
    /// Pins the tools of a server that were not known. Blocks.
    fn pin(&self, server: &str, seen: &ServerPins) {
        if let Err(error) = self.pins.note(self.policy, seen) {
            tracing::warn!(server, %error, "the tools of an MCP server cannot be pinned");
        }
    }
}

impl Server {
    pub(super) fn new(settings: Arc<McpServerSettings>) -> Self {
        let status = Status {
            state: McpState::Starting,
            offers: Arc::default(),
            client: None,
            started_in: None,
        };
        let launch_digest = settings.launch_digest();
        Self {
            settings,
            launch_digest,
            status: watch::Sender::new(status),
            is_revoked: AtomicBool::new(false),
            revoked: Notify::new(),
        }
    }

    pub(super) fn now(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Looks whether the server may still be used. One that may not is ended. Fails where nobody
    /// can look now.
    pub(super) async fn is_still_trusted(&self) -> Result<bool, Overloaded> {
        let McpOwner::Workspace(file) = &self.settings.owner else { return Ok(true) };
        let file = file.clone();
        let is_trusted = FILES.run(move || file.is_still_trusted()).await?;
        if !is_trusted {
            self.is_revoked.store(true, Ordering::Relaxed);
            self.revoked.notify_one();
        }
        Ok(is_trusted)
    }

    /// Whether the server was found to be of a file that is not trusted any more.
    pub(super) fn is_revoked(&self) -> bool {
        self.is_revoked.load(Ordering::Relaxed)
    }

    /// Waits until the server is no longer starting, at most this long.
    pub(super) async fn wait_until_started(&self, within: Duration) {
        let mut status = self.status.subscribe();
        let has_started = |status: &Status| status.state != McpState::Starting;
        _ = timeout(within, status.wait_for(has_started)).await;
    }

    /// Runs the server until it stays off. Dropping the future ends it.
    pub(super) async fn run(&self, services: ServerServices) {
        tokio::select! {
            () = self.keep_running(services) => {}
            () = self.revoked.notified() => self.turn_off(McpState::Off(REVOKED.into())),
        }
    }

    async fn keep_running(&self, services: ServerServices) {
        if !self.settings.enabled {
            return self.turn_off(McpState::Off("it is disabled in the settings".into()));
        }
        let mut restarts = Restarts::new(services.backoff.clone());
        loop {
            let started = match self.is_still_trusted().await {
                Ok(true) => self.run_once(&services).await,
                Ok(false) => return self.turn_off(McpState::Off(REVOKED.into())),
                Err(overloaded) => Err(StartFault::Failed(overloaded.to_string())),
            };
            if matches!(started, Err(StartFault::Failed(_))) {
                let (launcher, settings) = (services.reach.launcher.clone(), self.settings.clone());
                _ = spawn_blocking(move || launcher.forget_installed(&settings)).await;
            }
            let why = match started {
                Ok(why) | Err(StartFault::Failed(why)) => why,
                Err(StartFault::NeedsAuth) => return self.turn_off(McpState::NeedsAuth),
                Err(StartFault::Permanent(why)) => return self.turn_off(McpState::Off(why)),
            };
            let name = &self.settings.name;
            // A server may forget sessions as often as it is called: it is none that dies.
            let next = match services.backoff.first() {
                Some(first) if why == SESSION_ENDED => Some(*first),
                _ => restarts.next(Instant::now()),
            };
            let Some(wait) = next else {
                tracing::warn!(server = name, %why, "an MCP server has ended too often");
                return self.turn_off(McpState::Off(why));
            };
            tracing::warn!(server = name, %why, ?wait, "an MCP server has ended");
            self.status.send_modify(|status| {
                status.state = McpState::Failed(why);
                status.client = None;
            });
            sleep(wait).await;
        }
    }

    /// Says so where everybody waits for a server that nobody runs any more.
    pub(super) fn crashed(&self) {
        let why = "toolhand crashed over what it said; this is a bug of toolhand";
        self.turn_off(McpState::Off(why.into()));
    }

    fn turn_off(&self, state: McpState) {
        self.status.send_modify(|status| {
            status.state = state;
            status.client = None;
            status.offers = Arc::default();
        });
    }

    /// Starts the server and stays until it has ended. Returns why it has.
    async fn run_once(&self, services: &ServerServices) -> Result<String, StartFault> {
        let settings = &self.settings;
        let began = Instant::now();
        let stderr = StderrTail::default();
        let start = async {
            let connection = Connection::open(settings, &services.reach, &stderr).await?;
            let offers = list_all(settings, &connection).await;
            let offers = offers.map_err(|why| {
                let needs_auth = connection.client.needs_auth();
                if needs_auth { StartFault::NeedsAuth } else { StartFault::Failed(why) }
            });
            Ok((connection, offers?))
        };
        let started = timeout(settings.start_timeout, start).await;
        let too_slow = || {
            let why = format!("it was not ready within {:?}", settings.start_timeout);
            let said = Redaction::new(settings.secrets.clone()).text(&stderr.text());
            with_last_words(why, &said)
        };
        let (mut connection, offers) = started.map_err(|_| StartFault::Failed(too_slow()))??;
        self.publish(services, &connection, offers, began.elapsed()).await;
        let list_changed = connection.list_changed.clone();
        loop {
            tokio::select! {
                why = connection.ended() => return Ok(why),
                () = list_changed.notified() => {}
            }
            let asked = Instant::now();
            let listing = timeout(settings.start_timeout, list_all(settings, &connection));
            match listing.await {
                Ok(Ok(offers)) => {
                    self.publish(services, &connection, offers, began.elapsed()).await;
                }
                Ok(Err(why)) => return Ok(why),
                Err(_) => return Ok("it did not send its changed list in time".into()),
            }
            tokio::select! {
                why = connection.ended() => return Ok(why),
                () = sleep(rest_after(asked.elapsed())) => {}
            }
        }
    }

    async fn publish(
        &self,
        services: &ServerServices,
        connection: &Connection,
        offers: Offers,
        took: Duration,
    ) {
        let (services, name) = (services.clone(), self.settings.name.clone());
        let seen = self.pins(&offers.tools);
        // What could not be pinned is not offered until it is.
        _ = spawn_blocking(move || services.pin(&name, &seen)).await;
        self.tell_of_dropped(&offers.dropped);
        self.tell_of_left_out(&offers);
        self.status.send_modify(|status| {
            status.offers = Arc::new(offers);
            status.client = Some(connection.client.clone());
            if status.state != McpState::Ready {
                status.started_in = Some(took);
            }
            status.state = McpState::Ready;
        });
    }

    /// In one line, and only where others are dropped than before.
    fn tell_of_dropped(&self, dropped: &[WithheldTool]) {
        let Some(first) = dropped.first() else { return };
        if self.status.borrow().offers.dropped == dropped {
            return;
        }
        let server = &self.settings.name;
        let (tools, tool, why) = (dropped.len(), &first.own_name, &first.why);
        tracing::warn!(server, tools, tool, why, "tools of an MCP server are not offered");
    }

    /// The same for tools of whose schemas something is not used.
    fn tell_of_left_out(&self, offers: &Offers) {
        let incomplete = offers.incomplete_tools();
        let Some(first) = incomplete.first() else { return };
        if self.status.borrow().offers.incomplete_tools() == incomplete {
            return;
        }
        let server = &self.settings.name;
        let (tools, tool, without) = (incomplete.len(), &first.own_name, &first.left_out);
        tracing::warn!(server, tools, tool, without, "schemas of an MCP server are used in part");
    }

    /// Pins the tools again that could not be pinned when they were listed. Blocks.
    pub(super) fn pin_the_rest(&self, services: &ServerServices, tools: &[Arc<McpTool>]) {
        let Ok(known) = services.pins.current() else { return };
        let known = pins::of_server(&known, &self.settings.name, &self.launch_digest);
        let is_left = |tool| pins::fault(services.policy, known, tool) == Some(PinFault::NotPinned);
        if tools.iter().any(|tool| is_left(tool)) {
            services.pin(&self.settings.name, &self.pins(tools));
        }
    }

    pub(super) fn pins(&self, tools: &[Arc<McpTool>]) -> ServerPins {
        ServerPins::of_tools(&self.settings.name, &self.launch_digest, tools)
    }
}

/// How long a server is not listed again. One whose lists take long would have its way with a
/// processor.
fn rest_after(listing: Duration) -> Duration {
    REFRESH_INTERVAL.max(4 * listing)
}

/// Lists what a server offers. Only its tools must be there: what else it fails to list, it does
/// not offer.
async fn list_all(
    settings: &Arc<McpServerSettings>,
    connection: &Connection,
) -> Result<Offers, String> {
    let (client, facts) = (&connection.client, connection.facts.clone());
    let listed = if facts.has_tools { client.tools(MAX_TOOLS).await } else { Ok(Vec::new()) };
    let listed = listed.map_err(|fault| list_fault(&fault))?;
    let of_server = settings.clone();
    let found = DEFINITIONS.run(move || definitions(&of_server, &listed)).await;
    let found = found.map_err(|overloaded| overloaded.to_string())?;
    // Servers that do not answer these are of use without them.
    let until = Instant::now() + MAX_OFFERS_WAIT.min(settings.start_timeout / 3);
    let listed_resources = async {
        let mut entries = Vec::new();
        if facts.has_resources {
            entries = listed_until(until, client.resources(MAX_OFFERS).boxed()).await;
            entries
                .extend(listed_until(until, client.resource_templates(MAX_OFFERS).boxed()).await);
        }
        entries
    };
    let listed_prompts = async {
        if !facts.has_prompts {
            return Vec::new();
        }
        listed_until(until, client.prompts(MAX_OFFERS).boxed()).await
    };
    let (mut entries, mut listed_prompts) = join(listed_resources, listed_prompts).await;
    entries.truncate(2 * MAX_OFFERS);
    listed_prompts.truncate(MAX_OFFERS);
    let redaction = client.redaction();
    Ok(Offers {
        tools: found.tools,
        dropped: found.dropped,
        resources: resources(&settings.name, &entries, redaction),
        prompts: prompts(&settings.name, &listed_prompts, redaction),
        facts,
    })
}

/// What was listed by then; nothing if it was not, or not whole.
async fn listed_until(
    until: Instant,
    listing: BoxFuture<'_, Result<Vec<Value>, RequestFault>>,
) -> Vec<Value> {
    timeout_at(until, listing).await.ok().and_then(Result::ok).unwrap_or_default()
}

fn list_fault(fault: &RequestFault) -> String {
    match fault {
        RequestFault::Refused(why) => format!("it refuses to list its tools: {why}"),
        RequestFault::TimedOut => "it did not list its tools in time".into(),
        RequestFault::Failed(why) => why.clone(),
        RequestFault::Ended => "it ended while it listed its tools".into(),
        RequestFault::Malformed => "its list of tools is malformed".into(),
    }
}
