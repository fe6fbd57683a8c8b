//! Reads the text of PDF files, in a worker: every parser of PDF panics, or does not end, on some
//! damaged file.

use serde::{Deserialize, Serialize};

#[cfg(feature = "pdf")]
mod extraction;

#[cfg(feature = "pdf")]
pub use self::extraction::extract_if_asked;

/// The worker's task. Its arguments are the first and the last page, or none for all pages.
pub(crate) const TASK: &str = "pdf";

/// The largest file that is read.
pub(crate) const MAX_FILE_BYTES: u64 = 100_000_000;

/// A document of more pages is read in parts: the caller says which.
pub(crate) const MAX_UNASKED_PAGES: usize = 10;

/// The most characters of one page. A page of print has three thousand.
#[cfg(feature = "pdf")]
const MAX_PAGE_CHARS: usize = 100_000;

/// A line of the worker's answer.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// How many pages the document has. Comes first.
    Pages(usize),
    /// The text of one page, counted from 1.
    Page { number: usize, text: String, is_cut: bool },
    /// A page whose text cannot be read, and why.
    BadPage { number: usize, reason: String },
    /// It opens only with a password.
    Locked,
    /// It cannot be read at all.
    Broken(String),
    /// This process could not be confined, and has read nothing.
    Unconfined(String),
}

/// The lines of an answer. One that was cut off is left out.
pub(crate) fn reports(output: &[u8]) -> Vec<Report> {
    output
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}
