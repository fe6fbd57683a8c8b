//! Defines a here-document.

use std::ops::Range;

use super::delimiter::Delimiter;

/// A here-document, by its places in the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HereDocument {
    /// From `<<` to the end of the delimiter.
    pub(super) operator: Range<usize>,
    /// The lines of the body, with the one that ends it.
    pub(super) lines: Range<usize>,
    pub(super) delimiter: Delimiter,
    /// The text, as far as nothing is expanded in it.
    pub(super) text: String,
}
