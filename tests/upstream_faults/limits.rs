//! Tests that endless input is bounded, and that terminal escapes do not reach the log.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Rounds, body_of, check_refusal, peak, stream_head};
use crate::support::chunks::{says, status, text};
use crate::support::client::{ask, ask_streamed};
use crate::support::faults::Step;
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;

#[tokio::test]
async fn u13_a_line_without_an_end_is_given_up_in_time() {
    const MORE_THAN_ANY_LINE: usize = 160 << 20;
    let line =
        Step::Bytes([stream_head(), body_of(&[text("I begin ")]), b"data: ".to_vec()].concat());
    let flood = Step::Forever(vec![b'x'; 1 << 20], Duration::ZERO);
    let (_rounds, upstream) = Rounds::start([vec![line, flood]]);
    let server = Builder::new(&upstream.url()).start().await;
    let before = peak(&server);

    let told = server.client().streamed(&ask_streamed("Hi")).await;

    assert_eq!((told.code(), told.text()), ("upstream_invalid", "I begin "));
    assert!(peak(&server) < before + MORE_THAN_ANY_LINE / 2, "{} bytes", peak(&server));
}

#[tokio::test]
async fn u13_a_response_without_an_end_is_given_up_too() {
    let flood = Step::Forever(b": nothing to say\n\n".repeat(1000), Duration::ZERO);
    let (_rounds, upstream) = Rounds::start([vec![Step::Bytes(stream_head()), flood]]);
    let builder = Builder::new(&upstream.url()).config("limits.response", r#""2MiB""#);
    let server = builder.start().await;
    check_refusal(&server.client().chat(&ask("Hi")).await, 502, "upstream_invalid");
}

#[tokio::test]
async fn u38_an_answer_that_drips_for_ever_has_an_end() {
    let drip = Step::Forever(body_of(&[text("drip ")]), Duration::from_millis(10));
    let (rounds, upstream) = Rounds::start(vec![vec![Step::Bytes(stream_head()), drip]; 2]);
    let builder = Builder::new(&upstream.url())
        .config("turns.max_duration", r#""300ms""#)
        .config("turns.head_hold", r#""1ms""#);
    let server = builder.start().await;

    let told = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!(told.code(), "turn_time_limit");
    assert!(told.text().replace("drip ", "").is_empty(), "{}", told.text());
    check_refusal(&server.client().chat(&ask("Hi")).await, 504, "turn_time_limit");
    assert_eq!(rounds.asked(), 2);
}

/// Colours, a new window title, a link, and a C1 control character.
const ESCAPES: &str = "\u{1b}[31mred\u{1b}]0;title\u{7}\u{1b}]8;;http://x\u{1b}\\\u{9b}2J";

#[tokio::test]
async fn u39_escapes_reach_no_terminal_raw() {
    let upstream = Upstream::start();
    let mut server = Server::builder(&upstream).config("log.level", r#""debug""#).start().await;
    upstream.round(says(ESCAPES));
    let told = server.client().streamed(&ask_streamed("Hi")).await;
    assert_eq!(told.text(), ESCAPES);

    // Once more, to look at the bytes.
    upstream.round(says(ESCAPES));
    let client = server.client();
    let mut stream = client.connect().await;
    let body = ask_streamed("Hi").to_string();
    let request = client.request("POST", "/v1/chat/completions", Some(body.as_bytes()));
    stream.write_all(&request).await.expect("a connection");
    let mut bytes = Vec::new();
    crate::support::watch("the end", stream.read_to_end(&mut bytes)).await.expect("an answer");
    assert!(String::from_utf8_lossy(&bytes).contains("\\u001b[31mred"));
    assert!(!bytes.contains(&0x1b), "{}", String::from_utf8_lossy(&bytes));

    let message = format!("no {ESCAPES}");
    upstream.round(status(400, &json!({ "error": { "message": message, "code": "400" } })));
    let refusal = server.client().chat(&ask("Hi")).await;
    check_refusal(&refusal, 400, "upstream_rejected");
    assert!(!String::from_utf8_lossy(&refusal.body).contains("u001b"), "{:?}", refusal.body);
    let tool = json!({ "tool_calls": [{ "index": 0, "id": ESCAPES, "function": {
        "name": ESCAPES, "arguments": "{}" } }] });
    upstream.round(
        [vec![crate::support::chunks::delta(&tool)], crate::support::chunks::end("stop")].concat(),
    );
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Done.");

    server.stop();
    let log = server.log();
    assert!(log.contains("status 400"), "{log}");
    let raw: Vec<char> = log.chars().filter(|c| c.is_control() && *c != '\n').collect();
    assert!(raw.is_empty(), "{raw:?} in {log}");
}
