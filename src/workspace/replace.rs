//! Writes a file whole or not at all.
//!
//! The contents go to a file without a name (`O_TMPFILE`), or to a temporary file where the
//! file system has no such files. When it is complete, it takes the target's name. An
//! existing file is never written in place.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags, fchmod, fchown, fgetxattr,
    fgetxattr_query, flistxattr, flistxattr_query, fsetxattr, fsync, linkat, openat, renameat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::directories::NewDirectories;
use super::handles::{open_directory, open_entry};
use super::target::Target;
use super::temp_files::{TempFileNote, TempFiles, random_name};
use crate::file_id::FileVersion;

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

impl Target {
    /// Replaces the file with `contents`, if it is still in the state `before` (`None`: if it
    /// still does not exist). Creates missing directories. Keeps mode, owner and extended
    /// attributes of the file, except those that grant privileges.
    pub(crate) fn replace(
        &self,
        contents: &[u8],
        before: Option<FileVersion>,
        temp_files: &TempFiles,
    ) -> Result<FileVersion, ReplaceError> {
        let mut new_directories = NewDirectories::default();
        let (directory, name) = match before {
            Some(_) => self.leaf(open_directory)?,
            None => self.leaf_with_parents(&mut new_directories)?,
        };
        let old = before.map(|_| open_for_replacing(&directory, name)).transpose()?;
        let path = self.real_path().parent().unwrap_or(Path::new("/"));
        let is_private = self.is_private();
        let parent = ParentDirectory { directory: &directory, path, temp_files, is_private };

        let put = |new: Result<New<'_>, Errno>| {
            let mut new = new?;
            new.fill(contents, old.as_ref())?;
            if version_of(&directory, name)? != before {
                return Err(ReplaceError::Changed);
            }
            match new.take_name(name, before) {
                Err(Errno::EXIST) => Err(ReplaceError::Changed),
                taken => Ok(taken.map(|()| new.file)?),
            }
        };
        let file = match put(parent.make_nameless(old.as_ref())) {
            // The file system may have no nameless files, or no way to name them.
            Err(ReplaceError::Io(_)) => put(parent.make_named(old.as_ref())),
            file => file,
        }?;
        new_directories.keep();
        // The file is already replaced. Some file systems cannot sync a directory, and we may
        // have no right to read it: neither makes the write a failure.
        let _ = sync_directory(&directory);
        Ok(FileVersion::from_metadata(&file.metadata()?))
    }
}

/// Opens the old file for writing, only to check that we may write it: a rename would work
/// on a read-only file too.
fn open_for_replacing(directory: &OwnedFd, name: &OsStr) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty()).map(File::from)
}

fn version_of(directory: &OwnedFd, name: &OsStr) -> io::Result<Option<FileVersion>> {
    match open_entry(directory, name) {
        Ok(handle) => Ok(Some(FileVersion::from_metadata(&File::from(handle).metadata()?))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn sync_directory(directory: &OwnedFd) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fsync(openat(directory, ".", flags, Mode::empty())?)
}

/// The directory of a new file.
#[derive(Clone, Copy)]
struct ParentDirectory<'a> {
    directory: &'a OwnedFd,
    path: &'a Path,
    temp_files: &'a TempFiles,
    /// Whether only we may read what is made in it.
    is_private: bool,
}

/// A new file. Dropping this removes it, unless it took the target's name.
struct New<'a> {
    file: File,
    name: Option<Temporary<'a>>,
    parent: ParentDirectory<'a>,
}

/// A temporary name in the target's directory. Dropping this removes it.
struct Temporary<'a> {
    parent: ParentDirectory<'a>,
    name: String,
    is_renamed: bool,
    _note: Option<TempFileNote>,
}

/// The mode of a file that is being written. The umask decides for a new file. A replacement
/// is private until it has the mode of the old file, which may be private itself.
fn initial_mode(is_private: bool, old: Option<&File>) -> Mode {
    Mode::from_raw_mode(if is_private || old.is_some() { 0o600 } else { 0o666 })
}

