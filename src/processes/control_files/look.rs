//! Looks at what other programs obey below the roots before a command, and tells afterwards what
//! the command has left.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::observed::ObservedState;
use super::{ControlFiles, FindKind, Finds, Snapshot};

/// What there was before a command.
#[derive(Debug, Default)]
pub(in crate::processes) struct LookBefore {
    roots: Vec<PathBuf>,
    /// Control files that nothing protects, as they were.
    open: Snapshot,
    open_paths: Vec<PathBuf>,
    /// Control files that are protected, and those that cannot come.
    held: BTreeSet<PathBuf>,
    state: ObservedState,
}

impl LookBefore {
    /// Where all that was found is protected from the command, but for what links lead to.
    pub(in crate::processes) fn of_protected(found: &mut ControlFiles) -> Self {
        let held = found.masks.iter().map(|(path, _)| path.to_owned()).collect();
        Self::new(found, found.links.clone(), held)
    }

    /// Where nothing is protected.
    pub(in crate::processes) fn of_open(found: &mut ControlFiles) -> Self {
        Self::new(found, found.present_paths(), BTreeSet::new())
    }

    fn new(found: &mut ControlFiles, open_paths: Vec<PathBuf>, held: BTreeSet<PathBuf>) -> Self {
        let state = std::mem::take(&mut found.observed).with_files();
        let open = Snapshot::take(&open_paths);
        Self { roots: found.roots.clone(), open, open_paths, held, state }
    }

    /// What has come or changed since. `now` is the same place found again.
    pub(in crate::processes) fn finds(&self, mut now: ControlFiles) -> Finds {
        let state = std::mem::take(&mut now.observed).with_files();
        let made = self.state.made_repositories(&state, &self.roots);
        let is_in_made = |path: &Path| made.iter().any(|made| path.starts_with(made));
        let present = now.present_paths().into_iter();
        let new = present.filter(|path| !self.held.contains(path) && !is_in_made(path));
        let watched: Vec<PathBuf> = self.open_paths.iter().cloned().chain(new).collect();
        let mut finds = Finds::default();
        for path in self.open.changed(&Snapshot::take(&watched)) {
            finds.add(FindKind::ControlFile, path);
        }
        self.state.compare(&state, &self.roots, &mut finds);
        finds
    }
}
