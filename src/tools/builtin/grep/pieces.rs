//! Searches one large file in pieces, on all threads of a search.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::tools::walk::{Bounds, Queue};

/// Bytes of a piece. Less would cost more for beginning a piece than it gains for sharing.
const PIECE: u64 = 2 << 20;

/// The pieces of a file that wait for a thread, and what was found in the others.
#[derive(Debug)]
pub(super) struct Pieces {
    waiting: Queue<u64>,
    matches: AtomicU64,
    is_irregular: AtomicBool,
    is_enough: AtomicBool,
}

/// What a thread has found in one piece.
#[derive(Clone, Copy, Debug)]
pub(super) enum FoundInPiece {
    Matches(u64),
    /// One match answers the call. Further pieces need not be searched.
    Enough,
    /// A NUL, a line without end, an error: whoever reads the file from its beginning says what
    /// follows from it.
    Irregular,
}

impl Pieces {
    /// The pieces of a file of `length` bytes, if it is large enough for two threads.
    pub(super) fn of(length: u64) -> Option<Self> {
        let last = length.checked_sub(1)? / PIECE;
        if last == 0 {
            return None;
        }
        let waiting = Queue::new(last);
        // The last one in is the first one out.
        let fits = waiting.push((0..last).rev());
        fits.then(|| Self {
            waiting,
            matches: AtomicU64::new(0),
            is_irregular: AtomicBool::new(false),
            is_enough: AtomicBool::new(false),
        })
    }

    /// Takes part in the search until no thread has a piece left.
    pub(super) fn search(
        &self,
        file: &File,
        bounds: &Bounds,
        mut search: impl FnMut(Piece<'_>) -> FoundInPiece,
    ) {
        self.waiting.serve(
            || bounds.is_over(),
            |number| {
                if self.is_decided() {
                    return;
                }
                match search(Piece::new(file, number, bounds)) {
                    FoundInPiece::Matches(matches) => {
                        self.matches.fetch_add(matches, Ordering::Relaxed);
                    }
                    FoundInPiece::Enough => self.is_enough.store(true, Ordering::Relaxed),
                    FoundInPiece::Irregular => self.is_irregular.store(true, Ordering::Relaxed),
                }
            },
        );
    }

    fn is_decided(&self) -> bool {
        self.is_enough.load(Ordering::Relaxed) || self.is_irregular.load(Ordering::Relaxed)
    }

    /// The matches in all pieces, unless the file must be read as a whole.
    pub(super) fn matches(&self) -> Option<u64> {
        let is_irregular = self.is_irregular.load(Ordering::Relaxed);
        let matches = self.matches.load(Ordering::Relaxed);
        let is_enough = self.is_enough.load(Ordering::Relaxed);
        (!is_irregular).then_some(matches + u64::from(is_enough))
    }
}

/// Reads the lines that begin in one piece. A line belongs to the piece that its first byte
/// lies in.
pub(super) struct Piece<'a> {
    file: &'a File,
    bounds: &'a Bounds,
    /// Where the next read begins.
    at: u64,
    /// The line that holds the byte before this one is the last.
    end: u64,
    /// Whether the first line still has to be found.
    seeks_line: bool,
    has_ended: bool,
}

impl<'a> Piece<'a> {
    fn new(file: &'a File, number: u64, bounds: &'a Bounds) -> Self {
        let start = number * PIECE;
        Self {
            file,
            bounds,
            // The end of a line right before the piece makes its first byte a beginning.
            at: start.saturating_sub(1),
            end: start + PIECE,
            seeks_line: start > 0,
            has_ended: false,
        }
    }

    /// Finds the first line of the piece, and returns how many of the bytes just read precede it.
    fn skip_to_line(&mut self, bytes: &[u8]) -> usize {
        if !self.seeks_line {
            return 0;
        }
        let end = memchr::memchr(b'\n', bytes).map(|at| at + 1);
        let skipped = end.unwrap_or(bytes.len());
        self.at += skipped as u64;
        self.seeks_line = end.is_none();
        // No line begins in this piece.
        self.has_ended = self.at >= self.end;
        skipped
    }

    /// How many bytes belong to this piece, of those that begin at `at`.
    fn own_bytes(&mut self, bytes: &[u8]) -> usize {
        let last = (self.end - 1).saturating_sub(self.at);
        let from = usize::try_from(last).unwrap_or(usize::MAX);
        let rest = bytes.get(from..).unwrap_or_default();
        match memchr::memchr(b'\n', rest) {
            Some(at) => {
                self.has_ended = true;
                from + at + 1
            }
            None => bytes.len(),
        }
    }
}

impl Read for Piece<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.has_ended {
            if self.bounds.is_over() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let read = self.file.read_at(buffer, self.at)?;
            if read == 0 {
                break;
            }
            let skipped = self.skip_to_line(&buffer[..read]);
            if self.seeks_line || self.has_ended {
                continue;
            }
            let own = self.own_bytes(&buffer[skipped..read]);
            self.at += own as u64;
            if own > 0 {
                buffer.copy_within(skipped..skipped + own, 0);
                return Ok(own);
            }
        }
        self.has_ended = true;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn read_in_pieces(text: &[u8]) -> Vec<Vec<u8>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        let bounds = Bounds::new(Duration::MAX / 4);
        let last = (text.len() as u64).saturating_sub(1) / PIECE;
        let read = |number| {
            let mut bytes = Vec::new();
            Piece::new(&file, number, &bounds).read_to_end(&mut bytes).unwrap();
            bytes
        };
        (0..=last).map(read).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Lines end at, right before and right after the border of a piece.
        #[test]
        fn every_line_is_in_one_piece(ends in prop::collection::vec((1..4_u64, -2..3_i64), 0..6)) {
            let mut text = vec![b'x'; usize::try_from(4 * PIECE).unwrap() - 7];
            for (piece, offset) in ends {
                let at = usize::try_from((piece * PIECE).strict_add_signed(offset)).unwrap();
                if let Some(byte) = text.get_mut(at) {
                    *byte = b'\n';
                }
            }
            let pieces = read_in_pieces(&text);
            prop_assert!(pieces.concat() == text, "bytes are lost or read twice");
            for (number, piece) in pieces.iter().enumerate().take(pieces.len() - 1) {
                let is_last = pieces[number + 1..].iter().all(Vec::is_empty);
                prop_assert!(piece.is_empty() || piece.ends_with(b"\n") || is_last);
            }
        }
    }

    #[test]
    fn small_files_are_searched_whole() {
        assert!(Pieces::of(0).is_none());
        assert!(Pieces::of(PIECE).is_none());
        assert!(Pieces::of(PIECE + 1).is_some());
    }
}
