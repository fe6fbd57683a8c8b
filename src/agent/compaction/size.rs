//! Estimates how many tokens a request has.

use memchr::memmem;

/// Characters of a token, roughly, over the languages and the code that models read.
const BYTES_OF_A_TOKEN: usize = 4;

/// The tokens of a picture, roughly; its bytes say nothing.
const PICTURE: usize = 1_500;

/// How large a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) tokens: u64,
    pub(crate) bytes: usize,
}

impl Size {
    /// As many bytes of this request as `tokens` are.
    pub(super) fn bytes_of(self, tokens: u64) -> usize {
        let bytes = u128::from(tokens) * self.bytes as u128 / u128::from(self.tokens.max(1));
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// After so many bytes were left out.
    pub(crate) fn without(self, bytes: usize) -> Self {
        let left = self.bytes.saturating_sub(bytes);
        let tokens = u128::from(self.tokens) * left as u128 / self.bytes.max(1) as u128;
        Self { tokens: u64::try_from(tokens).unwrap_or(u64::MAX), bytes: left }
    }

    /// The bytes that a message counts for, with embedded files as pictures.
    pub(crate) fn counted(message: &[u8]) -> usize {
        let tokens = estimate(std::iter::once(message));
        usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_OF_A_TOKEN)
    }

    /// With so many more bytes than when the tokens were counted.
    pub(crate) fn grown(tokens: u64, before: usize, bytes: usize) -> Self {
        let more = bytes.saturating_sub(before) / BYTES_OF_A_TOKEN;
        Self { tokens: tokens.saturating_add(more as u64), bytes }
    }
}

/// The tokens of a request in these pieces. Embedded files count as pictures.
pub(crate) fn estimate<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> u64 {
    let marker = memmem::Finder::new(b";base64,");
    let tokens = pieces.map(|mut piece| {
        let mut tokens = 0;
        while let Some(at) = marker.find(piece) {
            tokens += at / BYTES_OF_A_TOKEN + PICTURE;
            let end = memchr::memchr(b'"', &piece[at..]).map_or(piece.len(), |end| at + end);
            piece = &piece[end..];
        }
        tokens + piece.len() / BYTES_OF_A_TOKEN
    });
    tokens.sum::<usize>() as u64
}
