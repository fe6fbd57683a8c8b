//! Collects the results of all threads of one search.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::time::SystemTime;

use super::query::Query;
use crate::tools::top_entries::TopEntries;

/// Sorts results: newest first in mode `files_with_matches`, then by path below the
/// searched directory.
pub(super) type Key = (Option<Reverse<SystemTime>>, PathBuf);

#[derive(Debug)]
pub(super) struct Found {
    /// The first results, sorted.
    pub(super) page: TopEntries<Key>,
    /// Files with a match.
    pub(super) files: u64,
    /// Matching lines in all files. Counted in mode `count` only.
    pub(super) matches: u64,
    /// Lines before the page that were counted and not kept.
    pub(super) skipped: usize,
    /// Whether the call names a file. Its lines are known in their order, so that every offset
    /// can be reached.
    pub(super) is_of_one_file: bool,
    /// Whether lines are shown that were decoded in a guessed encoding.
    pub(super) shows_guess: bool,
}

impl Found {
    pub(super) fn nothing(query: &Query) -> Self {
        let page = TopEntries::new(query.lines_wanted());
        Self { page, files: 0, matches: 0, skipped: 0, is_of_one_file: false, shows_guess: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.page.lines() + self.skipped == 0
    }

    /// Adds the result of one file.
    pub(super) fn add(&mut self, key: Key, text: Vec<u8>, matches: u64) {
        self.files += 1;
        self.matches += matches;
        self.page.insert(key, text);
    }
}
