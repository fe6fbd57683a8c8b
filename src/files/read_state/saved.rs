//! Saves which files a session has read, so that a later turn finds it, after a restart too.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::changes::Found;
use super::{Fingerprint, Known, KnownFile, MAX_PAGES, Page, ReadState, SessionContents};
use crate::encoding::DeclaredEncoding;
use crate::ids::SessionId;
use crate::workspace::FileVersion;

/// Files that are saved, those used last: all of them. Each takes some 200 bytes.
const MAX_SAVED_FILES: usize = super::MAX_FILES;

#[derive(Serialize, Deserialize)]
struct Saved {
    /// The least recently used first.
    files: Vec<SavedFile>,
    /// The sessions that have kept contents of them, the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sessions: Vec<SessionId>,
}

#[derive(Serialize, Deserialize)]
struct SavedFile {
    path: SavedPath,
    version: FileVersion,
    /// In hexadecimal.
    hash: Option<String>,
    /// First line, last line and round of each page.
    shown: Vec<Vec<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<Found>,
    /// The encoding that a call has named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
}

/// A path as text, or as bytes if it is not UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SavedPath {
    Text(String),
    Bytes(Vec<u8>),
}

impl ReadState {
    pub(crate) fn save(&self) -> Value {
        let known = self.lock();
        let mut files: Vec<_> = known.files.iter().collect();
        files.sort_by_key(|(_, file)| file.used);
        let skipped = files.len().saturating_sub(MAX_SAVED_FILES);
        let files = files[skipped..].iter().map(|(path, file)| SavedFile::new(path, file));
        let saved = Saved { files: files.collect(), sessions: self.kept.sessions() };
        serde_json::to_value(saved).unwrap_or_default()
    }

    /// Loads what was saved. A file whose record cannot be read counts as unread.
    pub(crate) fn load(saved: &Value) -> Self {
        let mut known = Known::default();
        for file in saved["files"].as_array().into_iter().flatten().take(MAX_SAVED_FILES) {
            let file = SavedFile::deserialize(file).ok();
            if let Some((path, saved)) = file.and_then(SavedFile::read) {
                let file = known.file(&path, saved.fingerprint);
                (file.shown, file.told) = (saved.shown, saved.told);
                file.encoding = saved.encoding;
            }
        }
        let sessions = saved["sessions"].as_array().into_iter().flatten();
        let sessions = sessions.filter_map(|id| SessionId::parse(id.as_str()?)).collect();
        let kept = SessionContents::of_sessions(sessions);
        Self { known: Mutex::new(known), kept, ..Self::default() }
    }
}

impl SavedFile {
    fn new(path: &Path, file: &KnownFile) -> Self {
        let path = path.to_str().map_or_else(
            || SavedPath::Bytes(path.as_os_str().as_bytes().to_vec()),
            |path| SavedPath::Text(path.to_owned()),
        );
        let page = |page: &Page| vec![*page.lines.start(), *page.lines.end(), page.round];
        Self {
            path,
            version: file.fingerprint.version,
            hash: file.fingerprint.hash.map(|hash| hash.to_hex().to_string()),
            shown: file.shown.iter().map(page).collect(),
            told: file.told,
            encoding: file.encoding.map(|encoding| encoding.name().to_owned()),
        }
    }

    /// `None` if the hash is none: without it the file would count as known by its times alone.
    fn read(self) -> Option<(PathBuf, KnownFile)> {
        let hash = match self.hash {
            Some(hash) => Some(blake3::Hash::from_hex(hash).ok()?),
            None => None,
        };
        let path = match self.path {
            SavedPath::Text(path) => PathBuf::from(path),
            SavedPath::Bytes(bytes) => OsString::from_vec(bytes).into(),
        };
        let page = |saved: Vec<u64>| {
            let [first, last, round] = saved[..] else { return None };
            Some(Page { lines: first..=last, round })
        };
        let shown = self.shown.into_iter().take(MAX_PAGES).filter_map(page).collect();
        let fingerprint = Fingerprint { version: self.version, hash };
        let encoding = self.encoding.as_deref().and_then(DeclaredEncoding::parse);
        let known = KnownFile::new(fingerprint);
        Some((path, KnownFile { shown, told: self.told, encoding, ..known }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use std::ops::RangeInclusive;

    use super::super::ShownLines;
    use super::*;

    fn fingerprint(content: u8) -> Fingerprint {
        let metadata = std::fs::metadata("/").unwrap();
        let version = FileVersion::from_metadata(&metadata);
        // Some files are too long to be hashed.
        if content == 3 {
            Fingerprint { version, hash: None }
        } else {
            Fingerprint::from_bytes(version, &[content])
        }
    }

    fn path(number: u8) -> PathBuf {
        OsString::from_vec(vec![b'/', number]).into()
    }

    fn page(file: u8, content: u8, lines: RangeInclusive<u64>) -> ShownLines {
        ShownLines { path: path(file), fingerprint: fingerprint(content), lines }
    }

    proptest! {
        #[test]
        fn what_was_saved_is_known_after_a_restart(
            steps in prop::collection::vec(
                (0_u8..4, any::<u8>(), 0_u8..4, 1_u64..20, 0_u64..20), 0..60),
        ) {
            let state = ReadState::default();
            for (step, file, content, first, more) in &steps {
                match step {
                    0 => state.saw(&path(*file), fingerprint(*content), None),
                    1 => state.wrote(&path(*file), fingerprint(*content), None),
                    _ => state.showed(vec![page(*file, *content, *first..=first + more)], u64::MAX),
                }
            }
            let text = state.save().to_string();
            let loaded = ReadState::load(&serde_json::from_str(&text).unwrap());

            prop_assert_eq!(loaded.save(), state.save());
            for number in steps.iter().map(|step| step.1).chain([0, 255]) {
                for content in 0..4 {
                    let (path, now) = (path(number), fingerprint(content));
                    prop_assert_eq!(loaded.knows(&path, &now), state.knows(&path, &now));
                    for lines in [1..=1, 3..=9, 10..=30] {
                        let page = page(number, content, lines);
                        prop_assert_eq!(loaded.was_shown(&page), state.was_shown(&page));
                    }
                }
            }
        }
    }

    #[test]
    fn saves_the_files_used_last_and_no_more_than_a_bound() {
        let state = ReadState::default();
        let name = |number: usize| PathBuf::from(format!("/{number}"));
        for number in 0..=MAX_SAVED_FILES {
            state.saw(&name(number), fingerprint(0), None);
        }
        let loaded = ReadState::load(&state.save());
        assert!(!loaded.has_seen(&name(0)));
        assert!(loaded.has_seen(&name(1)) && loaded.has_seen(&name(MAX_SAVED_FILES)));
    }

    #[test]
    fn what_cannot_be_read_counts_as_unread() {
        let state = ReadState::default();
        state.saw(Path::new("/a"), fingerprint(0), None);
        state.saw(Path::new("/b"), fingerprint(0), None);
        let mut saved = state.save();
        saved["files"][0]["hash"] = json!("zz");
        let loaded = ReadState::load(&saved);
        assert!(!loaded.has_seen(Path::new("/a")) && loaded.has_seen(Path::new("/b")));
        for broken in [json!(null), json!([]), json!({ "files": 5, "round": "x" }), json!("")] {
            assert!(!ReadState::load(&broken).has_seen(Path::new("/a")));
        }
    }
}
