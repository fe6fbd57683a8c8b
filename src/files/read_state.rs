//! Remembers which files and lines a session has read, so that no file is edited unread.

mod changes;
mod kept;
mod saved;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) use self::changes::{Found, Observation, Suspect};
use self::kept::SessionContents;
use super::coded_text::Declaration;
use super::watcher::Marks;
use crate::encoding::DeclaredEncoding;
use crate::file_encodings::FileEncodings;
use crate::sync;
use crate::workspace::FileVersion;

/// Files that are remembered, at a few hundred bytes each. A forgotten file must be read again
/// before an edit.
const MAX_FILES: usize = 4096;

/// Pages of one file that are remembered. The oldest is forgotten first, and may then be shown
/// again.
const MAX_PAGES: usize = 64;

/// The contents of a longer file are not kept.
pub(crate) const MAX_KEPT_BYTES: usize = 1 << 20;

/// Contents that are kept of all files together, for showing what has changed.
const MAX_CONTENT_BYTES: usize = 16 << 20;

/// One state of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fingerprint {
    pub(crate) version: FileVersion,
    /// The hash of the contents. `None` if the file was too long to be read whole.
    pub(crate) hash: Option<blake3::Hash>,
}

/// The whole contents of a file that is short enough to be kept.
pub(crate) type Content = Arc<[u8]>;

/// The files that the model has seen, by their path with every link resolved.
#[derive(Debug, Default)]
pub(crate) struct ReadState {
    known: Mutex<Known>,
    /// Tells which of them may have changed.
    marks: Option<Arc<dyn Marks>>,
    /// What is in the directories of its directories is never known: output of commands grows,
    /// and nobody edits it.
    passed_over: Option<PathBuf>,
    /// Where contents are between two turns.
    kept: SessionContents,
    /// The encodings that are named for files.
    encodings: Arc<FileEncodings>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    files: HashMap<PathBuf, KnownFile>,
    /// Counts the uses of `files`, to find the least recently used one.
    clock: u64,
    /// The bytes of all contents that are kept.
    content_bytes: usize,
}

#[derive(Clone, Debug)]
struct KnownFile {
    fingerprint: Fingerprint,
    content: Option<Content>,
    /// Whether the content is also on the disk.
    is_kept: bool,
    /// The encoding that a call has named.
    encoding: Option<DeclaredEncoding>,
    shown: Vec<Page>,
    /// The state that the model was told the file has, without its contents.
    told: Option<Found>,
    /// When it was compared with the disk, on the clock of the marks.
    compared: u64,
    used: u64,
}

/// Lines that an answer of a closed round shows whole.
#[derive(Clone, Debug)]
struct Page {
    lines: RangeInclusive<u64>,
    round: RoundDigest,
}

