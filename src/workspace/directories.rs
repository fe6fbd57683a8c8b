//! Creates the missing directories of a new file, and removes them again if writing the
//! file fails.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, fstat, mkdirat, unlinkat};
use rustix::io::Errno;

use super::handles::{duplicate, open_directory};
use super::target::Target;

/// The directories that one call has created, outermost first. Dropping this removes each
/// that is still the same directory and empty.
#[derive(Debug, Default)]
pub(super) struct NewDirectories(Vec<NewDirectory>);

#[derive(Debug)]
struct NewDirectory {
    parent: OwnedFd,
    name: OsString,
    /// Tells it from another directory that has taken its name meanwhile.
    device_and_inode: (u64, u64),
}

impl NewDirectories {
    /// Opens the directory `name`, and creates it if it is missing. The umask decides its
    /// mode.
    pub(super) fn enter(&mut self, parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
        let is_new = match mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error),
        };
        let directory = open_directory(parent, name)?;
        if is_new {
            self.0.push(NewDirectory {
                parent: duplicate(parent)?,
                name: name.to_owned(),
                device_and_inode: device_and_inode(&directory)?,
            });
        }
        Ok(directory)
    }

    /// Keeps the directories, because the file was written.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }
}

impl Target {
    /// Opens the target's directory, creates it if it is missing, and returns the target's
    /// name in it.
    pub(super) fn leaf_with_parents(
        &self,
        new: &mut NewDirectories,
    ) -> io::Result<(OwnedFd, &OsStr)> {
        self.leaf(|parent, name| new.enter(parent, name))
    }
}

impl Drop for NewDirectories {
    fn drop(&mut self) {
        for NewDirectory { parent, name, device_and_inode: made } in self.0.iter().rev() {
            let now = open_directory(parent, name).and_then(|now| device_and_inode(&now));
            if now == Ok(*made) {
                let _ = unlinkat(parent, name, AtFlags::REMOVEDIR);
            }
        }
    }
}

fn device_and_inode(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    let stat = fstat(directory)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn only_what_was_made_and_is_empty_goes_again() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        let root = OwnedFd::from(File::open(home.path()).unwrap());
        fs::create_dir(path("old")).unwrap();

        let make = |names: &[&str]| {
            let mut made = NewDirectories::default();
            let enter = |at: OwnedFd, name: &&str| made.enter(&at, OsStr::new(name)).unwrap();
            names.iter().fold(duplicate(&root).unwrap(), enter);
            made
        };
        let existing = make(&["old", "new", "er"]);
        let used = make(&["used", "empty"]);
        let replaced = make(&["replaced"]);
        make(&["kept", "too"]).keep();
        fs::write(path("used/by-another"), "").unwrap();
        fs::rename(path("replaced"), path("elsewhere")).unwrap();
        fs::create_dir(path("replaced")).unwrap();
        drop((existing, used, replaced));

        for (name, is_there) in [
            ("old", true),
            ("old/new", false),
            ("used", true),
            ("used/empty", false),
            ("replaced", true),
            ("elsewhere", true),
            ("kept/too", true),
        ] {
            assert_eq!(path(name).exists(), is_there, "{name}");
        }
    }
}
