//! Knows which requests to a program wait for an answer, and makes of an error that names none of
//! them the answer to the only one that waits: it would be waited for until the call times out.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use rmcp::model::{ClientJsonRpcMessage, ClientNotification, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};

use super::error_words::{error_of, is_id};
use super::request_budget::MessageKind;
use crate::sync;

/// The requests to one program. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct StdioRequests(Arc<Mutex<SentRequests>>);

#[derive(Debug, Default)]
struct SentRequests {
    waiting: HashSet<RequestId>,
    /// The highest number that was sent as an id. Those up to it may be answered late.
    last: Option<i64>,
}

impl StdioRequests {
    fn note_sent(&self, message: &ClientJsonRpcMessage) {
        let mut sent = sync::lock(&self.0);
        match message {
            ClientJsonRpcMessage::Request(request) => {
                if let RequestId::Number(number) = request.id {
                    sent.last = sent.last.max(Some(number));
                }
                sent.waiting.insert(request.id.clone());
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    sent.waiting.remove(id);
                }
            }
            _ => {}
        }
    }

    /// What is read in the place of an error that names no request, or that the protocol's library
    /// could not read. `None`: the message stays as it is.
    pub(super) fn mended_answer(&self, kind: &MessageKind<'_>, line: &[u8]) -> Option<Vec<u8>> {
        if !kind.is_answer() {
            return None;
        }
        let named: Value =
            kind.id().and_then(|id| serde_json::from_str(id).ok()).unwrap_or_default();
        let id = self.answered(&named, kind.has_error())?;
        if !kind.has_error() || is_id(&id, &named) && is_readable(line) {
            return None;
        }
        let message: Value = serde_json::from_slice(line).ok()?;
        let error = error_of(&message);
        let mut mended = json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string();
        mended.push('\n');
        Some(mended.into_bytes())
    }

    /// The request that an answer with this id ends. A result is never that of another request.
    fn answered(&self, named: &Value, is_error: bool) -> Option<RequestId> {
        let mut sent = sync::lock(&self.0);
        let own = sent.waiting.iter().find(|id| is_id(id, named)).cloned();
        let may_be_meant = is_error && !sent.may_be_late(named);
        let id = own.or_else(|| sent.only_one().filter(|_| may_be_meant))?;
        sent.waiting.remove(&id);
        Some(id)
    }
}

impl SentRequests {
    fn only_one(&self) -> Option<RequestId> {
        let mut waiting = self.waiting.iter();
        waiting.next().filter(|_| waiting.len() == 0).cloned()
    }

    /// Whether an id may be that of a request for which nobody waits any more.
    fn may_be_late(&self, named: &Value) -> bool {
        let number = match named {
            Value::String(text) => text.parse().ok(),
            named => named.as_i64(),
        };
        number.is_some_and(|number| 0 <= number && Some(number) <= self.last)
    }
}

fn is_readable(line: &[u8]) -> bool {
    serde_json::from_slice::<ServerJsonRpcMessage>(line).is_ok()
}

/// A transport that notes what is sent over it.
pub(super) struct NotingTransport<T> {
    pub(super) inner: T,
    pub(super) requests: StdioRequests,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for NotingTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.requests.note_sent(&message);
        self.inner.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.inner.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: i64) -> ClientJsonRpcMessage {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" });
        serde_json::from_value(request).unwrap()
    }

    /// What is read of an answer while the requests of these numbers wait.
    fn read(waiting: &[i64], answer: &Value) -> String {
        let requests = StdioRequests::default();
        requests.note_sent(&request(2));
        let done = json!({ "jsonrpc": "2.0", "id": 2, "result": {} }).to_string();
        let kind = MessageKind::of(done.as_bytes()).unwrap();
        assert_eq!(requests.mended_answer(&kind, done.as_bytes()), None);
        for id in waiting {
            requests.note_sent(&request(*id));
        }
        let line = answer.to_string();
        let kind = MessageKind::of(line.as_bytes()).unwrap();
        match requests.mended_answer(&kind, line.as_bytes()) {
            None => "as it is".to_owned(),
            Some(mended) => {
                let mended: Value = serde_json::from_slice(&mended).unwrap();
                format!("{}: {}", mended["id"], mended["error"]["message"].as_str().unwrap())
            }
        }
    }

    #[test]
    fn outside_47_an_answer_that_names_no_request_ends_the_only_one_that_waits() {
        let error = json!({ "code": -32_700, "message": "Parse error" });
        let with = |id: Value| json!({ "jsonrpc": "2.0", "id": id, "error": error });
        for id in [json!(null), json!(""), json!("unknown"), json!({}), json!(1.5), json!(-1)] {
            assert_eq!(read(&[5], &with(id.clone())), "5: Parse error", "{id}");
            assert_eq!(read(&[5, 6], &with(id.clone())), "as it is", "{id}");
            assert_eq!(read(&[], &with(id)), "as it is");
        }
        assert_eq!(read(&[5], &json!({ "jsonrpc": "2.0", "error": error })), "5: Parse error");
        for own_or_late in [json!(5), json!("5"), json!(2), json!("2"), json!(0)] {
            assert_eq!(read(&[5], &with(own_or_late.clone())), "as it is", "{own_or_late}");
        }
        for foreign in [json!(99), json!(null)] {
            let foreign = json!({ "jsonrpc": "2.0", "id": foreign, "result": {} });
            assert_eq!(read(&[5], &foreign), "as it is");
        }
        let text = json!({ "jsonrpc": "2.0", "id": 5, "error": "no such row" });
        assert_eq!(read(&[5, 6], &text), "5: no such row");
        let request = json!({ "jsonrpc": "2.0", "id": null, "method": "ping" });
        assert_eq!(read(&[5], &request), "as it is");
    }

    #[test]
    fn outside_47_what_nobody_waits_for_any_more_takes_no_answer() {
        let requests = StdioRequests::default();
        for id in [5, 6] {
            requests.note_sent(&request(id));
        }
        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": 5 } });
        requests.note_sent(&serde_json::from_value(cancelled).unwrap());
        assert_eq!(requests.answered(&Value::Null, true), Some(RequestId::Number(6)));
        assert_eq!(requests.answered(&Value::Null, true), None);
    }
}
