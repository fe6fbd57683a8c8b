//! Notes of the temporary files that stand beside a target for a moment, so that
//! those of a server that was killed are removed when it starts again.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, mkdirat, openat, openat2,
    readlinkat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use uuid::Uuid;

use crate::ownership::Ownership;

const PREFIX: &str = ".toolhand-";
const SUFFIX: &str = ".tmp";

/// Where the notes are kept; nowhere by default. A note is a symbolic link to the
/// temporary file, under its name: one call of the kernel makes it whole.
#[derive(Debug, Default)]
pub(crate) struct TempFiles {
    notes: Option<PathBuf>,
}

/// Stands as long as this lives.
pub(super) struct TempFileNote {
    notes: OwnedFd,
    name: String,
}

impl TempFiles {
    /// Noted in a directory that is made by [`Self::sweep`].
    pub(crate) fn noted_in(directory: PathBuf) -> Self {
        Self { notes: Some(directory) }
    }

    /// Removes what stands in the notes. Whoever wrote them must be gone. What cannot be
    /// removed keeps nothing else from it; the last reason is returned.
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
                outcome = sweep_note(&notes, name).and(outcome);
            }
        }
        outcome
    }

    /// Without a note (no directory, a full disk) a file can be written all the same.
    pub(super) fn note(&self, directory: &Path, name: &str) -> Option<TempFileNote> {
        let notes = open_notes(self.notes.as_ref()?).ok()?;
        symlinkat(directory.join(name), &notes, name).ok()?;
        Some(TempFileNote { notes, name: name.to_owned() })
    }
}

impl Drop for TempFileNote {
    fn drop(&mut self) {
        _ = unlinkat(&self.notes, &self.name, AtFlags::empty());
    }
}

/// A name that nobody else has.
pub(super) fn random_name() -> String {
    format!("{PREFIX}{}{SUFFIX}", Uuid::new_v4().simple())
}

/// The directory itself, never what a link in its place leads to, and only if nobody else
/// can have written in it.
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

/// Removes a note, and the file that it speaks of. What is no note stays.
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
    let name = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
    name.is_some_and(|id| Uuid::try_parse(id).is_ok())
}

/// Where the noted file stands, if the note is as we write them.
fn directory_noted<'f>(file: &'f Path, name: &OsStr) -> Option<&'f Path> {
    (file.is_absolute() && file.file_name()? == name).then_some(file.parent()?)
}

fn remove_temporary(directory: &Path, name: &OsStr) -> io::Result<()> {
    let directory = match open_without_links(directory) {
        // It may have been replaced by something else since.
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

/// Root may have given its file to the owner of the one that was to be replaced.
fn is_ours(stat: &Stat) -> bool {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file && (stat.st_uid == our_user() || our_user() == 0)
}

/// A path as we note it holds none.
fn open_without_links(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // A kernel without it, or a container that forbids it.
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
        // Notes that are none of ours.
        symlink(work.join("precious"), notes.join("precious")).unwrap();
        symlink(work.join("precious"), notes.join(random_name())).unwrap();

        unfinished.sweep().unwrap();

        assert!(!work.join(first).exists());
        assert!(work.join(other).exists() && work.join("precious").exists());
        assert_eq!(fs::read_dir(notes).unwrap().count(), 0);
    }
}
