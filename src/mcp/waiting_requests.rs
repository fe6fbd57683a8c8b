//! Knows which requests over HTTP wait for an answer, and makes of an answer to none of them the
//! answer to the one in whose stream it came.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use rmcp::model::RequestId;
use serde_json::{Value, json};

use super::http_post::{error_of, is_id};
use super::request_budget::MessageKind;
use crate::sync;

/// The most of an event that is looked at whole. An error is short.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// The ids of the requests that wait for an answer. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingRequests(Arc<Mutex<HashSet<RequestId>>>);

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
        sync::lock(&self.0).insert(id.clone());
        WaitingRequest { id: id.clone(), all: self.clone() }
    }

    /// Whether one of them has the id that is written so.
    fn has(&self, written: &str) -> bool {
        let found = serde_json::from_str(written).unwrap_or_default();
        sync::lock(&self.0).iter().any(|id| is_id(id, &found))
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        sync::lock(&self.all.0).remove(&self.id);
    }
}

impl WaitingRequest {
    /// What an event ends this request with, where it is the answer to none that waits. `kind` is
    /// that of an answer, or of no message of the protocol.
    pub(super) fn ended_by(
        &self,
        kind: Option<MessageKind<'_>>,
        data: &str,
    ) -> Option<EndedRequest> {
        let is_message = kind.is_some();
        if kind.and_then(|kind| kind.id()).is_some_and(|written| self.all.has(written)) {
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
