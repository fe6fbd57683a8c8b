//! Writes a page for the model: numbered lines, and notes on what is not shown.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::encoding::Encoding;
use crate::files::page::{Page as FilePage, Total};
use crate::files::{Fingerprint, ShownLines};
use crate::tools::answer::{AnswerText, Page, Truncation};

/// Characters of one answer.
pub(super) const MAX_CHARS: usize = 100_000;

/// Characters reserved for the notes below the lines.
const NOTE_CHARS: usize = 1000;

/// Longer lines are cut. They are data rather than text.
const MAX_LINE_CHARS: usize = 2000;

/// Characters of the number and the mark of a cut line, at most.
const LINE_EXTRA: usize = 60;

/// The lines of a file that fit into one answer.
#[derive(Debug)]
pub(super) struct View {
    text: String,
    lines: Lines,
}

/// What is known of the lines of an answer, from which its notes are made.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    fingerprint: Fingerprint,
    /// The number of the first one.
    first: u64,
    count: u64,
    total: Total,
    /// The numbers of the lines that were cut.
    cut: Vec<u64>,
    /// What is to be told of the encoding.
    encoding: Option<String>,
    broken_bytes: Option<&'static str>,
    has_changed: bool,
}

impl View {
    /// `max_chars` are those of the whole answer.
    pub(super) fn new(
        page: &FilePage,
        (path, fingerprint): (PathBuf, Fingerprint),
        max_chars: usize,
    ) -> Self {
        let (decoded, has_broken_bytes) = page.encoding.decode(&page.bytes);
        let mut room = max_chars.saturating_sub(NOTE_CHARS).max(max_chars / 2);
        let max_line = MAX_LINE_CHARS.min(room.saturating_sub(LINE_EXTRA));
        let (mut text, mut cut, mut count) = (String::new(), Vec::new(), 0);
        for line in decoded.split_inclusive('\n').take(usize::try_from(page.lines).unwrap_or(0)) {
            let number = page.first + count;
            let (numbered, is_cut) = numbered(number, line, max_line);
            let chars = numbered.chars().count() + 1;
            if chars > room {
                break;
            }
            room -= chars;
            if count > 0 {
                text.push('\n');
            }
            text.push_str(&numbered);
            if is_cut {
                cut.push(number);
            }
            count += 1;
        }
        let name = page.encoding.name();
        let is_broken = has_broken_bytes && text.contains(char::REPLACEMENT_CHARACTER);
        let lines = Lines {
            path,
            fingerprint,
            first: page.first,
            count,
            total: page.total,
            cut,
            encoding: encoding_note(page.encoding),
            broken_bytes: is_broken.then_some(name),
            has_changed: false,
        };
        Self { text, lines }
    }

    /// How many lines it has.
    pub(super) fn count(&self) -> u64 {
        self.lines.count
    }

    /// The lines that it shows whole, if these are all of it.
    pub(super) fn shown_lines(&self) -> Option<ShownLines> {
        self.lines.shown(self.lines.count)
    }

    /// The lines, followed by notes.
    pub(super) fn into_text(self, has_changed: bool) -> AnswerText {
        let lines = Lines { has_changed, ..self.lines };
        AnswerText::from(self.text).cut_by(Truncation::Lines).on_page(lines)
    }
}

impl Lines {
    /// What the first `count` of them show.
    fn shown(&self, count: u64) -> Option<ShownLines> {
        let last = (self.first + count).checked_sub(1).filter(|last| self.first <= *last)?;
        let is_whole = self.cut.iter().all(|number| last < *number);
        is_whole.then(|| ShownLines {
            path: self.path.clone(),
            fingerprint: self.fingerprint,
            lines: self.first..=last,
        })
    }

    fn partial_note(&self, count: u64) -> Option<String> {
        let (first, end) = (self.first, self.first + count);
        let total = match self.total {
            Total::Exactly(total) if first == 1 && total < end => return None,
            Total::Exactly(total) => total.to_string(),
            Total::MoreThan(total) => format!("more than {}", total.max(end.saturating_sub(1))),
        };
        if count == 0 {
            return Some(format!("(PARTIAL: none of {total} lines; go on with offset {first})"));
        }
        let last = end - 1;
        let is_end = self.total == Total::Exactly(last);
        let how = if is_end {
            "the end of the file".to_owned()
        } else {
            format!("go on with offset {end}")
        };
        Some(format!("(PARTIAL: lines {first}-{last} of {total}; {how})"))
    }
}

impl Page for Lines {
    fn closing_lines(&self, shown: &str) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.partial_note(lines_of(shown)));
        notes.extend(self.encoding.clone());
        let broken = |name| format!("(bytes that are not {name} are shown as \u{fffd})");
        notes.extend(self.broken_bytes.map(broken));
        if self.has_changed {
            notes.push("(the file changed while it was being read; read it again)".to_owned());
        }
        notes
    }

    fn shown_lines(&self, shown: &str) -> Option<ShownLines> {
        self.shown(lines_of(shown)).filter(|_| !self.has_changed)
    }
}

/// What is to be told of an encoding: nothing of UTF-8 that is certain.
fn encoding_note(encoding: Encoding) -> Option<String> {
    let name = encoding.name();
    match encoding.is_guess() {
        true => Some(format!(
            "(guessed: {}. Edit and Write put nothing but ASCII into it without `encoding`)",
            name.to_lowercase()
        )),
        false if encoding.is_utf_8() => None,
        false => Some(format!("(decoded from {name})")),
    }
}

/// How many lines of a file are shown. Each has a number in front of it, so none is empty.
fn lines_of(shown: &str) -> u64 {
    shown.split('\n').filter(|line| !line.is_empty()).count() as u64
}

/// The line with its number, cut to `max_chars`, and whether it was cut.
fn numbered(number: u64, line: &str, max_chars: usize) -> (String, bool) {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    let mut text = String::new();
    let cut = line.char_indices().nth(max_chars);
    let _ = match cut {
        Some((end, _)) => {
            let line = &line[..end];
            write!(text, "{number:>6}\t{line} … (line cut at {max_chars} characters)")
        }
        None => write!(text, "{number:>6}\t{line}"),
    };
    (text, cut.is_some())
}
