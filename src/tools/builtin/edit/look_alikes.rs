//! Finds a text that equals the old text but for quotes, dashes and spaces that look like those of
//! ASCII.

use memchr::memmem;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::folded::line_of;
use crate::look_alike::{Difference, plain};

/// Words and signs of both texts that are compared one by one. Comparing takes time quadratic in
/// their number.
const MAX_TOKENS: usize = 10_000;

/// The position of the text, and the new text with the characters that it takes over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LookAlikeMatch {
    pub(super) start: usize,
    pub(super) length: usize,
    pub(super) new: String,
    /// Where it differs from the old text first, in words.
    pub(super) difference: String,
}

/// Finds the one place in `content` that equals `old` when its look-alikes are taken for ASCII.
/// `None` if there is no such place, if there are several, or if `old` holds look-alikes itself:
/// then it means what it says. Line ends in `content` must be folded.
pub(super) fn find(content: &[u8], old: &str, new: &str) -> Option<LookAlikeMatch> {
    let has_plain_form = old.contains(['\'', '"', '-', ' ']);
    if !has_plain_form || old.contains(|c| plain(c).is_some()) {
        return None;
    }
    let text = with_plain_forms(content)?;
    let finder = memmem::Finder::new(old);
    let found = finder.find(&text)?;
    // Overlapping places count too, so go on one byte later.
    if finder.find(&text[found + 1..]).is_some() {
        return None;
    }
    let start = original_offset(content, found);
    let length = original_offset(&content[start..], old.len());
    let matched = str::from_utf8(&content[start..start + length]).ok()?;
    let line_start = memchr::memrchr(b'\n', &content[..start]).map_or(0, |end| end + 1);
    let column = String::from_utf8_lossy(&content[line_start..start]).chars().count() + 1;
    let difference = Difference::find((matched, old), (line_of(content, start), column))?;
    let (line, column) = (difference.line, difference.column);
    let difference =
        format!("line {line}, column {column}: {}", difference.between("the file", "old_string"));
    Some(LookAlikeMatch {
        start,
        length,
        new: with_kept_characters(matched, old, new)?,
        difference,
    })
}

/// The text with ASCII in the place of each look-alike. `None` if it holds none.
fn with_plain_forms(content: &[u8]) -> Option<Vec<u8>> {
    if content.is_ascii() {
        return None;
    }
    let mut text = Vec::with_capacity(content.len());
    for chunk in content.utf8_chunks() {
        let valid = chunk.valid();
        let mut copied = 0;
        for (at, odd) in valid.match_indices(|c| plain(c).is_some()) {
            text.extend_from_slice(&valid.as_bytes()[copied..at]);
            text.extend(odd.chars().filter_map(plain).map(|c| c as u8));
            copied = at + odd.len();
        }
        text.extend_from_slice(&valid.as_bytes()[copied..]);
        text.extend_from_slice(chunk.invalid());
    }
    (text.len() < content.len()).then_some(text)
}

/// The offset in the content of an offset in its text with plain forms, at the border of a
/// character. It reads the content again: a table of all look-alikes could be larger than it.
fn original_offset(content: &[u8], offset: usize) -> usize {
    let (mut at, mut in_text) = (0, 0);
    for chunk in content.utf8_chunks() {
        for c in chunk.valid().chars() {
            if in_text >= offset {
                return at;
            }
            at += c.len_utf8();
            in_text += plain(c).map_or(c.len_utf8(), char::len_utf8);
        }
        let invalid = chunk.invalid().len();
        if in_text + invalid > offset {
            return at + (offset - in_text);
        }
        at += invalid;
        in_text += invalid;
    }
    at
}

/// The new text, in which what it repeats of the old one is as in the file. `None` if the texts
/// are too long to be compared.
fn with_kept_characters(matched: &str, old: &str, new: &str) -> Option<String> {
    let (old_tokens, new_tokens) = (tokens(old), tokens(new));
    if old_tokens.len() + new_tokens.len() > MAX_TOKENS {
        return None;
    }
    let mut rest = matched;
    let mut in_file = Vec::with_capacity(old_tokens.len());
    for token in &old_tokens {
        let chars = token.chars().count();
        let end = rest.char_indices().nth(chars).map_or(rest.len(), |(end, _)| end);
        in_file.push(&rest[..end]);
        rest = &rest[end..];
    }
    let mut text = String::with_capacity(new.len());
    for operation in capture_diff_slices(Algorithm::Myers, &old_tokens, &new_tokens) {
        if let DiffOp::Equal { old_index, len, .. } = operation {
            text.extend(in_file[old_index..old_index + len].iter().copied());
        } else {
            text.extend(new_tokens[operation.new_range()].iter().copied());
        }
    }
    Some(text)
}

/// Splits a text into words, and single characters between them.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(word.max(first.len_utf8()));
        tokens.push(token);
        rest = after;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &str, (old, new): (&str, &str), expected: Option<(&str, &str)>) {
        let found = find(content.as_bytes(), old, new);
        let found = found
            .as_ref()
            .map(|found| (&content[found.start..found.start + found.length], found.new.as_str()));
        assert_eq!(found, expected);
    }

    #[test]
    fn what_the_new_text_repeats_keeps_the_files_characters() {
        check(
            "x\nsay(\u{201c}a\u{201d}) \u{2013} it\u{2019}s\n",
            ("say(\"a\") - it's", "print(\"b\") - it's \"new\""),
            Some((
                "say(\u{201c}a\u{201d}) \u{2013} it\u{2019}s",
                "print(\u{201c}b\u{201d}) \u{2013} it\u{2019}s \"new\"",
            )),
        );
        check("a\u{a0}b c\n", ("a b c", "a b d"), Some(("a\u{a0}b c", "a\u{a0}b d")));
        check("变量\u{2019}s\n", ("变量's", "变量"), Some(("变量\u{2019}s", "变量")));
        check("a\u{2014}b\n", ("a-b\n", ""), Some(("a\u{2014}b\n", "")));
    }

    #[test]
    fn only_a_unique_match_of_ascii_is_taken() {
        check("it\u{2019}s, it\u{2018}s", ("it's", "is"), None);
        check("aa\u{2019}aa\u{2019}aa", ("aa'aa", "b"), None);
        check("it's \u{2019}", ("it\u{2019}s", "is"), None);
        check("caf\u{e9}", ("cafe", "tea"), None);
        check("it\u{2019}s", ("It's", "is"), None);
        check("(a)", ("(b)", "c"), None);
        let long = "a\u{a0}".repeat(MAX_TOKENS);
        check(&long, (&"a ".repeat(MAX_TOKENS), "b"), None);
    }

    #[test]
    fn bytes_that_are_no_text_stand_in_nobodys_way() {
        let content = b"\xff\xe2\x80\n\xfe it\xe2\x80\x99s \xff";
        let found = find(content, "it's", "it's so").unwrap();
        assert_eq!(&content[found.start..found.start + found.length], "it\u{2019}s".as_bytes());
        assert_eq!(found.new, "it\u{2019}s so");
        let place =
            "line 2, column 5: the file has U+2019 (\u{2019}) where old_string has U+0027 (')";
        assert_eq!(found.difference, place);
    }
}
