//! Directories made on the way to a new file, which go again unless the file comes about.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, fstat, mkdirat, unlinkat};
use rustix::io::Errno;

use super::handles::{duplicate, open_directory};
use super::target::Target;

/// What one call made, the outermost first. Removed when this is dropped, each only if it
/// is still the directory that was made, and empty.
#[derive(Debug, Default)]
pub(super) struct NewDirectories(Vec<NewDirectory>);

#[derive(Debug)]
struct NewDirectory {
    parent: OwnedFd,
    name: OsString,
    /// By which another one of that name is told apart.
    device_and_inode: (u64, u64),
}

impl NewDirectories {
    /// Opens the directory `name`, made if it is not there. Its mode is the operator's
    /// umask to decide.
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

    /// The file is there: its directories stay.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }
}

impl Target {
    /// The directory the target is in, made if it is not there, and its name in it.
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
