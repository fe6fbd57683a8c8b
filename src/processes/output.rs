//! Captures a command's output: its beginning and its end, in memory that does not grow
//! with the output.

use std::collections::VecDeque;

use encoding_rs::{Decoder, UTF_8};

use super::terminal::TerminalFilter;
use crate::text;

/// Room for the line that replaces the middle.
const NOTE_ROOM: usize = 200;

/// Captures output as plain text. Removes escape sequences, and replaces bytes that are
/// not UTF-8.
#[derive(Debug)]
pub(crate) struct Capture {
    decoder: Decoder,
    plain: TerminalFilter,
    bytes: u64,
    is_malformed: bool,
    /// The first `most` characters.
    head: String,
    /// The last `most / 2` characters.
    tail: VecDeque<char>,
    characters: usize,
    most: usize,
}

impl Capture {
    /// At most `most` characters will be shown.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            decoder: UTF_8.new_decoder_without_bom_handling(),
            plain: TerminalFilter::default(),
            bytes: 0,
            is_malformed: false,
            head: String::new(),
            tail: VecDeque::new(),
            characters: 0,
            most,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.decode(bytes, false);
    }

    /// Ends the output. An incomplete character at the end is replaced.
    pub(crate) fn finish(&mut self) {
        self.decode(&[], true);
    }

    /// How many bytes came, shown or not.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether bytes that are not UTF-8 were replaced.
    pub(crate) fn is_malformed(&self) -> bool {
        self.is_malformed
    }

    /// The whole output if it fits into `most` characters (at most those of the
    /// constructor). Otherwise its beginning and end, cut at line ends if that leaves
    /// enough, with a note between them of how much is missing. `hint` says how to see
    /// the rest.
    pub(crate) fn render(&self, most: usize, hint: &str) -> String {
        let most = most.min(self.most);
        if self.characters <= most {
            return self.head.clone();
        }
        let each = most.saturating_sub(NOTE_ROOM) / 2;
        let head = text::whole_lines_of_head(text::first_chars(&self.head, each));
        let tail: String = self.tail.range(self.tail.len().saturating_sub(each)..).collect();
        let tail = text::whole_lines_of_tail(&tail);
        let missing = self.characters - head.chars().count() - tail.chars().count();
        let line_end = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
        format!("{head}{line_end}[… {missing} characters left out; {hint} …]\n{tail}")
    }

    fn decode(&mut self, mut bytes: &[u8], is_last: bool) {
        let (mut decoded, mut text) = (String::new(), String::new());
        loop {
            decoded.reserve(bytes.len() + 16);
            let (result, read, replaced) =
                self.decoder.decode_to_string(bytes, &mut decoded, is_last);
            self.is_malformed |= replaced;
            bytes = &bytes[read..];
            self.plain.push(&decoded, &mut text);
            decoded.clear();
            if result == encoding_rs::CoderResult::InputEmpty {
                break;
            }
        }
        self.keep(&text);
    }

    fn keep(&mut self, new: &str) {
        let count = new.chars().count();
        let room = self.most.saturating_sub(self.characters);
        self.head.push_str(text::first_chars(new, room));
        self.characters += count;
        let tail = self.most / 2;
        self.tail.extend(new.chars().skip(count.saturating_sub(tail)));
        self.tail.drain(..self.tail.len().saturating_sub(tail));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(most: usize, pieces: &[&[u8]]) -> Capture {
        let mut capture = Capture::new(most);
        for piece in pieces {
            capture.push(piece);
        }
        capture.finish();
        capture
    }

    #[test]
    fn what_fits_is_shown_whole() {
        let capture = captured(1000, &[b"\x1b[31mred\x1b[0m\n", b"line\n"]);

        assert_eq!(capture.render(1000, ""), "red\nline\n");
        assert!(!capture.is_malformed());
    }

    #[test]
    fn what_does_not_fit_is_cut_between_lines_and_counted() {
        let lines: Vec<String> = (0..1000).map(|line| format!("line {line:04}\n")).collect();

        let shown = captured(300, &[lines.concat().as_bytes()]).render(300, "read it in pieces");

        let expected = "line 0000\nline 0001\nline 0002\nline 0003\nline 0004\n\
            [… 9910 characters left out; read it in pieces …]\n\
            line 0996\nline 0997\nline 0998\nline 0999\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let shown = captured(300, &["é".repeat(1000).as_bytes()]).render(300, "x");

        let fifty = "é".repeat(50);
        assert_eq!(shown, format!("{fifty}\n[… 900 characters left out; x …]\n{fifty}"));
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_and_marked() {
        let capture = captured(100, &[b"a\xffb\xe2\x82"]);

        assert_eq!(capture.render(100, ""), "a\u{fffd}b\u{fffd}");
        assert!(capture.is_malformed());
    }

    #[test]
    fn memory_does_not_grow_with_the_output() {
        let mut capture = Capture::new(1000);
        let piece = vec![b'a'; 64 << 10];
        (0..64).for_each(|_| capture.push(&piece));

        assert!(capture.head.capacity() + 4 * capture.tail.capacity() < 64 << 10);
        assert_eq!(capture.bytes(), 4 << 20);
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_pieces_end(
            bytes in prop::collection::vec(any::<u8>(), 0..600),
            at in 0usize..600,
            most in 200usize..400,
        ) {
            let (first, second) = bytes.split_at(at.min(bytes.len()));
            let whole = captured(most, &[&bytes]);
            let cut = captured(most, &[first, second]);
            prop_assert_eq!(cut.render(most, "x"), whole.render(most, "x"));
            prop_assert!(whole.render(most, "x").chars().count() <= most);
        }
    }
}
