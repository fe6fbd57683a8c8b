//! Keeps the text of an answer in parts, so that a limit cuts the body and nothing else.
//!
//! A limit may cut an answer twice: that of the call, and that of the round. Both cut here, by
//! the same rules.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::ShownLines;
use crate::text;

/// With [`Truncation::HeadAndTail`], one part in this many is the head.
const HEAD_SHARE: usize = 2;

/// How a line of the body begins that stands for a picture.
pub(crate) const IMAGE_ATTACHED: &str = "(image attached)";

/// How it begins if the picture does not go upstream. It has the same length, so that a [`Page`]
/// still finds its places in the body.
const IMAGE_LEFT_OUT: &str = "(image left out)";

/// Of a limit, at least one part in this many is the body's.
const MIN_SHARE: usize = 8;

/// The text of an answer: a body that may be cut, and closing lines that may not.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerText {
    /// The whole body, or what is shown before the gap.
    head: String,
    gap: Option<Box<Gap>>,
    truncation: Truncation,
    page: Option<Arc<dyn Page>>,
    closing: Vec<String>,
}

/// What was cut out of a body.
#[derive(Clone, Debug)]
struct Gap {
    chars: usize,
    kept: Kept,
    /// What is shown behind it.
    tail: String,
}

/// Where the whole body of a cut answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// In this file, which the model can read.
    At(PathBuf),
    /// Nowhere, for this reason.
    Not(String),
    /// Nowhere. The model can ask for less at a time.
    Nowhere,
}

/// Which part of a cut body is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Truncation {
    #[default]
    Head,
    /// For output that ends with its outcome.
    HeadAndTail,
    /// As many whole lines as fit. The [`Page`] says how to go on, so nothing is kept and
    /// nothing else is said.
    Lines,
}

/// A body that is one part of something longer, such as lines of a file.
pub(crate) trait Page: fmt::Debug + Send + Sync {
    /// Lines behind the body, such as how to go on. `shown` is as much of the body as is
    /// shown.
    fn closing_lines(&self, shown: &str) -> Vec<String>;

    /// The lines of a file that the answer shows whole.
    fn shown_lines(&self, _shown: &str) -> Option<ShownLines> {
        None
    }
}

impl AnswerText {
    /// A body that was cut while it was made.
    pub(crate) fn with_gap(head: String, chars: usize, kept: Kept, tail: String) -> Self {
        let gap = Some(Box::new(Gap { chars, kept, tail }));
        Self { head, gap, truncation: Truncation::HeadAndTail, ..Self::default() }
    }

    pub(crate) fn cut_by(self, truncation: Truncation) -> Self {
        Self { truncation, ..self }
    }

    pub(crate) fn on_page(self, page: impl Page + 'static) -> Self {
        Self { page: Some(Arc::new(page)), ..self }
    }

    /// Adds a line that no limit cuts.
    pub(crate) fn close(&mut self, line: impl Into<String>) {
        self.closing.push(line.into());
    }

    pub(crate) fn closed_by(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.closing.extend(lines);
        self
    }

    /// Says of all pictures but the first `attached` that they do not go upstream.
    pub(crate) fn leave_out_images(&mut self, attached: usize) {
        let mut number = 0;
        let mut left_out = |text: &str| -> String {
            let line = |line: &str| {
                let Some(rest) = line.strip_prefix(IMAGE_ATTACHED) else { return line.to_owned() };
                number += 1;
                let mark = if attached < number { IMAGE_LEFT_OUT } else { IMAGE_ATTACHED };
                format!("{mark}{rest}")
            };
            text.split_inclusive('\n').map(line).collect()
        };
        self.head = left_out(&self.head);
        if let Some(gap) = &mut self.gap {
            gap.tail = left_out(&gap.tail);
        }
    }

