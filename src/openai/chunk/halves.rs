//! Joins the halves of surrogate pairs that came in two chunks.
//!
//! A provider that cuts its text between UTF-16 units sends the two halves of an emoji in two
//! chunks. A half has no place in a text, so it is written as a mark until the other half has
//! come: three characters that Unicode keeps for a program's own use, and that no text has.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::{CallDelta, CallKind, Chunk, Delta, comes_in_pieces, is_reasoning, parse, surrogates};

/// Begins the mark of a half.
const MARK: char = '\u{FFFE}';
/// The first of 32 characters, each of which stands for five bits of a half.
const DIGITS: u32 = 0xFDD0;
/// The bits of one digit.
const DIGIT_BITS: u32 = 5;
/// The first unit of a high half, and of a low half.
const HIGH: u16 = 0xD800;
const LOW: u16 = 0xDC00;
/// Stands for a half whose other half never came.
const REPLACEMENT: char = '\u{FFFD}';
/// Members that tell which block a piece belongs to.
const LABELS: [&str; 3] = ["type", "index", "id"];
/// The member that ends a block.
const SIGNATURE: &str = "signature";

/// The high halves that wait for their low half, by the text in which they stand.
#[derive(Clone, Debug, Default)]
pub(super) struct Halves(BTreeMap<Place, WaitingHalf>);

/// Where a text stands in a delta.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    root: Root,
    steps: Vec<Step>,
}

/// The part of a delta that a text stands in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Root {
    Content,
    /// The parts of a `content` that is a list.
    Parts,
    Member(String),
    /// The input of a custom tool's call, by its index or its place in the list.
    Input(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Member(String),
    Index(usize),
}

/// A high half, and what has to stand around it if it goes alone.
#[derive(Clone, Debug)]
struct WaitingHalf {
    high: u16,
    /// Of each object around it, from the outermost on, the members that tell which one it is.
    around: Vec<Map<String, Value>>,
}

/// A character of a text, or half of one.
enum Unit {
    Char(char),
    High(u16),
    Low(u16),
}

/// Keeps the halves of a payload that was parsed without them. In arguments they are written as
/// the escapes that they were, which the next piece of the arguments may complete.
pub(super) fn keep(chunk: &mut Chunk, payload: &str) {
    let marked = surrogates::with_lone_halves_as(payload, |unit| mark(unit).into());
    let Ok(mut marked) = parse::chunk(&marked) else { return };
    for (call, marked) in chunk.delta.tool_calls.iter_mut().zip(&mut marked.delta.tool_calls) {
        if call.kind == CallKind::Function {
            call.arguments = marked.arguments.as_deref().map(with_escapes);
        }
        let text = if call.kind == CallKind::Custom { marked.arguments.take() } else { None };
        *marked = call.clone();
        marked.arguments = text.or(marked.arguments.take());
    }
    chunk.marked = Some(Box::new(marked.delta));
}

impl Halves {
    /// Joins the halves in a chunk with those that wait.
    pub(super) fn join(&mut self, chunk: &mut Chunk) {
        let marked = chunk.marked.take();
        if marked.is_none() && self.0.is_empty() {
            return;
        }
        if let Some(marked) = marked {
            chunk.delta = *marked;
        }
        let delta = &mut chunk.delta;
        if let Some(text) = &mut delta.content {
            *text = self.joined(&Place::new(Root::Content), text, &[]);
        }
        for part in &mut delta.parts {
            self.join_value(&Root::Parts, part);
        }
        if delta.members.keys().any(|name| name.contains(MARK)) {
            let members = std::mem::take(&mut delta.members).into_iter();
            delta.members = members.map(|(name, raw)| (without_marks(&name), raw)).collect();
        }
        for (name, value) in &mut delta.members {
            self.join_value(&Root::Member(name.clone()), value);
        }
        for (position, call) in (0..).zip(&mut delta.tool_calls) {
            if let CallDelta { kind: CallKind::Custom, arguments: Some(text), .. } = call {
                let root = Root::Input(call.index.unwrap_or(position));
                *text = self.joined(&Place::new(root), text, &[]);
            }
        }
    }

