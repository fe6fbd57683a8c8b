//! Checks the rules of the wire in every test: in each answer to a client, and in each
//! transcript that goes upstream.

use std::collections::VecDeque;

use serde_json::Value;

use super::stream::Event;

/// The rules of the wire that a stream breaks.
pub(super) fn check_events(events: &[Event]) -> Vec<String> {
    let mut broken = Vec::new();
    let told = events.iter().filter(|event| !matches!(event, Event::Comment(_)));
    let told: Vec<&Event> = told.collect();
    if told.last() != Some(&&Event::Done) {
        broken.push("does not end with [DONE]".to_owned());
    }
    if told.iter().filter(|event| ***event == Event::Done).count() != 1 {
        broken.push("[DONE] is not said once".to_owned());
    }
    let errors = told.iter().filter(|event| matches!(event, Event::Error(_))).count();
    let error_is_last = matches!(told.iter().rev().nth(1), Some(Event::Error(_)));
    if errors > 1 || (errors == 1) != error_is_last {
        broken.push("an error that is not the one last event".to_owned());
    }
    for error in &told {
        if let Event::Error(error) = error {
            check_error(error);
        }
    }
    let chunks = told.iter().filter_map(|event| match event {
        Event::Chunk(chunk) => Some(chunk),
        _ => None,
    });
    broken.extend(check_chunks(&chunks.collect::<Vec<_>>(), errors == 1));
    broken
}

/// OpenAI's rules for the chunks of one answer.
fn check_chunks(chunks: &[&Value], failed: bool) -> Vec<String> {
    let mut broken = Vec::new();
    let mut finished = 0;
    for chunk in chunks {
        check_envelope(chunk, chunks[0], &mut broken);
        let choices = chunk["choices"].as_array().map_or(&[][..], Vec::as_slice);
        match choices {
            [] if finished == 1 && chunk["usage"].is_object() => {}
            [choice] if finished == 0 => {
                check_choice(choice, &mut broken);
                finished += usize::from(choice["finish_reason"].is_string());
            }
            _ => broken.push(format!("not the one choice, or too late: {chunk}")),
        }
    }
    let role = |chunk: &&Value| chunk["choices"][0]["delta"].get("role").is_some();
    let roles: Vec<bool> = chunks.iter().map(role).collect();
    if !roles.is_empty() && (!roles[0] || roles[1..].contains(&true)) {
        broken.push("not the role once, at the start".to_owned());
    }
    if finished != usize::from(!failed) {
        broken.push(format!("{finished} finish reasons, {}", if failed { "failed" } else { "ok" }));
    }
    broken
}

/// Checks what must be the same in all chunks.
fn check_envelope(chunk: &Value, first: &Value, broken: &mut Vec<String>) {
    for member in ["id", "created", "model", "object"] {
        if chunk[member] != first[member] || chunk[member].is_null() {
            broken.push(format!("{member} is not the first one: {chunk}"));
        }
    }
    if chunk["object"] != "chat.completion.chunk" || !chunk["created"].is_u64() {
        broken.push(format!("no chunk: {chunk}"));
    }
}

fn check_choice(choice: &Value, broken: &mut Vec<String>) {
    let Some(delta) = choice["delta"].as_object().filter(|_| choice["index"] == 0) else {
        return broken.push(format!("not choice 0, or no delta: {choice}"));
    };
    if !matches!(delta.get("role").map(Value::as_str), None | Some(Some("assistant"))) {
        broken.push(format!("not our role: {choice}"));
    }
    if !matches!(delta.get("content"), None | Some(Value::Null | Value::String(_))) {
        broken.push(format!("content that is no text: {choice}"));
    }
    if delta.iter().any(|(name, value)| name != "tool_calls" && breaks_a_helper(value)) {
        broken.push(format!("a list that breaks the SDK's helper: {choice}"));
    }
    let reasons = ["stop", "length", "tool_calls", "content_filter"];
    let reason = &choice["finish_reason"];
    if !reason.is_null() && !reason.as_str().is_some_and(|reason| reasons.contains(&reason)) {
        broken.push(format!("a reason OpenAI does not know: {choice}"));
    }
}

/// Whether the OpenAI SDK's stream helper would fail on a list: entries need an `index`,
/// unless all are strings, numbers or booleans.
fn breaks_a_helper(value: &Value) -> bool {
    let is_plain = |entry: &Value| entry.is_string() || entry.is_number() || entry.is_boolean();
    match value {
        Value::Array(entries) => {
            !entries.iter().all(is_plain) && !entries.iter().all(|entry| entry["index"].is_u64())
        }
        Value::Object(members) => members.values().any(breaks_a_helper),
        _ => false,
    }
}

/// `{"error": {message, type, param, code}}` and nothing else.
pub(super) fn check_error(body: &Value) {
    let error = body["error"].as_object().unwrap_or_else(|| panic!("no error: {body}"));
    assert_eq!(body.as_object().map(serde_json::Map::len), Some(1), "{body}");
    let members: Vec<&str> = error.keys().map(String::as_str).collect();
    assert_eq!(members, ["message", "type", "param", "code"], "{body}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    assert!(error["type"].is_string() && error["code"].is_string(), "{body}");
    assert!(error["param"].is_string() || error["param"].is_null(), "{body}");
}

/// What is wrong with a transcript. Every call of every assistant message must have
/// exactly one answer directly after the message, in order, and arguments that parse.
pub(crate) fn unpaired(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array().expect("messages");
    let mut owed: VecDeque<&str> = VecDeque::new();
    for message in messages {
        if message["role"] == "tool" {
            if owed.pop_front() != message["tool_call_id"].as_str() {
                return Some(format!("an answer out of place: {body:#}"));
            }
            continue;
        }
        if !owed.is_empty() {
            break;
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            owed.push_back(call["id"].as_str().unwrap_or_default());
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            let is_json = serde_json::from_str::<Value>(arguments).is_ok();
            let is_custom = call["type"] == "custom" && call["custom"]["input"].is_string();
            let is_call = is_custom || (call["type"] == "function" && is_json);
            if call["id"] == "" || !is_call {
                return Some(format!("a call that is none: {call}"));
            }
        }
    }
    (!owed.is_empty()).then(|| format!("calls without an answer, {owed:?}: {body:#}"))
}
