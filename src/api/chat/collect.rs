//! Collects the events of a turn into one unstreamed completion.

use serde_json::{Map, Value};

use super::encode::{OpenAsks, REASONING};
use crate::agent::events::{ClientCallDelta, RawDelta, TurnEvent};
use crate::agent::message;
use crate::openai::chunk::CallKind;
use crate::sessions::request::Progress;

/// What the events have brought so far.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) content: String,
    pub(super) members: Map<String, Value>,
    pub(super) logprobs: Map<String, Value>,
    pub(super) calls: Vec<Call>,
    /// What a person is asked.
    pub(super) asks: OpenAsks,
    progress: Progress,
    /// Whether the reasoning collected last is a paragraph of its own.
    paragraph_has_ended: bool,
}

/// A call of one of the client's own tools.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) kind: CallKind,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

impl Collected {
    pub(super) fn new(progress: Progress) -> Self {
        Self {
            content: String::new(),
            members: Map::new(),
            logprobs: Map::new(),
            calls: Vec::new(),
            asks: OpenAsks::default(),
            progress,
            paragraph_has_ended: false,
        }
    }

    /// Takes every event but the terminal one. Progress is not part of a completion.
    pub(super) fn push(&mut self, event: TurnEvent) {
        self.asks.note(&event);
        match event {
            TurnEvent::Text(text) => self.content.push_str(&text),
            TurnEvent::TextBeforeCalls(text) => self.push_text_before_calls(&text),
            TurnEvent::Member { name, text } => self.push_member(name, text),
            TurnEvent::Raw(delta) => self.push_raw(*delta),
            TurnEvent::ClientCall(call) => self.push_call(*call),
            _ => {}
        }
    }

    /// Makes what the model said before its calls a paragraph of its reasoning.
    fn push_text_before_calls(&mut self, text: &str) {
        if self.progress == Progress::None {
            return;
        }
        self.paragraph_has_ended |= self.members.contains_key(REASONING);
        self.push_member(REASONING.to_owned(), text.to_owned());
        self.paragraph_has_ended = true;
    }

    fn push_member(&mut self, name: String, mut text: String) {
        if name == REASONING && std::mem::take(&mut self.paragraph_has_ended) {
            text.insert_str(0, "\n\n");
        }
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
}
