//! Bounds the memory and the time that the patterns of a schema take when they are compiled, and
//! leaves out those that take more, or that are of another kind.

use std::collections::HashSet;

use regex_automata::meta::{Builder, Config};
use serde_json::{Map, Value};

use super::budget::SchemaBudget;
use super::fault::SchemaFault;
use super::keywords;
use crate::text;

/// The most memory of one compiled pattern. `^\S{1,200}$` fits.
pub(super) const MAX_PATTERN_BYTES: usize = 512 << 10;

/// The most memory of the patterns of one schema.
const MAX_TOGETHER: usize = 1 << 20;

/// The longest pattern. Its classes are looked up before its size is known, which takes up to
/// 20 µs a byte.
const MAX_LENGTH: usize = 2 << 10;

/// Escapes in one pattern that mean something else in ECMAScript. Each is rewritten in a pass of
/// its own over the whole pattern: 1,000 times `\S` took two seconds.
const MAX_REWRITTEN: usize = 64;

/// The bytes that a pattern counts for, and each of its bytes, whatever it is compiled to: the time
/// that it takes is bounded with the memory.
const PATTERN_SIZE: usize = 4 << 10;
const SIZE_PER_BYTE: usize = 64;

/// Different patterns in one schema.
const MAX_PATTERNS: usize = 64;

/// Takes the patterns out of a schema that cannot be compiled within the limits, and what the
/// others need from the budget. Returns what was taken out, in words. The server itself judges by
/// its patterns.
pub(super) fn keep_usable(
    schema: &mut Value,
    budget: &mut SchemaBudget,
) -> Result<Vec<String>, SchemaFault> {
    let mut usable: HashSet<String> = HashSet::new();
    let mut unusable: HashSet<String> = HashSet::new();
    let (mut left_out, mut together) = (Vec::new(), 0);
    for pattern in all_in(schema) {
        let size = match pattern_size(&pattern, budget)? {
            Ok(size) if together + size <= MAX_TOGETHER && usable.len() < MAX_PATTERNS => size,
            Ok(_) => {
                left_out.push(left_out_line(&pattern, "is one of too many"));
                unusable.insert(pattern);
                continue;
            }
            Err(why) => {
                left_out.push(left_out_line(&pattern, why));
                unusable.insert(pattern);
                continue;
            }
        };
        together += size;
        usable.insert(pattern);
    }
    if !unusable.is_empty() {
        keywords::change_each(schema, &mut |members| drop_patterns(members, &unusable));
    }
    Ok(left_out)
}

/// The patterns of a schema, each once.
fn all_in(schema: &Value) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    keywords::for_each(schema, &mut |members| {
        let by_pattern = members.get("patternProperties").and_then(Value::as_object);
        let names = by_pattern.into_iter().flatten().map(|(name, _)| name.as_str());
        for pattern in names.chain(members.get("pattern").and_then(Value::as_str)) {
            if seen.insert(pattern.to_owned()) {
                all.push(pattern.to_owned());
            }
        }
    });
    all
}

fn drop_patterns(members: &mut Map<String, Value>, unusable: &HashSet<String>) {
    let has_unusable = |pattern: &Value| pattern.as_str().is_some_and(|it| unusable.contains(it));
    if members.get("pattern").is_some_and(has_unusable) {
        members.shift_remove("pattern");
    }
    let Some(Value::Object(by_pattern)) = members.get_mut("patternProperties") else { return };
    let before = by_pattern.len();
    by_pattern.retain(|pattern, _| !unusable.contains(pattern));
    if by_pattern.len() < before {
        // Nobody knows any more which properties are the others.
        members.shift_remove("additionalProperties");
        members.shift_remove("unevaluatedProperties");
    }
}

fn left_out_line(pattern: &str, why: &str) -> String {
    format!("the pattern \"{}\", which {why}", text::quoted_name(pattern))
}

/// The memory of one compiled pattern, or why it is not used. Fails where the server has no
/// budget left.
fn pattern_size(
    pattern: &str,
    budget: &mut SchemaBudget,
) -> Result<Result<usize, &'static str>, SchemaFault> {
    if MAX_LENGTH < pattern.len() || MAX_REWRITTEN < rewritten_escapes(pattern) {
        return Ok(Err("is too long"));
    }
    budget.take(PATTERN_SIZE + SIZE_PER_BYTE * pattern.len())?;
    if has_foreign_escape(pattern) {
        return Ok(Err("is of another language"));
    }
    let Ok(translated) = jsonschema_regex::to_rust_regex(pattern) else {
        return Ok(Err("is no regular expression"));
    };
    let limits = Config::new()
        .nfa_size_limit(Some(MAX_PATTERN_BYTES))
        .hybrid_cache_capacity(MAX_PATTERN_BYTES);
    match Builder::new().configure(limits).build(&translated) {
        Ok(compiled) => {
            let size = compiled.memory_usage();
            budget.take(size)?;
            Ok(Ok(size))
        }
        Err(error) if error.size_limit().is_some() => {
            budget.use_up(MAX_PATTERN_BYTES);
            Ok(Err("takes too much memory"))
        }
        Err(_) => Ok(Err("is not supported")),
    }
}

