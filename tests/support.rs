//! Provides the fixtures of tests through the user's door: a scripted upstream, the real
//! server, and a client that checks every byte.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

pub(crate) mod chunks;
pub(crate) mod client;
pub(crate) mod disk;
pub(crate) mod faults;
pub(crate) mod faulty_proxy;
pub(crate) mod http;
pub(crate) mod mount;
pub(crate) mod processes;
pub(crate) mod providers;
pub(crate) mod pseudo_terminal;
pub(crate) mod resources;
pub(crate) mod seeded;
pub(crate) mod server;
pub(crate) mod stream;
pub(crate) mod sync;
pub(crate) mod up;
pub(crate) mod upstream;
pub(crate) mod wire_rules;

/// The server's tools, in the order in which the model is told of them.
pub(crate) const OUR_TOOLS: [&str; 19] = [
    "Read",
    "Write",
    "Edit",
    "NotebookEdit",
    "Glob",
    "Grep",
    "Bash",
    "TaskOutput",
    "TaskStop",
    "ListTasks",
    "Task",
    "TodoWrite",
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "Skill",
    "SlashCommand",
    "WebFetch",
    "Config",
];

/// Longer than anything here takes on a busy machine. A test that waits in vain ends
/// then, and says what it waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The virtual environment of `scripts/test-env.sh`; installed if it is missing.
pub(crate) async fn environment(name: &str) -> PathBuf {
    let mut script = Command::new("scripts/test-env.sh");
    script.env("CARGO_TARGET_DIR", target()).stdin(Stdio::null());
    let status = script.status().await.expect("the script that installs it");
    assert!(status.success(), "scripts/test-env.sh: {status}");
    kept(name)
}

/// A directory that is kept between runs of the tests.
pub(crate) fn kept(name: &str) -> PathBuf {
    target().join("test-env").join(name)
}

fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory")
}

/// Waits, or fails the test with the name `what`.
pub(crate) async fn watch<T>(what: &str, wait: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    waited.unwrap_or_else(|_| panic!("gave up waiting for {what}"))
}
