//! A turn's events as one unstreamed completion.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::encode::{Envelope, summary, usage};
use crate::agent::events::{ClientCallDelta, Finished, RawDelta, TurnEvent};

/// What has come so far.
#[derive(Debug, Default)]
pub(super) struct Collected {
    content: String,
    members: IndexMap<String, String>,
    raw: Map<String, Value>,
    logprobs: Map<String, Value>,
    calls: Vec<(String, String, String)>,
}

impl Collected {
    /// Takes every event but the terminal one; progress is not shown here.
    pub(super) fn push(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::Text(text) => self.content.push_str(&text),
            TurnEvent::Member { name, text } => {
                self.members.entry(name).or_default().push_str(&text);
            }
            TurnEvent::Raw(delta) => self.push_raw(*delta),
            TurnEvent::ClientCall(call) => self.push_call(*call),
            _ => {}
        }
    }

    fn push_raw(&mut self, delta: RawDelta) {
        self.content.push_str(delta.text.as_deref().unwrap_or_default());
        for (name, value) in delta.members {
            self.raw.insert(name, serde_json::from_str(value.get()).unwrap_or_default());
        }
        let logprobs: Option<Map<String, Value>> =
            delta.logprobs.and_then(|raw| serde_json::from_str(raw.get()).ok());
        for (name, value) in logprobs.unwrap_or_default() {
            match (self.logprobs.get_mut(&name), value) {
                (Some(Value::Array(known)), Value::Array(more)) => known.extend(more),
                (_, value) => {
                    self.logprobs.insert(name, value);
                }
            }
        }
    }

    fn push_call(&mut self, call: ClientCallDelta) {
        if let Some((id, name)) = call.head {
            self.calls.push((id, name, String::new()));
        }
        if let Some((_, _, arguments)) = self.calls.get_mut(call.index) {
            arguments.push_str(&call.arguments);
        }
    }

    /// The `chat.completion` object.
    pub(super) fn into_completion(self, envelope: &Envelope, finished: &Finished) -> Value {
        let has_calls = !self.calls.is_empty();
        let content = if self.content.is_empty() && has_calls {
            Value::Null
        } else {
            Value::String(self.content)
        };
        let mut message = json!({ "role": "assistant", "content": content });
        for (name, text) in self.members {
            message[name] = Value::String(text);
        }
        for (name, value) in self.raw {
            message[name] = value;
        }
        if has_calls {
            message["tool_calls"] = self.calls.into_iter().map(call_entry).collect();
        }
        let logprobs =
            if self.logprobs.is_empty() { Value::Null } else { Value::Object(self.logprobs) };
        json!({
            "id": envelope.id,
            "object": "chat.completion",
            "created": envelope.created,
            "model": envelope.model,
            "choices": [{
                "index": 0,
                "message": message,
                "logprobs": logprobs,
                "finish_reason": finished.reason.as_str(),
            }],
            "usage": usage(finished),
            "toolhand": summary(&finished.summary),
        })
    }
}

fn call_entry((id, name, arguments): (String, String, String)) -> Value {
    json!({
        "id": id,
        "type": "function",
        "function": { "name": name, "arguments": arguments },
    })
}
