//! Tests how a stream reports the tools' progress, in each mode.

use serde_json::{Value, json};

use super::answers;
use crate::support::chunks::{calls, gate, says, text};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::{Builder, Server};
use crate::support::stream::{Event, Transcript};
use crate::support::upstream::Upstream;
use crate::support::watch;

/// A turn that reads two files, one of which is missing.
async fn turn(
    builder: Builder,
    upstream: &Upstream,
    body: Value,
    header: Option<&str>,
) -> Transcript {
    let server = builder.file("notes.txt", "needle\n").start().await;
    upstream.round(calls(&[
        ("c1", "Read", json!({ "file_path": "notes.txt" })),
        ("c2", "Read", json!({ "file_path": "missing.txt" })),
    ]));
    upstream.round(says("Done."));
    let mut client = server.client();
    if let Some(mode) = header {
        client = client.header("x-toolhand-progress", mode);
    }
    client.streamed(&body).await
}

#[tokio::test]
async fn progress_is_told_as_reasoning_unless_asked_otherwise() {
    let upstream = Upstream::start();

    let answer = turn(Server::builder(&upstream), &upstream, ask_streamed("Read."), None).await;

    let told = answer.reasoning();
    assert!(told.contains("Read") && told.contains("notes.txt") && told.contains("missing.txt"));
    assert_eq!(answer.text(), "Done.", "never in the content");
    assert!(answer.events.iter().all(|event| event.progress().is_null()));
    let second = upstream.request(1).await;
    let sent = String::from_utf8(second.body).expect("UTF-8");
    assert!(!sent.contains("reasoning_content"), "our own lines never go upstream: {sent}");
}

#[tokio::test]
async fn progress_can_be_told_as_events() {
    let upstream = Upstream::start();
    let asked = with(ask_streamed("Read."), json!({ "toolhand": { "progress": "events" } }));

    // The body's setting takes precedence over the header's.
    let answer = turn(Server::builder(&upstream), &upstream, asked, Some("none")).await;

    assert_eq!(answer.progress("tool_start").len(), 2);
    let ends = answer.progress("tool_end");
    assert_eq!(ends.len(), 2);
    assert_eq!(answer.reasoning(), "");
    for event in answer.events.iter().filter(|event| !event.progress().is_null()) {
        assert_eq!(event.text(), "", "an otherwise empty delta");
    }
}

#[tokio::test]
async fn progress_can_be_silent() {
    let upstream = Upstream::start();

    let answer =
        turn(Server::builder(&upstream), &upstream, ask_streamed("Read."), Some("none")).await;

    assert_eq!(answer.reasoning(), "");
    assert!(answer.events.iter().all(|event| event.progress().is_null()));
}

#[tokio::test]
async fn the_operator_chooses_what_is_the_default() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).config("progress", r#""events""#);

    let answer = turn(builder, &upstream, ask_streamed("Read."), None).await;

    assert_eq!(answer.progress("tool_end").len(), 2);
}

#[tokio::test]
async fn an_answer_in_one_piece_carries_no_progress() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(says("Done."));

    let answer = server.client().chat(&ask("Read.")).await.json();

    assert_eq!(answer["choices"][0]["message"].get("reasoning_content"), None, "{answer:#}");
}

#[tokio::test]
async fn silence_is_filled_with_comments() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("turns.keep_alive", r#""20ms""#).start().await;
    upstream.round(vec![text("I think "), gate("never")]);

    let mut stream = server.client().stream(&ask_streamed("Hi")).await;
    stream.until_text().await;
    for _ in 0..3 {
        stream.until(|event| *event == Event::Comment("keep-alive".to_owned())).await;
    }
}

/// Without the comments, a proxy would take a long tool for a dead connection.
#[tokio::test]
async fn the_silence_of_a_long_tool_is_filled_with_comments() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).free().config("turns.keep_alive", r#""20ms""#).start().await;
    let go = server.workspace().join("go");
    rustix::fs::mkfifoat(rustix::fs::CWD, &go, rustix::fs::Mode::RWXU).expect("a pipe");
    let command = json!({ "command": "read line <go; echo $line" });
    upstream.round(calls(&[("c1", "Bash", command)]));
    upstream.round(says("Done."));

    let mut stream = server.client().stream(&ask_streamed("Wait.")).await;
    for _ in 0..3 {
        stream.until(|event| *event == Event::Comment("keep-alive".to_owned())).await;
    }
    let told = tokio::task::spawn_blocking(move || std::fs::write(go, "gone on\n"));
    watch("the command to go on", told).await.expect("no panic").expect("a pipe");

    assert_eq!(stream.finish().await.text(), "Done.");
    assert_eq!(answers(&upstream, 1).await, ["gone on"]);
}

#[tokio::test]
async fn the_head_is_held_back_no_longer_than_it_may_be() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .config("turns.head_hold", r#""30ms""#)
        .config("turns.keep_alive", r#""20ms""#)
        .start()
        .await;
    upstream.round([vec![gate("thought")], says("Yes.")].concat());

    // The head has been sent although upstream has sent nothing.
    let mut stream = server.client().stream(&ask_streamed("Hi")).await;
    stream.until(|event| matches!(event, Event::Comment(_))).await;
    upstream.open("thought");

    assert_eq!(stream.finish().await.text(), "Yes.");
}

#[tokio::test]
async fn a_failure_after_the_head_is_an_error_frame() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("turns.head_hold", r#""10ms""#).start().await;
    let rejected = crate::support::chunks::status(401, &json!({ "error": { "message": "no" } }));
    upstream.round([vec![gate("head")], rejected].concat());

    let stream = server.client().stream(&ask_streamed("Hi")).await;
    upstream.open("head");

    assert_eq!(stream.finish().await.code(), "upstream_auth");
}

/// A turn that is told to end while one of its tools runs.
async fn interrupted(mode: &str) -> Transcript {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).free().config("turns.shutdown_grace", r#""1ms""#).start().await;
    let started = server.workspace().join("started");
    rustix::fs::mkfifoat(rustix::fs::CWD, &started, rustix::fs::Mode::RWXU).expect("a pipe");
    let command = json!({ "command": "echo running > started; sleep 1000" });
    upstream.round(calls(&[("c1", "Bash", command)]));
    let asked = with(ask_streamed("Wait."), json!({ "toolhand": { "progress": mode } }));
    let stream = server.client().stream(&asked).await;
    let reading = tokio::task::spawn_blocking(move || std::fs::read(started));
    watch("the command to run", reading).await.expect("no panic").expect("a pipe");

    server.terminate();
    let answer = stream.finish().await;

    assert_eq!(answer.code(), "shutting_down");
    answer
}

#[tokio::test]
async fn a_tool_that_is_interrupted_is_told_to_have_ended() {
    let answer = interrupted("events").await;

    let ends = answer.progress("tool_end");
    assert_eq!((answer.progress("tool_start").len(), ends.len()), (1, 1), "{ends:?}");
    assert_eq!((&ends[0]["id"], &ends[0]["error"]), (&json!("c1"), &json!("interrupted")));
}

#[tokio::test]
async fn a_line_that_says_a_tool_began_is_followed_by_one_that_it_ended() {
    let answer = interrupted("reasoning").await;

    assert!(
        answer.reasoning().contains("✗ Bash") && answer.reasoning().ends_with(": interrupted\n")
    );
}
