//! Tests each kind of silence, and how long upstream asks to wait.

use std::time::{Duration, SystemTime};

use super::{Rounds, body_of, check_refusal, stream_head};
use crate::support::chunks::{call, call_head, call_piece, finish, text};
use crate::support::client::{ask, ask_streamed};
use crate::support::faults::{FaultUpstream, Step, answer};
use crate::support::server::{Builder, Server};
use crate::support::sync;
use crate::support::upstream;

/// A server that waits only 100 ms for one kind of silence.
async fn impatient(upstream: &FaultUpstream, limit: &str) -> Server {
    Builder::new(&upstream.url()).config(limit, r#""100ms""#).start().await
}

#[tokio::test]
async fn u2_no_answer_at_all_is_a_timeout() {
    let (rounds, upstream) = Rounds::start([vec![Step::Hang]]);
    let server = impatient(&upstream, "upstream.first_byte_timeout").await;
    check_refusal(&server.client().chat(&ask_streamed("Hi")).await, 504, "upstream_timeout");
    assert_eq!(rounds.asked(), 1);
}

#[tokio::test]
async fn u2_once_the_head_is_out_a_timeout_is_an_error_event() {
    let (_rounds, upstream) = Rounds::start([vec![Step::Hang]]);
    let builder = Builder::new(&upstream.url())
        .config("upstream.first_byte_timeout", r#""2s""#)
        .config("turns.head_hold", r#""1ms""#);
    let server = builder.start().await;
    let streamed = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!((streamed.code(), streamed.text()), ("upstream_timeout", ""));
}

#[tokio::test]
async fn u3_a_stream_that_falls_silent_is_a_timeout() {
    let begun = [stream_head(), body_of(&[text("I begin ")])].concat();
    let (rounds, upstream) = Rounds::start([
        vec![Step::Bytes(stream_head()), Step::Hang],
        vec![Step::Bytes(begun.clone()), Step::Hang],
        vec![Step::Bytes(begun), Step::Hang],
    ]);
    let server = impatient(&upstream, "upstream.idle_timeout").await;

    check_refusal(&server.client().chat(&ask("Hi")).await, 504, "upstream_timeout");
    check_refusal(&server.client().chat(&ask("Hi")).await, 504, "upstream_timeout");
    let streamed = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!((streamed.code(), streamed.text()), ("upstream_timeout", "I begin "));
    assert_eq!(rounds.asked(), 3);
}

#[tokio::test]
async fn u4_comments_are_no_progress() {
    let pings = Step::Forever(b": ping\n\n".to_vec(), Duration::from_millis(5));
    let empty = Step::Forever(b"event: ping\ndata:\n\n".to_vec(), Duration::from_millis(5));
    let typed = Step::Forever(b"data: {\"type\":\"ping\"}\n\n".to_vec(), Duration::from_millis(5));
    let null = Step::Forever(b"data: {\"choices\":null}\n\n".to_vec(), Duration::from_millis(5));
    for noise in [pings, empty, typed, null] {
        let (_rounds, upstream) = Rounds::start([vec![Step::Bytes(stream_head()), noise]]);
        let server = impatient(&upstream, "upstream.comment_timeout").await;
        check_refusal(&server.client().chat(&ask("Hi")).await, 504, "upstream_timeout");
    }
}

#[tokio::test]
async fn u5_a_wait_is_kept_to_or_handed_on() {
    let in_an_hour = httpdate(SystemTime::now() + Duration::from_secs(3600));
    // (the header, how often upstream is asked, whether the client is told to wait)
    for (header, asked, waits) in [
        ("retry-after: 3600", 1, true),
        ("retry-after: 31", 1, true),
        ("llm_provider-retry-after: 3600", 1, true),
        (&*in_an_hour, 1, true),
        ("retry-after: 0", 3, true),
        ("retry-after: 0.01", 3, true),
        ("retry-after: Sun, 06 Nov 1994 08:49:37 GMT", 3, true),
        ("retry-after: -1", 3, false),
        ("retry-after: soon", 3, false),
        ("retry-after: 1e999", 3, false),
        ("retry-after: ", 3, false),
        ("x-nothing: 1", 3, false),
    ] {
        let limited = answer("429 Too Many Requests", &[header], b"slow down");
        let (rounds, upstream) = Rounds::start(vec![vec![Step::Bytes(limited)]; 3]);
        let server = Builder::new(&upstream.url()).start().await;

        let refusal = server.client().chat(&ask("Hi")).await;

        check_refusal(&refusal, 429, "upstream_rate_limited");
        assert_eq!(rounds.asked(), asked, "{header}");
        let told = refusal.header("retry-after").map(|wait| wait.parse::<u64>().expect("seconds"));
        assert_eq!(told.is_some(), waits, "{header}: {told:?}");
        assert_eq!(told.is_some_and(|wait| wait > 30), asked == 1, "{header}: {told:?}");
    }
}

fn httpdate(time: SystemTime) -> String {
    format!("retry-after: {}", ::httpdate::fmt_http_date(time))
}

#[tokio::test]
async fn u5_a_short_wait_is_waited_for() {
    let limited = answer("429 Too Many Requests", &["retry-after: 1"], b"slow down");
    let (rounds, upstream) = Rounds::start([vec![Step::Bytes(limited)]]);
    let server = Builder::new(&upstream.url()).start().await;

    assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Done.");
    assert_eq!(rounds.asked(), 2);
}

#[tokio::test]
async fn u19_each_piece_behind_the_reason_starts_the_wait_anew() {
    const PAUSE: Duration = Duration::from_millis(700);
    let paused = |pieces: &[upstream::Step]| {
        let each = pieces
            .iter()
            .map(|piece| [Step::Sleep(PAUSE), Step::Bytes(body_of(std::slice::from_ref(piece)))]);
        each.flatten().collect::<Vec<_>>()
    };
    let words: Vec<_> = ["One ", "two ", "three ", "four."].map(text).to_vec();
    let begun = [stream_head(), body_of(&[finish("stop")])].concat();
    let said = [vec![Step::Bytes(begun)], paused(&words), vec![Step::Hang]].concat();
    let pieces = ["{\"file_path\"", ":", "\"notes.txt\"", "}"].map(|piece| call_piece(0, piece));
    let begun =
        [stream_head(), body_of(&[call_head(0, "c1", "Read"), finish("tool_calls")])].concat();
    let called = [vec![Step::Bytes(begun)], paused(&pieces), vec![Step::Hang]].concat();
    let (rounds, upstream) = Rounds::start([said, called]);
    let server = Builder::new(&upstream.url())
        .file("notes.txt", "needle\n")
        .config("upstream.end_timeout", r#""2s""#)
        .start()
        .await;

    let told = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!((told.text(), told.finish_reason.as_deref()), ("One two three four.", Some("stop")));

    assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Done.");
    assert_eq!(rounds.asked(), 3);
    let asked = sync::lock(&rounds.asked);
    let answers = crate::turn::answers_in(&asked[2].json());
    assert!(answers.len() == 1 && answers[0].contains("needle"), "{answers:?}");
}

#[tokio::test]
async fn u19_pings_behind_the_reason_hold_nothing_open() {
    let whole = [stream_head(), body_of(&[text("There."), finish("stop")])].concat();
    let ping = b"data: {\"type\":\"ping\"}\n\n".to_vec();
    let pings = Step::Forever(ping, Duration::from_millis(5));
    let (_rounds, upstream) = Rounds::start([vec![Step::Bytes(whole), pings]]);
    let server = Builder::new(&upstream.url()).start().await;

    let told = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!((told.text(), told.finish_reason.as_deref()), ("There.", Some("stop")));
}

#[tokio::test]
async fn u19_a_missing_done_is_not_waited_for_long() {
    let whole = [stream_head(), body_of(&[text("There."), finish("stop")])].concat();
    let read = call(0, "c1", "Read", &serde_json::json!({ "file_path": "notes.txt" }));
    let calls = [stream_head(), body_of(&[read, vec![finish("tool_calls")]].concat())].concat();
    let (rounds, upstream) = Rounds::start([
        vec![Step::Bytes(whole), Step::Hang],
        vec![Step::Bytes(calls), Step::Forever(b": ping\n\n".to_vec(), Duration::from_millis(5))],
    ]);
    let server = Builder::new(&upstream.url()).file("notes.txt", "needle\n").start().await;

    let told = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!((told.text(), told.finish_reason.as_deref()), ("There.", Some("stop")));
    assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Done.");
    assert_eq!(rounds.asked(), 3);
}
