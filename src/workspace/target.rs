//! Holds a resolved path as open handles, and opens the file or directory it leads to.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, openat, statat};
use rustix::io::Errno;

use super::directory::Directory;
use super::handles::{
    READ, duplicate, expect_regular, not_regular, open_directory, open_entry, regular,
};

/// A file or directory beneath a root. It is resolved once, and need not exist yet.
#[derive(Debug)]
pub(crate) struct Target {
    /// The requested path, absolute and without `.` and `..`.
    path: PathBuf,
    /// The same path with every link resolved.
    real: PathBuf,
    place: TargetLocation,
    root: HoldingRoot,
    names: OnceLock<u64>,
    name_match: Option<Box<NameMatch>>,
}

/// How the name of a target and another one that looks the same have to do with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameMatch {
    /// The target was asked for by this path, which does not exist.
    GivenAs(PathBuf),
    /// The target does not exist, and this path does.
    Beside(PathBuf),
}

/// The root that a target lies beneath.
#[derive(Clone, Debug)]
pub(super) struct HoldingRoot {
    pub(super) real: PathBuf,
    pub(super) handle: Arc<OwnedFd>,
}

/// The location of a target, as open handles. Renaming and relinking cannot redirect them.
#[derive(Debug)]
pub(super) enum TargetLocation {
    Root(Arc<OwnedFd>),
    Entry {
        directory: OwnedFd,
        name: OsString,
        handle: OwnedFd,
    },
    /// `directory` is the nearest directory that exists. `below` holds the names of the
    /// missing directories, then the target's own name.
    Missing {
        directory: OwnedFd,
        below: Vec<OsString>,
        /// Whether only we may read the file that is made there.
        is_private: bool,
    },
}

impl Target {
    pub(super) fn new(
        path: &Path,
        real: PathBuf,
        place: TargetLocation,
        root: HoldingRoot,
    ) -> Self {
        Self { path: path.to_owned(), real, place, root, names: OnceLock::new(), name_match: None }
    }

    /// The same target, with what its name has to do with one that looks the same.
    pub(crate) fn with_name_match(self, name_match: NameMatch) -> Self {
        Self { name_match: Some(Box::new(name_match)), ..self }
    }

    /// What its name has to do with another one that looks the same.
    pub(crate) fn name_match(&self) -> Option<&NameMatch> {
        self.name_match.as_deref()
    }

    pub(super) fn root(path: &Path, root: HoldingRoot) -> Self {
        let place = TargetLocation::Root(Arc::clone(&root.handle));
        Self::new(path, root.real.clone(), place, root)
    }

