//! Names that the server gives: random, 128 bits, told apart by type.

use std::fmt;

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
    /// A tool call whose model gave it no id, or one that was taken.
    CallId = "call_";
}
