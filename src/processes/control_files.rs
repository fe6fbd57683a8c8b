//! Finds the files below the roots that other programs obey, and says how each is protected: what
//! a command puts there would run later, outside of its sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, FileType};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use self::survey::Holder;
use super::confinement::MaskKind;
use super::linked_repository::LinkedRepository;
use super::masks::{Masks, Placeholder};
use crate::protected_names::REPOSITORY;

pub(crate) use self::finds::{FindKind, Finds};
pub(super) use self::look::LookBefore;
use self::observed::Observed;
use self::snapshot::Snapshot;
pub(super) use self::survey::Survey;

mod finds;
mod git_index;
mod look;
mod observed;
mod repository;
mod snapshot;
mod survey;

/// What a command may not make at the top of a root. Nothing else that is missing is shown: a
/// program would find what is not there.
const KEPT_MISSING: [&str; 2] = [".claude", ".mcp.json"];

/// What protects the control files of these roots.
#[derive(Debug)]
pub(super) struct ControlFiles {
    pub(super) masks: Masks,
    /// Those that are symbolic links. Nothing can be mounted on a link, so a command can put
    /// another file in its place.
    pub(super) links: Vec<PathBuf>,
    roots: Vec<PathBuf>,
    /// Repositories of roots that lie outside of them all.
    linked: Vec<LinkedRepository>,
    /// What the person's own settings of git name for every repository.
    of_person: Vec<PathBuf>,
    repositories: BTreeSet<PathBuf>,
    /// What else of repositories other programs obey.
    observed: Observed,
    /// The directories of git whose index was not read yet, each with the directory in which the
    /// paths of the index begin.
    unread: BTreeMap<PathBuf, Option<PathBuf>>,
}

impl ControlFiles {
    /// Looks at the disk. `roots` have no links in them, and `linked` are their repositories that
    /// lie in none of them. `of_person` are paths that git obeys in every repository.
    pub(super) fn find(
        roots: &[PathBuf],
        linked: Vec<LinkedRepository>,
        of_person: Vec<PathBuf>,
        survey: &Survey,
    ) -> Self {
        let mut found = Self {
            masks: Masks::default(),
            links: Vec::new(),
            roots: roots.to_vec(),
            linked,
            of_person,
            repositories: BTreeSet::new(),
            observed: Observed::default(),
            unread: BTreeMap::new(),
        };
        found.roots.extend(found.linked.iter().map(|linked| linked.directory.clone()));
        for root in roots {
            found.top(root);
            let surveyed = survey.look(root);
            for holder in &surveyed.holders {
                found.holder(holder);
            }
            found.observed.set_id.extend(surveyed.set_id);
            found.observed.is_cut |= surveyed.is_cut;
        }
        for linked in found.linked.clone() {
            found.linked_repository(&linked);
        }
        found.indexes(survey);
        found
    }

    /// Protects what a directory holds.
    fn holder(&mut self, holder: &Holder) {
        let Holder { directory, listing } = holder;
        for name in &listing.controls {
            self.present(&directory.join(name));
        }
        if listing.has_repository {
            self.worktree(directory);
        }
        if listing.is_bare {
            self.observed.bare.insert(directory.clone());
            self.git_directory(directory, None);
        }
    }

    /// Those that exist, and can be watched.
    pub(super) fn present_paths(&self) -> Vec<PathBuf> {
        let masked = self.masks.existing(MaskKind::ReadOnly).map(Path::to_owned);
        masked.chain(self.links.iter().cloned()).collect()
    }

    /// Closes a path because a rule says so, or because it may hold secrets. It cannot be moved to
    /// where the next command would read it.
    pub(super) fn close(&mut self, path: &Path) {
        self.masks.add(path, MaskKind::Closed);
        self.keep_above(path);
    }

    /// Makes a path read-only because a rule says so.
    pub(super) fn deny_writing(&mut self, path: &Path) {
        self.masks.add(path, MaskKind::ReadOnly);
        self.keep_above(path);
    }