    /// The entry `name` of an open directory, which was judged by other means than a root.
    /// `path` is that of the entry.
    pub(crate) fn in_directory(path: &Path, directory: OwnedFd) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::NOENT.into());
        };
        let handle = open_entry(&directory, name)?;
        let root =
            HoldingRoot { real: parent.to_owned(), handle: Arc::new(duplicate(&directory)?) };
        let place = TargetLocation::Entry { directory, name: name.to_owned(), handle };
        Ok(Self::new(path, path.to_owned(), place, root))
    }

    /// The name of an open directory, which was judged by other means than a root, that no entry
    /// has yet. Only we may read the file that gets it.
    pub(crate) fn missing_in_directory(path: &Path, directory: OwnedFd) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::NOENT.into());
        };
        let handle = Arc::new(duplicate(&directory)?);
        let root = HoldingRoot { real: parent.to_owned(), handle };
        let below = vec![name.to_owned()];
        let place = TargetLocation::Missing { directory, below, is_private: true };
        Ok(Self::new(path, path.to_owned(), place, root))
    }

    /// The same target beneath a root of its own: the directory that holds it, or itself. So a
    /// search does not look for ignore files above it.
    pub(super) fn apart_from_roots(self) -> Result<Self, Errno> {
        let is_directory = self.metadata().is_ok_and(|metadata| metadata.is_dir());
        let (real, handle) = match self.entry().filter(|_| is_directory) {
            Some(itself) => (self.real.as_path(), itself),
            None => (self.real.parent().unwrap_or(&self.real), self.directory()),
        };
        let (real, handle) = (real.to_owned(), Arc::new(duplicate(handle)?));
        Ok(Self { root: HoldingRoot { real, handle }, ..self })
    }

    pub(super) fn place(&self) -> &TargetLocation {
        &self.place
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path with every link resolved. A target that does not exist yet has one too.
    pub(crate) fn real_path(&self) -> &Path {
        &self.real
    }

    /// Whether the target did not exist when the path was resolved.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.place, TargetLocation::Missing { .. })
    }

    /// Whether only we may read the file that is made here.
    pub(super) fn is_private(&self) -> bool {
        matches!(self.place, TargetLocation::Missing { is_private: true, .. })
    }

    /// The metadata of the file or directory that was resolved, even if another one has
    /// taken its name since.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        File::from(self.handle()?.try_clone_to_owned()?).metadata()
    }

    /// The number of hard links of the file, when this was asked first: by whoever judged it. A
    /// directory counts as one, since its link count is the number of its subdirectories.
    pub(crate) fn names(&self) -> u64 {
        *self.names.get_or_init(|| {
            let count = |metadata: Metadata| if metadata.is_file() { metadata.nlink() } else { 1 };
            self.metadata().map_or(0, count)
        })
    }

    /// Opens the file that has the resolved name now. Refuses a link that took the name
    /// since then, and never blocks on a named pipe.
    pub(crate) fn open_file(&self) -> io::Result<File> {
        if matches!(self.place, TargetLocation::Root(_)) {
            return Err(not_regular(FileType::Directory));
        }
        let (directory, name) = self.leaf(open_directory)?;
        // Ask for the kind before opening: opening a device can have an effect.
        let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        expect_regular(FileType::from_raw_mode(stat.st_mode))?;
        // Another file may take the name between the two calls, so `regular` asks again.
        regular(openat(&directory, name, READ, Mode::empty())?)
    }

    /// Opens the file that was resolved, and so judged, even if another one has taken its name
    /// since: that one may be one that nobody may see.
    pub(crate) fn open_resolved_file(&self) -> io::Result<File> {
        let handle = self.handle()?;
        expect_regular(FileType::from_raw_mode(fstat(handle)?.st_mode))?;
        // The kernel's name of what the handle stands for is a link.
        let itself = format!("/proc/self/fd/{}", handle.as_raw_fd());
        Ok(File::from(open(itself, READ - OFlags::NOFOLLOW, Mode::empty())?))
    }

    /// Opens the resolved directory for walking.
    pub(crate) fn open_directory(&self) -> io::Result<Directory> {
        Directory::again(self.handle()?)
    }

    /// Opens the root that holds the target, and returns its path as well.
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

    /// The directory that holds the target, or the nearest one above that exists.
    pub(super) fn directory(&self) -> &OwnedFd {
        match &self.place {
            TargetLocation::Root(handle) => handle,
            TargetLocation::Entry { directory, .. } | TargetLocation::Missing { directory, .. } => {
                directory
            }
        }
    }

    /// The file or directory itself, if it exists.
    pub(super) fn entry(&self) -> Option<&OwnedFd> {
        match &self.place {
            TargetLocation::Root(handle) => Some(handle),
            TargetLocation::Entry { handle, .. } => Some(handle),
            TargetLocation::Missing { .. } => None,
        }
    }

    /// The directory that holds the target, and the target's name in it. `enter` opens each
    /// directory that was missing when the path was resolved.
    pub(super) fn leaf(
        &self,
        mut enter: impl FnMut(&OwnedFd, &OsStr) -> Result<OwnedFd, Errno>,
    ) -> io::Result<(OwnedFd, &OsStr)> {
        match &self.place {
            TargetLocation::Root(_) => Err(not_regular(FileType::Directory)),
            TargetLocation::Entry { directory, name, .. } => Ok((duplicate(directory)?, name)),
            TargetLocation::Missing { directory, below, .. } => {
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
