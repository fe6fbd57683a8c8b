//! Classifies the parts of a `content` that came as a list.

use serde_json::Value;
use serde_json::value::RawValue;

use super::events::{RawDelta, TurnEvent};

/// One part of a message's content.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Refusal(&'a str),
    /// Never sent to the client, like all lists of reasoning.
    Reasoning,
    Picture,
    Other,
}

impl<'a> Part<'a> {
    /// Classifies a part by its `type`.
    pub(super) fn from_value(part: &'a Value) -> Self {
        let text = |name: &str| part.get(name).and_then(Value::as_str);
        match part.get("type").and_then(Value::as_str) {
            _ if part.is_string() => Self::Text(part.as_str().unwrap_or_default()),
            Some("text" | "output_text") => text("text").map_or(Self::Other, Self::Text),
            Some("refusal") => text("refusal").map_or(Self::Other, Self::Refusal),
            Some("thinking" | "redacted_thinking" | "reasoning") => Self::Reasoning,
            Some("image_url") => Self::Picture,
            _ => Self::Other,
        }
    }
}

/// The text of a part that has no other members of meaning.
pub(super) fn plain_text(part: &Value) -> Option<&str> {
    let Part::Text(text) = Part::from_value(part) else { return None };
    let is_plain = |name: &String| matches!(name.as_str(), "type" | "text" | "index");
    part.as_object().is_none_or(|members| members.keys().all(is_plain)).then_some(text)
}

/// The event that sends a part to the client. Clients expect `content` to be a text, so images
/// go into the member where clients look for them, and other parts into `content_parts`.
pub(super) fn for_client(raw: &RawValue) -> Option<TurnEvent> {
    let part = serde_json::from_str(raw.get()).ok()?;
    let list = |name: &str| {
        let entries = RawValue::from_string(format!("[{}]", raw.get())).ok()?;
        let members = vec![(name.to_owned(), entries)];
        Some(TurnEvent::Raw(Box::new(RawDelta { text: None, members, logprobs: None })))
    };
    match Part::from_value(&part) {
        Part::Text("") | Part::Refusal("") | Part::Reasoning => None,
        Part::Text(text) => Some(TurnEvent::Text(text.to_owned())),
        Part::Refusal(text) => {
            Some(TurnEvent::Member { name: "refusal".to_owned(), text: text.to_owned() })
        }
        Part::Picture => list("images"),
        Part::Other => list("content_parts"),
    }
}
