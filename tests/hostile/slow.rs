//! Tests clients that read slowly or not at all, and clients that disappear.

use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use crate::support::chunks::{call, calls, end, flood, gate, says, status, text};
use crate::support::client::{ask, ask_streamed};
use crate::support::faulty_proxy::{Proxy, Toxic};
use crate::support::http::Framing;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::support::watch;

/// A server that gives up on a slow client after 100 ms.
async fn impatient(upstream: &Upstream) -> Server {
    Server::builder(upstream).config("limits.slow_client", r#""100ms""#).start().await
}

fn paragraph() -> String {
    "All work and no play makes Jack a dull boy. ".repeat(20)
}

/// The client reads a little and stops. Upstream is slowed down with it and then
/// disconnected; the client finds the reason when it reads on.
#[tokio::test]
async fn h32_a_client_that_stops_reading_is_let_go_of() {
    let upstream = Upstream::start();
    let server = impatient(&upstream).await;
    let script = vec![Toxic::Pass(2000), Toxic::Gate("read on".into())];
    let proxy = Proxy::before(&server, 4096, script).await;
    upstream.round(vec![flood(text(&paragraph()))]);

    let stream = proxy.client().stream(&ask_streamed("Hi")).await;
    upstream.abandoned(0).await;
    // What the sockets and buffers hold: a turn does not read ahead of its client.
    assert!(upstream.flooded() < 32 << 20, "{} bytes were read", upstream.flooded());
    proxy.open("read on");
    let answer = stream.finish().await;

    assert_eq!(answer.code(), "slow_client", "{:?}", answer.error);
    assert!(server.log().contains("slow_client"), "{}", server.log());
}

/// The whole answer is on its way. The budget has room for what the turn keeps, but not
/// for as much again that waits.
#[tokio::test]
async fn h32_a_turn_reads_no_further_ahead_than_its_client() {
    let upstream = Upstream::start();
    // The turn keeps its text, also for the record; no further copy fits.
    let server = Server::builder(&upstream).config("limits.buffers", r#""9MiB""#).start().await;
    let script = vec![Toxic::Pass(2000), Toxic::Gate("read on".into())];
    let proxy = Proxy::before(&server, 4096, script).await;
    let deltas = vec![text(&"x".repeat(1200)); 1000];
    upstream.round([deltas, vec![gate("sent")], end("stop")].concat());

    let stream = proxy.client().stream(&ask_streamed("Hi")).await;
    upstream.reached("sent").await;
    // Others are served meanwhile, so the server has had time to read everything.
    for _ in 0..10 {
        upstream.round(says("Hello."));
        assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Hello.");
    }
    upstream.open("sent");
    proxy.open("read on");

    assert_eq!(stream.finish().await.text().len(), 1_200_000);
}

#[tokio::test]
async fn h32_a_client_that_stops_during_a_tool_leaves_no_process() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .free()
        .config("limits.slow_client", r#""100ms""#)
        .config("turns.keep_alive", r#""1ms""#)
        .start()
        .await;
    let script = vec![Toxic::Pass(1), Toxic::Gate("never".into())];
    let proxy = Proxy::before(&server, 4096, script).await;
    upstream.round(calls(&[("c1", "Bash", json!({ "command": "sleep 1000" }))]));

    // The comments that nobody reads fill the connection eventually.
    let _connection = proxy.client().start(&ask_streamed("Hi")).await;
    proxy.reached("never").await;
    server.no_children().await;
}

/// An unstreamed answer, a list of models, a forwarded answer: the connection of a client
/// that does not read them is closed.
#[tokio::test]
async fn h32_large_answers_wait_no_longer_for_their_reader() {
    let upstream = Upstream::start();
    let server = impatient(&upstream).await;
    let large: Value = "x".repeat(4 << 20).into();
    upstream.round([vec![text(large.as_str().expect("text"))], end("stop")].concat());
    upstream.answer("/v1/models", status(200, &json!({ "object": "list", "data": [large] })));
    upstream.answer("/v1/embeddings", status(200, &json!({ "data": [large] })));
    for (method, path, body) in [
        ("POST", "/v1/chat/completions", Some(ask("Hi"))),
        ("GET", "/v1/models", None),
        ("POST", "/v1/embeddings", Some(json!({ "input": "Hi" }))),
    ] {
        let script = vec![Toxic::Pass(1), Toxic::Gate(path.into())];
        let proxy = Proxy::before(&server, 4096, script).await;
        let body = body.map(|body| body.to_string());
        let before = server.log().matches("slow_client").count();
        let body = body.as_deref().map(str::as_bytes);
        let mut answer = proxy.client().open(method, path, body).await;
        server.logged("slow_client", before + 1).await;
        proxy.open(path);
        let read = watch("the end", answer.body(Framing::ToEnd)).await.unwrap_or_default();
        assert!(read.len() < 4 << 20, "{path}: {} bytes came", read.len());
    }
}

/// A client that keeps reading, however slowly, is waited for.
#[tokio::test]
async fn h32_a_client_that_reads_slowly_gets_its_whole_answer() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let slow = Toxic::Slow { bytes: 1000, pause: Duration::from_millis(1) };
    let proxy = Proxy::before(&server, 4096, vec![slow]).await;
    let told: Vec<_> = (0..300).map(|number| format!("{number} {}", paragraph())).collect();
    let deltas: Vec<_> = told.iter().map(|piece| text(piece)).collect();
    upstream.round([deltas, end("stop")].concat());

    let answer = proxy.client().streamed(&ask_streamed("Hi")).await;

    assert_eq!(answer.text(), told.concat());
    assert_eq!(answer.finish_reason.as_deref(), Some("stop"));
}

/// However the client leaves, upstream's connection ends.
#[tokio::test]
async fn h33_a_client_may_leave_in_any_way_at_any_point() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let ways = [Toxic::Close, Toxic::Reset, Toxic::HalfClose];
    for (number, way) in ways.into_iter().enumerate() {
        let script = vec![Toxic::Pass(1), Toxic::Gate("leave".into()), way];
        let proxy = Proxy::before(&server, 0, script).await;
        upstream.round(vec![text("I begin "), gate("never")]);
        let _connection = proxy.client().start(&ask_streamed("Hi")).await;
        proxy.reached("leave").await;
        proxy.open("leave");
        upstream.abandoned(number).await;
    }
}

/// A client that has disappeared counts as one that does not read.
#[tokio::test]
async fn h33_a_client_that_freezes_is_let_go_of() {
    let upstream = Upstream::start();
    let server = impatient(&upstream).await;
    let proxy = Proxy::before(&server, 4096, vec![Toxic::Pass(2000), Toxic::Freeze]).await;
    upstream.round(vec![flood(text(&paragraph()))]);

    let _connection = proxy.client().start(&ask_streamed("Hi")).await;

    upstream.abandoned(0).await;
}

/// Nothing more has to be sent: the unread bytes suffice.
#[tokio::test]
async fn h33_a_client_that_freezes_during_a_tool_leaves_no_process() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .free()
        .config("limits.slow_client", r#""100ms""#)
        .config("turns.keep_alive", r#""10m""#)
        .start()
        .await;
    let proxy = Proxy::before(&server, 4096, vec![Toxic::Pass(1), Toxic::Freeze]).await;
    let sleep = call(0, "c1", "Bash", &json!({ "command": "echo up >up; sleep 1000" }));
    let words = text(&"x".repeat(12_000));
    upstream.round([vec![words], sleep, end("tool_calls")].concat());

    let up = server.workspace().join("up");
    mkfifoat(CWD, &up, Mode::RWXU).expect("a pipe");
    let is_up = tokio::task::spawn_blocking(|| std::fs::read_to_string(up));
    let _connection = proxy.client().start(&ask_streamed("Hi")).await;
    watch("the command", is_up).await.expect("no panic").expect("a pipe");

    server.no_children().await;
}
