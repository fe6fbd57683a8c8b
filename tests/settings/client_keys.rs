//! Tests `toolhand key` beside a running server, and what a key's bounds change.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::support::chunks::{calls, gate, raw, says, text};
use crate::support::client::{Client, ask, ask_streamed, with};
use crate::support::http::{Framing, Reader};
use crate::support::server::{Builder, KEY, Server};
use crate::support::upstream::Upstream;
use crate::support::watch;

pub(crate) fn key_command(server: &Server, arguments: &[&str]) -> Output {
    let state = server.state_dir();
    let config = state.with_file_name("toolhand.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolhand"));
    command.env_clear().env("HOME", state.with_file_name("nobody")).arg("key").args(arguments);
    command.env("TOOLHAND_STATE_DIR", &state).stdin(Stdio::null());
    if config.exists() {
        command.arg("--config").arg(config);
    }
    command.output().expect("the binary")
}

/// Makes a key, which is the only thing on stdout.
pub(crate) fn add(server: &Server, arguments: &[&str]) -> String {
    let output = key_command(server, &[&["add"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("text");
    printed.strip_suffix('\n').expect("one line").to_owned()
}

pub(crate) fn client(server: &Server, key: &str) -> Client {
    Client::new(server.address(), key)
}

async fn status(server: &Server, key: &str) -> u16 {
    client(server, key).get("/toolhand/v1/tools").await.status()
}

#[tokio::test]
async fn d13_a_key_works_from_the_next_request_on_until_it_is_revoked() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;

    let alice = add(&server, &["alice"]);
    assert_eq!(status(&server, &alice).await, 200);
    let bob = add(&server, &["bob"]);
    let list = String::from_utf8(key_command(&server, &["list"]).stdout).expect("text");
    assert!(list.contains("alice  key_") && list.contains("bob    key_"), "{list}");
    assert!(!list.contains(&alice) && !list.contains(&bob));

    assert!(key_command(&server, &["revoke", "alice"]).status.success());
    for (key, expected) in [(&*alice, 401), (&*bob, 200), (KEY, 200)] {
        assert_eq!(status(&server, key).await, expected);
    }
    let again = key_command(&server, &["revoke", "alice"]);
    assert_eq!(again.status.code(), Some(1));
    let error = String::from_utf8(again.stderr).expect("text");
    assert!(error.starts_with("toolhand: no living key is named alice"), "{error}");
    assert!(!server.log().contains(&alice) && !server.log().contains(&bob));
}

#[tokio::test]
async fn d13_a_broken_file_of_keys_is_told_and_the_old_keys_stay() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let alice = add(&server, &["alice"]);
    assert_eq!(status(&server, &alice).await, 200);
    let path = server.state_dir().join("keys.toml");
    let good = fs::read_to_string(&path).expect("the keys");

    fs::write(&path, &good[..good.len() - 10]).expect("our file");
    assert_eq!(status(&server, &alice).await, 200);
    server.logged("those from before stay", 1).await;
    fs::write(&path, &good).expect("our file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("our file");
    assert_eq!(status(&server, &alice).await, 200);
    server.logged("others may read it", 1).await;

    fs::remove_file(&path).expect("our file");
    assert_eq!(status(&server, &alice).await, 401);
}

/// Revokes bob's key. The server hears of it with the request that it refuses.
async fn revoke_bob(server: &Server, key: &str) {
    assert!(key_command(server, &["revoke", "bob"]).status.success());
    assert_eq!(status(server, key).await, 401);
}

#[tokio::test]
async fn x7_a_forwarded_stream_ends_with_its_key() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let bob = add(&server, &["bob"]);
    upstream.answer("/v1/completions", vec![raw("data: one\n\n"), gate("never")]);
    let body = br#"{"model":"m","prompt":"x","stream":true}"#;
    let mut stream = client(&server, &bob).open("POST", "/v1/completions", Some(body)).await;
    let head = watch("the head", stream.head()).await.expect("a head").expect("an answer");
    let mut framing = head.framing(Framing::ToEnd);
    let piece = watch("a piece", stream.piece(&mut framing)).await.expect("a piece");
    assert_eq!(piece.as_deref(), Some(&b"data: one\n\n"[..]));

    revoke_bob(&server, &bob).await;

    let end = watch("the end of the stream", stream.piece(&mut framing)).await;
    assert!(end.is_err(), "it is cut, not complete: {end:?}");
}

#[tokio::test]
async fn x7_a_request_that_waits_for_upstream_ends_with_its_key() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let bob = add(&server, &["bob"]);
    upstream.answer("/v1/embeddings", vec![gate("never")]);
    let (client, body) = (client(&server, &bob), json!({ "model": "m", "input": "x" }));

    let (answer, ()) = tokio::join!(client.post("/v1/embeddings", &body), async {
        upstream.reached("never").await;
        revoke_bob(&server, &bob).await;
    });

    assert_eq!(answer.refusal(), (401, "invalid_api_key".to_owned()));
}

