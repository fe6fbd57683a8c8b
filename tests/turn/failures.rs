//! Tests what the client is told when upstream fails, and what is tried before that.

use serde_json::{Value, json};

use super::{answers, assistant_in};
use crate::support::chunks::{
    call, call_head, call_piece, done, end, error_frame, gate, raw, says, status, text,
};
use crate::support::client::{Answer, ask, ask_streamed, with};
use crate::support::server::{Builder, Server};
use crate::support::upstream::{Step, Upstream};

fn error(message: &str) -> Value {
    json!({ "error": { "message": message, "type": null, "param": null, "code": "1" } })
}

/// The error for an unstreamed request after `rounds` of upstream.
async fn refused(rounds: &[Vec<Step>]) -> Answer {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for round in rounds {
        upstream.round(round.clone());
    }
    let answer = server.client().chat(&ask("Hi")).await;
    assert_eq!(upstream.requests().len(), rounds.len());
    answer
}

#[tokio::test]
async fn a_failure_before_anything_is_tried_again() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(status(503, &error("busy")));
    upstream.round(vec![Step::Reset]);
    upstream.round(says("There."));

    let answer = server.client().streamed(&ask_streamed("Hi")).await;

    assert_eq!(answer.text(), "There.");
    let bodies: Vec<_> = upstream.requests().into_iter().map(|request| request.body).collect();
    assert!(bodies.len() == 3 && bodies.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn the_last_of_three_failures_decides() {
    let busy = status(503, &error("busy"));
    let refusal = refused(&[busy.clone(), busy.clone(), busy.clone()]).await;
    assert_eq!(refusal.refusal(), (502, "upstream_error".to_owned()));

    let limited = vec![Step::Answer {
        status: 429,
        headers: vec![("llm_provider-retry-after".to_owned(), "0".to_owned())],
        body: error("slow down").to_string().into_bytes(),
    }];
    let refusal = refused(&[busy.clone(), busy.clone(), limited]).await;
    assert_eq!(refusal.refusal(), (429, "upstream_rate_limited".to_owned()));
    assert!(refusal.header("retry-after").is_some(), "{:?}", refusal.head);

    let refusal = refused(&[busy.clone(), busy, vec![Step::Close]]).await;
    assert_eq!(refusal.refusal().0, 502);
}

#[tokio::test]
async fn refusals_of_upstream_have_codes_of_their_own() {
    let secret = "sk-verysecretverysecretverysecret12";
    for (code, message, expected) in [
        (401, "Authentication Error", (502, "upstream_auth")),
        (403, "forbidden", (502, "upstream_auth")),
        (400, "temperature is too high", (400, "upstream_rejected")),
        (422, "temperature is too high", (400, "upstream_rejected")),
        (404, "no such model", (404, "model_not_found")),
        (302, "elsewhere", (502, "upstream_invalid")),
    ] {
        let message = format!("{message} {secret}");
        let refusal = refused(&[status(code, &error(&message))]).await;
        assert_eq!(refusal.refusal(), (expected.0, expected.1.to_owned()), "{code}");
        let told = String::from_utf8_lossy(&refusal.body).into_owned();
        assert!(!told.contains(secret), "{told}");
        // A 4xx about the request itself keeps upstream's message.
        assert_eq!(expected.1 == "upstream_rejected", told.contains("is too high"), "{told}");
    }
}

#[tokio::test]
async fn what_is_no_completion_is_said_to_be_none() {
    let page = vec![Step::Answer {
        status: 200,
        headers: vec![("content-type".to_owned(), "text/html".to_owned())],
        body: b"<html>Welcome</html>".to_vec(),
    }];
    let refusal = refused(&[page]).await;
    assert_eq!(refusal.refusal(), (502, "upstream_invalid".to_owned()));
}

#[tokio::test]
async fn what_is_no_http_is_an_upstream_that_fails() {
    let noise = vec![Step::Garbage(b"\x00\x01 no HTTP at all\r\n\r\n".to_vec()), Step::Close];
    let refusal = refused(&[noise.clone(), noise.clone(), noise]).await;
    assert_eq!(refusal.refusal(), (502, "upstream_error".to_owned()));
}

#[tokio::test]
async fn silence_is_not_waited_for_without_end() {
    let head = Step::Head {
        status: 200,
        headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
    };
    for (key, round) in [
        ("upstream.first_byte_timeout", vec![Step::Hang]),
        ("upstream.idle_timeout", vec![head.clone(), Step::Hang]),
        ("upstream.idle_timeout", vec![text("I begin "), Step::Hang]),
        ("upstream.comment_timeout", vec![head, raw(": still here\n\n"), Step::Hang]),
    ] {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream).config(key, r#""50ms""#).start().await;
        upstream.round(round);

        let refusal = server.client().chat(&ask("Hi")).await;

        assert_eq!(refusal.refusal(), (504, "upstream_timeout".to_owned()), "{key}");
        upstream.abandoned(0).await;
    }
}

#[tokio::test]
async fn a_whole_answer_where_a_stream_was_asked_for_is_taken() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let message = json!({ "role": "assistant", "content": "In one piece." });
    upstream.round(status(
        200,
        &json!({
            "id": "x", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
        }),
    ));

    let answer = server.client().streamed(&ask_streamed("Hi")).await;

    assert_eq!(answer.text(), "In one piece.");
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_named() {
    let gone = Upstream::start();
    let url = gone.url();
    drop(gone);
    let server = Builder::new(&url).start().await;

    let ready = server.client().key(None).get("/ready").await;
    let refusal = server.client().chat(&ask("Hi")).await;

    assert_eq!(ready.status(), 503);
    assert_eq!(refusal.refusal(), (502, "upstream_unavailable".to_owned()));
    assert!(String::from_utf8_lossy(&refusal.body).contains("upstream.url"), "{refusal:?}");
}

#[tokio::test]
async fn a_stream_that_dies_after_text_ends_with_an_error() {
    for (death, code) in [
        (vec![error_frame("the provider broke")], "upstream_error"),
        (vec![Step::Close], "stream_died"),
        (vec![Step::Reset], "stream_died"),
        (vec![], "stream_died"),
        (vec![raw("data: {\"choices\": garbage\n\n")], "upstream_invalid"),
        (vec![call_head(0, "c1", "Read"), call_piece(0, "{\"file"), done()], "stream_died"),
    ] {
        let upstream = Upstream::start();
        let server = Server::start(&upstream).await;
        upstream.round([vec![text("I begin "), gate("text")], death].concat());

        let mut stream = server.client().stream(&ask_streamed("Hi")).await;
        assert_eq!(stream.until_text().await, "I begin ");
        upstream.open("text");
        let answer = stream.finish().await;

        assert_eq!(answer.code(), code);
        assert_eq!(answer.text(), "I begin ");
        assert_eq!(upstream.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_empty_answer_is_asked_for_once_more() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(end("stop"));
    upstream.round(says("There."));
    assert_eq!(server.client().streamed(&ask_streamed("Hi")).await.text(), "There.");

    upstream.round(end("stop"));
    upstream.round(end("stop"));
    let refusal = server.client().chat(&ask_streamed("Hi")).await;
    assert_eq!(refusal.refusal(), (502, "empty_response".to_owned()));
}

#[tokio::test]
async fn an_empty_answer_after_tools_and_text_is_an_end() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let read = call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }));
    upstream.round([vec![text("It is needle.")], read, end("tool_calls")].concat());
    upstream.round(end("stop"));
    upstream.round(end("stop"));

    let answer = server.client().streamed(&ask_streamed("Hi")).await;

    assert_eq!(answer.finish_reason.as_deref(), Some("stop"));
    assert_eq!(answer.text(), "It is needle.");
}

