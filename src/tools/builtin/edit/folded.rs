//! Replaces `\r\n` with `\n`, and maps offsets back to the original bytes.

use std::borrow::Cow;

use memchr::{memchr_iter, memmem};

/// Replaces every `\r\n` with `\n`.
pub(super) fn fold(content: &[u8]) -> Cow<'_, [u8]> {
    let mut ends = memmem::find_iter(content, b"\r\n").peekable();
    if ends.peek().is_none() {
        return Cow::Borrowed(content);
    }
    let mut bytes = Vec::with_capacity(content.len());
    let mut copied = 0;
    for end in ends {
        bytes.extend_from_slice(&content[copied..end]);
        copied = end + 1;
    }
    bytes.extend_from_slice(&content[copied..]);
    Cow::Owned(bytes)
}

/// The number of the line that holds `offset`, counted from 1.
pub(super) fn line_of(folded: &[u8], offset: usize) -> usize {
    memchr_iter(b'\n', &folded[..offset]).count() + 1
}

/// Maps ascending offsets in the folded text to offsets in the content. It searches as it goes:
/// a table of all line ends could be larger than the file.
pub(super) struct WayBack<'a> {
    ends: memmem::FindIter<'a, 'static>,
    /// The offset of the next `\r\n` in the content.
    next: Option<usize>,
    /// Folded line ends before the latest offset.
    shortened: usize,
}

impl<'a> WayBack<'a> {
    pub(super) fn new(content: &'a [u8]) -> Self {
        let mut ends = memmem::find_iter(content, b"\r\n");
        let next = ends.next();
        Self { ends, next, shortened: 0 }
    }

    /// The offset in the content for `offset` in the folded text. At a folded line end it is the
    /// offset of the `\r`. Offsets must come in ascending order.
    pub(super) fn original(&mut self, offset: usize) -> usize {
        while self.next.is_some_and(|end| end < offset + self.shortened) {
            self.shortened += 1;
            self.next = self.ends.next();
        }
        offset + self.shortened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_way_back() {
        let content = b"a\r\nb\nc\r\n\rd";
        let folded = fold(content);
        assert_eq!(*folded, b"a\nb\nc\n\rd"[..]);
        let mut way_back = WayBack::new(content);
        let originals: Vec<usize> =
            (0..=folded.len()).map(|offset| way_back.original(offset)).collect();
        assert_eq!(originals, [0, 1, 3, 4, 5, 6, 8, 9, 10]);
        assert_eq!(line_of(&folded, 4), 3);
    }
}
