//! Writes a file whole or not at all.
//!
//! The contents go to a file without a name (`O_TMPFILE`), or to a temporary file where the
//! file system has no such files. When it is complete, it takes the target's name. An
//! existing file is written in place only where no other one can take its name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, StatxAttributes, StatxFlags, fsync, linkat, openat,
    renameat, renameat_with, statx, unlinkat,
};
use rustix::io::Errno;

use super::attributes::{AttributeError, keep_attributes};
use super::directories::NewDirectories;
use super::handles::{open_directory, version_of};
use super::target::Target;
use super::temp_files::{TempFileNote, TempFiles, random_name};
use super::write_outcome::{ReplaceError, WhyInPlace, WrittenFile};
use crate::file_id::FileVersion;

/// Why a new file did not take its name.
#[derive(Debug)]
enum PutError {
    /// Someone else wrote, created or removed the file meanwhile.
    Changed,
    /// No new file can take the place of the old one, whatever is written.
    Irreplaceable(WhyInPlace, io::Error),
    Io(io::Error),
}

impl Target {
    /// Replaces the file with `contents`, if it is still in the state `before` (`None`: if it
    /// still does not exist). Creates missing directories. Keeps mode, owner and extended
    /// attributes of the file, except those that grant privileges. A file that no other one can
    /// replace is written in place.
    pub(crate) fn replace(
        &self,
        contents: &[u8],
        before: Option<FileVersion>,
        temp_files: &TempFiles,
    ) -> Result<WrittenFile, ReplaceError> {
        let mut new_directories = NewDirectories::default();
        let (directory, name) = match before {
            Some(_) => self.leaf(open_directory)?,
            None => self.leaf_with_parents(&mut new_directories)?,
        };
        let old = before.map(|_| open_for_replacing(&directory, name)).transpose()?;
        let path = self.real_path().parent().unwrap_or(Path::new("/"));
        let is_private = self.is_private();
        let parent = ParentDirectory { directory: &directory, path, temp_files, is_private };

        let put = |new: Result<New<'_>, PutError>| {
            let mut new = new?;
            new.fill(contents, old.as_ref())?;
            if version_of(&directory, name)? != before {
                return Err(PutError::Changed);
            }
            new.take_name(name, before)?;
            Ok(new.file)
        };
        let put_new = || match put(parent.make_nameless(old.as_ref())) {
            // The file system may have no nameless files, or no way to name them.
            Err(PutError::Io(_) | PutError::Irreplaceable(WhyInPlace::Directory, _)) => {
                put(parent.make_named(old.as_ref()))
            }
            file => file,
        };
        let file = match &old {
            Some(old) if is_mount_point(old) => Err(PutError::of_directory(Errno::BUSY)),
            Some(_) if only_grows(&directory) => Err(PutError::of_directory(Errno::PERM)),
            _ => put_new(),
        };
        let file = match (file, before) {
            (Ok(file), _) => file,
            (Err(PutError::Irreplaceable(why, refused)), Some(before)) => {
                let version = self.write_in_place(contents, before, refused, temp_files)?;
                return Ok(WrittenFile { version, in_place: Some(why) });
            }
            (Err(error), _) => return Err(error.into()),
        };
        new_directories.keep();
        // The file is already replaced. Some file systems cannot sync a directory, and we may
        // have no right to read it: neither makes the write a failure.
        let _ = sync_directory(&directory);
        Ok(WrittenFile { version: FileVersion::from_metadata(&file.metadata()?), in_place: None })
    }
}

impl PutError {
    /// `errno` came from making a name in the directory. A directory that is read-only may hold a
    /// file that is not: one that is mounted.
    fn of_directory(errno: Errno) -> Self {
        match errno {
            Errno::BUSY => Self::Irreplaceable(WhyInPlace::MountPoint, errno.into()),
            Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::XDEV | Errno::NOSYS => {
                Self::Irreplaceable(WhyInPlace::Directory, errno.into())
            }
            Errno::EXIST => Self::Changed,
            errno => Self::Io(errno.into()),
        }
    }
}

impl From<io::Error> for PutError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<AttributeError> for PutError {
    fn from(error: AttributeError) -> Self {
        match error {
            AttributeError::Forbidden(why, error) => Self::Irreplaceable(why, error),
            AttributeError::Io(error) => Self::Io(error),
        }
    }
}

