//! Posts one message to a server over HTTP, and makes of what comes back the answer to it. Many
//! servers refuse a request without saying which one: then it is the one that was posted.

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error;
use std::{fmt, io};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{RequestBuilder, Response, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpError,
};
use serde_json::Value;
use sse_stream::{Sse, SseStream};

use super::error_words::{error_of, is_id, words_of};
use super::lines::{MAX_MESSAGE_BYTES, MessageValues, TOO_MANY_VALUES};
use super::mended::mended;

/// The most of the body of an answer that is an error.
const MAX_ERROR_BYTES: usize = 64 << 10;

const SESSION: &str = "mcp-session-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

const MALFORMED: &str = "its answer does not follow the MCP protocol";

pub(super) type HttpFault = StreamableHttpError<reqwest::Error>;

pub(super) type Events = BoxStream<'static, Result<Sse, SseError>>;

/// A message, and where it goes.
#[derive(Clone, Debug)]
pub(super) struct HttpPost {
    pub(super) uri: std::sync::Arc<str>,
    pub(super) message: ClientJsonRpcMessage,
    pub(super) session: Option<std::sync::Arc<str>>,
    pub(super) token: Option<String>,
    pub(super) headers: HashMap<HeaderName, HeaderValue>,
}

/// What came back.
pub(super) enum PostAnswer {
    Accepted,
    /// With the session that it begins.
    Message(ServerJsonRpcMessage, Option<String>),
    /// An error that names no request: the server may not know the session.
    Refused(ServerJsonRpcMessage, Option<String>),
    Events(Events, Option<String>),
}

impl HttpPost {
    /// The id of the request that waits for an answer.
    pub(super) fn request_id(&self) -> Option<&RequestId> {
        match &self.message {
            ClientJsonRpcMessage::Request(request) => Some(&request.id),
            _ => None,
        }
    }

    fn is_discovery(&self) -> bool {
        let ClientJsonRpcMessage::Request(request) = &self.message else { return false };
        matches!(request.request, ClientRequest::DiscoverRequest(_))
    }

    fn request(&self, client: &reqwest::Client) -> RequestBuilder {
        let mut request =
            client.post(self.uri.as_ref()).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(session) = &self.session {
            request = request.header(SESSION, session.as_ref());
        }
        let body = serde_json::to_vec(&self.message).unwrap_or_default();
        request.header(CONTENT_TYPE, JSON).body(body)
    }

    /// The same for another request, with nothing that is about the one before.
    pub(super) fn with_request(&self, request: Value) -> Option<Self> {
        let message = serde_json::from_value(request).ok()?;
        let mut other = Self { message, ..self.clone() };
        other.headers.retain(|name, _| name == "mcp-protocol-version");
        Some(other)
    }

    /// Sends it once.
    pub(super) async fn send(&self, client: &reqwest::Client) -> Result<PostAnswer, HttpFault> {
        let response = self.request(client).send().await.map_err(StreamableHttpError::Client)?;
        if let Some(fault) = challenge(&response) {
            return Err(fault);
        }
        let status = response.status();
        if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT {
            return Ok(PostAnswer::Accepted);
        }
        if status == StatusCode::NOT_FOUND && self.session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        if status.is_success() {
            self.taken(response).await
        } else {
            self.not_taken(response).await
        }
    }