/// A round that dies after its first call was sealed and half of its second call came.
fn dying() -> Vec<Step> {
    let bash = call(0, "c1", "Bash", &json!({ "command": "echo once >> ran.txt" }));
    let half = vec![call_head(1, "c2", "Read"), call_piece(1, "{\"file_path"), error_frame("dead")];
    [vec![text("Working.")], bash, half].concat()
}

#[tokio::test]
async fn a_round_that_dies_after_a_sealed_call_goes_on_with_its_answer() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    upstream.round(dying());
    upstream.round(says("Done."));

    let answer = server.client().streamed(&ask_streamed("Do it.")).await;

    assert_eq!(answer.text(), "Working.\n\nDone.");
    assert_eq!(server.file("ran.txt"), "once\n");
    let second = upstream.request(1).await.json();
    let asked = assistant_in(&second);
    assert_eq!(asked["content"], "Working.");
    assert_eq!(asked["tool_calls"].as_array().map(Vec::len), Some(1), "{asked}");
    assert_eq!(answers(&upstream, 1).await.len(), 1);
}

#[tokio::test]
async fn a_second_death_in_a_row_ends_the_turn() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    upstream.round(dying());
    upstream.round(dying());

    let answer = server.client().streamed(&ask_streamed("Do it.")).await;

    assert_eq!(
        answer.error.as_ref().map(|error| error["type"].clone()),
        Some("upstream_error".into())
    );
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn once_a_tool_has_run_the_client_is_not_to_try_again() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    upstream.round(dying());
    for _ in 0..3 {
        upstream.round(status(503, &error("busy")));
    }

    let refusal = server.client().chat(&ask("Do it.")).await;

    assert_eq!(refusal.refusal(), (400, "upstream_error".to_owned()));
    assert_eq!(refusal.header("x-should-retry"), Some("false"), "{:?}", refusal.head);
}

