//! Talks to one server over rmcp. Nothing outside of this module knows that library.
//!
//! Results are taken as JSON values: a list with one malformed tool, or an answer with a part of a
//! kind that the library does not know, is still taken apart.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    ClientResult, EmptyResult, ErrorCode, ErrorData, GetPromptRequest, GetPromptRequestParams,
    Implementation, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
    ListToolsRequest, PaginatedRequestParams, ProgressToken, ProtocolVersion, ReadResourceRequest,
    ReadResourceRequestParams, RequestId, ServerNotification, ServerRequest,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, NotificationContext, Peer,
    PeerRequestOptions, RequestContext, RoleClient, RunningService, Service, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, BufReader, DuplexStream, duplex};
use tokio::net::unix::pipe;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::Url;

use super::launcher::McpLauncher;
use super::lines::{LinesEnd, MAX_MESSAGE_BYTES, copy_messages};
use super::public_hosts::{self, NotPublic, PublicHosts};
use super::redaction::Redaction;
use super::settings::{McpServerSettings, McpTransport};
use crate::processes::{Exit, PipedEnd, PipedProcess, PipedTree, RunError};
use crate::sync;

/// Pages of one list. A cursor may lead in a circle.
const MAX_PAGES: usize = 64;

/// What is kept between the server's pipe and the reader of its messages.
const PIPE_BYTES: usize = 64 << 10;

/// How long the reason is waited for when a connection has closed.
const REASON_PATIENCE: Duration = Duration::from_secs(2);

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What of standard error is kept, for the log.
const STDERR_BYTES: usize = 4 << 10;

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) facts: ServerFacts,
    /// Notified when the server says that its lists have changed.
    pub(super) list_changed: Arc<Notify>,
    ends: Ends,
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
    Never(String),
    Failed(String),
}

/// Sends requests to a server.
#[derive(Clone, Debug)]
pub(super) struct Client {
    peer: Peer<RoleClient>,
    listeners: Listeners,
    redaction: Redaction,
}

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestFault {
    /// The server has refused it, with these words.
    Refused(String),
    TimedOut,
    /// The connection has ended.
    Ended,
    /// The answer is none.
    Malformed,
}

/// How long a request may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Anew with each progress message.
    pub(super) silent: Duration,
    pub(super) total: Duration,
}

type Listeners = Arc<Mutex<HashMap<ProgressToken, mpsc::Sender<String>>>>;

/// Resolves with the reason when the connection has ended.
#[derive(Debug)]
struct Ends(JoinSet<Option<String>>);

/// What we answer to the server, and hear of it.
struct Handler {
    server: String,
    listeners: Listeners,
    list_changed: Arc<Notify>,
    redaction: Redaction,
}

impl Connection {
    /// Starts the server and greets it. Bounded by whoever calls.
    pub(super) async fn open(
        settings: &McpServerSettings,
        launcher: &McpLauncher,
    ) -> Result<Self, StartFault> {
        match Self::open_with(settings, launcher, ClientLifecycleMode::Initialize).await {
            Err(Opening::Refused(_)) => {
                let preferred_versions = vec![ProtocolVersion::LATEST];
                let discover = ClientLifecycleMode::Discover { preferred_versions };
                Self::open_with(settings, launcher, discover).await
            }
            opened => opened,
        }
        .map_err(Opening::into_fault)
    }

