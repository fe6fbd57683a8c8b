//! Puts together what is masked below the roots: one mask for a path, none that undoes another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::confinement::{Mask, MaskKind};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placeholder {
    Directory,
    /// A directory in which nobody but root finds anything.
    ClosedDirectory,
    /// A file with this text.
    File(&'static str),
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
                    MaskKind::EmptyFile | MaskKind::EmptyDirectory => true,
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

    pub(super) fn to_list(&self) -> Vec<Mask> {
        let masks = self.0.iter();
        masks.map(|(path, entry)| Mask { place: path.as_path().into(), kind: entry.kind }).collect()
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
        let list = all.pruned().to_list().into_iter();
        list.map(|mask| mask.place.path().display().to_string()).collect()
    }

    #[test]
    fn nothing_below_a_read_only_directory_is_made_writable_and_nothing_hidden_is_shown() {
        use MaskKind::{EmptyDirectory, EmptyFile, Keep, ReadOnly};
        let masks = [
            ("/w/a", ReadOnly),
            ("/w/a/b", Keep),
            ("/w/a/b/c", ReadOnly),
            ("/w/a/b/secret", EmptyFile),
            ("/w/d", EmptyDirectory),
            ("/w/d/e", ReadOnly),
            ("/w/f", Keep),
            ("/w/f/g", ReadOnly),
        ];
        assert_eq!(pruned(&masks), ["/w/a", "/w/a/b/secret", "/w/d", "/w/f", "/w/f/g"]);
    }

    #[test]
    fn the_stronger_mask_counts() {
        let mut masks = Masks::default();
        masks.add(Path::new("/w/a"), MaskKind::EmptyFile);
        masks.add(Path::new("/w/a"), MaskKind::Keep);
        assert_eq!(masks.to_list()[0].kind, MaskKind::EmptyFile);
    }
}
