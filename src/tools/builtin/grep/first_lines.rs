//! Keeps the first lines that a search prints.

use std::io::{self, Write};

/// Bytes of the results of one file.
const MAX_BYTES: usize = 8 << 20;

/// Collects lines. When there are enough, it fails, which ends the search.
pub(super) struct FirstLines {
    pub(super) text: Vec<u8>,
    /// Lines that are still to be left out at the beginning.
    to_skip: usize,
    pub(super) skipped: usize,
    lines_left: usize,
    pub(super) is_full: bool,
}

impl FirstLines {
    pub(super) fn new(to_skip: usize, lines: usize) -> Self {
        Self { text: Vec::new(), to_skip, skipped: 0, lines_left: lines, is_full: false }
    }

    /// Whether there were lines that it had no room for, though they are wanted.
    pub(super) fn is_cut(&self) -> bool {
        self.is_full && self.lines_left > 0
    }

    pub(super) fn into_whole_lines(mut self) -> Vec<u8> {
        let end = self.text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.text.truncate(end);
        self.text
    }
}

impl Write for FirstLines {
    #[expect(clippy::naive_bytecount, reason = "a piece of a line at a time")]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_full = self.lines_left == 0 || self.text.len() > MAX_BYTES;
        if self.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut kept = bytes;
        while self.to_skip > 0 {
            let Some(end) = memchr::memchr(b'\n', kept) else { return Ok(bytes.len()) };
            kept = &kept[end + 1..];
            self.to_skip -= 1;
            self.skipped += 1;
        }
        let lines = kept.iter().filter(|byte| **byte == b'\n').count();
        self.lines_left = self.lines_left.saturating_sub(lines);
        self.text.extend_from_slice(kept);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