    async fn open_with(
        settings: &McpServerSettings,
        launcher: &McpLauncher,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, Opening> {
        let redaction = Redaction::new(settings.secrets());
        let listeners = Listeners::default();
        let list_changed = Arc::new(Notify::new());
        let handler = Handler {
            server: settings.name.clone(),
            listeners: listeners.clone(),
            list_changed: list_changed.clone(),
            redaction: redaction.clone(),
        };
        let mut ends = Ends(JoinSet::new());
        let running = match &settings.transport {
            McpTransport::Stdio(command) => {
                let process = launcher.start(settings, command).await;
                let process = process.map_err(|why| Opening::Fault(StartFault::Never(why)))?;
                let (output, input) = ends.watch(process, settings.name.clone());
                let transport =
                    AsyncRwTransport::new(output, input).with_max_line_length(MAX_MESSAGE_BYTES);
                handler.serve_with_lifecycle(transport, lifecycle).await
            }
            McpTransport::Http { url, headers } => {
                let transport = http_transport(url, headers, settings.owner.is_workspace())
                    .map_err(|why| Opening::Fault(StartFault::Never(why)))?;
                handler.serve_with_lifecycle(transport, lifecycle).await
            }
            McpTransport::Missing(why) => {
                return Err(Opening::Fault(StartFault::Never(why.clone())));
            }
        };
        let running = match running {
            Ok(running) => running,
            Err(error) => return Err(ends.opening_fault(&error, &redaction).await),
        };
        let facts = facts(&running);
        let client = Client { peer: running.peer().clone(), listeners, redaction };
        ends.watch_service(running);
        Ok(Self { client, facts, list_changed, ends })
    }

    /// Waits until the connection has ended, and says why.
    pub(super) async fn ended(&mut self) -> String {
        self.ends.reason().await
    }
}

/// Why a server was not opened.
enum Opening {
    /// It refuses to be greeted so.
    Refused(String),
    Fault(StartFault),
}

impl Opening {
    fn into_fault(self) -> StartFault {
        match self {
            Self::Refused(why) => {
                StartFault::Failed(format!("it refuses to be initialized: {why}"))
            }
            Self::Fault(fault) => fault,
        }
    }
}

impl Ends {
    /// Reads the process's pipes. Returns the messages, and where to write.
    fn watch(&mut self, process: PipedProcess, server: String) -> (DuplexStream, pipe::Sender) {
        let PipedProcess { stdin, stdout, stderr, mut tree } = process;
        let (ours, theirs) = duplex(PIPE_BYTES);
        self.0.spawn(async move {
            let messages = async {
                match copy_messages(BufReader::with_capacity(PIPE_BYTES, stdout), ours).await {
                    LinesEnd::Closed | LinesEnd::NotWanted => std::future::pending().await,
                    end => end.to_string(),
                }
            };
            let log = drain(stderr, &server);
            let why = tokio::select! {
                why = messages => why,
                why = exited(&mut tree) => why,
                () = log => String::new(),
            };
            Some(why)
        });
        (theirs, stdin)
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
    ) -> Opening {
        if error.auth_challenge().is_some() || is_unauthorized(error) {
            return Opening::Fault(StartFault::NeedsAuth);
        }
        let why = match error {
            ClientInitializeError::JsonRpcError(error) => {
                return Opening::Refused(redaction.line(&error.message));
            }
            ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
                "it speaks no version of the protocol that toolhand does".to_owned()
            }
            ClientInitializeError::TransportError { error, .. } => http_fault(error.error.as_ref()),
            _ => match timeout(REASON_PATIENCE, self.0.join_next()).await {
                Ok(Some(Ok(Some(why)))) => why,
                _ => "its answer to `initialize` is none".to_owned(),
            },
        };
        Opening::Fault(StartFault::Failed(why))
    }
}

/// Keeps the last of standard error for the log. Never ends while the program has it open.
async fn drain(mut stderr: pipe::Receiver, server: &str) {
    let mut kept = Vec::new();
    let mut piece = vec![0; STDERR_BYTES];
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        kept.extend_from_slice(&piece[..count]);
        let surplus = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..surplus);
    }
    // It may hold keys that the program was given, so it is not for the usual log.
    let text = String::from_utf8_lossy(&kept);
    tracing::trace!(server, stderr = %text, "the standard error of an MCP server has ended");
    std::future::pending::<()>().await;
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
            let program = program.display();
            format!("the sandbox does not show {program}; name its directory in sandbox.readable")
        }
        Err(error) => error.to_string(),
    }
}

fn facts(running: &RunningService<RoleClient, Handler>) -> ServerFacts {
    let Some(facts) = running.peer().peer_info() else { return ServerFacts::default() };
    let capabilities = &facts.capabilities;
    ServerFacts {
        version: facts.server_info.as_ref().map(|server| server.version.clone()),
        instructions: facts.instructions.clone(),
        has_tools: capabilities.tools.is_some(),
        has_resources: capabilities.resources.is_some(),
        has_prompts: capabilities.prompts.is_some(),
    }
}

fn http_transport(
    url: &Url,
    headers: &[(reqwest::header::HeaderName, crate::secret::Secret)],
    must_be_public: bool,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let bad = || format!("the header `{name}` has a value that cannot be sent");
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| bad())?;
        value.set_sensitive(true);
        map.insert(name.clone(), value);
    }
    // Without one, building a client panics. An error means that there is one already.
    rustls::crypto::ring::default_provider().install_default().ok();
    // Redirects would carry the headers elsewhere, and a proxy would read them.
    let mut client = reqwest::Client::builder()
        .default_headers(map)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT);
    if must_be_public {
        public_hosts::expect_public(url).map_err(|fault| fault.to_string())?;
        client = client.dns_resolver(Arc::new(PublicHosts));
    }
    let client = client.build().map_err(|_| "the HTTP client cannot be made".to_owned())?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    config.max_sse_event_size = MAX_MESSAGE_BYTES;
    // It would send calls again.
    config.reinit_on_expired_session = false;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Says what is wrong with an HTTP answer, without its words.
