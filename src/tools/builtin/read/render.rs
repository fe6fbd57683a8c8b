//! Writes a page for the model: numbered lines, and notes on what is not shown.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crate::files::page::{Page, Total};

/// Characters of one answer.
pub(super) const MAX_CHARS: usize = 100_000;

/// Characters reserved for the notes below the lines.
const NOTE_CHARS: usize = 1000;

/// Longer lines are cut. They are data rather than text.
const MAX_LINE_CHARS: usize = 2000;

const CUT: &str = " … (line cut at 2000 characters)";

/// The lines of a page that fit into one answer.
pub(super) struct View<'a> {
    page: &'a Page,
    text: String,
    lines: u64,
    has_broken_bytes: bool,
    has_cut_lines: bool,
}

impl<'a> View<'a> {
    pub(super) fn from_page(page: &'a Page) -> Self {
        let (decoded, has_broken_bytes) = page.encoding.decode(&page.bytes);
        let (text, has_cut_lines) = (String::new(), false);
        let mut view = Self { page, text, lines: 0, has_broken_bytes, has_cut_lines };
        let mut room = MAX_CHARS - NOTE_CHARS;
        for line in decoded.split_inclusive('\n').take(usize::try_from(page.lines).unwrap_or(0)) {
            let numbered = numbered(page.first + view.lines, line);
            let chars = numbered.chars().count();
            if chars > room {
                break;
            }
            room -= chars;
            view.text.push_str(&numbered);
            view.has_cut_lines |= is_too_long(line);
            view.lines += 1;
        }
        view.has_broken_bytes &= view.text.contains(char::REPLACEMENT_CHARACTER);
        view
    }

    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Whether no line was cut.
    pub(super) fn is_whole(&self) -> bool {
        !self.has_cut_lines
    }

    /// The numbers of the first and last shown line.
    pub(super) fn range(&self) -> RangeInclusive<u64> {
        self.page.first..=(self.page.first + self.lines).saturating_sub(1)
    }

    /// The lines, followed by notes.
    pub(super) fn text(self, has_changed: bool) -> String {
        let mut notes = Vec::new();
        notes.extend(self.partial_note());
        if !self.page.encoding.is_utf_8() {
            notes.push(format!("(decoded from {})", self.page.encoding.name()));
        }
        if self.has_broken_bytes {
            let name = self.page.encoding.name();
            notes.push(format!("(bytes that are not {name} are shown as \u{fffd})"));
        }
        if has_changed {
            notes.push("(the file changed while it was being read; read it again)".to_owned());
        }
        let mut text = self.text;
        text.extend(notes.iter().map(|note| format!("{note}\n")));
        text.truncate(text.trim_end_matches('\n').len());
        text
    }

    fn partial_note(&self) -> Option<String> {
        let range = self.range();
        let (first, last) = (range.start(), range.end());
        let total = match self.page.total {
            Total::Exactly(total) if *first == 1 && *last >= total => return None,
            Total::Exactly(total) => total.to_string(),
            Total::MoreThan(total) => format!("more than {}", total.max(*last)),
        };
        let is_end = self.page.total == Total::Exactly(*last);
        let how = if is_end {
            "the end of the file".to_owned()
        } else {
            format!("go on with offset {}", last + 1)
        };
        Some(format!("(PARTIAL: lines {first}-{last} of {total}; {how})"))
    }
}

/// Whether the line must be cut. Its line end does not count.
fn is_too_long(line: &str) -> bool {
    line.trim_end_matches(['\r', '\n']).chars().nth(MAX_LINE_CHARS).is_some()
}

fn numbered(number: u64, line: &str) -> String {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    let mut text = String::new();
    let _ = match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => writeln!(text, "{number:>6}\t{}{CUT}", &line[..end]),
        None => writeln!(text, "{number:>6}\t{line}"),
    };
    text
}
