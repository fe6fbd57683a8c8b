//! What rules deny the file tools, handed in by whoever knows the rules: commands are denied it
//! too, where the level can.

use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Existing paths that rules, or the names of secrets, deny.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeniedPaths {
    pub(crate) reading: Vec<PathBuf>,
    /// Writing alone.
    pub(crate) editing: Vec<PathBuf>,
    /// There were more files than are looked at.
    pub(crate) is_cut: bool,
}

/// What becomes of files that may hold secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secrets {
    /// Somebody has approved the command, which may need them.
    Shown,
    /// They are denied to reading, but for those that a rule allows by name.
    Denied,
}

/// Finds them below these roots. Reads the disk.
pub(crate) type FindDenied = Box<dyn Fn(&[PathBuf], Secrets) -> DeniedPaths + Send + Sync>;

/// Nothing is denied before somebody says what is.
#[derive(Default)]
pub(super) struct Denied(pub(super) OnceLock<FindDenied>);

impl Denied {
    pub(super) fn below(&self, roots: &[PathBuf], secrets: Secrets) -> DeniedPaths {
        self.0.get().map(|find| find(roots, secrets)).unwrap_or_default()
    }
}

impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Denied").field(&self.0.get().is_some()).finish()
    }
}
