//! The paths that no file tool shows or touches, in any mode: the server's own directory.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::workspace::{FileId, OwnFiles, Target, Workspace};

#[derive(Clone, Debug, Default)]
pub(crate) struct ExcludedPaths {
    paths: Arc<[PathBuf]>,
    own: OwnFiles,
}

/// The same, with the identities that all of it has now: a hard link or a bind mount
/// shows the same file under a name that tells nothing.
#[derive(Debug, Default)]
pub(crate) struct HiddenFiles {
    excluded: ExcludedPaths,
    ids: HashSet<FileId>,
}

impl ExcludedPaths {
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// A directory and all below it, by its name and by where that leads.
    pub(crate) fn below(path: &Path) -> Self {
        let paths = [path.to_owned(), real_path_of(path)].into();
        Self { paths, own: OwnFiles::in_directory(path) }
    }

    /// Links in `path` are resolved already.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.paths.iter().any(|excluded| is_beneath(path, excluded))
    }

    /// Whether the target is hidden, by its path or by what it is.
    pub(crate) fn covers_target(&self, target: &Target, workspace: &Workspace) -> bool {
        self.covers(target.real_path()) || self.own.covers(target, workspace)
    }

    /// Looks up what is hidden now. Reads the disk.
    pub(crate) fn files(&self) -> HiddenFiles {
        HiddenFiles { excluded: self.clone(), ids: self.own.identities() }
    }
}

impl HiddenFiles {
    /// Links in `path` are resolved already.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.excluded.covers(path)
    }

    pub(crate) fn has(&self, id: FileId) -> bool {
        !self.ids.is_empty() && self.ids.contains(&id)
    }
}

/// Only bytes are compared: this is asked of every file of a walk.
fn is_beneath(path: &Path, directory: &Path) -> bool {
    let below = path.as_os_str().as_bytes().strip_prefix(directory.as_os_str().as_bytes());
    below.is_some_and(|below| below.first().is_none_or(|byte| *byte == b'/'))
}

/// With every link resolved, of a directory that is yet to be made too.
fn real_path_of(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real_path_of(parent).join(name),
        _ => path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_a_directory_and_what_is_in_it_and_no_other_name() {
        let excluded = ExcludedPaths::below(Path::new("/nowhere/state"));
        for covered in ["/nowhere/state", "/nowhere/state/a", "/nowhere/state/a/b"] {
            assert!(excluded.covers(Path::new(covered)), "{covered}");
        }
        for other in ["/nowhere", "/nowhere/states", "/nowhere/stat", "/state"] {
            assert!(!excluded.covers(Path::new(other)), "{other}");
        }
        assert!(!ExcludedPaths::none().covers(Path::new("/nowhere/state")));
    }
}
