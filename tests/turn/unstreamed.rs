//! Tests unstreamed requests in which no tool of the server's may run: they go upstream
//! unstreamed, and their answers pass as they are.

use serde_json::{Value, json};

use super::answers;
use crate::support::OUR_TOOLS;
use crate::support::chunks::{call, calls, end, gate, says, status, text, whole};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::{Step, Upstream};

/// Members of a request that leave no tool of the server's.
fn without_tools() -> Value {
    json!({ "tool_choice": "none" })
}

fn weather() -> Value {
    json!([{ "type": "function", "function": { "name": "weather" } }])
}

fn says_whole(text: &str) -> Vec<Step> {
    status(200, &whole(&json!({ "role": "assistant", "content": text }), "stop"))
}

#[tokio::test]
async fn what_no_tool_of_ours_can_serve_goes_upstream_unstreamed() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).config("background_models", r#"["titles"]"#).start().await;
    let allowed = json!({ "type": "allowed_tools", "allowed_tools": { "mode": "auto",
        "tools": [{ "type": "function", "function": { "name": "weather" } }] } });
    let task = json!([{ "role": "user", "content": "### Task:\nA title, please." }]);
    for members in [
        without_tools(),
        json!({ "tool_choice": "none", "tools": weather() }),
        json!({ "toolhand": { "tools": { "allow": [] } } }),
        json!({ "toolhand": { "tools": { "deny": OUR_TOOLS } }, "tools": weather() }),
        json!({ "tool_choice": allowed, "tools": weather() }),
        json!({ "stream": false, "messages": task }),
        json!({ "model": "titles" }),
    ] {
        upstream.round(says_whole("Hello."));
        let answer = server.client().chat(&with(ask("Hi"), members.clone())).await;
        assert_eq!(answer.text(), "Hello.", "{members}");
        let sent = upstream.requests().last().expect("a request").json();
        assert_eq!(sent["stream"], false, "{members}");
        assert_eq!(sent.get("stream_options"), None, "{members}");
    }
}

#[tokio::test]
async fn a_request_that_is_watched_or_may_run_a_tool_is_streamed() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for body in [
        ask("Hi"),
        with(ask_streamed("Hi"), without_tools()),
        with(
            ask("Hi"),
            json!({
                "toolhand": { "tools": { "allow": ["Read"] } }, "tools": weather(),
            }),
        ),
    ] {
        upstream.round(says("Hello."));
        server.client().ask(&body).await;
        let number = upstream.requests().len();
        let sent = upstream.request(number.max(1) - 1).await.json();
        assert_eq!(sent["stream"], true, "{body}");
        assert_eq!(sent["stream_options"], json!({ "include_usage": true }), "{body}");
    }
}

#[tokio::test]
async fn an_answer_passes_as_it_is_but_for_its_id_and_our_extension() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let message = json!({
        "role": "assistant", "content": "Hello.", "refusal": null, "reasoning_content": "Hm.",
        "thinking_blocks": [{ "type": "thinking", "thinking": "Hm.", "signature": "c2ln" }],
        "provider_specific_fields": { "citations": [[{ "url": "u" }]], "thinking_blocks": null },
        "annotations": [{ "type": "url_citation", "url_citation": { "url": "u" } }],
        "images": [{ "index": 0, "type": "image_url", "image_url": { "url": "data:," } }],
        "mood": null, "a_member_of_tomorrow": { "b": [1, null, 1.5e300] },
    });
    let mut body = whole(&message, "stop");
    body["choices"][0]["logprobs"] = json!({ "refusal": null, "content": [
        { "token": "Hello", "logprob": -0.25, "bytes": null, "top_logprobs": [] },
    ]});
    body["choices"][0]["content_filter_results"] = json!({ "hate": { "filtered": false } });
    body["choices"][0]["stop_reason"] = json!(null);
    body["usage"]["completion_tokens_details"] = json!({ "reasoning_tokens": 3, "text": null });
    body["usage"]["cost"] = json!("0.01");
    body["citations"] = json!(["u"]);
    body["service_tier"] = json!("flex");
    body["x_groq"] = json!({ "id": "req" });
    upstream.round(status(200, &body));

    let answer = server.client().chat(&with(ask("Hi"), without_tools())).await;

    let mut told = answer.json();
    let toolhand = told.as_object_mut().expect("an object").remove("toolhand").expect("ours");
    assert_eq!(toolhand["rounds"], 1);
    assert_eq!(toolhand["context_tokens"], 10);
    assert_eq!(answer.header("x-toolhand-turn"), toolhand["turn"].as_str());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let id = told["id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("chatcmpl-") && id != body["id"], "{id}");
    body["id"] = told["id"].clone();
    assert_eq!(told, body);
}

