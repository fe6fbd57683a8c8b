//! Reaches servers over HTTP, and notices what rmcp does not tell: that a session is gone, or that
//! an answer will not come.

use std::collections::HashMap;
use std::error::Error;
use std::future::ready;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ProtocolVersion};
use rmcp::service::ClientInitializeError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use serde_json::json;
use sse_stream::Sse;
use tokio::sync::watch;
use tokio::time::timeout;
use url::Url;

use super::http_post::{HttpFault, HttpPost, PostAnswer};
use super::lines::{MAX_MESSAGE_BYTES, MessageValues, TOO_LONG, TOO_MANY_VALUES};
use super::listening::ListeningStreams;
use super::public_hosts::{NotPublic, PublicHosts};
use super::request_budget::{MessageKind, RequestBudget, TOO_MANY};
use super::waiting_requests::{WaitingRequest, WaitingRequests};
use crate::http_client;
use crate::own_endpoints::OwnEndpoints;
use crate::secret::Secret;

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The least time before a stream is opened again, whatever the server asks for.
const MIN_RETRY: Duration = Duration::from_secs(1);

const UNAUTHORIZED: u16 = StatusCode::UNAUTHORIZED.as_u16();

const TOO_MANY_REQUESTS: u16 = StatusCode::TOO_MANY_REQUESTS.as_u16();

/// Why a connection is of no use whose server wants a key.
const NEEDS_AUTH: &str = "it answers 401";

/// Why a request is not answered that was only accepted.
const ONLY_ACCEPTED: &str =
    "it has taken the request (HTTP 202), and no stream is open on which its answer could come";

pub(super) const SESSION_ENDED: &str = "it has ended the session";

/// How long a server may take to say whether it knows the session.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The id of the request that asks it so. Ours are numbers otherwise.
const PROBE_ID: &str = "toolhand-session";

/// Why the connection is of no more use, once it is not. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionFault(Arc<watch::Sender<Option<String>>>);

impl ConnectionFault {
    /// The first reason counts.
    fn set(&self, why: &str) {
        self.0.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert_with(|| why.to_owned());
            is_first
        });
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Whether the server wants a key that it was not given.
    pub(super) fn needs_auth(&self) -> bool {
        self.0.borrow().as_deref() == Some(NEEDS_AUTH)
    }

    pub(super) async fn reason(&self) -> String {
        let mut known = self.0.subscribe();
        let found = known.wait_for(Option::is_some).await;
        found.ok().and_then(|why| why.clone()).unwrap_or_default()
    }
}

/// Sends requests, and sees to it that each is answered.
#[derive(Clone, Debug)]
pub(super) struct HttpClient {
    client: reqwest::Client,
    broken: ConnectionFault,
    waiting: WaitingRequests,
    listening: ListeningStreams,
}

pub(super) async fn http_transport(
    url: &Url,
    headers: &[(HeaderName, Secret)],
    public_only: Option<&OwnEndpoints>,
    broken: ConnectionFault,
) -> Result<StreamableHttpClientTransport<HttpClient>, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let bad = || format!("the header `{name}` has a value that cannot be sent");
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| bad())?;
        value.set_sensitive(true);
        map.insert(name.clone(), value);
    }
    let public_hosts = match public_only {
        Some(own) => Some(PublicHosts::for_url(url, own.clone()).await),
        None => None,
    };
    let public_hosts = public_hosts.transpose().map_err(|fault| fault.to_string())?;
    let client = http_client::build(Vec::new(), |client| {
        let client = client.default_headers(map.clone()).connect_timeout(CONNECT_TIMEOUT);
        Ok(match &public_hosts {
            Some(hosts) => client.dns_resolver(Arc::new(hosts.clone())),
            None => client,
        })
    })?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    config.max_sse_event_size = MAX_MESSAGE_BYTES;
    // It would send calls again.
    config.reinit_on_expired_session = false;
    let client = HttpClient {
        client,
        broken,
        waiting: WaitingRequests::default(),
        listening: ListeningStreams::default(),
    };
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

