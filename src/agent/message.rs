//! An assistant message put together from its deltas, so that it can go back
//! upstream with everything the model's next round needs.

use indexmap::IndexMap;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::parts::{self, Part};

/// What the deltas of one round have brought, but for the calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct AssistantMessage {
    /// The text; behind `parts`, where there are some.
    content: String,
    /// What was no plain text in a content that came as a list, and the text before it.
    parts: Vec<Value>,
    members: IndexMap<String, Value>,
}

/// Members that carry reasoning: some providers need them back, some refuse them.
const REASONING_MEMBERS: [&str; 6] = [
    "reasoning_content",
    "reasoning",
    "thinking_blocks",
    "reasoning_details",
    "reasoning_items",
    "provider_specific_fields",
];

/// Texts that come in pieces inside blocks.
const PIECE_MEMBERS: [&str; 6] = ["thinking", "text", "summary", "data", "signature", "transcript"];

/// Members that are an answer, though there is no text.
const ANSWERS: [&str; 4] = ["refusal", "audio", "images", "annotations"];

/// Blocks that come whole: two of them are two, and each is as the provider sealed it.
const WHOLE_BLOCK: &str = "redacted_thinking";

impl AssistantMessage {
    pub(crate) fn push_text(&mut self, text: &str) {
        self.content.push_str(text);
    }

    /// Adds a part of a content that came as a list.
    pub(crate) fn push_part(&mut self, part: &RawValue) {
        let Ok(part) = serde_json::from_str(part.get()) else { return };
        if let Some(text) = parts::plain_text(&part) {
            return self.content.push_str(text);
        }
        self.parts.extend(text_part(&std::mem::take(&mut self.content)));
        self.parts.push(part);
    }

    /// `content` as it goes back: a text, unless there was more in it.
    pub(crate) fn content(&self) -> Value {
        content_of(self.parts.iter().cloned().chain(text_part(&self.content)).collect())
    }

    pub(crate) fn push_member(&mut self, name: &str, value: &RawValue) {
        let Ok(value) = serde_json::from_str(value.get()) else { return };
        match self.members.get_mut(name) {
            Some(known) => join_member(name, known, value),
            None if value.is_null() => {}
            None => {
                let mut first = value;
                if is_reasoning(name) {
                    close_list(&mut first);
                }
                self.members.insert(name.to_owned(), first);
            }
        }
    }

    /// The further members, for the model that wrote them.
    pub(crate) fn members(&self, keep_reasoning: bool) -> impl Iterator<Item = (&String, &Value)> {
        self.members.iter().filter(move |(name, _)| keep_reasoning || !is_reasoning(name))
    }

    pub(crate) fn has_reasoning(&self) -> bool {
        self.members.keys().any(|name| is_reasoning(name))
            || self.parts.iter().any(|part| Part::from_value(part) == Part::Reasoning)
    }

    /// Whether it holds nothing that answers a user: reasoning does not.
    pub(crate) fn says_nothing(&self) -> bool {
        let answers = |name: &&str| self.members.get(*name).is_some_and(says_something);
        let is_answer = |part: &Value| Part::from_value(part) != Part::Reasoning;
        self.content.is_empty() && !self.parts.iter().any(is_answer) && !ANSWERS.iter().any(answers)
    }
}

/// A list of parts, or the text that they are where they are nothing else.
fn content_of(parts: Vec<Value>) -> Value {
    if parts.iter().any(|part| parts::plain_text(part).is_none()) {
        return parts.into();
    }
    let text: String = parts.iter().filter_map(parts::plain_text).collect();
    if text.is_empty() { Value::Null } else { text.into() }
}

/// `content` of ours without the parts that are reasoning.
pub(crate) fn content_without_reasoning(content: Value) -> Value {
    match content {
        Value::Array(mut parts) => {
            parts.retain(|part| Part::from_value(part) != Part::Reasoning);
            content_of(parts)
        }
        other => other,
    }
}

fn text_part(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({ "type": "text", "text": text }))
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(entries) => entries.iter().any(|entry| !entry.is_null()),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    }
}

/// Whether a member of a message, or of a call in it, carries reasoning.
pub(crate) fn is_reasoning(name: &str) -> bool {
    REASONING_MEMBERS.contains(&name)
}

/// A message of the client's without its reasoning; `None` when it has none.
pub(crate) fn without_reasoning(message: &RawValue) -> Option<Box<RawValue>> {
    // Few messages have to be read for it.
    if !REASONING_MEMBERS.iter().any(|name| message.get().contains(name)) {
        return None;
    }
    let mut members: IndexMap<String, Box<RawValue>> = serde_json::from_str(message.get()).ok()?;
    let all = members.len();
    members.retain(|name, _| !is_reasoning(name));
    (members.len() < all).then(|| to_raw_value(&members).ok())?
}

