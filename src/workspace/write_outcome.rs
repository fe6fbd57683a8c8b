//! How a file was written, or why it was not.

use std::io;

use rustix::io::Errno;

use crate::file_id::FileVersion;

/// A file that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenFile {
    pub(crate) version: FileVersion,
    /// Set if the file is still the same one, because no other could take its place.
    pub(crate) in_place: Option<WhyInPlace>,
}

/// Why a file was written in place instead of being replaced by a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhyInPlace {
    MountPoint,
    Directory,
    Owner,
    Attributes,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    /// Someone else wrote, created or removed the file meanwhile.
    #[error("the file changed while it was being written")]
    Changed,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for ReplaceError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl WhyInPlace {
    /// The reason, with the file as its subject.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::MountPoint => "it is a mount point",
            Self::Directory => "its directory lets no other file take its place",
            Self::Owner => "it belongs to another user or group",
            Self::Attributes => "a new file would not have its attributes",
        }
    }
}