impl HttpClient {
    /// After some faults no further request can succeed.
    fn noticed(&self, fault: HttpFault) -> HttpFault {
        match &fault {
            StreamableHttpError::Client(error) if error.status().is_none() => {
                self.broken.set(&client_fault(error));
            }
            StreamableHttpError::ResponseBodyTooLarge { .. } => self.broken.set(TOO_LONG),
            StreamableHttpError::SessionExpired => self.broken.set(SESSION_ENDED),
            StreamableHttpError::UnexpectedServerResponse(why) if why == TOO_MANY_VALUES => {
                self.broken.set(TOO_MANY_VALUES);
            }
            // Opening it anew tells the operator what it wants.
            fault if status_of(fault) == Some(UNAUTHORIZED) => self.broken.set(NEEDS_AUTH),
            _ => {}
        }
        fault
    }

    /// Whether the server does not know the session any more: it refuses also what it has answered
    /// before. Servers tell it by any status, and in any words.
    async fn is_session_lost(&self, post: &HttpPost) -> bool {
        let list = json!({ "jsonrpc": "2.0", "id": PROBE_ID, "method": "tools/list" });
        match self.probed(post.with_request(list)).await {
            Some(Ok(PostAnswer::Refused(..)) | Err(StreamableHttpError::SessionExpired)) => true,
            Some(Err(fault)) if is_refusal(&fault) => true,
            // It may be out of order as a whole.
            Some(Err(fault)) if is_server_error(&fault) => self.begins_sessions(post).await,
            Some(Ok(_) | Err(_)) | None => false,
        }
    }

    /// Whether the server begins a session.
    async fn begins_sessions(&self, post: &HttpPost) -> bool {
        let initialize = json!({
            "jsonrpc": "2.0", "id": PROBE_ID, "method": "initialize",
            "params": {
                "protocolVersion": ProtocolVersion::LATEST_WITH_INITIALIZE,
                "capabilities": {},
                "clientInfo": { "name": "toolhand", "version": env!("CARGO_PKG_VERSION") },
            },
        });
        let probe = post.with_request(initialize).map(|probe| HttpPost { session: None, ..probe });
        matches!(
            self.probed(probe).await,
            Some(Ok(PostAnswer::Message(..) | PostAnswer::Events(..)))
        )
    }

    /// Waits for the answer to a request that the server has only accepted: it may come on a stream
    /// that listens, which is opened where there is a session.
    async fn answered_elsewhere(
        &self,
        request: Option<WaitingRequest>,
        has_session: bool,
    ) -> Result<(), HttpFault> {
        let Some(request) = request else { return Ok(()) };
        let ended = async {
            if has_session {
                self.listening.ended().await;
            }
        };
        tokio::select! {
            () = request.answered() => Ok(()),
            () = ended => Err(StreamableHttpError::UnexpectedServerResponse(ONLY_ACCEPTED.into())),
        }
    }

    async fn probed(&self, probe: Option<HttpPost>) -> Option<Result<PostAnswer, HttpFault>> {
        timeout(PROBE_TIMEOUT, probe?.send(&self.client)).await.ok()
    }

    /// The events of an answer. Without the answer in them, it never comes.
    fn answer(
        &self,
        events: impl Stream<Item = Result<Sse, SseError>> + Send + 'static,
        request: Option<WaitingRequest>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let broken = self.broken.clone();
        let (mut is_answered, mut can_be_resumed) = (false, false);
        let mut requests = RequestBudget::new();
        let watched = move |event: Option<Result<Sse, SseError>>| match event {
            Some(Ok(mut event)) => {
                can_be_resumed |= event.id.is_some();
                let kind = event.data.as_deref().and_then(|data| MessageKind::of(data.as_bytes()));
                let is_request = kind.as_ref().is_some_and(MessageKind::is_request);
                if kind.as_ref().is_none_or(MessageKind::is_answer) {
                    let is_message = kind.is_some();
                    let request = request.as_ref().zip(event.data.as_deref());
                    let ended = request.and_then(|(request, data)| request.ended_by(kind, data));
                    is_answered |= is_message || ended.is_some();
                    if let Some(ended) = ended {
                        if ended.is_of_session {
                            broken.set(SESSION_ENDED);
                        }
                        event.data = Some(ended.message);
                    }
                }
                if is_request && !requests.take() {
                    broken.set(TOO_MANY);
                    return None;
                }
                limited(event, &broken).map(Ok)
            }
            Some(Err(error)) => {
                let is_too_long = is_too_long(&error);
                if is_too_long || !can_be_resumed && !is_answered {
                    broken.set(if is_too_long { TOO_LONG } else { "its answer broke off" });
                }
                Some(Err(error))
            }
            None if can_be_resumed || is_answered => None,
            None => {
                broken.set("it closed the stream without an answer");
                None
            }
        };
        let events = events.map(Some).chain(stream::once(ready(None)));
        let mut watched = watched;
        events.filter_map(move |event| ready(watched(event))).boxed()
    }
}

