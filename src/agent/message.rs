//! Assembles an assistant message from its deltas, with every member that the next round must
//! send back.

use indexmap::IndexMap;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::parts::{self, Part};
use crate::json::{self, Kind, Object};
use crate::openai::chunk::{REASONING_MEMBERS, comes_in_pieces, is_reasoning};

/// What the deltas of one round have brought, but for the tool calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct AssistantMessage {
    /// The text. Where there are `parts`, this is the text after them.
    content: String,
    /// The parts of a `content` that came as a list, from the first part that is not plain text
    /// on. The text before it becomes a part of its own.
    parts: Vec<Value>,
    members: IndexMap<String, Value>,
}

/// Members that count as an answer even where there is no text.
const ANSWER_MEMBERS: [&str; 3] = ["audio", "images", "annotations"];

/// A member that is an answer if it is a text.
const REFUSAL: &str = "refusal";

/// The type of a block that always comes whole: two of them are never joined.
const WHOLE_BLOCK: &str = "redacted_thinking";

impl AssistantMessage {
    pub(crate) fn push_text(&mut self, text: &str) {
        self.content.push_str(text);
    }

    /// Adds one part of a `content` that came as a list.
    pub(crate) fn push_part(&mut self, part: &RawValue) {
        let Some(part) = json::kept_value(part) else { return };
        if let Some(text) = parts::plain_text(&part) {
            return self.content.push_str(text);
        }
        self.parts.extend(text_part(&std::mem::take(&mut self.content)));
        self.parts.push(part);
    }

    /// `content` as it is sent back: a text, or a list where it has other parts.
    pub(crate) fn content(&self) -> Value {
        content_of(self.parts.iter().cloned().chain(text_part(&self.content)).collect())
    }

    /// Adds one further member of a delta.
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

    /// The members beside `content` and `tool_calls`.
    pub(crate) fn members(&self, keep_reasoning: bool) -> impl Iterator<Item = (&String, &Value)> {
        self.members.iter().filter(move |(name, _)| keep_reasoning || !is_reasoning(name))
    }

    /// The message without calls, as it goes back upstream.
    pub(crate) fn to_value(&self, keep_reasoning: bool) -> Value {
        let content = self.content();
        let content = if keep_reasoning { content } else { content_without_reasoning(content) };
        let mut message = json!({ "role": "assistant", "content": content });
        for (name, value) in self.members(keep_reasoning) {
            message[name] = value.clone();
        }
        message
    }

    pub(crate) fn has_reasoning(&self) -> bool {
        self.members.keys().any(|name| is_reasoning(name))
            || self.parts.iter().any(|part| Part::from_value(part) == Part::Reasoning)
    }

    /// Whether the message holds no answer for the user. Reasoning is not an answer.
    pub(crate) fn says_nothing(&self) -> bool {
        let answers = |name: &&str| self.members.get(*name).is_some_and(says_something);
        let refusal = self.members.get(REFUSAL).and_then(Value::as_str).unwrap_or_default();
        let is_answer = |part: &Value| Part::from_value(part) != Part::Reasoning;
        is_blank(&self.content)
            && is_blank(refusal)
            && !self.parts.iter().any(is_answer)
            && !ANSWER_MEMBERS.iter().any(answers)
    }
}

/// The parts as one text if all of them are plain text, otherwise as a list.
fn content_of(parts: Vec<Value>) -> Value {
    if parts.iter().any(|part| parts::plain_text(part).is_none()) {
        return parts.into();
    }
    let text: String = parts.iter().filter_map(parts::plain_text).collect();
    if is_blank(&text) { Value::Null } else { text.into() }
}

/// Removes the reasoning parts from a `content` that this module wrote.
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
    (!is_blank(text)).then(|| json!({ "type": "text", "text": text }))
}

/// Whether a text says nothing. Providers refuse white space alone, and every later request with
/// it.
pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Whether a member's value is an answer: null, an empty text and an empty list are not.
fn says_something(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(entries) => entries.iter().any(|entry| !entry.is_null()),
        Value::Object(members) => !members.is_empty(),
        _ => false,
    }
}

