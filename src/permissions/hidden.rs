//! What no file tool shows or touches, in any mode: the server's own directory.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::workspace::FileId;

/// Entries of the hidden directory that are looked up, and how deep: far more than a
/// state directory has.
const MAX_ENTRIES: usize = 100_000;
const MAX_DEPTH: usize = 16;

#[derive(Clone, Debug, Default)]
pub(crate) struct Hidden(Arc<[PathBuf]>);

/// The same, with the identities that all of it has now: a hard link or a bind mount
/// shows the same file under a name that tells nothing.
#[derive(Debug, Default)]
pub(crate) struct HiddenFiles {
    hidden: Hidden,
    ids: HashSet<FileId>,
}

impl Hidden {
    #[cfg(test)]
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    /// A directory and all below it, by its name and by where that leads.
    pub(crate) fn directory(path: &Path) -> Self {
        Self([path.to_owned(), real_path_of(path)].into())
    }

    /// Links in `path` are resolved already.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.0.iter().any(|hidden| is_beneath(path, hidden))
    }

    /// By its path, or else by what it is.
    pub(crate) fn covers_any(&self, path: &Path, ids: &[FileId]) -> bool {
        self.covers(path) || {
            let files = self.files();
            ids.iter().any(|id| files.has(*id))
        }
    }

    /// Looks up what is hidden now. Reads the disk.
    pub(crate) fn files(&self) -> HiddenFiles {
        let mut ids = HashSet::new();
        // The last one has its links resolved.
        if let Some(directory) = self.0.last() {
            collect(directory, MAX_DEPTH, &mut ids);
        }
        HiddenFiles { hidden: self.clone(), ids }
    }
}

impl HiddenFiles {
    /// Links in `path` are resolved already.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.hidden.covers(path)
    }

    pub(crate) fn has(&self, id: FileId) -> bool {
        !self.ids.is_empty() && self.ids.contains(&id)
    }
}

fn collect(path: &Path, depth: usize, ids: &mut HashSet<FileId>) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if ids.len() >= MAX_ENTRIES || !ids.insert(FileId::of(&metadata)) {
        return;
    }
    if metadata.is_dir() && depth > 0 {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            collect(&entry.path(), depth - 1, ids);
        }
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
        let hidden = Hidden::directory(Path::new("/nowhere/state"));
        for covered in ["/nowhere/state", "/nowhere/state/a", "/nowhere/state/a/b"] {
            assert!(hidden.covers(Path::new(covered)), "{covered}");
        }
        for other in ["/nowhere", "/nowhere/states", "/nowhere/stat", "/state"] {
            assert!(!hidden.covers(Path::new(other)), "{other}");
        }
        assert!(!Hidden::nothing().covers(Path::new("/nowhere/state")));
    }
}
