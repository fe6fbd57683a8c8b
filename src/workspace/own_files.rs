//! Recognises the server's own files by device and inode.
//!
//! Paths are not enough: a hard link or a bind mount gives the same file a path outside the
//! server's directory.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, StatxFlags, fstat, openat, statat, statx,
};
use rustix::io::Errno;

use super::Workspace;
use super::target::Target;
use crate::file_id::FileId;

/// The listing is breadth first, so the keys and the database at the top always fit. Only
/// some of very many session files can be left out.
const MAX_LISTED: usize = 100_000;

/// Holds installed packages: tens of thousands of files, and none that the server wrote.
const NOT_LISTED: &str = "venv";

/// No path has more parts. Stops a climb that would never reach the root.
const MAX_DEPTH: usize = 4096;

/// The server's own directory with everything in it. The default has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnFiles(Option<Arc<Directory>>);

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// Opened at the first look that finds the directory, then held: it stays ours when it
    /// is moved.
    handle: OnceLock<OwnedFd>,
}

impl OwnFiles {
    pub(crate) fn in_directory(path: &Path) -> Self {
        Self(Some(Arc::new(Directory { path: path.to_owned(), handle: OnceLock::new() })))
    }

    /// Whether the file is our directory or in it, under any name. Lists the directory each
    /// time: to ask about many files, call [`Self::identities`] once.
    fn covers_identity(&self, id: FileId) -> bool {
        self.identities().contains(&id)
    }

    /// The identities of our directory and of everything in it now.
    pub(crate) fn identities(&self) -> HashSet<FileId> {
        self.handle().and_then(|handle| list(handle).ok()).unwrap_or_default()
    }

    /// Whether the target is in our directory, or would be created in it.
    pub(crate) fn covers(&self, target: &Target, workspace: &Workspace) -> bool {
        let Some(own) = self.handle() else { return false };
        // If the check itself fails, refuse the target.
        self.try_covers(own, target, workspace).unwrap_or(true)
    }

    fn try_covers(
        &self,
        own: &OwnedFd,
        target: &Target,
        workspace: &Workspace,
    ) -> Result<bool, Errno> {
        let directory = target.directory();
        if is_beneath(directory, id_of(own)?)? {
            return Ok(true);
        }
        let place = id_of(directory)?;
        let Some(entry) = target.entry() else {
            return Ok(is_mounted(directory, workspace)? && self.covers_identity(place));
        };
        let stat = fstat(entry)?;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        // The target may be our directory itself. The directories above it are checked.
        if is_directory && FileId::from_stat(&stat) == id_of(own)? {
            return Ok(true);
        }
        // A file with one name, reached through no mount, is where its path says. The slow
        // listing is needed only for the others.
        let has_other_names = !is_directory && 1 < stat.st_nlink;
        if !has_other_names && !is_mounted(entry, workspace)? {
            return Ok(false);
        }
        let own = self.identities();
        Ok(own.contains(&FileId::from_stat(&stat)) || own.contains(&place))
    }

    fn handle(&self) -> Option<&OwnedFd> {
        let directory = self.0.as_ref()?;
        if let Some(handle) = directory.handle.get() {
            return Some(handle);
        }
        let opened = open_directory(CWD, directory.path.as_os_str()).ok()?;
        Some(directory.handle.get_or_init(|| opened))
    }
}

fn id_of(handle: impl AsFd) -> Result<FileId, Errno> {
    fstat(handle).map(|stat| FileId::from_stat(&stat))
}

