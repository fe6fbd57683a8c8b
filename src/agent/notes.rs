//! Adds text of ours to a message of the transcript.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::json::{self, Object};

/// The message with the text behind its own.
pub(crate) fn with_note_behind(message: &RawValue, note: &str) -> Box<RawValue> {
    with_note(message, note, |text| format!("{text}\n\n{note}"), Vec::push)
}

/// The message with the note in its text, or as a part of its own. `join` and `add` say where.
/// A message without content gets it as its content; what is no object stays as it is.
pub(crate) fn with_note(
    message: &RawValue,
    note: &str,
    join: impl Fn(&str) -> String,
    add: impl Fn(&mut Vec<Value>, Value),
) -> Box<RawValue> {
    let Some(object) = Object::from_raw(message) else { return message.to_owned() };
    let content =
        object.get("content").and_then(|content| serde_json::from_str(content.get()).ok());
    let content = match content {
        Some(Value::Array(mut parts)) => {
            add(&mut parts, json!({ "type": "text", "text": note }));
            Value::Array(parts)
        }
        Some(Value::String(text)) => join(&text).into(),
        _ => note.into(),
    };
    object.with(&[("content", Some(&json::raw(content.to_string())))])
}
