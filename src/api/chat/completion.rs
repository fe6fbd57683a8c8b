//! Writes a turn's answer as one unstreamed completion.
//!
//! An answer that upstream gave whole is sent on as it came, except for its id, the calls that
//! were repaired, and our extension.

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::collect::{Call, Collected};
use super::encode::{Envelope, Extension, Figures};
use crate::agent::events::Finished;
use crate::openai::chunk::{ContentKind, RawMembers, WholeAnswer};
use crate::openai::usage::{Usage, has_clients_counts};

/// The `chat.completion` object.
#[derive(Debug, Serialize)]
pub(super) struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<AnswerUsage<'a>>,
    toolhand: Extension<'a>,
    #[serde(flatten)]
    members: &'a RawMembers,
}

#[derive(Debug, Serialize)]
struct Choice<'a> {
    index: u32,
    message: Message<'a>,
    logprobs: Option<Logprobs<'a>>,
    finish_reason: &'static str,
    #[serde(flatten)]
    members: Option<&'a RawMembers>,
}

#[derive(Debug, Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Option<String>,
    refusal: Option<Value>,
    #[serde(flatten)]
    joined: Map<String, Value>,
    /// Members of a whole answer, as upstream wrote them.
    #[serde(flatten)]
    raw: BorrowedMembers<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
}

/// Members that the answer of upstream holds.
type BorrowedMembers<'a> = IndexMap<&'a str, &'a RawValue>;

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Logprobs<'a> {
    Joined(Map<String, Value>),
    Verbatim(&'a RawValue),
}

/// The usage of an answer.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum AnswerUsage<'a> {
    Summed(Figures<'a>),
    Verbatim(&'a RawValue),
}

impl<'a> Completion<'a> {
    pub(super) fn new(
        collected: &'a mut Collected,
        envelope: &'a Envelope,
        finished: &'a Finished,
    ) -> Self {
        let whole = finished.whole.as_deref();
        let content = std::mem::take(&mut collected.content);
        let members = std::mem::take(&mut collected.members);
        let logprobs = std::mem::take(&mut collected.logprobs);
        let calls = std::mem::take(&mut collected.calls);
        let message = Message::new(content, members, calls, whole);
        let logprobs = match whole {
            Some(whole) => whole.logprobs.as_deref().map(Logprobs::Verbatim),
            None => (!logprobs.is_empty()).then_some(Logprobs::Joined(logprobs)),
        };
        Self {
            id: &envelope.id,
            object: "chat.completion",
            created: whole.and_then(|whole| whole.created).unwrap_or(envelope.created),
            model: whole.and_then(|whole| whole.model.as_deref()).unwrap_or(&envelope.model),
            choices: [Choice {
                index: 0,
                message,
                logprobs,
                finish_reason: finished.reason.as_str(),
                members: whole.map(|whole| &whole.choice),
            }],
            usage: usage_of(whole, finished.usage.as_ref()),
            toolhand: Extension::new(finished, &collected.asks),
            members: whole.map_or(&finished.unknown, |whole| &whole.members),
        }
    }
}

impl<'a> Message<'a> {
    fn new(
        content: String,
        mut joined: Map<String, Value>,
        calls: Vec<Call>,
        whole: Option<&'a WholeAnswer>,
    ) -> Self {
        let refusal = joined.shift_remove("refusal").filter(Value::is_string);
        let mut raw = BorrowedMembers::new();
        if let Some(whole) = whole {
            raw = whole.message.iter().map(|(name, value)| (name.as_str(), &**value)).collect();
            // Upstream's own bytes are sent, except where the events may have brought more: texts
            // of earlier rounds, and members made from the parts of a `content` that is a list.
            joined.retain(|name, value| {
                let may_be_more = value.is_string() || whole.content == ContentKind::List;
                may_be_more || !raw.contains_key(name.as_str())
            });
            raw.retain(|name, _| !joined.contains_key(*name));
        }
        let is_null = match whole {
            Some(whole) => whole.content == ContentKind::Null,
            None => !calls.is_empty(),
        };
        let is_left_out = refusal.is_some() || content.is_empty() && is_null;
        Self {
            role: "assistant",
            content: (!is_left_out).then_some(content),
            refusal,
            joined,
            raw,
            tool_calls: entries(calls, whole.map_or(&[], |whole| &whole.calls)),
        }
    }
}

/// The entries of `tool_calls`, each with the further members of the entry it came from.
fn entries(calls: Vec<Call>, sent: &[Box<RawValue>]) -> Vec<Value> {
    let sent: Vec<Value> =
        sent.iter().map(|entry| serde_json::from_str(entry.get()).unwrap_or_default()).collect();
    let is_one_to_one = sent.len() == calls.len();
    let of_call = |position: usize, call: &Call| {
        let mut same = sent.iter().filter(|entry| entry["id"] == call.id.as_str());
        match (same.next(), same.next()) {
            (Some(entry), None) => Some(entry),
            _ => sent.get(position).filter(|_| is_one_to_one),
        }
    };
    let calls = calls.into_iter().enumerate();
    calls
        .map(|(position, call)| {
            let sent = of_call(position, &call).filter(|entry| entry.is_object()).cloned();
            written(call, sent.unwrap_or_else(|| json!({})))
        })
        .collect()
}

/// The call, written over the entry in which it came.
fn written(call: Call, mut entry: Value) -> Value {
    let (kind, text) = (call.kind.as_str(), call.kind.text());
    entry["id"] = call.id.into();
    entry["type"] = kind.into();
    if !entry[kind].is_object() {
        entry[kind] = json!({});
    }
    entry[kind]["name"] = call.name.into();
    entry[kind][text] = call.arguments.into();
    entry
}

/// The usage of a whole answer, as it came if it is that of all requests; otherwise their sum.
fn usage_of<'a>(whole: Option<&'a WholeAnswer>, sum: Option<&'a Usage>) -> Option<AnswerUsage<'a>> {
    let Some(whole) = whole else { return Some(AnswerUsage::Summed(Figures::from_usage(sum))) };
    let of_all = whole.usage.as_deref().filter(|raw| {
        let counts: Map<String, Value> = serde_json::from_str(raw.get()).unwrap_or_default();
        has_clients_counts(&counts) && Usage::read(counts).as_ref() == sum
    });
    let summed = || sum.map(|sum| AnswerUsage::Summed(Figures::Summed(sum)));
    of_all.map(AnswerUsage::Verbatim).or_else(summed)
}

#[cfg(test)]
mod tests;
