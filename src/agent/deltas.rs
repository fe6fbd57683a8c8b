//! Selects which members of the model's deltas the client sees.

use serde_json::value::RawValue;

use super::events::{RawDelta, TurnEvent};
use crate::json;
use crate::openai::chunk::{RawMembers, first_byte_of};

/// Members that are never sent to the client: lists of reasoning, members that a provider
/// expects back, and the obsolete `function_call`.
const WITHHELD_MEMBERS: [&str; 5] = [
    "thinking_blocks",
    "reasoning_details",
    "reasoning_items",
    "provider_specific_fields",
    "function_call",
];

/// The events that pass on one chunk's delta, but for its tool calls.
pub(super) fn for_client(
    content: Option<String>,
    members: RawMembers,
    logprobs: Option<Box<RawValue>>,
) -> Vec<TurnEvent> {
    let mut events = Vec::new();
    let mut raw = Vec::new();
    for (name, value) in members {
        if WITHHELD_MEMBERS.contains(&name.as_str()) {
            continue;
        }
        match text_of(&value) {
            Some(_) if !has_known_type(&name, &value) => {}
            Some(text) if text.is_empty() => {}
            Some(text) => events.push(TurnEvent::Member { name, text }),
            None if has_known_type(&name, &value) && is_readable(&value) => raw.push((name, value)),
            None => {}
        }
    }
    let text = content.filter(|text| !text.is_empty());
    if logprobs.is_some() || !raw.is_empty() {
        let delta = RawDelta { text, members: raw, logprobs };
        events.push(TurnEvent::Raw(Box::new(delta)));
    } else {
        events.extend(text.map(TurnEvent::Text));
    }
    events
}

/// Whether clients find a value of the type that they expect, or know nothing of the member.
fn has_known_type(name: &str, value: &RawValue) -> bool {
    let first = if name == "refusal" { Some(b'"') } else { first_byte_of(name) };
    first.is_none_or(|first| value.get().as_bytes().first() == Some(&first))
}

/// The value where it is a JSON string.
fn text_of(value: &RawValue) -> Option<String> {
    value.get().starts_with('"').then(|| serde_json::from_str(value.get()).ok())?
}

/// Whether the value parses: it may be nested too deeply for a client's parser.
pub(super) fn is_readable(value: &RawValue) -> bool {
    json::kept_value(value).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: Option<&str>, members: &str, expected: &str) {
        let members = serde_json::from_str(members).unwrap();
        let events = for_client(content.map(str::to_owned), members, None);
        assert_eq!(format!("{events:?}"), expected);
    }

    #[test]
    fn texts_pass_and_empty_ones_do_not() {
        check(Some("hi"), "{}", r#"[Text("hi")]"#);
        check(Some(""), r#"{"reasoning_content": ""}"#, "[]");
        check(
            None,
            r#"{"reasoning_content": "hm", "refusal": "no"}"#,
            r#"[Member { name: "reasoning_content", text: "hm" }, Member { name: "refusal", text: "no" }]"#,
        );
    }

    #[test]
    fn lists_of_reasoning_stay_here_and_others_pass() {
        check(
            None,
            r#"{"thinking_blocks": [], "reasoning_details": [{}], "provider_specific_fields": {}}"#,
            "[]",
        );
        check(
            None,
            r#"{"annotations": [1]}"#,
            r#"[Raw(RawDelta { text: None, members: [("annotations", RawValue([1]))], logprobs: None })]"#,
        );
    }

    #[test]
    fn what_is_too_deep_to_be_read_stays_here() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        check(None, &format!(r#"{{"deep": {deep}}}"#), "[]");
    }

    #[test]
    fn members_of_another_type_than_clients_expect_stay_here() {
        check(None, r#"{"refusal": 0, "annotations": {}, "images": "x", "audio": []}"#, "[]");
    }

    #[test]
    fn unknown_members_without_lists_pass_as_they_came() {
        check(
            None,
            r#"{"audio": {"id": 1.10}}"#,
            r#"[Raw(RawDelta { text: None, members: [("audio", RawValue({"id": 1.10}))], logprobs: None })]"#,
        );
    }
}
