//! Tells a running server whether its workspace is trusted now.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::OFlags;

use super::file::{self, DirectoryId, TrustedDirectory};
use crate::live_file::{FileContents, FileSource, LiveFile};
use crate::named_file::ours;
use crate::ownership::Ownership;
use crate::sync;
use crate::workspace::FileVersion;

/// Whether a workspace is trusted, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrustState {
    Trusted,
    Untrusted,
    /// The operator trusted another directory that was at its path, or it is not there any more.
    Replaced,
    /// The list cannot be read. The reason follows the name of the file.
    Unreadable(String),
}

/// The list of a state directory, read again when it has changed.
#[derive(Debug)]
pub(crate) struct LiveTrust {
    source: Source,
    list: Mutex<LiveFile<TrustedList>>,
}

type TrustedList = Result<Arc<[TrustedDirectory]>, String>;

#[derive(Debug)]
struct Source {
    state_dir: PathBuf,
}

impl LiveTrust {
    pub(crate) fn new(state_dir: &Path) -> Self {
        let source = Source { state_dir: state_dir.to_owned() };
        Self { source, list: Mutex::new(LiveFile::new(Ok(Arc::default()))) }
    }

    /// The file with the list.
    pub(crate) fn path(&self) -> PathBuf {
        self.source.path()
    }

    /// Whether the directory at `path`, with every link resolved, that was `opened` is trusted.
    /// Blocks.
    pub(crate) fn state(&self, path: &Path, opened: &DirectoryId) -> TrustState {
        let mut list = sync::lock(&self.list);
        let list = list.current(&self.source, file::MAX_BYTES, |contents, _| self.read(contents));
        let there_now = || {
            let metadata = fs::symlink_metadata(path).ok()?;
            Some(DirectoryId::from_metadata(&metadata))
        };
        match list {
            Ok(list) => state_in(list, path, opened, there_now),
            Err(reason) => TrustState::Unreadable(reason.clone()),
        }
    }

    fn read(&self, contents: FileContents) -> TrustedList {
        let parsed = match contents {
            FileContents::Missing => return Ok(Arc::default()),
            FileContents::Text(text) => file::parse(&text),
            FileContents::Unreadable(reason) => Err(file::with_remedy(&reason)),
        };
        match &parsed {
            Ok(list) => tracing::info!(directories = list.len(), "read the trusted directories"),
            Err(reason) => tracing::warn!(path = %self.path().display(), %reason, "no trust"),
        }
        parsed.map(Into::into)
    }
}

/// A directory that was swapped is not the trusted one, whether the server has opened the old one
/// or the new one.
pub(crate) fn state_in(
    list: &[TrustedDirectory],
    path: &Path,
    opened: &DirectoryId,
    there_now: impl FnOnce() -> Option<DirectoryId>,
) -> TrustState {
    let Some(trusted) = list.iter().find(|trusted| trusted.path == path) else {
        return TrustState::Untrusted;
    };
    let is_there = || there_now().is_some_and(|now| trusted.id.is(&now));
    if trusted.id.is(opened) && is_there() { TrustState::Trusted } else { TrustState::Replaced }
}

impl Source {
    fn path(&self) -> PathBuf {
        self.state_dir.join(file::NAME)
    }
}

impl FileSource for Source {
    fn version(&self) -> io::Result<FileVersion> {
        let metadata = fs::symlink_metadata(self.path())?;
        Ok(FileVersion::from_metadata(&metadata))
    }

    fn open(&self) -> Result<File, String> {
        let directory = ours::open_ours(&self.state_dir)?;
        ours::open_in(&directory, file::NAME, OFlags::RDONLY).map_err(|error| error.to_string())
    }

    fn check(&self, metadata: &Metadata) -> Result<(), String> {
        let ownership = Ownership::from_metadata(metadata);
        ownership.expect_ours()?;
        ownership.refuse_other_readers("chmod 600 it")
    }
}
