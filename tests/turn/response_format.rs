//! Tests requests with a `response_format` other than text: only the last round's text is
//! `content`, so that it can be parsed.

use serde_json::{Value, json};

use crate::support::chunks::{
    call, delta, done, end, error_frame, finish, gate, reasoning, says, text,
};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::Server;
use crate::support::stream::Event;
use crate::support::upstream::{Step, Upstream};

/// As an SDK's `parse()` sends it.
fn schema() -> Value {
    json!({ "type": "json_schema", "json_schema": { "name": "Found", "strict": true, "schema": {
        "type": "object", "properties": { "found": { "type": "string" } }, "required": ["found"],
        "additionalProperties": false,
    }}})
}

fn formatted(body: Value, format: &Value) -> Value {
    with(body, json!({ "response_format": format }))
}

const JSON: &str = r#"{"found": "needle"}"#;

async fn server(upstream: &Upstream) -> Server {
    Server::builder(upstream).file("notes.txt", "needle\n").start().await
}

fn read() -> Vec<Step> {
    call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }))
}

/// The model speaks before its call, then answers with JSON.
fn script(upstream: &Upstream) {
    upstream.round([vec![text("I will "), text("read.")], read(), end("tool_calls")].concat());
    upstream.round([vec![text(&JSON[..5]), text(&JSON[5..])], end("stop")].concat());
}

#[tokio::test]
async fn what_was_said_before_a_call_does_not_break_parsing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    for format in [schema(), json!({ "type": "json_object" })] {
        script(&upstream);
        script(&upstream);
        let whole = server.client().chat(&formatted(ask("Find."), &format)).await.json();
        let streamed = server.client().streamed(&formatted(ask_streamed("Find."), &format)).await;

        let message = &whole["choices"][0]["message"];
        assert_eq!(message["content"], JSON);
        assert_eq!(message["reasoning_content"], "I will read.");
        assert_eq!(streamed.text(), JSON);
        let shown = streamed.reasoning();
        assert!(shown.contains("I will read.") && shown.contains("notes.txt"), "{shown}");
        let sent = upstream.requests().last().expect("a request").json();
        assert_eq!(sent["response_format"], format);
        let said = super::assistant_in(&sent);
        assert_eq!(said["content"], "I will read.", "upstream gets it back as it was said");
        assert_eq!(said.get("reasoning_content"), None);
    }
}

#[tokio::test]
async fn without_progress_the_earlier_words_are_nowhere() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let none =
        |body| formatted(with(body, json!({ "toolhand": { "progress": "none" } })), &schema());
    script(&upstream);
    script(&upstream);

    let whole = server.client().chat(&none(ask("Find."))).await;
    let streamed = server.client().streamed(&none(ask_streamed("Find."))).await;

    assert_eq!((whole.text(), streamed.text()), (JSON.to_owned(), JSON));
    assert!(!String::from_utf8_lossy(&whole.body).contains("I will"));
    assert!(!format!("{:?}", streamed.events).contains("I will"));
}

#[tokio::test]
async fn with_events_the_earlier_words_are_reasoning_too() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    script(&upstream);
    let events = json!({ "toolhand": { "progress": "events" } });

    let told =
        server.client().streamed(&formatted(with(ask_streamed("Find."), events), &schema())).await;

    assert_eq!((told.text(), &*told.reasoning()), (JSON, "I will read."));
    assert_eq!(told.progress("tool_end").len(), 1);
}

#[tokio::test]
async fn the_models_own_reasoning_stays_apart_from_its_words() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    upstream.round(
        [vec![reasoning("First "), reasoning("this."), text("I read.")], read(), end("tool_calls")]
            .concat(),
    );
    upstream.round([vec![reasoning("Then that."), text(JSON)], end("stop")].concat());

    let told = server.client().chat(&formatted(ask("Find."), &schema())).await.json();

    let message = &told["choices"][0]["message"];
    assert_eq!(message["content"], JSON);
    assert_eq!(message["reasoning_content"], "First this.\n\nI read.\n\nThen that.");
}