    /// The answer of a server that has taken the message.
    async fn taken(&self, response: Response) -> Result<PostAnswer, HttpFault> {
        let session = header(&response, SESSION);
        let kind = header(&response, CONTENT_TYPE.as_str());
        let is_of = |name: &str| {
            let kind = kind.as_deref().unwrap_or_default().as_bytes();
            kind.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
        };
        if is_of(EVENTS) {
            return Ok(PostAnswer::Events(events(response.bytes_stream()), session));
        }
        let Some(id) = self.request_id() else { return Ok(PostAnswer::Accepted) };
        if !is_of(JSON) {
            return Err(StreamableHttpError::UnexpectedContentType(kind));
        }
        let body = body(response, MAX_MESSAGE_BYTES).await?;
        let body = mended(&body);
        let body = match MessageValues::of(&body) {
            MessageValues::Fit => body,
            MessageValues::Pruned(pruned) => Cow::Owned(pruned),
            MessageValues::TooMany => {
                return Err(StreamableHttpError::UnexpectedServerResponse(TOO_MANY_VALUES.into()));
            }
        };
        let message: Value = serde_json::from_slice(&body)?;
        let words = words_of(&message);
        let error = match answer_to(id, message) {
            Some(Answer::Own(answer)) => return Ok(PostAnswer::Message(*answer, session)),
            Some(Answer::OfNobody(error)) => error,
            None => {
                let malformed = || StreamableHttpError::UnexpectedServerResponse(MALFORMED.into());
                ErrorData::new(ErrorCode::INTERNAL_ERROR, words.ok_or_else(malformed)?, None)
            }
        };
        let error = ServerJsonRpcMessage::error(error, Some(id.clone()));
        Ok(PostAnswer::Refused(error, session))
    }

    /// The answer of a server that has not: its words, where it says some.
    async fn not_taken(&self, response: Response) -> Result<PostAnswer, HttpFault> {
        let (status, session) = (response.status(), header(&response, SESSION));
        let body = body(response, MAX_ERROR_BYTES).await.unwrap_or_default();
        let message = serde_json::from_slice::<Value>(&mended(&body)).ok();
        // A key that is missing is no matter of this request.
        let id = self.request_id().filter(|_| status != StatusCode::UNAUTHORIZED);
        let Some(id) = id else { return Err(status_fault(status)) };
        let is_rpc = message.as_ref().is_some_and(|message| message["jsonrpc"] == "2.0");
        let with_status = |words: &str| format!("HTTP {}: {words}", status.as_u16());
        let words = message.as_ref().and_then(words_of);
        match message.and_then(|message| answer_to(id, message)) {
            Some(Answer::Own(answer)) => return Ok(PostAnswer::Message(*answer, session)),
            Some(Answer::OfNobody(mut error)) => {
                error.message = with_status(&error.message).into();
                let error = ServerJsonRpcMessage::error(error, Some(id.clone()));
                return Ok(PostAnswer::Refused(error, session));
            }
            None => {}
        }
        let words = words.filter(|_| is_rpc || status.is_client_error());
        let words = words.or_else(|| {
            // Who is asked for what it cannot know may know other questions.
            let is_unknown = self.is_discovery() && status != StatusCode::FORBIDDEN;
            (is_unknown && status.is_client_error()).then(|| "it is not known".to_owned())
        });
        let Some(words) = words else { return Err(status_fault(status)) };
        let error = ErrorData::new(ErrorCode::INVALID_REQUEST, with_status(&words), None);
        Ok(PostAnswer::Refused(ServerJsonRpcMessage::error(error, Some(id.clone())), session))
    }
}

/// A message, by whose answer it is.
enum Answer {
    /// Of the request that was posted.
    Own(Box<ServerJsonRpcMessage>),
    /// An error that names no request, or an answer to one that was not posted.
    OfNobody(ErrorData),
}

/// The answer in a body. Some servers put it into a list.
fn answer_to(id: &RequestId, message: Value) -> Option<Answer> {
    let is_own = |message: &Value| is_id(id, &message["id"]);
    let mut messages = match message {
        Value::Array(messages) => messages,
        message => vec![message],
    };
    messages.retain(|message| message.get("method").is_none() && message["jsonrpc"] == "2.0");
    let place = messages.iter().position(is_own).unwrap_or_default();
    let message = messages.into_iter().nth(place)?;
    if !is_own(&message) {
        return Some(Answer::OfNobody(error_of(&message)));
    }
    let words = words_of(&message).unwrap_or_else(|| MALFORMED.to_owned());
    match serde_json::from_value(message) {
        Ok(answer) => Some(Answer::Own(Box::new(answer))),
        Err(_) => Some(Answer::OfNobody(ErrorData::new(ErrorCode::INTERNAL_ERROR, words, None))),
    }
}

fn status_fault(status: StatusCode) -> HttpFault {
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        return HttpStatusError::new(status.as_u16(), None).into();
    }
    StreamableHttpError::UnexpectedServerResponse(format!("HTTP {}", status.as_u16()).into())
}

