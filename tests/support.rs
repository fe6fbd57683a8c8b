//! What every test through the user's door needs: a scripted upstream, the real
//! server, a client that looks at every byte.

use std::time::Duration;

pub(crate) mod chunks;
pub(crate) mod client;
pub(crate) mod http;
pub(crate) mod server;
pub(crate) mod upstream;

/// Longer than anything here takes on a busy machine: a test that waits for what
/// never comes ends and says for what it waited.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for `what`, or fails the test by name.
pub(crate) async fn watch<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(value) => value,
        Err(_) => panic!("gave up waiting for {what}"),
    }
}
