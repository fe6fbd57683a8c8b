//! Speaks Gemini's format: `POST …:streamGenerateContent?alt=sse`.

use serde_json::{Value, json};

use super::{Exchange, NativeStream, Said, by_position, event, list};

pub(super) fn stream(said: &Said) -> NativeStream {
    let parts = match said {
        Said::Text(text) => vec![json!({ "text": text })],
        Said::Calls(calls) => calls.iter().enumerate().map(call).collect(),
    };
    let candidate = json!({
        "index": 0, "finishReason": "STOP", "content": { "role": "model", "parts": parts },
    });
    let usage = json!({ "promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15 });
    let answer = json!({
        "candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted",
    });
    NativeStream { content_type: "text/event-stream", pieces: vec![event(&answer)] }
}

/// What the model wants back with its first call of a round: base64 of any bytes.
const SIGNATURE: &str = "cXVpbmNlcysvYW5kPQ==";

/// A call, whole and without an id. The first one of a round is signed.
fn call((at, (name, arguments)): (usize, &(&str, Value))) -> Value {
    let mut part = json!({ "functionCall": { "name": name, "args": arguments } });
    if at == 0 {
        part["thoughtSignature"] = SIGNATURE.into();
    }
    part
}

pub(super) fn tools(body: &Value) -> Vec<Value> {
    let lists = list(body, "tools").filter_map(|tools| tools["function_declarations"].as_array());
    lists.flatten().cloned().collect()
}

/// Pairs by position. LiteLLM makes ids up, and signatures where the model's got lost.
pub(super) fn exchanges(body: &Value) -> Vec<Exchange> {
    let parts = |member: &'static str| {
        let parts =
            list(body, "contents").filter_map(|content| content["parts"].as_array()).flatten();
        parts.filter_map(move |part| part.get(member))
    };
    let calls = parts("function_call").map(|call| (call["name"].clone(), call["args"].clone()));
    for round in list(body, "contents").filter(|content| content["role"] == "model") {
        let first = &round["parts"][0];
        let is_call = first.get("function_call").is_some();
        assert!(!is_call || first["thoughtSignature"] == SIGNATURE, "it is signed: {round}");
    }
    let names = parts("function_call").map(|call| &call["name"]);
    let answered = parts("function_response").map(|answer| &answer["name"]);
    assert!(names.eq(answered), "an answer has its call's name: {body}");
    // An answer that is a JSON object is the response itself.
    let answer_in = |response: &Value| response.get("content").unwrap_or(response).clone();
    let answers = parts("function_response").map(|answer| answer_in(&answer["response"]));
    by_position(calls.collect(), answers.collect())
}
