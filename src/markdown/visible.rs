//! Shows characters that a reader would not see, or would take for something else.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;

/// The mark at the start of a line that goes on with the one before.
pub(super) const CONTINUED: &str = "↳ ";
/// The brackets around what we say in the middle of foreign text.
pub(super) const NOTE: [char; 2] = ['⟨', '⟩'];

/// What we say in the middle of foreign text. There the brackets are escaped, so that no text
/// can say it itself.
pub(super) fn note(words: &str) -> String {
    format!("{}{words}{}", NOTE[0], NOTE[1])
}

/// Stands for the end of a line where all of a text is on one line. `\n` could be the text's own.
const LINE_END: char = '⏎';

/// Our own marks in foreign text.
fn is_mark(c: char) -> bool {
    NOTE.contains(&c) || CONTINUED.starts_with(c) || c == LINE_END
}

/// Whether the character must be escaped wherever it stands.
pub(super) fn is_escaped(c: char) -> bool {
    is_hidden(c) || is_mark(c)
}

pub(super) fn escaped(c: char) -> String {
    match c {
        '\n' => LINE_END.to_string(),
        _ if is_escaped(c) => c.escape_default().to_string(),
        _ => c.escape_unicode().to_string(),
    }
}

/// `text` with all that cannot be seen escaped, for the inside of a line. Of a run of one hidden
/// character the length is told.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut marks = CombiningMarks::default();
    let mut left = text.chars().peekable();
    while let Some(c) = left.next() {
        if is_escaped(c) {
            marks.begin_anew();
            let mut count = 1;
            while left.next_if_eq(&c).is_some() {
                count += 1;
            }
            shown.push_str(&repeated(c, count));
        } else if marks.may_stand(c) {
            shown.push(c);
        } else {
            shown.push_str(&escaped(c));
        }
    }
    shown
}

/// Writes an escaped character with the number of times that it follows itself.
pub(super) fn repeated(c: char, count: usize) -> String {
    let escaped = escaped(c);
    if count <= MAX_RUN { escaped.repeat(count) } else { note(&format!("{count} times {escaped}")) }
}

/// The longest run of what has no shape of its own that is shown; longer ones are counted.
pub(super) const MAX_RUN: usize = 3;

/// The blanks of a run, as a note.
pub(super) fn counted_blanks(run: &str) -> String {
    let tabs = run.matches('\t').count();
    let mut words = String::new();
    for (count, one) in [(run.len() - tabs, "blank"), (tabs, "tab")] {
        if count == 0 {
            continue;
        }
        let joint = if words.is_empty() { "" } else { ", " };
        let plural = if count == 1 { "" } else { "s" };
        let _ = write!(words, "{joint}{count} {one}{plural}");
    }
    note(&words)
}

/// Decides which marks may stand on their letter. Many of them would cover the lines around it.
#[derive(Default)]
pub(super) struct CombiningMarks {
    has_letter: bool,
    count: usize,
}

impl CombiningMarks {
    /// Whether the next character may be shown as it is.
    pub(super) fn may_stand(&mut self, c: char) -> bool {
        if c.width() != Some(0) {
            *self = Self { has_letter: !c.is_whitespace(), count: 0 };
            return true;
        }
        self.count += 1;
        self.has_letter && self.count <= MAX_RUN
    }

    /// Forgets the letter: what comes next stands behind something of ours.
    pub(super) fn begin_anew(&mut self) {
        *self = Self::default();
    }
}

/// Whether a reader would not see the character, or take it for a plain space.
fn is_hidden(c: char) -> bool {
    let is_foreign_space = c != ' ' && c.is_whitespace();
    c.is_control()
        || is_foreign_space
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Whether letters stand in the text that are written from right to left: a screen shows what is
/// beside them in another order than that of the text.
pub(crate) fn is_reordered(text: &str) -> bool {
    text.chars().any(|c| {
        matches!(
            c,
            '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'
            | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}'
        )
    })
}
