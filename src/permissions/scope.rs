//! What a search may look at: a permitted directory or file, without what is hidden.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use super::{ExcludedPaths, HiddenFiles};
use crate::workspace::{Directory, Target};

/// A directory (or file) to be searched. It hands out directories only together with
/// the judge of their entries, so no tool can forget to ask.
#[derive(Debug)]
pub(crate) struct SearchScope {
    target: Target,
    excluded: ExcludedPaths,
}

impl SearchScope {
    pub(crate) fn new(target: Target, excluded: ExcludedPaths) -> Self {
        Self { target, excluded }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// As it was asked for.
    pub(crate) fn path(&self) -> &Path {
        self.target.path()
    }

    /// With every link resolved.
    pub(crate) fn real_path(&self) -> &Path {
        self.target.real_path()
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.target.metadata()
    }

    /// The file itself, where it is one.
    pub(crate) fn open_file(&self) -> io::Result<File> {
        self.target.open_file()
    }

    /// The directory itself, the root that holds it with its path, and the judge of all
    /// that is found in them.
    pub(crate) fn open(&self) -> io::Result<(Directory, (&Path, Directory), HiddenFiles)> {
        Ok((self.target.open_directory()?, self.target.open_root()?, self.excluded.files()))
    }
}
