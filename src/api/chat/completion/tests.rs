//! Tests whole answers: written from events, and sent on as upstream gave them.

use std::time::Duration;

use super::*;
use crate::agent::events::{ClientCallDelta, Summary, TurnEvent};
use crate::ids::TurnId;
use crate::openai::chunk::{CallKind, Chunk, FinishReason};
use crate::sessions::request::Progress;

/// The completion that is written of these events and a body of upstream.
fn completion(events: Vec<TurnEvent>, body: Option<&Value>, usage: Option<Value>) -> Value {
    let mut collected = Collected::new(Progress::Reasoning);
    for event in events {
        collected.push(event);
    }
    let envelope = Envelope {
        id: "ours".to_owned(),
        turn: TurnId::random(),
        created: 1,
        model: "asked".to_owned(),
    };
    let whole = body.and_then(|body| Chunk::parse_whole(&body.to_string()).unwrap().whole);
    let usage = usage.and_then(|usage| Usage::read(usage.as_object().unwrap().clone()));
    let summary = Summary {
        session: "mine".to_owned(),
        turn: TurnId::random(),
        rounds: 1,
        tool_calls: 0,
        duration: Duration::ZERO,
        rounds_without_usage: 0,
        context_tokens: None,
    };
    let unknown = RawMembers::new();
    let finished =
        Finished { reason: FinishReason::Stop, usage, summary, messages: None, unknown, whole };
    let completion = Completion::new(&mut collected, &envelope, &finished);
    let mut written = serde_json::to_value(&completion).unwrap();
    assert!(written["toolhand"].is_object());
    written.as_object_mut().unwrap().remove("toolhand");
    written
}

fn text(text: &str) -> TurnEvent {
    TurnEvent::Text(text.to_owned())
}

fn member(name: &str, text: &str) -> TurnEvent {
    TurnEvent::Member { name: name.to_owned(), text: text.to_owned() }
}

fn call(index: usize, id: &str, arguments: &str) -> TurnEvent {
    TurnEvent::ClientCall(Box::new(ClientCallDelta {
        index,
        kind: CallKind::Function,
        head: Some((id.to_owned(), "f".to_owned())),
        arguments: arguments.to_owned(),
    }))
}

fn counts(prompt: u64) -> Value {
    json!({ "prompt_tokens": prompt, "completion_tokens": 0, "total_tokens": prompt, "tier": "x" })
}

#[test]
fn what_is_whole_passes_but_for_its_id() {
    let mut body = json!({
        "id": "theirs", "object": "chat.completion", "created": 7, "model": "named",
        "citations": ["u"], "usage": counts(3),
        "choices": [{ "index": 0, "finish_reason": "stop", "stop_reason": 5,
            "logprobs": { "content": [], "refusal": null, "more": 1 },
            "message": { "role": "assistant", "content": "hi", "refusal": null,
                "reasoning_content": "hm", "thinking_blocks": [{ "a": 1 }], "mood": null } }],
    });
    let events = vec![member("reasoning_content", "hm"), text("hi")];

    let written = completion(events, Some(&body), Some(counts(3)));

    body["id"] = "ours".into();
    assert_eq!(written, body);
}

#[test]
fn what_is_missing_is_added_and_what_breaks_clients_is_not_passed() {
    let body = json!({ "choices": [{ "message": {
        "content": "hi", "tool_calls": null, "function_call": null, "toolhand": 1,
    }, "finish_reason": "eos" }], "usage": null, "system_fingerprint": null, "toolhand": 1 });

    let written = completion(vec![text("hi")], Some(&body), None);

    let message = json!({ "role": "assistant", "content": "hi", "refusal": null });
    let choice =
        json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": "stop" });
    let expected = json!({ "id": "ours", "object": "chat.completion", "created": 1,
        "model": "asked", "choices": [choice] });
    assert_eq!(written, expected);
}

#[test]
fn calls_keep_the_further_members_of_their_entries() {
    let entry = |id: Value, arguments: Value| {
        json!({ "index": 0, "id": id, "type": "function", "signature": "s",
            "function": { "name": "f", "arguments": arguments, "more": 1 } })
    };
    let entries = [entry(json!("a"), json!("{}")), entry(json!(null), json!({ "b": 1 }))];
    let body = json!({ "choices": [{ "message": { "content": null, "tool_calls": entries } }] });

    let events = vec![call(0, "a", "{}"), call(1, "made up", r#"{"b":1}"#)];
    let message = &completion(events, Some(&body), None)["choices"][0]["message"];

    let expected = [entry(json!("a"), json!("{}")), entry(json!("made up"), json!(r#"{"b":1}"#))];
    assert_eq!(message["tool_calls"], json!(expected));
    assert_eq!(message["content"], Value::Null);

    // One entry was split into two calls: the second one's own entry does not exist.
    let body = json!({ "choices": [{ "message": { "tool_calls": [entries[0]] } }] });
    let events = vec![call(0, "a", "{}"), call(1, "b", "{}")];
    let message = &completion(events, Some(&body), None)["choices"][0]["message"];
    assert_eq!(message["tool_calls"][0]["signature"], "s");
    assert_eq!(message["tool_calls"][1].get("signature"), None);
}

#[test]
fn a_refusal_stands_alone() {
    for body in [None, Some(&json!({ "choices": [{ "message": { "content": "" } }] }))] {
        let events = vec![text("well"), member("refusal", "no")];
        let message = &completion(events, body, None)["choices"][0]["message"];
        assert_eq!((&message["content"], &message["refusal"]), (&Value::Null, &json!("no")));
    }
}

#[test]
fn the_usage_is_that_of_all_requests() {
    let body = json!({ "choices": [{ "message": { "content": "hi" } }], "usage": counts(3) });
    let usage = |sum| completion(vec![text("hi")], Some(&body), Some(sum))["usage"].clone();
    assert_eq!(usage(counts(3)), counts(3));
    assert_eq!(usage(counts(5))["prompt_tokens"], 5);

    let odd = json!({ "prompt_tokens": "3", "completion_tokens": 1 });
    let body = json!({ "choices": [{ "message": { "content": "hi" } }], "usage": odd });
    let written = completion(vec![text("hi")], Some(&body), Some(odd));
    assert_eq!(
        written["usage"],
        json!({ "prompt_tokens": 0, "completion_tokens": 1, "total_tokens": 1 })
    );
}

#[test]
fn text_of_an_earlier_round_is_not_lost() {
    let body = json!({ "choices": [{ "message": { "content": "b", "reasoning_content": "y" } }] });
    let events = vec![
        member("reasoning_content", "x"),
        text("a"),
        member("reasoning_content", "y"),
        text("\n\nb"),
    ];
    let message = &completion(events, Some(&body), None)["choices"][0]["message"];
    assert_eq!(message["content"], "a\n\nb");
    assert_eq!(message["reasoning_content"], "xy");
}

#[test]
fn text_before_calls_is_a_paragraph_of_the_reasoning() {
    let before = |text: &str| TurnEvent::TextBeforeCalls(text.to_owned());
    let events = vec![
        before("one"),
        member("reasoning_content", "hm"),
        member("reasoning_content", "m"),
        before("two"),
        before("three"),
        text("{}"),
    ];
    let message = &completion(events, None, None)["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "one\n\nhmm\n\ntwo\n\nthree");
    assert_eq!(message["content"], "{}");
}
