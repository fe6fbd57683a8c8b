//! Makes the pieces of a scripted answer.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::upstream::Step;

/// A piece of the answer's text.
pub(crate) fn text(text: &str) -> Step {
    delta(&json!({ "content": text }))
}

/// A piece of the model's reasoning.
pub(crate) fn reasoning(text: &str) -> Step {
    delta(&json!({ "reasoning_content": text }))
}

/// The head of a call: id and name, as most providers send them.
pub(crate) fn call_head(index: u64, id: &str, name: &str) -> Step {
    let function = json!({ "name": name, "arguments": "" });
    delta(&json!({ "tool_calls": [
        { "index": index, "id": id, "type": "function", "function": function }
    ]}))
}

/// A piece of a call's arguments.
pub(crate) fn call_piece(index: u64, piece: &str) -> Step {
    delta(&json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] }))
}

/// A whole call: its head, then its arguments in two pieces.
pub(crate) fn call(index: u64, id: &str, name: &str, arguments: &Value) -> Vec<Step> {
    let arguments = arguments.to_string();
    let mut middle = arguments.len() / 2;
    while !arguments.is_char_boundary(middle) {
        middle += 1;
    }
    let (front, back) = arguments.split_at(middle);
    vec![call_head(index, id, name), call_piece(index, front), call_piece(index, back)]
}

/// Any other delta.
pub(crate) fn delta(delta: &Value) -> Step {
    chunk(&json!([{ "index": 0, "delta": delta, "finish_reason": null }]), None)
}

pub(crate) fn finish(reason: &str) -> Step {
    chunk(&json!([{ "index": 0, "delta": {}, "finish_reason": reason }]), None)
}

/// The usage of a round, as LiteLLM sends it: after `finish_reason`, beside an empty
/// delta.
pub(crate) fn usage(prompt: u64, completion: u64) -> Step {
    let total = prompt + completion;
    let usage = json!({
        "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total,
    });
    chunk(&json!([{ "index": 0, "delta": {} }]), Some(usage))
}

pub(crate) fn done() -> Step {
    raw("data: [DONE]\n\n")
}

/// The error frame with which LiteLLM ends a stream when its provider fails.
pub(crate) fn error_frame(message: &str) -> Step {
    let error = json!({ "message": message, "type": null, "param": null, "code": "500" });
    event(&json!({ "error": error }))
}

/// Raw bytes of the body.
pub(crate) fn raw(bytes: impl AsRef<[u8]>) -> Step {
    Step::Send(bytes.as_ref().to_vec())
}

/// One `data:` event.
pub(crate) fn event(value: &Value) -> Step {
    raw(format!("data: {value}\n\n"))
}

/// Repeats one step's bytes until the peer leaves.
pub(crate) fn flood(step: Step) -> Step {
    let Step::Send(bytes) = step else { panic!("only bytes can flood") };
    Step::Flood(bytes)
}

/// Waits until the test opens this gate.
pub(crate) fn gate(name: &str) -> Step {
    Step::Gate(name.to_owned())
}

/// The end of an answer: reason, usage, `[DONE]`.
pub(crate) fn end(reason: &str) -> Vec<Step> {
    vec![finish(reason), usage(10, 5), done()]
}

/// A whole answer of text.
pub(crate) fn says(answer: &str) -> Vec<Step> {
    [vec![text(answer)], end("stop")].concat()
}

/// A whole round of calls, each `(id, name, arguments)`.
pub(crate) fn calls(calls: &[(&str, &str, Value)]) -> Vec<Step> {
    let calls = calls.iter().zip(0_u64..);
    let steps = calls.flat_map(|((id, name, arguments), index)| call(index, id, name, arguments));
    steps.chain(end("tool_calls")).collect()
}

/// A whole completion with this message.
pub(crate) fn whole(message: &Value, reason: &str) -> Value {
    json!({
        "id": "chatcmpl-upstream",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "scripted-1",
        "choices": [{ "index": 0, "message": message, "logprobs": null, "finish_reason": reason }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 },
    })
}

/// An answer that is not a stream: a status and a JSON body.
pub(crate) fn status(status: u16, body: &Value) -> Vec<Step> {
    vec![Step::Answer { status, headers: Vec::new(), body: body.to_string().into_bytes() }]
}

/// A recording of `tests/streams`, byte for byte, in pieces of `size` bytes (0: in one
/// piece). A recorded refusal is sent with its status.
pub(crate) fn recording(name: &str, size: usize) -> Vec<Step> {
    let bytes = fs::read(Path::new("tests/streams").join(name)).expect("a recording");
    let refused = name.strip_suffix(".json").and_then(|name| name.rsplit_once('.'));
    if let Some((_, status)) = refused {
        let status = status.parse().expect("a status in the name");
        return vec![Step::Answer { status, headers: Vec::new(), body: bytes }];
    }
    let size = if size == 0 { bytes.len() } else { size };
    bytes.chunks(size.max(1)).map(raw).collect()
}

fn chunk(choices: &Value, usage: Option<Value>) -> Step {
    let mut chunk = json!({
        "id": "chatcmpl-upstream",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "scripted-1",
        "choices": choices,
    });
    if let Some(usage) = usage {
        chunk["usage"] = usage;
    }
    event(&chunk)
}
