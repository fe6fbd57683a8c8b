//! Speaks OpenAI's format: `POST /v1/chat/completions`, streamed.

use serde_json::{Value, json};

use super::{Exchange, Native, Said, event, list};

pub(super) fn stream(said: &Said) -> Native {
    let (deltas, reason) = match said {
        Said::Text(text) => (vec![json!({ "content": text })], "stop"),
        Said::Calls(calls) => (calls.iter().enumerate().flat_map(call).collect(), "tool_calls"),
    };
    let mut events = vec![chunk(&json!([{
        "index": 0, "delta": { "role": "assistant", "content": null, "refusal": null },
        "finish_reason": null,
    }]))];
    let piece = |delta| chunk(&json!([{ "index": 0, "delta": delta, "finish_reason": null }]));
    events.extend(deltas.into_iter().map(piece));
    events.push(chunk(&json!([{ "index": 0, "delta": {}, "finish_reason": reason }])));
    let mut usage = chunk(&json!([]));
    usage["usage"] = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    events.push(usage);
    let mut pieces: Vec<String> = events.iter().map(event).collect();
    pieces.push("data: [DONE]\n\n".to_owned());
    Native { content_type: "text/event-stream", pieces }
}

fn chunk(choices: &Value) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000,
        "model": "scripted", "choices": choices,
    })
}

/// A call: its head, then its arguments in two pieces.
fn call((at, (name, arguments)): (usize, &(&str, Value))) -> [Value; 3] {
    let arguments = arguments.to_string();
    let (front, back) = arguments.split_at(arguments.len() / 2);
    let id = format!("call_{at}_{}", &blake3::hash(arguments.as_bytes()).to_hex()[..8]);
    let head = json!({
        "index": at, "id": id, "type": "function",
        "function": { "name": name, "arguments": "" },
    });
    let piece = |part| json!({ "index": at, "function": { "arguments": part } });
    [head, piece(front), piece(back)].map(|call| json!({ "tool_calls": [call] }))
}

/// Pairs by id: an answer names its call.
pub(super) fn exchanges(body: &Value) -> Vec<Exchange> {
    let answer_to = |id: &Value| {
        let mut answers = list(body, "messages").filter(|message| message["tool_call_id"] == *id);
        let answer = answers.next().unwrap_or_else(|| panic!("no answer to {id}"));
        assert_eq!(answers.next(), None, "one answer to {id}");
        &answer["content"]
    };
    let calls =
        list(body, "messages").filter_map(|message| message["tool_calls"].as_array()).flatten();
    calls
        .map(|call| {
            let function = &call["function"];
            let arguments = function["arguments"].as_str().expect("arguments are a text");
            let arguments = serde_json::from_str(arguments).expect("arguments are JSON");
            Exchange::new(&function["name"], arguments, answer_to(&call["id"]))
        })
        .collect()
}
