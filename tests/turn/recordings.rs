//! Plays every recording of `tests/streams` to a server, cut at odd places, and checks what the
//! client gets, what runs, and how often upstream is asked.

use std::collections::BTreeSet;
use std::fs;

use serde_json::json;

use super::answers_in;
use crate::support::chunks::{recording, says};
use crate::support::client::{Client, ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// How a turn over one recording ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// After one round, with this text and `finish_reason`.
    Says(&'static str, &'static str),
    /// Each call's answer contains its text here, and a second round is asked for.
    Calls(&'static [&'static str]),
    /// With an error frame, after the text that had come.
    Breaks(&'static str),
    /// With this status and code, after this many requests.
    Refused(u16, &'static str, usize),
}

use End::{Breaks, Calls, Refused, Says};

const HELLO: End = Says("Hello there. Only words, no tools. 😀", "stop");
/// LiteLLM has ended this cut answer itself, so it cannot be told from a good one.
const CUT_TEXT: End = Says("I begin a sentence and then the line", "stop");
const EMPTY: End = Refused(502, "empty_response", 2);
const FAILED: End = Refused(502, "upstream_error", 3);
const CUT_OFF: End = Calls(&["cut off by the output limit"]);
const SLOPPY: End = Calls(&["one-done", "two-done"]);
const THREE: End = Calls(&["needle", "parallel-done", "notes.txt"]);

/// `(script, most providers, Ollama)`. Ollama sends each call in one piece. So a call that is
/// cut is missing altogether, and the whole one before it is not sealed.
const EXPECTED: &[(&str, End, End)] = &[
    ("text.sse", HELLO, HELLO),
    ("single.sse", Calls(&["single-done"]), Calls(&["single-done"])),
    ("parallel.sse", THREE, THREE),
    ("interleaved.sse", Calls(&["first-done"]), Calls(&["first-done"])),
    ("thinking.sse", Calls(&["needle", "thinking-done"]), Calls(&["needle", "thinking-done"])),
    ("noargs.sse", Calls(&["No background tasks"]), Calls(&["No background tasks"])),
    ("length.sse", CUT_OFF, Says("This becomes too long.", "length")),
    ("filter.sse", Says("I begin to say", "content_filter"), Says("I begin to say", "stop")),
    ("empty.sse", EMPTY, EMPTY),
    ("cut-first.sse", EMPTY, EMPTY),
    ("cut-text.sse", CUT_TEXT, CUT_TEXT),
    ("cut-midstream.sse", Calls(&["cut-done"]), Calls(&["cut-done"])),
    ("die-first.500.json", FAILED, FAILED),
    ("die-text.sse", Breaks("upstream_error"), Breaks("upstream_error")),
    ("die-midstream.sse", Calls(&["die-done"]), Breaks("upstream_error")),
    ("error-first.500.json", FAILED, FAILED),
    ("error-first.400.json", FAILED, Refused(400, "upstream_rejected", 1)),
    // LiteLLM reports Ollama's error as a bad request.
    ("error-midstream.sse", Calls(&["error-done"]), Breaks("upstream_rejected")),
    ("toolong.400.json", TOO_LONG, TOO_LONG),
    ("ratelimit.429.json", LIMITED, LIMITED),
    ("sloppy-concat.sse", SLOPPY, SLOPPY),
    ("sloppy-from1.sse", SLOPPY, SLOPPY),
    ("sloppy-lateid.sse", SLOPPY, SLOPPY),
    ("sloppy-noid.sse", SLOPPY, SLOPPY),
    ("sloppy-stop.sse", SLOPPY, SLOPPY),
];
const TOO_LONG: End = Refused(400, "context_length_exceeded", 1);
const LIMITED: End = Refused(429, "upstream_rate_limited", 3);

#[tokio::test]
async fn every_recording_ends_as_it_should() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().file("notes.txt", "a needle\n").start().await;
    let mut unused: BTreeSet<&str> = EXPECTED.iter().map(|(script, ..)| *script).collect();
    let mut files: Vec<String> = fs::read_dir("tests/streams")
        .expect("the recordings")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| name != "README.md")
        .collect();
    files.sort();

    for file in &files {
        let (provider, script) = file.split_once('-').expect("a provider and a script");
        let row = EXPECTED.iter().find(|(name, ..)| *name == script);
        let (_, others, ollama) = *row.unwrap_or_else(|| panic!("{file} has no expectation"));
        unused.remove(script);
        let expected = if provider == "ollama" { ollama } else { others };
        for size in [0, 7] {
            let model = format!("{file}/{size}");
            check(&upstream, &server.client(), &model, file, size, expected).await;
        }
        let ran = fs::read_to_string(server.workspace().join("ran.txt")).unwrap_or_default();
        let calls = if let Calls(answers) = expected { done(answers) } else { 0 };
        assert_eq!(ran.lines().count(), 2 * calls, "{file} ran each command once: {ran}");
        let _none_ran = fs::remove_file(server.workspace().join("ran.txt"));
        assert!(!server.workspace().join("out").exists(), "{file} wrote what was cut off");
    }
    assert!(unused.is_empty(), "no recording for {unused:?}");
}

/// How many of the answers come from a command.
fn done(answers: &[&str]) -> usize {
    answers.iter().filter(|answer| answer.ends_with("-done")).count()
}

async fn check(
    upstream: &Upstream,
    client: &Client,
    model: &str,
    file: &str,
    size: usize,
    expected: End,
) {
    let body = with(ask_streamed("Go on."), json!({ "model": model }));
    let before = upstream.requests().len();
    let rounds = if let Refused(_, _, rounds) = expected { rounds } else { 1 };
    for _ in 0..rounds {
        upstream.round_of(model, recording(file, size));
    }
    match expected {
        Says(text, reason) => {
            let answer = client.streamed(&body).await;
            assert_eq!(
                (answer.text(), answer.finish_reason.as_deref()),
                (text, Some(reason)),
                "{model}"
            );
        }
        Calls(expected) => {
            upstream.round_of(model, says("Done."));
            let answer = client.streamed(&body).await;
            assert!(answer.text().ends_with("Done."), "{model}: {}", answer.text());
            let told = answers_in(&upstream.request(before + 1).await.json());
            let fits = told.iter().zip(expected).all(|(told, piece)| told.contains(piece));
            assert!(fits && told.len() == expected.len(), "{model}: {told:?}");
        }
        Breaks(code) => {
            let answer = client.streamed(&body).await;
            assert_eq!(answer.code(), code, "{model}");
            assert!(!answer.text().is_empty(), "{model}");
        }
        Refused(status, code, _) => {
            let refusal = client.chat(&body).await;
            assert_eq!(refusal.refusal(), (status, code.to_owned()), "{model}");
        }
    }
    let asked = upstream.requests().len() - before;
    assert_eq!(asked, rounds + usize::from(matches!(expected, Calls(_))), "{model}");
}
