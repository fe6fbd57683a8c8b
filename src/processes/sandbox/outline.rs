//! Says what would confine a command, for whoever tells a person of it. Nothing is opened or
//! protected for it.

use std::fs;
use std::path::Path;

use super::{Sandbox, base, without};
use crate::processes::confinement::{Confinement, Level, Shown};

impl Sandbox {
    /// The confinement of a command that may write these roots. Reads the disk: what is not there
    /// is not shown.
    pub(crate) fn outline<'a>(
        &self,
        level: Level,
        roots: impl Iterator<Item = &'a Path>,
    ) -> Confinement {
        let places = self.places();
        let is_there = |shown: &&Shown| shown.from.path().exists();
        let roots = roots.map(Shown::as_it_is);
        let writable: Vec<_> =
            roots.chain(places.writable.iter().filter(is_there).cloned()).collect();
        let readable = places.readable.iter().filter(is_there).cloned().collect();
        let readable = without(readable, &writable);
        let base = base(&self.0.runner, level, self.0.settings.network);
        // Paths of a command are compared with it that have every link resolved.
        let home = fs::canonicalize(base.home.path()).map_or(base.home.clone(), Into::into);
        Confinement { writable, readable, home, ..base }
    }
}
