//! Starts a server, greets it, and notices its end.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ProtocolVersion;
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::BufReader;
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::client::{Client, Handler};
use super::last_words::with_last_words;
use super::launcher::McpLauncher;
use super::lines::{LinesEnd, MAX_MESSAGE_BYTES, Messages};
use super::progress::ProgressListeners;
use super::redaction::Redaction;
use super::server_input::ServerInput;
use super::settings::{McpServerSettings, McpTransport};
use super::stdio_requests::{NotingTransport, StdioRequests};
use super::streamable_http::{self, ConnectionFault, http_transport, is_unauthorized};
use crate::own_endpoints::OwnEndpoints;
use crate::processes::{Exit, LastWords, PipedEnd, PipedProcess, PipedTree, RunError, StderrTail};
use crate::text;

/// How much of a server's pipe is read at once.
const PIPE_BYTES: usize = 64 << 10;

/// How long the reason is waited for when a connection has closed.
const REASON_PATIENCE: Duration = Duration::from_secs(2);

const MALFORMED: &str = "its answer to `initialize` is malformed";

/// How servers are reached: what starts programs, and where no server of a workspace may be.
#[derive(Clone, Debug)]
pub(crate) struct McpReach {
    pub(crate) launcher: McpLauncher,
    pub(crate) own: OwnEndpoints,
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) facts: ServerFacts,
    /// Notified when the server says that its lists have changed.
    pub(super) list_changed: Arc<Notify>,
    ends: EndWatcher,
}

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ServerFacts {
    pub(super) version: Option<String>,
    pub(super) instructions: Option<String>,
    pub(super) has_tools: bool,
    pub(super) has_resources: bool,
    pub(super) has_prompts: bool,
}

/// Why a server could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StartFault {
    /// It answers 401.
    NeedsAuth,
    /// Trying again is of no use.
    Permanent(String),
    Failed(String),
}

/// Resolves with the reason when the connection has ended.
#[derive(Debug)]
struct EndWatcher(JoinSet<Option<String>>);

impl Connection {
    /// Starts the server and greets it. Bounded by whoever calls, who can look meanwhile at what
    /// it says on its standard error.
    pub(super) async fn open(
        settings: &McpServerSettings,
        reach: &McpReach,
        stderr: &StderrTail,
    ) -> Result<Self, StartFault> {
        match Self::open_with(settings, reach, stderr, ClientLifecycleMode::Initialize).await {
            Err(OpenError::Refused(why)) => {
                let preferred_versions = vec![ProtocolVersion::LATEST];
                let discover = ClientLifecycleMode::Discover { preferred_versions };
                // What most servers say to this is that they do not know it.
                Self::open_with(settings, reach, stderr, discover).await.map_err(
                    |error| match error {
                        OpenError::Refused(_) => OpenError::Refused(why),
                        fault @ OpenError::Fault(_) => fault,
                    },
                )
            }
            opened => opened,
        }
        .map_err(OpenError::into_fault)
    }

    async fn open_with(
        settings: &McpServerSettings,
        reach: &McpReach,
        stderr: &StderrTail,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, OpenError> {
        let redaction = Redaction::new(settings.secrets.clone());
        let listeners = ProgressListeners::default();
        let list_changed = Arc::new(Notify::new());
        let handler = Handler {
            server: settings.name.clone(),
            listeners: listeners.clone(),
            list_changed: list_changed.clone(),
            redaction: redaction.clone(),
        };
        let (mut ends, mut broken) = (EndWatcher(JoinSet::new()), None);
        let running = match &settings.transport {
            McpTransport::Stdio(command) => {
                let process = reach.launcher.start(settings, command).await;
                let process =
                    process.map_err(|why| OpenError::Fault(StartFault::Permanent(why)))?;
                let requests = StdioRequests::default();
                let (output, input) = ends.watch(
                    process,
                    settings,
                    requests.clone(),
                    redaction.clone(),
                    stderr.clone(),
                );
                let inner =
                    AsyncRwTransport::new(output, input).with_max_line_length(MAX_MESSAGE_BYTES);
                let transport = NotingTransport { inner, requests };
                handler.serve_with_lifecycle(transport, lifecycle).await
            }
            McpTransport::Http { url, headers } => {
                let public_only = settings.owner.is_workspace().then_some(&reach.own);
                let noticed = broken.insert(ConnectionFault::default()).clone();
                let transport = http_transport(url, headers, public_only, noticed)
                    .await
                    .map_err(|why| OpenError::Fault(StartFault::Permanent(why)))?;
                handler.serve_with_lifecycle(transport, lifecycle).await
            }
            McpTransport::Unavailable(why) => {
                return Err(OpenError::Fault(StartFault::Permanent(why.clone())));
            }
        };
        let running = match running {
            Ok(running) => running,
            Err(error) => return Err(ends.opening_fault(&error, &redaction).await),
        };
        let facts = facts(&running, &redaction);
        let client = Client { peer: running.peer().clone(), listeners, redaction, broken };
        ends.watch_service(running);
        Ok(Self { client, facts, list_changed, ends })
    }

    /// Waits until the connection has ended, and says why.
    pub(super) async fn ended(&mut self) -> String {
        let broken = async {
            match &self.client.broken {
                Some(broken) => broken.reason().await,
                None => pending().await,
            }
        };
        tokio::select! {
            why = self.ends.reason() => why,
            why = broken => why,
        }
    }
}

/// Why a server was not opened.
enum OpenError {
    /// It refuses to be greeted so.
    Refused(String),
    Fault(StartFault),
}

impl OpenError {
    fn into_fault(self) -> StartFault {
        match self {
            Self::Refused(why) => {
                StartFault::Failed(format!("it refuses to be initialized: {why}"))
            }
            Self::Fault(fault) => fault,
        }
    }
}

impl EndWatcher {
    /// Watches the process and its pipes. Returns the messages, and where to write.
    fn watch(
        &mut self,
        process: PipedProcess,
        settings: &McpServerSettings,
        requests: StdioRequests,
        redaction: Redaction,
        kept: StderrTail,
    ) -> (Messages<BufReader<pipe::Receiver>>, ServerInput<pipe::Sender>) {
        let PipedProcess { stdin, stdout, stderr, mut tree } = process;
        let (messages, output_end) =
            Messages::of(BufReader::with_capacity(PIPE_BYTES, stdout), requests);
        // A call that is not read is not answered in time either.
        let (input, input_end) = ServerInput::to(stdin, settings.timeout);
        self.0.spawn(async move {
            let broken_limit = async {
                match output_end.await {
                    Ok(LinesEnd::Closed) | Err(_) => pending().await,
                    Ok(end) => end.to_string(),
                }
            };
            let unread = async {
                let end = match input_end.await {
                    Ok(end) => end.to_string(),
                    Err(_) => pending().await,
                };
                // That the process has ended says more.
                sleep(REASON_PATIENCE).await;
                end
            };
            let last_words = LastWords::listen_into(stderr, kept);
            let why = tokio::select! {
                why = exited(&mut tree) => why,
                // What it says then is about its being ended.
                why = broken_limit => return Some(why),
                why = unread => return Some(why),
            };
            Some(with_last_words(why, &redaction.text(&last_words.text().await)))
        });
        (messages, input)
    }