#[tokio::test]
async fn other_formats_and_requests_without_our_tools_stream_as_they_come() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    for format in [json!({ "type": "text" }), json!(null)] {
        script(&upstream);
        let told = server.client().streamed(&formatted(ask_streamed("Find."), &format)).await;
        assert_eq!(told.text(), format!("I will read.\n\n{JSON}"));
    }
    upstream.round([vec![text("{"), gate("half"), text("}")], end("stop")].concat());
    let alone = with(ask_streamed("Find."), json!({ "tool_choice": "none" }));
    let mut stream = server.client().stream(&formatted(alone, &schema())).await;
    assert_eq!(stream.until_text().await, "{");
    upstream.open("half");
    assert_eq!(stream.finish().await.text(), "{}");
}

#[tokio::test]
async fn a_round_limit_leaves_no_content() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let round = || [vec![text("I will read.")], read(), end("tool_calls")].concat();
    upstream.round(round());
    upstream.round(round());
    let one = |body| formatted(with(body, json!({ "toolhand": { "max_rounds": 1 } })), &schema());

    let whole = server.client().chat(&one(ask("Find."))).await.json();
    let streamed = server.client().streamed(&one(ask_streamed("Find."))).await;

    let choice = &whole["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("length"), &json!(""))
    );
    assert_eq!(choice["message"]["reasoning_content"], "I will read.");
    assert_eq!((streamed.finish_reason.as_deref(), streamed.text()), (Some("length"), ""));
}

#[tokio::test]
async fn log_probabilities_are_those_of_the_content() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let chunk = |words: &str| {
        let token = json!({ "token": words, "logprob": -0.5, "bytes": null, "top_logprobs": [] });
        crate::support::chunks::event(&json!({
            "id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{ "index": 0, "delta": { "content": words }, "finish_reason": null,
                "logprobs": { "content": [token], "refusal": null } }],
        }))
    };
    upstream.round([vec![chunk("I read.")], read(), end("tool_calls")].concat());
    upstream.round([vec![chunk("{"), chunk("}")], end("stop")].concat());
    let body = formatted(with(ask("Find."), json!({ "logprobs": true })), &schema());

    let told = server.client().chat(&body).await.json();

    let choice = &told["choices"][0];
    assert_eq!(choice["message"]["content"], "{}");
    assert_eq!(choice["message"]["reasoning_content"], "I read.");
    let tokens: Vec<_> = choice["logprobs"]["content"]
        .as_array()
        .expect("tokens")
        .iter()
        .map(|token| token["token"].clone())
        .collect();
    assert_eq!(tokens, ["{", "}"]);
}

#[tokio::test]
async fn a_refusal_and_lists_are_held_like_text() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let part = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    let cited = json!({ "annotations": [{ "type": "url_citation" }] });
    upstream.round(
        [vec![delta(&part("I ")), delta(&part("read.")), delta(&cited)], read(), end("tool_calls")]
            .concat(),
    );
    upstream.round([vec![delta(&json!({ "refusal": "No." }))], end("stop")].concat());

    let told = server.client().chat(&formatted(ask("Find."), &schema())).await.json();

    let message = &told["choices"][0]["message"];
    assert_eq!((&message["content"], &message["refusal"]), (&Value::Null, &json!("No.")));
    assert_eq!(message["reasoning_content"], "I read.");
    assert_eq!(message.get("annotations"), None, "they were of words that are no content");
}

