//! Keeps the beginning and the end of a text, in memory that does not grow with it.

use crate::text;

/// Room for the line that replaces the middle.
const NOTE_ROOM: usize = 200;

/// Bytes of the longest character.
const MAX_CHAR_BYTES: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct HeadAndTail {
    /// The first `most` characters.
    head: String,
    /// The last characters: `most / 2` of them, and up to as many bytes again as these can have.
    tail: String,
    characters: usize,
    bytes: u64,
    most: usize,
}

/// What is shown of a text: all of it, or its beginning and its end.
#[derive(Clone, Debug)]
pub(crate) struct ShownText {
    pub(crate) head: String,
    /// Characters between them.
    pub(crate) left_out: usize,
    pub(crate) tail: String,
}

impl HeadAndTail {
    /// At most `most` characters will be shown.
    pub(crate) fn new(most: usize) -> Self {
        Self { head: String::new(), tail: String::new(), characters: 0, bytes: 0, most }
    }

    pub(crate) fn push(&mut self, new: &str) {
        let room = self.most.saturating_sub(self.characters);
        if room > 0 {
            self.head.push_str(text::first_chars(new, room));
        }
        self.characters += new.chars().count();
        self.bytes += new.len() as u64;
        let most = self.most / 2 * MAX_CHAR_BYTES;
        if most < new.len() {
            self.tail.clear();
        } else if 2 * most < self.tail.len() + new.len() {
            let kept = text::suffix(&self.tail, most - new.len()).len();
            self.tail.drain(..self.tail.len() - kept);
        }
        self.tail.push_str(text::suffix(new, most));
    }

    /// The bytes of the whole text.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the whole text fits into `characters`.
    pub(crate) fn fits(&self, characters: usize) -> bool {
        self.characters <= characters
    }

    /// Whether it is shown whole with `new` behind it.
    pub(super) fn fits_with(&self, new: &str) -> bool {
        // There are never more characters than bytes.
        let room = self.most.saturating_sub(self.characters);
        new.len() <= room || new.chars().count() <= room
    }

    /// The beginning, which is the whole text while it [fits](Self::fits).
    pub(super) fn head(&self) -> &str {
        &self.head
    }

    /// Keeps only how long the text was.
    pub(super) fn forget(&mut self) {
        (self.head, self.tail) = (String::new(), String::new());
    }

    /// What is kept of the text from byte `offset` on, and how many bytes are missing before it.
    pub(super) fn since(&self, offset: u64) -> (u64, &str) {
        let wanted = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let found = text::suffix(&self.tail, wanted);
        ((wanted - found.len()) as u64, found)
    }

    /// The whole text if it fits into `most` characters (at most those of the constructor).
    /// Otherwise its beginning and end, cut at line ends if that leaves enough, with a note
    /// between them of how much is missing. `hint` says how to see the rest.
    pub(crate) fn render(&self, most: usize, hint: &str) -> String {
        let ShownText { head, left_out, tail } = self.shown(most);
        if left_out == 0 {
            return head;
        }
        let line_end = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
        format!("{head}{line_end}[… {left_out} characters left out; {hint} …]\n{tail}")
    }

    /// The same in parts.
    pub(crate) fn shown(&self, most: usize) -> ShownText {
        let most = most.min(self.most);
        if self.fits(most) {
            return ShownText { head: self.head.clone(), left_out: 0, tail: String::new() };
        }
        let each = most.saturating_sub(NOTE_ROOM).max(most / 4) / 2;
        let head = text::whole_lines_of_head(text::first_chars(&self.head, each));
        let tail = text::whole_lines_of_tail(text::last_chars(&self.tail, each));
        let left_out = self.characters - head.chars().count() - tail.chars().count();
        ShownText { head: head.to_owned(), left_out, tail: tail.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(most: usize, pieces: &[&str]) -> HeadAndTail {
        let mut text = HeadAndTail::new(most);
        for piece in pieces {
            text.push(piece);
        }
        text
    }

    #[test]
    fn what_does_not_fit_is_cut_between_lines_and_counted() {
        let lines: Vec<String> = (0..1000).map(|line| format!("line {line:04}\n")).collect();

        let shown = kept(300, &[&lines.concat()]).render(300, "read it in pieces");

        let expected = "line 0000\nline 0001\nline 0002\nline 0003\nline 0004\n\
            [… 9910 characters left out; read it in pieces …]\n\
            line 0996\nline 0997\nline 0998\nline 0999\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let shown = kept(300, &["é".repeat(1000).as_str()]).render(300, "x");

        let fifty = "é".repeat(50);
        assert_eq!(shown, format!("{fifty}\n[… 900 characters left out; x …]\n{fifty}"));
    }

    #[test]
    fn what_came_since_some_byte_is_found_as_far_as_it_is_kept() {
        let text = kept(4, &["aé", "b"]);
        assert_eq!(text.since(0), (0, "aéb"));
        assert_eq!(text.since(3), (0, "b"));
        assert_eq!(text.since(4), (0, ""));
        assert_eq!(text.since(9), (0, ""));

        let long = kept(4, &["0123456789", "x".repeat(100).as_str()]);
        assert_eq!(long.since(0), (102, "xxxxxxxx"));
        assert_eq!(long.since(105), (0, "xxxxx"));
    }

    #[test]
    fn memory_does_not_grow_with_the_text() {
        let mut text = HeadAndTail::new(1000);
        let piece = "a".repeat(64 << 10);
        (0..64).for_each(|_| text.push(&piece));

        assert!(text.head.capacity() + text.tail.capacity() < 64 << 10);
        assert_eq!(text.bytes(), 4 << 20);
    }
}