#[tokio::test]
async fn members_of_other_types_than_openais_do_not_pass() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for wrong in [json!(0), json!(1.5), json!(true), json!("x"), json!({ "a": 1 }), json!([1])] {
        let mut message = json!({ "role": "assistant", "content": "Hello." });
        message["audio"] = if wrong.is_object() { json!([]) } else { wrong.clone() };
        message["annotations"] = if wrong.is_array() { json!({}) } else { wrong.clone() };
        message["refusal"] = if wrong.is_string() { json!([]) } else { wrong.clone() };
        let mut body = whole(&message, "stop");
        body["service_tier"] = if wrong.is_string() { json!({}) } else { wrong.clone() };
        body["choices"][0]["logprobs"] = if wrong.is_array() {
            wrong.clone()
        } else {
            json!({ "content": wrong, "refusal": null })
        };
        body["usage"]["prompt_tokens_details"] =
            if wrong.is_object() { json!({ "cached_tokens": [1] }) } else { wrong.clone() };
        body["usage"]["completion_tokens_details"] = json!({ "reasoning_tokens": wrong });
        upstream.round(status(200, &body));

        let told = server.client().chat(&with(ask("Hi"), without_tools())).await.json();

        let message = json!({ "role": "assistant", "content": "Hello.", "refusal": null });
        assert_eq!(told["choices"][0]["message"], message, "{wrong}");
        assert_eq!(told["choices"][0]["logprobs"], Value::Null, "{wrong}");
        assert_eq!(told.get("service_tier"), None, "{wrong}");
        let usage = &told["usage"];
        assert_eq!(usage["total_tokens"], 15, "{wrong}");
        let cached = usage.get("prompt_tokens_details");
        assert!(cached.is_none_or(|details| details == &json!({})), "{usage}");
        let reasoning = &usage["completion_tokens_details"]["reasoning_tokens"];
        assert!(reasoning.is_null() || reasoning.is_u64(), "{usage}");
    }
}

#[tokio::test]
async fn a_refusal_that_is_no_text_is_no_answer() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let message = json!({ "role": "assistant", "content": null, "refusal": 0 });
    upstream.round(status(200, &whole(&message, "stop")));
    upstream.round(says_whole("Hello."));

    let answer = server.client().chat(&with(ask("Hi"), without_tools())).await;

    assert_eq!(answer.text(), "Hello.");
}

#[tokio::test]
async fn what_breaks_openais_schema_does_not_pass() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let part = |text: &str| json!({ "type": "text", "text": text });
    let picture = json!({ "type": "image_url", "image_url": { "url": "data:," } });
    let message = json!({
        "role": "model", "content": [part("Hel"), picture, part("lo.")],
        "tool_calls": null, "function_call": null, "annotations": null, "toolhand": { "rounds": 9 },
    });
    let body = json!({
        "object": "text", "created": "now", "model": null, "system_fingerprint": null,
        "toolhand": { "rounds": 9 }, "usage": { "prompt_tokens": -1, "completion_tokens": 1e30 },
        "choices": [
            { "index": 1, "message": { "content": "not this" } },
            { "index": 0, "message": message, "logprobs": [], "finish_reason": "eos" },
        ],
    });
    upstream.round(status(200, &body));

    let told = server.client().chat(&with(ask("Hi"), without_tools())).await.json();

    let message =
        json!({ "role": "assistant", "content": "Hello.", "refusal": null, "images": [picture] });
    let choice =
        json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": "stop" });
    assert_eq!(told["choices"], json!([choice]));
    assert_eq!(told["object"], "chat.completion");
    assert_eq!(told["model"], "scripted");
    assert!(told["created"].is_u64() && told["id"].is_string(), "{told}");
    assert_eq!(told.get("system_fingerprint"), None);
    assert_eq!(told["toolhand"]["rounds"], 1);
    assert_eq!(told["usage"]["prompt_tokens"], 0);
}

/// An entry of `tool_calls`, with index 0 as some providers number each of them.
fn entry(id: &Value, arguments: &Value) -> Value {
    json!({ "index": 0, "id": id, "type": "function", "provider_specific_fields": { "s": 1 },
        "function": { "name": "weather", "arguments": arguments } })
}

