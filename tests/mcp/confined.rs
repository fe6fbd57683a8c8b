//! What holds a server's program back.

use std::net::TcpListener;

use serde_json::json;

use super::{allowed, call, doing, one};
use crate::lsp::skipped;
use crate::permissions::has_sandbox;
use crate::support::upstream::Upstream;

#[tokio::test]
async fn m13_a_server_writes_only_the_workspace_and_does_not_read_our_state() {
    let upstream = Upstream::start();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // Not in /tmp, of which a sandbox has its own.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    for (more, connection) in [("", "done"), ("network = false", "failed")] {
        let builder = allowed(&upstream, &[("s", doing(json!([])), more)]);
        let aims = json!({
            "write": place.path().join("made"),
            "read": builder.home().join("state/toolhand.db"),
            "port": listener.local_addr().expect("an address").port(),
        });
        let script = doing(json!([{ "reach": aims }]));
        let server = builder.file("s.json", &script.to_string()).start().await;
        assert!(server.state_dir().join("toolhand.db").exists());
        if !has_sandbox(&server).await {
            let test = "m13_a_server_writes_only_the_workspace_and_does_not_read_our_state";
            return skipped(test, "no sandbox");
        }
        let answer = one(&server, &upstream, call("mcp__s__do")).await;
        assert_eq!(answer, format!("write:failed read:failed connect:{connection}"), "{more}");
        assert!(!place.path().join("made").exists());
    }
}

#[tokio::test]
async fn a6_without_a_sandbox_the_operators_server_starts_unless_one_is_required() {
    let upstream = Upstream::start();
    let script = || doing(json!([{ "echo": 1 }]));
    let server = allowed(&upstream, &[("s", script(), "")]).argument("--sandbox=off").start().await;
    assert_eq!(one(&server, &upstream, call("mcp__s__do")).await, "{}");
    assert!(server.log().contains("sandbox"), "{}", server.log());
}
