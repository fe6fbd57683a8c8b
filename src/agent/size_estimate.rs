//! Estimates the bytes that a round keeps of a chunk.

use indexmap::IndexMap;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::openai::chunk::CallDelta;

/// What a call takes besides its texts.
pub(super) const CALL_OVERHEAD: usize = 1024;

/// What one value takes besides its text, be it as short as `0`.
const VALUE_OVERHEAD: usize = size_of::<Value>();

/// What a member of an object takes besides its name and its value.
const MEMBER: usize = 64;

/// As much of an id or a name is counted in [`CALL_OVERHEAD`].
const USUAL: usize = 64;

/// An id is kept by the call, and by those who look for it.
const COPIES: usize = 5;

pub(super) fn size_of_delta(
    content: Option<&str>,
    members: &IndexMap<String, Box<RawValue>>,
    calls: &[CallDelta],
) -> usize {
    let members = members.iter().map(|(name, raw)| name.len() + size_of_parsed(raw));
    content.map_or(0, str::len)
        + members.sum::<usize>()
        + calls.iter().map(size_of_call).sum::<usize>()
}

/// The parts of a content that came as a list.
pub(super) fn size_of_parts(parts: &[Box<RawValue>]) -> usize {
    parts.iter().map(|part| size_of_parsed(part)).sum()
}

/// A text is kept as long as it is. What is no text is kept in parts, which stand
/// behind a comma, a colon or a bracket that is in no text.
fn size_of_parsed(raw: &RawValue) -> usize {
    let raw = raw.get();
    if raw.starts_with('"') {
        return raw.len();
    }
    let (mut is_text, mut is_escaped, mut size) = (false, false, VALUE_OVERHEAD + raw.len());
    for byte in raw.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => size += VALUE_OVERHEAD,
            b':' if !is_text => size += MEMBER,
            _ => {}
        }
    }
    size
}

fn size_of_call(delta: &CallDelta) -> usize {
    let members = delta.members.iter().chain(&delta.function_members);
    let beyond =
        |text: &Option<String>| text.as_ref().map_or(0, |text| text.len().saturating_sub(USUAL));
    delta.arguments.as_ref().map_or(0, String::len)
        + COPIES * (beyond(&delta.id) + beyond(&delta.name))
        + members.map(|(name, value)| MEMBER + name.len() + size_of_value(value)).sum::<usize>()
}

/// What a value takes with all that is in it.
pub(super) fn size_of_value(value: &Value) -> usize {
    VALUE_OVERHEAD
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(size_of_value).sum(),
            Value::Object(members) => {
                members.iter().map(|(name, value)| MEMBER + name.len() + size_of_value(value)).sum()
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
        assert_eq!(
            size_of_delta(Some("hello"), &members, &[]),
            5 + 1 + 6 + 4 + 7 + 4 * VALUE_OVERHEAD
        );
        let members = serde_json::from_str(r#"{"m": {"t": "a, [\"{:"}}"#).unwrap();
        let inner = r#"{"t": "a, [\"{:"}"#.len();
        assert_eq!(size_of_delta(None, &members, &[]), 1 + inner + 2 * VALUE_OVERHEAD + MEMBER);

        let call = CallDelta {
            index: Some(0),
            id: Some("c".repeat(1064)),
            arguments: Some("{}".to_owned()),
            members: [("m".to_owned(), json!([1, "two"]))].into_iter().collect(),
            ..CallDelta::default()
        };
        let member = MEMBER + 1 + 3 * VALUE_OVERHEAD + 3;
        assert_eq!(size_of_delta(None, &IndexMap::new(), &[call]), 2 + COPIES * 1000 + member);
    }
}