/// Whether a letter is escaped that means nothing in ECMAScript, and something elsewhere, such as
/// `\h` and `\Q`.
fn has_foreign_escape(pattern: &str) -> bool {
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let is_foreign = |c: char| c.is_ascii_alphabetic() && !"bBcdDfknpPrsStuvwWx".contains(c);
        if letter == '\\' && letters.next().is_some_and(is_foreign) {
            return true;
        }
    }
    false
}

/// `\d`, `\s`, `\w`, their opposites, and control characters.
fn rewritten_escapes(pattern: &str) -> usize {
    let mut bytes = pattern.bytes();
    let mut count = 0;
    while let Some(byte) = bytes.next() {
        let is_escape = byte == b'\\' && bytes.next().is_some_and(|c| b"dDsSwWc".contains(&c));
        count += usize::from(is_escape);
    }
    count
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn left_out(patterns: &[&str]) -> Vec<String> {
        let all: Vec<Value> =
            patterns.iter().map(|pattern| json!({ "pattern": pattern })).collect();
        let mut schema = json!({ "allOf": all });
        let left_out = keep_usable(&mut schema, &mut SchemaBudget::default()).unwrap();
        let kept = all_in(&schema).len();
        assert_eq!(kept + left_out.len(), patterns.len());
        left_out
    }

    #[test]
    fn patterns_that_people_write_are_taken() {
        for pattern in [
            "^[a-zA-Z0-9_-]{1,128}$",
            "^.{1,255}$",
            r"^\S{1,200}$",
            r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$",
            r"^(https?|ftp)://[^\s/$.?#].[^\s]*$",
            r"^\p{L}+$",
        ] {
            assert_eq!(left_out(&[pattern]), [""; 0], "{pattern}");
        }
    }

    #[test]
    fn m5_patterns_that_are_large_or_slow_to_compile_are_left_out() {
        for (pattern, why) in [
            ("[a-z]{30000}".to_owned(), "takes too much memory"),
            ("((a{1000}){1000}){1000}".to_owned(), "takes too much memory"),
            (r"\S".repeat(65), "is too long"),
            (r"\cA".repeat(65), "is too long"),
            ("a".repeat(2_049), "is too long"),
            ("(".to_owned(), "is no regular expression"),
            ("(?=a)b".to_owned(), "is not supported"),
            (r"^\h+$".to_owned(), "is of another language"),
            (r"\Qa.b\E".to_owned(), "is of another language"),
        ] {
            let words = left_out(&[&pattern]);
            assert!(words[0].starts_with("the pattern \"") && words[0].ends_with(why), "{words:?}");
        }
        assert_eq!(left_out(&[r"\\d".repeat(65).as_str()]), [""; 0]);
        let large: Vec<_> = (0..5).map(|n| format!("[a-z]{{5000}}{n}")).collect();
        let large: Vec<_> = large.iter().map(String::as_str).collect();
        assert!(!left_out(&large).is_empty());
        let many: Vec<_> = (0..70).map(|n| n.to_string()).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(left_out(&many).len(), 6);
    }

    #[test]
    fn outside_03_a_pattern_that_looks_around_is_left_out_wherever_it_stands() {
        let mut schema = json!({
            "properties": {
                "pattern": { "type": "string", "pattern": "^(?!\\.)a@b$", "enum": ["(?=a)"] },
                "map": {
                    "patternProperties": { "^(?=a)": {}, "^b": {} },
                    "propertyNames": { "pattern": "(?<=a)b" },
                    "additionalProperties": false,
                },
            },
        });
        let left_out = keep_usable(&mut schema, &mut SchemaBudget::default()).unwrap();
        assert_eq!(left_out.len(), 3);
        let expected = json!({
            "properties": {
                "pattern": { "type": "string", "enum": ["(?=a)"] },
                "map": { "patternProperties": { "^b": {} }, "propertyNames": {} },
            },
        });
        assert_eq!(schema, expected);
    }

    #[test]
    fn m5_a_server_pays_for_patterns_that_are_left_out() {
        let mut budget = SchemaBudget::default();
        let mut taken = || keep_usable(&mut json!({ "pattern": "[a-z]{30000}" }), &mut budget);
        let refused = (0..20).filter(|_| taken() == Err(SchemaFault::Server)).count();
        assert!(10 < refused, "{refused}");
    }
}
