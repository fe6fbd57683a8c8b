//! Opens a permitted directory or file for a search, together with the hidden files in it.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use super::search_limits::SearchLimits;
use super::{ExcludedPaths, HiddenFiles};
use crate::workspace::{Directory, Target};

/// A directory or file to search. It hands out a directory only together with the list of
/// hidden files, so that no tool can forget to leave them out.
#[derive(Debug)]
pub(crate) struct SearchScope {
    target: Box<Target>,
    excluded: ExcludedPaths,
    limits: SearchLimits,
}

impl SearchScope {
    pub(crate) fn new(target: Target, excluded: ExcludedPaths, limits: SearchLimits) -> Self {
        Self { target: Box::new(target), excluded, limits }
    }

    /// A file alone, which was permitted as it is.
    pub(super) fn of_one_file(target: Target) -> Self {
        Self::new(target, ExcludedPaths::default(), SearchLimits::default())
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// The requested path.
    pub(crate) fn path(&self) -> &Path {
        self.target.path()
    }

    /// The same path with every link resolved.
    pub(crate) fn real_path(&self) -> &Path {
        self.target.real_path()
    }

    /// The directory that a link in this one leads to, unless a rule hides it.
    pub(crate) fn through_link(&self, target: Target) -> Option<Self> {
        let hidden = self.excluded.files(self.limits.clone());
        let is_hidden = hidden.covers(target.real_path(), true);
        (!is_hidden).then(|| Self::new(target, self.excluded.clone(), self.limits.clone()))
    }

    /// What else a search leaves out. Reads the disk.
    #[cfg(feature = "lsp")]
    pub(crate) fn hidden(&self) -> HiddenFiles {
        self.excluded.files(self.limits.clone())
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.target.metadata()
    }

    /// Opens the file, if the scope is a file.
    pub(crate) fn open_file(&self) -> io::Result<File> {
        self.target.open_resolved_file()
    }

    /// Opens the directory, and the root that holds it. Returns them with the root's path and
    /// with the hidden files.
    pub(crate) fn open(&self) -> io::Result<(Directory, (&Path, Directory), HiddenFiles)> {
        let hidden = self.excluded.files(self.limits.clone());
        Ok((self.target.open_directory()?, self.target.open_root()?, hidden))
    }
}
