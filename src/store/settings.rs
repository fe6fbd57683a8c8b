//! Defines how long and how much the store keeps.

use std::time::Duration;

/// What the store may keep. From `[sessions]`.
#[derive(Clone, Debug)]
pub(crate) struct StoreSettings {
    /// A session is forgotten so long after its last request.
    pub(crate) retention: Duration,
    /// The bytes of all sessions together. Those unused longest are forgotten first.
    pub(crate) max_bytes: u64,
}