fn open_directory(at: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// Whether `directory` is `own` or lies below it. Climbs with `..`, which the kernel leads
/// through mounts as well.
fn is_beneath(directory: &OwnedFd, own: FileId) -> Result<bool, Errno> {
    let mut here = id_of(directory)?;
    let mut handle = open_directory(directory, ".".as_ref())?;
    for _ in 0..MAX_DEPTH {
        if here == own {
            return Ok(true);
        }
        handle = open_directory(&handle, "..".as_ref())?;
        let above = id_of(&handle)?;
        if above == here {
            return Ok(false);
        }
        here = above;
    }
    Err(Errno::NAMETOOLONG)
}

/// Whether `handle` lies in a mount that holds none of the roots. Says yes if the kernel
/// does not tell mounts apart, which is the safe answer.
fn is_mounted(handle: &OwnedFd, workspace: &Workspace) -> Result<bool, Errno> {
    let Some(here) = mount_of(handle)? else { return Ok(true) };
    for root in workspace.root_handles() {
        if mount_of(root)? == Some(here) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn mount_of(handle: &OwnedFd) -> Result<Option<u64>, Errno> {
    match statx(handle, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID) {
        Ok(stat) => {
            let is_told = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0;
            Ok(is_told.then_some(stat.stx_mnt_id))
        }
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lists breadth first, so that the limit cuts off only deep files.
fn list(own: &OwnedFd) -> Result<HashSet<FileId>, Errno> {
    let mut found = HashSet::from([id_of(own)?]);
    let mut waiting = VecDeque::from([open_directory(own, ".".as_ref())?]);
    while let Some(directory) = waiting.pop_front() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(readable) = openat(&directory, ".", flags, Mode::empty()) else { continue };
        for entry in Dir::new(readable)?.flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || name == NOT_LISTED {
                continue;
            }
            // An entry that has vanished meanwhile needs no protection.
            let Ok(stat) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            found.insert(FileId::from_stat(&stat));
            if MAX_LISTED <= found.len() {
                return Ok(found);
            }
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                waiting.extend(open_directory(&directory, name).ok());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn t32_what_is_ours_is_known_by_any_name() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().canonicalize().unwrap().join(name);
        for name in ["state/sub/deep", "ws/moved"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        for name in ["state/key", "state/sub/deep/plan", "ws/plain"] {
            fs::write(path(name), "x").unwrap();
        }
        for (from, to) in [("state/key", "ws/one"), ("state/sub/deep/plan", "ws/two")] {
            fs::hard_link(path(from), path(to)).unwrap();
        }
        fs::hard_link(path("ws/plain"), path("ws/twin")).unwrap();
        let own = OwnFiles::in_directory(&path("state"));
        let workspace = Workspace::open(vec![path("ws")]).unwrap();
        let covers = |name: &str| own.covers(&workspace.resolve(&path(name)).unwrap(), &workspace);

        assert!(covers("ws/one") && covers("ws/two"));
        assert!(!covers("ws/plain") && !covers("ws/twin") && !covers("ws"));
        assert!(!covers("ws/moved") && !covers("ws/new") && !covers("ws/new/er"));
        for (name, is_own) in
            [("state", true), ("state/sub", true), ("ws/two", true), ("ws", false)]
        {
            let stat = statat(CWD, path(name), AtFlags::empty()).unwrap();
            assert_eq!(own.covers_identity(FileId::from_stat(&stat)), is_own, "{name}");
        }

        // The directory stays ours when it is moved into the workspace.
        fs::rename(path("state"), path("ws/moved/here")).unwrap();
        assert!(covers("ws/moved/here") && covers("ws/moved/here/key"));
        assert!(covers("ws/moved/here/new") && covers("ws/moved/here/sub/deep/new/er"));
        assert!(!covers("ws/moved"));
    }

    #[test]
    fn one_that_is_not_there_covers_nothing_until_it_is() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let own = OwnFiles::in_directory(&root.join("state"));
        let workspace = Workspace::open(vec![root.clone()]).unwrap();
        let covers =
            |name: &str| own.covers(&workspace.resolve(&root.join(name)).unwrap(), &workspace);

        assert!(!covers("state/key") && OwnFiles::default().identities().is_empty());
        fs::create_dir(root.join("state")).unwrap();
        assert!(covers("state/key") && covers("state"));
    }
}
