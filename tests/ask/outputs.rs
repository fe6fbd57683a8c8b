//! Tests what goes to stdout and to stderr, and with which status the program ends.

use std::fs::OpenOptions;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use super::{Ask, Ended, asked, read_exactly};
use crate::support::chunks::{
    calls, delta, done, end, error_frame, finish, gate, says, status, text,
};
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::support::watch;

#[tokio::test]
async fn the_answer_is_on_stdout_while_the_model_still_speaks() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round([vec![text("one "), gate("half"), text("two\n")], end("stop")].concat());

    let mut child = Ask::of(&server, &["-m", "scripted", "Count."]).start();
    assert_eq!(read_exactly(&mut child, 4).await, "one ");
    upstream.open("half");
    let ended = Ended::from_output(&child.wait_with_output().await.unwrap());

    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "two\n", ""));
    assert_eq!(asked(&upstream).await, "Count.");
    assert_eq!(upstream.request(0).await.json()["model"], "scripted");
}

#[tokio::test]
async fn a_pipe_gets_the_bytes_as_they_are_and_stderr_plain_lines() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("a.txt", "one\n").start().await;
    let script = || {
        upstream.round(calls(&[
            ("c1", "Read", json!({ "file_path": "a.txt" })),
            ("c2", "Read", json!({ "file_path": "b\u{1b}[2J\u{202e}.txt" })),
        ]));
        upstream.round(says("\u{1b}[31mred\u{7}\r\n\u{9b}2J\u{202e}no end"));
    };

    script();
    let ended = Ask::of(&server, &["Read it."]).run().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, "\u{1b}[31mred\u{7}\r\n\u{9b}2J\u{202e}no end");
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert!(lines.contains(&"→ Read a.txt"), "{lines:#?}");
    assert!(lines.contains(&r"→ Read b\x1b[2J\u{202e}.txt"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("✓ Read a.txt (")), "{lines:#?}");
    assert!(
        lines.iter().any(|line| line.starts_with(r"✗ Read b\x1b[2J\u{202e}.txt: ")),
        "{lines:#?}"
    );
    assert_eq!(lines.len(), 4, "{lines:#?}");

    script();
    let ended = Ask::of(&server, &["--quiet", "Read it."]).run().await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn the_status_tells_how_the_answer_ended() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("upstream.retries", "0").start().await;
    let refusal = delta(&json!({ "refusal": "I will\n not." }));
    for (round, code, stdout, stderr) in [
        (says("All."), 0, "All.", ""),
        ([vec![text("Half")], end("length")].concat(), 4, "Half", "a limit cut the answer off"),
        ([vec![text("Half")], end("content_filter")].concat(), 5, "Half", "a content filter"),
        ([vec![refusal], end("stop")].concat(), 5, "", r"the model refused: I will\n not."),
        (vec![text("Half"), error_frame("broken")], 1, "Half", "the server answered with an error"),
    ] {
        upstream.round(round);
        let ended = Ask::of(&server, &["Go."]).run().await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), stdout), "{ended:?}");
        assert!(ended.stderr.contains(stderr), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), usize::from(code != 0), "{ended:?}");
    }
}

#[tokio::test]
async fn a_turn_that_reaches_its_limit_of_rounds_is_cut_off() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .config("turns.max_rounds", "1")
        .file("a.txt", "one\n")
        .start()
        .await;
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "a.txt" }))]));

    let ended = Ask::of(&server, &["-q", "Read it."]).run().await;

    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stderr.contains("a limit cut the answer off"), "{ended:?}");
}

#[tokio::test]
async fn json_is_the_answer_as_it_came_or_an_error_object() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(says("All."));
    let ended = Ask::of(&server, &["--json", "Go."]).run().await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "All.");
    assert_eq!(answer["toolhand"]["rounds"], 1);

    upstream.round([vec![text("Half")], end("length")].concat());
    let ended = Ask::of(&server, &["--json", "Go."]).run().await;
    assert_eq!(ended.code, Some(4));
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert!(ended.stderr.contains("a limit cut the answer off"), "{ended:?}");

    upstream.round(status(404, &json!({ "error": { "message": "no such model" } })));
    let ended = Ask::of(&server, &["--json", "-m", "other", "Go."]).run().await;
    check_error(&ended, 1, "model_not_found");

    let ended = Ask::of(&server, &["--json", " "]).run().await;
    check_error(&ended, 2, "usage");
}

