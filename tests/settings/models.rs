//! Tests `[[models]]` and what is remembered of a model: both hold for the model that is
//! asked, whether the requested one or a fallback.

use serde_json::{Value, json};

use crate::support::OUR_TOOLS;
use crate::support::chunks::{call, end, reasoning, says, status};
use crate::support::client::{ask, with};
use crate::support::server::{Builder, Server};
use crate::support::upstream::{Step, Upstream};

/// `first` falls back on `second`, with one request to each.
fn with_fallback(upstream: &Upstream) -> Builder {
    Server::builder(upstream)
        .config("upstream.fallbacks", r#"{ "first" = ["second"] }"#)
        .config("upstream.retries", "0")
}

fn away() -> Vec<Step> {
    status(503, &json!({ "error": { "message": "Busy." } }))
}

fn refuses_reasoning() -> Vec<Step> {
    let message = "property 'reasoning_content' is unsupported";
    status(400, &json!({ "error": { "message": message, "type": "invalid_request_error" } }))
}

fn refuses_eager_input() -> Vec<Step> {
    let message = "tools.0.function.eager_input_streaming: Extra inputs are not permitted";
    status(400, &json!({ "error": { "message": message, "type": "invalid_request_error" } }))
}

/// The model of each request upstream, and whether its tools have `eager_input_streaming`.
fn offered(upstream: &Upstream) -> Vec<(String, Vec<bool>)> {
    let requests = upstream.requests().into_iter();
    requests
        .map(|request| {
            let body = request.json();
            let tools = body["tools"].as_array().expect("tools").iter();
            let eager = tools.map(|tool| tool["function"]["eager_input_streaming"] == true);
            let mut eager: Vec<bool> = eager.collect();
            eager.dedup();
            (body["model"].as_str().expect("a model").to_owned(), eager)
        })
        .collect()
}

/// A round with reasoning and a call.
fn thinks() -> Vec<Step> {
    let glob = call(0, "c1", "Glob", &json!({ "pattern": "*" }));
    [vec![reasoning("I think.")], glob, end("tool_calls")].concat()
}

/// A request for `model` whose history has reasoning.
fn history(model: &str) -> Value {
    let messages = json!([
        { "role": "user", "content": "One?" },
        { "role": "assistant", "content": "One.", "reasoning_content": "I thought." },
        { "role": "user", "content": "Two?" },
    ]);
    with(ask(""), json!({ "model": model, "messages": messages }))
}

/// The model and the reasoning of each request upstream.
fn sent(upstream: &Upstream) -> Vec<(String, Vec<String>)> {
    let requests = upstream.requests().into_iter();
    requests
        .map(|request| {
            let body = request.json();
            let messages = body["messages"].as_array().expect("messages").iter();
            let thoughts = messages.filter_map(|message| message["reasoning_content"].as_str());
            let model = body["model"].as_str().expect("a model");
            (model.to_owned(), thoughts.map(str::to_owned).collect())
        })
        .collect()
}

fn expected(requests: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let owned = |thoughts: &[&str]| thoughts.iter().map(|text| (*text).to_owned()).collect();
    requests.iter().map(|(model, thoughts)| ((*model).to_owned(), owned(thoughts))).collect()
}

#[tokio::test]
async fn a_fallback_has_its_own_rule_for_reasoning() {
    for (dropping, loud) in [("first", "second"), ("second", "first")] {
        let upstream = Upstream::start();
        let table = format!("[[models]]\nmatch = \"{dropping}\"\nreasoning = \"drop\"\n");
        let server = with_fallback(&upstream).tables(&table).start().await;
        for round in [away(), thinks(), says("Two.")] {
            upstream.round(round);
        }

        server.client().chat(&history("first")).await;

        let told: [&[&str]; 3] = if loud == "first" {
            [&["I thought."], &[], &[]]
        } else {
            [&[], &["I thought."], &["I thought.", "I think."]]
        };
        let models = ["first", "second", "second"];
        let requests: Vec<_> = models.into_iter().zip(told).collect();
        assert_eq!(sent(&upstream), expected(&requests), "{dropping} drops it");
    }
}

#[tokio::test]
async fn a_model_that_refuses_reasoning_refuses_it_for_itself_alone() {
    let upstream = Upstream::start();
    let server = with_fallback(&upstream).start().await;
    for round in [refuses_reasoning(), away(), thinks(), says("Two.")] {
        upstream.round(round);
    }

    let answer = server.client().chat(&history("first")).await;

    assert_eq!(answer.text(), "Two.");
    let requests: [(&str, &[&str]); 4] = [
        ("first", &["I thought."]),
        ("first", &[]),
        ("second", &["I thought."]),
        ("second", &["I thought.", "I think."]),
    ];
    assert_eq!(sent(&upstream), expected(&requests));
}

#[tokio::test]
async fn a_refusal_that_one_turn_met_changes_no_other_turn_yet() {
    let upstream = Upstream::start();
    let server = with_fallback(&upstream).start().await;
    for round in [refuses_reasoning(), says("Two."), away(), says("Two."), says("Two.")] {
        upstream.round(round);
    }

    for model in ["second", "first", "first"] {
        assert_eq!(server.client().chat(&history(model)).await.text(), "Two.");
    }

    let requests: [(&str, &[&str]); 5] = [
        ("second", &["I thought."]),
        ("second", &[]),
        ("first", &["I thought."]),
        ("second", &["I thought."]),
        ("first", &["I thought."]),
    ];
    assert_eq!(sent(&upstream), expected(&requests));
}

#[tokio::test]
async fn a_model_that_refuses_eager_input_streaming_gets_tools_without_it_in_that_turn() {
    let upstream = Upstream::start();
    let server = with_fallback(&upstream).start().await;
    let glob = [call(0, "c1", "Glob", &json!({ "pattern": "*" })), end("tool_calls")].concat();
    for round in [refuses_eager_input(), glob, says("One."), says("Two."), says("Three.")] {
        upstream.round(round);
    }

    for (model, text) in [("first", "One."), ("first", "Two."), ("second", "Three.")] {
        let answer = server.client().chat(&with(ask("Hi"), json!({ "model": model }))).await;
        assert_eq!(answer.text(), text);
    }

    let asked =
        [("first", true), ("first", false), ("first", false), ("first", true), ("second", true)];
    let expected = asked.map(|(model, is_eager)| (model.to_owned(), vec![is_eager]));
    assert_eq!(offered(&upstream), expected);
}

#[tokio::test]
async fn a_second_refusal_of_eager_input_streaming_is_the_answer() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(refuses_eager_input());
    upstream.round(refuses_eager_input());

    let answer = server.client().chat(&ask("Hi")).await;

    assert_eq!(answer.refusal(), (400, "upstream_rejected".to_owned()));
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn eager_input_streaming_in_a_clients_own_tool_stays() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(refuses_eager_input());
    let function = json!({ "name": "weather", "eager_input_streaming": true });
    let tools = json!([{ "type": "function", "function": function }]);
    let only = json!({ "tools": tools, "toolhand": { "tools": { "deny": OUR_TOOLS } } });

    server.client().chat(&with(ask("Hi"), only)).await;

    assert_eq!(upstream.requests().len(), 1);
}