    /// Protects the few names at the top of a root that may not come either. A missing repository
    /// may: then it is told.
    fn top(&mut self, root: &Path) {
        if kind(root).is_none_or(|kind| !kind.is_dir()) {
            return;
        }
        for name in KEPT_MISSING {
            // A directory for a missing file too: git takes no notice of an empty one, and would
            // add an empty file.
            self.protect(&root.join(name), Placeholder::Directory);
        }
    }

    /// Protects one path. A missing one becomes a placeholder, and so does its directory.
    fn protect(&mut self, path: &Path, placeholder: Placeholder) {
        let Some((parent, name)) = path.parent().zip(path.file_name()) else { return };
        if let Some(shut) = shut_above(path) {
            // What it holds cannot be told. With its mode kept, no command can enter it either.
            return self.present(&shut);
        }
        if !self.roots.iter().any(|root| root == parent) {
            match kind(parent) {
                // With its name free, a command could move it away and make another one.
                Some(kind) if kind.is_dir() => self.keep(parent),
                Some(kind) if kind.is_symlink() => {
                    let target = self.link(parent).filter(|target| target.is_dir());
                    let Some(target) = target.filter(|target| target != parent) else { return };
                    return self.protect(&target.join(name), placeholder);
                }
                Some(_) => return,
                None => self.masks.add_missing(parent, MaskKind::Keep, Placeholder::Directory),
            }
        }
        match kind(path) {
            None => self.masks.add_missing(path, MaskKind::ReadOnly, placeholder),
            Some(_) => self.present(path),
        }
    }

    /// Protects what exists. Of a link, where it leads to.
    fn present(&mut self, path: &Path) {
        let path = match kind(path) {
            Some(kind) if kind.is_symlink() => match self.link(path) {
                Some(target) => target,
                None => return,
            },
            Some(_) => path.to_owned(),
            None => return,
        };
        self.masks.add(&path, MaskKind::ReadOnly);
        self.keep_above(&path);
    }

    /// Notes a link. Returns what it leads to, if a command could change that.
    fn link(&mut self, path: &Path) -> Option<PathBuf> {
        if !self.links.iter().any(|known| known == path) {
            self.links.push(path.to_owned());
        }
        self.keep_above(path);
        let target = fs::canonicalize(path).ok()?;
        // A whole root is not made read-only because a link leads to it.
        let is_inside = self.roots.iter().any(|root| target.starts_with(root) && target != *root);
        is_inside.then_some(target)
    }

    /// Keeps a directory and those above it from being moved away.
    fn keep(&mut self, path: &Path) {
        if self.roots.iter().any(|root| root != path && path.starts_with(root)) {
            self.masks.add(path, MaskKind::Keep);
            self.keep_above(path);
        }
    }

    /// A mount stays on its file when a directory above that is moved, and then another file can
    /// be put where it was. So none of them can be moved.
    fn keep_above(&mut self, path: &Path) {
        let outermost = self.roots.iter().filter(|root| path.starts_with(root));
        let Some(root) = outermost.min_by_key(|root| root.as_os_str().len()).cloned() else {
            return;
        };
        for directory in path.ancestors().skip(1).take_while(|directory| *directory != root) {
            self.masks.add(directory, MaskKind::Keep);
        }
    }
}

/// The nearest directory above a path that this user cannot enter; `None` if the path can be
/// reached, or is missing.
fn shut_above(path: &Path) -> Option<PathBuf> {
    let is_shut = |path: &Path| {
        let error = fs::symlink_metadata(path).err();
        error.is_some_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    let mut above = path.ancestors();
    let shut = above.find(|path| !is_shut(path))?;
    (shut != path).then(|| shut.to_owned())
}

fn kind(path: &Path) -> Option<FileType> {
    Some(fs::symlink_metadata(path).ok()?.file_type())
}

#[cfg(test)]
mod tests;
