//! Tests that a client's disconnect closes the connection to upstream and ends every process.

use std::path::Path;

use futures::future::join_all;
use rustix::fs::Mode;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::chunks::{calls, end, gate, text};
use crate::support::client::{ask, ask_streamed, rest, with};
use crate::support::server::Server;
use crate::support::stream::Stream;
use crate::support::upstream::Upstream;
use crate::support::watch;

#[tokio::test]
async fn upstream_is_closed_when_the_client_leaves() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;

    upstream.round(vec![text("I begin "), gate("never")]);
    let mut stream = server.client().stream(&ask_streamed("Hi")).await;
    stream.until_text().await;
    drop(stream);
    upstream.abandoned(0).await;

    // No token has come, so nothing has been written to the client.
    upstream.round(vec![gate("never")]);
    let client = server.client();
    let body = ask("Hi");
    let waiting = client.chat(&body);
    tokio::select! {
        answer = waiting => panic!("answered: {answer:?}"),
        _request = upstream.request(1) => {}
    }
    upstream.abandoned(1).await;
}

/// hyper detects the end of a connection only while no received bytes wait to be processed.
#[tokio::test]
async fn a_client_that_leaves_with_bytes_unread_is_missed_too() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for (number, (body, further)) in
        [(ask("Hi"), "\r\n"), (ask_streamed("Hi"), "GET /health HT")].into_iter().enumerate()
    {
        upstream.round(vec![gate("never")]);
        let client = server.client();
        let body = body.to_string();
        let mut sent = client.request("POST", "/v1/chat/completions", Some(body.as_bytes()));
        sent.extend_from_slice(further.as_bytes());
        let mut connection = client.connect().await;
        connection.write_all(&sent).await.expect("a server that reads");
        upstream.request(number).await;
        drop(connection);
        upstream.abandoned(number).await;
    }
}

#[tokio::test]
async fn the_process_tree_ends_when_the_client_leaves() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let started = server.workspace().join("started");
    rustix::fs::mkfifoat(rustix::fs::CWD, &started, Mode::RWXU).expect("a pipe");
    let command = "setsid sleep 1000 & (sleep 1000 &) ; echo running > started; sleep 1000";
    upstream.round(calls(&[("c1", "Bash", json!({ "command": command }))]));

    let stream = server.client().stream(&ask_streamed("Wait.")).await;
    assert_eq!(read_pipe(&started).await, "running\n");
    drop(stream);

    server.no_children().await;
}

/// Reads a named pipe to its end.
async fn read_pipe(path: &Path) -> String {
    let path = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(path));
    watch("the command to run", reading).await.expect("no panic").expect("a pipe")
}

/// Waits until the server accepts no further connection.
async fn refuses(server: &Server) {
    while TcpStream::connect(server.address()).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

async fn hundred(upstream: &Upstream, server: &Server) -> Vec<Stream> {
    let steps = [vec![text("So "), gate("half"), text("long.")], end("stop")].concat();
    upstream.otherwise(steps);
    let opening = (0..100).map(|number| {
        let client = server.client();
        async move {
            let mut stream = client.stream(&ask_streamed(&format!("Hi, {number}"))).await;
            stream.until_text().await;
            stream
        }
    });
    join_all(opening).await
}

#[tokio::test]
async fn h35_under_a_hundred_streams_a_stop_lets_them_finish() {
    let upstream = Upstream::start();
    let mut server =
        Server::builder(&upstream).config("turns.shutdown_grace", r#""60s""#).start().await;
    let streams = hundred(&upstream, &server).await;
    let mut idle = server.client().connect().await;
    let kept = server.client().header("connection", "keep-alive");
    idle.write_all(&kept.request("HEAD", "/health", None)).await.expect("a connection");
    // Answered, and so idle, before the server is told to stop.
    let mut status = [0; b"HTTP/1.1 200".len()];
    watch("an answer", idle.read_exact(&mut status)).await.expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 200");

    server.terminate();
    refuses(&server).await;
    // Ends because the server closes the connection.
    rest(&mut idle).await;
    upstream.open("half");

    for stream in streams {
        assert_eq!(stream.finish().await.text(), "So long.");
    }
    assert!(server.stop().expect("a status").success());
}

#[tokio::test]
async fn h35_what_does_not_finish_within_the_grace_is_told_so() {
    let upstream = Upstream::start();
    let mut server =
        Server::builder(&upstream).config("turns.shutdown_grace", r#""50ms""#).start().await;
    let streams = hundred(&upstream, &server).await;
    let client = server.client();
    let asked = with(ask("Hi"), json!({ "model": "held" }));
    upstream.round_of("held", vec![gate("never")]);
    let whole = client.chat(&asked);
    let stop = async {
        upstream.request(100).await;
        server.terminate();
    };

    let (whole, ()) = tokio::join!(whole, stop);

    assert_eq!(whole.refusal(), (503, "shutting_down".to_owned()));
    for stream in streams {
        assert_eq!(stream.finish().await.code(), "shutting_down");
    }
    assert!(server.stop().expect("a status").success());
}

#[tokio::test]
async fn h35_a_second_word_ends_it_at_once_with_all_its_processes() {
    let upstream = Upstream::start();
    let mut server =
        Server::builder(&upstream).free().config("turns.shutdown_grace", r#""600s""#).start().await;
    let started = server.workspace().join("started");
    rustix::fs::mkfifoat(rustix::fs::CWD, &started, Mode::RWXU).expect("a pipe");
    let command = "trap '' TERM; setsid sleep 1000 & (trap '' TERM; sleep 1000 &) ; \
                   echo running > started; sleep 1000";
    upstream.round(calls(&[("c1", "Bash", json!({ "command": command }))]));
    let _stream = server.client().stream(&ask_streamed("Wait.")).await;
    assert_eq!(read_pipe(&started).await, "running\n");

    server.terminate();
    refuses(&server).await;
    server.terminate();

    // `stop` fails the test if a process is left.
    assert_eq!(server.stop().expect("a status").code(), Some(128 + 15));
}

#[tokio::test]
async fn a_server_told_to_stop_ends_its_streams_with_an_error() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).config("turns.shutdown_grace", r#""50ms""#).start().await;
    upstream.round(vec![text("I begin "), gate("never")]);
    let mut stream = server.client().stream(&ask_streamed("Hi")).await;
    stream.until_text().await;

    server.terminate();
    let answer = stream.finish().await;

    assert_eq!(answer.code(), "shutting_down", "{:?}", answer.error);
}
