//! Reads the messages of a request. Members that have another type than they should are
//! taken as missing: what clients send back is not always what they got.

use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Debug)]
pub(super) struct Message {
    pub(super) role: String,
    /// The text parts, one on each line.
    pub(super) content: String,
    /// Whether it holds pictures.
    pub(super) has_pictures: bool,
    pub(super) tool_calls: Vec<MadeCall>,
    tool_call_id: String,
}

/// A call that an assistant message made.
#[derive(Debug)]
pub(super) struct MadeCall {
    id: String,
    pub(super) tool: String,
    /// JSON, unless a client changed it.
    pub(super) arguments: String,
}

/// A call and what it was answered.
#[derive(Debug)]
pub(super) struct Answered<'a> {
    pub(super) call: &'a MadeCall,
    pub(super) answer: Option<&'a str>,
}

/// The calls of these messages in order. Each takes the first answer to its id that no earlier
/// call took.
pub(super) fn answered(messages: &[Message]) -> Vec<Answered<'_>> {
    let mut answers: HashMap<&str, VecDeque<&str>> = HashMap::new();
    for message in messages.iter().filter(|message| message.role == "tool") {
        answers.entry(&message.tool_call_id).or_default().push_back(&message.content);
    }
    let calls = messages.iter().flat_map(|message| &message.tool_calls);
    let answered = calls.map(|call| {
        let answer = answers.get_mut(call.id.as_str()).and_then(VecDeque::pop_front);
        Answered { call, answer }
    });
    answered.collect()
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(default)]
            role: Value,
            #[serde(default)]
            content: Value,
            #[serde(default)]
            tool_calls: Value,
            #[serde(default)]
            tool_call_id: Value,
        }
        let raw = Raw::deserialize(deserializer)?;
        let calls = raw.tool_calls.as_array().into_iter().flatten();
        Ok(Self {
            role: text(&raw.role),
            has_pictures: has_pictures(&raw.content),
            content: text_of_content(raw.content),
            tool_calls: calls.filter_map(MadeCall::from_json).collect(),
            tool_call_id: text(&raw.tool_call_id),
        })
    }
}

impl MadeCall {
    fn from_json(call: &Value) -> Option<Self> {
        let made = call.get("function").or_else(|| call.get("custom"))?;
        let arguments = match made.get("arguments").or_else(|| made.get("input")) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(object) => object.to_string(),
        };
        let tool = made.get("name")?.as_str()?.to_owned();
        Some(Self { id: text(&call["id"]), tool, arguments })
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn has_pictures(content: &Value) -> bool {
    let parts = content.as_array().into_iter().flatten();
    parts.into_iter().any(|part| part["type"] == "image_url")
}

/// The text of a string, or of the text parts of a list. Other parts are ignored.
fn text_of_content(content: Value) -> String {
    match content {
        Value::String(text) => text,
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(json: Value) -> Vec<Message> {
        serde_json::from_value(json).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "`json!` at the call reads better")]
    fn call(id: Value, arguments: Value) -> Value {
        json!({ "id": id, "function": { "name": "t", "arguments": arguments } })
    }

    #[test]
    fn equal_ids_take_their_answers_in_order() {
        let messages = messages(json!([
            { "role": "assistant", "tool_calls": [call("1".into(), "{}".into())] },
            { "role": "tool", "tool_call_id": "1", "content": "one" },
            { "role": "assistant", "tool_calls": [call("1".into(), "{}".into())] },
            { "role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "two"}] },
            { "role": "assistant", "tool_calls": [call("1".into(), "{}".into())] },
        ]));

        let answers: Vec<_> = answered(&messages).iter().map(|answered| answered.answer).collect();

        assert_eq!(answers, [Some("one"), Some("two"), None]);
    }

    #[test]
    fn what_is_malformed_is_missing() {
        let messages = messages(json!([
            { "role": 1, "content": { "a": 1 }, "tool_calls": "none", "tool_call_id": [] },
            { "content": [1, null, { "type": "image_url" }, { "text": "a" }, { "text": 2 }] },
            { "role": "assistant", "content": null, "tool_calls": [
                null, {}, { "function": {} }, call(Value::Null, json!({ "a": 1 })),
                { "id": "2", "custom": { "name": "c", "input": "free text" } },
            ] },
        ]));

        assert_eq!(messages[1].content, "a");
        let calls: Vec<_> = messages[2]
            .tool_calls
            .iter()
            .map(|call| (call.tool.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(calls, [("t", r#"{"a":1}"#), ("c", "free text")]);
    }
}