    /// The halves that still wait, as characters that could not be read; `None` if there are none.
    pub(super) fn rest(&mut self) -> Option<Delta> {
        if self.0.is_empty() {
            return None;
        }
        let mut delta = Delta::default();
        let mut members: Map<String, Value> = Map::new();
        for (Place { root, steps }, waiting) in std::mem::take(&mut self.0) {
            let value = nested(&steps, &waiting.around);
            match root {
                Root::Content => delta.content = Some(REPLACEMENT.into()),
                Root::Parts => delta.parts.extend(to_raw_value(&value).ok()),
                Root::Member(name) => match members.get_mut(&name) {
                    Some(known) => put_beside(known, value),
                    None => drop(members.insert(name, value)),
                },
                Root::Input(index) => delta.tool_calls.push(CallDelta {
                    index: Some(index),
                    kind: CallKind::Custom,
                    arguments: Some(REPLACEMENT.into()),
                    ..CallDelta::default()
                }),
            }
        }
        let raw = |(name, value)| Some((name, to_raw_value(&value).ok()?));
        delta.members = members.into_iter().filter_map(raw).collect();
        Some(delta)
    }

    /// Joins the halves in the texts of a value.
    fn join_value(&mut self, root: &Root, raw: &mut Box<RawValue>) {
        let is_concerned = raw.get().contains(MARK) || self.0.keys().any(|at| at.root == *root);
        if !is_concerned {
            return;
        }
        let Ok(mut value) = serde_json::from_str(raw.get()) else { return };
        self.join_within(&mut Place::new(root.clone()), &mut Vec::new(), &mut value);
        if let Ok(joined) = to_raw_value(&value) {
            *raw = joined;
        }
    }

