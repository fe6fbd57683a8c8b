//! Sends requests to a server, and answers its own.
//!
//! Results are taken as JSON values: a list with one malformed tool, or an answer with a part of a
//! kind that the library does not know, is still taken apart.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    ClientResult, EmptyResult, ErrorCode, ErrorData, GetPromptRequest, GetPromptRequestParams,
    Implementation, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
    ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ReadResourceRequest,
    ReadResourceRequestParams, RequestId, ServerNotification, ServerRequest,
};
use rmcp::service::{
    NotificationContext, Peer, PeerRequestOptions, RequestContext, RoleClient, Service,
    ServiceError,
};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::progress::ProgressListeners;
use super::redaction::Redaction;
use super::streamable_http::{ConnectionFault, http_fault};

/// Pages of one list. A cursor may lead in a circle.
const MAX_PAGES: usize = 64;

/// What one list may take in memory, whole. 512 tools with the largest schemas are half of it.
const MAX_LIST_BYTES: usize = 64 << 20;

const TOO_LARGE: &str = "its list is larger than toolhand takes";

/// Sends requests to a server.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) peer: Peer<RoleClient>,
    pub(super) listeners: ProgressListeners,
    pub(super) redaction: Redaction,
    /// Of a server that is reached over HTTP.
    pub(super) broken: Option<ConnectionFault>,
}

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestFault {
    /// The server has refused it, with these words.
    Refused(String),
    TimedOut,
    /// It could not be sent, or was answered with something else, and the connection goes on.
    Failed(String),
    /// The connection has ended.
    Ended,
    /// The answer is not what was asked for.
    Malformed,
}

/// How long a request may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestTimeouts {
    /// Anew with each progress message.
    pub(super) silent: Duration,
    pub(super) total: Duration,
}

/// What we answer to the server, and hear of it.
pub(super) struct Handler {
    pub(super) server: String,
    pub(super) listeners: ProgressListeners,
    pub(super) list_changed: Arc<Notify>,
    pub(super) redaction: Redaction,
}

/// Makes the request for a page of a list, from its cursor.
macro_rules! page_of {
    ($request:ident) => {
        |cursor| {
            let params = Some(PaginatedRequestParams::default().with_cursor(cursor));
            ClientRequest::$request($request { params, ..$request::default() })
        }
    };
}

impl Client {
    /// All pages of the server's list of tools, at most `most` and one more.
    pub(super) async fn tools(&self, most: usize) -> Result<Vec<Value>, RequestFault> {
        self.pages("tools", most, page_of!(ListToolsRequest)).await
    }

    pub(super) async fn resources(&self, most: usize) -> Result<Vec<Value>, RequestFault> {
        self.pages("resources", most, page_of!(ListResourcesRequest)).await
    }

    pub(super) async fn resource_templates(&self, most: usize) -> Result<Vec<Value>, RequestFault> {
        self.pages("resourceTemplates", most, page_of!(ListResourceTemplatesRequest)).await
    }

    pub(super) async fn prompts(&self, most: usize) -> Result<Vec<Value>, RequestFault> {
        self.pages("prompts", most, page_of!(ListPromptsRequest)).await
    }

    pub(super) async fn read_resource(
        &self,
        uri: &str,
        timeouts: RequestTimeouts,
    ) -> Result<Value, RequestFault> {
        let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
        self.ask(ClientRequest::ReadResourceRequest(request), timeouts, None).await
    }