/// Adds a later delta's member to what is known of it. Entries of a list are each one of
/// their own, but for those of reasoning, which come in pieces.
pub(crate) fn join_member(name: &str, known: &mut Value, value: Value) {
    match (known, value) {
        (Value::Array(entries), Value::Array(more)) if !is_reasoning(name) => entries.extend(more),
        (known, value) => join(known, value),
    }
}

/// Strings are concatenated, blocks joined piece by piece, objects merged; of
/// anything else the last one counts.
fn join(known: &mut Value, value: Value) {
    match (known, value) {
        (_, Value::Null) => {}
        (Value::String(text), Value::String(more)) => text.push_str(&more),
        (Value::Array(blocks), Value::Array(more)) => {
            for block in more {
                join_block(blocks, block);
            }
        }
        (Value::Object(known), Value::Object(more)) => merge(known, more),
        (known, value) => *known = value,
    }
}

/// A first delta may bring several pieces of one block.
fn close_list(value: &mut Value) {
    if let Value::Array(items) = value {
        let mut joined = Vec::new();
        for item in std::mem::take(items) {
            join_block(&mut joined, item);
        }
        *items = joined;
    }
}

/// A piece belongs to the last block when both are of one kind and number, and
/// that block has no signature yet: a signature closes it.
fn join_block(blocks: &mut Vec<Value>, piece: Value) {
    if let (Some(Value::Object(last)), Value::Object(piece)) = (blocks.last_mut(), &piece)
        && is_open(last)
        && last.get("type") == piece.get("type")
        && last.get("type").is_some()
        && last.get("index") == piece.get("index")
        && last.get("id") == piece.get("id")
    {
        for (name, value) in piece {
            match (last.get_mut(name), value) {
                (Some(Value::String(text)), Value::String(more))
                    if PIECE_MEMBERS.contains(&name.as_str()) =>
                {
                    text.push_str(more);
                }
                (_, Value::Null) => {}
                _ => {
                    last.insert(name.clone(), value.clone());
                }
            }
        }
        return;
    }
    blocks.push(piece);
}

fn is_open(block: &Map<String, Value>) -> bool {
    block.get("type").and_then(Value::as_str) != Some(WHOLE_BLOCK)
        && block.get("signature").and_then(Value::as_str).is_none_or(str::is_empty)
}

