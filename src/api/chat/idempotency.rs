//! Finds the turn of a request that is sent again, so that its tools do not run twice.
//! Such a request is an SDK's retry after a time-out, or has an `Idempotency-Key`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName};
use tokio::time::Instant;

use super::kept::KeptMemory;
use super::shared_turn::{Joined, SharedTurn, Subscriber};
use crate::errors::{ApiError, ErrorCode};
use crate::ids::KeyId;
use crate::sync;

const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Prefixes of headers that change what a request means.
const SIGNIFICANT_HEADERS: [&str; 2] = ["x-toolhand-", "x-openwebui-"];

/// An SDK sends its last retry within seconds after the answer it missed. Ten minutes
/// leave room for other clients.
const MAX_AGE: Duration = Duration::from_secs(600);

/// How many ended turns are remembered.
const MAX_ENDED_TURNS: usize = 1024;

/// Bytes kept for all turns together; the turns that ended first give way. A turn without
/// room is not told again: a retry only learns that it has run.
const MAX_KEPT_BYTES: usize = 32 << 20;

/// How often expired turns are removed.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(1);

/// What identifies a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestFingerprint {
    name: Identity,
    /// Hash of the body and of the headers that change its meaning.
    content: [u8; 32],
    is_retry: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Identity {
    /// The client's own `Idempotency-Key`, hashed.
    Given([u8; 32]),
    Content([u8; 32]),
}

/// The turns that run or ended recently, by key and request.
#[derive(Debug)]
pub(crate) struct Idempotency {
    runs: Mutex<Turns>,
    memory: KeptMemory,
}

#[derive(Debug, Default)]
struct Turns {
    runs: HashMap<(KeyId, Identity), Entry>,
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    content: [u8; 32],
    run: Arc<SharedTurn>,
}

impl RequestFingerprint {
    pub(crate) fn from_request(headers: &HeaderMap, body: &[u8]) -> Self {
        let mut content = blake3::Hasher::new();
        let is_meaningful = |name: &HeaderName| {
            SIGNIFICANT_HEADERS.iter().any(|prefix| name.as_str().starts_with(prefix))
        };
        for (name, value) in headers.iter().filter(|(name, _)| is_meaningful(name)) {
            for part in [name.as_str().as_bytes(), value.as_bytes()] {
                content.update(&part.len().to_le_bytes()).update(part);
            }
        }
        let content = *content.update(b"\n").update(body).finalize().as_bytes();
        let given = headers.get(IDEMPOTENCY_KEY).filter(|given| !given.is_empty());
        let name = match given {
            Some(given) => Identity::Given(*blake3::hash(given.as_bytes()).as_bytes()),
            None => Identity::Content(content),
        };
        let count = headers.get(RETRY_COUNT).and_then(|count| count.to_str().ok());
        let is_retry = count.and_then(|count| count.parse::<u32>().ok()).is_some_and(|n| n > 0);
        Self { name, content, is_retry }
    }

    /// Whether the client sent an `Idempotency-Key`.
    pub(super) fn is_named(&self) -> bool {
        self.name.is_given()
    }
}

impl Identity {
    fn is_given(self) -> bool {
        matches!(self, Self::Given(_))
    }
}

impl Default for Idempotency {
    fn default() -> Self {
        Self { runs: Mutex::default(), memory: KeptMemory::new(MAX_KEPT_BYTES) }
    }
}

impl Idempotency {
    /// The memory that all logs share.
    pub(super) fn memory(&self) -> &KeptMemory {
        &self.memory
    }

    /// Subscribes to the turn that `key` asked for before with the same request, or
    /// starts a new one.
    pub(super) async fn listen(
        &self,
        key: &KeyId,
        fingerprint: RequestFingerprint,
        start: impl FnOnce() -> Result<Subscriber, ApiError>,
    ) -> Result<Subscriber, ApiError> {
        if !fingerprint.is_retry && !fingerprint.is_named() {
            let subscriber = start()?;
            self.known().remember(key, fingerprint, &subscriber);
            return Ok(subscriber);
        }
        loop {
            let stopping = {
                let mut known = self.known();
                let run = known.find(key, fingerprint)?;
                let joined =
                    run.as_ref().map_or(Joined::StartNew, |run| run.join(fingerprint.is_named()));
                match (joined, run) {
                    (Joined::Subscribed(subscriber), _) => return Ok(subscriber),
                    (Joined::Refused(error), _) => return Err(error),
                    (Joined::Draining, Some(run)) => run,
                    (Joined::Draining | Joined::StartNew, _) => {
                        // The lock is held here, so that of two concurrent retries only
                        // one starts the turn.
                        let subscriber = start()?;
                        known.remember(key, fingerprint, &subscriber);
                        return Ok(subscriber);
                    }
                }
            };
            stopping.stopped().await;
        }
    }

    fn known(&self) -> MutexGuard<'_, Turns> {
        sync::lock(&self.runs)
    }
}

impl Turns {
    fn find(
        &self,
        key: &KeyId,
        fingerprint: RequestFingerprint,
    ) -> Result<Option<Arc<SharedTurn>>, ApiError> {
        let Some(entry) = self.runs.get(&(key.clone(), fingerprint.name)) else { return Ok(None) };
        if entry.content == fingerprint.content {
            return Ok(Some(entry.run.clone()));
        }
        let message = "This Idempotency-Key was used for another request. Give each request a \
                       key of its own.";
        Err(ApiError::new(ErrorCode::IdempotencyMismatch, message))
    }

    /// Replaces an earlier turn of the same request: a retry means the latest one.
    fn remember(&mut self, key: &KeyId, fingerprint: RequestFingerprint, subscriber: &Subscriber) {
        self.forget_expired();
        let name = (key.clone(), fingerprint.name);
        if subscriber.run.is_kept() {
            let entry = Entry { content: fingerprint.content, run: subscriber.run.clone() };
            self.runs.insert(name, entry);
        } else {
            self.runs.remove(&name);
        }
    }

    /// Removes turns that are too old, too many, or of no use to a retry.
    fn forget_expired(&mut self) {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now < looked + CLEANUP_INTERVAL) {
            return;
        }
        self.looked = Some(now);
        let mut ended: Vec<Instant> = Vec::new();
        self.retain(|name, run| {
            let since = run.ended();
            ended.extend(since);
            since.is_none_or(|since| now < since + MAX_AGE) && run.has_outcome(name.is_given())
        });
        if let Some(excess) = ended.len().checked_sub(MAX_ENDED_TURNS).filter(|excess| *excess > 0)
        {
            ended.sort_unstable();
            let oldest_kept = ended[excess];
            self.retain(|_, run| run.ended().is_none_or(|since| since >= oldest_kept));
        }
    }

    fn retain(&mut self, mut stays: impl FnMut(Identity, &SharedTurn) -> bool) {
        self.runs.retain(|(_, name), entry| stays(*name, &entry.run));
    }
}
