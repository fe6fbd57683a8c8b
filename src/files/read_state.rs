//! Remembers which files and lines a session has read, so that no file is edited unread.

mod saved;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use crate::sync;
use crate::workspace::FileVersion;

/// Files that are remembered, at a few hundred bytes each. A forgotten file must be read again
/// before an edit.
const MAX_FILES: usize = 4096;

/// Pages of one file that are remembered. The oldest is forgotten first, and may then be shown
/// again.
const MAX_PAGES: usize = 64;

/// One state of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fingerprint {
    pub(crate) version: FileVersion,
    /// The hash of the contents. `None` if the file was too long to be read whole.
    pub(crate) hash: Option<blake3::Hash>,
}

/// The files that the model has seen, by their path with every link resolved.
#[derive(Debug, Default)]
pub(crate) struct ReadState {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    files: HashMap<PathBuf, KnownFile>,
    /// Counts the uses of `files`, to find the least recently used one.
    clock: u64,
    round: u64,
}

#[derive(Debug)]
struct KnownFile {
    fingerprint: Fingerprint,
    shown: Vec<Page>,
    used: u64,
}

/// Lines that Read showed, and in which round.
#[derive(Clone, Debug)]
struct Page {
    lines: RangeInclusive<u64>,
    round: u64,
}

impl Fingerprint {
    pub(crate) fn from_bytes(version: FileVersion, bytes: &[u8]) -> Self {
        Self { version, hash: Some(blake3::hash(bytes)) }
    }

    /// Compares the hashes if both are known, else the identities. Times are not enough: a file
    /// can be rewritten within one tick of its clock, and touched without being changed.
    fn is_same_content(&self, other: &Self) -> bool {
        match (self.hash, other.hash) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => self.version == other.version,
        }
    }
}

impl ReadState {
    /// Whether no file is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().files.is_empty()
    }

    /// Begins a round of tool calls. The calls of one round overlap, so a page counts as shown
    /// only from the next round on.
    pub(crate) fn begin_round(&self) {
        self.lock().round += 1;
    }

    /// Records that the model has seen the file. `whole` are the lines shown in full.
    pub(crate) fn saw(
        &self,
        path: &Path,
        fingerprint: Fingerprint,
        whole: Option<RangeInclusive<u64>>,
    ) {
        let mut known = self.lock();
        let round = known.round;
        let file = known.file(path, fingerprint);
        if !file.fingerprint.is_same_content(&fingerprint) {
            file.shown.clear();
        }
        file.fingerprint = fingerprint;
        let Some(lines) = whole else { return };
        if file.shown.len() == MAX_PAGES {
            file.shown.remove(0);
        }
        file.shown.push(Page { lines, round });
    }

    /// Records that the model wrote the file. It knows the contents, but has not seen the new
    /// line numbers.
    pub(crate) fn wrote(&self, path: &Path, fingerprint: Fingerprint) {
        let mut known = self.lock();
        let file = known.file(path, fingerprint);
        file.fingerprint = fingerprint;
        file.shown.clear();
    }

    /// The model no longer has what it was shown. It may still edit what it knows.
    pub(crate) fn forget_shown(&self) {
        self.lock().files.values_mut().for_each(|file| file.shown.clear());
    }

    /// Whether the model knows the file in this state. `None` if it never saw the file.
    pub(crate) fn knows(&self, path: &Path, now: &Fingerprint) -> Option<bool> {
        self.lock().files.get(path).map(|file| file.fingerprint.is_same_content(now))
    }

    pub(crate) fn has_seen(&self, path: &Path) -> bool {
        self.lock().files.contains_key(path)
    }

    /// Whether earlier rounds showed all these lines, and the file is unchanged.
    pub(crate) fn was_shown(
        &self,
        path: &Path,
        now: &Fingerprint,
        lines: &RangeInclusive<u64>,
    ) -> bool {
        let known = self.lock();
        known.files.get(path).is_some_and(|file| {
            let earlier = file.shown.iter().filter(|page| page.round < known.round);
            file.fingerprint.is_same_content(now) && covers(earlier, lines)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        sync::lock(&self.known)
    }
}

impl Known {
    fn file(&mut self, path: &Path, fingerprint: Fingerprint) -> &mut KnownFile {
        if self.files.len() == MAX_FILES && !self.files.contains_key(path) {
            let oldest = self.files.iter().min_by_key(|(_, file)| file.used);
            if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
                self.files.remove(&oldest);
            }
        }
        self.clock += 1;
        let file = self.files.entry(path.to_owned()).or_insert_with(|| KnownFile {
            fingerprint,
            shown: Vec::new(),
            used: 0,
        });
        file.used = self.clock;
        file
    }
}

fn covers<'a>(pages: impl Iterator<Item = &'a Page>, lines: &RangeInclusive<u64>) -> bool {
    let mut pages: Vec<_> = pages.map(|page| &page.lines).collect();
    pages.sort_by_key(|page| *page.start());
    let mut next = *lines.start();
    for page in pages {
        if page.contains(&next) {
            next = page.end() + 1;
        }
    }
    next > *lines.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(content: &str) -> Fingerprint {
        let metadata = std::fs::metadata("/").unwrap();
        Fingerprint::from_bytes(FileVersion::from_metadata(&metadata), content.as_bytes())
    }

    #[test]
    fn knows_what_it_saw_or_wrote() {
        let (state, path) = (ReadState::default(), Path::new("/a"));
        assert_eq!(state.knows(path, &fingerprint("one")), None);
        state.saw(path, fingerprint("one"), Some(1..=1));
        assert_eq!(state.knows(path, &fingerprint("one")), Some(true));
        assert_eq!(state.knows(path, &fingerprint("two")), Some(false));
        state.wrote(path, fingerprint("two"));
        assert_eq!(state.knows(path, &fingerprint("two")), Some(true));
    }

    #[test]
    fn lines_count_as_shown_when_earlier_rounds_showed_them_all() {
        let (state, path) = (ReadState::default(), Path::new("/a"));
        let shown = |lines| state.was_shown(path, &fingerprint("one"), &lines);
        state.saw(path, fingerprint("one"), Some(11..=20));
        assert!(!shown(11..=20), "the same round");
        state.begin_round();
        assert!(shown(11..=20) && shown(12..=15));
        assert!(!shown(5..=15));
        state.saw(path, fingerprint("one"), Some(1..=10));
        state.begin_round();
        assert!(shown(5..=15), "from two pages");
        state.wrote(path, fingerprint("one"));
        assert!(!shown(5..=15));
    }

    #[test]
    fn forgets_the_file_used_longest_ago() {
        let state = ReadState::default();
        for number in 0..=MAX_FILES {
            state.saw(Path::new(&format!("/{number}")), fingerprint("x"), None);
        }
        assert!(!state.has_seen(Path::new("/0")));
        assert!(state.has_seen(Path::new("/1")));
    }
}