fn merge(known: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, mut value) in more {
        match (known.get_mut(&name), &value) {
            (Some(known @ (Value::Array(_) | Value::Object(_))), _) => join(known, value),
            (Some(Value::String(text)), Value::String(piece))
                if PIECE_MEMBERS.contains(&name.as_str()) || is_reasoning(&name) =>
            {
                text.push_str(piece);
            }
            (Some(_), Value::Null) => {}
            _ => {
                close_list(&mut value);
                known.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(pieces: &[Value], expected: &Value) {
        let mut message = AssistantMessage::default();
        for piece in pieces {
            for (name, value) in piece.as_object().unwrap() {
                message.push_member(name, &serde_json::value::to_raw_value(value).unwrap());
            }
        }
        let members: Map<String, Value> =
            message.members(true).map(|(name, value)| (name.clone(), value.clone())).collect();
        assert_eq!(&Value::Object(members), expected);
    }

    #[test]
    fn texts_are_concatenated() {
        check(
            &[json!({"reasoning_content": "Let"}), json!({"reasoning_content": " me"})],
            &json!({"reasoning_content": "Let me"}),
        );
    }

    #[test]
    fn a_signature_closes_a_thinking_block() {
        let piece = |text: &str| json!({"type": "thinking", "thinking": text, "signature": ""});
        check(
            &[
                json!({"thinking_blocks": [piece("a")]}),
                json!({"thinking_blocks": [piece("b")]}),
                json!({"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "S1"}]}),
                json!({"thinking_blocks": [piece("c")]}),
            ],
            &json!({"thinking_blocks": [
                {"type": "thinking", "thinking": "ab", "signature": "S1"},
                {"type": "thinking", "thinking": "c", "signature": ""},
            ]}),
        );
    }

    #[test]
    fn redacted_blocks_are_each_one_of_their_own() {
        let redacted = |data: &str| json!({"type": "redacted_thinking", "data": data});
        check(
            &[
                json!({"thinking_blocks": [redacted("A"), redacted("B")]}),
                json!({"thinking_blocks": [redacted("C")]}),
            ],
            &json!({"thinking_blocks": [redacted("A"), redacted("B"), redacted("C")]}),
        );
    }

    #[test]
    fn sound_is_put_together() {
        check(
            &[
                json!({"audio": {"id": "a", "transcript": "he"}}),
                json!({"audio": {"data": "QUJD", "transcript": "y"}}),
                json!({"audio": {"data": "REVG", "expires_at": 7}}),
            ],
            &json!({"audio": {"id": "a", "transcript": "hey", "data": "QUJDREVG", "expires_at": 7}}),
        );
    }

    #[test]
    fn a_refusal_says_something_and_a_thought_does_not() {
        let says_nothing = |name: &str, value: &str| {
            let mut message = AssistantMessage::default();
            message.push_member(name, &RawValue::from_string(value.to_owned()).unwrap());
            message.says_nothing()
        };

        assert!(says_nothing("reasoning_content", r#""hm""#));
        assert!(says_nothing("refusal", r#""""#) && says_nothing("refusal", "null"));
        assert!(!says_nothing("refusal", r#""I cannot""#));
        assert!(!says_nothing("audio", r#"{"id": "a"}"#));
        for list in ["images", "annotations"] {
            assert!(says_nothing(list, "[]") && says_nothing(list, "[null]"));
            assert!(!says_nothing(list, r#"[{"type": "a"}]"#));
        }
    }

    #[test]
    fn entries_of_lists_are_each_one_of_their_own() {
        let picture = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        check(
            &[json!({"images": [picture("a")]}), json!({"images": [picture("b"), picture("c")]})],
            &json!({"images": [picture("a"), picture("b"), picture("c")]}),
        );
    }

    #[test]
    fn a_content_of_parts_goes_back_as_it_came() {
        let mut message = AssistantMessage::default();
        let mut push = |part: Value| {
            message.push_part(&serde_json::value::to_raw_value(&part).unwrap());
            message.content()
        };
        let text = |text: &str| json!({"type": "text", "text": text});

        assert_eq!(push(text("a")), "a");
        assert_eq!(push(text("b")), "ab");
        let thought = json!({"type": "thinking", "thinking": [text("hm")]});
        assert_eq!(push(thought.clone()), json!([text("ab"), thought]));
        assert_eq!(push(text("c")), json!([text("ab"), thought, text("c")]));

        assert_eq!(content_without_reasoning(message.content()), "abc");
        assert!(message.has_reasoning() && !message.says_nothing());
        assert_eq!(AssistantMessage::default().content(), Value::Null);
    }

    #[test]
    fn a_clients_message_loses_its_reasoning_and_nothing_else() {
        let without = |text: &str| {
            let message = RawValue::from_string(text.to_owned()).unwrap();
            without_reasoning(&message).map(|message| message.get().to_owned())
        };

        assert_eq!(
            without(r#"{"role":"assistant","reasoning":"a","content":1.10,"thinking_blocks":[]}"#),
            Some(r#"{"role":"assistant","content":1.10}"#.to_owned())
        );
        assert_eq!(without(r#"{"role":"user","content":"what is \"reasoning\"?"}"#), None);
    }

    #[test]
    fn details_of_different_numbers_stay_apart() {
        check(
            &[
                json!({"reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0}]}),
                json!({"reasoning_details": [{"type": "reasoning.text", "text": "b", "index": 0}]}),
                json!({"reasoning_details": [{"type": "reasoning.text", "text": "c", "index": 1}]}),
            ],
            &json!({"reasoning_details": [
                {"type": "reasoning.text", "text": "ab", "index": 0},
                {"type": "reasoning.text", "text": "c", "index": 1},
            ]}),
        );
    }

    #[test]
    fn signatures_of_a_provider_are_collected() {
        check(
            &[
                json!({"provider_specific_fields": {"thought_signatures": ["x"], "kind": "k"}}),
                json!({"provider_specific_fields": {"thought_signatures": ["y"], "kind": "k"}}),
            ],
            &json!({"provider_specific_fields": {"thought_signatures": ["x", "y"], "kind": "k"}}),
        );
    }

    #[test]
    fn nothing_is_not_sent_back() {
        check(&[json!({"refusal": null})], &json!({}));
    }

    #[test]
    fn reasoning_can_be_left_out() {
        let mut message = AssistantMessage::default();
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        message.push_member("reasoning_content", &raw(r#""hm""#));
        message.push_member("refusal", &raw(r#""no""#));

        assert!(message.has_reasoning());
        assert_eq!(message.members(false).map(|(name, _)| name).collect::<Vec<_>>(), ["refusal"]);
    }
}
