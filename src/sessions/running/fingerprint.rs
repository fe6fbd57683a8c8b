//! Identifies a request, so that it is recognised when it is sent again.

use axum::http::{HeaderMap, HeaderName};

use crate::sessions::id_sources::ExplicitId;
use crate::store::rows::Digest;

const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Prefixes of headers that change what a request means.
const SIGNIFICANT_HEADERS: [&str; 2] = ["x-toolhand-", "x-openwebui-"];

/// What identifies a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestFingerprint {
    pub(super) name: Identity,
    /// Hash of the body, of the headers that change its meaning, and of the session's name.
    pub(super) content: Digest,
    pub(super) is_retry: bool,
}

/// The name of a request by all that tells it from others: its `Idempotency-Key` and its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestName(Identity, Digest);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    /// The client's own `Idempotency-Key`, hashed.
    Given(Digest),
    Content(Digest),
}

impl RequestFingerprint {
    /// `named` is the session that the request names: what names another one is another request,
    /// in whichever header the name stands.
    pub(crate) fn from_request(
        headers: &HeaderMap,
        named: Option<&ExplicitId>,
        body: &[u8],
    ) -> Self {
        let content = content(headers, named, body);
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

    /// Equal for requests of the same bytes under the same `Idempotency-Key`, or without any.
    pub(crate) fn request_name(&self) -> RequestName {
        RequestName(self.name, self.content)
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

fn content(headers: &HeaderMap, named: Option<&ExplicitId>, body: &[u8]) -> Digest {
    let is_significant = |name: &HeaderName| {
        SIGNIFICANT_HEADERS.iter().any(|prefix| name.as_str().starts_with(prefix))
    };
    let headers = headers.iter().filter(|(name, _)| is_significant(name));
    let headers = headers.flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()]);
    let mut content = blake3::Hasher::new();
    for part in headers.chain(named.map(|id| id.text().as_bytes())) {
        content.update(&part.len().to_le_bytes()).update(part);
    }
    *content.update(b"\n").update(body).finalize().as_bytes()
}

impl Identity {
    pub(super) fn is_given(self) -> bool {
        matches!(self, Self::Given(_))
    }
}
