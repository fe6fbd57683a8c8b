//! Tests clients that are slow, endless or too large.

use tokio::io::AsyncWriteExt;

use super::door;
use crate::support::chunks::{end, gate, text};
use crate::support::client::{ask, ask_streamed, rest, with};
use crate::support::server::{KEY, Server};
use crate::support::upstream::Upstream;

#[tokio::test]
async fn h17_a_body_that_is_too_large_is_refused() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("limits.body", r#""64KiB""#).start().await;
    let body = with(ask("Hi"), serde_json::json!({ "pad": "x".repeat(65 << 10) }));

    // Refused early by the announced length; no body is sent.
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {KEY}\r\n\
         Content-Type: application/json\r\nContent-Length: 99999999\r\n\r\n",
        server.address()
    );
    let answers = server.client().raw(head.as_bytes()).await;
    assert_eq!(answers[0].refusal(), (413, "body_too_large".to_owned()));

    // Refused when the body turns out to be too large.
    let head = head.replace("Content-Length: 99999999", "Transfer-Encoding: chunked");
    let body = body.to_string();
    let chunked = format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let answers = server.client().raw(chunked.as_bytes()).await;
    assert_eq!(answers[0].refusal(), (413, "body_too_large".to_owned()));
}

#[tokio::test]
async fn h18_compressed_bodies_are_refused() {
    let (_upstream, server) = door().await;
    for coding in ["gzip", "br", "zstd", "deflate"] {
        let client = server.client().header("content-encoding", coding);
        let refused = client.chat(&ask("Hi")).await;
        assert_eq!(refused.refusal(), (415, "unsupported_content_type".to_owned()), "{coding}");
    }
}

#[tokio::test]
async fn h19_h20_a_head_that_never_ends_is_not_waited_for() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("limits.header_time", r#""50ms""#).start().await;
    for begun in ["", "G", "GET /health HTTP/1.1\r\nHost: a"] {
        let mut stream = server.client().connect().await;
        stream.write_all(begun.as_bytes()).await.expect("a connection");
        // The server closes. If it does not, the test's time-out fails.
        rest(&mut stream).await;
    }
}

#[tokio::test]
async fn h21_a_body_that_never_comes_is_408() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("limits.body_time", r#""50ms""#).start().await;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {KEY}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        server.address()
    );
    let answers = server.client().raw(head.as_bytes()).await;
    assert_eq!(answers[0].refusal(), (408, "request_timeout".to_owned()));
}

#[tokio::test]
async fn h22_an_idle_connection_is_closed() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).config("limits.idle_connection", r#""50ms""#).start().await;
    let kept = server.client().header("connection", "keep-alive");
    let mut stream = server.client().connect().await;
    stream.write_all(&kept.request("GET", "/health", None)).await.expect("a connection");
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

/// Shells commonly allow 1024 open files, a third as many streams.
#[tokio::test]
async fn the_open_files_a_shell_allows_do_not_bound_the_streams() {
    const STREAMS: usize = 60;
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).open_files(64).start().await;
    upstream.otherwise([vec![text("Half "), gate("all"), text("whole")], end("stop")].concat());

    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = server.client().stream(&ask_streamed("Hi")).await;
        stream.until_text().await;
        streams.push(stream);
    }
    upstream.open("all");

    for stream in streams {
        assert_eq!(stream.finish().await.text(), "Half whole");
    }
}
