//! Opens files by paths without links, and tells by their numbers whether two handles are of one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};

use crate::file_id::FileId;

/// What a handle is of.
pub(super) fn id(handle: impl AsFd) -> io::Result<FileId> {
    Ok(FileId::from_stat(&fstat(handle)?))
}

/// Opens what is at a path, but not its contents. No name of it may be a link.
pub(super) fn open(path: &Path) -> io::Result<OwnedFd> {
    open_as(path, ResolveFlags::NO_SYMLINKS)
}

/// The same with links, as far as these flags let one be followed.
pub(super) fn open_as(path: &Path, resolve: ResolveFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(openat2(CWD, path, flags, Mode::empty(), resolve)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_with_a_link_in_it_is_not_opened_and_a_file_keeps_its_number() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        fs::create_dir(base.join("a")).unwrap();
        fs::write(base.join("a/file"), "").unwrap();
        symlink("a", base.join("link")).unwrap();
        let id = |name: &str| id(open(&base.join(name)).unwrap()).unwrap();
        let before = id("a/file");
        assert!(open(&base.join("link")).is_err() && open(&base.join("link/file")).is_err());
        fs::rename(base.join("a/file"), base.join("moved")).unwrap();
        fs::write(base.join("a/file"), "").unwrap();
        assert!(id("moved") == before && id("a/file") != before);
    }
}
