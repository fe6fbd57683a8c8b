//! Computes the unified diff of a change, and shortens it for the model.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use memchr::memchr;
use serde::Serialize;
use similar::{ChangeTag, DiffOp, TextDiff};

use crate::text;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// After this time the diff becomes coarser. It is a courtesy, not worth a long wait.
const TIME_LIMIT: Duration = Duration::from_millis(500);

/// Larger texts are not compared: the diff could be as long as the text.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// How much of a diff the model is shown. It made the change itself.
const MAX_SHOWN_LINES: usize = 100;
const MAX_SHOWN_LINE_BYTES: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Hunk {
    old_start: usize,
    old_lines: usize,
    new_start: usize,
    new_lines: usize,
    /// Each line begins with its sign: ` `, `-` or `+`.
    lines: Vec<String>,
}

/// The hunks that turn `old` into `new`. `None` if a text is too long to compare. Replaces
/// bytes that are not UTF-8.
pub(crate) fn between(old: &[u8], new: &[u8]) -> Option<Vec<Hunk>> {
    if old.len().max(new.len()) > MAX_TEXT_BYTES {
        return None;
    }
    // Where neither has a `\n`, a `\r` ends a line, as in Read.
    let are_returns = [old, new].iter().all(|text| memchr(b'\n', text).is_none());
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let [old, new] = [old, new]
        .map(|text| if are_returns { Cow::Owned(text.replace('\r', "\n")) } else { text });
    // A line ends with `\n` alone, as in Read: a `\r` within it is text.
    let [old, new] = [&old, &new].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let diff = TextDiff::configure().timeout(TIME_LIMIT).diff_slices(&old, &new);
    let groups = diff.grouped_ops(CONTEXT_LINES);
    Some(groups.iter().filter_map(|operations| Hunk::from_operations(&diff, operations)).collect())
}

fn without_end(line: &str) -> &str {
    line.trim_end_matches(['\r', '\n'])
}

impl Hunk {
    fn from_operations(diff: &TextDiff<'_, '_, str>, operations: &[DiffOp]) -> Option<Self> {
        let (first, last) = (operations.first()?, operations.last()?);
        let old = first.old_range().start..last.old_range().end;
        let new = first.new_range().start..last.new_range().end;
        let changes = operations.iter().flat_map(|operation| diff.iter_changes(operation));
        let (mut deleted, mut inserted) = (HashSet::new(), HashSet::new());
        for change in operations.iter().flat_map(|operation| diff.iter_changes(operation)) {
            match change.tag() {
                ChangeTag::Delete => deleted.insert(without_end(change.value())),
                ChangeTag::Insert => inserted.insert(without_end(change.value())),
                ChangeTag::Equal => false,
            };
        }
        // Otherwise a change of line ends would look like none.
        let shows_ends = !deleted.is_disjoint(&inserted);
        let mut lines = Vec::new();
        for change in changes {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            let text = without_end(change.value());
            let has_return = change.value().len() > text.len() + 1;
            let end = if shows_ends && has_return { "\u{240d}" } else { "" };
            lines.push(format!("{sign}{text}{end}"));
            if !change.value().ends_with('\n') {
                lines.push("\\ No newline at end of file".to_owned());
            }
        }
        // Unified diffs count from 1, and give an empty range by the line before it.
        let start = |range: &std::ops::Range<usize>| range.start + usize::from(!range.is_empty());
        Some(Self {
            old_start: start(&old),
            old_lines: old.len(),
            new_start: start(&new),
            new_lines: new.len(),
            lines,
        })
    }

    fn header(&self) -> String {
        let Self { old_start, old_lines, new_start, new_lines, .. } = self;
        format!("@@ -{old_start},{old_lines} +{new_start},{new_lines} @@")
    }
}

/// How much of a diff a person is shown who must approve the change, in bytes: more than a model
/// writes in one call, as a rule. Pages that show much more stall.
const MAX_PREVIEW: usize = 128 * 1024;

/// A diff for a person who must approve the change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DiffPreview {
    pub(crate) text: String,
    /// How many of the diff's bytes are left out at its end.
    pub(crate) hidden: usize,
}

