//! Replaces text in bytes, and leaves everything outside the matches unchanged.

use memchr::memmem;

use super::folded::{OriginalOffsets, fold, line_of};
use super::{hints, indentation, look_alikes};
use crate::files::{MAX_EDITED_BYTES, line_ends};

/// Line numbers in an error message. More would not help.
const MAX_LINES_NAMED: usize = 20;

/// One replacement to make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replacement<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) all: bool,
}

/// The result of one replacement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AppliedEdit {
    pub(super) content: Vec<u8>,
    pub(super) count: usize,
    /// How the text that was found differs from the old text.
    pub(super) fallback: Option<Fallback>,
}

/// What the text that was found differs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fallback {
    Indentation,
    /// The first difference in words.
    LookAlikes(String),
}

/// What of a text may be passed over where it is not found as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leniency {
    Indentation,
    IndentationAndLookAlikes,
}

/// Makes the replacement in `content`. The error is for the model.
pub(super) fn apply(
    content: &[u8],
    replacement: Replacement<'_>,
    leniency: Leniency,
) -> Result<AppliedEdit, String> {
    let old = line_ends::without_returns(replacement.old);
    let new = line_ends::without_returns(replacement.new);
    if old == new {
        return Err("old_string and new_string are the same, so there is nothing to change".into());
    }
    if old.is_empty() {
        return fill(content, replacement.new);
    }
    let folded = fold(content);
    let finder = memmem::Finder::new(old.as_bytes());
    match finder.find_iter(&folded).count() {
        0 => {
            if let Some(found) = indentation::find(&folded, &old, &new) {
                let place = std::iter::once(found.start);
                let content = replaced(content, place, found.length, &found.new)?;
                let fallback = Some(Fallback::Indentation);
                return Ok(AppliedEdit { content, count: 1, fallback });
            }
            let look_alike = match leniency {
                Leniency::Indentation => None,
                Leniency::IndentationAndLookAlikes => look_alikes::find(&folded, &old, &new),
            };
            let Some(found) = look_alike else { return Err(hints::not_found(&folded, &old)) };
            let place = std::iter::once(found.start);
            let content = replaced(content, place, found.length, &found.new)?;
            let fallback = Some(Fallback::LookAlikes(found.difference));
            Ok(AppliedEdit { content, count: 1, fallback })
        }
        count if count > 1 && !replacement.all => {
            let first = finder.find_iter(&folded).take(MAX_LINES_NAMED);
            let lines = first.map(|start| line_of(&folded, start).to_string()).collect::<Vec<_>>();
            Err(several(count, &lines))
        }
        count => {
            let content = replaced(content, finder.find_iter(&folded), old.len(), &new)?;
            Ok(AppliedEdit { content, count, fallback: None })
        }
    }
}

/// Handles an empty old text, which matches only an empty file.
fn fill(content: &[u8], new: &str) -> Result<AppliedEdit, String> {
    if !content.is_empty() {
        return Err("old_string is empty, which only creates a file or fills an empty one; \
             give the text to replace"
            .into());
    }
    Ok(AppliedEdit { content: new.as_bytes().to_vec(), count: 1, fallback: None })
}

fn several(count: usize, lines: &[String]) -> String {
    let more = if count > lines.len() { ", …" } else { "" };
    format!(
        "old_string was found {count} times, at lines {}{more}; add text around it to make it \
         unique, or set replace_all",
        lines.join(", ")
    )
}

/// Puts `new` in the place of each match. `matches` and `length` count folded bytes. Fails as
/// soon as the result is too long, before it takes more memory.
fn replaced(
    content: &[u8],
    matches: impl Iterator<Item = usize>,
    length: usize,
    new: &str,
) -> Result<Vec<u8>, String> {
    let most = MAX_EDITED_BYTES.max(content.len());
    let mut whole = Vec::with_capacity(content.len() + new.len());
    let mut offsets = OriginalOffsets::new(content);
    let mut inserted = Inserted::new(content, new);
    let mut copied = 0;
    for start in matches {
        let (from, to) = (offsets.original(start), offsets.original(start + length));
        whole.extend_from_slice(&content[copied..from]);
        whole.extend_from_slice(inserted.at(from).as_bytes());
        copied = to;
        if whole.len() + (content.len() - copied) > most {
            return Err(format!(
                "the file would grow past {most} bytes, the most that can be edited"
            ));
        }
    }
    whole.extend_from_slice(&content[copied..]);
    Ok(whole)
}

/// Gives the new text the line ends around each match: those of the replaced lines, or else
/// those of the next or the previous line.
struct Inserted<'a> {
    content: &'a [u8],
    as_given: &'a str,
    /// The new text with `\r\n`, if the file has such line ends and the text has lines.
    returned: Option<String>,
    /// The first line end at or after the latest match. `None` if there is none.
    next: Option<usize>,
    last: Option<usize>,
}

