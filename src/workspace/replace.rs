//! Writing that leaves no half file behind: a temporary file beside the target,
//! then a rename over it. Never in place.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags, fchmod, fchown, fgetxattr,
    fgetxattr_query, flistxattr, flistxattr_query, fsetxattr, fsync, openat, renameat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;
use uuid::Uuid;

use super::identity::Identity;
use super::target::{Parents, Target, open_entry};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    /// Someone else wrote, made or removed the file meanwhile.
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
    /// Puts `contents` where this target is, all or nothing, if the file is still in
    /// the state `before` (`None`: still not there). Missing directories are made.
    /// Mode, owner and extended attributes of the file are kept.
    pub(crate) fn replace(
        &self,
        contents: &[u8],
        before: Option<Identity>,
    ) -> Result<Identity, ReplaceError> {
        let parents = if before.is_some() { Parents::Expect } else { Parents::Make };
        let (directory, name) = self.leaf(parents)?;
        let old = before.map(|_| open_for_replacing(&directory, name)).transpose()?;

        let mut temporary = Temporary::create(&directory, old.as_ref())?;
        temporary.file.write_all(contents)?;
        if let Some(old) = &old {
            keep_attributes(old, &temporary.file)?;
        }
        temporary.file.sync_all()?;
        if identity_of(&directory, name)? != before {
            return Err(ReplaceError::Changed);
        }
        temporary.rename_to(name, before)?;
        // The file is replaced already; a directory that cannot be synced (some
        // file systems, directories we may not read) is no reason to say otherwise.
        let _ = sync_directory(&directory);
        Ok(Identity::of(&temporary.file.metadata()?))
    }
}

/// Where the operator took the right to write away, a rename must not sneak past.
fn open_for_replacing(directory: &OwnedFd, name: &OsStr) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty()).map(File::from)
}

fn identity_of(directory: &OwnedFd, name: &OsStr) -> io::Result<Option<Identity>> {
    match open_entry(directory, name) {
        Ok(handle) => Ok(Some(Identity::of(&File::from(handle).metadata()?))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn sync_directory(directory: &OwnedFd) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fsync(openat(directory, ".", flags, Mode::empty())?)
}

/// A file beside the target that is removed unless it is renamed.
struct Temporary<'a> {
    directory: &'a OwnedFd,
    name: String,
    file: File,
    is_renamed: bool,
}

impl<'a> Temporary<'a> {
    fn create(directory: &'a OwnedFd, old: Option<&File>) -> Result<Self, Errno> {
        let name = format!(".toolhand-{}.tmp", Uuid::new_v4().simple());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Of a new file the umask decides; what replaces a file shows nobody more
        // than that file did.
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        let file = File::from(openat(directory, &name, flags, Mode::from_raw_mode(mode))?);
        Ok(Self { directory, name, file, is_renamed: false })
    }

    fn rename_to(&mut self, name: &OsStr, before: Option<Identity>) -> Result<(), ReplaceError> {
        let renamed = match before {
            Some(_) => renameat(self.directory, &self.name, self.directory, name),
            None => self.rename_to_new(name),
        };
        match renamed {
            Ok(()) => self.is_renamed = true,
            Err(Errno::EXIST) => return Err(ReplaceError::Changed),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn rename_to_new(&self, name: &OsStr) -> Result<(), Errno> {
        let flags = RenameFlags::NOREPLACE;
        match renameat_with(self.directory, &self.name, self.directory, name, flags) {
            // Not every file system knows the flag.
            Err(Errno::INVAL | Errno::NOSYS) => {
                renameat(self.directory, &self.name, self.directory, name)
            }
            renamed => renamed,
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}

/// Owner first, since changing it clears bits of the mode.
fn keep_attributes(old: &File, new: &File) -> io::Result<()> {
    let (was, is) = (old.metadata()?, new.metadata()?);
    keep_owner(&was, &is, new)?;
    fchmod(new, Mode::from_raw_mode(was.mode() & 0o7777))?;
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
    for name in extended_names(&old)? {
        let mut value = vec![0; fgetxattr_query(&old, &name[..])?];
        let length = fgetxattr(&old, &name[..], &mut value[..])?;
        match fsetxattr(&new, &name[..], &value[..length], XattrFlags::empty()) {
            // Labels are for the system to give.
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