    fn watch_service(&mut self, running: RunningService<RoleClient, Handler>) {
        self.0.spawn(async move {
            _ = running.waiting().await;
            None
        });
    }

    /// The reason that the process gives counts more than that its connection has closed.
    async fn reason(&mut self) -> String {
        let closed = || "it closed the connection".to_owned();
        match self.0.join_next().await {
            Some(Ok(Some(why))) => why,
            None | Some(Err(_)) => closed(),
            Some(Ok(None)) => match timeout(REASON_PATIENCE, self.0.join_next()).await {
                Ok(Some(Ok(Some(why)))) => why,
                _ => closed(),
            },
        }
    }

    async fn opening_fault(
        &mut self,
        error: &ClientInitializeError,
        redaction: &Redaction,
    ) -> OpenError {
        if error.auth_challenge().is_some() || is_unauthorized(error) {
            return OpenError::Fault(StartFault::NeedsAuth);
        }
        let why = match error {
            ClientInitializeError::JsonRpcError(error) => {
                return OpenError::Refused(redaction.line(&error.message));
            }
            ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
                "it speaks no version of the protocol that toolhand does".to_owned()
            }
            ClientInitializeError::TransportError { error, .. } => {
                streamable_http::opening_fault(error.error.as_ref())
            }
            ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::ExpectedInitResponse(Some(_)) => MALFORMED.to_owned(),
            _ => match timeout(REASON_PATIENCE, self.0.join_next()).await {
                Ok(Some(Ok(Some(why)))) => why,
                _ => MALFORMED.to_owned(),
            },
        };
        OpenError::Fault(StartFault::Failed(why))
    }
}

async fn exited(tree: &mut PipedTree) -> String {
    match tree.ended().await {
        Ok(PipedEnd { exit: Some(Exit::Code(code)), .. }) => format!("exit code {code}"),
        Ok(PipedEnd { exit: Some(Exit::Signal(signal)), .. }) => format!("signal {signal}"),
        Ok(PipedEnd { exit: None, .. }) => "its process was ended".to_owned(),
        // It is there, and only the program's view of the machine lacks it.
        Err(RunError::Program { program, source })
            if source.kind() == io::ErrorKind::NotFound && program.is_file() =>
        {
            let program = text::printable_path(&program);
            format!("the sandbox does not show {program}; name its directory in sandbox.readable")
        }
        Err(error) => error.to_string(),
    }
}

fn facts(running: &RunningService<RoleClient, Handler>, redaction: &Redaction) -> ServerFacts {
    let Some(facts) = running.peer().peer_info() else { return ServerFacts::default() };
    let capabilities = &facts.capabilities;
    ServerFacts {
        version: facts.server_info.as_ref().map(|server| redaction.line(&server.version)),
        instructions: facts.instructions.as_deref().map(|words| redaction.text(words)),
        has_tools: capabilities.tools.is_some(),
        has_resources: capabilities.resources.is_some(),
        has_prompts: capabilities.prompts.is_some(),
    }
}
