//! Cuts text at character boundaries, escapes it, and finds the names nearest to a wrong one.

use std::borrow::Cow;
use std::path::Path;

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

/// A path as one line of text, like [`printable`].
pub(crate) fn printable_path(path: &Path) -> String {
    printable(path.as_os_str().as_encoded_bytes())
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
/// the direction of writing, those without a width, and control characters. The one rule for all
/// foreign text. What scripts and emoji need to be written stays: see [`needed_of`].
pub(crate) fn without_hidden(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen_alone) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_unseen_alone) {
        shown.push_str(&rest[..start]);
        let run = &rest[start..];
        let end = run.find(|c| !is_unseen_alone(c)).unwrap_or(run.len());
        let (run, behind) = run.split_at(end);
        let before = shown.chars().next_back();
        let kept = needed_of(run, before, behind.chars().next());
        shown.extend(kept);
        rest = behind;
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Whether nobody sees the character where it stands alone.
fn is_unseen_alone(c: char) -> bool {
    is_hidden(c) || is_emoji_selector(c)
}

/// Selects from a run of unseen characters those that writing needs between these two: the tags of
/// a flag; else the choice between emoji and sign, and one character that joins, parts or varies its
/// neighbours. The rest of the run could only be a message to a model.
fn needed_of(run: &str, before: Option<char>, after: Option<char>) -> impl Iterator<Item = char> {
    let flag = if before == Some(BLACK_FLAG) { flag_tags(run) } else { "" };
    let has_forms = before.is_some_and(has_two_forms);
    let selector = run.chars().find(|c| has_forms && is_emoji_selector(*c));
    let joiner = run.chars().find(|c| is_needed_between(*c, before, after));
    flag.chars().chain(selector).chain(joiner)
}

/// Begins the flags of countries that are parts of others.
const BLACK_FLAG: char = '\u{1f3f4}';

/// The tags of the three flags that Unicode recommends: England, Scotland and Wales.
const FLAGS: [&str; 3] = [
    "\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];

/// The tags of a flag that the run begins with.
fn flag_tags(run: &str) -> &str {
    let flag = FLAGS.into_iter().find(|flag| run.starts_with(flag));
    flag.unwrap_or_default()
}

/// Whether writing needs the unseen character between these two.
fn is_needed_between(c: char, before: Option<char>, after: Option<char>) -> bool {
    let is_either = |is: fn(char) -> bool| before.is_some_and(is) || after.is_some_and(is);
    let are_both = |is: fn(char) -> bool| before.is_some_and(is) && after.is_some_and(is);
    match c {
        ZERO_WIDTH_NON_JOINER => is_either(is_of_joining_script),
        ZERO_WIDTH_JOINER => is_either(is_of_joining_script) || are_both(is_picture),
        ZERO_WIDTH_SPACE => are_both(is_of_script_without_blanks),
        // Mongolian letters have variants, and vowels that stand apart.
        '\u{180b}'..='\u{180f}' => before.is_some_and(|c| matches!(c, '\u{1800}'..='\u{18af}')),
        _ => false,
    }
}

const ZERO_WIDTH_SPACE: char = '\u{200b}';
const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';

/// Whether the character is of a script whose letters join, so that words differ by whether they
/// do: those from Hebrew and Arabic to Mandaic, the Indic ones and their kin, and Mongolian.
fn is_of_joining_script(c: char) -> bool {
    matches!(
        c,
        '\u{590}'..='\u{dff}'
            | '\u{f00}'..='\u{109f}'
            | '\u{1700}'..='\u{18af}'
            | '\u{1900}'..='\u{1aaf}'
            | '\u{1b00}'..='\u{1c7f}'
            | '\u{1cd0}'..='\u{1cff}'
            | '\u{a800}'..='\u{a8ff}'
            | '\u{a900}'..='\u{a95f}'
            | '\u{a980}'..='\u{aaff}'
            | '\u{abc0}'..='\u{abff}'
            | '\u{fb1d}'..='\u{fdff}'
            | '\u{fe70}'..='\u{fefc}'
            | '\u{10a00}'..='\u{10aff}'
            | '\u{10b80}'..='\u{10baf}'
            | '\u{10d00}'..='\u{10fff}'
            | '\u{11000}'..='\u{11fff}'
            | '\u{1e900}'..='\u{1e95f}'
    )
}

/// Whether the character is of a script that puts no blanks between words, where a blank without
/// a width may stand instead: Thai, Lao, Tibetan, Burmese, Khmer and their kin.
fn is_of_script_without_blanks(c: char) -> bool {
    matches!(
        c,
        '\u{e00}'..='\u{109f}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{1950}'..='\u{19ff}'
            | '\u{1a20}'..='\u{1aaf}'
            | '\u{1b00}'..='\u{1b7f}'
            | '\u{a980}'..='\u{a9ff}'
            | '\u{aa60}'..='\u{aadf}'
    )
}

/// Whether the character may be a part of a picture that several emoji make together.
fn is_picture(c: char) -> bool {
    matches!(c, '\u{203c}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
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

/// Whether a reader does not see the character, wherever it stands. [`without_hidden`] knows what
/// is needed all the same.
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
    fn outside_21_joiners_stay_where_scripts_and_emoji_need_them() {
        for text in [
            "می\u{200c}خواهم",
            "CPU\u{200c}ها",
            "«کتاب»\u{200c}ها",
            "ه\u{200d}.",
            "क्\u{200d}ष",
            "र\u{200d}्य",
            "ന്\u{200d}",
            "ශ්\u{200d}රී",
            "👨\u{200d}👩\u{200d}👧",
            "👩🏽\u{200d}💻",
            "❤\u{fe0f}\u{200d}🔥",
            "🏳\u{fe0f}\u{200d}🌈",
            "🏴\u{200d}☠\u{fe0f}",
            "🏃\u{200d}♀\u{fe0f}",
            "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
            "ភាសា\u{200b}ខ្មែរ",
            "ᠬ\u{180b}ᠠ",
            "ᠨ\u{180e}ᠠ",
        ] {
            assert_eq!(without_hidden(text), text);
        }
    }

    #[test]
    fn outside_21_no_message_hides_among_joiners() {
        for (text, shown) in [
            ("pass\u{200c}word\u{200d}", "password"),
            ("für\u{200c}\u{200d}\u{200b}", "für"),
            ("漢\u{200b}字\u{200d}", "漢字"),
            ("a\u{200d}😀", "a😀"),
            ("😀\u{200d}a", "😀a"),
            ("م\u{200c}\u{200d}\u{200c}\u{200b}\u{2060}ی", "م\u{200c}ی"),
            ("م\u{202e}\u{200c}\u{e0061}ی", "م\u{200c}ی"),
            ("م\u{200f}ی", "می"),
            ("😀\u{e0072}\u{e0075}\u{e006e}\u{e007f}", "😀"),
            ("🏴\u{e0072}\u{e0075}\u{e006e}\u{e007f}", "🏴"),
            ("🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e0061}\u{e007f}", "🏴"),
            ("ก\u{200b}a\u{200b}ข", "กaข"),
            ("\u{200d}\u{200c}", ""),
        ] {
            assert_eq!(without_hidden(text), shown, "{text:?}");
            assert_eq!(without_hidden(shown), shown, "{shown:?}");
        }
        let many = "\u{200d}".repeat(1_000_000);
        assert_eq!(without_hidden(&format!("م{many}ی")), "م\u{200d}ی");
    }

    #[test]
    fn names_are_one_printable_line() {
        assert_eq!(printable("für.rs".as_bytes()), "für.rs");
        assert_eq!(printable(b"a\nb\x1b[31m\xff"), r"a\nb\u{1b}[31m\xff");
        assert_eq!(printable("a\u{202e}b".as_bytes()), r"a\u{202e}b");
    }
}
