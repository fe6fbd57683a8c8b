//! A file or directory beneath a root, and what can be done with it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, openat, statat};
use rustix::io::Errno;

use super::directory::Directory;
use super::handles::{READ, duplicate, expect_regular, not_regular, open_directory, regular};

/// A file or directory beneath a root, resolved once; it need not exist yet.
#[derive(Debug)]
pub(crate) struct Target {
    /// As it was asked for: absolute, `.` and `..` removed.
    path: PathBuf,
    /// With every link resolved.
    real: PathBuf,
    place: TargetLocation,
    root: HoldingRoot,
}

/// The root that a target lies beneath.
#[derive(Clone, Debug)]
pub(super) struct HoldingRoot {
    pub(super) real: PathBuf,
    pub(super) handle: Arc<OwnedFd>,
}

/// Where a target is, as handles that no later change of names can redirect.
#[derive(Debug)]
pub(super) enum TargetLocation {
    Root(Arc<OwnedFd>),
    Entry {
        directory: OwnedFd,
        name: OsString,
        handle: OwnedFd,
    },
    /// `below` are the directories that are not there, and the name itself.
    Missing {
        directory: OwnedFd,
        below: Vec<OsString>,
    },
}

impl Target {
    pub(super) fn new(
        path: &Path,
        real: PathBuf,
        place: TargetLocation,
        root: HoldingRoot,
    ) -> Self {
        Self { path: path.to_owned(), real, place, root }
    }

    pub(super) fn root(path: &Path, root: HoldingRoot) -> Self {
        let place = TargetLocation::Root(Arc::clone(&root.handle));
        Self::new(path, root.real.clone(), place, root)
    }

    pub(super) fn place(&self) -> &TargetLocation {
        &self.place
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path with every link resolved, of a file yet to be made too.
    pub(crate) fn real_path(&self) -> &Path {
        &self.real
    }

    /// Whether there was nothing when the path was resolved.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.place, TargetLocation::Missing { .. })
    }

    /// Of what was there when the path was resolved.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        File::from(self.handle()?.try_clone_to_owned()?).metadata()
    }

    /// Opens the file for reading, never blocking; a link swapped in since is refused.
    /// What is opened is the file that has the resolved name now.
    pub(crate) fn open_file(&self) -> io::Result<File> {
        if matches!(self.place, TargetLocation::Root(_)) {
            return Err(not_regular(FileType::Directory));
        }
        let (directory, name) = self.leaf(open_directory)?;
        // Asked first, for opening some devices is an act already.
        let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        expect_regular(FileType::from_raw_mode(stat.st_mode))?;
        regular(openat(&directory, name, READ, Mode::empty())?)
    }

    /// Opens the directory for walking, from the handle that was resolved.
    pub(crate) fn open_directory(&self) -> io::Result<Directory> {
        Directory::again(self.handle()?)
    }

    /// The root that holds the target: its path, and the directory itself.
    pub(crate) fn open_root(&self) -> io::Result<(&Path, Directory)> {
        Ok((&self.root.real, Directory::again(&self.root.handle)?))
    }

    fn handle(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.place {
            TargetLocation::Root(handle) => Ok(handle.as_fd()),
            TargetLocation::Entry { handle, .. } => Ok(handle.as_fd()),
            TargetLocation::Missing { .. } => Err(Errno::NOENT.into()),
        }
    }

    /// The directory that the target is in, or the nearest one that is there already.
    pub(super) fn directory(&self) -> &OwnedFd {
        match &self.place {
            TargetLocation::Root(handle) => handle,
            TargetLocation::Entry { directory, .. } | TargetLocation::Missing { directory, .. } => {
                directory
            }
        }
    }

    /// The file or directory itself, if it is there.
    pub(super) fn entry(&self) -> Option<&OwnedFd> {
        match &self.place {
            TargetLocation::Root(handle) => Some(handle),
            TargetLocation::Entry { handle, .. } => Some(handle),
            TargetLocation::Missing { .. } => None,
        }
    }

    /// The directory the target is in, and its name there. `enter` opens each directory
    /// that was not there when the path was resolved.
    pub(super) fn leaf(
        &self,
        mut enter: impl FnMut(&OwnedFd, &OsStr) -> Result<OwnedFd, Errno>,
    ) -> io::Result<(OwnedFd, &OsStr)> {
        match &self.place {
            TargetLocation::Root(_) => Err(not_regular(FileType::Directory)),
            TargetLocation::Entry { directory, name, .. } => Ok((duplicate(directory)?, name)),
            TargetLocation::Missing { directory, below } => {
                let mut directory = duplicate(directory)?;
                let (name, missing) = below.split_last().ok_or(Errno::NOENT)?;
                for step in missing {
                    directory = enter(&directory, step)?;
                }
                Ok((directory, name))
            }
        }
    }
}
