//! Speaks Ollama's format: `POST /api/chat`, streamed as one JSON object a line.

use serde_json::{Value, json};

use super::{Exchange, Native, Said, by_position, list};

pub(super) fn stream(said: &Said) -> Native {
    let message = match said {
        Said::Text(text) => json!({ "role": "assistant", "content": text }),
        Said::Calls(calls) => {
            let calls: Vec<Value> = calls.iter().map(call).collect();
            json!({ "role": "assistant", "content": "", "tool_calls": calls })
        }
    };
    let created = "2026-01-01T00:00:00Z";
    let said = json!({
        "model": "scripted", "created_at": created, "message": message, "done": false,
    });
    let end = json!({
        "model": "scripted", "created_at": created,
        "message": { "role": "assistant", "content": "" }, "done": true, "done_reason": "stop",
        "prompt_eval_count": 10, "eval_count": 5, "total_duration": 1, "load_duration": 1,
        "prompt_eval_duration": 1, "eval_duration": 1,
    });
    let pieces = [said, end].map(|line| format!("{line}\n")).to_vec();
    Native { content_type: "application/x-ndjson", pieces }
}

/// A call, whole and without an id.
fn call((name, arguments): &(&str, Value)) -> Value {
    json!({ "function": { "name": name, "arguments": arguments } })
}

/// Pairs by position.
pub(super) fn exchanges(body: &Value) -> Vec<Exchange> {
    let calls =
        list(body, "messages").filter_map(|message| message["tool_calls"].as_array()).flatten();
    let calls = calls.map(|call| &call["function"]);
    let calls = calls.map(|call| (call["name"].clone(), call["arguments"].clone()));
    let answers = list(body, "messages").filter(|message| message["role"] == "tool");
    by_position(calls.collect(), answers.map(|answer| answer["content"].clone()).collect())
}