#[tokio::test]
async fn a_refusal_that_was_dropped_from_the_stream_is_told() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    upstream.round([vec![text("I read.")], read(), end("tool_calls")].concat());
    upstream.round(end("stop"));
    let message = json!({ "content": null, "provider_specific_fields": { "refusal": "No." } });
    upstream.round(crate::support::chunks::status(
        200,
        &crate::support::chunks::whole(&message, "stop"),
    ));

    let told = server.client().streamed(&formatted(ask_streamed("Find."), &schema())).await;

    let refusal: String =
        told.events.iter().filter_map(|event| event.delta()["refusal"].as_str()).collect();
    assert_eq!((&*refusal, told.text()), ("No.", ""));
}

#[tokio::test]
async fn the_words_before_a_clients_call_are_its_content() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    upstream.round([vec![text("I look.")], read(), end("tool_calls")].concat());
    let weather = call(0, "c2", "weather", &json!({ "city": "Rome" }));
    upstream.round([vec![text("And I ask.")], weather, end("tool_calls")].concat());
    let tool = json!({ "type": "function", "function": { "name": "weather" } });
    let body = formatted(with(ask_streamed("Find."), json!({ "tools": [tool] })), &schema());

    let told = server.client().streamed(&body).await;

    assert_eq!(told.text(), "And I ask.");
    assert_eq!(told.message["tool_calls"][0]["id"], "c2");
    assert_eq!(told.finish_reason.as_deref(), Some("tool_calls"));
    let position = |is: &dyn Fn(&Event) -> bool| told.events.iter().position(is).expect("one");
    let (text, call) = (
        position(&|event| !event.text().is_empty()),
        position(&|event| event.delta()["tool_calls"].is_array()),
    );
    assert!(text < call, "the words stand before the call");
}

#[tokio::test]
async fn a_stream_that_dies_while_its_text_is_held_is_asked_for_again() {
    for death in [
        vec![error_frame("gone")],
        vec![Step::Close],
        vec![Step::Reset],
        vec![finish("error"), done()],
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        upstream.round([vec![text(&JSON[..5])], death.clone()].concat());
        upstream.round([vec![text("I read.")], read(), end("tool_calls")].concat());
        upstream.round([vec![text(&JSON[..5])], death.clone()].concat());
        upstream.round(says(JSON));
        let told = server.client().streamed(&formatted(ask_streamed("Find."), &schema())).await;
        assert_eq!((told.text(), told.finish_reason.as_deref()), (JSON, Some("stop")));

        // Reasoning went out, and cannot be taken back.
        upstream.round([vec![reasoning("Hm."), text("{")], death].concat());
        let told = server.client().streamed(&formatted(ask_streamed("Find."), &schema())).await;
        assert!(told.error.is_some() && told.text().is_empty(), "{:?}", told.events);
    }
}

#[tokio::test]
async fn a_stream_is_kept_alive_while_its_text_is_held() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .config("turns.head_hold", r#""1ms""#)
        .config("turns.keep_alive", r#""20ms""#)
        .start()
        .await;
    upstream.round([vec![text("{"), gate("half"), text("}")], end("stop")].concat());

    let mut stream = server.client().stream(&formatted(ask_streamed("Find."), &schema())).await;
    upstream.reached("half").await;
    for _ in 0..2 {
        stream.until(|event| matches!(event, Event::Comment(_))).await;
    }
    assert!(stream.seen().iter().all(|event| event.text().is_empty()));
    upstream.open("half");

    assert_eq!(stream.finish().await.text(), "{}");
}

#[tokio::test]
async fn held_text_counts_in_the_memory_budget() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("limits.buffers", r#""4MiB""#).start().await;
    let piece = text(&"x".repeat(64 << 10));
    let round: Vec<_> = std::iter::repeat_n(piece, 60).collect();
    upstream.round([round, end("stop")].concat());

    let refusal = server.client().chat(&formatted(ask_streamed("Find."), &schema())).await;

    assert_eq!(refusal.refusal(), (503, "overloaded".to_owned()));
    // What was reserved is given back.
    upstream.round(says(JSON));
    let told = server.client().streamed(&formatted(ask_streamed("Find."), &schema())).await;
    assert_eq!(told.text(), JSON);
}
