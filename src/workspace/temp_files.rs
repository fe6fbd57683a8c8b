//! Keeps a note of each temporary file, so that the next start removes the files that a
//! killed server left, and of each file that is written in place.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat, statat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use uuid::Uuid;

use super::handles::open_without_links;
use super::kept_contents::{self, Entry, FileInPlace, KeptContents, LeftRecord};
use crate::file_id::FileId;
use crate::ownership::Ownership;
use crate::sync;

/// Locks for the files that are written in place. Files share them by their inode.
const LOCKS: usize = 16;

const SUFFIX: &str = ".tmp";

/// The directory of the notes. By default there is none. A note is a symbolic link to the
/// temporary file and has the same name: one system call creates it whole. Beside them stand the
/// old contents of files that are being written in place.
#[derive(Debug, Default)]
pub(crate) struct TempFiles {
    notes: Option<PathBuf>,
    in_place: [Mutex<()>; LOCKS],
    /// The records of files that this server left half written.
    left: Mutex<Vec<(FileId, LeftRecord)>>,
}

/// Removes its note when it is dropped.
pub(super) struct TempFileNote {
    notes: OwnedFd,
    name: String,
}

impl TempFiles {
    /// Keeps notes in `directory`, which [`Self::sweep`] creates.
    pub(crate) fn noted_in(directory: PathBuf) -> Self {
        Self { notes: Some(directory), ..Self::default() }
    }

    /// Removes all noted files and their notes, and puts back the contents of files that were
    /// half written in place. The server that wrote the notes must have ended. Continues after a
    /// failure, and returns the last error.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        let Some(path) = &self.notes else { return Ok(()) };
        match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let notes = open_notes(path)?;
        let mut outcome = Ok(());
        for entry in Dir::read_from(&notes)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                outcome = sweep_entry(&notes, path, name).and(outcome);
            }
        }
        outcome
    }

    /// Notes a temporary file. `None` if that fails (no directory, a full disk): the file can
    /// be written nevertheless.
    pub(super) fn note(&self, directory: &Path, name: &str) -> Option<TempFileNote> {
        let notes = open_notes(self.notes.as_ref()?).ok()?;
        symlinkat(directory.join(name), &notes, name).ok()?;
        Some(TempFileNote { notes, name: name.to_owned() })
    }

    /// Keeps the contents of a file that is about to be written in place, until it is written.
    pub(super) fn keep<'a>(&self, it: FileInPlace<'a>) -> io::Result<KeptContents<'a>> {
        let notes = self.notes.as_ref().ok_or_else(|| io::Error::other("there is no directory"))?;
        KeptContents::keep(open_notes(notes)?, it)
    }

    /// Waits until no other call of this server writes the file in place, by whatever path.
    pub(super) fn lock_in_place(&self, file: FileId) -> MutexGuard<'_, ()> {
        let number = usize::try_from(file.inode % LOCKS as u64).unwrap_or(0);
        sync::lock(&self.in_place[number])
    }

    /// Leaves the record of a half written file for the next start.
    pub(super) fn leave(&self, file: FileId, record: LeftRecord) {
        sync::lock(&self.left).push((file, record));
    }

    /// The file was written: what was left of it before is of no use to the next start.
    pub(super) fn forget_left(&self, file: FileId) {
        let mut left = sync::lock(&self.left);
        for (_, record) in left.extract_if(.., |(of, _)| *of == file) {
            record.discard();
        }
    }

    /// The directory of old contents that could not be put back, and how many there are.
    pub(crate) fn kept_aside(&self) -> Option<(PathBuf, usize)> {
        let kept = self.notes.as_ref()?.join(kept_contents::KEPT);
        let count = std::fs::read_dir(&kept).ok()?.count();
        (0 < count).then_some((kept, count))
    }
}

impl Drop for TempFileNote {
    fn drop(&mut self) {
        _ = unlinkat(&self.notes, &self.name, AtFlags::empty());
    }
}

