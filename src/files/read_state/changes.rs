//! Finds the known files that something else may have changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Content, Fingerprint, KnownFile, ReadState, SessionContents};
use crate::encoding::DeclaredEncoding;
use crate::file_encodings::FileEncodings;
use crate::workspace::FileVersion;

/// A file that may not be as the model knows it.
#[derive(Debug)]
pub(crate) struct Suspect {
    pub(crate) path: PathBuf,
    /// What the model knows.
    pub(crate) known: Fingerprint,
    /// What the file held then, if that is in memory.
    content: Option<Content>,
    kept: SessionContents,
    /// The encoding that a call has named.
    encoding: Option<DeclaredEncoding>,
    encodings: Arc<FileEncodings>,
    /// What is there now.
    pub(crate) found: Found,
    /// The state that the model was told it has, if that is all that it knows of it.
    pub(super) told: Option<Found>,
    /// When this was looked at, on the clock of the marks.
    since: u64,
}

/// What a look at a suspect has shown. It holds when the model is told it, and not before: the
/// turn may end first.
#[derive(Debug)]
pub(crate) struct Observation {
    path: PathBuf,
    since: u64,
    what: Observed,
}

#[derive(Debug)]
enum Observed {
    /// The file has the contents that the model knows after all.
    Unchanged(FileVersion),
    /// The model knows these contents now.
    Contents(Fingerprint, Option<Content>),
    /// The model is told that the file is in another state, and not what it holds.
    Told(Found),
    /// Nothing new.
    Nothing,
}

impl Suspect {
    /// What the file held when the model knew it, if that is still kept. Reads the disk.
    pub(crate) fn known_content(&self) -> Option<Content> {
        let known = self.known.hash;
        self.content.clone().or_else(|| self.kept.with_hash(known?))
    }

    /// The encoding that somebody has named for the file. Reads the disk.
    pub(crate) fn declared_encoding(&self) -> Option<DeclaredEncoding> {
        self.encoding.or_else(|| self.encodings.declared(&self.path))
    }

    /// Whether the model was told of this state before.
    pub(crate) fn is_told(&self, found: Found) -> bool {
        self.told == Some(found)
    }

    pub(crate) fn unchanged(&self, version: FileVersion) -> Observation {
        self.observed(Observed::Unchanged(version))
    }

    pub(crate) fn shown(&self, now: Fingerprint, content: Option<Content>) -> Observation {
        self.observed(Observed::Contents(now, content))
    }

    pub(crate) fn told(&self, found: Found) -> Observation {
        self.observed(Observed::Told(found))
    }

    pub(crate) fn nothing_new(&self) -> Observation {
        self.observed(Observed::Nothing)
    }

    fn observed(&self, what: Observed) -> Observation {
        Observation { path: self.path.clone(), since: self.since, what }
    }
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
            let since = file.compared;
            let is_marked = self.marks.as_ref().is_some_and(|marks| marks.marked(&path, since));
            if !is_marked && file.is_known_as(found) {
                file.compared = now;
                continue;
            }
            let (known, content, told) = (file.fingerprint, file.content.clone(), file.told);
            suspects.push(Suspect {
                path,
                known,
                content,
                kept: self.kept.clone(),
                encoding: file.encoding,
                encodings: Arc::clone(&self.encodings),
                found,
                told,
                since: now,
            });
        }
        suspects.sort_by(|one, other| one.path.cmp(&other.path));
        suspects
    }

    /// The model has been told what was observed.
    pub(crate) fn observed(&self, observations: Vec<Observation>) {
        let mut known = self.lock();
        for Observation { path, since, what } in observations {
            let Some(file) = known.files.get_mut(&path) else { continue };
            file.compared = since;
            match what {
                Observed::Unchanged(version) => {
                    file.fingerprint.version = version;
                    file.told = None;
                }
                Observed::Contents(fingerprint, content) => {
                    file.shown.clear();
                    file.found(fingerprint, since);
                    known.keep(&path, content);
                }
                Observed::Told(found) => file.told = Some(found),
                Observed::Nothing => {}
            }
        }
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
