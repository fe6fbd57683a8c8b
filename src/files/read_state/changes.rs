//! Finds the known files that something else may have changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Content, Fingerprint, KnownFile, ReadState};
use crate::workspace::FileVersion;

/// A file that may not be as the model knows it.
#[derive(Debug)]
pub(crate) struct Suspect {
    pub(crate) path: PathBuf,
    /// What the model knows.
    pub(crate) known: Fingerprint,
    pub(crate) content: Option<Content>,
    /// What is there now.
    pub(crate) found: Found,
}

/// What is at the path of a known file, as far as its metadata tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Found {
    Gone,
    Version(FileVersion),
}

impl Found {
    /// `None` if the file system does not say.
    fn at(path: &Path) -> Option<Self> {
        match fs::symlink_metadata(path) {
            Ok(metadata) => Some(Self::Version(FileVersion::from_metadata(&metadata))),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Some(Self::Gone),
                _ => None,
            },
        }
    }
}

impl ReadState {
    /// The files that are marked, or whose metadata has changed, by path. A mark may come late or
    /// never, so all of them are looked at. Reads the metadata of each known file.
    pub(crate) fn suspects(&self) -> Vec<Suspect> {
        let paths: Vec<PathBuf> = self.lock().files.keys().cloned().collect();
        let now = self.marks.as_ref().map_or(0, |marks| marks.now());
        let mut suspects = Vec::new();
        for path in paths {
            // Without the lock: a file system may take its time.
            let Some(found) = Found::at(&path) else { continue };
            let mut known = self.lock();
            let Some(file) = known.files.get_mut(&path) else { continue };
            let since = std::mem::replace(&mut file.compared, now);
            let is_marked = self.marks.as_ref().is_some_and(|marks| marks.marked(&path, since));
            if is_marked || !file.is_known_as(found) {
                let (known, content) = (file.fingerprint, file.content.clone());
                suspects.push(Suspect { path, known, content, found });
            }
        }
        suspects.sort_by(|one, other| one.path.cmp(&other.path));
        suspects
    }

    /// The file has the contents that the model knows after all.
    pub(crate) fn is_unchanged(&self, path: &Path, version: FileVersion) {
        if let Some(file) = self.lock().files.get_mut(path) {
            file.fingerprint.version = version;
            file.told = None;
        }
    }

    /// The model was told that the file is in another state, and not what it holds now. Returns
    /// whether this was news.
    pub(crate) fn was_told(&self, path: &Path, found: Found) -> bool {
        let mut known = self.lock();
        let Some(file) = known.files.get_mut(path) else { return false };
        file.told.replace(found) != Some(found)
    }
}

impl KnownFile {
    fn is_known_as(&self, found: Found) -> bool {
        match self.told {
            Some(told) => told == found,
            None => Found::Version(self.fingerprint.version) == found,
        }
    }
}
