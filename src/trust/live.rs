//! Tells a running server whether its workspace is trusted now.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::file::{self, Stored};
use crate::live_file::{FileContents, LiveFile, OwnFile};
use crate::sync;
use crate::workspace::{BoundDirectory, DirectoryId, directory_there};

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
    source: OwnFile,
    list: Mutex<LiveFile<TrustedList>>,
}

type TrustedList = Result<Arc<Stored>, String>;

impl LiveTrust {
    pub(crate) fn new(state_dir: &Path) -> Self {
        let source = OwnFile::new(state_dir, file::NAME);
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
        match list {
            Ok(list) => state_in(&list.trusted, path, opened, || directory_there(path)),
            Err(reason) => TrustState::Unreadable(reason.clone()),
        }
    }

    /// The digest of the `.mcp.json` that was trusted with the directory at `path`. Says nothing
    /// of the directory itself. Blocks.
    pub(crate) fn mcp_file(&self, path: &Path) -> Option<String> {
        let mut list = sync::lock(&self.list);
        let list = list.current(&self.source, file::MAX_BYTES, |contents, _| self.read(contents));
        list.as_ref().ok()?.mcp_json.get(path).cloned()
    }

    fn read(&self, contents: FileContents) -> TrustedList {
        let parsed = match contents {
            FileContents::Missing => return Ok(Arc::default()),
            FileContents::Text(text) => file::parse(&text),
            FileContents::Unreadable(reason) => Err(file::with_remedy(&reason)),
        };
        match &parsed {
            Ok(list) => {
                tracing::info!(directories = list.trusted.len(), "read the trusted directories");
            }
            Err(reason) => tracing::warn!(path = %self.path().display(), %reason, "no trust"),
        }
        parsed.map(Into::into)
    }
}

/// Whether the list trusts the directory that was opened at this path.
fn state_in(
    list: &[BoundDirectory],
    path: &Path,
    opened: &DirectoryId,
    there_now: impl FnOnce() -> Option<DirectoryId>,
) -> TrustState {
    let Some(trusted) = list.iter().find(|trusted| trusted.path == path) else {
        return TrustState::Untrusted;
    };
    if trusted.is(opened, there_now) { TrustState::Trusted } else { TrustState::Replaced }
}
