//! Says what would confine a command, for whoever tells a person of it. Nothing is protected for
//! it.

use std::fs;
use std::path::Path;

use super::{Sandbox, ShownPlaces, base};
use crate::processes::confinement::{Confinement, Level};

impl Sandbox {
    /// The confinement of a command that may write these roots. Reads the disk: what is not there
    /// is not shown.
    pub(crate) fn outline<'a>(
        &self,
        level: Level,
        roots: impl Iterator<Item = &'a Path>,
    ) -> Confinement {
        let ShownPlaces { writable, readable, .. } = self.shown(roots);
        let base = base(&self.0.runner, level, self.0.settings.network);
        // Paths of a command are compared with it that have every link resolved.
        let home = fs::canonicalize(base.home.path()).map_or(base.home.clone(), Into::into);
        Confinement { writable, readable, home, ..base }
    }
}
