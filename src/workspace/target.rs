//! A file or directory beneath a root, and what can be done with it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat};
use rustix::io::Errno;

/// A file or directory beneath a root, resolved once; it need not exist yet.
#[derive(Debug)]
pub(crate) struct Target {
    /// As it was asked for: absolute, `.` and `..` removed.
    path: PathBuf,
    /// With every link resolved.
    real: PathBuf,
    place: Place,
}

/// Where a target is, as handles that no later change of names can redirect.
#[derive(Debug)]
pub(super) enum Place {
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
    pub(super) fn new(path: &Path, real: PathBuf, place: Place) -> Self {
        Self { path: path.to_owned(), real, place }
    }

    pub(super) fn root(path: &Path, real: &Path, handle: &Arc<OwnedFd>) -> Self {
        Self::new(path, real.to_owned(), Place::Root(Arc::clone(handle)))
    }

    pub(super) fn place(&self) -> &Place {
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
        matches!(self.place, Place::Missing { .. })
    }

    /// Of what was there when the path was resolved.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        File::from(self.handle()?.try_clone_to_owned()?).metadata()
    }

    /// Opens the file for reading, never blocking; a link swapped in since is refused.
    /// What is opened is the file that has the resolved name now.
    pub(crate) fn open_file(&self) -> io::Result<File> {
        if matches!(self.place, Place::Root(_)) {
            return Err(not_regular(FileType::Directory));
        }
        let (directory, name) = self.leaf(open_directory)?;
        // Asked first, for opening some devices is an act already.
        let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        expect_regular(FileType::from_raw_mode(stat.st_mode))?;
        regular(openat(&directory, name, READ, Mode::empty())?)
    }

    /// Opens a file below this directory, following no link. An empty path is the
    /// target itself.
    pub(crate) fn open_beneath(&self, relative: &Path) -> io::Result<File> {
        if relative.as_os_str().is_empty() {
            return self.open_file();
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match openat2(self.handle()?, relative, READ, Mode::empty(), resolve) {
            // A kernel without it, or a container that forbids it.
            Err(Errno::NOSYS | Errno::PERM) => self.open_step_by_step(relative),
            opened => regular(opened?),
        }
    }

    fn open_step_by_step(&self, relative: &Path) -> io::Result<File> {
        let mut directory = self.handle()?.try_clone_to_owned()?;
        for part in relative.parent().unwrap_or(Path::new("")).components() {
            let Component::Normal(name) = part else { return Err(Errno::XDEV.into()) };
            directory = open_directory(&directory, name)?;
        }
        let name = relative.file_name().ok_or(Errno::XDEV)?;
        regular(openat(&directory, name, READ, Mode::empty())?)
    }

    fn handle(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.place {
            Place::Root(handle) => Ok(handle.as_fd()),
            Place::Entry { handle, .. } => Ok(handle.as_fd()),
            Place::Missing { .. } => Err(Errno::NOENT.into()),
        }
    }

    /// The directory the target is in, and its name there. `enter` opens each directory
    /// that was not there when the path was resolved.
    pub(super) fn leaf(
        &self,
        mut enter: impl FnMut(&OwnedFd, &OsStr) -> Result<OwnedFd, Errno>,
    ) -> io::Result<(OwnedFd, &OsStr)> {
        match &self.place {
            Place::Root(_) => Err(not_regular(FileType::Directory)),
            Place::Entry { directory, name, .. } => Ok((duplicate(directory)?, name)),
            Place::Missing { directory, below } => {
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

const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// A handle to whatever has that name, a link itself included.
pub(super) fn open_entry(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

pub(super) fn duplicate(handle: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(handle, 0)
}

pub(super) fn open_directory(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty())
}

fn regular(opened: OwnedFd) -> io::Result<File> {
    expect_regular(FileType::from_raw_mode(fstat(&opened)?.st_mode))?;
    Ok(File::from(opened))
}

pub(super) fn expect_regular(kind: FileType) -> io::Result<()> {
    if kind == FileType::RegularFile { Ok(()) } else { Err(not_regular(kind)) }
}

fn not_regular(kind: FileType) -> io::Error {
    let what = match kind {
        FileType::Directory => "a directory",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink => "a link that was put there just now",
        FileType::RegularFile | FileType::Unknown => "something else",
    };
    let class = match kind {
        FileType::Directory => io::ErrorKind::IsADirectory,
        _ => io::ErrorKind::InvalidInput,
    };
    io::Error::new(class, format!("not a regular file but {what}"))
}