/// Tells the round in which lines were shown from every other.
pub(crate) type RoundDigest = u64;

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
    pub(super) fn is_same_content(&self, other: &Self) -> bool {
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

    /// Finds changes by these marks.
    pub(crate) fn watched_by(self, marks: Arc<dyn Marks>) -> Self {
        Self { marks: Some(marks), ..self }
    }

    /// Shows what has changed in these encodings, where no call has named one.
    pub(crate) fn reading_in(self, encodings: Arc<FileEncodings>) -> Self {
        Self { encodings, ..self }
    }

    /// Remembers no file that is two directories below this one: `DIRECTORY/ID/output/file`, but
    /// `DIRECTORY/ID/file`.
    pub(crate) fn passing_over(self, directory: PathBuf) -> Self {
        Self { passed_over: Some(directory), ..self }
    }

    fn passes_over(&self, path: &Path) -> bool {
        let below = self.passed_over.as_ref().and_then(|over| path.strip_prefix(over).ok());
        below.is_some_and(|below| below.components().count() > 2)
    }

    /// Has the marks of `other`, and passes over what that does.
    pub(crate) fn like(self, other: &Self) -> Self {
        let (marks, passed_over) = (other.marks.clone(), other.passed_over.clone());
        let kept = self.kept.also_of(&other.kept);
        let encodings = Arc::clone(&other.encodings);
        Self { marks, passed_over, kept, encodings, ..self }
    }

    /// The same files for an agent that was shown nothing of them yet.
    pub(crate) fn copied(&self) -> Self {
        let mut known = self.lock().clone();
        known.files.values_mut().for_each(|file| file.shown.clear());
        Self { known: Mutex::new(known), ..Self::default() }.like(self)
    }

    /// Records that the model has seen some of the file. Talks to the kernel.
    pub(crate) fn saw(&self, path: &Path, fingerprint: Fingerprint, content: Option<Content>) {
        if self.passes_over(path) {
            return;
        }
        let compared = self.watch(path);
        let mut known = self.lock();
        let file = known.file(path, fingerprint);
        if !file.fingerprint.is_same_content(&fingerprint) {
            file.shown.clear();
        }
        file.found(fingerprint, compared);
        known.keep(path, content);
    }

    /// Records which lines the answers of a round show. This is known when the round is closed:
    /// its limit may cut them.
    pub(crate) fn showed(&self, lines: Vec<ShownLines>, round: RoundDigest) {
        let mut known = self.lock();
        for ShownLines { path, fingerprint, lines } in lines {
            // Another call of the round may have written the file since.
            let file = known.files.get_mut(&path);
            let file = file.filter(|file| file.fingerprint.is_same_content(&fingerprint));
            if let Some(file) = file {
                if file.shown.len() == MAX_PAGES {
                    file.shown.remove(0);
                }
                file.shown.push(Page { lines, round });
            }
        }
    }

    /// Records that the model wrote the file. It knows the contents, but has not seen the new
    /// line numbers. Talks to the kernel.
    pub(crate) fn wrote(&self, path: &Path, fingerprint: Fingerprint, content: Option<Content>) {
        let compared = self.watch(path);
        let mut known = self.lock();
        let file = known.file(path, fingerprint);
        file.shown.clear();
        file.found(fingerprint, compared);
        known.keep(path, content);
    }

    /// The encoding that a call has named for a known file.
    pub(crate) fn declared_encoding(&self, path: &Path) -> Option<DeclaredEncoding> {
        self.lock().files.get(path).and_then(|file| file.encoding)
    }

    /// If a call has named the encoding of a known file, keeps that. What was shown of the file so
    /// far may have been something else.
    pub(crate) fn keep_declaration(&self, path: &Path, declaration: Option<Declaration>) {
        let Some(Declaration::Call(encoding)) = declaration else { return };
        if let Some(file) = self.lock().files.get_mut(path)
            && file.encoding != Some(encoding)
        {
            file.encoding = Some(encoding);
            file.shown.clear();
        }
    }

    /// The bytes of all contents that are kept.
    pub(crate) fn content_bytes(&self) -> usize {
        self.lock().content_bytes
    }

    /// Keeps no contents in memory any more: of a change then only what is on the disk is shown.
    pub(crate) fn forget_contents(&self) {
        let mut known = self.lock();
        known.files.values_mut().for_each(|file| file.content = None);
        known.content_bytes = 0;
    }

    /// The model no longer has what it was shown. It may still edit what it knows.
    pub(crate) fn forget_shown(&self) {
        self.lock().files.values_mut().for_each(|file| file.shown.clear());
    }

    /// Forgets what other rounds than these have shown: they no longer go upstream. The model
    /// may still edit what it knows.
    pub(crate) fn retain_shown(&self, is_sent: impl Fn(RoundDigest) -> bool) {
        for file in self.lock().files.values_mut() {
            file.shown.retain(|page| is_sent(page.round));
        }
    }

    /// Whether any lines count as shown.
    pub(crate) fn has_shown(&self) -> bool {
        self.lock().files.values().any(|file| !file.shown.is_empty())
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

    /// Watches the directory of a file, and returns the time.
    fn watch(&self, path: &Path) -> u64 {
        let (Some(marks), Some(directory)) = (&self.marks, path.parent()) else { return 0 };
        let now = marks.now();
        marks.watch(directory);
        now
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
                let forgotten = self.files.remove(&oldest);
                self.content_bytes -= forgotten.map_or(0, |file| file.content_bytes());
            }
        }
        self.clock += 1;
        let file = self.files.entry(path.to_owned()).or_insert_with(|| KnownFile::new(fingerprint));
        file.used = self.clock;
        file
    }

    /// Keeps the contents of a known file. Forgets those of the files used longest ago when there
    /// is too much.
    fn keep(&mut self, path: &Path, content: Option<Content>) {
        let Some(file) = self.files.get_mut(path) else { return };
        self.content_bytes -= file.content_bytes();
        file.is_kept = false;
        file.content = content.filter(|content| content.len() <= MAX_KEPT_BYTES);
        self.content_bytes += file.content_bytes();
        while self.content_bytes > MAX_CONTENT_BYTES {
            let kept = self.files.values_mut().filter(|file| file.content.is_some());
            let Some(oldest) = kept.min_by_key(|file| file.used) else { return };
            self.content_bytes -= oldest.content_bytes();
            oldest.content = None;
        }
    }
}

