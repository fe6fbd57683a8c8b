//! Tracks which files the model has read, and writes files whole or not at all.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use self::locks::Locks;
pub(crate) use self::read_state::{Fingerprint, ReadState};
use crate::workspace::{Identity, ReplaceError, Target, TempFiles};

pub(crate) mod encoding;
pub(crate) mod line_ends;
mod locks;
pub(crate) mod page;
pub(crate) mod patch;
mod read_state;

/// The largest file that can be edited. An edit holds a few copies of the file in memory.
pub(crate) const MAX_EDITED_BYTES: usize = 64 << 20;

/// Attempts to write a new file while other calls remove its directory.
const MAX_ATTEMPTS: usize = 10;

/// Changes files, one change per file at a time. The whole server shares one.
#[derive(Debug, Default)]
pub(crate) struct Files {
    locks: Locks,
    temp_files: TempFiles,
}

/// The contents of a file, and the state they were read in.
#[derive(Debug)]
pub(crate) struct FileSnapshot {
    pub(crate) bytes: Vec<u8>,
    pub(crate) fingerprint: Fingerprint,
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
    pub(crate) fn new(temp_files: TempFiles) -> Self {
        Self { locks: Locks::default(), temp_files }
    }

    /// Passes the current contents of the target to `change`, and replaces them with the bytes
    /// that it returns. Holds the lock of the file meanwhile, so that calls of this server do
    /// not overlap. If another program changes the file meanwhile, nothing is written.
    ///
    /// The model then knows the new contents. Blocks.
    pub(crate) fn change<T>(
        &self,
        target: &Target,
        known: &ReadState,
        cancelled: &CancellationToken,
        change: impl FnOnce(Option<&FileSnapshot>, Freshness) -> Result<(Vec<u8>, T), FileError>,
    ) -> Result<T, FileError> {
        self.locks.hold(target.real_path(), || {
            let current = FileSnapshot::read(target)?;
            let freshness = known.freshness(target, current.as_ref())?;
            let changed = change(current.as_ref(), freshness);
            if cancelled.is_cancelled() {
                return Err(FileError::Cancelled);
            }
            let (bytes, answer) = changed?;
            if bytes.len() > MAX_EDITED_BYTES {
                return Err(FileError::Grown(target.path().to_owned()));
            }
            let before = current.map(|current| current.fingerprint.identity);
            let identity = self.put(target, &bytes, before)?;
            known.wrote(target.real_path(), Fingerprint::from_bytes(identity, &bytes));
            Ok(answer)
        })
    }
}

impl Files {
    /// Writes the bytes. A new file is tried again if its directory vanishes: another call may
    /// have created it, failed to write its own file, and removed it again.
    fn put(
        &self,
        target: &Target,
        bytes: &[u8],
        before: Option<Identity>,
    ) -> Result<Identity, FileError> {
        let mut attempts = 1;
        loop {
            match target.replace(bytes, before, &self.temp_files) {
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
    fn read(target: &Target) -> Result<Option<Self>, FileError> {
        let failed =
            |source| FileError::Io { action: "read", path: target.path().to_owned(), source };
        let file = match target.open_file() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let before = Identity::from_metadata(&file.metadata().map_err(failed)?);
        let mut bytes = Vec::new();
        // Reading one byte past the limit tells whether the file is larger.
        let limit = u64::try_from(MAX_EDITED_BYTES + 1).unwrap_or(u64::MAX);
        (&file).take(limit).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > MAX_EDITED_BYTES {
            return Err(FileError::TooLarge(target.path().to_owned()));
        }
        // Someone wrote the file while it was read, so the bytes may mix two states.
        if Identity::from_metadata(&file.metadata().map_err(failed)?) != before {
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
