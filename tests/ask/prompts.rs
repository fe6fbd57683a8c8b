//! Tests where the prompt comes from: the command line, stdin, or both.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::{Ask, Ended, asked};
use crate::support::chunks::says;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::support::watch;

#[tokio::test]
async fn what_is_piped_is_appended_to_the_prompt_or_is_the_prompt() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for (argument, stdin, expected) in [
        ("What is this?", "one\ntwo\n", "What is this?\n\none\ntwo"),
        ("What is this?", "", "What is this?"),
        ("-", "Count.\n", "Count."),
        ("-", "\u{1b}[2J \u{202e}\0", "\u{1b}[2J \u{202e}\0"),
    ] {
        upstream.round(says("Done."));
        let ended = Ask::of(&server, &[argument]).run_with(stdin.as_bytes()).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Done."), "{ended:?}");
        assert_eq!(asked(&upstream).await, expected);
    }
}

#[tokio::test]
async fn a_file_on_stdin_is_appended_too() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("a.txt", "one\n").start().await;
    upstream.round(says("Done."));
    let file = std::fs::File::open(server.workspace().join("a.txt")).unwrap();

    let ended = Ask::of(&server, &["What is this?"]).stdin(file).run().await;

    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(asked(&upstream).await, "What is this?\n\none");
}

#[tokio::test]
async fn stdin_that_stays_open_is_waited_for_and_the_user_is_told() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(says("Done."));
    let mut child = Ask::of(&server, &["What is this?"]).stdin(Stdio::piped()).start();
    let mut stdin = child.stdin.take().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    watch("the note", stderr.read_line(&mut line)).await.unwrap();
    assert!(line.contains("</dev/null leaves it out"), "{line}");

    stdin.write_all(b"one").await.unwrap();
    drop(stdin);
    let ended = Ended::from_output(&child.wait_with_output().await.unwrap());

    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Done."));
    assert_eq!(asked(&upstream).await, "What is this?\n\none");
}

#[tokio::test]
async fn a_prompt_of_ten_megabytes_arrives_whole() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let long = "0123456789".repeat(1 << 20);
    upstream.round(says("Done."));

    let ended = Ask::of(&server, &["-"]).run_with(long.as_bytes()).await;

    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Done."), "{}", ended.stderr);
    assert!(asked(&upstream).await == long);
}

#[tokio::test]
async fn a_prompt_that_the_server_finds_too_large_is_its_error() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("limits.body", r#""64KiB""#).start().await;
    let long = "0123456789".repeat(1 << 20);

    Ask::of(&server, &["-"]).run_with(long.as_bytes()).await.check_failed(1, "body_too_large");
}

#[tokio::test]
async fn a_prompt_that_is_empty_or_no_text_is_a_mistake_of_usage() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for (argument, stdin, reason) in [
        (&b""[..], &b""[..], "the prompt is empty"),
        (b" \n", b"\n", "the prompt is empty"),
        (b"-", b"", "the prompt is empty"),
        (b"-", b"ab\xff", "stdin is not UTF-8 (at byte 2)"),
        (b"Go.", b"\xc3", "stdin is not UTF-8 (at byte 0)"),
        (b"\xff", b"", "the prompt is not UTF-8"),
    ] {
        let mut ask = Ask::of(&server, &[]);
        ask.0.arg(OsStr::from_bytes(argument));
        ask.run_with(stdin).await.check_failed(2, reason);
    }
    assert_eq!(Ask::of(&server, &[]).run().await.code, Some(2));
    assert_eq!(Ask::of(&server, &["--jsn", "Go."]).run().await.code, Some(2));
}

#[tokio::test]
async fn a_prompt_of_more_than_any_server_takes_is_not_read_to_its_end() {
    let endless = std::fs::File::open("/dev/zero").unwrap();
    let upstream = Upstream::start();

    let ended = Ask::at(&upstream.url(), &["-"]).stdin(endless).run().await;

    ended.check_failed(2, "stdin holds more than 67108864 bytes");
}
