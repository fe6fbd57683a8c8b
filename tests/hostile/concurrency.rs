//! Tests many peers at once: unauthenticated connections, all connections, turns of one
//! key.

use std::net::SocketAddr;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::chunks::{end, gate, says, text};
use crate::support::client::{ask, ask_streamed, rest, with};
use crate::support::resources;
use crate::support::server::{Builder, Server};
use crate::support::upstream::{Step, Upstream};
use crate::support::watch;

/// Connects from another loopback address, as an unauthenticated peer.
async fn unauthenticated(server: &Server) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 2], 0))).expect("an address of loopback");
    socket.connect(server.address()).await.expect("the server listens")
}

/// Sends `bytes` and returns the head of the answer.
async fn answer(stream: &mut TcpStream, bytes: &[u8]) -> String {
    stream.write_all(bytes).await.expect("an open connection");
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let byte = watch("an answer", stream.read_u8()).await;
        head.push(byte.expect("a whole head"));
    }
    String::from_utf8(head).expect("ASCII").to_ascii_lowercase()
}

/// A request that keeps its connection, and whose answer has no body.
fn kept(server: &Server, path: &str) -> Vec<u8> {
    let client = server.client().header("connection", "keep-alive");
    client.request("HEAD", path, None)
}

fn nobody(server: &Server, path: &str) -> Vec<u8> {
    let client = server.client().key(None).header("connection", "keep-alive");
    client.request("HEAD", path, None)
}

/// The short deadline of probationary connections is a twentieth of `limits.header_time`.
fn crowded(upstream: &Upstream, unauthenticated: usize) -> Builder {
    Server::builder(upstream)
        .config("limits.header_time", r#""20s""#)
        .config("limits.unauthenticated_per_peer", &unauthenticated.to_string())
}

#[tokio::test]
async fn h23_silent_unauthenticated_connections_are_few() {
    let upstream = Upstream::start();
    let server = crowded(&upstream, 4).start().await;
    let mut running = {
        upstream
            .round([vec![text("I begin "), gate("half"), text("and end.")], end("stop")].concat());
        server.client().stream(&ask_streamed("Hi")).await
    };
    running.until_text().await;
    let before = resources::open_files(&server);
    let mut connections = Vec::new();
    for _ in 0..300 {
        connections.push(unauthenticated(&server).await);
    }

    let closing = connections[4..].iter_mut().map(rest);
    assert!(join_all(closing).await.iter().all(Vec::is_empty));

    for connection in &mut connections[..4] {
        for _ in 0..2 {
            assert!(answer(connection, &nobody(&server, "/health")).await.contains(" 200 "));
        }
    }
    let after = resources::open_files(&server);
    assert!(after <= before + 4 * 2, "{before} files, then {after}");
    upstream.open("half");
    assert_eq!(running.finish().await.text(), "I begin and end.");
}

#[tokio::test]
async fn h23_a_probationary_connection_has_one_answer() {
    let upstream = Upstream::start();
    let server = crowded(&upstream, 1).start().await;
    let mut silent = unauthenticated(&server).await;
    for (request, status) in
        [(nobody(&server, "/health"), " 200 "), (nobody(&server, "/v1/models"), " 401 ")]
    {
        let mut connection = unauthenticated(&server).await;
        let told = answer(&mut connection, &request).await;
        assert!(told.contains(status) && told.contains("connection: close"), "{told}");
        assert!(rest(&mut connection).await.is_empty());
    }

    // A valid key lets it and all other connections of its peer stay.
    let mut known = unauthenticated(&server).await;
    let mut next = unauthenticated(&server).await;
    for connection in [&mut known, &mut next, &mut silent] {
        for _ in 0..2 {
            let told = answer(connection, &kept(&server, "/toolhand/v1/tools")).await;
            assert!(told.contains(" 200 ") && !told.contains("connection: close"), "{told}");
        }
    }
}

#[tokio::test]
async fn h23_a_peer_with_a_key_is_not_bound_by_connections() {
    let upstream = Upstream::start();
    let server = crowded(&upstream, 2).start().await;
    let mut connections = Vec::new();
    for _ in 0..40 {
        connections.push(server.client().connect().await);
    }

    // All of them send requests at the same time, and each must present a key itself.
    let asking = connections.iter_mut().map(|connection| {
        let request = kept(&server, "/toolhand/v1/tools");
        async move {
            let first = answer(connection, &request).await;
            let second = answer(connection, &request).await;
            [first, second]
        }
    });

    for told in join_all(asking).await.concat() {
        assert!(told.contains(" 200 "), "{told}");
    }
}

#[tokio::test]
async fn h23_connections_beyond_all_are_told_so() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("limits.connections", "2").start().await;
    for model in ["one", "two"] {
        upstream.round_of(
            model,
            [vec![text("So "), gate("half"), text("long.")], end("stop")].concat(),
        );
    }
    let client = server.client();
    let mut streams = Vec::new();
    for model in ["one", "two"] {
        let body = with(ask_streamed("Hi"), json!({ "model": model }));
        let mut stream = client.stream(&body).await;
        stream.until_text().await;
        streams.push(stream);
    }

    let refused = client.chat(&ask("Hi")).await;
    assert_eq!(refused.refusal(), (503, "overloaded".to_owned()));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.header("connection"), Some("close"));
    assert_eq!(client.get("/health").await.status(), 200);
    assert_eq!(client.get("/ready").await.status(), 200);

    upstream.open("half");
    for stream in streams {
        assert_eq!(stream.finish().await.text(), "So long.");
    }
    let room = async { while client.get("/toolhand/v1/tools").await.status() != 200 {} };
    watch("the streams' connections to end", room).await;
}

