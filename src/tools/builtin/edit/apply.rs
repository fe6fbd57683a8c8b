//! Replacing text in bytes: what is outside a match stays as it is, byte for byte.

use std::borrow::Cow;

use memchr::memmem;

use super::folded::Folded;
use super::{hints, indentation};
use crate::files::line_ends;

/// Line numbers in an error; more would not help.
const MAX_LINES_NAMED: usize = 20;

/// One replacement to make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replacement<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) all: bool,
}

/// What making it did.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) content: Vec<u8>,
    pub(super) count: usize,
    /// Only the indentation of the old text differed.
    pub(super) was_reindented: bool,
}

/// Makes the replacement in `content`, or says what stands in its way.
pub(super) fn apply(content: &[u8], replacement: Replacement<'_>) -> Result<Applied, String> {
    let old = line_ends::without_returns(replacement.old);
    let new = line_ends::without_returns(replacement.new);
    if old == new {
        return Err("old_string and new_string are the same, so there is nothing to change".into());
    }
    if old.is_empty() {
        return fill(content, replacement.new);
    }
    let folded = Folded::new(content);
    let matches: Vec<usize> = memmem::find_iter(&folded.bytes, old.as_bytes()).collect();
    match matches.as_slice() {
        [] => match indentation::find(&folded.bytes, &old, &new) {
            Some(found) => Ok(Applied {
                content: replaced(content, &folded, &[found.start], found.length, &found.new),
                count: 1,
                was_reindented: true,
            }),
            None => Err(hints::not_found(&folded.bytes, &old)),
        },
        [_, _, ..] if !replacement.all => Err(several(&folded, &matches)),
        _ => Ok(Applied {
            content: replaced(content, &folded, &matches, old.len(), &new),
            count: matches.len(),
            was_reindented: false,
        }),
    }
}

/// An empty old text means a file without any.
fn fill(content: &[u8], new: &str) -> Result<Applied, String> {
    if !content.is_empty() {
        return Err("old_string is empty, which only creates a file or fills an empty one; \
             give the text to replace"
            .into());
    }
    Ok(Applied { content: new.as_bytes().to_vec(), count: 1, was_reindented: false })
}

fn several(folded: &Folded, matches: &[usize]) -> String {
    let lines: Vec<String> = matches
        .iter()
        .take(MAX_LINES_NAMED)
        .map(|start| folded.line_of(*start).to_string())
        .collect();
    let more = if matches.len() > MAX_LINES_NAMED { ", …" } else { "" };
    format!(
        "old_string was found {} times, at lines {}{more}; add text around it to make it unique, \
         or set replace_all",
        matches.len(),
        lines.join(", ")
    )
}

/// `content` with `new` for each match of `length` folded bytes.
fn replaced(
    content: &[u8],
    folded: &Folded,
    matches: &[usize],
    length: usize,
    new: &str,
) -> Vec<u8> {
    let mut whole = Vec::with_capacity(content.len() + new.len());
    let mut copied = 0;
    for start in matches {
        let (from, to) = (folded.original(*start), folded.original(start + length));
        whole.extend_from_slice(&content[copied..from]);
        whole.extend_from_slice(with_line_ends_at(content, from, to, new).as_bytes());
        copied = to;
    }
    whole.extend_from_slice(&content[copied..]);
    whole
}

/// Inserted lines end as those they replace, or else as the next or previous one.
fn with_line_ends_at<'a>(content: &[u8], from: usize, to: usize, new: &'a str) -> Cow<'a, str> {
    let ends_at = memchr::memchr(b'\n', &content[from..to])
        .map(|at| from + at)
        .or_else(|| memchr::memchr(b'\n', &content[to..]).map(|at| to + at))
        .or_else(|| memchr::memrchr(b'\n', &content[..from]));
    match ends_at {
        Some(at) if at > 0 && content[at - 1] == b'\r' => Cow::Owned(line_ends::with_returns(new)),
        _ => Cow::Borrowed(new),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(content: &[u8], old: &str, new: &str, all: bool) -> Result<Vec<u8>, String> {
        apply(content, Replacement { old, new, all }).map(|applied| applied.content)
    }

    #[track_caller]
    fn check(content: &[u8], (old, new): (&str, &str), expected: &[u8]) {
        let edited = edit(content, old, new, false).unwrap();
        assert_eq!(String::from_utf8_lossy(&edited), String::from_utf8_lossy(expected));
        assert_eq!(edited, expected);
    }

    #[test]
    fn replaces_the_one_match() {
        check(b"let a = 1;\n", ("a = 1", "b = 2"), b"let b = 2;\n");
        check(b"a\nb\nc\n", ("b\n", ""), b"a\nc\n");
    }

    #[test]
    fn leaves_all_other_bytes_alone() {
        check(b"\xef\xbb\xbf\xff\xfea\r\nb\nc\r", ("b", "B"), b"\xef\xbb\xbf\xff\xfea\r\nB\nc\r");
    }

    #[test]
    fn a_line_feed_matches_a_long_line_end_and_is_written_as_one() {
        check(b"a\r\nb\r\nc\n", ("a\nb", "x\ny\nz"), b"x\r\ny\r\nz\r\nc\n");
        check(b"a\r\nb\r\n", ("\nb\n", "\n"), b"a\r\n");
        check(b"a\nb\r\n", ("a", "x\ny"), b"x\ny\nb\r\n");
        check(b"a\r\nb", ("b", "x\ny"), b"a\r\nx\r\ny");
        check(b"a\r\nb\r\n", ("a\r\nb", "c\r\nd"), b"c\r\nd\r\n");
    }

    #[test]
    fn an_empty_old_text_fills_only_an_empty_file() {
        check(b"", ("", "new\r\n"), b"new\r\n");
        assert!(edit(b"x", "", "new", false).unwrap_err().contains("give the text to replace"));
    }

    #[test]
    fn several_matches_need_replace_all() {
        let error = edit(b"a\nb\na\na", "a", "x", false).unwrap_err();
        assert!(error.contains("found 3 times, at lines 1, 3, 4"), "{error}");
        assert_eq!(edit(b"a\nb\na\na", "a", "x", true).unwrap(), b"x\nb\nx\nx");
    }

    #[test]
    fn equal_texts_change_nothing() {
        assert!(edit(b"a\n", "a\r\n", "a\n", false).unwrap_err().contains("the same"));
    }

    proptest! {
        /// Against the plain definition, for texts without long line ends.
        #[test]
        fn agrees_with_replace(
            (before, after) in ("[ab\n]{0,15}", "[ab\n]{0,15}"),
            old in "[ab\n]{1,3}",
            new in "[cd\n]{0,3}",
        ) {
            prop_assume!(old != new);
            let content = format!("{before}{old}{after}");
            let edited = edit(content.as_bytes(), &old, &new, true).unwrap();
            prop_assert_eq!(edited, content.replace(&old, &new).into_bytes());
        }

        /// Long line ends make no difference to what is matched.
        #[test]
        fn agrees_whatever_the_line_ends(
            (before, after) in ("[ab\n]{0,15}", "[ab\n]{0,15}"),
            old in "[ab\n]{1,3}",
            new in "[cd\n]{0,3}",
        ) {
            prop_assume!(old != new);
            let content = format!("{before}{old}{after}");
            let long = content.replace('\n', "\r\n");
            let edited = edit(long.as_bytes(), &old, &new, true).unwrap();
            let expected = content.replace(&old, &new);
            let folded = String::from_utf8(edited).unwrap().replace("\r\n", "\n");
            prop_assert_eq!(folded, expected);
        }
    }
}
