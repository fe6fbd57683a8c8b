//! Names a directory so that another one in its place is not taken for it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// A directory by its path with every link resolved, and by what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredDirectory", into = "StoredDirectory")]
pub(crate) struct BoundDirectory {
    pub(crate) path: PathBuf,
    pub(crate) id: DirectoryId,
}

/// Tells a directory from another one that is put in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryId {
    device: u64,
    inode: u64,
    /// When it was made, if the file system knows: the number of an inode that was removed is
    /// given to a new one.
    born: Option<String>,
}

/// A directory as it is written. TOML's numbers are too small for those of some file systems.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredDirectory {
    path: PathBuf,
    device: String,
    inode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    born: Option<String>,
}

impl DirectoryId {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        let born = metadata.created().ok();
        let born = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born = born.map(|born| format!("{}.{:09}", born.as_secs(), born.subsec_nanos()));
        Self { device: metadata.dev(), inode: metadata.ino(), born }
    }

    /// Whether `found` is the directory that was bound.
    pub(crate) fn is(&self, found: &Self) -> bool {
        let is_as_old = self.born.is_none() || self.born == found.born;
        self.device == found.device && self.inode == found.inode && is_as_old
    }
}

impl BoundDirectory {
    /// Whether the directory that was `opened` at its path is the one that was bound, and still
    /// is there. One that was swapped is not, whether the server has opened the old one or the
    /// new one.
    pub(crate) fn is(
        &self,
        opened: &DirectoryId,
        there_now: impl FnOnce() -> Option<DirectoryId>,
    ) -> bool {
        let is_there = || there_now().is_some_and(|now| self.id.is(&now));
        self.id.is(opened) && is_there()
    }
}

/// What is at the path now. Follows no link.
pub(crate) fn directory_there(path: &Path) -> Option<DirectoryId> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some(DirectoryId::from_metadata(&metadata))
}

impl From<BoundDirectory> for StoredDirectory {
    fn from(BoundDirectory { path, id }: BoundDirectory) -> Self {
        let DirectoryId { device, inode, born } = id;
        Self { path, device: device.to_string(), inode: inode.to_string(), born }
    }
}

impl TryFrom<StoredDirectory> for BoundDirectory {
    type Error = String;

    fn try_from(stored: StoredDirectory) -> Result<Self, String> {
        let StoredDirectory { path, device, inode, born } = stored;
        let number = |name: &str, text: &str| {
            let shown = path.display();
            text.parse().map_err(|_| format!("{shown}: {name} is no number: {text:?}"))
        };
        let (device, inode) = (number("device", &device)?, number("inode", &inode)?);
        if !path.is_absolute() {
            return Err(format!("{} is no absolute path", path.display()));
        }
        Ok(Self { path, id: DirectoryId { device, inode, born } })
    }
}