fn held() -> Vec<Step> {
    [vec![text("I begin "), gate("half")], end("stop")].concat()
}

#[tokio::test]
async fn turns_of_a_key_are_bounded() {
    for (limits, arguments) in [
        ([("limits.runs_per_key", "1"), ("limits.runs", "9")], &[][..]),
        ([("limits.runs_per_key", "9"), ("limits.runs", "1")], &[]),
        // Without keys, all clients share one limit.
        ([("limits.runs_per_key", "1"), ("limits.runs", "9")], &["--no-auth"]),
    ] {
        let upstream = Upstream::start();
        let mut builder = Server::builder(&upstream);
        for (key, value) in limits {
            builder = builder.config(key, value);
        }
        for argument in arguments {
            builder = builder.argument(argument);
        }
        let server = builder.start().await;
        bounded(&upstream, &server).await;
    }
}

/// Checks that one turn runs at a time, however the one before has ended.
async fn bounded(upstream: &Upstream, server: &Server) {
    let client = server.client();
    let refused = |body: Value| {
        let client = client.clone();
        async move {
            let refused = client.chat(&body).await;
            assert_eq!(refused.refusal(), (429, "too_many_runs".to_owned()));
            let wait = refused.header("retry-after").and_then(|wait| wait.parse::<u64>().ok());
            assert!(wait.is_some_and(|wait| wait > 0), "{:?}", refused.head);
        }
    };
    // The turn succeeds.
    upstream.round(held());
    let mut stream = client.stream(&ask_streamed("Hi")).await;
    stream.until_text().await;
    refused(ask("Hi")).await;
    refused(ask_streamed("Hi")).await;
    upstream.open("half");
    stream.finish().await;

    // Its client leaves.
    upstream.round(vec![text("I begin "), gate("never")]);
    let mut stream = client.stream(&ask_streamed("Hi")).await;
    stream.until_text().await;
    refused(ask("Hi")).await;
    drop(stream);
    upstream.abandoned(1).await;

    // It fails, during its stream and before it.
    upstream.round(vec![text("I begin "), Step::Close]);
    client.streamed(&ask_streamed("Hi")).await;
    upstream.round(crate::support::chunks::status(401, &json!({ "error": { "message": "no" } })));
    assert_eq!(client.chat(&ask("Hi")).await.refusal().1, "upstream_auth");
    // It is refused before it begins.
    let plan = json!({ "toolhand": { "mode": "bypassPermissions" } });
    assert_eq!(client.chat(&with(ask("Hi"), plan)).await.status(), 403);

    upstream.round(says("Still here."));
    assert_eq!(client.chat(&ask("Hi")).await.text(), "Still here.");
}