impl From<PutError> for ReplaceError {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Changed => Self::Changed,
            PutError::Irreplaceable(_, error) | PutError::Io(error) => Self::Io(error),
        }
    }
}

/// Opens the old file for writing, only to check that we may write it: a rename would work
/// on a read-only file too.
fn open_for_replacing(directory: &OwnedFd, name: &OsStr) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty()).map(File::from)
}

/// Whether something is mounted over the file's name, which no rename can then take. An old
/// kernel does not tell, but its rename says so.
fn is_mount_point(file: &File) -> bool {
    let stat = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::empty());
    stat.is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Whether names are only ever added to the directory (`chattr +a`). A temporary name in it could
/// be neither renamed nor removed, and would stay with the new contents.
fn only_grows(directory: &OwnedFd) -> bool {
    let stat = statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::empty());
    stat.is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::APPEND))
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
    fn make_nameless(self, old: Option<&File>) -> Result<New<'a>, PutError> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let mode = initial_mode(self.is_private, old);
        let opened = openat(self.directory, ".", flags, mode).map_err(PutError::of_directory)?;
        let file = File::from(opened);
        Ok(New { file, name: None, parent: self })
    }

    fn make_named(self, old: Option<&File>) -> Result<New<'a>, PutError> {
        let name = Temporary::new(self);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = initial_mode(self.is_private, old);
        let opened = openat(self.directory, &name.name, flags, mode);
        let file = File::from(opened.map_err(PutError::of_directory)?);
        Ok(New { file, name: Some(name), parent: self })
    }
}

impl New<'_> {
    fn fill(&mut self, contents: &[u8], old: Option<&File>) -> Result<(), PutError> {
        // Whether it may have them is known before a long text is written.
        if let Some(old) = old {
            keep_attributes(old, &self.file)?;
        }
        self.file.write_all(contents)?;
        Ok(self.file.sync_all()?)
    }

    /// Gives the file its final name. A link cannot replace an existing file, only a rename
    /// can, so a nameless file first gets a temporary name.
    fn take_name(&mut self, name: &OsStr, before: Option<FileVersion>) -> Result<(), PutError> {
        if self.name.is_none() && before.is_none() {
            return self.link(name).map_err(PutError::of_directory);
        }
        let temporary = if let Some(temporary) = self.name.take() {
            temporary
        } else {
            let temporary = Temporary::new(self.parent);
            self.link(temporary.name.as_ref()).map_err(PutError::of_directory)?;
            temporary
        };
        let renamed = self.name.insert(temporary).rename_to(name, before);
        renamed.map_err(PutError::of_directory)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

    use super::*;
    use crate::workspace::Workspace;

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
            assert!(matches!(late.take_name("a".as_ref(), None), Err(PutError::Changed)));
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

    /// Only root may make such a directory, and not on every file system.
    #[test]
    fn files_13_nothing_is_left_in_a_directory_that_only_grows() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let (work, notes) = (root.join("work"), root.join("notes"));
        fs::create_dir(&work).unwrap();
        fs::write(work.join("a"), "one").unwrap();
        let temp_files = TempFiles::noted_in(notes.clone());
        temp_files.sweep().unwrap();
        let directory = File::open(&work).unwrap();
        let flags = ioctl_getflags(&directory).unwrap_or(IFlags::empty());
        if ioctl_setflags(&directory, flags | IFlags::APPEND).is_err() {
            return;
        }
        let workspace = Workspace::open(vec![work.clone()]).unwrap();
        let target = workspace.resolve(&work.join("a")).unwrap();
        let before = FileVersion::from_metadata(&fs::metadata(work.join("a")).unwrap());
        let written = target.replace(b"two", Some(before), &temp_files);
        let left = names(&work);
        ioctl_setflags(&directory, flags).unwrap();

        assert_eq!(written.unwrap().in_place, Some(WhyInPlace::Directory));
        assert_eq!((left, names(&notes)), (vec!["a".to_owned()], Vec::new()));
        assert_eq!(fs::read(work.join("a")).unwrap(), b"two");
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
