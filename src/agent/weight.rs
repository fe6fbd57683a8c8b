//! Roughly what a round keeps of a chunk, in bytes.

use indexmap::IndexMap;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::openai::chunk::CallDelta;

/// What a call takes besides its texts.
pub(super) const CALL: usize = 1024;

/// What one value takes besides its text, be it as short as `0`.
const VALUE: usize = 32;

pub(super) fn of(
    content: Option<&str>,
    members: &IndexMap<String, Box<RawValue>>,
    calls: &[CallDelta],
) -> usize {
    let members = members.iter().map(|(name, raw)| name.len() + parsed(raw));
    content.map_or(0, str::len) + members.sum::<usize>() + calls.iter().map(of_call).sum::<usize>()
}

/// The parts of a content that came as a list.
pub(super) fn of_parts(parts: &[Box<RawValue>]) -> usize {
    parts.iter().map(|part| parsed(part)).sum()
}

/// A text is kept as long as it is. What is no text is kept in parts, the smallest of
/// which is written in two bytes.
fn parsed(raw: &RawValue) -> usize {
    let raw = raw.get();
    if raw.starts_with('"') { raw.len() } else { raw.len() * VALUE / 2 }
}

fn of_call(delta: &CallDelta) -> usize {
    let members = delta.members.iter().chain(&delta.function_members);
    delta.arguments.as_ref().map_or(0, String::len)
        + members.map(|(name, value)| name.len() + of_value(value)).sum::<usize>()
}

fn of_value(value: &Value) -> usize {
    VALUE
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(of_value).sum(),
            Value::Object(members) => {
                members.iter().map(|(name, value)| name.len() + of_value(value)).sum()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_what_is_kept_and_not_how_it_was_sent() {
        let members = serde_json::from_str(r#"{"a": "text", "list": [0,0,0]}"#).unwrap();
        assert_eq!(of(Some("hello"), &members, &[]), 5 + 1 + 6 + 4 + 7 * 16);

        let call = CallDelta {
            index: Some(0),
            arguments: Some("{}".to_owned()),
            members: [("m".to_owned(), json!([1, "two"]))].into_iter().collect(),
            ..CallDelta::default()
        };
        assert_eq!(of(None, &IndexMap::new(), &[call]), 2 + 1 + 3 * 32 + 3);
    }
}
