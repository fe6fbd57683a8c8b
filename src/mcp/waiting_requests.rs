//! Knows which requests over HTTP wait for an answer, and makes of an answer to none of them the
//! answer to the one in whose stream it came.

use std::collections::HashSet;
use std::sync::Arc;

use rmcp::model::{RequestId, ServerJsonRpcMessage};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::error_words::{error_of, is_id};
use super::request_budget::MessageKind;

/// The most of an event that is looked at whole. An error is short.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// The ids of the requests that wait for an answer. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingRequests(Arc<watch::Sender<HashSet<RequestId>>>);

/// One of them. It waits no more when this is dropped.
#[derive(Debug)]
pub(super) struct WaitingRequest {
    id: RequestId,
    all: WaitingRequests,
}

/// An answer that names no request, for the one that it ends.
pub(super) struct EndedRequest {
    pub(super) message: String,
    /// The server does not know the session any more.
    pub(super) is_of_session: bool,
}

impl WaitingRequests {
    pub(super) fn add(&self, id: &RequestId) -> WaitingRequest {
        self.0.send_modify(|waiting| {
            waiting.insert(id.clone());
        });
        WaitingRequest { id: id.clone(), all: self.clone() }
    }

    /// Whether one of them has the id that is written so.
    fn has(&self, written: &str) -> bool {
        let found = serde_json::from_str(written).unwrap_or_default();
        self.0.borrow().iter().any(|id| is_id(id, &found))
    }

    /// Notes that the request with the id that is written so is answered.
    pub(super) fn note_answer(&self, written: &str) {
        let found = serde_json::from_str(written).unwrap_or_default();
        self.0.send_if_modified(|waiting| {
            let before = waiting.len();
            waiting.retain(|id| !is_id(id, &found));
            waiting.len() < before
        });
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.all.0.send_if_modified(|waiting| waiting.remove(&self.id));
    }
}

impl WaitingRequest {
    /// Waits until the request is answered on another stream.
    pub(super) async fn answered(&self) {
        let mut waiting = self.all.0.subscribe();
        // There is a sender as long as this request is there.
        _ = waiting.wait_for(|waiting| !waiting.contains(&self.id)).await;
    }

    /// What an event ends this request with, where it is the answer to none that waits. `kind` is
    /// that of an answer, or of no message of the protocol.
    pub(super) fn ended_by(
        &self,
        kind: Option<MessageKind<'_>>,
        data: &str,
    ) -> Option<EndedRequest> {
        let is_message = kind.is_some();
        let has_error = kind.as_ref().is_some_and(MessageKind::has_error);
        let is_awaited =
            kind.and_then(|kind| kind.id()).is_some_and(|written| self.all.has(written));
        // An error that the protocol's library cannot read would be waited for.
        if is_awaited && !(has_error && is_unreadable(data)) {
            return None;
        }
        // What is longer is an answer of somebody else, whatever it says.
        let data = if MAX_ERROR_BYTES < data.len() { "null" } else { data };
        let message: Value = serde_json::from_str(data).ok()?;
        if !is_message && message["error"].is_null() {
            return None;
        }
        let error = error_of(&message);
        // There is no status that would say so.
        let is_of_session = error.message.to_lowercase().contains("session");
        let message = json!({ "jsonrpc": "2.0", "id": self.id, "error": error }).to_string();
        Some(EndedRequest { message, is_of_session })
    }
}

fn is_unreadable(data: &str) -> bool {
    serde_json::from_str::<ServerJsonRpcMessage>(data).is_err()
}
