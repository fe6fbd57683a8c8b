//! Ends turns and servers while something runs, and looks for what is left behind.

use serde_json::json;

use super::{after, assistant, conversation, user};
use crate::support::chunks::{calls, gate, says, text};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::resources;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// Turns after which a server must be as it was.
const TURNS: usize = 1000;

#[tokio::test]
async fn a_server_that_is_told_to_stop_leaves_one_whole_database() {
    let upstream = Upstream::start();
    let mut server = Server::start(&upstream).await;
    upstream.round(says("Hello."));
    server.client().chat(&ask("Hi")).await;
    assert!(server.state_dir().join("toolhand.db-wal").exists(), "it is written in between");

    assert!(server.stop().expect("a status").success());

    for end in ["-wal", "-shm"] {
        let left = server.state_dir().join(format!("toolhand.db{end}"));
        assert!(!left.exists(), "{}", left.display());
    }
}

#[tokio::test]
async fn a_detached_turn_ends_with_its_server_and_what_it_did_is_known() {
    let upstream = Upstream::start();
    let mut server = Server::builder(&upstream)
        .free()
        .config("turns.shutdown_grace", r#""100ms""#)
        .start()
        .await;
    let session = json!({ "toolhand": { "detach": true, "session": "mine" } });
    upstream.round(calls(&[("c1", "Bash", json!({ "command": "echo ran >> ran; echo seen" }))]));
    upstream.round(vec![text("I have run it and"), gate("never")]);
    let body = with(ask_streamed("Run it."), session.clone());
    let mut stream = server.client().stream(&body).await;
    stream.until_text().await;
    drop(stream);

    assert!(server.stop().expect("a status").success());
    upstream.abandoned(1).await;
    upstream.open("never");
    let second = after(&upstream, &server).free().start().await;
    upstream.round(says("You had asked me to run it."));
    let list = [user("Run it."), assistant("I have run it and"), user("What was that?")];
    let answer = second.client().chat(&with(conversation(&list), session)).await;

    assert_eq!(answer.text(), "You had asked me to run it.");
    let told = super::told(&upstream.request(2).await);
    assert!(
        told.iter().any(|line| line.starts_with("tool: ") && line.contains("seen")),
        "{told:?}"
    );
    assert_eq!(server.file("ran"), "ran\n");
}

#[tokio::test]
async fn a_session_that_is_deleted_while_its_turn_runs_is_gone_with_all_it_ran() {
    let upstream = Upstream::start();
    let mut server = Server::builder(&upstream).free().start().await;
    let client = server.client().header("x-toolhand-session", "mine");
    upstream.round(calls(&[("c1", "Bash", json!({ "command": "echo x > began; sleep 1000" }))]));
    let progress = json!({ "toolhand": { "progress": "events" } });
    let mut stream = client.stream(&with(ask_streamed("Run."), progress)).await;
    stream.until_progress("tool_start").await;
    while !server.workspace().join("began").exists() {
        tokio::task::yield_now().await;
    }

    let deleted = server.client().send("DELETE", "/toolhand/v1/sessions/mine", None).await;

    assert_eq!(deleted.status(), 200, "{deleted:?}");
    assert_eq!(stream.finish().await.finish_reason, None);
    server.no_children().await;
    let gone = async |server: &Server| {
        let found = server.client().get("/toolhand/v1/sessions/mine").await.status();
        let turns = server.client().get("/toolhand/v1/turns").await.json();
        found == 404 && turns["data"] == json!([])
    };
    assert!(gone(&server).await);
    server.stop();
    let server = after(&upstream, &server).free().start().await;
    assert!(gone(&server).await, "nothing that ended late has brought it back");
    upstream.round(says("Who are you?"));
    let client = server.client().header("x-toolhand-session", "mine");
    client.chat(&ask("Hi again")).await;
    let told = super::told(&upstream.request(1).await);
    assert_eq!(told, ["user: Hi again"]);
}

#[tokio::test]
async fn d12_a_log_that_cannot_be_written_stops_nothing() {
    for log in ["/dev/full", "&-"] {
        let upstream = Upstream::start();
        let builder = Server::builder(&upstream);
        let starter = builder.home().join("start.sh");
        let program = env!("CARGO_BIN_EXE_toolhand");
        let script = format!("#!/bin/sh\nexec {program} \"$@\" 2>{log}\n");
        std::fs::write(&starter, script).expect("a new file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&starter, mode).expect("our own");
        let mut server = builder.program(&starter).start().await;
        // Upstream's failure is logged.
        upstream.round(vec![crate::support::upstream::Step::Close]);
        upstream.round(says("Hello."));
        assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Hello.", "{log}");
        assert!(server.stop().expect("a status").success());
    }
}

#[tokio::test]
async fn r5_a_thousand_turns_leave_nothing_behind() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    upstream.otherwise(says("Hello."));
    turns(&server, &upstream, 0..100).await;
    let threads = |server: &Server| {
        let tasks = format!("/proc/{}/task", server.pid().as_raw_nonzero());
        std::fs::read_dir(tasks).expect("our child").count()
    };
    let (files, memory) = (resources::open_files(&server), resources::memory(&server).now);
    let before = threads(&server);

    turns(&server, &upstream, 100..100 + TURNS).await;

    let left = resources::remains(&server, files).await;
    assert!(left.files.1 <= files + resources::KEPT, "{left:?}");
    assert_eq!(left.survivors, 0, "{left:?}");
    // The pool of the runtime may have grown to what it may be.
    assert!(threads(&server) <= before + 64, "{} after {before}", threads(&server));
    let grown = resources::memory(&server).now.saturating_sub(memory);
    assert!(grown < 40 << 20, "{} MiB more", grown >> 20);
    assert_eq!(server.client().get("/toolhand/v1/turns").await.json()["data"], json!([]));
    upstream.forget_script();
}

/// Turns that are heard, that are left, that run a command, and that are refused.
async fn turns(server: &Server, upstream: &Upstream, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let client = server.client().header("x-toolhand-session", &format!("s{}", number % 50));
        match number % 20 {
            0 => {
                let count = upstream.requests().len();
                upstream.round(vec![text("I begin"), gate("never")]);
                let mut stream = client.stream(&ask_streamed("Talk.")).await;
                stream.until_text().await;
                drop(stream);
                upstream.abandoned(count).await;
            }
            1 => {
                upstream.round(calls(&[("c1", "Bash", json!({ "command": "true" }))]));
                client.chat(&ask("Run.")).await;
            }
            2 => {
                let wrong = conversation(&[json!({ "role": "tool", "content": "x" })]);
                assert_eq!(client.chat(&wrong).await.status(), 400);
            }
            3 => {
                client.send("DELETE", "/toolhand/v1/sessions/s4", None).await;
            }
            _ => {
                client.chat(&ask(&format!("Hi {number}"))).await;
            }
        }
    }
}
