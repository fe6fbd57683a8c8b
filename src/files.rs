//! Tracks which files the model has read, and writes files whole or not at all.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub(crate) use self::coded_text::{CodedText, Declaration};
use self::locks::Locks;
pub(crate) use self::read_state::{
    Content, Fingerprint, Found, MAX_KEPT_BYTES, Observation, ReadState, RoundDigest, ShownLines,
    Suspect,
};
use self::settings_guard::SettingsGuard;
use crate::encoding::DeclaredEncoding;
use crate::file_encodings::FileEncodings;
use crate::workspace::{
    ContentState, FileVersion, ReplaceError, Target, TempFiles, WhyInPlace, WrittenFile,
};

mod coded_text;
pub(crate) mod line_ends;
mod locks;
pub mod measured;
pub(crate) mod notebook;
pub(crate) mod outside_changes;
pub(crate) mod page;
pub(crate) mod patch;
mod read_state;
pub(crate) mod settings_guard;
pub(crate) mod watcher;

/// The largest file that can be edited. An edit holds a few copies of the file in memory.
pub(crate) const MAX_EDITED_BYTES: usize = 64 << 20;

/// Attempts to write a new file while other calls remove its directory.
const MAX_ATTEMPTS: usize = 10;

/// Changes files, one change per file at a time. The whole server shares one.
#[derive(Debug, Default)]
pub(crate) struct Files {
    locks: Locks,
    temporary: TempFiles,
    guard: SettingsGuard,
    encodings: Arc<FileEncodings>,
}

/// The contents of a file, and the state they were read in.
#[derive(Debug)]
pub(crate) struct FileSnapshot {
    pub(crate) bytes: Vec<u8>,
    pub(crate) fingerprint: Fingerprint,
}

/// The answer to a change that was written, and how it was.
#[derive(Debug)]
pub(crate) struct ChangeOutcome<T> {
    pub(crate) answer: T,
    pub(crate) in_place: Option<WhyInPlace>,
}

/// Whether the model knows the current state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// The file does not exist yet.
    New,
    /// The file is unchanged since the model saw it.
    Known,
    /// Someone else has changed the file since.
    Changed,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("Must read file before editing: {}", .0.display())]
    Unread(PathBuf),
    #[error("File was modified externally since last read: {}", .0.display())]
    Modified(PathBuf),
    #[error("{} has changed since a person approved its edit; nothing was changed. Call again", .0.display())]
    NotAsApproved(PathBuf),
    #[error("File no longer exists: {}", .0.display())]
    Gone(PathBuf),
    #[error("{} has more than {MAX_EDITED_BYTES} bytes, the most that can be edited", .0.display())]
    TooLarge(PathBuf),
    #[error("{} would grow past {MAX_EDITED_BYTES} bytes, the most that can be edited; nothing was changed", .0.display())]
    Grown(PathBuf),
    #[error("File does not exist: {}", .0.display())]
    Missing(PathBuf),
    #[error("{0}")]
    Refused(String),
    #[error("interrupted")]
    Cancelled,
    #[error("could not {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl Files {
    pub(crate) fn new(temp_files: TempFiles, guard: SettingsGuard) -> Self {
        let encodings = Arc::default();
        Self { locks: Locks::default(), temporary: temp_files, guard, encodings }
    }

    /// Takes these encodings for those of files.
    pub(crate) fn with_encodings(self, encodings: Arc<FileEncodings>) -> Self {
        Self { encodings, ..self }
    }

    /// Who says in which encoding a file is: the call itself, an earlier one, or a setting.
    pub(crate) fn declaration(
        &self,
        target: &Target,
        known: &ReadState,
        given: Option<DeclaredEncoding>,
    ) -> Option<Declaration> {
        let earlier = || self.declared_encoding(target.real_path(), known);
        given.map(Declaration::Call).or_else(|| earlier().map(Declaration::Other))
    }

    /// The encoding that an earlier call or a setting names for the file at this path, in which
    /// all links are resolved.
    pub(crate) fn declared_encoding(
        &self,
        path: &Path,
        known: &ReadState,
    ) -> Option<DeclaredEncoding> {
        known.declared_encoding(path).or_else(|| self.encodings.declared(path))
    }

    /// What keeps settings files whole.
    pub(crate) fn guard(&self) -> &SettingsGuard {
        &self.guard
    }

    /// Passes the current contents of the target to `change`, and replaces them with the bytes
    /// that it returns. Holds the lock of the file meanwhile, so that calls of this server do
    /// not overlap. If another program changes the file meanwhile, nothing is written; nor if
    /// the contents are not those of which a person has approved the change.
    ///
    /// The model then knows the new contents. Blocks.
    pub(crate) fn change<T>(
        &self,
        target: &Target,
        known: &ReadState,
        cancelled: &CancellationToken,
        approved: Option<ContentState>,
        change: impl FnOnce(Option<&FileSnapshot>, Freshness) -> Result<(Vec<u8>, T), FileError>,
    ) -> Result<ChangeOutcome<T>, FileError> {
        self.locks.hold(target.real_path(), || {
            let current = FileSnapshot::read(target)?;
            if approved.is_some_and(|approved| approved != content_state(current.as_ref())) {
                return Err(FileError::NotAsApproved(target.path().to_owned()));
            }
            let (bytes, answer) = changed(target, known, cancelled, current.as_ref(), change)?;
            let before = current.map(|current| current.fingerprint.version);
            let WrittenFile { version, in_place } = self.put(target, &bytes, before)?;
            let fingerprint = Fingerprint::from_bytes(version, &bytes);
            let content = (bytes.len() <= MAX_KEPT_BYTES).then(|| bytes.into());
            known.wrote(target.real_path(), fingerprint, content);
            Ok(ChangeOutcome { answer, in_place })
        })
    }

    /// Computes what [`Self::change`] would write now, and writes nothing. Returns the state of
    /// the contents that it was computed from. Blocks.
    pub(crate) fn preview<T>(
        &self,
        target: &Target,
        known: &ReadState,
        cancelled: &CancellationToken,
        change: impl FnOnce(Option<&FileSnapshot>, Freshness) -> Result<(Vec<u8>, T), FileError>,
    ) -> Result<(ContentState, Result<T, FileError>), FileError> {
        self.locks.hold(target.real_path(), || {
            let current = FileSnapshot::read(target)?;
            let previewed = changed(target, known, cancelled, current.as_ref(), change);
            Ok((content_state(current.as_ref()), previewed.map(|(_, answer)| answer)))
        })
    }
}

