//! Cuts and escapes text without breaking characters.

use std::borrow::Cow;

/// The longest prefix of `text` that has at most `bytes` bytes and ends at a character
/// boundary.
pub(crate) fn prefix(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The longest suffix of `text` that has at most `bytes` bytes and begins at a character
/// boundary.
pub(crate) fn suffix(text: &str, bytes: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// `text` with `…` in place of its middle, if it is longer than `bytes` bytes.
pub(crate) fn shortened(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…{}", prefix(text, bytes / 2), suffix(text, bytes / 2)))
}

/// A file name as one line of text. Escapes invalid UTF-8, control characters, and characters
/// that change the direction of writing.
pub(crate) fn printable(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_unprintable(c) {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            text.extend(std::ascii::escape_default(*byte).map(char::from));
        }
    }
    text
}

fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_printable_line() {
        assert_eq!(printable("für.rs".as_bytes()), "für.rs");
        assert_eq!(printable(b"a\nb\x1b[31m\xff"), r"a\nb\u{1b}[31m\xff");
        assert_eq!(printable("a\u{202e}b".as_bytes()), r"a\u{202e}b");
    }
}
