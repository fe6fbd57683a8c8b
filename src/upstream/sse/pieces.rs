//! Buffers the bytes of an unfinished event in pieces of one size.
//!
//! A growing vector is copied again and again and leaves garbage behind: sixty long lines at
//! once took twice the memory that was counted for them.

/// The size of a piece in bytes: large enough that pieces are few, small enough that a
/// half-empty last one wastes little.
const PIECE: usize = 64 << 10;

/// Full pieces, and the one that is being filled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
}

impl Pieces {
    pub(crate) fn len(&self) -> usize {
        self.full.len() * PIECE + self.last.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_empty() && self.full.is_empty()
    }

    pub(crate) fn extend_from_slice(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.last.len()));
            self.last.extend_from_slice(now);
            bytes = later;
            if self.last.len() == PIECE {
                self.full.push(std::mem::take(&mut self.last));
                self.last.reserve_exact(if bytes.is_empty() { 0 } else { PIECE });
            }
        }
    }

    /// Takes all bytes as one vector, and leaves the buffer empty.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let Self { full, last } = std::mem::take(self);
        if full.is_empty() {
            return last;
        }
        let mut whole = Vec::with_capacity(full.len() * PIECE + last.len());
        for piece in full.into_iter().chain([last]) {
            whole.extend_from_slice(&piece);
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_in_comes_out_however_it_was_cut() {
        let bytes: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
        for cut in [1000, PIECE - 1, PIECE, PIECE + 1, 300_000] {
            let mut pieces = Pieces::default();
            for piece in bytes.chunks(cut) {
                pieces.extend_from_slice(piece);
            }
            assert_eq!(pieces.len(), bytes.len());
            assert!(pieces.full.iter().all(|piece| piece.capacity() <= 2 * PIECE));
            assert_eq!(pieces.take(), bytes, "in cuts of {cut}");
            assert!(pieces.is_empty() && pieces.len() == 0);
        }
    }
}
