//! The ids of everything that has one, told apart by type. Those that the server
//! makes are random, 128 bits.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

macro_rules! random_ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
        #[serde(transparent)]
        pub(crate) struct $name(String);

        impl $name {
            pub(crate) fn random() -> Self {
                Self(format!(concat!($prefix, "{}"), Uuid::new_v4().simple()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

random_ids! {
    /// A conversation's hidden state; for now one request.
    SessionId = "sess_";
    /// One client request until its answer.
    TurnId = "turn_";
    /// The `id` of a completion and all its chunks.
    CompletionId = "chatcmpl-";
    /// One HTTP request, in logs and upstream; a client may name its own.
    RequestId = "req_";
    /// A tool call whose model gave it no id, or one that was taken.
    CallId = "call_";
}

/// The longest request id of a client that we repeat.
const MAX_REQUEST_ID: usize = 128;

impl RequestId {
    /// `None` when it is not fit to be repeated in a header and a log.
    pub(crate) fn from_client(sent: &[u8]) -> Option<Self> {
        let is_printable = sent.iter().all(|byte| (b' '..=b'~').contains(byte));
        let fits = (1..=MAX_REQUEST_ID).contains(&sent.len());
        (is_printable && fits).then(|| Self(String::from_utf8_lossy(sent).into_owned()))
    }

    /// Printable ASCII.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Names a client key in logs and scopes what it owns; says nothing of the key itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyId(Arc<str>);

impl KeyId {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Everyone, on a server that asks for no key.
    pub(crate) fn nobody() -> Self {
        Self::new("nobody")
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