fn http_fault(error: &(dyn std::error::Error + 'static)) -> String {
    let mut source = Some(error);
    while let Some(current) = source {
        if let Some(fault) = current.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            return match fault {
                StreamableHttpError::Client(error) => client_fault(error),
                StreamableHttpError::HttpStatus(_) => "it answers with an HTTP error".into(),
                StreamableHttpError::UnexpectedContentType(_) => {
                    "its answer is neither JSON nor an event stream; the address may be that of \
                     a page, or of the old SSE transport, which is not supported"
                        .into()
                }
                StreamableHttpError::SessionExpired => "it has ended the session".into(),
                StreamableHttpError::ResponseBodyTooLarge { .. } => {
                    "its answer is too large".into()
                }
                _ => "its answer is none of the MCP protocol".into(),
            };
        }
        if let Some(error) = current.downcast_ref::<reqwest::Error>() {
            return client_fault(error);
        }
        source = current.source();
    }
    "it cannot be reached over HTTP".into()
}

fn client_fault(error: &reqwest::Error) -> String {
    let mut source = std::error::Error::source(error);
    while let Some(current) = source {
        if let Some(fault) = current.downcast_ref::<NotPublic>() {
            return fault.to_string();
        }
        source = current.source();
    }
    match error.status() {
        Some(status) => format!("it answers with HTTP {}", status.as_u16()),
        None if error.is_connect() => "it cannot be connected to".into(),
        None if error.is_timeout() => "it does not answer in time".into(),
        None => "it cannot be reached over HTTP".into(),
    }
}

/// A 401 without a challenge.
fn is_unauthorized(error: &ClientInitializeError) -> bool {
    let ClientInitializeError::TransportError { error, .. } = error else { return false };
    let text = error.error.to_string();
    text.contains("401")
}

impl Client {
    /// All pages of the server's list of tools, at most `most` and one more.
    pub(super) async fn tools(&self, most: usize) -> Result<Vec<Value>, RequestFault> {
        let page = |cursor| {
            let params = Some(PaginatedRequestParams::default().with_cursor(cursor));
            ClientRequest::ListToolsRequest(ListToolsRequest {
                params,
                ..ListToolsRequest::default()
            })
        };
        self.pages("tools", most, page).await
    }

    pub(super) async fn resources(&self, most: usize) -> Result<Vec<Value>, RequestFault> {
        let page = |cursor| {
            let params = Some(PaginatedRequestParams::default().with_cursor(cursor));
            ClientRequest::ListResourcesRequest(ListResourcesRequest {
                params,
                ..ListResourcesRequest::default()
            })
        };
        self.pages("resources", most, page).await
    }

