//! Writes a page for the model: numbered lines, and notes on what is not shown.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::encoding::Encoding;
use crate::files::page::{LinePart, Page as FilePage, Total};
use crate::files::{Fingerprint, ShownLines};
use crate::tools::answer::{AnswerText, Page, Truncation};
use crate::tools::tool::ToolError;

/// Characters of one answer.
pub(super) const MAX_CHARS: usize = 100_000;

/// Characters reserved for the notes below the lines.
const NOTE_CHARS: usize = 1000;

/// Longer lines are cut. They are data rather than text.
const MAX_LINE_CHARS: usize = 2000;

/// Characters of a part of one line.
const PART_CHARS: usize = 10_000;

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
    /// The characters that are shown of these.
    max_line: usize,
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
            max_line,
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
        let count = lines_of(shown);
        notes.extend(self.partial_note(count));
        if self.cut.first().is_some_and(|number| *number < self.first + count) {
            notes.push(format!(
                "(to go on in a line that is cut, set offset to its number and column to {})",
                self.max_line + 1
            ));
        }
        notes.extend(self.encoding.clone());
        notes.extend(self.broken_bytes.map(broken_note));
        notes.extend(self.has_changed.then(changed_note));
        notes
    }

    fn shown_lines(&self, shown: &str) -> Option<ShownLines> {
        self.shown(lines_of(shown)).filter(|_| !self.has_changed)
    }
}

/// What is known of a part of a line, from which its notes are made.
#[derive(Debug)]
struct Part {
    line: u64,
    /// The number of the first character.
    first: u64,
    line_chars: u64,
    is_to_end: bool,
    notes: Vec<String>,
}

/// How many characters of one line an answer shows.
pub(super) fn part_chars(max_chars: usize) -> u64 {
    let room = max_chars.saturating_sub(NOTE_CHARS).max(max_chars / 2);
    PART_CHARS.min(room.saturating_sub(LINE_EXTRA)) as u64
}

/// A part of the first line of a page, from a character on.
pub(super) fn part(
    part: LinePart,
    page: &FilePage,
    first: u64,
    has_changed: bool,
) -> Result<AnswerText, ToolError> {
    let LinePart { text, line_chars, is_to_end, is_broken } = part;
    let line = page.first;
    if text.is_empty() && line_chars > 0 {
        return Err(ToolError::Failed(format!(
            "column {first} is past the end of line {line}, which has {line_chars} characters"
        )));
    }
    let mut notes = Vec::new();
    notes.extend(encoding_note(page.encoding));
    notes.extend(is_broken.then(|| broken_note(page.encoding.name())));
    notes.extend(has_changed.then(changed_note));
    let part = Part { line, first, line_chars, is_to_end, notes };
    let text = AnswerText::from(format!("{line:>6}\t{text}")).cut_by(Truncation::Lines);
    Ok(text.on_page(part))
}

impl Page for Part {
    fn closing_lines(&self, shown: &str) -> Vec<String> {
        let Self { line, first, line_chars, .. } = *self;
        let count = shown.split_once('\t').map_or(0, |(_, text)| text.chars().count() as u64);
        let total = if self.is_to_end { line_chars.to_string() } else { "very many".to_owned() };
        let end = first + count;
        let how = if self.is_to_end && end > line_chars {
            "the end of the line".to_owned()
        } else {
            format!("go on with offset {line} and column {end}")
        };
        let what = match count {
            0 => "no character".to_owned(),
            _ => format!("characters {first}-{}", end - 1),
        };
        let note = format!("(PARTIAL: {what} of {total} of line {line}; {how})");
        std::iter::once(note).chain(self.notes.iter().cloned()).collect()
    }
}

fn broken_note(name: &str) -> String {
    format!("(bytes that are not {name} are shown as \u{fffd})")
}

fn changed_note() -> String {
    "(the file changed while it was being read; read it again)".to_owned()
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
