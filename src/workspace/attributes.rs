//! Gives a new file the owner, mode and extended attributes of the one that it replaces.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{
    Gid, Mode, Uid, XattrFlags, fchmod, fchown, fgetxattr, fgetxattr_query, flistxattr,
    flistxattr_query, fremovexattr, fsetxattr,
};
use rustix::io::Errno;

use super::write_outcome::WhyInPlace;

/// Why a new file cannot have what the old one has.
#[derive(Debug)]
pub(super) enum AttributeError {
    /// We have no right to give it, whatever is written.
    Forbidden(WhyInPlace, io::Error),
    Io(io::Error),
}

impl AttributeError {
    /// `errno` came from giving the file what `why` names.
    fn new(why: WhyInPlace, errno: Errno) -> Self {
        match errno {
            Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS => {
                Self::Forbidden(why, errno.into())
            }
            errno => Self::Io(errno.into()),
        }
    }
}

/// The bits of the mode that are kept: not setuid and setgid, which the owner granted to the
/// old contents.
const KEPT_MODE: u32 = 0o1777;

/// The attribute of file capabilities, which grant privileges as setuid does.
const CAPABILITIES: &[u8] = b"security.capability";

/// The bits of the mode that grant privileges. Without the right to execute, setgid is a mark of
/// locks.
const SETUID: u32 = 0o4000;
const SETGID_AND_EXECUTE: u32 = 0o2010;

/// The number by which the kernel shows all users and groups that a user namespace has no number
/// for. To give a file to it would give it to yet another user.
const UNMAPPED: u32 = 65534;

/// Copies owner, mode and extended attributes. The owner comes first, because changing it
/// clears bits of the mode.
pub(super) fn keep_attributes(old: &File, new: &File) -> Result<(), AttributeError> {
    let (was, is) = match (old.metadata(), new.metadata()) {
        (Ok(was), Ok(is)) => (was, is),
        (Err(error), _) | (_, Err(error)) => return Err(AttributeError::Io(error)),
    };
    let of_owner = |errno| AttributeError::new(WhyInPlace::Owner, errno);
    let of_others = |errno| AttributeError::new(WhyInPlace::Attributes, errno);
    keep_owner(&was, &is, new).map_err(of_owner)?;
    fchmod(new, Mode::from_raw_mode(was.mode() & KEPT_MODE)).map_err(of_others)?;
    keep_extended(old, new).map_err(of_others)
}

fn keep_owner(was: &Metadata, is: &Metadata, new: &File) -> Result<(), Errno> {
    if (was.uid(), was.gid()) == (is.uid(), is.gid()) {
        return Ok(());
    }
    let stands_for_many = |was: u32, is: u32| was != is && was == UNMAPPED && has_unmapped_ids();
    if stands_for_many(was.uid(), is.uid()) || stands_for_many(was.gid(), is.gid()) {
        return Err(Errno::PERM);
    }
    fchown(new, Some(Uid::from_raw(was.uid())), Some(Gid::from_raw(was.gid())))
}

/// Whether this is a user namespace in which some users of the machine have no number of their
/// own, as in a container without root.
fn has_unmapped_ids() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_ascii_whitespace().ne(["0", "0", "4294967295"])
}

/// Whether the file is setuid or setgid.
pub(super) fn has_privileges(file: &Metadata) -> bool {
    let mode = file.mode();
    mode & SETUID != 0 || mode & SETGID_AND_EXECUTE == SETGID_AND_EXECUTE
}

/// Takes setuid, setgid and file capabilities from a file that is about to be written. Where only
/// its owner may, the kernel does it with the first write.
pub(super) fn drop_privileges(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.mode();
    if mode & 0o7777 & !KEPT_MODE != 0 {
        match fchmod(file, Mode::from_raw_mode(mode & KEPT_MODE)) {
            Ok(()) | Err(Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match fremovexattr(file, CAPABILITIES) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
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