impl KnownFile {
    fn new(fingerprint: Fingerprint) -> Self {
        let (content, encoding, shown, told) = (None, None, Vec::new(), None);
        let (is_kept, compared, used) = (false, 0, 0);
        Self { fingerprint, content, is_kept, encoding, shown, told, compared, used }
    }

    /// The file was found in this state, which the model knows.
    fn found(&mut self, fingerprint: Fingerprint, compared: u64) {
        self.fingerprint = fingerprint;
        self.told = None;
        self.compared = compared;
    }

    fn content_bytes(&self) -> usize {
        self.content.as_ref().map_or(0, |content| content.len())
    }
}

fn covers(shown: &[Page], lines: &RangeInclusive<u64>) -> bool {
    let mut shown: Vec<_> = shown.iter().map(|page| &page.lines).collect();
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
        state.saw(path, fingerprint("one"), None);
        assert_eq!(state.knows(path, &fingerprint("one")), Some(true));
        assert_eq!(state.knows(path, &fingerprint("two")), Some(false));
        state.wrote(path, fingerprint("two"), None);
        assert_eq!(state.knows(path, &fingerprint("two")), Some(true));
    }

    #[test]
    fn lines_count_as_shown_when_closed_rounds_showed_them_all() {
        let (state, path) = (ReadState::default(), Path::new("/a"));
        let page =
            |lines| ShownLines { path: path.to_owned(), fingerprint: fingerprint("one"), lines };
        let shown = |lines| state.was_shown(&page(lines));
        state.saw(path, fingerprint("one"), None);
        assert!(!shown(11..=20), "the same round");
        state.showed(vec![page(11..=20)], 1);
        assert!(shown(11..=20) && shown(12..=15));
        assert!(!shown(5..=15));
        state.showed(vec![page(1..=10)], 2);
        assert!(shown(5..=15), "from two pages");
        state.retain_shown(|round| round == 2);
        assert!(shown(5..=10) && !shown(5..=15), "the first page is sent no more");
        state.wrote(path, fingerprint("one"), None);
        assert!(!shown(5..=15));
        state.wrote(path, fingerprint("two"), None);
        state.showed(vec![page(1..=10)], 2);
        assert!(!shown(1..=10), "written in the same round");
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

    #[test]
    fn forgets_the_oldest_contents_and_keeps_the_fingerprints() {
        let state = ReadState::default();
        let content: Content = vec![b'x'; MAX_KEPT_BYTES].into();
        let name = |number: usize| PathBuf::from(format!("/{number}"));
        for number in 0..=MAX_CONTENT_BYTES / MAX_KEPT_BYTES {
            state.saw(&name(number), fingerprint("x"), Some(Arc::clone(&content)));
        }
        let kept = |number| state.lock().files[&name(number)].content.is_some();
        assert!(!kept(0) && kept(1) && state.has_seen(&name(0)));
        assert_eq!(state.lock().content_bytes, MAX_CONTENT_BYTES);
        let long: Content = vec![b'x'; MAX_KEPT_BYTES + 1].into();
        state.saw(&name(1), fingerprint("x"), Some(long));
        assert!(!kept(1) && kept(2));
        state.forget_contents();
        assert!(!kept(2) && state.content_bytes() == 0 && state.has_seen(&name(2)));
    }
}
