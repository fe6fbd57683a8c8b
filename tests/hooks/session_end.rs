//! Tests the hooks of sessions that end: deleted over REST, or forgotten by the store.

use std::fs;

use serde_json::{Value, json};

use super::hooked;
use crate::settings::trust::trust;
use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// Talks once, with a change of the working directory, and returns the session's id.
async fn session(server: &Server, upstream: &Upstream) -> String {
    upstream.round(calls(&[("c1", "Bash", json!({ "command": "mkdir -p sub; cd sub" }))]));
    upstream.round(says("Done."));
    let answer = server.client().chat(&ask("Go.")).await;
    answer.header("x-toolhand-session").expect("a session").to_owned()
}

async fn delete(server: &Server, session: &str) -> u16 {
    let path = format!("/toolhand/v1/sessions/{session}");
    server.client().send("DELETE", &path, None).await.status()
}

#[tokio::test]
async fn the_hooks_of_a_deleted_session_are_told_once_and_change_nothing() {
    let upstream = Upstream::start();
    let refuses = "cat >>told; echo '{\"continue\":false}'; echo no >&2; exit 2";
    let server = hooked(&upstream, &[("SessionEnd", refuses)]).start().await;
    let id = session(&server, &upstream).await;
    let kept = server.state_dir().join("sessions").join(&id);
    fs::create_dir_all(&kept).expect("a directory of the session");

    assert_eq!(delete(&server, &id).await, 200);
    assert_eq!(delete(&server, &id).await, 404);
    server.logged("hook ran", 1).await;

    let told: Vec<Value> =
        server.file("told").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let sub = server.workspace().join("sub").display().to_string();
    let expected = json!({ "session_id": id, "cwd": sub, "permission_mode": "bypassPermissions",
        "hook_event_name": "SessionEnd", "reason": "other" });
    assert_eq!(told, [expected]);
    while kept.exists() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn k1_a_hook_that_hangs_neither_delays_a_deletion_nor_outlives_the_server() {
    let upstream = Upstream::start();
    let hooks = [("SessionEnd", "sleep 1000"), ("SessionEnd", "/nonexistent/hook")];
    let mut server = hooked(&upstream, &hooks).start().await;
    // More than run at once.
    for _ in 0..6 {
        let id = session(&server, &upstream).await;
        assert_eq!(delete(&server, &id).await, 200);
    }
    server.logged("hook failed", 4).await;
    assert!(server.stop().is_some_and(|status| status.success()));
    assert_eq!(server.log().matches("hook failed").count(), 4, "no more run at once");
}

#[tokio::test]
async fn sessions_that_the_store_forgets_have_ended_too() {
    let upstream = Upstream::start();
    let server = hooked(&upstream, &[("SessionEnd", "cat >>told")])
        .config("sessions.retention", r#""1s""#)
        .start()
        .await;
    let id = session(&server, &upstream).await;

    server.logged("hook ran", 1).await;

    let told: Value = serde_json::from_str(&server.file("told")).expect("JSON");
    assert_eq!(told["session_id"], id.as_str());
}

#[tokio::test]
async fn g1_the_user_and_a_trusted_workspace_are_told_of_ended_sessions() {
    let hooks = |line: &str| {
        let hook = json!({ "type": "command", "command": line });
        json!({ "hooks": { "SessionEnd": [{ "hooks": [hook] }] } }).to_string()
    };
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).file(".claude/settings.json", &hooks("cat >theirs"));
    let users = builder.home().join(".claude");
    fs::create_dir_all(&users).expect("a directory");
    fs::write(users.join("settings.json"), hooks("cat >users")).expect("a file");
    let server = builder.start().await;
    let says_hello = async || {
        upstream.round(says("Hello."));
        let answer = server.client().chat(&ask("Go.")).await;
        answer.header("x-toolhand-session").expect("a session").to_owned()
    };

    let id = says_hello().await;
    assert_eq!(delete(&server, &id).await, 200);
    server.logged("hook ran", 1).await;
    assert!(server.file("users").contains(&id));
    assert!(!server.workspace().join("theirs").exists(), "nobody trusts it");

    trust(&server, "trust", &server.workspace());
    let id = says_hello().await;
    assert_eq!(delete(&server, &id).await, 200);
    let status = server.client().get("/toolhand/v1/status").await.json();
    if status["sandbox"]["level"] == "none" {
        server.logged("runs only in a sandbox", 1).await;
    } else {
        server.logged("hook ran", 3).await;
        assert!(server.file("theirs").contains(&id));
    }
}
