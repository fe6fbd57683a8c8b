//! A file's bytes with `\r\n` read as `\n`, and the way back.

use memchr::memchr_iter;
use memchr::memmem;

pub(super) struct Folded {
    pub(super) bytes: Vec<u8>,
    /// Offsets in `bytes` of the line feeds that lost a `\r` before them.
    shortened: Vec<usize>,
}

impl Folded {
    pub(super) fn new(content: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(content.len());
        let mut shortened = Vec::new();
        let mut copied = 0;
        for end in memmem::find_iter(content, b"\r\n") {
            bytes.extend_from_slice(&content[copied..end]);
            shortened.push(bytes.len());
            copied = end + 1;
        }
        bytes.extend_from_slice(&content[copied..]);
        Self { bytes, shortened }
    }

    /// The offset in the content that `offset` in `bytes` stands for; before the
    /// `\r` where the line end was shortened.
    pub(super) fn original(&self, offset: usize) -> usize {
        offset + self.shortened.partition_point(|shortened| *shortened < offset)
    }

    /// The number of the line that `offset` is in, from 1.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        memchr_iter(b'\n', &self.bytes[..offset]).count() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_way_back() {
        let folded = Folded::new(b"a\r\nb\nc\r\n\rd");
        assert_eq!(folded.bytes, b"a\nb\nc\n\rd");
        let originals: Vec<usize> =
            (0..=folded.bytes.len()).map(|offset| folded.original(offset)).collect();
        assert_eq!(originals, [0, 1, 3, 4, 5, 6, 8, 9, 10]);
        assert_eq!(folded.line_of(4), 3);
    }
}
