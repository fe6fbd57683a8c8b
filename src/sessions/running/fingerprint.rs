//! Identifies a request, so that it is recognised when it is sent again.

use axum::http::{HeaderMap, HeaderName};

use crate::sessions::names::CHAT_HEADERS;
use crate::store::rows::Digest;

const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Prefixes of headers that change what a request means.
const SIGNIFICANT_HEADERS: [&str; 2] = ["x-toolhand-", "x-openwebui-"];

/// What identifies a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestFingerprint {
    pub(super) name: Identity,
    /// Hash of the body and of the headers that change its meaning.
    pub(super) content: Digest,
    pub(super) is_retry: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    /// The client's own `Idempotency-Key`, hashed.
    Given(Digest),
    Content(Digest),
}

impl RequestFingerprint {
    pub(crate) fn from_request(headers: &HeaderMap, body: &[u8]) -> Self {
        let mut content = blake3::Hasher::new();
        // What names another session is another request.
        let is_meaningful = |name: &HeaderName| {
            let name = name.as_str();
            SIGNIFICANT_HEADERS.iter().any(|prefix| name.starts_with(prefix))
                || CHAT_HEADERS.contains(&name)
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
    pub(crate) fn is_named(&self) -> bool {
        self.name.is_given()
    }

    /// For `TurnRow::request`.
    pub(crate) fn request(&self) -> Digest {
        self.content
    }

    /// For `TurnRow::idempotency`.
    pub(crate) fn idempotency(&self) -> Option<Digest> {
        match self.name {
            Identity::Given(name) => Some(name),
            Identity::Content(_) => None,
        }
    }
}

impl Identity {
    pub(super) fn is_given(self) -> bool {
        matches!(self, Self::Given(_))
    }
}
