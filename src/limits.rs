//! What one client, one stream and all of them together may take: `[limits]`.
//!
//! One struct, so that a test can fill it with milliseconds and bytes.

use std::time::Duration;

use serde::Deserialize;

/// The defaults are config.md's; the reasons stand in `toolhand.example.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// The largest JSON body, in bytes.
    #[serde(with = "crate::units::size")]
    pub(crate) body: usize,
    /// The largest multipart body of a forwarded route; it is streamed.
    #[serde(with = "crate::units::size")]
    pub(crate) upload: usize,
    /// How long a body may take, unless it keeps coming at 8 kB/s.
    #[serde(with = "crate::units::duration")]
    pub(crate) body_time: Duration,
    /// Tools that one request may declare.
    pub(crate) client_tools: usize,
    /// The largest schema of one of them, in bytes.
    #[serde(with = "crate::units::size")]
    pub(crate) schema: usize,
    /// From the first byte (or the connect) to the end of the head.
    #[serde(with = "crate::units::duration")]
    pub(crate) header_time: Duration,
    /// A kept connection without a request.
    #[serde(with = "crate::units::duration")]
    pub(crate) idle_connection: Duration,
    #[serde(with = "crate::units::size")]
    pub(crate) head_bytes: usize,
    pub(crate) connections: usize,
    /// Of them, those of one peer that has shown no valid key.
    pub(crate) unauthenticated_per_peer: usize,
    /// Turns that run at once, of all keys.
    pub(crate) runs: usize,
    pub(crate) runs_per_key: usize,
    /// Wrong keys of one peer before 429.
    pub(crate) wrong_keys_per_minute: u32,
    /// One line of an upstream stream.
    #[serde(with = "crate::units::size")]
    pub(crate) line: usize,
    /// One upstream response.
    #[serde(with = "crate::units::size")]
    pub(crate) response: usize,
    /// All buffers of all streams together.
    #[serde(with = "crate::units::size")]
    pub(crate) buffers: usize,
    /// How long a client may take nothing of its answer.
    #[serde(with = "crate::units::duration")]
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
