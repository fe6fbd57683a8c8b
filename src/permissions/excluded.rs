//! Hides the server's own directory from all file tools, in every mode.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::search_limits::SearchLimits;
use crate::workspace::{FileId, OwnFiles, Target, Workspace};

#[derive(Clone, Debug, Default)]
pub(crate) struct ExcludedPaths {
    paths: Arc<[PathBuf]>,
    own: OwnFiles,
}

/// The excluded paths with the identities of all files in them, taken once. A hard link or a
/// bind mount gives a file another path, but not another identity.
#[derive(Debug, Default)]
pub(crate) struct HiddenFiles {
    excluded: ExcludedPaths,
    ids: HashSet<FileId>,
    limits: SearchLimits,
}

impl ExcludedPaths {
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Excludes a directory and everything below it, under the given path and under the path
    /// with links resolved.
    pub(crate) fn below(path: &Path) -> Self {
        let paths = [path.to_owned(), real_path_of(path)].into();
        Self { paths, own: OwnFiles::in_directory(path) }
    }

    /// Whether the path is excluded. All links in `path` must be resolved.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.paths.iter().any(|excluded| is_beneath(path, excluded))
    }

    /// Whether the target is excluded, by its path or by its identity.
    pub(crate) fn covers_target(&self, target: &Target, workspace: &Workspace) -> bool {
        self.covers(target.real_path()) || self.own.covers(target, workspace)
    }

    /// Collects the identities of all excluded files. Reads the disk.
    pub(crate) fn files(&self, limits: SearchLimits) -> HiddenFiles {
        let mut ids = self.own.identities();
        ids.extend(limits.denied());
        HiddenFiles { excluded: self.clone(), ids, limits }
    }
}

impl HiddenFiles {
    /// Whether the path is excluded, or a rule denies it. All links in `path` must be resolved.
    pub(crate) fn covers(&self, path: &Path, is_directory: bool) -> bool {
        self.excluded.covers(path) || self.limits.hide(path, is_directory)
    }

    /// Whether the contents of the file are not searched, because it may hold secrets.
    pub(crate) fn keeps_secret(&self, path: &Path) -> bool {
        self.limits.skip(path)
    }

    pub(crate) fn has(&self, id: FileId) -> bool {
        !self.ids.is_empty() && self.ids.contains(&id)
    }
}

/// Compares bytes instead of path components, because a walk asks this for every file.
fn is_beneath(path: &Path, directory: &Path) -> bool {
    let below = path.as_os_str().as_bytes().strip_prefix(directory.as_os_str().as_bytes());
    below.is_some_and(|below| below.first().is_none_or(|byte| *byte == b'/'))
}

/// The path with every link resolved. Its last parts need not exist yet.
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
