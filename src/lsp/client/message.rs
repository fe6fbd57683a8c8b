//! Reads and writes the JSON-RPC envelope of messages. What is inside stays text until somebody
//! wants it: most of what a server says concerns nobody.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::text;

/// Nobody offers this method.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;

/// Characters of the text of an error that are told.
const MAX_ERROR_CHARS: usize = 300;

/// The server has given the request up, though nobody has cancelled it.
const REQUEST_CANCELLED: i64 = -32800;

/// The document has changed while the server computed the answer.
const CONTENT_MODIFIED: i64 = -32801;

/// The server has dropped the request, and would take it again.
const SERVER_CANCELLED: i64 = -32802;

/// The longest id of a request that is answered. Servers send numbers, or UUIDs.
const MAX_ID_BYTES: usize = 256;

/// The id of a request of the server, which goes back as it came, or of a work of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub(super) enum MessageId {
    Number(i64),
    Text(String),
}

/// A message of the server.
#[derive(Debug)]
pub(super) enum Incoming {
    Request {
        id: MessageId,
        method: String,
        params: Params,
    },
    Notification {
        method: String,
        params: Params,
    },
    Response {
        id: i64,
        outcome: Result<Params, ResponseError>,
    },
    /// An answer to no request of ours.
    Stray,
}

/// JSON that has not been looked at.
#[derive(Debug, Default)]
pub(super) struct Params(Option<Box<RawValue>>);

/// The error that a server answers with. Its text is one line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub(super) struct ResponseError {
    pub(super) code: i64,
    #[serde(deserialize_with = "error_text")]
    pub(super) message: String,
}

/// The model reads it.
fn error_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    // It may have sixteen megabytes, of which most is hidden.
    let line = text::shown_line(text::first_chars(&text, 10 * MAX_ERROR_CHARS));
    Ok(text::first_chars(&line, MAX_ERROR_CHARS).to_owned())
}

impl MessageId {
    pub(super) fn is_longer_than(&self, bytes: usize) -> bool {
        matches!(self, Self::Text(text) if bytes < text.len())
    }
}

/// Derived, it would keep a copy of all that is there before it looks at what that is.
impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MessageIdVisitor)
    }
}

struct MessageIdVisitor;

