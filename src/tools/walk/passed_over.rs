//! Collects what a search has passed over, so that an empty answer can tell of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::permissions::HiddenFiles;
use crate::sync;
use crate::text::{printable_path, shortened};
use crate::workspace::{ResolveError, Workspace};

/// Names of each kind that an answer gives. Further ones are only counted.
const MAX_NAMED: usize = 3;

/// Links whose targets are looked up, for an answer that found nothing. Each takes a few calls of
/// the kernel.
const MAX_LINKS: usize = 1000;

/// Bytes of a path in a note.
const MAX_PATH_SHOWN: usize = 120;

/// What a search has passed over.
#[derive(Debug, Default)]
pub(crate) struct PassedOver {
    kinds: Mutex<BTreeMap<PassedKind, Sample>>,
    /// The first links by their paths below the searched directory, each with whether the search
    /// wants it if it leads to a file.
    links: Mutex<BTreeMap<PathBuf, bool>>,
    has_visited: AtomicBool,
}

/// Why a search passes over something. Notes stand in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PassedKind {
    /// Files and directories that ignore files leave out. A directory counts as one.
    Ignored,
    /// Directories of version control systems.
    VersionControl,
    LinkedDirectory,
    LinkedFile,
    /// Links that lead out of the workspace.
    LinkOutside,
    /// Files with NUL bytes.
    Binary,
    /// Files that were searched in an encoding that is a guess.
    Guessed,
}

/// The first paths of a kind, and the number of all.
#[derive(Debug, Default)]
struct Sample {
    first: BTreeSet<PathBuf>,
    total: usize,
}

/// Names a path below the searched directory as the answer does.
pub(crate) type Shown<'a> = &'a dyn Fn(&Path) -> String;

impl PassedOver {
    pub(crate) fn note(&self, kind: PassedKind, relative: &Path) {
        let mut kinds = sync::lock(&self.kinds);
        kinds.entry(kind).or_default().add(relative);
    }

    pub(crate) fn note_link(&self, relative: &Path, is_wanted_as_file: bool) {
        let mut links = sync::lock(&self.links);
        links.insert(relative.to_owned(), is_wanted_as_file);
        if links.len() > MAX_LINKS {
            links.pop_last();
        }
    }

    /// Records that the search has looked at a file.
    pub(crate) fn visited(&self) {
        // Most threads only read it, so that it stays in the caches of all processors.
        if !self.has_visited() {
            self.has_visited.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn has_visited(&self) -> bool {
        self.has_visited.load(Ordering::Relaxed)
    }

    /// Finds out which of the links lead to directories and files that the search would have
    /// looked at. Blocks. Links that lead nowhere, or to what is hidden, do not count. Of those that
    /// lead out of the workspace nothing is told but that they do.
    pub(crate) fn follow_links(&self, top: &Path, workspace: &Workspace, hidden: &HiddenFiles) {
        let links = std::mem::take(&mut *sync::lock(&self.links));
        for (relative, is_wanted_as_file) in links {
            let target = match workspace.resolve(&top.join(&relative)) {
                Ok(target) => target,
                Err(ResolveError::Outside { .. }) => {
                    self.note(PassedKind::LinkOutside, &relative);
                    continue;
                }
                Err(_) => continue,
            };
            let Ok(metadata) = target.metadata() else { continue };
            if hidden.covers(target.real_path(), metadata.is_dir()) {
                continue;
            }
            if metadata.is_dir() {
                self.note(PassedKind::LinkedDirectory, &relative);
            } else if metadata.is_file() && is_wanted_as_file {
                self.note(PassedKind::LinkedFile, &relative);
            }
        }
    }

    /// One line for each kind. `advice` says what to do about it.
    pub(crate) fn lines(
        &self,
        shown: Shown<'_>,
        advice: impl Fn(PassedKind) -> &'static str,
    ) -> Vec<String> {
        let kinds = self.kinds();
        kinds.iter().map(|(kind, sample)| sample.line(*kind, shown, advice(*kind))).collect()
    }

    /// The line of one kind, if there is anything of it.
    pub(crate) fn line(&self, kind: PassedKind, shown: Shown<'_>, advice: &str) -> Option<String> {
        self.kinds().get(&kind).map(|sample| sample.line(kind, shown, advice))
    }

    /// The numbers, for programs.
    pub(crate) fn counts(&self) -> Value {
        let kinds = self.kinds();
        let count = |kind| kinds.get(&kind).map_or(0, |sample: &Sample| sample.total);
        json!({
            "ignored": count(PassedKind::Ignored),
            "version_control": count(PassedKind::VersionControl),
            "linked_directories": count(PassedKind::LinkedDirectory),
            "linked_files": count(PassedKind::LinkedFile),
            "links_outside": count(PassedKind::LinkOutside),
            "binary": count(PassedKind::Binary),
            "guessed_encoding": count(PassedKind::Guessed),
        })
    }

    fn kinds(&self) -> MutexGuard<'_, BTreeMap<PassedKind, Sample>> {
        sync::lock(&self.kinds)
    }
}

impl Sample {
    fn add(&mut self, path: &Path) {
        self.total += 1;
        let is_in = self.first.len() < MAX_NAMED
            || self.first.last().is_some_and(|last| path < last.as_path());
        if is_in {
            self.first.insert(path.to_owned());
        }
        if self.first.len() > MAX_NAMED {
            self.first.pop_last();
        }
    }