impl<'a> ParentDirectory<'a> {
    /// Creates a file without a name. The kernel removes it if we are killed.
    fn make_nameless(self, old: Option<&File>) -> Result<New<'a>, Errno> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let mode = initial_mode(self.is_private, old);
        let file = File::from(openat(self.directory, ".", flags, mode)?);
        Ok(New { file, name: None, parent: self })
    }

    fn make_named(self, old: Option<&File>) -> Result<New<'a>, Errno> {
        let name = Temporary::new(self);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = initial_mode(self.is_private, old);
        let file = File::from(openat(self.directory, &name.name, flags, mode)?);
        Ok(New { file, name: Some(name), parent: self })
    }
}

impl New<'_> {
    fn fill(&mut self, contents: &[u8], old: Option<&File>) -> io::Result<()> {
        self.file.write_all(contents)?;
        if let Some(old) = old {
            keep_attributes(old, &self.file)?;
        }
        self.file.sync_all()
    }

    /// Gives the file its final name. A link cannot replace an existing file, only a rename
    /// can, so a nameless file first gets a temporary name.
    fn take_name(&mut self, name: &OsStr, before: Option<FileVersion>) -> Result<(), Errno> {
        if self.name.is_none() && before.is_none() {
            return self.link(name);
        }
        let temporary = if let Some(temporary) = self.name.take() {
            temporary
        } else {
            let temporary = Temporary::new(self.parent);
            self.link(temporary.name.as_ref())?;
            temporary
        };
        self.name.insert(temporary).rename_to(name, before)
    }

    fn link(&self, name: &OsStr) -> Result<(), Errno> {
        linkat(CWD, proc_path_of(&self.file), self.parent.directory, name, AtFlags::SYMLINK_FOLLOW)
    }
}

/// The path through which a nameless file can be linked. `AT_EMPTY_PATH` would need a
/// privilege.
fn proc_path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

impl<'a> Temporary<'a> {
    fn new(parent: ParentDirectory<'a>) -> Self {
        let name = random_name();
        let note = parent.temp_files.note(parent.path, &name);
        Self { parent, name, is_renamed: false, _note: note }
    }

    fn rename_to(&mut self, name: &OsStr, before: Option<FileVersion>) -> Result<(), Errno> {
        let directory = self.parent.directory;
        match before {
            Some(_) => renameat(directory, &self.name, directory, name),
            None => self.rename_to_new(name),
        }?;
        self.is_renamed = true;
        Ok(())
    }

    fn rename_to_new(&self, name: &OsStr) -> Result<(), Errno> {
        let (directory, flags) = (self.parent.directory, RenameFlags::NOREPLACE);
        match renameat_with(directory, &self.name, directory, name, flags) {
            // Some file systems do not know the flag. A file that appears at this moment is
            // then replaced.
            Err(Errno::INVAL | Errno::NOSYS) => renameat(directory, &self.name, directory, name),
            renamed => renamed,
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = unlinkat(self.parent.directory, &self.name, AtFlags::empty());
        }
    }
}

/// The bits of the mode that are kept: not setuid and setgid, which the owner granted to the
/// old contents.
const KEPT_MODE: u32 = 0o1777;

/// The attribute of file capabilities, which grant privileges as setuid does.
const CAPABILITIES: &[u8] = b"security.capability";

/// Copies owner, mode and extended attributes. The owner comes first, because changing it
/// clears bits of the mode.
fn keep_attributes(old: &File, new: &File) -> io::Result<()> {
    let (was, is) = (old.metadata()?, new.metadata()?);
    keep_owner(&was, &is, new)?;
    fchmod(new, Mode::from_raw_mode(was.mode() & KEPT_MODE))?;
    keep_extended(old, new)?;
    Ok(())
}

