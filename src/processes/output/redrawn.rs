//! Keeps the last state of each line that was redrawn by carriage returns.

use memchr::{memchr, memrchr};

/// A line is kept back until it ends, since a carriage return would take it back. One that
/// becomes longer than this is passed on in pieces, which nothing takes back.
const MAX_LINE_BYTES: usize = 8 << 10;

/// The current line.
#[derive(Debug, Default)]
pub(super) struct RedrawnLine {
    /// Its last state, as far as it was not passed on.
    line: String,
    /// The last character was a carriage return. What follows decides what it means.
    is_returned: bool,
    /// A piece of the line was passed on.
    is_begun: bool,
}

impl RedrawnLine {
    /// Appends the lines that end in `text` to `out`.
    pub(super) fn push(&mut self, text: &str, out: &mut String) {
        let mut rest = text;
        while !rest.is_empty() {
            let end = memchr(b'\r', rest.as_bytes()).unwrap_or(rest.len());
            self.push_plain(&rest[..end], out);
            self.is_returned |= end < rest.len();
            rest = rest.get(end + 1..).unwrap_or_default();
        }
    }

    /// The line that has not ended yet.
    pub(super) fn unfinished(&self) -> &str {
        &self.line
    }

    /// Ends the text. A carriage return at its end takes nothing back.
    pub(super) fn finish(&mut self, out: &mut String) {
        out.push_str(&self.line);
        *self = Self::default();
    }

    /// `text` has no carriage return.
    fn push_plain(&mut self, text: &str, out: &mut String) {
        if text.is_empty() {
            return;
        }
        let is_redrawn = std::mem::take(&mut self.is_returned) && !text.starts_with('\n');
        if is_redrawn {
            self.line.clear();
            if std::mem::take(&mut self.is_begun) {
                out.push('\n');
            }
        }
        let mut last = text;
        if let Some(end) = memrchr(b'\n', text.as_bytes()) {
            out.push_str(&self.line);
            out.push_str(&text[..=end]);
            self.line.clear();
            self.is_begun = false;
            last = &text[end + 1..];
        }
        self.line.push_str(last);
        if MAX_LINE_BYTES < self.line.len() {
            out.push_str(&self.line);
            self.line = String::new();
            self.is_begun = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drawn(pieces: &[&str]) -> String {
        let (mut line, mut out) = (RedrawnLine::default(), String::new());
        for piece in pieces {
            line.push(piece, &mut out);
        }
        line.finish(&mut out);
        out
    }

    #[test]
    fn p19_of_a_redrawn_line_the_last_state_is_left() {
        let check = |input, expected| assert_eq!(drawn(&[input]), expected, "{input:?}");
        check("10%\r20%\r100%\ndone\n", "100%\ndone\n");
        check("one\r\ntwo\r\n", "one\ntwo\n");
        check("10%\r\r\nnext", "10%\nnext");
        check("10%\r", "10%");
        check("\r\r10%", "10%");
        check("long line\rab\n", "ab\n");
        check("a\n\rb\n", "a\nb\n");
        let states: Vec<String> = (0..20_000).map(|state| format!("\r{state} of 20000")).collect();
        check(&states.concat(), "19999 of 20000");
    }

    #[test]
    fn p19_a_line_without_end_is_passed_on_and_begun_anew() {
        let (mut line, mut out) = (RedrawnLine::default(), String::new());
        let piece = "a".repeat(MAX_LINE_BYTES);
        for _ in 0..100 {
            line.push(&piece, &mut out);
            assert!(line.line.len() <= MAX_LINE_BYTES);
        }
        line.push("a\rb\rc\r\n", &mut out);
        assert_eq!(out, format!("{}\nc\n", "a".repeat(100 * MAX_LINE_BYTES)));
    }

    proptest! {
        #[test]
        fn p19_it_does_not_matter_where_the_pieces_end(
            text in "[ab\r\né]{0,40}",
            at in 0usize..40,
        ) {
            let at = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
            prop_assert_eq!(drawn(&[&text[..at], &text[at..]]), drawn(&[&text]));
        }
    }
}
