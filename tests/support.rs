//! What every test through the user's door needs: a scripted upstream, the real
//! server, a client that looks at every byte.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

pub(crate) mod chunks;
pub(crate) mod client;
pub(crate) mod faults;
pub(crate) mod faulty_proxy;
pub(crate) mod http;
mod processes;
pub(crate) mod resources;
pub(crate) mod seeded;
pub(crate) mod server;
pub(crate) mod stream;
pub(crate) mod sync;
pub(crate) mod up;
pub(crate) mod upstream;
pub(crate) mod wire_rules;

/// Longer than anything here takes on a busy machine: a test that waits for what
/// never comes ends and says for what it waited.
const PATIENCE: Duration = Duration::from_secs(60);

/// A virtual environment of `scripts/test-env.sh`, installed if it is not there.
pub(crate) async fn environment(name: &str) -> PathBuf {
    let mut script = Command::new("scripts/test-env.sh");
    script.env("CARGO_TARGET_DIR", target()).stdin(Stdio::null());
    let status = script.status().await.expect("the script that installs it");
    assert!(status.success(), "scripts/test-env.sh: {status}");
    kept(name)
}

/// What is kept from one run of the tests to the next.
pub(crate) fn kept(name: &str) -> PathBuf {
    target().join("test-env").join(name)
}

fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory")
}

/// Waits for `what`, or fails the test by name.
pub(crate) async fn watch<T>(what: &str, wait: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    waited.unwrap_or_else(|_| panic!("gave up waiting for {what}"))
}