/// The new bytes of a file, and the answer, if the model knows the file well enough to change
/// it.
fn changed<T>(
    target: &Target,
    known: &ReadState,
    cancelled: &CancellationToken,
    current: Option<&FileSnapshot>,
    change: impl FnOnce(Option<&FileSnapshot>, Freshness) -> Result<(Vec<u8>, T), FileError>,
) -> Result<(Vec<u8>, T), FileError> {
    let freshness = known.freshness(target, current)?;
    let changed = change(current, freshness);
    if cancelled.is_cancelled() {
        return Err(FileError::Cancelled);
    }
    let (bytes, answer) = changed?;
    if bytes.len() > MAX_EDITED_BYTES {
        return Err(FileError::Grown(target.path().to_owned()));
    }
    Ok((bytes, answer))
}

fn content_state(current: Option<&FileSnapshot>) -> ContentState {
    // A snapshot is always of the whole file, so it has a hash.
    let hash = current
        .map(|current| current.fingerprint.hash.unwrap_or_else(|| blake3::hash(&current.bytes)));
    hash.map_or(ContentState::Missing, ContentState::Hash)
}

impl Files {
    /// Writes the bytes. A new file is tried again if its directory vanishes: another call may
    /// have created it, failed to write its own file, and removed it again.
    fn put(
        &self,
        target: &Target,
        bytes: &[u8],
        before: Option<FileVersion>,
    ) -> Result<WrittenFile, FileError> {
        let mut attempts = 1;
        loop {
            match target.replace(bytes, before, &self.temporary) {
                Err(ReplaceError::Io(error))
                    if error.kind() == io::ErrorKind::NotFound
                        && before.is_none()
                        && attempts < MAX_ATTEMPTS =>
                {
                    attempts += 1;
                }
                replaced => return replaced.map_err(|error| not_replaced(target, error)),
            }
        }
    }
}

fn not_replaced(target: &Target, error: ReplaceError) -> FileError {
    let path = target.path().to_owned();
    match error {
        ReplaceError::Changed => FileError::Modified(path),
        ReplaceError::Io(source) => FileError::Io { action: "write", path, source },
    }
}

impl FileSnapshot {
    /// `None` if the file does not exist.
    pub(crate) fn read(target: &Target) -> Result<Option<Self>, FileError> {
        let failed =
            |source| FileError::Io { action: "read", path: target.path().to_owned(), source };
        let file = match target.open_file() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let metadata = file.metadata().map_err(failed)?;
        let before = FileVersion::from_metadata(&metadata);
        // Reading one byte past the limit tells whether the file is larger.
        let limit = u64::try_from(MAX_EDITED_BYTES + 1).unwrap_or(u64::MAX);
        // As much as the file seems to need. A buffer that grows is copied, and takes twice that.
        let expected = usize::try_from(metadata.len().min(limit - 1)).unwrap_or(0);
        let mut bytes = Vec::with_capacity(expected + 1);
        (&file).take(limit).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > MAX_EDITED_BYTES {
            return Err(FileError::TooLarge(target.path().to_owned()));
        }
        // Someone wrote the file while it was read, so the bytes may mix two states.
        if FileVersion::from_metadata(&file.metadata().map_err(failed)?) != before {
            return Err(FileError::Modified(target.path().to_owned()));
        }
        let fingerprint = Fingerprint::from_bytes(before, &bytes);
        Ok(Some(Self { bytes, fingerprint }))
    }
}

impl ReadState {
    fn freshness(
        &self,
        target: &Target,
        current: Option<&FileSnapshot>,
    ) -> Result<Freshness, FileError> {
        let Some(current) = current else { return Ok(Freshness::New) };
        match self.knows(target.real_path(), &current.fingerprint) {
            None => Err(FileError::Unread(target.path().to_owned())),
            Some(true) => Ok(Freshness::Known),
            Some(false) => Ok(Freshness::Changed),
        }
    }

    /// The error for a file that does not exist: gone if the model has seen it, else missing.
    pub(crate) fn missing(&self, path: &Path, real: &Path) -> FileError {
        if self.has_seen(real) {
            FileError::Gone(path.to_owned())
        } else {
            FileError::Missing(path.to_owned())
        }
    }
}