    /// Whether it says nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_empty() && self.gap.is_none() && self.closing_lines().is_empty()
    }

    /// The characters of the body, without the note on what was cut.
    pub(crate) fn body_chars(&self) -> usize {
        let tail = self.gap.as_ref().map_or(0, |gap| gap.tail.chars().count());
        self.head.chars().count() + tail
    }

    /// The bytes that it keeps in memory.
    pub(crate) fn size(&self) -> usize {
        let tail = self.gap.as_ref().map_or(0, |gap| gap.tail.len());
        self.head.len() + tail + self.closing.iter().map(String::len).sum::<usize>()
    }

    /// The most characters of the body with which body and closing lines have `max_chars`. At
    /// least half of them are the body's.
    pub(crate) fn room_for_body(&self, max_chars: usize) -> usize {
        /// A closing line that counts what is shown may get longer by a few digits.
        const DIGITS: usize = 20;
        let size = |lines: Vec<String>| -> usize {
            lines.iter().map(|line| line.chars().count() + 1).sum()
        };
        let shown_whole = size(self.closing_lines());
        if self.body_chars() + shown_whole <= max_chars {
            return max_chars;
        }
        // The page says more where less of it is shown.
        let cut = self.page.as_ref().map_or(0, |page| size(page.closing_lines("")) + DIGITS);
        let closing = shown_whole.max(cut + size(self.closing.clone()));
        max_chars.saturating_sub(closing).max(max_chars / 2)
    }

    /// The whole body, if cutting it to `max_chars` makes it worth keeping.
    pub(crate) fn body_to_keep(&self, max_chars: usize) -> Option<&str> {
        let is_cut_first = self.gap.is_none() && self.truncation != Truncation::Lines;
        (is_cut_first && self.is_longer_than(max_chars)).then_some(self.head.as_str())
    }

    /// Cuts the body to `max_chars`, with the note on what was cut out. `kept` is where the
    /// whole body is, unless an earlier cut has said so.
    pub(crate) fn fit(&mut self, max_chars: usize, kept: Kept) {
        if !self.is_longer_than(max_chars) {
            return;
        }
        let all = self.body_chars();
        if self.truncation == Truncation::Lines {
            self.head.truncate(whole_lines(&self.head, max_chars).len());
            return;
        }
        let (chars, kept, tail) = match self.gap.take() {
            Some(gap) => (gap.chars, gap.kept, gap.tail),
            None => (0, kept, String::new()),
        };
        let room = max_chars.saturating_sub(note(chars + all, &kept).chars().count() + 2);
        // The note may name a long path.
        let room = room.max(max_chars / MIN_SHARE);
        let (head, tail) = match self.truncation {
            // The page counts lines. Without a part of the first one the model would never get
            // further.
            Truncation::Head if self.page.is_some() => match whole_lines(&self.head, room) {
                "" => (text::first_chars(&self.head, room), String::new()),
                whole => (whole, String::new()),
            },
            Truncation::Head | Truncation::Lines => (head(&self.head, room), String::new()),
            Truncation::HeadAndTail => {
                let of_head = room / HEAD_SHARE;
                let end = if tail.is_empty() { self.head.as_str() } else { &tail };
                (head(&self.head, of_head), tail_of(end, room - of_head).to_owned())
            }
        };
        let chars = chars + all - head.chars().count() - tail.chars().count();
        let head = head.len();
        self.head.truncate(head);
        self.gap = Some(Box::new(Gap { chars, kept, tail }));
    }

    /// The file that holds the whole body, if the body was cut and kept.
    pub(crate) fn kept_at(&self) -> Option<&Path> {
        match &self.gap.as_ref()?.kept {
            Kept::At(path) => Some(path),
            Kept::Not(_) | Kept::Nowhere => None,
        }
    }

    /// The lines of a file that it shows whole.
    pub(crate) fn shown_lines(&self) -> Option<ShownLines> {
        self.page.as_ref()?.shown_lines(&self.head)
    }

    /// Changes each part.
    pub(crate) fn map(mut self, change: impl Fn(String) -> String) -> Self {
        self.closing = self.closing_lines();
        self.page = None;
        self.head = change(self.head);
        if let Some(gap) = &mut self.gap {
            gap.tail = change(std::mem::take(&mut gap.tail));
        }
        self.closing = self.closing.into_iter().map(change).collect();
        self
    }

    /// Whether any part holds `character`.
    pub(crate) fn contains(&self, character: char) -> bool {
        let tail = self.gap.as_ref().is_some_and(|gap| gap.tail.contains(character));
        tail || self.head.contains(character)
            || self.closing_lines().iter().any(|line| line.contains(character))
    }

    fn closing_lines(&self) -> Vec<String> {
        let of_page = self.page.as_ref().map(|page| page.closing_lines(&self.head));
        of_page.into_iter().flatten().chain(self.closing.iter().cloned()).collect()
    }

    fn is_longer_than(&self, max_chars: usize) -> bool {
        // There are never more characters than bytes, so a short text needs no counting.
        let tail = self.gap.as_ref().map_or(0, |gap| gap.tail.len());
        max_chars < self.head.len() + tail && max_chars < self.body_chars()
    }
}

