//! What a file holds, for whoever compares it with what was there before.

/// What a file holds, whichever file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentState {
    /// There is no file.
    Missing,
    Hash(blake3::Hash),
}
