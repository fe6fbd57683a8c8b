//! Serialises one round for upstream: the assistant's message and the answers to its calls.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{AnsweredCall, Exchange};
use crate::agent::message;
use crate::agent::settings::AskedModel;

/// The length of an id that replaces another model's. Mistral takes exactly nine letters and
/// digits, OpenAI at most forty characters.
const REPLACED_ID_CHARS: usize = 9;

/// One serialised round. Only one form is kept: a turn never returns to a model it has left,
/// and a model that has refused reasoning is sent none again, so what is removed is never
/// needed later.
#[derive(Debug)]
pub(super) struct WrittenRound {
    /// The messages, with a leading comma unless they are the first of the request.
    bytes: Bytes,
    /// The model that wrote the round.
    model: String,
    form: Form,
    has_reasoning: bool,
}

/// How much of what the model sent is kept. The order matters: a round only moves down this
/// list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// With every member that its deltas brought.
    Whole,
    WithoutReasoning,
    /// For another model, which knows neither the ids nor the members that belong to them.
    Foreign,
}

impl WrittenRound {
    pub(super) fn new(exchange: Exchange, is_first: bool) -> Self {
        let Exchange { message, calls, model } = exchange;
        let has_reasoning = message.has_reasoning();
        let mut assistant = json!({ "role": "assistant", "content": message.content() });
        for (name, value) in message.members(true) {
            assistant[name] = value.clone();
        }
        let (entries, answers): (Vec<_>, Vec<_>) = calls.into_iter().map(entry_and_answer).unzip();
        assistant["tool_calls"] = entries.into();
        let messages: Vec<Value> = std::iter::once(assistant).chain(answers).collect();
        let bytes = write(&messages, is_first);
        Self { bytes, model, form: Form::Whole, has_reasoning }
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    pub(super) fn has_reasoning(&self) -> bool {
        self.has_reasoning && self.form == Form::Whole
    }

    /// Removes what `model` must not be sent. `number` is the round's number in the turn; it
    /// keeps replaced ids of different rounds apart.
    pub(super) fn adapt_to(&mut self, model: &AskedModel, number: usize) {
        let form = match () {
            () if self.model != model.name => Form::Foreign,
            () if model.takes_reasoning => Form::Whole,
            () => Form::WithoutReasoning,
        };
        // What was removed cannot be brought back.
        if form <= self.form {
            return;
        }
        self.form = form;
        if form == Form::Foreign || self.has_reasoning {
            self.rewrite(|messages| {
                drop_reasoning(&mut messages[0]);
                let content = messages[0]["content"].take();
                messages[0]["content"] = message::content_without_reasoning(content);
                if form == Form::Foreign {
                    rename_calls(messages, number);
                }
            });
        }
    }

    fn rewrite(&mut self, change: impl FnOnce(&mut [Value])) {
        let text = self.bytes.strip_prefix(b",").unwrap_or(&self.bytes);
        let is_first = text.len() == self.bytes.len();
        let messages: Result<Vec<Value>, _> = serde_json::from_slice(&[b"[", text, b"]"].concat());
        let mut messages = messages.expect("we wrote it");
        change(&mut messages);
        self.bytes = write(&messages, is_first);
    }
}

/// The entry in `tool_calls` and the message that answers it.
fn entry_and_answer(call: AnsweredCall) -> (Value, Value) {
    let AnsweredCall { id, entry, answer } = call;
    (entry, json!({ "role": "tool", "tool_call_id": id, "content": answer }))
}

fn write(messages: &[Value], is_first: bool) -> Bytes {
    let mut written = Vec::new();
    for message in messages {
        if !is_first || !written.is_empty() {
            written.push(b',');
        }
        serde_json::to_writer(&mut written, message).expect("writing to memory does not fail");
    }
    written.into()
}

fn drop_reasoning(value: &mut Value) {
    if let Some(members) = value.as_object_mut() {
        members.retain(|name, _| !message::is_reasoning(name));
    }
}

/// Gives the calls fresh ids. The answers follow their message in the order of its calls.
fn rename_calls(messages: &mut [Value], round: usize) {
    let [assistant, answers @ ..] = messages else { return };
    let Some(calls) = assistant["tool_calls"].as_array_mut() else { return };
    for (slot, (call, answer)) in calls.iter_mut().zip(answers).enumerate() {
        let mut id = blake3::hash(format!("{round}/{slot}").as_bytes()).to_hex().to_string();
        id.truncate(REPLACED_ID_CHARS);
        drop_reasoning(call);
        call["id"] = json!(id);
        answer["tool_call_id"] = json!(id);
    }
}
