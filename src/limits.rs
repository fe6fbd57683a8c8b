//! Defines the settings of `[limits]`: for one client, for one stream, and for all together.
//!
//! They are one struct, so that a test can set them to milliseconds and bytes.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// `[limits]`. `toolhand.example.toml` has the reasons for the defaults. No limit may be 0: it
/// would refuse everything, and was most likely meant as "no limit".
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// The largest JSON body, in bytes.
    #[serde(deserialize_with = "above_zero::size")]
    pub(crate) body: usize,
    /// The largest multipart body of a forwarded route, in bytes. Such a body is streamed.
    #[serde(deserialize_with = "above_zero::size")]
    pub(crate) upload: usize,
    /// How long a body may take. A body that arrives at 8 kB/s or faster may take longer.
    #[serde(deserialize_with = "above_zero::duration")]
    pub(crate) body_time: Duration,
    /// Tools that one request may declare.
    #[serde(deserialize_with = "above_zero::count")]
    pub(crate) client_tools: usize,
    /// The largest schema of one such tool, in bytes.
    #[serde(deserialize_with = "above_zero::size")]
    pub(crate) schema: usize,
    /// Messages in one request.
    #[serde(deserialize_with = "above_zero::count")]
    pub(crate) messages: usize,
    /// Tool calls in all messages of a request together.
    #[serde(deserialize_with = "above_zero::count")]
    pub(crate) calls: usize,
    /// The time from the first byte of a request (or the connect) to the end of its head.
    #[serde(deserialize_with = "above_zero::duration")]
    pub(crate) header_time: Duration,
    /// How long a connection may be kept without a request.
    #[serde(deserialize_with = "above_zero::duration")]
    pub(crate) idle_connection: Duration,
    /// The largest request head, in bytes.
    #[serde(deserialize_with = "above_zero::size")]
    pub(crate) head_bytes: usize,
    /// Open connections.
    #[serde(deserialize_with = "above_zero::count")]
    pub(crate) connections: usize,
    /// Open connections of one peer that has shown no valid key.
    #[serde(deserialize_with = "above_zero::count")]
    pub(crate) unauthenticated_per_peer: usize,
    /// Turns that run at once, of all keys together.
    #[serde(deserialize_with = "above_zero::count")]
    pub(crate) runs: usize,
    /// Turns that run at once, of one key.
    #[serde(deserialize_with = "above_zero::count")]
    pub(crate) runs_per_key: usize,
    /// Wrong keys of one peer per minute before it gets 429.
    #[serde(deserialize_with = "above_zero::count")]
    pub(crate) wrong_keys_per_minute: u32,
    /// The longest line of an upstream stream, in bytes.
    #[serde(deserialize_with = "above_zero::size")]
    pub(crate) line: usize,
    /// The largest upstream response, in bytes.
    #[serde(deserialize_with = "above_zero::size")]
    pub(crate) response: usize,
    /// The memory for all streams together, in bytes.
    #[serde(deserialize_with = "above_zero::size")]
    pub(crate) buffers: usize,
    /// How long a client may take nothing of its answer.
    #[serde(deserialize_with = "above_zero::duration")]
    pub(crate) slow_client: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 32 << 20,
            upload: 512 << 20,
            body_time: Duration::from_secs(30),
            client_tools: 512,
            schema: 1 << 20,
            messages: 10_000,
            calls: 50_000,
            header_time: Duration::from_secs(10),
            idle_connection: Duration::from_secs(75),
            head_bytes: 64 << 10,
            connections: 4096,
            unauthenticated_per_peer: 64,
            runs: 1024,
            runs_per_key: 256,
            wrong_keys_per_minute: 10,
            line: 8 << 20,
            response: 64 << 20,
            buffers: 256 << 20,
            slow_client: Duration::from_secs(60),
        }
    }
}

/// Deserialises a limit of each type, and refuses 0.
mod above_zero {
    use serde::de::Error;

    use super::{Deserialize, Deserializer, Duration};
    use crate::units;

    fn check<T: Default + PartialEq, E: Error>(value: T) -> Result<T, E> {
        if value == T::default() {
            return Err(E::custom("0 would refuse everything: a limit is at least 1"));
        }
        Ok(value)
    }

    pub(super) fn count<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: Deserialize<'de> + Default + PartialEq,
        D: Deserializer<'de>,
    {
        T::deserialize(from).and_then(check)
    }

    pub(super) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
        units::size::deserialize(from).and_then(check)
    }

    pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        units::duration::deserialize(from).and_then(check)
    }
}
