//! Tells the calls of the client's tools apart: by their ids, and by what they ask, since some
//! models count `call_0` anew in each answer.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::{self, Object};

/// A hash of one call: its id, its tool and its input.
pub(crate) type CallDigest = u64;

/// The digest of an entry of `tool_calls`. A frontend may write the JSON of the arguments anew, so
/// neither their white space nor the order of their members counts.
pub(crate) fn call_digest(call: &Value) -> CallDigest {
    let kind = if call["custom"].is_object() { "custom" } else { "function" };
    let tool = &call[kind];
    let input = if kind == "custom" {
        text_of(&tool["input"]).to_owned()
    } else {
        sorted(&tool["arguments"])
    };
    let mut hasher = blake3::Hasher::new();
    for part in [text_of(&call["id"]), text_of(&tool["name"]), &input] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    let hash = hasher.finalize();
    let [first, ..] = hash.as_bytes().as_chunks::<8>().0 else { return 0 };
    u64::from_le_bytes(*first)
}

/// The text of a value that is one, else an empty text.
fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The digests of an assistant message's first `count` calls, in their order.
pub(crate) fn call_digests(message: &RawValue, count: usize) -> Vec<CallDigest> {
    let calls = Object::from_raw(message).and_then(|message| message.get("tool_calls"));
    let calls = calls.and_then(|calls| json::items(calls, count)).unwrap_or_default();
    let digest = |call: &RawValue| {
        let call: Value = serde_json::from_str(call.get()).unwrap_or_default();
        call_digest(&call)
    };
    calls.into_iter().map(digest).collect()
}

/// Arguments with the members of their objects in order.
fn sorted(arguments: &Value) -> String {
    let Some(text) = arguments.as_str() else { return String::new() };
    serde_json::from_str(text).map_or_else(
        |_| text.to_owned(),
        |mut parsed: Value| {
            parsed.sort_all_objects();
            parsed.to_string()
        },
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn function(id: &str, arguments: &str) -> Value {
        json!({ "id": id, "type": "function",
            "function": { "name": "f", "arguments": arguments } })
    }

    #[test]
    fn calls_differ_by_id_tool_and_input_and_not_by_how_json_is_written() {
        let call = function("a", r#"{"x":1,"y":{"b":2,"a":3}}"#);
        let again = function("a", r#"{ "y": {"a": 3, "b": 2}, "x": 1 }"#);
        assert_eq!(call_digest(&call), call_digest(&again));
        let custom = json!({ "id": "a", "type": "custom",
            "custom": { "name": "f", "input": "{\"x\":1}" } });
        for other in [
            function("b", r#"{"x":1,"y":{"b":2,"a":3}}"#),
            function("a", r#"{"x":2,"y":{"b":2,"a":3}}"#),
            function("a", "not JSON"),
            custom,
        ] {
            assert_ne!(call_digest(&call), call_digest(&other), "{other}");
        }
    }
}