fn weather() -> Value {
    let tool = json!({ "type": "function", "function": { "name": "weather" } });
    with(ask_streamed("Weather?"), json!({ "tools": [tool] }))
}

#[tokio::test]
async fn a_call_of_the_client_of_which_nothing_was_sent_is_asked_for_again() {
    for death in [vec![error_frame("dead")], vec![Step::Reset], vec![Step::Close]] {
        let upstream = Upstream::start();
        let server = Server::start(&upstream).await;
        upstream.round([vec![call_head(0, "c1", "weather")], death].concat());
        upstream.round([call(0, "c2", "weather", &json!({})), end("tool_calls")].concat());

        let answer = server.client().streamed(&weather()).await;

        assert_eq!(answer.finish_reason.as_deref(), Some("tool_calls"));
        assert_eq!(answer.message["tool_calls"][0]["id"], "c2");
        assert_eq!(upstream.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_call_of_the_client_of_which_something_was_sent_ends_with_an_error_at_once() {
    for ours in [vec![], call(0, "c0", "Bash", &json!({ "command": "echo once >> ran.txt" }))] {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream).free().start().await;
        let theirs =
            vec![call_head(1, "c1", "weather"), call_piece(1, r#"{"city"#), error_frame("dead")];
        upstream.round([ours, theirs].concat());

        let answer = server.client().streamed(&weather()).await;

        assert_eq!(answer.code(), "upstream_error");
        assert_eq!(upstream.requests().len(), 1);
        assert!(!server.workspace().join("ran.txt").exists(), "what waited is not run for nothing");
    }
}

#[tokio::test]
async fn a_round_that_dies_in_a_clients_head_goes_on_from_the_servers_calls() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let ours = call(0, "c0", "Bash", &json!({ "command": "echo once >> ran.txt" }));
    upstream.round([ours, vec![call_head(1, "c1", "weather"), error_frame("dead")]].concat());
    upstream.round([call(0, "c2", "weather", &json!({})), end("tool_calls")].concat());

    let answer = server.client().streamed(&weather()).await;

    assert_eq!(answer.message["tool_calls"][0]["id"], "c2");
    assert_eq!(server.file("ran.txt"), "once\n");
    let second = upstream.request(1).await.json();
    assert_eq!(assistant_in(&second)["tool_calls"].as_array().map(Vec::len), Some(1), "{second:#}");
}