/// Whether the session may be the reason for an answer.
fn is_suspicious(answer: &Result<PostAnswer, HttpFault>) -> bool {
    match answer {
        Ok(PostAnswer::Refused(..)) => true,
        Ok(_) => false,
        Err(fault) => is_refusal(fault) || is_server_error(fault),
    }
}

fn is_server_error(fault: &HttpFault) -> bool {
    status_of(fault).is_some_and(|status| (500..600).contains(&status))
}

/// Whether the server refuses a request, and not because of the times or of a key.
fn is_refusal(fault: &HttpFault) -> bool {
    let status =
        status_of(fault).filter(|status| ![UNAUTHORIZED, TOO_MANY_REQUESTS].contains(status));
    status.is_some_and(|status| (400..500).contains(&status))
}

/// The library's error for this has no name outside of it.
fn is_too_long(error: &SseError) -> bool {
    matches!(error, SseError::Body(error) if error.to_string().contains("exceeded the maximum size"))
}

/// An event as the library may have it: it refuses a message that nests deeply, and with it every
/// tool of a list in which one has such a schema. `None`: the connection ends.
fn limited(mut event: Sse, broken: &ConnectionFault) -> Option<Sse> {
    match event.data.as_deref().map(|data| MessageValues::of(data.as_bytes())) {
        None | Some(MessageValues::Fit) => {}
        Some(MessageValues::Pruned(pruned)) => event.data = String::from_utf8(pruned).ok(),
        Some(MessageValues::TooMany) => {
            broken.set(TOO_MANY_VALUES);
            return None;
        }
    }
    Some(with_min_retry(event))
}

