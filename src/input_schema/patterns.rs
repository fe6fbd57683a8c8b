//! Bounds the memory and the time that the patterns of a schema take when they are compiled.

use regex_automata::meta::{Builder, Config};

use super::budget::SchemaBudget;
use super::foreign::SchemaFault;
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

/// What a pattern counts for, and each of its bytes, whatever it is compiled to: the time that it
/// takes is bounded with the memory.
const PATTERN_SIZE: usize = 4 << 10;
const SIZE_PER_BYTE: usize = 64;

/// Takes what the patterns need from the budget, before they are compiled for good.
pub(super) fn take(patterns: &[&str], budget: &mut SchemaBudget) -> Result<(), SchemaFault> {
    let mut together = 0;
    for pattern in patterns {
        together += take_one(pattern, budget)?;
        if MAX_TOGETHER < together {
            return Err(SchemaFault::Patterns);
        }
    }
    Ok(())
}

/// The memory of one compiled pattern.
fn take_one(pattern: &str, budget: &mut SchemaBudget) -> Result<usize, SchemaFault> {
    let fault = |why: &str| {
        SchemaFault::Invalid(format!("the pattern \"{}\" {why}", text::quoted_name(pattern)))
    };
    if MAX_LENGTH < pattern.len() || MAX_REWRITTEN < rewritten_escapes(pattern) {
        return Err(fault("is too long"));
    }
    budget.take(PATTERN_SIZE + SIZE_PER_BYTE * pattern.len())?;
    let translated = jsonschema_regex::to_rust_regex(pattern);
    let translated = translated.map_err(|()| fault("is no regular expression"))?;
    let limits = Config::new()
        .nfa_size_limit(Some(MAX_PATTERN_BYTES))
        .hybrid_cache_capacity(MAX_PATTERN_BYTES);
    match Builder::new().configure(limits).build(&translated) {
        Ok(compiled) => {
            let size = compiled.memory_usage();
            budget.take(size)?;
            Ok(size)
        }
        Err(error) if error.size_limit().is_some() => {
            budget.use_up(MAX_PATTERN_BYTES);
            Err(fault("takes too much memory"))
        }
        Err(_) => Err(fault("is not supported")),
    }
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
    use super::*;

    fn fault(patterns: &[&str]) -> Option<String> {
        take(patterns, &mut SchemaBudget::default()).err().map(|fault| fault.to_string())
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
            assert_eq!(fault(&[pattern]), None, "{pattern}");
        }
    }

    #[test]
    fn m5_patterns_that_are_large_or_slow_to_compile_are_refused() {
        let invalid = "its input schema does not compile: the pattern \"";
        for (pattern, why) in [
            ("[a-z]{30000}".to_owned(), "takes too much memory"),
            ("((a{1000}){1000}){1000}".to_owned(), "takes too much memory"),
            (r"\S".repeat(65), "is too long"),
            (r"\cA".repeat(65), "is too long"),
            ("a".repeat(2_049), "is too long"),
            ("(".to_owned(), "is no regular expression"),
            ("(?=a)b".to_owned(), "is not supported"),
        ] {
            let fault = fault(&[&pattern]).unwrap();
            assert!(fault.starts_with(invalid) && fault.ends_with(why), "{fault}");
        }
        assert_eq!(fault(&[r"\\d".repeat(65).as_str()]), None);
        let large: Vec<_> = (0..5).map(|n| format!("[a-z]{{5000}}{n}")).collect();
        let large: Vec<_> = large.iter().map(String::as_str).collect();
        assert_eq!(
            fault(&large).unwrap(),
            "its input schema has more than 64 patterns, or patterns that take too much memory"
        );
    }

    #[test]
    fn m5_a_server_pays_for_patterns_that_are_refused() {
        let mut budget = SchemaBudget::default();
        let faults = (0..20).map(|_| take(&["[a-z]{30000}"], &mut budget).unwrap_err());
        let refused = faults.filter(|fault| *fault == SchemaFault::Server).count();
        assert!(10 < refused, "{refused}");
    }
}
