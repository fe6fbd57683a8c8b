//! Estimates how much memory a round keeps of a chunk, in bytes.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::openai::chunk::{CallDelta, Delta};

/// The memory of a call beside its texts.
pub(super) const CALL_OVERHEAD: usize = 1024;

/// The memory of one JSON value beside its text, even of one as short as `0`.
const VALUE_OVERHEAD: usize = size_of::<Value>();

/// The memory of an object's member beside its name and its value.
const MEMBER_OVERHEAD: usize = 64;

/// The part of an id or a name that [`CALL_OVERHEAD`] already counts.
const COUNTED_IN_CALL: usize = 64;

/// How often an id is kept: in the call, and in the assembler's indexes.
const ID_COPIES: usize = 5;

/// The size of a delta's text and members, and of the calls that it brought.
pub(super) fn size_of_delta(delta: &Delta, calls: &[CallDelta]) -> usize {
    let members = delta.members.iter().map(|(name, raw)| name.len() + size_of_parsed(raw));
    delta.content.as_ref().map_or(0, String::len)
        + members.sum::<usize>()
        + delta.parts.iter().map(|part| size_of_parsed(part)).sum::<usize>()
        + calls.iter().map(size_of_call).sum::<usize>()
}

/// The size of a value after parsing. A string keeps its length. In anything else, each comma
/// or opening bracket outside a string begins a value, and each colon a member.
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
            b':' if !is_text => size += MEMBER_OVERHEAD,
            _ => {}
        }
    }
    size
}

fn size_of_call(delta: &CallDelta) -> usize {
    let members = delta.members.iter().chain(&delta.function_members);
    let beyond = |text: &Option<String>| {
        text.as_ref().map_or(0, |text| text.len().saturating_sub(COUNTED_IN_CALL))
    };
    delta.arguments.as_ref().map_or(0, String::len)
        + ID_COPIES * (beyond(&delta.id) + beyond(&delta.name))
        + members
            .map(|(name, value)| MEMBER_OVERHEAD + name.len() + size_of_value(value))
            .sum::<usize>()
}

/// The size of a value with all that it contains.
pub(super) fn size_of_value(value: &Value) -> usize {
    VALUE_OVERHEAD
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(size_of_value).sum(),
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| MEMBER_OVERHEAD + name.len() + size_of_value(value))
                .sum(),
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
        let delta = Delta { content: Some("hello".to_owned()), members, ..Delta::default() };
        assert_eq!(size_of_delta(&delta, &[]), 5 + 1 + 6 + 4 + 7 + 4 * VALUE_OVERHEAD);
        let members = serde_json::from_str(r#"{"m": {"t": "a, [\"{:"}}"#).unwrap();
        let inner = r#"{"t": "a, [\"{:"}"#.len();
        let delta = Delta { members, ..Delta::default() };
        assert_eq!(size_of_delta(&delta, &[]), 1 + inner + 2 * VALUE_OVERHEAD + MEMBER_OVERHEAD);

        let call = CallDelta {
            index: Some(0),
            id: Some("c".repeat(1064)),
            arguments: Some("{}".to_owned()),
            members: [("m".to_owned(), json!([1, "two"]))].into_iter().collect(),
            ..CallDelta::default()
        };
        let member = MEMBER_OVERHEAD + 1 + 3 * VALUE_OVERHEAD + 3;
        let size = size_of_delta(&Delta::default(), &[call]);
        assert_eq!(size, 2 + ID_COPIES * 1000 + member);
    }
}
