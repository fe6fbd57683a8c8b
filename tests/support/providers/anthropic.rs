//! Speaks Anthropic's format: `POST /v1/messages`, streamed as named events.

use serde_json::{Value, json};

use super::{Exchange, NativeStream, Said, event, list};

pub(super) fn stream(said: &Said) -> NativeStream {
    let (blocks, reason) = match said {
        Said::Text(text) => (text_block(text), "end_turn"),
        Said::Calls(calls) => {
            let numbered = calls.iter().enumerate();
            (numbered.flat_map(|(at, call)| call_block(at, call)).collect(), "tool_use")
        }
    };
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": { "input_tokens": 10, "output_tokens": 1 },
    });
    let mut events = vec![json!({ "type": "message_start", "message": message })];
    events.extend(blocks);
    let delta = json!({ "stop_reason": reason, "stop_sequence": null });
    let usage = json!({ "output_tokens": 5 });
    events.push(json!({ "type": "message_delta", "delta": delta, "usage": usage }));
    events.push(json!({ "type": "message_stop" }));
    let named = |data: &Value| {
        format!("event: {}\n{}", data["type"].as_str().expect("a type"), event(data))
    };
    NativeStream { content_type: "text/event-stream", pieces: events.iter().map(named).collect() }
}

fn text_block(text: &str) -> Vec<Value> {
    block(
        0,
        &json!({ "type": "text", "text": "" }),
        &[json!({ "type": "text_delta", "text": text })],
    )
}

/// A call, its arguments in two pieces.
fn call_block(at: usize, (name, arguments): &(&str, Value)) -> Vec<Value> {
    let arguments = arguments.to_string();
    let (front, back) = arguments.split_at(arguments.len() / 2);
    let start = json!({ "type": "tool_use", "id": id(at, &arguments), "name": name, "input": {} });
    let deltas =
        ["", front, back].map(|part| json!({ "type": "input_json_delta", "partial_json": part }));
    block(at, &start, &deltas)
}

/// An id that no other call of the conversation has.
fn id(at: usize, arguments: &str) -> String {
    format!("toolu_{at}_{}", &blake3::hash(arguments.as_bytes()).to_hex()[..8])
}

fn block(at: usize, start: &Value, deltas: &[Value]) -> Vec<Value> {
    let mut events =
        vec![json!({ "type": "content_block_start", "index": at, "content_block": start })];
    let delta = |delta| json!({ "type": "content_block_delta", "index": at, "delta": delta });
    events.extend(deltas.iter().map(delta));
    events.push(json!({ "type": "content_block_stop", "index": at }));
    events
}

pub(super) fn tools(body: &Value) -> Vec<Value> {
    let tools = list(body, "tools").cloned();
    tools
        .map(|mut tool| {
            tool["parameters"] = tool["input_schema"].take();
            tool
        })
        .collect()
}

/// Pairs by id: an answer names its call.
pub(super) fn exchanges(body: &Value) -> Vec<Exchange> {
    let blocks =
        || list(body, "messages").filter_map(|message| message["content"].as_array()).flatten();
    let answer_to = |id: &Value| {
        let mut answers = blocks().filter(|block| block["tool_use_id"] == *id);
        let answer = answers.next().unwrap_or_else(|| panic!("no answer to {id}"));
        assert_eq!(answers.next(), None, "one answer to {id}");
        answer["content"].as_array().map_or(&answer["content"], |parts| &parts[0]["text"])
    };
    let calls = blocks().filter(|block| block["type"] == "tool_use");
    calls
        .map(|call| Exchange::new(&call["name"], call["input"].clone(), answer_to(&call["id"])))
        .collect()
}