    /// `around` has the labels of the objects around the value.
    fn join_within(
        &mut self,
        place: &mut Place,
        around: &mut Vec<Map<String, Value>>,
        value: &mut Value,
    ) {
        match value {
            Value::String(text) => *text = self.joined(place, text, around),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    place.steps.push(Step::Index(index));
                    self.join_within(place, around, item);
                    place.steps.pop();
                }
            }
            Value::Object(members) => {
                if members.keys().any(|name| name.contains(MARK)) {
                    let read = |(name, value): (String, Value)| (without_marks(&name), value);
                    *members = std::mem::take(members).into_iter().map(read).collect();
                }
                around.push(labels(members));
                for (name, member) in members.iter_mut() {
                    place.steps.push(Step::Member(name.clone()));
                    self.join_within(place, around, member);
                    place.steps.pop();
                }
                around.pop();
                if is_ended(members) {
                    self.end_block(place, members);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The next piece of the text at `place`, with the half that waited there.
    fn joined(&mut self, place: &Place, piece: &str, around: &[Map<String, Value>]) -> String {
        if piece.is_empty() {
            return String::new();
        }
        let mut open = self.0.remove(place).map(|waiting| waiting.high);
        let mut out = String::with_capacity(piece.len());
        for unit in units(piece) {
            let waiting = open.take();
            match unit {
                Unit::Low(low) => out.push(waiting.map_or(REPLACEMENT, |high| pair(high, low))),
                Unit::Char(char) => {
                    out.extend(waiting.map(|_| REPLACEMENT));
                    out.push(char);
                }
                Unit::High(high) => {
                    out.extend(waiting.map(|_| REPLACEMENT));
                    open = Some(high);
                }
            }
        }
        match open {
            Some(high) if place.has_more_pieces() => {
                let waiting = WaitingHalf { high, around: around.to_vec() };
                self.0.insert(place.clone(), waiting);
            }
            Some(_) => out.push(REPLACEMENT),
            None => {}
        }
        out
    }

    /// Puts the halves that wait in the texts of this block to their ends: no more comes of it.
    fn end_block(&mut self, place: &Place, block: &mut Map<String, Value>) {
        for (name, member) in block {
            let mut steps = place.steps.clone();
            steps.push(Step::Member(name.clone()));
            let of_member = Place { root: place.root.clone(), steps };
            if let Value::String(text) = member
                && self.0.remove(&of_member).is_some()
            {
                text.push(REPLACEMENT);
            }
        }
    }
}

impl Place {
    fn new(root: Root) -> Self {
        Self { root, steps: Vec::new() }
    }

    /// Whether later deltas may go on with the text at this place, as they do with whole members
    /// and with blocks that come in pieces. The entries of other lists come whole.
    fn has_more_pieces(&self) -> bool {
        let has_whole_entries = matches!(&self.root, Root::Member(name) if !is_reasoning(name));
        if has_whole_entries && self.steps.iter().any(|step| matches!(step, Step::Index(_))) {
            return false;
        }
        match self.steps.last() {
            None => true,
            Some(Step::Member(name)) => comes_in_pieces(name) || is_reasoning(name),
            Some(Step::Index(_)) => false,
        }
    }
}

fn labels(members: &Map<String, Value>) -> Map<String, Value> {
    let labels = LABELS.iter().filter_map(|name| members.get_key_value(*name));
    labels.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether a block is over with this piece.
fn is_ended(block: &Map<String, Value>) -> bool {
    block.get(SIGNATURE).and_then(Value::as_str).is_some_and(|signature| !signature.is_empty())
}

/// A half that goes alone, with what has to stand around it.
fn nested(steps: &[Step], around: &[Map<String, Value>]) -> Value {
    let mut value = Value::from(REPLACEMENT.to_string());
    let mut around = around.iter().rev();
    for step in steps.iter().rev() {
        value = match step {
            Step::Index(_) => json!([value]),
            Step::Member(name) => {
                let mut members = around.next().cloned().unwrap_or_default();
                members.insert(name.clone(), value);
                members.into()
            }
        };
    }
    value
}

/// Adds a value that belongs under the same name.
fn put_beside(known: &mut Value, value: Value) {
    match (known, value) {
        (Value::Array(items), Value::Array(more)) => items.extend(more),
        (Value::Object(members), Value::Object(more)) => {
            for (name, value) in more {
                match members.get_mut(&name) {
                    Some(known) => put_beside(known, value),
                    None => drop(members.insert(name, value)),
                }
            }
        }
        _ => {}
    }
}

/// The mark of a half.
fn mark(unit: u16) -> String {
    let digit = |bits: u32| char::from_u32(DIGITS + bits).unwrap_or(REPLACEMENT);
    let bits = u32::from(unit - HIGH);
    // Eleven bits: one digit says which half it is, with the highest bit.
    let first = digit(bits >> (2 * DIGIT_BITS));
    let second = digit((bits >> DIGIT_BITS) & 31);
    let third = digit(bits & 31);
    [MARK, first, second, third].iter().collect()
}

/// The characters of a text, and the halves that are marked in it.
fn units(text: &str) -> impl Iterator<Item = Unit> {
    let mut rest = text.chars();
    std::iter::from_fn(move || {
        let char = rest.next()?;
        if char != MARK {
            return Some(Unit::Char(char));
        }
        let mut ahead = rest.clone();
        let Some(unit) = half(&mut ahead) else { return Some(Unit::Char(char)) };
        rest = ahead;
        Some(if unit < LOW { Unit::High(unit) } else { Unit::Low(unit) })
    })
}

/// The half whose digits come next.
fn half(chars: &mut impl Iterator<Item = char>) -> Option<u16> {
    let mut bits = 0;
    for _ in 0..3 {
        let digit = u32::from(chars.next()?).checked_sub(DIGITS).filter(|digit| *digit < 32)?;
        bits = (bits << DIGIT_BITS) | digit;
    }
    let unit = u32::from(HIGH) + bits;
    u16::try_from(unit).ok().filter(|unit| (HIGH..=0xDFFF).contains(unit))
}

fn pair(high: u16, low: u16) -> char {
    char::decode_utf16([high, low]).next().and_then(Result::ok).unwrap_or(REPLACEMENT)
}

/// A text with each marked half as a character that could not be read.
fn without_marks(text: &str) -> String {
    let chars = units(text).map(|unit| match unit {
        Unit::Char(char) => char,
        Unit::High(_) | Unit::Low(_) => REPLACEMENT,
    });
    chars.collect()
}

/// A text with its marks written as JSON escapes.
fn with_escapes(text: &str) -> String {
    if !text.contains(MARK) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for unit in units(text) {
        match unit {
            Unit::Char(char) => out.push(char),
            Unit::High(unit) | Unit::Low(unit) => {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::chunk::ChunkReader;

    /// The deltas of these payloads: their content, reasoning and arguments, joined.
    fn read(deltas: &[&str]) -> (String, String, String) {
        let mut reader = ChunkReader::default();
        let (mut content, mut reasoning, mut arguments) =
            (String::new(), String::new(), String::new());
        let mut chunks = Vec::new();
        for delta in deltas {
            let payload = format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#);
            chunks.push(reader.read(&payload).unwrap());
        }
        chunks.extend(reader.rest());
        for chunk in chunks {
            content.push_str(chunk.delta.content.as_deref().unwrap_or_default());
            if let Some(text) = chunk.delta.members.get("reasoning_content") {
                reasoning += &serde_json::from_str::<String>(text.get()).unwrap();
            }
            for call in &chunk.delta.tool_calls {
                arguments.push_str(call.arguments.as_deref().unwrap_or_default());
            }
        }
        (content, reasoning, arguments)
    }

    #[track_caller]
    fn check_content(pieces: &[&str], expected: &str) {
        let deltas: Vec<_> =
            pieces.iter().map(|piece| format!(r#"{{"content":"{piece}"}}"#)).collect();
        let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
        assert_eq!(read(&deltas).0, expected, "{pieces:?}");
    }

    #[test]
    fn halves_in_two_chunks_are_one_character() {
        check_content(&[r"a\ud83d", r"\ude00b"], "a😀b");
        check_content(&["x", r"\uD83D", r"\uDE00", "y"], "x😀y");
        check_content(&[r"\ud83d", r"\ude00\ud83d", r"\ude01"], "😀😁");
        check_content(&[r"\udbff", r"\udfff"], "\u{10ffff}");
    }

    #[test]
    fn a_half_without_the_other_is_a_replacement_character() {
        check_content(&[r"a\ud83d", "b"], "a\u{fffd}b");
        check_content(&[r"a\ude00", "b"], "a\u{fffd}b");
        check_content(&[r"\ud83d", r"\ud83d", r"\ude00"], "\u{fffd}😀");
        check_content(&[r"\ud83d\n", r"\ude00"], "\u{fffd}\n\u{fffd}");
        check_content(&["a", r"\ud83d"], "a\u{fffd}");
        check_content(&[r"\ud83d", ""], "\u{fffd}");
    }

    #[test]
    fn each_text_waits_for_its_own_half() {
        let (content, reasoning, _) = read(&[
            r#"{"content":"\ud83d","reasoning_content":"\ud83c"}"#,
            r#"{"content":"\ude00"}"#,
            r#"{"reasoning_content":"\udf0d"}"#,
        ]);
        assert_eq!((content.as_str(), reasoning.as_str()), ("😀", "🌍"));

        let (content, reasoning, _) =
            read(&[r#"{"content":"a\ud83d","reasoning_content":"b\ud83c"}"#, "{}"]);
        assert_eq!((content.as_str(), reasoning.as_str()), ("a\u{fffd}", "b\u{fffd}"));
    }

    #[test]
    fn texts_within_members_are_joined_too() {
        let mut reader = ChunkReader::default();
        let mut text = |half: &str| {
            let block = format!(r#"[{{"type":"thinking","thinking":"{half}"}}]"#);
            let payload = format!(r#"{{"choices":[{{"delta":{{"thinking_blocks":{block}}}}}]}}"#);
            let chunk = reader.read(&payload).unwrap();
            let blocks: Value =
                serde_json::from_str(chunk.delta.members["thinking_blocks"].get()).unwrap();
            blocks[0]["thinking"].as_str().unwrap().to_owned()
        };
        assert_eq!(text(r"a\ud83d") + &text(r"\ude00"), "a😀");
    }

    /// The members of these deltas and of what is left at the end, each as JSON.
    fn members(deltas: &[&str]) -> Vec<Value> {
        let mut reader = ChunkReader::default();
        let mut chunks = Vec::new();
        for delta in deltas {
            let payload = format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#);
            chunks.push(reader.read(&payload).unwrap());
        }
        chunks.extend(reader.rest());
        let value = |chunk: &Chunk| serde_json::to_value(&chunk.delta.members).unwrap();
        chunks.iter().map(value).collect()
    }

    #[test]
    fn a_half_in_a_block_is_not_lost_at_the_end() {
        let block = r#"{"thinking_blocks":[{"type":"thinking","index":1,"thinking":"a\ud83d"}]}"#;
        let told = |text: &str| json!({ "thinking_blocks": [{ "type": "thinking", "index": 1, "thinking": text }] });
        assert_eq!(members(&[block]), [told("a"), told("\u{fffd}")]);
        // Two texts that wait stand beside each other.
        let fields = r#"{"provider_specific_fields":{"reasoning":"b\ud83d",
            "thinking_blocks":[{"type":"thinking","thinking":"c\ud83c"}]}}"#;
        let expected = json!({ "provider_specific_fields": { "reasoning": "\u{fffd}",
            "thinking_blocks": [{ "type": "thinking", "thinking": "\u{fffd}" }] } });
        assert_eq!(members(&[fields]).pop(), Some(expected));
    }

    #[test]
    fn a_block_that_is_signed_ends_with_its_half() {
        let piece = |text: &str, signature: &str| {
            format!(
                r#"{{"thinking_blocks":[{{"type":"thinking","thinking":"{text}","signature":"{signature}"}}]}}"#
            )
        };
        let told = members(&[&piece(r"a\ud83d", ""), &piece("", "S")]);
        assert_eq!(told.len(), 2);
        assert_eq!(told[1]["thinking_blocks"][0]["thinking"], "\u{fffd}");
        let told = members(&[&piece(r"a\ud83d", "S")]);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0]["thinking_blocks"][0]["thinking"], "a\u{fffd}");
    }

    #[test]
    fn what_comes_whole_waits_for_nothing() {
        for whole in [
            r#"{"annotations":[{"type":"url","title":"a\ud83d"}]}"#,
            r#"{"thinking_blocks":[{"type":"thinking","id":"a\ud83d"}]}"#,
            r#"{"citations":["a\ud83d"]}"#,
        ] {
            let told = members(&[whole, whole]);
            assert_eq!(told.len(), 2, "{whole}");
            assert_eq!(told[0], told[1], "{whole}");
            assert!(told[0].to_string().contains("a\u{fffd}"), "{told:?}");
        }
        // The names of members too.
        let told = members(&[r#"{"audio":{"\ud83d":1}}"#]);
        assert_eq!(told, [json!({ "audio": { "\u{fffd}": 1 } })]);
        assert_eq!(members(&[r#"{"\ud83d":1}"#]), [json!({ "\u{fffd}": 1 })]);
    }

    #[test]
    fn the_input_of_a_custom_tool_is_text_like_any_other() {
        let call = |piece: &str| {
            format!(
                r#"{{"tool_calls":[{{"index":0,"custom":{{"name":"note","input":"{piece}"}}}}]}}"#
            )
        };
        assert_eq!(read(&[&call(r"a\ud83d"), &call(r"\ude00b")]).2, "a😀b");
        assert_eq!(read(&[&call(r"a\ud83d")]).2, "a\u{fffd}");
    }

    #[test]
    fn in_arguments_a_half_stays_an_escape() {
        let call = |piece: &str| {
            let function = format!(r#"{{"name":"Read","arguments":"{piece}"}}"#);
            format!(r#"{{"tool_calls":[{{"index":0,"function":{function}}}]}}"#)
        };
        let (one, two) = (call(r#"{\"p\":\"\ud83d"#), call(r#"\ude00\"}"#));
        assert_eq!(read(&[&one, &two]).2, r#"{"p":"\ud83d\ude00"}"#);
        // It may be an escape in the arguments themselves.
        let (one, two) = (call(r#"{\"p\":\"\\ud83d"#), call(r#"\\ude00\"}"#));
        assert_eq!(read(&[&one, &two]).2, r#"{"p":"\ud83d\ude00"}"#);
    }

    #[test]
    fn characters_like_a_mark_are_no_half() {
        check_content(&["a\u{fffe}b", "\u{fffe}"], "a\u{fffe}b\u{fffe}");
        for unit in [HIGH, 0xD83D, 0xDBFF, LOW, 0xDE00, 0xDFFF] {
            let marked = mark(unit);
            let found: Vec<Unit> = units(&marked).collect();
            assert!(
                matches!(found[..], [Unit::High(known) | Unit::Low(known)] if known == unit),
                "{unit:x}"
            );
        }
        assert_eq!(with_escapes(&mark(0xDE00)), r"\ude00");
    }
}
