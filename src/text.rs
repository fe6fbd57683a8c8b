//! Cuts text at character boundaries, escapes it, and finds the names nearest to a wrong one.

use std::borrow::Cow;

/// May stand at the start of a text to mark it as Unicode. It is no part of the text.
pub(crate) const BYTE_ORDER_MARK: &str = "\u{feff}";

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

/// The first `chars` characters of `text`.
pub(crate) fn first_chars(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// The last `chars` characters of `text`.
pub(crate) fn last_chars(text: &str, chars: usize) -> &str {
    let Some(before_first) = chars.checked_sub(1) else { return "" };
    text.char_indices().rev().nth(before_first).map_or(text, |(start, _)| &text[start..])
}

/// Drops an incomplete last line, unless that would drop more than half.
pub(crate) fn whole_lines_of_head(text: &str) -> &str {
    let end = text.rfind('\n').map_or(0, |end| end + 1);
    if text.len() / 2 < end { &text[..end] } else { text }
}

/// Drops an incomplete first line, unless that would drop more than half.
pub(crate) fn whole_lines_of_tail(text: &str) -> &str {
    let start = text.find('\n').map_or(text.len(), |end| end + 1);
    if start < text.len() / 2 { &text[start..] } else { text }
}

/// The names that are similar enough, the most similar first; equals in their own order.
/// Each comes with its similarity to the name that was given, where 1 is the same.
pub(crate) fn closest<N: Ord>(
    known: impl Iterator<Item = (f64, N)>,
    min_similarity: f64,
) -> impl Iterator<Item = N> {
    let mut likely: Vec<_> =
        known.filter(|(similarity, _)| *similarity >= min_similarity).collect();
    likely.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    likely.into_iter().map(|(_, name)| name)
}

/// Bytes of a wrong name that an error quotes.
const MAX_QUOTED_NAME: usize = 80;

/// A wrong name as an error quotes it: cut, on one line, and with its control characters escaped.
pub(crate) fn quoted_name(name: &str) -> String {
    prefix(name, MAX_QUOTED_NAME).escape_debug().to_string()
}

/// The end of an error about a name that does not exist.
pub(crate) fn did_you_mean(name: Option<&str>) -> String {
    name.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
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

/// `text` without the characters that nobody sees and a model reads: tags, characters that change
/// the direction of writing, those without a width, and control characters.
pub(crate) fn without_hidden(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| is_hidden(c) || is_emoji_selector(c)) {
        return Cow::Borrowed(text);
    }
    let mut last = ' ';
    let is_shown = |c: &char| {
        let is_shown = !is_hidden(*c) && (!is_emoji_selector(*c) || has_two_forms(last));
        last = if is_shown { *c } else { last };
        is_shown
    };
    Cow::Owned(text.chars().filter(is_shown).collect())
}

/// Chooses whether the character before it is an emoji or plain.
fn is_emoji_selector(c: char) -> bool {
    matches!(c, '\u{fe0e}' | '\u{fe0f}')
}

/// Whether the character may be an emoji and plain: signs and pictures, and what keys have.
fn has_two_forms(c: char) -> bool {
    matches!(c, '0'..='9' | '#' | '*' | '©' | '®' | '\u{203c}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// `text` on one line, without the characters of [`without_hidden`].
pub(crate) fn shown_line(text: &str) -> String {
    one_line(&without_hidden(text))
}

pub(crate) fn is_hidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{ffa0}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        )
}

/// The words of `text` on one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_from_either_end() {
        for (chars, first, last) in [(0, "", ""), (1, "a", "ü"), (2, "aé", "éü"), (9, "aéü", "aéü")]
        {
            assert_eq!((first_chars("aéü", chars), last_chars("aéü", chars)), (first, last));
        }
    }

    #[test]
    fn a_cut_line_goes_unless_it_is_most_of_the_text() {
        assert_eq!(whole_lines_of_head("one\ntw"), "one\n");
        assert_eq!(whole_lines_of_head("one\ntwo thr"), "one\ntwo thr");
        assert_eq!(whole_lines_of_tail("e\nfour"), "four");
        assert_eq!(whole_lines_of_tail("three\n4"), "three\n4");
    }

    #[test]
    fn the_closest_name_comes_first_and_a_distant_one_not_at_all() {
        let known = [(0.7, "b"), (0.9, "c"), (0.7, "a"), (0.1, "d")];
        assert_eq!(closest(known.into_iter(), 0.5).collect::<Vec<_>>(), ["c", "a", "b"]);
    }

    #[test]
    fn g2_what_nobody_sees_is_taken_out() {
        let tags: String =
            "run".chars().map(|c| char::from_u32(0xe0000 + c as u32).unwrap()).collect();
        let text = format!("a\u{202e}b\u{2066}c\u{200b}d\u{feff}e{tags}\u{e0101}\u{1b}\tf\n");
        assert_eq!(without_hidden(&text), "abcde\tf\n");
        assert!(matches!(without_hidden("für"), Cow::Borrowed(_)));
        for emoji in ["für ✔\u{fe0f}", "1\u{fe0f}\u{20e3}", "❤\u{fe0e}"] {
            assert_eq!(without_hidden(emoji), emoji);
        }
        for (text, shown) in [
            ("a\u{fe00}\u{fe0d}b\u{fe0e}c\u{fe0f}d", "abcd"),
            ("✔\u{fe0f}\u{fe0f}\u{fe0e}", "✔\u{fe0f}"),
            ("a\u{3164}b\u{115f}\u{1160}c\u{ffa0}d\u{17b4}\u{17b5}e", "abcde"),
        ] {
            assert_eq!(without_hidden(text), shown);
        }
    }

    #[test]
    fn names_are_one_printable_line() {
        assert_eq!(printable("für.rs".as_bytes()), "für.rs");
        assert_eq!(printable(b"a\nb\x1b[31m\xff"), r"a\nb\u{1b}[31m\xff");
        assert_eq!(printable("a\u{202e}b".as_bytes()), r"a\u{202e}b");
    }
}
