//! Tells one file from another, without reading it.

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
