//! Joins what an answer shows of a file that consists of numbered parts: cells, or pages.

use crate::text;
use crate::tools::answer::{AnswerText, Page, Truncation};

/// Characters reserved for the notes below.
const NOTE_CHARS: usize = 1000;

/// The parts of one answer. None is added once it is full.
#[derive(Debug)]
pub(super) struct Blocks {
    text: String,
    room: usize,
    place: Place,
}

/// Which parts they are, and where they end in the text.
#[derive(Debug)]
struct Place {
    unit: Unit,
    first: usize,
    total: usize,
    ends: Vec<usize>,
    /// The first one alone did not fit.
    is_cut: bool,
}

/// What the parts are called, and how the model goes on to further ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) one: &'static str,
    pub(super) many: &'static str,
    pub(super) go_on: fn(next: usize, total: usize) -> String,
}

impl Blocks {
    /// `max_chars` are those of the whole answer. `first` is the number of the first part.
    pub(super) fn new(unit: Unit, first: usize, total: usize, max_chars: usize) -> Self {
        let room = max_chars.saturating_sub(NOTE_CHARS).max(max_chars / 2);
        let place = Place { unit, first, total, ends: Vec::new(), is_cut: false };
        Self { text: String::new(), room, place }
    }

    /// The most characters that the next part may have.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Whether a part fits. Of the first one at least the beginning does.
    pub(super) fn takes(&self, part: &str) -> bool {
        self.place.ends.is_empty() || chars(part) <= self.room
    }

    /// Adds a part that fits.
    pub(super) fn add(&mut self, part: &str) {
        let chars = chars(part);
        // Nothing of a file goes upstream that is no text.
        let part = part.trim_end_matches('\n').replace('\0', "\u{2400}");
        if !self.place.ends.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text::first_chars(&part, self.room));
        self.place.is_cut = chars > self.room;
        self.room = self.room.saturating_sub(chars);
        self.place.ends.push(self.text.len());
    }

    /// How many parts it has.
    pub(super) fn count(&self) -> usize {
        self.place.ends.len()
    }

    pub(super) fn into_text(self) -> AnswerText {
        AnswerText::from(self.text).cut_by(Truncation::Lines).on_page(self.place)
    }
}

/// The characters of a part with a line end.
fn chars(part: &str) -> usize {
    part.trim_end_matches('\n').chars().count() + 1
}

impl Page for Place {
    fn closing_lines(&self, shown: &str) -> Vec<String> {
        let Self { unit: Unit { one, many, go_on }, first, total, .. } = *self;
        let whole = self.ends.iter().take_while(|end| **end <= shown.len()).count();
        let mut lines = Vec::new();
        if self.is_cut || whole == 0 && !self.ends.is_empty() {
            lines.push(format!("({one} {first} is too long for one answer, and is cut here)"));
        }
        let last = first + whole.max(1) - 1;
        if self.ends.is_empty() || first == 1 && last == total {
            return lines;
        }
        let how = if last == total { "the end".to_owned() } else { go_on(last + 1, total) };
        let (one_or_many, range) = match last - first {
            0 => (one, first.to_string()),
            _ => (many, format!("{first}-{last}")),
        };
        lines.push(format!("(PARTIAL: {one_or_many} {range} of {total}; {how})"));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::answer::Kept;

    const CELLS: Unit =
        Unit { one: "cell", many: "cells", go_on: |next, _| format!("go on with {next}") };

    fn answer(first: usize, total: usize, parts: &[&str], max_chars: usize) -> AnswerText {
        let mut blocks = Blocks::new(CELLS, first, total, max_chars);
        for part in parts {
            if !blocks.takes(part) {
                break;
            }
            blocks.add(part);
        }
        blocks.into_text()
    }

    #[test]
    fn says_where_to_go_on() {
        let parts = ["one\n", "two\nlines", "three"];
        let whole = answer(1, 3, &parts, 5000);
        assert_eq!(whole.to_string(), "one\ntwo\nlines\nthree");
        let middle = answer(4, 9, &parts, 5000);
        assert!(middle.to_string().ends_with("three\n(PARTIAL: cells 4-6 of 9; go on with 7)"));
        let last = answer(3, 3, &parts[2..], 5000);
        assert_eq!(last.to_string(), "three\n(PARTIAL: cell 3 of 3; the end)");
        let short = answer(1, 3, &parts, 20);
        assert_eq!(short.to_string(), "one\n(PARTIAL: cell 1 of 3; go on with 2)");
        assert_eq!(answer(1, 0, &[], 5000).to_string(), "");
    }

    #[test]
    fn t17_no_nul_character_is_shown() {
        let mut answer = answer(1, 2, &["\0\0\0", "b"], 5000);
        assert_eq!(answer.to_string(), "␀␀␀\nb");
        answer.fit(3, Kept::Nowhere);
        assert_eq!(answer.to_string(), "␀␀␀\n(PARTIAL: cell 1 of 2; go on with 2)");
    }

    #[test]
    fn a_part_that_is_too_long_is_cut_and_not_offered_again() {
        let long = "x".repeat(50);
        let cut = answer(2, 3, &[&long, "b"], 40);
        let expected = "(cell 2 is too long for one answer, and is cut here)\n\
            (PARTIAL: cell 2 of 3; go on with 3)";
        assert_eq!(cut.to_string(), format!("{}\n{expected}", "x".repeat(20)));
    }

    #[test]
    fn a_further_cut_is_counted_as_well() {
        let mut answer = answer(1, 3, &["one\nmore", "two\nmore", "three"], 5000);
        answer.fit(15, Kept::Nowhere);
        assert_eq!(answer.to_string(), "one\nmore\ntwo\n(PARTIAL: cell 1 of 3; go on with 2)");
        answer.fit(4, Kept::Nowhere);
        let expected = "one\n(cell 1 is too long for one answer, and is cut here)\n\
            (PARTIAL: cell 1 of 3; go on with 2)";
        assert_eq!(answer.to_string(), expected);
    }
}
