//! Tests when a call starts: while the model still writes, where that is safe.

use serde_json::json;

use super::answers;
use crate::support::chunks::{call, call_head, call_piece, calls, end, gate, says, text};
use crate::support::client::{ask_streamed, with};
use crate::support::server::Server;
use crate::support::stream::{Event, Stream};
use crate::support::upstream::Upstream;

fn ask_with_events(question: &str) -> serde_json::Value {
    with(ask_streamed(question), json!({ "toolhand": { "progress": "events" } }))
}

/// The types of the progress events so far.
fn told(stream: &Stream) -> Vec<&str> {
    stream.seen().iter().filter_map(|event| event.progress()["type"].as_str()).collect()
}

#[tokio::test]
async fn a_shared_call_finishes_before_the_stream_ends() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let read = call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }));
    upstream.round([read, vec![gate("call is out"), text("I wait.")], end("tool_calls")].concat());
    upstream.round(says("It says needle."));

    let mut stream = server.client().stream(&ask_with_events("Read it.")).await;
    // Nothing has been sent after the last brace: no other call, no `finish_reason`, no text.
    stream.until_progress("tool_end").await;
    upstream.open("call is out");
    let answer = stream.finish().await;

    assert_eq!(answer.text(), "I wait.\n\nIt says needle.");
    assert!(answers(&upstream, 1).await[0].contains("needle"));
}

#[tokio::test]
async fn shared_calls_overlap() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).file("a.txt", "first\n").file("b.txt", "second\n").start().await;
    let first = call(0, "c1", "Read", &json!({ "file_path": "a.txt" }));
    let second = call(1, "c2", "Read", &json!({ "file_path": "b.txt" }));
    let halves = [first, vec![gate("first")], second, vec![gate("second")]].concat();
    upstream.round([halves, end("tool_calls")].concat());
    upstream.round(says("Both."));

    let mut stream = server.client().stream(&ask_with_events("Read both.")).await;
    stream.until_progress("tool_end").await;
    upstream.open("first");
    stream.until_progress("tool_end").await;
    upstream.open("second");
    stream.finish().await;

    let answers = answers(&upstream, 1).await;
    assert!(answers[0].contains("first") && answers[1].contains("second"), "{answers:?}");
}

#[tokio::test]
async fn a_call_that_is_not_closed_does_not_start() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let open = vec![
        call_head(0, "c1", "Read"),
        call_piece(0, r#"{"file_path": "notes.txt""#),
        text("Not yet."),
        gate("open"),
        call_piece(0, "}"),
    ];
    upstream.round([open, end("tool_calls")].concat());
    upstream.round(says("Done."));

    let mut stream = server.client().stream(&ask_with_events("Read it.")).await;
    stream.until_text().await;
    assert!(!told(&stream).contains(&"tool_start"), "{:?}", told(&stream));
    upstream.open("open");
    let answer = stream.finish().await;

    assert_eq!(answer.progress("tool_end").len(), 1);
}

#[tokio::test]
async fn an_exclusive_call_waits_for_the_end_of_the_stream() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let write = call(0, "c1", "Write", &json!({ "file_path": "new.txt", "content": "made" }));
    let read = call(1, "c2", "Read", &json!({ "file_path": "new.txt" }));
    let held = vec![text("Still speaking."), gate("end")];
    upstream.round([write, read, held, end("tool_calls")].concat());
    upstream.round(says("Written."));

    let mut stream = server.client().stream(&ask_with_events("Write it.")).await;
    stream.until_text().await;
    assert!(!server.workspace().join("new.txt").exists());
    assert!(!told(&stream).contains(&"tool_start"), "{:?}", told(&stream));
    upstream.open("end");
    stream.finish().await;

    // The read came after the write, so it read what was written.
    assert_eq!(server.file("new.txt"), "made");
    assert!(answers(&upstream, 1).await[1].contains("made"));
}

#[tokio::test]
async fn a_model_that_never_revises_lets_exclusive_calls_start_when_sealed() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().file("a.txt", "first\n").start().await;
    let write = call(0, "c1", "Write", &json!({ "file_path": "new.txt", "content": "made" }));
    let next = vec![call_head(1, "c2", "Read"), gate("next"), call_piece(1, r#"{"file_path":"#)];
    let rest = vec![call_piece(1, r#""a.txt"}"#)];
    upstream.round([write, next, rest, end("tool_calls")].concat());
    upstream.round(says("Written."));

    let body = with(ask_with_events("Write it."), json!({ "model": "claude-scripted" }));
    let mut stream = server.client().stream(&body).await;
    stream.until_progress("tool_end").await;
    assert_eq!(server.file("new.txt"), "made");
    upstream.open("next");
    stream.finish().await;
}

#[tokio::test]
async fn early_starts_can_be_turned_off() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .tables("[[models]]\nmatch = \"*\"\nstart = \"after_stream\"\n")
        .file("notes.txt", "needle\n")
        .start()
        .await;
    let read = call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }));
    let held = vec![text("Still speaking."), gate("end")];
    upstream.round([read, held, end("tool_calls")].concat());
    upstream.round(says("Done."));

    let mut stream = server.client().stream(&ask_with_events("Read it.")).await;
    stream.until_text().await;
    assert!(!told(&stream).contains(&"tool_start"), "{:?}", told(&stream));
    upstream.open("end");
    let answer = stream.finish().await;

    assert_eq!(answer.progress("tool_end").len(), 1);
}

#[tokio::test]
async fn the_next_round_is_asked_for_when_the_last_answer_is_in() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round([vec![gate("second")], says("Done.")].concat());

    let stream = server.client().stream(&ask_with_events("Read it.")).await;
    upstream.reached("second").await;
    upstream.open("second");
    let answer = stream.finish().await;

    let last = answer.events.iter().rposition(|event| !event.progress().is_null());
    let text = answer.events.iter().position(|event| event.text() == "Done.");
    assert!(last < text, "{:#?}", answer.events);
    assert!(matches!(answer.events.last(), Some(Event::Done)));
}
