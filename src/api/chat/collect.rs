//! Collects the events of a turn into one unstreamed completion.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::encode::{Envelope, Extension, Figures};
use crate::agent::events::{ClientCallDelta, Finished, RawDelta, TurnEvent};
use crate::agent::message;
use crate::openai::chunk::{CallKind, RawMembers};

/// What the events have brought so far.
#[derive(Debug, Default)]
pub(super) struct Collected {
    content: String,
    members: Map<String, Value>,
    logprobs: Map<String, Value>,
    calls: Vec<Call>,
}

/// A call of one of the client's own tools.
#[derive(Debug)]
struct Call {
    kind: CallKind,
    id: String,
    name: String,
    arguments: String,
}

impl Collected {
    /// Takes every event but the terminal one. Progress is not part of a completion.
    pub(super) fn push(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::Text(text) => self.content.push_str(&text),
            TurnEvent::Member { name, text } => self.push_member(name, text),
            TurnEvent::Raw(delta) => self.push_raw(*delta),
            TurnEvent::ClientCall(call) => self.push_call(*call),
            _ => {}
        }
    }

    fn push_member(&mut self, name: String, text: String) {
        match self.members.get_mut(&name) {
            Some(Value::String(known)) => known.push_str(&text),
            _ => {
                self.members.insert(name, Value::String(text));
            }
        }
    }

    fn push_raw(&mut self, delta: RawDelta) {
        self.content.push_str(delta.text.as_deref().unwrap_or_default());
        for (name, value) in delta.members {
            let value = serde_json::from_str(value.get()).unwrap_or_default();
            match self.members.get_mut(&name) {
                Some(known) => message::join_member(&name, known, value),
                None => drop(self.members.insert(name, value)),
            }
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
            let (kind, arguments) = (call.kind, String::new());
            self.calls.push(Call { kind, id, name, arguments });
        }
        if let Some(known) = self.calls.get_mut(call.index) {
            known.arguments.push_str(&call.arguments);
        }
    }

    /// Builds the `chat.completion` object.
    pub(super) fn into_completion<'a>(
        mut self,
        envelope: &'a Envelope,
        finished: &'a Finished,
    ) -> Completion<'a> {
        let tool_calls: Vec<Value> = self.calls.into_iter().map(Call::into_entry).collect();
        let refusal = self.members.shift_remove("refusal").filter(Value::is_string);
        let is_elsewhere = !tool_calls.is_empty() || refusal.is_some();
        let message = Message {
            role: "assistant",
            content: (!(self.content.is_empty() && is_elsewhere)).then_some(self.content),
            refusal,
            members: self.members,
            tool_calls,
        };
        Completion {
            id: &envelope.id,
            object: "chat.completion",
            created: envelope.created,
            model: &envelope.model,
            choices: [Choice {
                index: 0,
                message,
                logprobs: (!self.logprobs.is_empty()).then_some(self.logprobs),
                finish_reason: finished.reason.as_str(),
            }],
            usage: Figures::from_usage(finished.usage.as_ref()),
            toolhand: Extension::from_summary(&finished.summary),
            unknown: &finished.unknown,
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice; 1],
    usage: Figures<'a>,
    toolhand: Extension<'a>,
    #[serde(flatten)]
    unknown: &'a RawMembers,
}

#[derive(Debug, Serialize)]
struct Choice {
    index: u32,
    message: Message,
    logprobs: Option<Map<String, Value>>,
    finish_reason: &'static str,
}

#[derive(Debug, Serialize)]
struct Message {
    role: &'static str,
    content: Option<String>,
    refusal: Option<Value>,
    #[serde(flatten)]
    members: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
}

impl Call {
    fn into_entry(self) -> Value {
        let (kind, text) = (self.kind.as_str(), self.kind.text());
        json!({
            "id": self.id,
            "type": kind,
            kind: { "name": self.name, text: self.arguments },
        })
    }
}