    pub(super) async fn resource_templates(&self, most: usize) -> Result<Vec<Value>, RequestFault> {
        let page = |cursor| {
            let params = Some(PaginatedRequestParams::default().with_cursor(cursor));
            ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
                params,
                ..ListResourceTemplatesRequest::default()
            })
        };
        self.pages("resourceTemplates", most, page).await
    }

    pub(super) async fn prompts(&self, most: usize) -> Result<Vec<Value>, RequestFault> {
        let page = |cursor| {
            let params = Some(PaginatedRequestParams::default().with_cursor(cursor));
            ClientRequest::ListPromptsRequest(ListPromptsRequest {
                params,
                ..ListPromptsRequest::default()
            })
        };
        self.pages("prompts", most, page).await
    }

    pub(super) async fn read_resource(
        &self,
        uri: &str,
        patience: Patience,
    ) -> Result<Value, RequestFault> {
        let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
        self.ask(ClientRequest::ReadResourceRequest(request), patience, None).await
    }

    pub(super) async fn prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        patience: Patience,
    ) -> Result<Value, RequestFault> {
        let mut params = GetPromptRequestParams::new(name);
        params.arguments = Some(arguments);
        let request = GetPromptRequest::new(params);
        self.ask(ClientRequest::GetPromptRequest(request), patience, None).await
    }

    /// Calls a tool once. A future that is dropped tells the server so.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        patience: Patience,
        progress: Option<mpsc::Sender<String>>,
    ) -> Result<Value, RequestFault> {
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = Some(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        self.ask(request, patience, progress).await
    }

    async fn pages(
        &self,
        key: &str,
        most: usize,
        page: impl Fn(Option<String>) -> ClientRequest,
    ) -> Result<Vec<Value>, RequestFault> {
        let (mut found, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let mut result = self.ask(page(cursor.clone()), Patience::UNBOUNDED, None).await?;
            let Value::Array(values) = result[key].take() else {
                return Err(RequestFault::Malformed);
            };
            found.extend(values);
            let next = result["nextCursor"].as_str().map(str::to_owned);
            if next.is_none() || next == cursor || most < found.len() {
                break;
            }
            cursor = next;
        }
        Ok(found)
    }

    async fn ask(
        &self,
        request: ClientRequest,
        patience: Patience,
        progress: Option<mpsc::Sender<String>>,
    ) -> Result<Value, RequestFault> {
        let options = PeerRequestOptions::with_timeout(patience.silent)
            .reset_timeout_on_progress()
            .with_max_total_timeout(patience.total);
        let handle = self.peer.send_cancellable_request(request, options).await;
        let handle = handle.map_err(|error| self.fault(error))?;
        let mut sent = SentRequest {
            peer: self.peer.clone(),
            id: Some(handle.id.clone()),
            token: handle.progress_token.clone(),
            listeners: self.listeners.clone(),
        };
        if let Some(progress) = progress {
            sync::lock(&self.listeners).insert(sent.token.clone(), progress);
        }
        let answer = handle.await_response().await;
        // On a timeout the library has sent the cancellation.
        sent.id = None;
        let answer = answer.map_err(|error| self.fault(error))?;
        serde_json::to_value(answer).map_err(|_| RequestFault::Malformed)
    }

    fn fault(&self, error: ServiceError) -> RequestFault {
        match error {
            // What else it holds is for who wrote the server.
            ServiceError::McpError(error) => {
                RequestFault::Refused(self.redaction.line(&error.message))
            }
            ServiceError::Timeout { .. } | ServiceError::Cancelled { .. } => RequestFault::TimedOut,
            ServiceError::UnexpectedResponse => RequestFault::Malformed,
            _ => RequestFault::Ended,
        }
    }

    pub(super) fn redaction(&self) -> &Redaction {
        &self.redaction
    }
}

impl Patience {
    /// For requests whose caller has a limit of its own.
    const UNBOUNDED: Self =
        Self { silent: Duration::from_secs(3_600), total: Duration::from_secs(3_600) };
}

/// A request that waits for its answer. Tells the server when nobody does any more.
struct SentRequest {
    peer: Peer<RoleClient>,
    /// `None`: it is answered.
    id: Option<RequestId>,
    token: ProgressToken,
    listeners: Listeners,
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        sync::lock(&self.listeners).remove(&self.token);
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let peer = self.peer.clone();
        let cancelled = json!({
            "method": "notifications/cancelled",
            "params": {"requestId": id, "reason": "nobody waits for the answer any more"},
        });
        let Ok(cancelled) = serde_json::from_value(cancelled) else { return };
        runtime.spawn(async move { peer.send_notification(cancelled).await });
    }
}

impl Service<RoleClient> for Handler {
    /// Sampling would spend the operator's key, and elicitation would speak to the user: nothing
    /// but a ping is answered.
    async fn handle_request(
        &self,
        request: ServerRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        match request {
            ServerRequest::PingRequest(_) => Ok(ClientResult::EmptyResult(EmptyResult {})),
            _ => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "not supported", None)),
        }
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        match notification {
            ServerNotification::ProgressNotification(progress) => {
                let progress = progress.params;
                let listener = sync::lock(&self.listeners).get(&progress.progress_token).cloned();
                if let Some(listener) = listener {
                    let message = progress.message.as_deref().unwrap_or_default();
                    let of = progress.total.map(|total| format!("/{total}")).unwrap_or_default();
                    let line = format!("{}{of} {message}", progress.progress);
                    // A listener that does not keep up misses some.
                    _ = listener.try_send(self.redaction.line(&line));
                }
            }
            ServerNotification::ToolListChangedNotification(_)
            | ServerNotification::PromptListChangedNotification(_)
            | ServerNotification::ResourceListChangedNotification(_) => {
                self.list_changed.notify_one();
            }
            ServerNotification::LoggingMessageNotification(message) => {
                let message = serde_json::to_value(message.params).unwrap_or_default();
                let text = self.redaction.line(&message["data"].to_string());
                tracing::debug!(server = self.server, %text, "an MCP server logs");
            }
            _ => {}
        }
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("toolhand", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
