//! Finds the turn of a request that is sent again, so that its tools do not run
//! twice: an SDK's retry after a time-out, or a request with an `Idempotency-Key`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName};
use tokio::time::Instant;

use super::kept::KeptMemory;
use super::run::{Joined, Listener, Run};
use crate::ids::KeyId;
use crate::openai::error::{ApiError, ErrorCode};

const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The headers that change what a request means.
const MEANINGFUL: [&str; 2] = ["x-toolhand-", "x-openwebui-"];

/// An SDK's last retry comes within seconds of the end that it missed.
const AGE: Duration = Duration::from_secs(600);

/// Turns that have ended and are remembered.
const COUNT: usize = 1024;

/// What is kept of all turns together, in bytes: the turns that ended first give way.
/// A turn that finds no room is not told again: who asks hears that it has run.
const MEMORY: usize = 32 << 20;

/// How often is looked for what to forget.
const LOOK: Duration = Duration::from_secs(1);

/// How a request is known again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    name: Name,
    /// Of the body, and of what the headers add to it.
    content: [u8; 32],
    is_retry: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Name {
    /// The client's own, hashed.
    Given([u8; 32]),
    Content([u8; 32]),
}

/// The turns that run or have just ended, by who asked for them and how.
#[derive(Debug)]
pub(crate) struct Retries {
    runs: Mutex<Known>,
    memory: KeptMemory,
}

#[derive(Debug, Default)]
struct Known {
    runs: HashMap<(KeyId, Name), Entry>,
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    content: [u8; 32],
    run: Arc<Run>,
}

impl Sent {
    pub(crate) fn of(headers: &HeaderMap, body: &[u8]) -> Self {
        let mut content = blake3::Hasher::new();
        let is_meaningful =
            |name: &HeaderName| MEANINGFUL.iter().any(|prefix| name.as_str().starts_with(prefix));
        for (name, value) in headers.iter().filter(|(name, _)| is_meaningful(name)) {
            for part in [name.as_str().as_bytes(), value.as_bytes()] {
                content.update(&part.len().to_le_bytes()).update(part);
            }
        }
        let content = *content.update(b"\n").update(body).finalize().as_bytes();
        let given = headers.get(IDEMPOTENCY_KEY).filter(|given| !given.is_empty());
        let name = match given {
            Some(given) => Name::Given(*blake3::hash(given.as_bytes()).as_bytes()),
            None => Name::Content(content),
        };
        let count = headers.get(RETRY_COUNT).and_then(|count| count.to_str().ok());
        let is_retry = count.and_then(|count| count.parse::<u32>().ok()).is_some_and(|n| n > 0);
        Self { name, content, is_retry }
    }

    /// Whether the client gave it a name.
    pub(super) fn is_named(&self) -> bool {
        self.name.is_given()
    }
}

impl Name {
    fn is_given(self) -> bool {
        matches!(self, Self::Given(_))
    }
}

impl Default for Retries {
    fn default() -> Self {
        Self { runs: Mutex::default(), memory: KeptMemory::new(MEMORY) }
    }
}

impl Retries {
    /// What all logs together take.
    pub(super) fn memory(&self) -> &KeptMemory {
        &self.memory
    }

    /// Listens to the turn that `key` asked for before with the same request, or to a
    /// new one.
    pub(super) async fn listen(
        &self,
        key: &KeyId,
        sent: Sent,
        start: impl FnOnce() -> Result<Listener, ApiError>,
    ) -> Result<Listener, ApiError> {
        if !sent.is_retry && !sent.is_named() {
            let listener = start()?;
            self.known().remember(key, sent, &listener);
            return Ok(listener);
        }
        loop {
            let stopping = {
                let mut known = self.known();
                let run = known.find(key, sent)?;
                let joined = run.as_ref().map_or(Joined::Anew, |run| run.join(sent.is_named()));
                match (joined, run) {
                    (Joined::Listening(listener), _) => return Ok(listener),
                    (Joined::Refused(error), _) => return Err(error),
                    (Joined::Leaving, Some(run)) => run,
                    (Joined::Leaving | Joined::Anew, _) => {
                        // Held locked, so that of two retries one begins the turn.
                        let listener = start()?;
                        known.remember(key, sent, &listener);
                        return Ok(listener);
                    }
                }
            };
            stopping.stopped().await;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.runs.lock().expect("no holder panics")
    }
}

impl Known {
    fn find(&self, key: &KeyId, sent: Sent) -> Result<Option<Arc<Run>>, ApiError> {
        let Some(entry) = self.runs.get(&(key.clone(), sent.name)) else { return Ok(None) };
        if entry.content == sent.content {
            return Ok(Some(entry.run.clone()));
        }
        let message = "This Idempotency-Key was used for another request. Give each request a \
                       key of its own.";
        Err(ApiError::new(ErrorCode::IdempotencyMismatch, message))
    }

    /// In the place of an earlier turn of the same request: a retry means the last.
    fn remember(&mut self, key: &KeyId, sent: Sent, listener: &Listener) {
        self.look_through();
        let name = (key.clone(), sent.name);
        if listener.run.is_kept() {
            let entry = Entry { content: sent.content, run: listener.run.clone() };
            self.runs.insert(name, entry);
        } else {
            self.runs.remove(&name);
        }
    }

    /// Forgets what is old, what is too much, and what no retry would find of use.
    fn look_through(&mut self) {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now < looked + LOOK) {
            return;
        }
        self.looked = Some(now);
        let mut ended: Vec<Instant> = Vec::new();
        self.retain(|name, run| {
            let since = run.ended();
            ended.extend(since);
            since.is_none_or(|since| now < since + AGE) && run.is_of_use(name.is_given())
        });
        if let Some(excess) = ended.len().checked_sub(COUNT).filter(|excess| *excess > 0) {
            ended.sort_unstable();
            let oldest_kept = ended[excess];
            self.retain(|_, run| run.ended().is_none_or(|since| since >= oldest_kept));
        }
    }

    fn retain(&mut self, mut stays: impl FnMut(Name, &Run) -> bool) {
        self.runs.retain(|(_, name), entry| stays(*name, &entry.run));
    }
}