/// The client's message without its reasoning; `None` when it has none.
pub(crate) fn without_reasoning(message: &RawValue) -> Option<Box<RawValue>> {
    // Most messages need no parsing: they contain none of the names.
    if !REASONING_MEMBERS.iter().any(|name| message.get().contains(name)) {
        return None;
    }
    let mut members: IndexMap<String, Box<RawValue>> = serde_json::from_str(message.get()).ok()?;
    let all = members.len();
    members.retain(|name, _| !is_reasoning(name));
    (members.len() < all).then(|| to_raw_value(&members).ok())?
}

/// The member that reasoning models want back, be it empty.
const REASONING_CONTENT: &str = "reasoning_content";

/// Writes `filler` where a message of the assistant's has no reasoning, or an empty one; `None`
/// takes an empty one out.
pub(crate) fn fill_reasoning(message: &mut Value, filler: Option<&str>) {
    let Some(members) = message.as_object_mut() else { return };
    if !members.get(REASONING_CONTENT).is_none_or(has_no_text) {
        return;
    }
    match filler {
        Some(filler) => members.insert(REASONING_CONTENT.to_owned(), filler.into()),
        None => members.shift_remove(REASONING_CONTENT),
    };
}

/// The client's message with `filler` as its reasoning; `None` when it has one, or is none of the
/// assistant's.
pub(crate) fn with_reasoning(message: &RawValue, filler: &str) -> Option<Box<RawValue>> {
    if !is_assistants(message) {
        return None;
    }
    let mut members: IndexMap<String, Box<RawValue>> = serde_json::from_str(message.get()).ok()?;
    let known = members.get(REASONING_CONTENT).map(|known| serde_json::from_str(known.get()));
    if known.is_some_and(|known| known.is_ok_and(|known| !has_no_text(&known))) {
        return None;
    }
    members.insert(REASONING_CONTENT.to_owned(), to_raw_value(filler).ok()?);
    to_raw_value(&members).ok()
}

const CONTENT: &str = "content";

/// Writes an empty text for a content that is null, or takes it out again beside calls.
pub(crate) fn fill_content(message: &mut Value, fills: bool) {
    let Some(members) = message.as_object_mut() else { return };
    let content = members.get(CONTENT).unwrap_or(&Value::Null);
    if fills && content.is_null() {
        members.insert(CONTENT.to_owned(), "".into());
    } else if !fills && *content == "" && members.contains_key("tool_calls") {
        members.insert(CONTENT.to_owned(), Value::Null);
    }
}

/// The client's message with an empty text for a content that is null; `None` when it has one, or
/// is none of the assistant's.
pub(crate) fn with_content(message: &RawValue) -> Option<Box<RawValue>> {
    if !is_assistants(message) {
        return None;
    }
    let mut members: IndexMap<String, Box<RawValue>> = serde_json::from_str(message.get()).ok()?;
    if members.get(CONTENT).is_some_and(|content| content.get() != "null") {
        return None;
    }
    members.insert(CONTENT.to_owned(), to_raw_value("").ok()?);
    to_raw_value(&members).ok()
}

fn has_no_text(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => is_blank(text),
        _ => false,
    }
}

/// Whether the client's message is one of the assistant's.
pub(crate) fn is_assistants(message: &RawValue) -> bool {
    has_role(message, &["assistant"])
}

/// Whether a user has written the message.
pub(crate) fn is_users(message: &RawValue) -> bool {
    has_role(message, &["user"])
}

/// Whether the message holds instructions: its role is `system` or `developer`.
pub(crate) fn is_instructions(message: &RawValue) -> bool {
    has_role(message, &["system", "developer"])
}

fn has_role(message: &RawValue, roles: &[&str]) -> bool {
    let role = Object::from_raw(message).and_then(|message| message.string("role"));
    role.is_some_and(|role| roles.contains(&&*role))
}

/// A message of the user's with this text.
pub(crate) fn of_user(text: &str) -> Box<RawValue> {
    to_raw_value(&json!({ "role": "user", "content": text })).expect("a JSON value is valid JSON")
}

/// Adds a paragraph to a text.
pub(crate) fn add_paragraph(text: &mut String, paragraph: &str) {
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(paragraph);
}

