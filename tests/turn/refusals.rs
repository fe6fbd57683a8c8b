//! Tests refusals that LiteLLM drops from streams: an empty `stop` is asked for once more,
//! unstreamed, and the refusal is read from the provider's own members.

use serde_json::{Value, json};

use super::answers;
use crate::support::chunks::{call, delta, done, end, finish, says, status, text, whole};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::Server;
use crate::support::stream::Event;
use crate::support::upstream::{Step, Upstream};

/// A whole answer of LiteLLM's whose model refuses.
fn refuses(words: &str) -> Vec<Step> {
    let message = json!({ "role": "assistant", "content": null,
        "provider_specific_fields": { "refusal": words } });
    status(200, &whole(&message, "stop"))
}

fn refusal_in(events: &[Event]) -> String {
    events.iter().filter_map(|event| event.delta()["refusal"].as_str()).collect()
}

#[tokio::test]
async fn a_dropped_refusal_is_asked_for_and_told() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for _ in 0..2 {
        upstream.round(end("stop"));
        upstream.round(refuses("I will not."));
    }

    let streamed = server.client().streamed(&ask_streamed("Do it.")).await;
    let whole = server.client().chat(&ask("Do it.")).await.json();

    assert_eq!(refusal_in(&streamed.events), "I will not.");
    assert_eq!((streamed.text(), streamed.finish_reason.as_deref()), ("", Some("stop")));
    let message = &whole["choices"][0]["message"];
    assert_eq!((&message["refusal"], &message["content"]), (&json!("I will not."), &Value::Null));
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert_eq!(whole["usage"]["total_tokens"], 30, "of both requests");
    for (number, is_streamed) in [(0, true), (1, false), (2, true), (3, false)] {
        let sent = upstream.request(number).await.json();
        assert_eq!(sent["stream"], is_streamed, "{number}");
        assert_eq!(sent.get("stream_options").is_some(), is_streamed, "{number}");
        assert!(sent["tools"].is_array(), "the same request");
    }
}

#[tokio::test]
async fn a_refusal_of_an_unstreamed_request_needs_no_second_one() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let body = with(ask("Do it."), json!({ "tool_choice": "none" }));
    upstream.round(refuses("No."));
    let own = json!({ "role": "assistant", "content": "", "refusal": "Never." });
    upstream.round(status(200, &whole(&own, "stop")));

    for expected in ["No.", "Never."] {
        let told = server.client().chat(&body).await.json();
        let message = &told["choices"][0]["message"];
        assert_eq!((&message["refusal"], &message["content"]), (&json!(expected), &Value::Null));
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn only_then_an_answer_is_empty() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for message in [
        json!({ "content": null }),
        json!({ "content": "", "provider_specific_fields": {
        "refusal": "" } }),
    ] {
        upstream.round(end("stop"));
        upstream.round(status(200, &whole(&message, "stop")));
        let refusal = server.client().chat(&ask_streamed("Hi")).await;
        assert_eq!(refusal.refusal(), (502, "empty_response".to_owned()));
    }
    // An answer that did not end in a stop is asked for again as it was.
    upstream.round(vec![finish("tool_calls"), done()]);
    upstream.round(says("There."));
    assert_eq!(server.client().streamed(&ask_streamed("Hi")).await.text(), "There.");
    assert_eq!(upstream.request(5).await.json()["stream"], true);
}

#[tokio::test]
async fn text_or_calls_of_the_second_try_work_as_in_any_round() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let entry = |id: &str| {
        json!({ "index": 0, "id": id, "type": "function", "function": {
        "name": "Read", "arguments": r#"{"file_path":"notes.txt"}"# } })
    };
    let message = json!({ "role": "assistant", "content": "I read.", "reasoning_content": "Hm.",
        "tool_calls": [entry("c1"), entry("c2")] });
    upstream.round(end("stop"));
    upstream.round(status(200, &whole(&message, "tool_calls")));
    upstream.round(end("stop"));
    upstream.round(status(200, &whole(&json!({ "content": "Needle." }), "stop")));

    let told = server.client().streamed(&ask_streamed("Read.")).await;

    assert_eq!(told.text(), "I read.\n\nNeedle.");
    assert!(told.reasoning().contains("Hm."), "{}", told.reasoning());
    assert_eq!(told.finish_reason.as_deref(), Some("stop"));
    assert_eq!(told.toolhand["tool_calls"], 2);
    let told = answers(&upstream, 2).await;
    assert!(told.len() == 2 && told.iter().all(|answer| answer.contains("needle")), "{told:?}");
    let forms: Vec<_> =
        upstream.requests().iter().map(|sent| sent.json()["stream"].clone()).collect();
    assert_eq!(forms, [json!(true), json!(false), json!(true), json!(false)]);
}

#[tokio::test]
async fn a_refusal_in_a_later_round_is_told_too() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let read = call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }));
    upstream.round([vec![text("I read.")], read, end("tool_calls")].concat());
    upstream.round(end("stop"));
    upstream.round(refuses("I will not tell."));

    let told = server.client().streamed(&ask_streamed("Read.")).await;

    assert_eq!((told.text(), &*refusal_in(&told.events)), ("I read.", "I will not tell."));
    assert_eq!(told.finish_reason.as_deref(), Some("stop"));
}

#[tokio::test]
async fn a_second_try_that_fails_is_tried_again_in_the_same_form() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(end("stop"));
    upstream.round(status(503, &json!({ "error": { "message": "busy" } })));
    upstream.round(refuses("No."));

    let told = server.client().streamed(&ask_streamed("Do it.")).await;

    assert_eq!(refusal_in(&told.events), "No.");
    for number in [1, 2] {
        assert_eq!(upstream.request(number).await.json()["stream"], false);
    }
}

#[tokio::test]
async fn a_client_that_leaves_during_the_second_try_ends_it() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("turns.head_hold", r#""1ms""#).start().await;
    let empty = vec![delta(&json!({ "role": "assistant" })), finish("stop"), done()];
    upstream.round(empty);
    upstream.round(vec![Step::Hang]);

    let stream = server.client().stream(&ask_streamed("Hi")).await;
    upstream.request(1).await;
    drop(stream);

    upstream.abandoned(1).await;
}