/// What a server asks for that wants another authorization.
fn challenge(response: &Response) -> Option<HttpFault> {
    let challenge = header(response, WWW_AUTHENTICATE.as_str())?;
    match response.status() {
        StatusCode::UNAUTHORIZED => {
            Some(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)))
        }
        StatusCode::FORBIDDEN => Some(StreamableHttpError::InsufficientScope(
            InsufficientScopeError::new(challenge, None),
        )),
        _ => None,
    }
}

fn header(response: &Response, name: &str) -> Option<String> {
    let value = response.headers().get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

async fn body(response: Response, most: usize) -> Result<Vec<u8>, HttpFault> {
    let mut pieces = response.bytes_stream();
    let mut body = Vec::new();
    while let Some(piece) = pieces.try_next().await.map_err(StreamableHttpError::Client)? {
        if most < body.len() + piece.len() {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: most });
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The events of a body, none of which is too long.
fn events(pieces: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static) -> Events {
    let mut size = EventSize::default();
    let bounded = pieces.map(move |piece| {
        let piece = piece.map_err(io::Error::other)?;
        if size.takes(&piece) { Ok(piece) } else { Err(io::Error::other(EventTooLong)) }
    });
    SseStream::from_bytes_stream(bounded).boxed()
}

/// An event that exceeds the limit, in the words of the protocol's library.
#[derive(Debug)]
struct EventTooLong;

impl fmt::Display for EventTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SSE event exceeded the maximum size of {MAX_MESSAGE_BYTES} bytes")
    }
}

impl Error for EventTooLong {}

/// Counts the bytes since the last empty line, at which an event ends.
#[derive(Debug, Default)]
struct EventSize {
    size: usize,
    is_line_empty: bool,
}

impl EventSize {
    fn takes(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            self.size += 1;
            match byte {
                b'\n' if self.is_line_empty => self.size = 0,
                b'\n' => self.is_line_empty = true,
                b'\r' => {}
                _ => self.is_line_empty = false,
            }
            if MAX_MESSAGE_BYTES < self.size {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::error_words::FOREIGN;
    use super::*;

    fn id() -> RequestId {
        RequestId::Number(5)
    }

    fn words(message: Value) -> Option<String> {
        match answer_to(&id(), message)? {
            Answer::Own(_) => Some("own".to_owned()),
            Answer::OfNobody(error) => Some(error.message.into_owned()),
        }
    }

    #[test]
    fn outside_47_an_error_that_names_no_request_is_the_answer_to_the_one_that_was_posted() {
        let error = json!({ "code": -32_000, "message": "No valid session ID provided" });
        for id in [json!(null), json!("server-error"), json!(6), json!({})] {
            let message = json!({ "jsonrpc": "2.0", "id": id, "error": error });
            assert_eq!(words(message).as_deref(), Some("No valid session ID provided"));
        }
        let message = json!({ "jsonrpc": "2.0", "error": "no" });
        assert_eq!(words(message).as_deref(), Some("no"));
        for id in [json!(5), json!("5")] {
            let message = json!({ "jsonrpc": "2.0", "id": id, "error": error });
            assert_eq!(words(message).as_deref(), Some("own"));
        }
        let foreign = json!({ "jsonrpc": "2.0", "id": 7, "result": {} });
        assert_eq!(words(foreign.clone()).as_deref(), Some(FOREIGN));
        let own = json!({ "jsonrpc": "2.0", "id": 5, "result": {} });
        assert_eq!(words(json!([foreign, own])).as_deref(), Some("own"));
        let notification = json!({ "jsonrpc": "2.0", "method": "notifications/progress" });
        assert_eq!(words(notification), None);
    }

    #[test]
    fn m8_an_event_is_bounded_and_many_are_not() {
        let mut size = EventSize::default();
        let event = [b"data: ".as_slice(), &vec![b'x'; 1 << 20], b"\r\n\r\n"].concat();
        assert!((0..20).all(|_| size.takes(&event)));
        let line = [b"data: ".as_slice(), &vec![b'x'; 1 << 20], b"\n"].concat();
        assert!(!(0..20).all(|_| size.takes(&line)));
    }
}