/// A server could ask to be asked again at once, for ever.
fn with_min_retry(mut event: Sse) -> Sse {
    let least = u64::try_from(MIN_RETRY.as_millis()).unwrap_or(u64::MAX);
    event.retry = event.retry.map(|retry| retry.max(least));
    event
}

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpFault> {
        let most = MAX_MESSAGE_BYTES;
        self.post_message_with_max_sse_event_size(uri, message, session, token, headers, most).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, HttpFault> {
        // Ours, which is smaller.
        debug_assert_eq!(most, MAX_MESSAGE_BYTES);
        let post = HttpPost { uri, message, session, token, headers };
        let has_session = post.session.is_some();
        let waiting = post.request_id().map(|id| self.waiting.add(id));
        let answer = post.send(&self.client).await;
        if post.session.is_some() && is_suspicious(&answer) && self.is_session_lost(&post).await {
            self.broken.set(SESSION_ENDED);
        }
        match answer.map_err(|fault| self.noticed(fault))? {
            PostAnswer::Accepted => {
                self.answered_elsewhere(waiting, has_session).await?;
                Ok(StreamableHttpPostResponse::Accepted)
            }
            PostAnswer::Message(message, session) | PostAnswer::Refused(message, session) => {
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            PostAnswer::Events(events, session) => {
                Ok(StreamableHttpPostResponse::Sse(self.answer(events, waiting), session))
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpFault> {
        self.client.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpFault> {
        let most = MAX_MESSAGE_BYTES;
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, most)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpFault> {
        let client = &self.client;
        let events = client
            .get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, most)
            .await
            .inspect_err(|_| self.listening.refused())?;
        let open = self.listening.opened();
        let (broken, mut requests) = (self.broken.clone(), RequestBudget::new());
        let waiting = self.waiting.clone();
        let mut watched = move |event: Result<Sse, SseError>| match event {
            Ok(event) => {
                let data = event.data.as_deref();
                let kind = data.and_then(|data| MessageKind::of(data.as_bytes()));
                if kind.as_ref().is_some_and(MessageKind::is_request) && !requests.take() {
                    broken.set(TOO_MANY);
                    return None;
                }
                let answered = kind.filter(MessageKind::is_answer).and_then(|kind| kind.id());
                if let Some(id) = answered {
                    waiting.note_answer(id);
                }
                limited(event, &broken).map(Ok)
            }
            Err(error) => {
                if is_too_long(&error) {
                    broken.set(TOO_LONG);
                }
                Some(Err(error))
            }
        };
        // The stream is open until it has ended, or nobody reads it any more.
        let end = stream::once(async move { drop(open) }).filter_map(|()| ready(None));
        Ok(events.filter_map(move |event| ready(watched(event))).chain(end).boxed())
    }
}

/// The first error of this type among the causes of an error.
fn cause<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    iter::successors(Some(error), |error: &&'e (dyn Error + 'static)| (*error).source())
        .find_map(|error| error.downcast_ref())
}

/// Says what is wrong with an HTTP answer, without its words.
pub(super) fn http_fault(error: &(dyn Error + 'static)) -> String {
    let Some(fault) = cause::<HttpFault>(error) else {
        let fault = cause::<reqwest::Error>(error).map(client_fault);
        return fault.unwrap_or_else(|| "it cannot be reached over HTTP".into());
    };
    if let Some(status) = status_of(fault) {
        return format!("it answers with HTTP {status}");
    }
    match fault {
        StreamableHttpError::Client(error) => client_fault(error),
        StreamableHttpError::UnexpectedContentType(_) => {
            "its answer is neither JSON nor an event stream; the address may be that of a page, or \
             of the old SSE transport, which is not supported"
                .into()
        }
        StreamableHttpError::SessionExpired => "it has ended the session".into(),
        StreamableHttpError::ResponseBodyTooLarge { .. } => TOO_LONG.into(),
        StreamableHttpError::UnexpectedServerResponse(why) if why == ONLY_ACCEPTED => {
            ONLY_ACCEPTED.into()
        }
        _ => "its answer does not follow the MCP protocol".into(),
    }
}

/// The same of the answer to `initialize`: servers of the old transport do not know such requests.
pub(super) fn opening_fault(error: &(dyn Error + 'static)) -> String {
    let why = http_fault(error);
    match cause::<HttpFault>(error).and_then(status_of) {
        Some(404 | 405) => format!(
            "{why}; the address may be wrong, or that of the old SSE transport, which is not \
             supported"
        ),
        _ => why,
    }
}

/// The status of an answer that is an error.
fn status_of(fault: &HttpFault) -> Option<u16> {
    match fault {
        StreamableHttpError::AuthRequired(_) => Some(UNAUTHORIZED),
        StreamableHttpError::HttpStatus(error) => Some(error.status),
        StreamableHttpError::Client(error) => error.status().map(|status| status.as_u16()),
        // In front of the body, which is the server's words.
        StreamableHttpError::UnexpectedServerResponse(text) => {
            text.strip_prefix("HTTP ")?.get(..3)?.parse().ok()
        }
        _ => None,
    }
}

fn client_fault(error: &reqwest::Error) -> String {
    if let Some(fault) = cause::<NotPublic>(error) {
        return fault.to_string();
    }
    match error {
        error if error.is_connect() => "it cannot be connected to".into(),
        error if error.is_timeout() => "it does not answer in time".into(),
        _ => "it cannot be reached over HTTP".into(),
    }
}

/// A 401, with a challenge or without.
pub(super) fn is_unauthorized(error: &ClientInitializeError) -> bool {
    let ClientInitializeError::TransportError { error, .. } = error else { return false };
    cause::<HttpFault>(error.error.as_ref()).and_then(status_of) == Some(UNAUTHORIZED)
}
