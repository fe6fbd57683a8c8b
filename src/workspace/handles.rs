//! Opens names in an open directory, following no link, and refuses what is not a
//! regular file.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

use crate::file_id::{FileId, FileVersion};

pub(super) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Opens whatever has this name, without following it: a link is opened itself. `PATH` needs
/// no right to read, and opening has no effect on devices and pipes.
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

/// Opens a directory by a path without links. The paths that we note have none.
pub(super) fn open_without_links(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // An old kernel has no `openat2`, and some containers forbid it.
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return opened,
    }
    let open = |at: &OwnedFd, name: &OsStr| {
        openat(at.as_fd(), name, flags | OFlags::NOFOLLOW, Mode::empty())
    };
    let mut directory = openat(CWD, "/", flags, Mode::empty())?;
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => directory = open(&directory, name)?,
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::LOOP),
        }
    }
    Ok(directory)
}

/// The state of what has this name now; `None` if nothing has it.
pub(super) fn version_of(directory: &OwnedFd, name: &OsStr) -> io::Result<Option<FileVersion>> {
    match open_entry(directory, name) {
        Ok(handle) => Ok(Some(FileVersion::from_metadata(&File::from(handle).metadata()?))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A regular file that was opened, and what its status was then.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    pub(crate) id: FileId,
    /// Bytes. Zero as well where the kernel does not know, as for its own files.
    pub(crate) length: u64,
}

impl OpenFile {
    pub(super) fn regular(opened: OwnedFd) -> io::Result<Self> {
        let stat = fstat(&opened)?;
        expect_regular(FileType::from_raw_mode(stat.st_mode))?;
        let length = u64::try_from(stat.st_size).unwrap_or(0);
        Ok(Self { file: File::from(opened), id: FileId::from_stat(&stat), length })
    }
}

pub(super) fn regular(opened: OwnedFd) -> io::Result<File> {
    Ok(OpenFile::regular(opened)?.file)
}

pub(super) fn expect_regular(kind: FileType) -> io::Result<()> {
    if kind == FileType::RegularFile { Ok(()) } else { Err(not_regular(kind)) }
}

pub(super) fn not_regular(kind: FileType) -> io::Error {
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
