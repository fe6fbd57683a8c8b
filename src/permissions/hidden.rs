//! What no file tool shows or touches, in any mode: the server's own directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::workspace::OwnFiles;

#[derive(Clone, Debug, Default)]
pub(crate) struct Hidden(Arc<[PathBuf]>);

impl Hidden {
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    /// A directory and all below it, by its name and by where that leads.
    pub(crate) fn directory(path: &Path) -> Self {
        Self([path.to_owned(), real_path_of(path)].into())
    }

    /// The same by identity, for what a path cannot tell.
    pub(crate) fn own_files(&self) -> OwnFiles {
        self.0.first().map(|path| OwnFiles::in_directory(path)).unwrap_or_default()
    }

    /// Links in `path` are resolved already.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.0.iter().any(|hidden| path.starts_with(hidden))
    }
}

/// With every link resolved, of a directory that is yet to be made too.
fn real_path_of(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real_path_of(parent).join(name),
        _ => path.to_owned(),
    })
}