    fn line(&self, kind: PassedKind, shown: Shown<'_>, advice: &str) -> String {
        let mut names: Vec<String> = self
            .first
            .iter()
            .map(|path| shortened(&shown(path), MAX_PATH_SHOWN).into_owned())
            .collect();
        if self.total > names.len() {
            names.push("…".to_owned());
        }
        let (what, before) = (kind.noun(self.total), kind.beginning());
        format!("({before}: {} {what}: {}; {advice})", self.total, names.join(", "))
    }
}

impl PassedKind {
    fn noun(self, count: usize) -> &'static str {
        let is_one = count == 1;
        match self {
            Self::Ignored if is_one => "ignored entry",
            Self::Ignored => "ignored entries",
            Self::VersionControl if is_one => "version control directory",
            Self::VersionControl => "version control directories",
            Self::LinkedDirectory if is_one => "linked directory",
            Self::LinkedDirectory => "linked directories",
            Self::LinkedFile if is_one => "linked file",
            Self::LinkedFile => "linked files",
            Self::LinkOutside if is_one => "link out of the workspace",
            Self::LinkOutside => "links out of the workspace",
            Self::Binary if is_one => "binary file",
            Self::Binary => "binary files",
            Self::Guessed if is_one => "file",
            Self::Guessed => "files",
        }
    }

    fn beginning(self) -> &'static str {
        match self {
            Self::Guessed => "read in a guessed encoding",
            _ => "passed over",
        }
    }
}

/// A path relative to another one, as a note names it.
pub(crate) fn below(directory: &Path, relative: &Path) -> String {
    let path = if relative.as_os_str().is_empty() {
        directory.to_owned()
    } else {
        directory.join(relative)
    };
    printable_path(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_names_are_told_and_all_are_counted() {
        let passed = PassedOver::default();
        for name in ["d", "b", "e", "a", "c"] {
            passed.note(PassedKind::Ignored, Path::new(name));
        }
        passed.note(PassedKind::Guessed, Path::new("x.c"));
        let lines = passed.lines(&|path| path.display().to_string(), |_| "look");
        assert_eq!(
            lines,
            [
                "(passed over: 5 ignored entries: a, b, c, …; look)",
                "(read in a guessed encoding: 1 file: x.c; look)",
            ]
        );
        assert_eq!(passed.counts()["ignored"], 5);
    }
}