#[track_caller]
pub(super) fn check_error(ended: &Ended, status: i32, code: &str) {
    assert_eq!(ended.code, Some(status), "{ended:?}");
    let object: Value = serde_json::from_str(&ended.stdout).expect("an error object");
    assert_eq!(object["error"]["code"], code, "{ended:?}");
    assert!(object["error"]["message"].is_string(), "{ended:?}");
    assert!(ended.stderr.starts_with("toolhand: "), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
}

#[tokio::test]
async fn a_reader_that_leaves_ends_it_quietly_and_cancels_the_turn() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round([vec![text("one\n"), gate("more")], says("two")].concat());

    let mut child = Ask::of(&server, &["Count."]).start();
    assert_eq!(read_exactly(&mut child, 4).await, "one\n");
    // The model says nothing more.
    upstream.reached("more").await;
    drop(child.stdout.take());
    let ended = Ended::from_output(&watch("its end", child.wait_with_output()).await.unwrap());

    assert_eq!((ended.code, ended.stderr.as_str()), (Some(141), ""));
    upstream.abandoned(0).await;
}

#[tokio::test]
async fn a_full_disk_behind_stdout_is_an_error_and_cancels_the_turn() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(vec![text("one"), gate("never")]);
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();

    let mut ask = Ask::of(&server, &["Count."]);
    ask.0.stdout(full());
    let ended = ask.run().await;
    ended.check_failed(1, "the answer cannot be written: No space left on device");
    upstream.abandoned(0).await;

    upstream.round(says("one"));
    let mut ask = Ask::of(&server, &["--json", "Count."]);
    ask.0.stdout(full());
    ask.run().await.check_failed(1, "No space left on device");
}

#[tokio::test]
async fn stdout_that_does_not_block_gets_a_long_answer_whole() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    // More than a pipe holds.
    let long = "word ".repeat(100_000);
    upstream.round(says(&long));
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();

    let mut ask = Ask::of(&server, &["Talk."]);
    ask.0.stdout(Stdio::from(writer));
    let mut child = ask.start();
    let reading = tokio::task::spawn_blocking(move || {
        std::io::read_to_string(std::fs::File::from(reader)).unwrap()
    });
    let status = watch("its end", child.wait()).await.unwrap();

    assert!(status.success());
    assert_eq!(watch("the answer", reading).await.unwrap(), long);
}

#[tokio::test]
async fn a_signal_cancels_the_turn_even_if_nobody_reads() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let number = upstream.requests().len();
        let long = "word ".repeat(100_000);
        upstream.round(vec![text("one"), text(&long), gate("never")]);
        let mut child = Ask::of(&server, &["Talk."]).start();
        assert_eq!(read_exactly(&mut child, 3).await, "one");

        let process = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
        kill_process(process, signal).unwrap();
        // The pipe is full: nothing reads it until the program has ended.
        let status = watch("its end", child.wait()).await.unwrap();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).await.unwrap();

        assert_eq!(status.code(), Some(code));
        assert_eq!(stderr, "toolhand: interrupted; the turn is cancelled\n");
        upstream.abandoned(number).await;
    }
}

#[tokio::test]
async fn an_answer_whose_done_is_missing_is_whole() {
    let upstream = Upstream::start();
    upstream.round(vec![text("All."), finish("stop")]);
    upstream.round(vec![text("All."), finish("stop"), gate("never"), done()]);
    for _ in 0..2 {
        let ended = Ask::at(&upstream.url(), &["-m", "m", "Go."]).run().await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "All."), "{ended:?}");
    }
}
