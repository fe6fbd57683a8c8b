//! Opens a file that a walk has found, and reads its time, unless the file is hidden.

use std::ffi::CStr;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::FileType;

use crate::permissions::HiddenFiles;
use crate::tools::walk::io_errors::is_gone;
use crate::workspace::{Directory, OpenFile};

/// Why a walk leaves out an entry that it shows to its visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// An ignore file says so.
    Ignored,
    /// It is a directory of a version control system.
    VersionControl,
    /// It is a link, which may lead to a directory, or to a file that the filter wants or not.
    Link { is_wanted_as_file: bool },
}

/// A file or directory that the walk has found.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// The full path, with every link resolved.
    pub(crate) path: &'a Path,
    /// The path below the searched directory.
    pub(crate) relative: &'a Path,
    pub(crate) is_directory: bool,
    /// Why the walk does not look into it. `None` where it does.
    pub(crate) left_out: Option<LeftOut>,
    pub(super) directory: &'a Directory,
    pub(super) name: &'a CStr,
    pub(super) excluded: &'a HiddenFiles,
}

impl Entry<'_> {
    /// Whether the contents of the file are not searched, because it may hold secrets.
    pub(crate) fn keeps_secret(&self) -> bool {
        self.excluded.keeps_secret(self.path)
    }

    /// Opens the file for reading. `None` if it has vanished, or is a hard link to a hidden
    /// file.
    pub(crate) fn open_file(&self) -> io::Result<Option<OpenFile>> {
        let opened = match self.directory.open_file(self.name) {
            Ok(opened) => opened,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok((!self.excluded.has(opened.id)).then_some(opened))
    }

    /// The time of the last modification. `None` as in [`Entry::open_file`].
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        let (id, stat) = self.directory.stat(self.name).ok()?;
        if self.excluded.has(id) || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return None;
        }
        let nanos = Duration::from_nanos(stat.st_mtime_nsec);
        let seconds = Duration::from_secs(stat.st_mtime.unsigned_abs());
        let epoch = SystemTime::UNIX_EPOCH;
        let whole =
            if stat.st_mtime < 0 { epoch.checked_sub(seconds) } else { epoch.checked_add(seconds) };
        whole?.checked_add(nanos)
    }
}
