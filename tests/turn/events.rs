//! Tests that progress `events` tells of each call in bounded size, and gives its structured
//! result once.

use serde_json::{Value, json};

use crate::support::chunks::{calls, says};
use crate::support::client::{ask_streamed, with};
use crate::support::server::Server;
use crate::support::stream::Transcript;
use crate::support::upstream::Upstream;

fn asked() -> Value {
    with(ask_streamed("Go."), json!({ "toolhand": { "progress": "events" } }))
}

async fn told(upstream: &Upstream, server: &Server, round: &[(&str, &str, Value)]) -> Transcript {
    upstream.round(calls(round));
    upstream.round(says("Done."));
    server.client().streamed(&asked()).await
}

#[tokio::test]
async fn the_main_argument_is_told_in_at_most_400_characters() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for argument in ["é".repeat(5000), "a\n".repeat(3000), "short".to_owned()] {
        let round = [("c1", "Grep", json!({ "pattern": argument }))];
        let answer = told(&upstream, &server, &round).await;
        for kind in ["tool_start", "tool_end"] {
            let events = answer.progress(kind);
            let shown = events[0]["argument"].as_str().expect("text");
            let chars = shown.chars().count();
            assert!((1..=400).contains(&chars), "{chars} characters");
        }
    }
}

/// A file of many short lines that all change: the patch is larger than the file.
#[tokio::test]
async fn what_is_told_to_programs_is_at_most_64_kilobytes() {
    let upstream = Upstream::start();
    let lines = |word: &str| (0..20_000).map(|n| format!("{word} {n}\n")).collect::<String>();
    let server = Server::builder(&upstream).free().file("a.txt", &lines("old")).start().await;
    let read = ("c0", "Read", json!({ "file_path": "a.txt" }));
    let large = ("c1", "Write", json!({ "file_path": "a.txt", "content": lines("new") }));
    let small = ("c2", "Write", json!({ "file_path": "b.txt", "content": "one\n" }));

    let answer = told(&upstream, &server, &[read, large, small]).await;

    let ends = answer.progress("tool_end");
    let of = |id: &str| *ends.iter().find(|end| end["id"] == id).expect("its end");
    assert_eq!(of("c1")["error"], Value::Null, "{}", of("c1"));
    assert_eq!(of("c1")["structured"], Value::Null);
    assert!(of("c1")["structured_bytes"].as_u64() > Some(64_000), "{}", of("c1"));
    assert_eq!(of("c2")["structured"]["type"], "create");
    assert_eq!(
        of("c2")["structured_bytes"].as_u64(),
        Some(of("c2")["structured"].to_string().len() as u64)
    );
    let longest = answer.events.iter().map(|event| event.progress().to_string().len()).max();
    assert!(longest < Some(70_000), "{longest:?}");
}

#[tokio::test]
async fn what_is_told_again_leaves_out_what_was_told_to_programs() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let write = ("c1", "Write", json!({ "file_path": "a.txt", "content": "one\n" }));

    let first = told(&upstream, &server, &[write]).await;
    let again = server.client().header("x-stainless-retry-count", "1").streamed(&asked()).await;

    let (first, again) = (first.progress("tool_end")[0], again.progress("tool_end")[0]);
    assert_eq!(first["structured"]["type"], "create");
    assert_eq!(again["structured"], Value::Null);
    assert_eq!(again["structured_bytes"], first["structured_bytes"]);
    for same in ["id", "tool", "argument", "chars", "error"] {
        assert_eq!(again[same], first[same]);
    }
}
