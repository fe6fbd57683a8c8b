//! A path that is sent to another process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A path, kept as bytes: a path need not be text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Place(OsString);

impl Place {
    pub(crate) fn path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Self {
        Self(path.into_os_string())
    }
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().to_owned())
    }
}