impl fmt::Display for AnswerText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.push(self.head.as_str());
        let note = self.gap.as_ref().map(|gap| note(gap.chars, &gap.kept));
        parts.extend(note.as_deref());
        parts.extend(self.gap.as_ref().map(|gap| gap.tail.as_str()));
        let closing = self.closing_lines();
        parts.extend(closing.iter().map(String::as_str));
        let mut ends_line = true;
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            if !ends_line {
                f.write_str("\n")?;
            }
            f.write_str(part)?;
            ends_line = part.ends_with('\n');
        }
        Ok(())
    }
}

/// Two answers are equal if the model is told the same.
impl PartialEq for AnswerText {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl<T: Into<String>> From<T> for AnswerText {
    fn from(body: T) -> Self {
        Self { head: body.into(), ..Self::default() }
    }
}

/// A text in at most `max_chars` characters.
pub(crate) fn cut(text: String, max_chars: usize, truncation: Truncation) -> String {
    let mut text = AnswerText::from(text).cut_by(truncation);
    text.fit(max_chars, Kept::Nowhere);
    text.to_string()
}

/// Stands where characters were cut out.
fn note(chars: usize, kept: &Kept) -> String {
    let what = format!("[… {chars} characters left out; ");
    match kept {
        Kept::At(path) => {
            format!("{what}the whole text is in {}: Read or Grep it …]", path.display())
        }
        Kept::Not(reason) => {
            format!("{what}the whole text could not be kept: {reason}; ask for less at a time …]")
        }
        Kept::Nowhere => format!("{what}ask for less at a time …]"),
    }
}

/// At most the first `chars` characters, without a line that would be cut in two.
fn head(text: &str, chars: usize) -> &str {
    let cut = text::first_chars(text, chars);
    if text[cut.len()..].starts_with('\n') {
        return cut;
    }
    let lines = text::whole_lines_of_head(cut);
    lines.strip_suffix('\n').unwrap_or(lines)
}

/// At most the last `chars` characters, without a line that would be cut in two.
fn tail_of(text: &str, chars: usize) -> &str {
    let cut = text::last_chars(text, chars);
    if text[..text.len() - cut.len()].ends_with('\n') {
        return cut;
    }
    text::whole_lines_of_tail(cut)
}

/// As many whole lines from the beginning as have at most `chars` characters; none, if the
/// first one has more.
fn whole_lines(text: &str, chars: usize) -> &str {
    let cut = text::first_chars(text, chars);
    if text[cut.len()..].starts_with('\n') {
        return cut;
    }
    cut.rfind('\n').map_or("", |end| &cut[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn images_that_are_left_out_say_so() {
        let body = "# 1\n(image attached) a\n(image attached) b\nsee (image attached)\n";
        let left_out = |attached| {
            let mut text = AnswerText::from(body);
            text.leave_out_images(attached);
            text.to_string()
        };
        assert_eq!(left_out(2), body);
        assert_eq!(left_out(1), body.replace("attached) b", "left out) b"));
        let none = body.replace("attached) a", "left out) a").replace("attached) b", "left out) b");
        assert_eq!(left_out(0), none);
        assert_eq!(left_out(0).len(), body.len());
    }

    fn cut(text: &str, max: usize, truncation: Truncation) -> String {
        let mut answer = AnswerText::from(text).cut_by(truncation);
        answer.fit(max, Kept::Nowhere);
        answer.to_string()
    }

    fn note_on(chars: usize) -> String {
        format!("[… {chars} characters left out; ask for less at a time …]")
    }

    /// As many characters as the note and its line ends take, and `more`.
    fn room(more: usize) -> usize {
        note_on(99).chars().count() + 2 + more
    }

    #[derive(Debug)]
    struct Counted(usize);

    impl Page for Counted {
        fn closing_lines(&self, shown: &str) -> Vec<String> {
            vec![format!("({} of {} lines)", shown.lines().count(), self.0)]
        }
    }

    #[test]
    fn leaves_short_answers_alone() {
        assert_eq!(cut("äöü", 3, Truncation::Head), "äöü");
        assert_eq!(cut("", 0, Truncation::HeadAndTail), "");
        assert_eq!(cut("a\n", 2, Truncation::Lines), "a\n");
    }

    #[test]
    fn cuts_at_the_border_of_a_line() {
        let rest = "x".repeat(90);
        let text = format!("one\ntwo\n{rest}");
        for more in [7, 8, 9, 10] {
            assert_eq!(
                cut(&text, room(more), Truncation::Head),
                format!("one\ntwo\n{}", note_on(91))
            );
        }
        let text = format!("1\n2\n{rest}\n4\n5");
        let expected = format!("1\n2\n{}\n4\n5", note_on(92));
        assert_eq!(cut(&text, room(6), Truncation::HeadAndTail), expected);
        assert_eq!(cut("one\ntwo\nthree", 12, Truncation::Lines), "one\ntwo");
        assert_eq!(cut("one\ntwo", 2, Truncation::Lines), "");
    }

    #[test]
    fn cuts_inside_a_line_where_there_is_no_border_or_it_is_far() {
        let long = "é".repeat(100);
        let expected = format!("{}\n{}", "é".repeat(10), note_on(90));
        assert_eq!(cut(&long, room(11), Truncation::Head), expected);
        let far = format!("a\n{long}");
        let expected = format!("a\néééééé\n{}", note_on(94));
        assert_eq!(cut(&far, room(9), Truncation::Head), expected);
    }

    #[test]
    fn a_page_tells_what_is_shown_of_it() {
        let text = "line\n".repeat(40);
        let mut answer = AnswerText::from(text.trim_end()).on_page(Counted(40));
        assert!(answer.to_string().ends_with("(40 of 40 lines)"));
        answer.close("a note");
        answer.fit(room(14), Kept::Nowhere);
        assert!(answer.to_string().ends_with("(2 of 40 lines)\na note"), "{answer}");
    }

    #[test]
    fn however_small_the_limit_something_is_shown() {
        let path: std::path::PathBuf = "/a".repeat(500).into();
        let text = format!("{}\nsecond", "x".repeat(900));
        for (truncation, is_paged) in
            [(Truncation::Head, false), (Truncation::Head, true), (Truncation::HeadAndTail, false)]
        {
            let mut answer = AnswerText::from(text.as_str()).cut_by(truncation);
            if is_paged {
                answer = answer.on_page(Counted(2));
            }
            answer.fit(200, Kept::At(path.clone()));
            let shown = answer.to_string();
            assert!(shown.starts_with("xxxxxxxxxx") && !shown.contains("(0 of 2"), "{shown}");
        }
    }

    #[test]
    fn a_second_cut_keeps_what_the_first_one_said() {
        let mut answer = AnswerText::from("abc\n".repeat(200)).cut_by(Truncation::HeadAndTail);
        assert_eq!(answer.body_to_keep(300).map(str::len), Some(800));
        answer.fit(300, Kept::At("/spill".into()));
        assert_eq!(answer.body_to_keep(200), None);
        answer.fit(200, Kept::Nowhere);
        let shown = answer.to_string();
        assert!(shown.contains("the whole text is in /spill"), "{shown}");
        let shown: usize = shown.matches("abc").count();
        assert!(0 < shown && shown < 35, "{answer}");
    }

    proptest! {
        #[test]
        fn no_cut_hides_a_closing_line_or_splits_a_character(
            text in "(é|a|\n|x{3,9}){0,300}",
            limits in prop::collection::vec(0_usize..400, 1..4),
            truncation in prop_oneof![
                Just(Truncation::Head), Just(Truncation::HeadAndTail), Just(Truncation::Lines)],
            is_paged in any::<bool>(),
        ) {
            let mut answer = AnswerText::from(text.as_str()).cut_by(truncation);
            if is_paged {
                answer = answer.on_page(Counted(300));
            }
            answer.close("the end");
            for limit in &limits {
                answer.fit(*limit, Kept::Nowhere);
                let closing = answer.closing_lines().join("\n");
                prop_assert!(answer.to_string().ends_with(&closing));
                prop_assert!(answer.body_chars() <= *limit);
                prop_assert!(text.starts_with(&answer.head));
                if let Some(gap) = &answer.gap {
                    prop_assert!(text.ends_with(&gap.tail));
                    let shown = answer.body_chars();
                    prop_assert_eq!(gap.chars + shown, text.chars().count());
                }
            }
        }
    }
}
