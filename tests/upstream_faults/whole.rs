//! Tests faults of upstream's answers to unstreamed requests.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Rounds, check_refusal, peak};
use crate::support::chunks::{says, whole};
use crate::support::client::{Answer, ask, with};
use crate::support::faults::{FaultUpstream, Step, answer, framed, head};
use crate::support::server::{Builder, Server};
use crate::support::sync;

const JSON: &str = "content-type: application/json";

/// No request is sent on a connection that upstream closes meanwhile.
const CLOSE: &str = "connection: close";

fn message(text: &str) -> Value {
    whole(&json!({ "role": "assistant", "content": text }), "stop")
}

fn body(body: &str) -> Vec<Step> {
    vec![Step::Bytes(answer("200 OK", &[JSON, CLOSE], body.as_bytes()))]
}

/// Asks unstreamed, without tools of the server's and with one of the client's.
async fn asked(server: &Server) -> Answer {
    let tool = json!({ "type": "function", "function": { "name": "weather" } });
    let members = json!({ "tools": [tool], "toolhand": { "tools": { "allow": [] } } });
    server.client().chat(&with(ask("Hi"), members)).await
}

async fn server(upstream: &FaultUpstream) -> Server {
    Builder::new(&upstream.url()).config("upstream.backoff", r#"["1ms"]"#).start().await
}

/// Checks the error that this answer is after `times` requests, and that one which comes before
/// a good answer does no harm if it is asked again at all.
async fn check(fault: Vec<Step>, times: usize, status: u16, code: &str) {
    let (rounds, upstream) = Rounds::start(vec![fault.clone(); times]);
    let server = server(&upstream).await;
    check_refusal(&asked(&server).await, status, code);
    assert_eq!(rounds.asked(), times, "{code}");
    if times > 1 {
        sync::lock(&rounds.script).extend([fault, body(&message("There.").to_string())]);
        assert_eq!(asked(&server).await.text(), "There.");
    }
    for request in &*sync::lock(&rounds.asked) {
        assert_eq!(request.json()["stream"], false);
    }
}

#[tokio::test]
async fn u40_a_truncated_answer_is_asked_for_again() {
    let whole = message("A long text that is cut off.").to_string();
    for cut in [1, 10, whole.len() / 2, whole.len() - 1] {
        let begun = &whole.as_bytes()[..cut];
        // Shorter than announced.
        let length = format!("content-length: {}", whole.len());
        let short = [head("200 OK", &[JSON, &length]), begun.to_vec()].concat();
        // Ended properly, but too early.
        let proper = answer("200 OK", &[JSON, CLOSE], begun);
        // Cut between and within chunks.
        let chunked =
            [head("200 OK", &[JSON, "transfer-encoding: chunked"]), framed(begun)].concat();
        let closed = [head("200 OK", &[JSON, "connection: close"]), begun.to_vec()].concat();
        for bytes in [short, proper, chunked, closed] {
            check(vec![Step::Bytes(bytes), Step::Fin], 3, 502, "upstream_error").await;
        }
        let reset = [head("200 OK", &[JSON, &length]), begun.to_vec()].concat();
        check(vec![Step::Bytes(reset), Step::Reset], 3, 502, "upstream_error").await;
    }
    check(body(""), 3, 502, "upstream_error").await;
    check(body(" \r\n\u{feff}"), 3, 502, "upstream_error").await;
}

#[tokio::test]
async fn u40_garbage_is_an_error_and_never_a_success() {
    let with_text = |text: &str| message("TEXT").to_string().replace("\"TEXT\"", text);
    for garbage in [
        with_text("NaN"),
        with_text("\"a\" \"b\""),
        with_text("Infinity"),
        with_text("'x'"),
        message("a").to_string() + "{}",
        "{\"choices\":7}".to_owned(),
        "{\"choices\":[7]}".to_owned(),
        "{\"choices\":[{\"message\":[]}]}".to_owned(),
    ] {
        check(body(&garbage), 3, 502, "upstream_invalid").await;
    }
    // JSON of another kind is not what is asked here; another try would bring the same.
    for other in ["{}", "{\"message\":\"welcome\"}", "{\"choices\":null}"] {
        check(body(other), 1, 502, "upstream_invalid").await;
    }
    let page = answer("200 OK", &["content-type: text/html"], b"<html>Sign in</html>");
    check(vec![Step::Bytes(page)], 1, 502, "upstream_invalid").await;
    let page = answer("200 OK", &[JSON], b" <!doctype html>");
    check(vec![Step::Bytes(page)], 1, 502, "upstream_invalid").await;
    let packed = answer("200 OK", &[JSON, "content-encoding: gzip"], b"\x1f\x8b");
    check(vec![Step::Bytes(packed)], 1, 502, "upstream_invalid").await;
    for nothing in ["[]", "null", "\"text\"", "data: [DONE]"] {
        let (_rounds, upstream) = Rounds::start(vec![body(nothing); 3]);
        let refusal = asked(&server(&upstream).await).await.refusal();
        assert_eq!(refusal.0, 502, "{nothing}: {refusal:?}");
    }
}

#[tokio::test]
async fn u40_errors_and_words_of_failure_are_judged_as_in_a_stream() {
    let error = |code: &str| {
        json!({ "error": { "message": "it broke sk-0123456789abcdef0123", "type": null, "code": code } })
            .to_string()
    };
    check(body(&error("500")), 3, 502, "upstream_error").await;
    check(body(&error("429")), 3, 429, "upstream_rate_limited").await;
    check(body(&error("400")), 1, 400, "upstream_rejected").await;
    check(body(&error("401")), 1, 502, "upstream_auth").await;
    for word in ["error", "request_failed"] {
        let failed = message("Half").to_string().replace("\"stop\"", &format!("{word:?}"));
        check(body(&failed), 3, 502, "upstream_error").await;
    }
    for (status, times, refusal) in [
        ("401 Unauthorized", 1, (502, "upstream_auth")),
        ("403 Forbidden", 1, (502, "upstream_auth")),
        ("404 Not Found", 1, (400, "upstream_rejected")),
        ("500 Internal Server Error", 3, (502, "upstream_error")),
        ("302 Found", 1, (502, "upstream_invalid")),
    ] {
        let told = answer(status, &[JSON, "location: /x"], error("1").as_bytes());
        check(vec![Step::Bytes(told)], times, refusal.0, refusal.1).await;
    }
    let long = json!({ "error": { "message": "maximum context length is 10", "code": "400" } });
    let told = answer("400 Bad Request", &[JSON], long.to_string().as_bytes());
    check(vec![Step::Bytes(told)], 1, 400, "context_length_exceeded").await;
}

#[tokio::test]
async fn u40_calls_that_are_half_open_are_a_cut() {
    let calls = |arguments: &str| {
        let function = json!({ "name": "weather", "arguments": arguments });
        let call = json!({ "index": 0, "id": "c1", "type": "function", "function": function });
        whole(&json!({ "content": null, "tool_calls": [call] }), "tool_calls").to_string()
    };
    check(body(&calls("{\"city\": \"Ro")), 3, 502, "upstream_error").await;

    // Under the output limit it is the client's to judge, as in a stream.
    let cut = calls("{\"city\": \"Ro").replace("\"tool_calls\",\"index\"", "\"length\",\"index\"");
    let cut = cut.replace("\"finish_reason\":\"tool_calls\"", "\"finish_reason\":\"length\"");
    let (rounds, upstream) = Rounds::start([body(&cut)]);
    let told = asked(&server(&upstream).await).await.json();
    assert_eq!(told["choices"][0]["finish_reason"], "length", "{told}");
    assert_eq!(rounds.asked(), 1);
}

#[tokio::test]
async fn u40_an_answer_that_comes_late_or_never_is_a_timeout() {
    let begun =
        [head("200 OK", &[JSON, "content-length: 500"]), b"{\"choices\":".to_vec()].concat();
    let spaces = vec![
        Step::Bytes(head("200 OK", &[JSON, "connection: close"])),
        Step::Forever(b" \n".to_vec(), Duration::from_millis(5)),
    ];
    for (limit, steps) in [
        ("upstream.first_byte_timeout", vec![Step::Hang]),
        ("upstream.idle_timeout", vec![Step::Bytes(head("200 OK", &[JSON])), Step::Hang]),
        ("upstream.idle_timeout", vec![Step::Bytes(begun), Step::Hang]),
        ("upstream.comment_timeout", spaces),
    ] {
        let (rounds, upstream) = Rounds::start([steps]);
        let server = Builder::new(&upstream.url()).config(limit, r#""100ms""#).start().await;
        check_refusal(&asked(&server).await, 504, "upstream_timeout");
        assert_eq!(rounds.asked(), 1, "{limit}");
    }
}

#[tokio::test]
async fn u40_odd_json_is_read_as_it_is_meant() {
    let cases = [
        (r#"{"choices":[{"message":{"content":"a\ud83db"}}]}"#.to_owned(), "a\u{fffd}b"),
        (format!("\u{feff}  {}", message("marked")), "marked"),
        (r#"{"choices":[{"message":{"content":"one","content":"two"}}]}"#.to_owned(), "two"),
        (
            r#"{"choices":[{"message":{"content":"no"}}],"choices":[{"message":{"content":"yes"}}]}"#
                .to_owned(),
            "yes",
        ),
        (r#"{"choices":[{"index":1,"message":{"content":"no"}},{"message":{"content":"yes"}}]}"#.to_owned(), "yes"),
    ];
    for (text, expected) in cases {
        let (rounds, upstream) = Rounds::start([body(&text)]);
        assert_eq!(asked(&server(&upstream).await).await.text(), expected);
        assert_eq!(rounds.asked(), 1);
    }
    // Bytes that are no UTF-8.
    let (_rounds, upstream) = Rounds::start([vec![Step::Bytes(answer(
        "200 OK",
        &["content-type: text/plain"],
        b"{\"choices\":[{\"message\":{\"content\":\"a\xffb\"}}]}",
    ))]]);
    assert_eq!(asked(&server(&upstream).await).await.text(), "a\u{fffd}b");

    // What no parser reads for its depth stays here.
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = format!(
        r#"{{"deep":{deep},"choices":[{{"deep":{deep},"message":{{"content":"x","deep":{deep},"flat":[1]}}}}]}}"#
    );
    let (_rounds, upstream) = Rounds::start([body(&text)]);
    let told = asked(&server(&upstream).await).await;
    let message = told.json()["choices"][0]["message"].clone();
    assert_eq!((&message["content"], &message["flat"]), (&json!("x"), &json!([1])));
    assert!(told.body.len() < 1000, "{} bytes", told.body.len());
}

#[tokio::test]
async fn u40_an_answer_without_an_end_is_given_up_in_time() {
    let flood = vec![
        Step::Bytes(head("200 OK", &[JSON, "connection: close"])),
        Step::Bytes(b"{\"a\":\"".to_vec()),
        Step::Forever(vec![b'x'; 64 << 10], Duration::ZERO),
    ];
    let (rounds, upstream) = Rounds::start([flood]);
    let server = Builder::new(&upstream.url()).config("limits.response", r#""8MiB""#).start().await;
    let before = peak(&server);

    check_refusal(&asked(&server).await, 502, "upstream_invalid");

    assert!(peak(&server) < before + (64 << 20), "{} bytes", peak(&server));
    assert_eq!(rounds.asked(), 1);
}

#[tokio::test]
async fn u40_small_json_that_grows_in_memory_is_bounded() {
    let bombs = [
        format!("{{\"choices\":[{}{{}}]}}", "{},".repeat(2 << 20)),
        format!(
            "{{\"choices\":[{{\"message\":{{\"tool_calls\":[{}{{}}]}}}}]}}",
            "{},".repeat(2 << 20)
        ),
        format!("{{\"choices\":[{{\"message\":{{\"x\":[{}0]}}}}]}}", "0,".repeat(3 << 20)),
        {
            let members: Vec<_> = (0..1_000_000).map(|at| format!("\"{at}\":0")).collect();
            format!("{{{},\"choices\":[]}}", members.join(","))
        },
    ];
    for bomb in bombs {
        let (_rounds, upstream) = Rounds::start(vec![body(&bomb); 3]);
        let builder = Builder::new(&upstream.url()).config("limits.buffers", r#""64MiB""#);
        let server = builder.config("upstream.backoff", r#"["1ms"]"#).start().await;
        let before = peak(&server);
        let refusal = asked(&server).await.refusal();
        assert!(refusal.0 >= 500, "{refusal:?}");
        assert!(peak(&server) < before + (160 << 20), "{} bytes", peak(&server) - before);
    }
}

#[tokio::test]
async fn u40_memory_that_is_not_there_is_an_error_and_is_given_back() {
    let large = message(&"x".repeat(4 << 20)).to_string();
    let (_rounds, upstream) = Rounds::start([body(&large)]);
    let builder = Builder::new(&upstream.url()).config("limits.buffers", r#""4MiB""#);
    let server = builder.start().await;
    check_refusal(&asked(&server).await, 503, "overloaded");

    let (_rounds, upstream) = Rounds::start([body(&message(&"x".repeat(4 << 20)).to_string())]);
    let server = Builder::new(&upstream.url()).start().await;
    assert_eq!(asked(&server).await.text().len(), 4 << 20);
}

#[tokio::test]
async fn u40_an_empty_answer_is_asked_for_once_more() {
    let nothing = [
        json!({ "content": null }),
        json!({ "content": "" }),
        json!({ "content": null, "reasoning_content": "Hm." }),
        json!({ "content": null, "tool_calls": [] }),
    ];
    for empty in nothing {
        let empty = body(&whole(&empty, "stop").to_string());
        check(empty.clone(), 2, 502, "empty_response").await;
    }
    for none in [r#"{"choices":[],"usage":{"prompt_tokens":1}}"#, r#"{"choices":[]}"#] {
        let (rounds, upstream) = Rounds::start(vec![body(none); 2]);
        check_refusal(&asked(&server(&upstream).await).await, 502, "empty_response");
        assert_eq!(rounds.asked(), 2);
    }
    // The limit was used up by reasoning: that is an answer, which says so.
    let cut = whole(&json!({ "content": null, "reasoning_content": "Hm." }), "length");
    let (_rounds, upstream) = Rounds::start([body(&cut.to_string())]);
    let told = asked(&server(&upstream).await).await.json();
    assert_eq!(told["choices"][0]["finish_reason"], "length");
    assert_eq!(told["choices"][0]["message"]["content"], Value::Null);
}

#[tokio::test]
async fn u40_a_fallback_model_is_asked_in_the_same_form() {
    let failed = || vec![Step::Bytes(answer("503 Busy", &[JSON], b"{}"))];
    let (rounds, upstream) = Rounds::start([failed(), body(&message("There.").to_string())]);
    let server = Builder::new(&upstream.url())
        .config("upstream.fallbacks", r#"{ "scripted" = ["second"] }"#)
        .config("upstream.retries", "0")
        .start()
        .await;
    assert_eq!(asked(&server).await.text(), "There.");
    let asked = sync::lock(&rounds.asked);
    let sent = asked[1].json();
    assert_eq!((&sent["model"], &sent["stream"]), (&json!("second"), &json!(false)));
}

#[tokio::test]
async fn u40_a_stream_is_taken_and_judged_as_one() {
    let (_rounds, upstream) = Rounds::start([vec![Step::Bytes(super::stream_of(&says("There.")))]]);
    assert_eq!(asked(&server(&upstream).await).await.text(), "There.");
}