#[tokio::test]
async fn x7_an_upload_ends_with_its_key() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for kind in ["multipart/form-data; boundary=cut", "application/json"] {
        let bob = add(&server, &["bob"]);
        let client = client(&server, &bob)
            .header("content-type", kind)
            .header("content-length", "1000")
            .header("expect", "100-continue");
        let mut stream = client.connect().await;
        let head = client.request("POST", "/v1/audio/transcriptions", None);
        stream.write_all(&head).await.expect("an open connection");
        let mut reader = Reader::new(stream);
        let head = watch("the body's turn", reader.head()).await.expect("a head");
        assert_eq!(head.expect("an answer").status(), 100, "the server reads the body");

        revoke_bob(&server, &bob).await;

        let head = watch("an answer", reader.head()).await.expect("a head").expect("an answer");
        assert_eq!(head.status(), 401, "{kind}");
    }
}

/// Without a further request of anybody: one turn tells its client, the other goes on alone.
#[tokio::test]
async fn x7_chat_turns_end_with_their_key_without_another_request() {
    let upstream = Upstream::start();
    // Nothing comes of the streams but what ends them.
    let builder = Server::builder(&upstream).free().config("turns.keep_alive", r#""10m""#);
    let server = builder.start().await;
    let bob = client(&server, &add(&server, &["bob"]));
    let command = json!({ "command": "trap '' TERM; echo x >> started; sleep 1000" });
    upstream.round(calls(&[("c1", "Bash", command)]));
    let detached = json!({ "toolhand": { "detach": true } });
    let alone = bob.stream(&with(ask_streamed("Wait."), detached)).await;
    let started = server.workspace().join("started");
    let running = async {
        while !started.exists() {
            tokio::task::yield_now().await;
        }
    };
    watch("the command to run", running).await;
    drop(alone);
    upstream.round(vec![text("I begin "), gate("never")]);
    let mut watched = bob.stream(&ask_streamed("Tell.")).await;
    watched.until_text().await;
    // A turn of another key, which goes on.
    upstream.round([vec![text("It is "), gate("half")], says("done.")].concat());
    let mut others = server.client().stream(&ask_streamed("Mine?")).await;
    others.until_text().await;

    assert!(key_command(&server, &["revoke", "bob"]).status.success());

    assert_eq!(watched.finish().await.code(), "cancelled");
    upstream.abandoned(1).await;
    server.no_children().await;
    upstream.open("half");
    assert_eq!(others.finish().await.text(), "It is done.");
    assert_eq!(upstream.requests().len(), 3, "the turn that was left asked for no more");
}

fn with_workspaces(upstream: &Upstream) -> Builder {
    let builder = Server::builder(upstream).free();
    let mut tables = "[server.workspaces]\n".to_owned();
    for name in ["docs", "code"] {
        let path = builder.home().join(name);
        fs::create_dir(&path).expect("a new directory");
        fs::write(path.join("here.txt"), format!("{name}\n")).expect("a new file");
        writeln!(tables, "{name} = {:?}", path.display().to_string()).expect("a string");
    }
    builder.tables(&tables)
}

fn request(members: Value) -> Value {
    let mut request = ask("Hi");
    request["toolhand"] = members;
    request
}

#[tokio::test]
async fn x8_a_request_cannot_widen_what_its_key_may_do() {
    let upstream = Upstream::start();
    let server = with_workspaces(&upstream).start().await;
    upstream.otherwise(says("Done."));
    let planner = add(&server, &["planner", "--mode", "plan", "--workspace", "docs"]);
    let planner = client(&server, &planner);

    let refusal = planner.chat(&request(json!({ "mode": "default" }))).await.refusal();
    assert_eq!(refusal, (403, "mode_not_allowed".to_owned()));
    let refusal = planner.chat(&request(json!({ "workspace": "code" }))).await.refusal();
    assert_eq!(refusal, (400, "invalid_value".to_owned()));
    for fits in [json!({}), json!({ "mode": "plan" }), json!({ "workspace": "docs" })] {
        assert_eq!(planner.chat(&request(fits)).await.text(), "Done.");
    }
    // The other keys are as free as the server is.
    let free = request(json!({ "mode": "bypassPermissions", "workspace": "code" }));
    assert_eq!(server.client().chat(&free).await.text(), "Done.");
}

#[tokio::test]
async fn x8_a_key_works_in_its_own_workspace_and_mode_without_being_asked() {
    let upstream = Upstream::start();
    let server = with_workspaces(&upstream).start().await;
    let planner = add(&server, &["planner", "--mode", "plan", "--workspace", "docs"]);
    upstream.round(calls(&[
        ("c1", "Read", json!({ "file_path": "here.txt" })),
        ("c2", "Write", json!({ "file_path": "new.txt", "content": "x" })),
    ]));
    upstream.round(says("Done."));

    assert_eq!(client(&server, &planner).chat(&ask("Go.")).await.text(), "Done.");

    let answers = crate::turn::answers(&upstream, 1).await;
    assert!(answers[0].contains("docs"), "{answers:?}");
    assert!(answers[1].contains("not permitted"), "{answers:?}");
}

#[tokio::test]
async fn x8_client_tools_of_a_key_beat_those_of_the_server() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.otherwise(says("Done."));
    let key = add(&server, &["narrow"]);
    let path = server.state_dir().join("keys.toml");
    let text = fs::read_to_string(&path).expect("the keys") + "client_tools = [\"mine\"]\n";
    fs::write(&path, text).expect("our file");
    let tool = |name| json!({ "type": "function", "function": { "name": name } });
    let body = with(ask("Hi"), json!({ "tools": [tool("mine"), tool("other")] }));

    for (key, expected) in [(&*key, false), (KEY, true)] {
        let number = upstream.requests().len();
        assert_eq!(client(&server, key).chat(&body).await.text(), "Done.");
        let sent = upstream.request(number).await.json()["tools"].to_string();
        assert!(sent.contains("\"mine\"") && sent.contains("\"other\"") == expected, "{sent}");
    }
}

#[tokio::test]
async fn a_workspace_that_is_not_configured_is_refused_at_once() {
    let upstream = Upstream::start();
    let server = with_workspaces(&upstream).start().await;
    let output = key_command(&server, &["add", "lost", "--workspace", "doc"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).expect("text");
    assert_eq!(error, "toolhand: \"doc\" is not in server.workspaces: code, docs\n");
}

#[tokio::test]
async fn x12_keys_that_others_may_read_keep_the_server_from_starting() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream);
    let state = builder.home().join("state");
    fs::create_dir(&state).expect("a new directory");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("our own");
    fs::write(state.join("keys.toml"), "").expect("a new file");
    fs::set_permissions(state.join("keys.toml"), fs::Permissions::from_mode(0o644))
        .expect("our own");

    let (status, _, stderr) = builder.run();

    assert!(!status.success());
    assert!(stderr.contains("keys.toml: others may read it (mode 644); chmod 600 it"), "{stderr}");
}
