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
}

#[derive(Debug)]
struct KnownFile {
    fingerprint: Fingerprint,
    /// Lines that answers of closed rounds show whole.
    shown: Vec<RangeInclusive<u64>>,
    used: u64,
}

/// Lines of a file that an answer shows whole.
#[derive(Clone, Debug)]
pub(crate) struct ShownLines {
    /// With every link resolved.
    pub(crate) path: PathBuf,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) lines: RangeInclusive<u64>,
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

    /// Records that the model has seen some of the file.
    pub(crate) fn saw(&self, path: &Path, fingerprint: Fingerprint) {
        let mut known = self.lock();
        let file = known.file(path, fingerprint);
        if !file.fingerprint.is_same_content(&fingerprint) {
            file.shown.clear();
        }
        file.fingerprint = fingerprint;
    }

    /// Records which lines the answers of a round show. This is known when the round is closed:
    /// its limit may cut them.
    pub(crate) fn showed(&self, lines: Vec<ShownLines>) {
        let mut known = self.lock();
        for ShownLines { path, fingerprint, lines } in lines {
            // Another call of the round may have written the file since.
            let file = known.files.get_mut(&path);
            let file = file.filter(|file| file.fingerprint.is_same_content(&fingerprint));
            if let Some(file) = file {
                if file.shown.len() == MAX_PAGES {
                    file.shown.remove(0);
                }
                file.shown.push(lines);
            }
        }
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
    pub(crate) fn was_shown(&self, wanted: &ShownLines) -> bool {
        self.lock().files.get(&wanted.path).is_some_and(|file| {
            file.fingerprint.is_same_content(&wanted.fingerprint)
                && covers(&file.shown, &wanted.lines)
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

fn covers(shown: &[RangeInclusive<u64>], lines: &RangeInclusive<u64>) -> bool {
    let mut shown: Vec<_> = shown.iter().collect();
    shown.sort_by_key(|lines| *lines.start());
    let mut next = *lines.start();
    for lines in shown {
        if lines.contains(&next) {
            next = lines.end() + 1;
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
        state.saw(path, fingerprint("one"));
        assert_eq!(state.knows(path, &fingerprint("one")), Some(true));
        assert_eq!(state.knows(path, &fingerprint("two")), Some(false));
        state.wrote(path, fingerprint("two"));
        assert_eq!(state.knows(path, &fingerprint("two")), Some(true));
    }

    #[test]
    fn lines_count_as_shown_when_closed_rounds_showed_them_all() {
        let (state, path) = (ReadState::default(), Path::new("/a"));
        let page =
            |lines| ShownLines { path: path.to_owned(), fingerprint: fingerprint("one"), lines };
        let shown = |lines| state.was_shown(&page(lines));
        state.saw(path, fingerprint("one"));
        assert!(!shown(11..=20), "the same round");
        state.showed(vec![page(11..=20)]);
        assert!(shown(11..=20) && shown(12..=15));
        assert!(!shown(5..=15));
        state.showed(vec![page(1..=10)]);
        assert!(shown(5..=15), "from two pages");
        state.wrote(path, fingerprint("one"));
        assert!(!shown(5..=15));
        state.wrote(path, fingerprint("two"));
        state.showed(vec![page(1..=10)]);
        assert!(!shown(1..=10), "written in the same round");
    }

    #[test]
    fn forgets_the_file_used_longest_ago() {
        let state = ReadState::default();
        for number in 0..=MAX_FILES {
            state.saw(Path::new(&format!("/{number}")), fingerprint("x"));
        }
        assert!(!state.has_seen(Path::new("/0")));
        assert!(state.has_seen(Path::new("/1")));
    }
}
