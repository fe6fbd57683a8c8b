//! Puts together what is masked below the roots: one mask for a path, none that undoes another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::confinement::MaskKind;

/// The masks of one command, outer ones first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Masks(BTreeMap<PathBuf, Entry>);

/// How a path is masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: MaskKind,
    /// What is put there first, because a mount needs something to be on. `None`: it exists.
    pub(super) placeholder: Option<Placeholder>,
}

/// What stands for a missing file while a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Placeholder {
    Directory,
    /// Inside of a repository alone, where nothing is ever committed.
    EmptyFile,
    /// The file of a repository that says that its settings are its own. It is otherwise missing,
    /// and whoever writes it decides which settings and hooks count.
    CommonDirectory,
}

impl Placeholder {
    /// What the file holds; `None` for a directory.
    pub(super) fn text(self) -> Option<&'static str> {
        match self {
            Self::Directory => None,
            Self::EmptyFile => Some(""),
            Self::CommonDirectory => Some(".\n"),
        }
    }
}

impl Masks {
    /// Masks what exists. Of two masks on one path the stronger one counts.
    pub(super) fn add(&mut self, path: &Path, kind: MaskKind) {
        self.insert(path, Entry { kind, placeholder: None });
    }

    pub(super) fn add_missing(&mut self, path: &Path, kind: MaskKind, placeholder: Placeholder) {
        self.insert(path, Entry { kind, placeholder: Some(placeholder) });
    }

    fn insert(&mut self, path: &Path, entry: Entry) {
        match self.0.get(path) {
            Some(there) if entry.kind <= there.kind => {}
            _ => _ = self.0.insert(path.to_owned(), entry),
        }
    }

    pub(super) fn existing(&self, kind: MaskKind) -> impl Iterator<Item = &Path> {
        let fitting = move |entry: &Entry| entry.kind == kind && entry.placeholder.is_none();
        self.0.iter().filter(move |(_, entry)| fitting(entry)).map(|(path, _)| path.as_path())
    }

    /// Leaves out what lies below an outer mask that holds it already. To keep a directory below
    /// a read-only one would make it writable again.
    pub(super) fn pruned(self) -> Self {
        let mut kept = BTreeMap::<PathBuf, Entry>::new();
        for (path, entry) in self.0 {
            let is_held = path.ancestors().skip(1).filter_map(|above| kept.get(above)).any(
                |outer| match outer.kind {
                    MaskKind::Keep => false,
                    MaskKind::ReadOnly => {
                        entry.kind <= MaskKind::ReadOnly || entry.placeholder.is_some()
                    }
                    MaskKind::Closed => true,
                },
            );
            if !is_held {
                kept.insert(path, entry);
            }
        }
        Self(kept)
    }

    /// Lets `change` replace each entry, or drop it.
    pub(super) fn filter_map(self, mut change: impl FnMut(&Path, Entry) -> Option<Entry>) -> Self {
        let changed = self.0.into_iter();
        let changed = changed.filter_map(|(path, entry)| Some((change(&path, entry)?, path)));
        Self(changed.map(|(entry, path)| (path, entry)).collect())
    }

    /// Outer ones first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, MaskKind)> {
        self.0.iter().map(|(path, entry)| (path.as_path(), entry.kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pruned(masks: &[(&str, MaskKind)]) -> Vec<String> {
        let mut all = Masks::default();
        for (path, kind) in masks {
            all.add(Path::new(path), *kind);
        }
        all.pruned().iter().map(|(path, _)| path.display().to_string()).collect()
    }

    #[test]
    fn nothing_below_a_read_only_directory_is_made_writable_and_nothing_hidden_is_shown() {
        use MaskKind::{Closed, Keep, ReadOnly};
        let masks = [
            ("/w/a", ReadOnly),
            ("/w/a/b", Keep),
            ("/w/a/b/c", ReadOnly),
            ("/w/a/b/secret", Closed),
            ("/w/d", Closed),
            ("/w/d/e", ReadOnly),
            ("/w/f", Keep),
            ("/w/f/g", ReadOnly),
        ];
        assert_eq!(pruned(&masks), ["/w/a", "/w/a/b/secret", "/w/d", "/w/f", "/w/f/g"]);
    }

    #[test]
    fn the_stronger_mask_counts() {
        let mut masks = Masks::default();
        masks.add(Path::new("/w/a"), MaskKind::Closed);
        masks.add(Path::new("/w/a"), MaskKind::Keep);
        assert_eq!(masks.iter().next().unwrap().1, MaskKind::Closed);
    }
}