/// The message with a paragraph before its content; `None` if its content is neither text nor
/// list.
pub(crate) fn with_text_in_front(text: &str, message: &RawValue) -> Option<Box<RawValue>> {
    let message = Object::from_raw(message)?;
    let content = message.get("content")?;
    let content = match json::kind(content) {
        Kind::String => {
            // The client's text may be large: it stays as it was escaped.
            let before = json::quoted(&format!("{text}\n\n"));
            let before = before.get().strip_suffix('"')?;
            json::raw([before, content.get().strip_prefix('"')?].concat())
        }
        Kind::Array => {
            let mut parts: Vec<&RawValue> = json::items(content, usize::MAX - 1)?;
            let first = to_raw_value(&json!({ "type": "text", "text": text })).ok()?;
            parts.insert(0, &first);
            json::array(&parts)
        }
        _ => return None,
    };
    Some(message.with(&[("content", Some(&content))]))
}

/// Whether the client's message holds calls.
pub(crate) fn has_calls(message: &RawValue) -> bool {
    let calls = Object::from_raw(message).and_then(|message| message.get("tool_calls"));
    calls.and_then(|calls| json::items(calls, 1)).is_some_and(|calls| !calls.is_empty())
}

/// Joins a later delta's member with what earlier deltas brought. The entries of a list are
/// separate items, except in lists of reasoning, whose entries come in pieces.
pub(crate) fn join_member(name: &str, known: &mut Value, value: Value) {
    match (known, value) {
        (Value::Array(entries), Value::Array(more)) if !is_reasoning(name) => entries.extend(more),
        (known, value) => join(known, value),
    }
}

/// Appends strings, joins blocks piece by piece, and merges objects. Of any other value the
/// last one counts.
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

/// Joins the pieces within one list: a first delta may bring several pieces of one block.
fn close_list(value: &mut Value) {
    if let Value::Array(items) = value {
        let mut joined = Vec::new();
        for item in std::mem::take(items) {
            join_block(&mut joined, item);
        }
        *items = joined;
    }
}

/// Joins a piece to the last block, or adds it as a new one. It belongs to the last block if
/// both have the same type, index and id, and the block has no signature yet: a signature ends
/// a block.
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
                (Some(Value::String(text)), Value::String(more)) if comes_in_pieces(name) => {
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

/// Whether further pieces may belong to the block.
fn is_open(block: &Map<String, Value>) -> bool {
    block.get("type").and_then(Value::as_str) != Some(WHOLE_BLOCK)
        && block.get("signature").and_then(Value::as_str).is_none_or(str::is_empty)
}

/// Merges the members of an object by the same rules; strings that do not come in pieces are
/// replaced.
fn merge(known: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, mut value) in more {
        match (known.get_mut(&name), &value) {
            (Some(known @ (Value::Array(_) | Value::Object(_))), _) => join(known, value),
            (Some(Value::String(text)), Value::String(piece))
                if comes_in_pieces(&name) || is_reasoning(&name) =>
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
        for nothing in [r#""""#, "null", "0", "true", "[1]", r#"{"a": 1}"#] {
            assert!(says_nothing("refusal", nothing), "{nothing}");
        }
        assert!(says_nothing("audio", "7") && says_nothing("images", "true"));
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
    fn wire_12_reasoning_that_is_missing_is_filled_in() {
        let filled = |text: &str, filler: &str| {
            let message = RawValue::from_string(text.to_owned()).unwrap();
            with_reasoning(&message, filler).map(|message| message.get().to_owned())
        };

        let said = r#"{"role":"assistant","content":1.10}"#;
        let with_empty = r#"{"role":"assistant","content":1.10,"reasoning_content":""}"#;
        assert_eq!(filled(said, "").as_deref(), Some(with_empty));
        assert_eq!(filled(with_empty, " ").as_deref(), Some(&*with_empty.replace("\"\"", "\" \"")));
        assert_eq!(filled(r#"{"role":"assistant","reasoning_content":"so"}"#, ""), None);
        assert_eq!(filled(r#"{"role":"user","content":"a"}"#, ""), None);

        let mut value = json!({"role": "assistant", "content": "a", "reasoning_content": null});
        fill_reasoning(&mut value, Some(" "));
        assert_eq!(value["reasoning_content"], " ");
        fill_reasoning(&mut value, None);
        assert_eq!(value, json!({"role": "assistant", "content": "a"}));
        let mut thought = json!({"reasoning_content": "so"});
        fill_reasoning(&mut thought, None);
        assert_eq!(thought["reasoning_content"], "so");
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