/// The hunks for a person who must approve the change, cut if they are extremely long.
pub(crate) fn preview(hunks: &[Hunk]) -> DiffPreview {
    let mut text = lines_of(hunks).join("\n");
    text.push('\n');
    let shown = text::prefix(&text, MAX_PREVIEW).len();
    let hidden = text.len() - shown;
    text.truncate(shown);
    DiffPreview { text, hidden }
}

/// How many lines of the hunks have this mark in their first column.
pub(crate) fn count_marked(hunks: &[Hunk], mark: char) -> usize {
    hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.starts_with(mark)).count()
}

pub(super) fn lines_of(hunks: &[Hunk]) -> Vec<String> {
    hunks
        .iter()
        .flat_map(|hunk| std::iter::once(hunk.header()).chain(hunk.lines.iter().cloned()))
        .collect()
}

/// The hunks as text for the model, cut if they are long. Without hunks, the reason.
pub(crate) fn snippet(hunks: Option<&[Hunk]>) -> String {
    let Some(hunks) = hunks else {
        return "\n(no diff: texts over 1 MiB are not compared)".to_owned();
    };
    let mut snippet = String::new();
    let lines = lines_of(hunks);
    for line in lines.iter().take(MAX_SHOWN_LINES) {
        let shown = text::prefix(line, MAX_SHOWN_LINE_BYTES);
        let mark = if shown.len() < line.len() { "…" } else { "" };
        let _ = write!(snippet, "\n{shown}{mark}");
    }
    if lines.len() > MAX_SHOWN_LINES {
        let _ = write!(snippet, "\n(diff cut: {} more lines)", lines.len() - MAX_SHOWN_LINES);
    }
    snippet
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn a_change_of_line_ends_can_be_seen() {
        let lines = |old: &[u8], new: &[u8]| lines_of(&between(old, new).unwrap()).join("\n");
        assert_eq!(
            lines(b"a\r\nb\r\n", b"a\nb\n"),
            "@@ -1,2 +1,2 @@\n-a\u{240d}\n-b\u{240d}\n+a\n+b"
        );
        assert_eq!(lines(b"a\n", b"a\r\n"), "@@ -1,1 +1,1 @@\n-a\n+a\u{240d}");
        assert_eq!(lines(b"a\rb\r", b"a\rc\r"), "@@ -1,2 +1,2 @@\n a\n-b\n+c");
        // Where the lines differ anyway, the ends do not matter.
        assert_eq!(lines(b"a\r\n", b"b\r\n"), "@@ -1,1 +1,1 @@\n-a\n+b");
    }

    #[test]
    fn shows_what_changed_and_three_lines_around() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9";
        assert_snapshot!(snippet(between(old.as_bytes(), new.as_bytes()).as_deref()), @r"
        @@ -2,8 +2,8 @@
         2
         3
         4
        -5
        +five
         6
         7
         8
        -9
        +9
        \ No newline at end of file
        ");
    }

    #[test]
    fn counts_as_diff_does() {
        let hunks = between(b"", b"a\n").unwrap();
        assert_eq!((hunks[0].old_start, hunks[0].old_lines), (0, 0));
        assert_eq!((hunks[0].new_start, hunks[0].new_lines), (1, 1));
        assert!(between(b"a\n", b"a\n").unwrap().is_empty());
    }

    #[test]
    fn a_preview_shows_long_lines_and_many_lines_whole() {
        let new = format!("{}EVIL()\n{}LAST\n", "x".repeat(2100), "ok\n".repeat(2000));
        let whole = preview(&between(b"", new.as_bytes()).unwrap());
        assert!(whole.text.contains("xEVIL()\n") && whole.text.ends_with("+LAST\n"));
        assert_eq!(whole.hidden, 0);
        let huge = "x".repeat(200_000) + "EVIL()\n";
        let cut = preview(&between(b"", huge.as_bytes()).unwrap());
        assert_eq!(cut.text.len(), MAX_PREVIEW);
        assert_eq!(cut.text.len() + cut.hidden, "@@ -0,0 +1,1 @@\n+".len() + huge.len());
    }

    #[test]
    fn a_long_diff_is_cut() {
        let new = (0..500).map(|n| n.to_string()).collect::<Vec<_>>().join("\n") + "\n";
        let snippet = snippet(between(b"", new.as_bytes()).as_deref());
        assert_eq!(snippet.lines().count(), MAX_SHOWN_LINES + 2);
        assert!(snippet.ends_with("(diff cut: 401 more lines)"));
    }
}
