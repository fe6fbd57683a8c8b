//! Joins the halves of surrogate pairs that came in two chunks.
//!
//! A provider that cuts its text between UTF-16 units sends the two halves of an emoji in two
//! chunks. A half has no place in a text, so it is written as a mark until the other half has
//! come: three characters that Unicode keeps for a program's own use, and that no text has.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::{CallKind, Chunk, Delta, parse, surrogates};

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
/// Joins the name of a member with the place in its value.
const STEP: char = '/';
/// The texts of a delta that are no members of it.
const CONTENT: &str = "/content";
const PARTS: &str = "/parts";

/// The high halves that wait for their low half, by the text in which they stand.
#[derive(Clone, Debug, Default)]
pub(super) struct Halves(BTreeMap<String, u16>);

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
    for (call, marked) in chunk.delta.tool_calls.iter_mut().zip(&marked.delta.tool_calls) {
        if call.kind == CallKind::Function {
            call.arguments = marked.arguments.as_deref().map(with_escapes);
        }
    }
    marked.delta.tool_calls.clone_from(&chunk.delta.tool_calls);
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
            *text = self.joined(CONTENT, text);
        }
        for part in &mut delta.parts {
            self.join_value(PARTS, part);
        }
        for (name, value) in &mut delta.members {
            self.join_value(name, value);
        }
    }

    /// The halves that still wait, as characters that could not be read; `None` if there are none.
    pub(super) fn rest(&mut self) -> Option<Delta> {
        if self.0.is_empty() {
            return None;
        }
        let mut delta = Delta::default();
        for at in std::mem::take(&mut self.0).into_keys() {
            if at == CONTENT {
                delta.content = Some(REPLACEMENT.into());
            } else if !at.contains(STEP)
                && let Ok(raw) = to_raw_value(&REPLACEMENT)
            {
                delta.members.insert(at, raw);
            }
        }
        Some(delta)
    }

    /// Joins the halves in the texts of a value, which stands under this name.
    fn join_value(&mut self, name: &str, raw: &mut Box<RawValue>) {
        let is_concerned = raw.get().contains(MARK) || self.0.keys().any(|at| at.starts_with(name));
        if !is_concerned {
            return;
        }
        let Ok(mut value) = serde_json::from_str(raw.get()) else { return };
        self.join_within(name, &mut value);
        if let Ok(joined) = to_raw_value(&value) {
            *raw = joined;
        }
    }

    fn join_within(&mut self, at: &str, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.joined(at, text),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.join_within(&format!("{at}{STEP}{index}"), item);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    self.join_within(&format!("{at}{STEP}{name}"), member);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The next piece of the text at `at`, with the half that waited there.
    fn joined(&mut self, at: &str, piece: &str) -> String {
        if piece.is_empty() {
            return String::new();
        }
        let mut open = self.0.remove(at);
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
        if let Some(high) = open {
            self.0.insert(at.to_owned(), high);
        }
        out
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
