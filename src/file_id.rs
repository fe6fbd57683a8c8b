//! Tells one file from another, and one state of a file from another, without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

/// Which file or directory this is, whatever its names: the same for all its hard links and
/// mounts, and the same after it was written. Once it is removed and no handle on it is open, another
/// one may be given its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileId {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    pub(crate) fn from_stat(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// Which file this is, and in which state. Writing the file or changing its attributes makes
/// another version, except within one tick of the file system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileVersion {
    id: FileId,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            id: FileId::from_metadata(metadata),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    #[expect(clippy::useless_conversion, reason = "the types differ among architectures")]
    pub(crate) fn from_stat(stat: &Stat) -> Self {
        let time =
            |seconds, nanoseconds| (i64::from(seconds), i64::try_from(nanoseconds).unwrap_or(0));
        Self {
            id: FileId::from_stat(stat),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            changed: time(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Which file this is, in whatever state.
    #[cfg(feature = "lsp")]
    pub(crate) fn file(&self) -> FileId {
        self.id
    }

    /// When the file or its attributes changed last, in milliseconds since 1970.
    pub(crate) fn changed_ms(&self) -> i64 {
        let (seconds, nanoseconds) = self.changed;
        seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
    }

    /// Whether the last change is so long ago that another one shows as another version.
    pub(crate) fn has_settled(&self, after_ms: i64, now_ms: i64) -> bool {
        self.changed_ms().saturating_add(after_ms) <= now_ms
    }
}
