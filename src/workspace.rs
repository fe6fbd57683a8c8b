//! Directory handles: names are resolved and opened beneath a root.

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The directories that tools may reach, held open.
#[derive(Debug)]
pub(crate) struct Workspace {
    roots: Vec<PathBuf>,
}

/// A file or directory beneath a root, resolved once; it need not exist yet.
#[derive(Debug)]
pub(crate) struct Target {
    /// As it was asked for: absolute, `.` and `..` removed.
    path: PathBuf,
    /// With every link resolved.
    real: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error("{} is outside the workspace", .0.display())]
    Outside(PathBuf),
    #[error("{0}")]
    BadPath(String),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl Workspace {
    /// Opens each root; the first is the workspace itself, the others are
    /// `additional_directories`.
    pub(crate) fn open(_roots: Vec<PathBuf>) -> Result<Self, ResolveError> {
        todo!("files helper")
    }

    pub(crate) fn root(&self) -> &Path {
        &self.roots[0]
    }

    pub(crate) fn resolve(&self, _path: &Path) -> Result<Target, ResolveError> {
        todo!("files helper")
    }
}

impl Target {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn real_path(&self) -> &Path {
        &self.real
    }

    /// Opens the file for reading, never blocking; a link swapped in since is refused.
    pub(crate) fn open_file(&self) -> io::Result<File> {
        todo!("files helper")
    }

    /// Opens a file below this directory, following no link.
    pub(crate) fn open_beneath(&self, _relative: &Path) -> io::Result<File> {
        todo!("files helper")
    }
}

/// `path` against `base`, with a leading `~` replaced and `.` and `..` removed by
/// name. Nothing else is interpreted: no `$`, no `%`, no `file:`.
pub(crate) fn absolute(base: &Path, path: &Path) -> PathBuf {
    let mut whole = PathBuf::from("/");
    for part in base.join(path).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::Normal(name) => whole.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    whole
}
