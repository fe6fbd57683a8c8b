//! Reaches servers over HTTP, and notices what rmcp does not tell: that a session is gone, or that
//! an answer will not come.

use std::collections::HashMap;
use std::future::ready;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::service::ClientInitializeError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::sync::watch;
use url::Url;

use super::lines::MAX_MESSAGE_BYTES;
use super::public_hosts::{self, NotPublic, PublicHosts};
use super::request_budget::{MessageKind, RequestBudget, TOO_MANY};
use crate::secret::Secret;

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The least time before a stream is opened again, whatever the server asks for.
const MIN_RETRY: Duration = Duration::from_secs(1);

const TOO_LONG: &str = "it sent a message of more than 8 MiB";

type HttpFault = StreamableHttpError<reqwest::Error>;

/// Why the connection is of no more use, once it is not. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Broken(Arc<watch::Sender<Option<String>>>);

impl Broken {
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

    pub(super) async fn reason(&self) -> String {
        let mut known = self.0.subscribe();
        let found = known.wait_for(Option::is_some).await;
        found.ok().and_then(|why| why.clone()).unwrap_or_default()
    }
}

/// Sends requests as the library's own client does.
#[derive(Clone, Debug)]
pub(super) struct HttpClient {
    client: reqwest::Client,
    broken: Broken,
}

pub(super) fn http_transport(
    url: &Url,
    headers: &[(HeaderName, Secret)],
    must_be_public: bool,
    broken: Broken,
) -> Result<StreamableHttpClientTransport<HttpClient>, String> {
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
    Ok(StreamableHttpClientTransport::with_client(HttpClient { client, broken }, config))
}

impl HttpClient {
    /// After some faults no further request can succeed.
    fn noticed(&self, fault: HttpFault) -> HttpFault {
        match &fault {
            StreamableHttpError::Client(error) if error.status().is_none() => {
                self.broken.set(&client_fault(error));
            }
            StreamableHttpError::ResponseBodyTooLarge { .. } => self.broken.set(TOO_LONG),
            StreamableHttpError::SessionExpired => self.broken.set("it has ended the session"),
            // Opening it anew tells the operator what it wants.
            StreamableHttpError::AuthRequired(_) => self.broken.set("it answers 401"),
            _ => {}
        }
        fault
    }

    /// The events of an answer. Without the answer in them, it never comes.
    fn answer(
        &self,
        events: impl Stream<Item = Result<Sse, SseError>> + Send + 'static,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let broken = self.broken.clone();
        let (mut is_answered, mut can_be_resumed) = (false, false);
        let mut requests = RequestBudget::new();
        let watched = move |event: Option<Result<Sse, SseError>>| match event {
            Some(Ok(event)) => {
                can_be_resumed |= event.id.is_some();
                let kind = event.data.as_deref().and_then(|data| MessageKind::of(data.as_bytes()));
                is_answered |= kind.as_ref().is_some_and(MessageKind::is_answer);
                if kind.is_some_and(|kind| kind.is_request()) && !requests.take() {
                    broken.set(TOO_MANY);
                    return None;
                }
                Some(Ok(with_patience(event)))
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
                broken.set("its answer has no end");
                None
            }
        };
        let events = events.map(Some).chain(stream::once(ready(None)));
        let mut watched = watched;
        events.filter_map(move |event| ready(watched(event))).boxed()
    }
}

/// The library's error for this has no name outside of it.
fn is_too_long(error: &SseError) -> bool {
    matches!(error, SseError::Body(error) if error.to_string().contains("exceeded the maximum size"))
}

/// A server could ask to be asked again at once, for ever.
fn with_patience(mut event: Sse) -> Sse {
    let least = u64::try_from(MIN_RETRY.as_millis()).unwrap_or(u64::MAX);
    event.retry = event.retry.map(|retry| retry.max(least));
    event
}

/// Whether the message takes more bytes than a server may send.
fn is_over_limit(message: &impl serde::Serialize) -> bool {
    struct Room(usize);

    impl io::Write for Room {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    serde_json::to_writer(Room(MAX_MESSAGE_BYTES), message).is_err()
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
        let client = &self.client;
        let sent = client
            .post_message_with_max_sse_event_size(uri, message, session, token, headers, most)
            .await;
        match sent.map_err(|fault| self.noticed(fault))? {
            StreamableHttpPostResponse::Sse(events, session) => {
                Ok(StreamableHttpPostResponse::Sse(self.answer(events), session))
            }
            // The library has a limit of its own, which is higher.
            StreamableHttpPostResponse::Json(message, _) if is_over_limit(&message) => {
                Err(self.noticed(StreamableHttpError::ResponseBodyTooLarge { max_size: most }))
            }
            answer => Ok(answer),
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
            .await?;
        let (broken, mut requests) = (self.broken.clone(), RequestBudget::new());
        let watched = move |event: Result<Sse, SseError>| {
            match &event {
                Ok(Sse { data: Some(data), .. })
                    if MessageKind::of(data.as_bytes()).is_some_and(|kind| kind.is_request()) =>
                {
                    if !requests.take() {
                        broken.set(TOO_MANY);
                        return ready(None);
                    }
                }
                Err(error) if is_too_long(error) => broken.set(TOO_LONG),
                Ok(_) | Err(_) => {}
            }
            ready(Some(event.map(with_patience)))
        };
        Ok(events.filter_map(watched).boxed())
    }
}

/// Says what is wrong with an HTTP answer, without its words.
pub(super) fn http_fault(error: &(dyn std::error::Error + 'static)) -> String {
    let mut source = Some(error);
    while let Some(current) = source {
        if let Some(fault) = current.downcast_ref::<HttpFault>() {
            return match fault {
                StreamableHttpError::Client(error) => client_fault(error),
                StreamableHttpError::HttpStatus(error) => {
                    format!("it answers with HTTP {}", error.status)
                }
                StreamableHttpError::UnexpectedContentType(_) => {
                    "its answer is neither JSON nor an event stream; the address may be that of \
                     a page, or of the old SSE transport, which is not supported"
                        .into()
                }
                StreamableHttpError::SessionExpired => "it has ended the session".into(),
                StreamableHttpError::ResponseBodyTooLarge { .. } => {
                    "its answer is too large".into()
                }
                _ => "its answer does not follow the MCP protocol".into(),
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
pub(super) fn is_unauthorized(error: &ClientInitializeError) -> bool {
    let ClientInitializeError::TransportError { error, .. } = error else { return false };
    let text = error.error.to_string();
    text.contains("401")
}