impl<'a> Inserted<'a> {
    fn new(content: &'a [u8], new: &'a str) -> Self {
        let is_mixed = new.contains('\n') && memmem::find(content, b"\r\n").is_some();
        Self {
            content,
            as_given: new,
            returned: is_mixed.then(|| line_ends::with_returns(new)),
            next: memchr::memchr(b'\n', content),
            last: memchr::memrchr(b'\n', content),
        }
    }

    /// The text for the match that begins at `from`. Matches must come in ascending order.
    fn at(&mut self, from: usize) -> &str {
        let Some(returned) = &self.returned else { return self.as_given };
        if self.next.is_some_and(|next| next < from) {
            self.next = memchr::memchr(b'\n', &self.content[from..]).map(|at| from + at);
        }
        match self.next.or(self.last) {
            Some(end) if end > 0 && self.content[end - 1] == b'\r' => returned,
            _ => self.as_given,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(content: &[u8], old: &str, new: &str, all: bool) -> Result<Vec<u8>, String> {
        let leniency = Leniency::IndentationAndLookAlikes;
        apply(content, Replacement { old, new, all }, leniency).map(|applied| applied.content)
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
    fn look_alikes_match_where_they_are_unique_and_may_be_passed_over() {
        let content = "a\r\nit\u{2019}s\r\nb\r\n".as_bytes();
        check(content, ("it's\nb", "it's\nc"), "a\r\nit\u{2019}s\r\nc\r\n".as_bytes());
        let replacement = Replacement { old: "it's", new: "is", all: true };
        let strictly = apply(content, replacement, Leniency::Indentation).unwrap_err();
        assert!(strictly.contains("U+2019"), "{strictly}");
        let several = "it\u{2019}s it\u{2019}s".as_bytes();
        let error = edit(several, "it's", "is", true).unwrap_err();
        assert!(error.contains("U+2019"), "{error}");
    }

    #[test]
    fn equal_texts_change_nothing() {
        assert!(edit(b"a\n", "a\r\n", "a\n", false).unwrap_err().contains("the same"));
    }

    #[test]
    fn a_hundred_thousand_matches_are_replaced_in_one_pass() {
        let content = b"ab".repeat(1 << 20);
        let edited = edit(&content, "a", "x\ny", true).unwrap();
        assert_eq!(edited.len(), content.len() * 2);
        let content = [&content[..], b"\r\n"].concat();
        let edited = edit(&content, "a", "x\ny", true).unwrap();
        assert!(edited.starts_with(b"x\r\nybx\r\nyb"));
        let content = [b"\r\n", &content[..content.len() - 2]].concat();
        let edited = edit(&content, "a", "x\ny", true).unwrap();
        assert!(edited.ends_with(b"x\r\nyb"));
    }

    #[test]
    fn what_would_grow_too_large_is_refused() {
        let content = b"a".repeat(1 << 20);
        let error = edit(&content, "a", &"b".repeat(1 << 19), true).unwrap_err();
        assert!(error.contains("would grow"), "{error}");
    }

    #[test]
    fn whole_lines_are_looked_for_in_one_pass() {
        let content = b"\n".repeat(8 << 20);
        let old = format!("{}x", "\n".repeat(1 << 18));
        assert!(edit(&content, &old, "y", false).unwrap_err().starts_with("old_string was not"));
        let content = b"    a\n".repeat(1 << 18);
        let old = format!("{}\tb", "\ta\n".repeat(1 << 17));
        assert!(edit(&content, &old, "y", false).unwrap_err().starts_with("old_string was not"));
    }

    /// Bytes of any kind: no UTF-8, line ends of every kind, a mark in the middle, NUL.
    fn outside() -> impl Strategy<Value = Vec<u8>> {
        let pieces: [&[u8]; 9] =
            [b"a", b"\r\n", b"\n", b"\r", b"\xff", b"\xc3", b"\0", b"\xef\xbb\xbf", b"  \t"];
        proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..12)
            .prop_map(|pieces| pieces.concat())
    }

    proptest! {
        /// Compares with `str::replace`, for texts without `\r\n`.
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

        #[test]
        fn every_byte_outside_the_match_is_kept(
            before in outside(), after in outside(), old in "x[\n]?y", new in "[c\n]{0,3}",
        ) {
            let content = [&before[..], old.as_bytes(), &after[..]].concat();
            let edited = edit(&content, &old, &new, false).unwrap();
            prop_assert!(edited.starts_with(&before), "{:?}", edited);
            prop_assert!(edited.ends_with(&after), "{:?}", edited);
            let inserted = edited.len() - before.len() - after.len();
            let inserted = &edited[before.len()..][..inserted];
            let folded = String::from_utf8(inserted.to_vec()).unwrap().replace("\r\n", "\n");
            prop_assert_eq!(folded, new);
        }

        /// `\r\n` and `\n` match alike.
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