    pub(super) async fn prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        timeouts: RequestTimeouts,
    ) -> Result<Value, RequestFault> {
        let mut params = GetPromptRequestParams::new(name);
        params.arguments = Some(arguments);
        let request = GetPromptRequest::new(params);
        self.ask(ClientRequest::GetPromptRequest(request), timeouts, None).await
    }

    /// Calls a tool once. A future that is dropped tells the server so.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        timeouts: RequestTimeouts,
        progress: Option<watch::Sender<String>>,
    ) -> Result<Value, RequestFault> {
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = Some(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        self.ask(request, timeouts, progress).await
    }

    async fn pages(
        &self,
        key: &str,
        most: usize,
        page: impl Fn(Option<String>) -> ClientRequest,
    ) -> Result<Vec<Value>, RequestFault> {
        let (mut found, mut cursor, mut left) = (Vec::new(), None, MAX_LIST_BYTES);
        for _ in 0..MAX_PAGES {
            let mut result =
                self.ask(page(cursor.clone()), RequestTimeouts::HOUR_LONG, None).await?;
            let Value::Array(values) = result[key].take() else {
                return Err(RequestFault::Malformed);
            };
            let size: usize = values.iter().map(size_estimate).sum();
            left = left.checked_sub(size).ok_or_else(|| RequestFault::Failed(TOO_LARGE.into()))?;
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
        timeouts: RequestTimeouts,
        progress: Option<watch::Sender<String>>,
    ) -> Result<Value, RequestFault> {
        // The library's own timeouts wait until the server has read the cancellation, which one that
        // reads nothing never does.
        let options = PeerRequestOptions::no_options();
        let listener = progress.unwrap_or_else(|| watch::channel(String::new()).0);
        let heard = listener.subscribe();
        let mut progress = self.listeners.expect(listener);
        let handle = self.peer.send_cancellable_request(request, options).await;
        let handle = handle.map_err(|error| self.fault(error))?;
        let mut sent = SentRequest { peer: self.peer.clone(), id: Some(handle.id.clone()) };
        progress.sent(&handle.progress_token);
        let answer = tokio::select! {
            answer = handle.await_response() => answer,
            // What is dropped tells the server.
            () = timeouts.passed(heard) => return Err(RequestFault::TimedOut),
        };
        sent.id = None;
        let answer = answer.map_err(|error| self.fault(error))?;
        match serde_json::to_value(answer) {
            Ok(answer @ Value::Object(_)) => Ok(answer),
            _ => Err(RequestFault::Malformed),
        }
    }

    fn fault(&self, error: ServiceError) -> RequestFault {
        match error {
            // What else it holds is for who wrote the server.
            ServiceError::McpError(error) => {
                RequestFault::Refused(self.redaction.line(&error.message))
            }
            ServiceError::Timeout { .. } | ServiceError::Cancelled { .. } => RequestFault::TimedOut,
            ServiceError::UnexpectedResponse => RequestFault::Malformed,
            ServiceError::TransportSend(error)
                if self.broken.as_ref().is_some_and(|broken| !broken.is_set()) =>
            {
                RequestFault::Failed(http_fault(error.error.as_ref()))
            }
            _ => RequestFault::Ended,
        }
    }

    /// Whether the server has answered that it wants a key.
    pub(super) fn needs_auth(&self) -> bool {
        self.broken.as_ref().is_some_and(ConnectionFault::needs_auth)
    }

    pub(super) fn redaction(&self) -> &Redaction {
        &self.redaction
    }
}

/// About what a value takes in memory.
fn size_estimate(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(size_estimate).sum(),
            Value::Object(members) => {
                let member = |(name, value): (&String, &Value)| {
                    size_of::<String>() + name.len() + size_estimate(value)
                };
                members.iter().map(member).sum()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

impl RequestTimeouts {
    /// For requests whose caller has a limit of its own.
    const HOUR_LONG: Self =
        Self { silent: Duration::from_secs(3_600), total: Duration::from_secs(3_600) };

    /// Waits until one of them has passed.
    async fn passed(self, mut heard: watch::Receiver<String>) {
        let total = Instant::now() + self.total;
        let mut until = total.min(Instant::now() + self.silent);
        // A server may tell of progress without end.
        while Instant::now() < total
            && let Ok(Ok(())) = timeout_at(until, heard.changed()).await
        {
            until = total.min(Instant::now() + self.silent);
        }
        // Where nobody can tell of progress any more.
        sleep_until(until).await;
    }
}

/// A request that waits for its answer. Tells the server when nobody does any more.
struct SentRequest {
    peer: Peer<RoleClient>,
    /// `None`: it is answered.
    id: Option<RequestId>,
}

impl Drop for SentRequest {
    fn drop(&mut self) {
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
                let message = progress.message.as_deref().unwrap_or_default();
                let of = progress.total.map(|total| format!("/{total}")).unwrap_or_default();
                let line = self.redaction.line(&format!("{}{of} {message}", progress.progress));
                self.listeners.tell(&progress.progress_token, line);
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
