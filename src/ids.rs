//! Defines a type for each kind of id. The ids that the server makes hold 122 random bits (UUID
//! v4).

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
    /// A session; for now one request.
    SessionId = "sess_";
    /// A turn: one client request until its answer.
    TurnId = "turn_";
    /// The `id` of a completion and of all its chunks.
    CompletionId = "chatcmpl-";
    /// An HTTP request, in the log and upstream. A client may choose its own.
    RequestId = "req_";
    /// A tool call for which the model gave no id, or one that was in use.
    CallId = "call_";
}

/// The longest request id that is taken from a client, in bytes.
const MAX_REQUEST_ID: usize = 128;

impl RequestId {
    /// The client's id, or `None` if it is empty, too long, or not printable ASCII: it is
    /// repeated in a header and in the log.
    pub(crate) fn from_client(sent: &[u8]) -> Option<Self> {
        let is_printable = sent.iter().all(|byte| (b' '..=b'~').contains(byte));
        let fits = (1..=MAX_REQUEST_ID).contains(&sent.len());
        (is_printable && fits).then(|| Self(String::from_utf8_lossy(sent).into_owned()))
    }

    /// The id as printable ASCII.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Names a client key in the log, and separates what belongs to different keys. It reveals
/// nothing of the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyId(Arc<str>);

impl KeyId {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Stands for every client of a server that asks for no key.
    pub(crate) fn nobody() -> Self {
        Self::new("nobody")
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