/// A name that is in use nowhere.
pub(super) fn random_name() -> String {
    format!("{}{}{SUFFIX}", kept_contents::PREFIX, Uuid::new_v4().simple())
}

/// Opens the directory of notes. Refuses a link in its place, and a directory in which other
/// users can write: the sweep deletes what the notes name.
fn open_notes(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let notes = openat(CWD, path, flags, Mode::empty())
        .map_err(|error| about(path, &io::Error::from(error).to_string()))?;
    let stat = fstat(&notes)?;
    let ownership = Ownership::new(stat.st_uid, stat.st_mode);
    ownership
        .expect_ours()
        .and_then(|()| ownership.refuse_other_writers("chmod 700 it"))
        .map_err(|reason| about(path, &reason))?;
    Ok(notes)
}

fn about(path: &Path, reason: &str) -> io::Error {
    io::Error::other(format!("{}: {reason}", path.display()))
}

fn our_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn sweep_entry(notes: &OwnedFd, path: &Path, name: &OsStr) -> io::Result<()> {
    match Entry::of(name) {
        Entry::Record { id, direction } => kept_contents::settle(notes, path, &id, direction),
        Entry::Part => ignore_not_found(unlinkat(notes, name, AtFlags::empty())),
        Entry::Kept => Ok(()),
        Entry::Other => sweep_note(notes, name),
    }
}

/// Removes a note and the file it names. Leaves everything that is not a note.
fn sweep_note(notes: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let leads_to = match readlinkat(notes, name, Vec::new()) {
        Ok(leads_to) => leads_to,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::INVAL) => {
            tracing::warn!(?name, "left in the directory of notes: it is no note");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let file = Path::new(OsStr::from_bytes(leads_to.as_bytes()));
    if let Some(directory) = is_temporary(name).then(|| directory_noted(file, name)).flatten() {
        remove_temporary(directory, name)?;
    }
    ignore_not_found(unlinkat(notes, name, AtFlags::empty()))
}

fn is_temporary(name: &OsStr) -> bool {
    kept_contents::id_in(name, SUFFIX).is_some()
}

/// The directory of the noted file, if the note has the form that we write.
fn directory_noted<'f>(file: &'f Path, name: &OsStr) -> Option<&'f Path> {
    (file.is_absolute() && file.file_name()? == name).then_some(file.parent()?)
}

fn remove_temporary(directory: &Path, name: &OsStr) -> io::Result<()> {
    let directory = match open_without_links(directory) {
        // The directory is gone, or something else has its name.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => return Ok(()),
        directory => directory?,
    };
    match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if is_ours(&stat) => {
            tracing::info!(?name, "removing a file that was never finished");
            ignore_not_found(unlinkat(&directory, name, AtFlags::empty()))
        }
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether we created the file. When we run as root we may have given it to the owner of the
/// file that it was to replace, so then any owner will do.
fn is_ours(stat: &Stat) -> bool {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file && (stat.st_uid == our_user() || our_user() == 0)
}

fn ignore_not_found(removed: Result<(), Errno>) -> io::Result<()> {
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_was_noted_is_removed_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let (work, notes) = (home.path().join("work"), home.path().join("notes"));
        fs::create_dir(&work).unwrap();
        let unfinished = TempFiles::noted_in(notes.clone());
        unfinished.sweep().unwrap();
        let (first, other, done) = (random_name(), random_name(), random_name());
        for name in [&first, &other, &"precious".to_owned()] {
            fs::write(work.join(name), "x").unwrap();
        }
        std::mem::forget(unfinished.note(&work, &first));
        std::mem::forget(unfinished.note(&work, &done));
        drop(unfinished.note(&work, &other));
        // Links that have not the form of our notes.
        symlink(work.join("precious"), notes.join("precious")).unwrap();
        symlink(work.join("precious"), notes.join(random_name())).unwrap();

        unfinished.sweep().unwrap();

        assert!(!work.join(first).exists());
        assert!(work.join(other).exists() && work.join("precious").exists());
        assert_eq!(fs::read_dir(notes).unwrap().count(), 0);
    }
}