#[tokio::test]
async fn calls_of_the_client_are_told_apart_by_position() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let body = with(
        ask("Weather?"),
        json!({ "tools": weather(), "toolhand": { "tools": { "allow": [] } } }),
    );
    let entries = [
        entry(&json!("a"), &json!(r#"{"city":"Rome"}"#)),
        entry(&json!("b"), &json!(r#"{"city":"Oslo"}"#)),
        entry(&json!(null), &json!({ "city": "Bern" })),
        entry(&json!("c"), &json!(r#"{"city":"Riga"}{"city":"Bonn"}"#)),
    ];
    let message = json!({ "role": "assistant", "content": null, "tool_calls": entries });
    upstream.round(status(200, &whole(&message, "stop")));

    let told = server.client().chat(&body).await.json();

    let choice = &told["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], Value::Null);
    let told = choice["message"]["tool_calls"].as_array().expect("calls");
    let arguments: Vec<_> =
        told.iter().map(|call| call["function"]["arguments"].as_str().expect("text")).collect();
    let cities = ["Rome", "Oslo", "Bern", "Riga", "Bonn"];
    let expected: Vec<_> = cities.iter().map(|city| format!(r#"{{"city":"{city}"}}"#)).collect();
    assert_eq!(arguments, expected);
    assert_eq!(told[0], entries[0]);
    let ids: std::collections::HashSet<_> =
        told.iter().map(|call| call["id"].as_str().expect("an id")).collect();
    assert!(ids.len() == 5 && !ids.contains(""), "{ids:?}");

    upstream.round(status(
        200,
        &whole(&json!({ "content": "", "tool_calls": [entries[1]] }), "tool_calls"),
    ));
    let told = server.client().chat(&body).await.json();
    let message =
        json!({ "role": "assistant", "content": "", "refusal": null, "tool_calls": [entries[1]] });
    assert_eq!(told["choices"][0]["message"], message);
}

#[tokio::test]
async fn a_call_of_no_tool_is_answered_and_the_model_asked_again() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let mut stray = entry(&json!("a"), &json!(r#"{"command":"touch ran"}"#));
    stray["function"]["name"] = "Bash".into();
    let message = json!({ "role": "assistant", "content": "First.", "tool_calls": [stray] });
    upstream.round(status(200, &whole(&message, "tool_calls")));
    upstream.round(says_whole("Then."));

    let told = server.client().chat(&with(ask("Hi"), without_tools())).await;

    assert_eq!(told.text(), "First.\n\nThen.");
    assert!(answers(&upstream, 1).await[0].starts_with("Error: "));
    assert!(!server.workspace().join("ran").exists());
    let told = told.json();
    assert_eq!(told["usage"]["total_tokens"], 30, "of both rounds");
    assert_eq!(upstream.request(1).await.json()["stream"], false);
}

#[tokio::test]
async fn a_stream_that_comes_all_the_same_is_taken() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round([vec![text("Hel"), text("lo.")], end("stop")].concat());
    let body = with(ask("Hi"), without_tools());
    let told = server.client().chat(&body).await;
    assert_eq!(told.text(), "Hello.");
    assert_eq!(told.json()["choices"][0]["message"]["refusal"], Value::Null);

    upstream.round(calls(&[("c1", "weather", json!({ "city": "Rome" }))]));
    let own = json!({ "tools": weather(), "toolhand": { "tools": { "allow": [] } } });
    let told = server.client().chat(&with(ask("Hi"), own)).await.json();
    assert_eq!(told["choices"][0]["message"]["tool_calls"][0]["id"], "c1");

    // One that dies was seen by nobody, but text of it had come, as in any stream.
    upstream.round(vec![text("Hal"), Step::Close]);
    let refusal = server.client().chat(&body).await;
    assert_eq!(refusal.refusal(), (502, "stream_died".to_owned()));
}

#[tokio::test]
async fn a_client_that_leaves_closes_upstreams_connection() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let body = with(ask("Hi"), without_tools());
    let head = Step::Head { status: 200, headers: Vec::new() };
    let half = Step::Send(b"{\"choices\":".to_vec());
    for (number, round) in [vec![gate("0")], vec![head, half, gate("1")]].into_iter().enumerate() {
        upstream.round(round);
        let waiting = server.client().start(&body).await;
        upstream.reached(&number.to_string()).await;
        drop(waiting);
        upstream.abandoned(number).await;
    }
}

#[tokio::test]
async fn the_outcome_is_told_again_under_its_key() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let message = json!({ "role": "assistant", "content": "Hello.", "mood": "calm" });
    upstream.round(status(200, &whole(&message, "stop")));
    let client = server.client().header("idempotency-key", "k1");
    let body = with(ask("Hi"), without_tools());

    let (first, second) = (client.chat(&body).await, client.chat(&body).await);

    assert_eq!(first.json(), second.json());
    assert_eq!(first.json()["choices"][0]["message"]["mood"], "calm");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_turn_with_tools_is_streamed_in_each_round() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let read = call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }));
    upstream.round([read, end("tool_calls")].concat());
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Read.")).await.text(), "Done.");
    for number in 0..2 {
        assert_eq!(upstream.request(number).await.json()["stream"], true);
    }
}