fn keep_owner(was: &Metadata, is: &Metadata, new: &File) -> io::Result<()> {
    if (was.uid(), was.gid()) == (is.uid(), is.gid()) {
        return Ok(());
    }
    fchown(new, Some(Uid::from_raw(was.uid())), Some(Gid::from_raw(was.gid()))).map_err(|error| {
        io::Error::new(
            io::Error::from(error).kind(),
            "the file belongs to another user or group, which replacing it would change",
        )
    })
}

fn keep_extended(old: impl AsFd, new: impl AsFd) -> Result<(), Errno> {
    for name in extended_names(&old)?.into_iter().filter(|name| name != CAPABILITIES) {
        let mut value = vec![0; fgetxattr_query(&old, &name[..])?];
        let length = fgetxattr(&old, &name[..], &mut value[..])?;
        match fsetxattr(&new, &name[..], &value[..length], XattrFlags::empty()) {
            // The system itself sets security labels, and may forbid us to.
            Err(Errno::PERM | Errno::OPNOTSUPP) if name.starts_with(b"security.") => {}
            kept => kept?,
        }
    }
    Ok(())
}

fn extended_names(file: impl AsFd) -> Result<Vec<Vec<u8>>, Errno> {
    let length = match flistxattr_query(&file) {
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        length => length?,
    };
    let mut list = vec![0; length];
    let length = if length == 0 { 0 } else { flistxattr(&file, &mut list[..])? };
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn with_and_without_a_name_a_file_is_put_in_place_whole() {
        let home = tempfile::tempdir().unwrap();
        let (work, notes) = (home.path().join("work"), home.path().join("notes"));
        let temp_files = TempFiles::noted_in(notes.clone());
        temp_files.sweep().unwrap();
        for is_named in [false, true] {
            fs::create_dir(&work).unwrap();
            let directory = OwnedFd::from(File::open(&work).unwrap());
            let parent = ParentDirectory {
                directory: &directory,
                path: &work,
                temp_files: &temp_files,
                is_private: false,
            };
            let before = |name: &str| version_of(&directory, name.as_ref()).unwrap();
            let make = || {
                let new =
                    if is_named { parent.make_named(None) } else { parent.make_nameless(None) };
                new.unwrap()
            };

            let mut first = make();
            first.fill(b"one", None).unwrap();
            first.take_name("a".as_ref(), None).unwrap();
            drop(first);
            let mut late = make();
            assert_eq!(late.take_name("a".as_ref(), None), Err(Errno::EXIST));
            drop(late);
            let mut second = make();
            second.fill(b"two", None).unwrap();
            assert_eq!(fs::read(work.join("a")).unwrap(), b"one");
            second.take_name("a".as_ref(), before("a")).unwrap();
            drop(second);
            drop(make());

            assert_eq!(fs::read(work.join("a")).unwrap(), b"two");
            assert_eq!(names(&work), ["a"]);
            assert_eq!(names(&notes), [""; 0]);
            fs::remove_dir_all(&work).unwrap();
        }
    }

    /// A server that is killed between two system calls leaves a noted file, or only a note.
    #[test]
    fn a_name_beside_the_target_is_noted_for_as_long_as_it_stands() {
        let home = tempfile::tempdir().unwrap();
        let (work, notes) = (home.path().join("work"), home.path().join("notes"));
        fs::create_dir(&work).unwrap();
        let temp_files = TempFiles::noted_in(notes.clone());
        temp_files.sweep().unwrap();
        let directory = OwnedFd::from(File::open(&work).unwrap());
        let parent = ParentDirectory {
            directory: &directory,
            path: &work,
            temp_files: &temp_files,
            is_private: false,
        };
        let new = parent.make_named(None).unwrap();
        assert_eq!(names(&work), names(&notes));

        std::mem::forget(new);
        temp_files.sweep().unwrap();

        assert_eq!(names(&work), [""; 0]);
    }
}