impl Visitor<'_> for MessageIdVisitor {
    type Value = MessageId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number or a text")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<MessageId, E> {
        Ok(MessageId::Number(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<MessageId, E> {
        i64::try_from(number).map(MessageId::Number).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<MessageId, E> {
        Ok(MessageId::Text(text.to_owned()))
    }
}

impl ResponseError {
    /// Whether the same request may get an answer a moment later.
    pub(super) fn is_passing(&self) -> bool {
        [REQUEST_CANCELLED, CONTENT_MODIFIED, SERVER_CANCELLED].contains(&self.code)
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    id: Option<MessageId>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<ResponseError>,
}

impl Incoming {
    pub(super) fn parse(body: &[u8]) -> Result<Self, serde_json::Error> {
        let Envelope { id, method, params, result, error } = serde_json::from_slice(body)?;
        let params = Params(params.map(ToOwned::to_owned));
        Ok(match (method, id) {
            // Some may wait to be answered at once.
            (_, Some(id)) if id.is_longer_than(MAX_ID_BYTES) => Self::Stray,
            (Some(method), Some(id)) => Self::Request { id, method: method.into_owned(), params },
            (Some(method), None) => Self::Notification { method: method.into_owned(), params },
            (None, Some(MessageId::Number(id))) => {
                let result = Params(result.map(ToOwned::to_owned));
                Self::Response { id, outcome: error.map_or(Ok(result), Err) }
            }
            (None, _) => Self::Stray,
        })
    }
}

impl Params {
    /// As a `T`. What is missing counts as `null`.
    pub(super) fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.as_ref().map_or("null", |raw| raw.get()))
    }
}

pub(super) fn request(id: i64, method: &str, params: &Value) -> Bytes {
    bytes_of(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

pub(super) fn notification(method: &str, params: &Value) -> Bytes {
    bytes_of(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

/// The answer to a request of the server: a result, or the code and the text of an error.
pub(super) fn response(id: &MessageId, outcome: Result<Value, (i64, String)>) -> Bytes {
    bytes_of(&match outcome {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err((code, message)) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    })
}

fn bytes_of(message: &Value) -> Bytes {
    message.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(body: &str) -> String {
        match Incoming::parse(body.as_bytes()) {
            Ok(Incoming::Request { id, method, .. }) => format!("request {id:?} {method}"),
            Ok(Incoming::Notification { method, .. }) => format!("notification {method}"),
            Ok(Incoming::Response { id, outcome: Ok(result) }) => {
                format!("result {id} {}", result.read::<Value>().unwrap())
            }
            Ok(Incoming::Response { id, outcome: Err(error) }) => format!("error {id} {error}"),
            Ok(Incoming::Stray) => "stray".to_owned(),
            Err(_) => "broken".to_owned(),
        }
    }

    #[test]
    fn tells_the_kinds_of_messages_apart() {
        for (body, expected) in [
            (r#"{"id":1,"method":"a/b","params":[]}"#, "request Number(1) a/b"),
            (r#"{"id":"x","method":"a"}"#, "request Text(\"x\") a"),
            (r#"{"method":"\u0061","params":null}"#, "notification a"),
            (r#"{"id":7,"result":null}"#, "result 7 null"),
            (r#"{"id":7,"result":[1,2]}"#, "result 7 [1,2]"),
            (r#"{"id":7}"#, "result 7 null"),
            (r#"{"id":7,"error":{"code":-1,"message":"no"}}"#, "error 7 no (-1)"),
            (r#"{"id":null,"error":{"code":-1,"message":"no"}}"#, "stray"),
            (r#"{"id":"7","result":1}"#, "stray"),
            ("{}", "stray"),
            ("[]", "broken"),
            ("{\"id\":1.5}", "broken"),
            ("", "broken"),
            ("\u{feff}{}", "broken"),
            ("{\"id\":[0],\"method\":\"a\"}", "broken"),
            ("{\"id\":18446744073709551615,\"method\":\"a\"}", "broken"),
        ] {
            assert_eq!(kind(body), expected, "{body}");
        }
    }

    #[test]
    fn the_text_of_an_error_is_one_short_line_without_hidden_characters() {
        let error = |message: &str| {
            kind(&json!({ "id": 7, "error": { "code": -1, "message": message } }).to_string())
        };
        let hidden = "no\u{202e}\u{1b}[31m\r\n\nIgnore\tthis\u{200b}";
        assert_eq!(error(hidden), "error 7 no[31m Ignore this (-1)");
        let told = format!("error 7 {} (-1)", "E".repeat(MAX_ERROR_CHARS));
        assert_eq!(error(&"E".repeat(1 << 20)), told);
        assert_eq!(error(&"\u{202e}".repeat(1 << 20)), "error 7  (-1)");
    }

    #[test]
    fn a_request_with_an_id_without_end_is_not_answered() {
        let request = |length: usize| format!(r#"{{"id":"{}","method":"a"}}"#, "x".repeat(length));
        assert_eq!(kind(&request(MAX_ID_BYTES + 1)), "stray");
        assert!(kind(&request(MAX_ID_BYTES)).starts_with("request"));
    }

    #[test]
    fn depth_without_end_breaks_nothing() {
        let deep = format!(r#"{{"id":1,"result":{}}}"#, "[".repeat(1 << 20));
        assert_eq!(kind(&deep), "broken");
        let nested = format!(r#"{{"method":"a","params":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        let parsed = Incoming::parse(nested.as_bytes());
        let Ok(Incoming::Notification { params, .. }) = parsed else { return };
        assert!(params.read::<Value>().is_err());
    }
}
