//! Notes what of the repositories below the roots programs obey, so that a later look can tell
//! what has come or changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::finds::{FindKind, Finds};
use super::git_index::{Gitlinks, Unreadable};
use super::{Snapshot, kind};
use crate::file_id::FileVersion;
use crate::processes::plain_file;

/// The file in which git keeps the rest of a rebase.
const TODO: &str = "rebase-merge/git-rebase-todo";

/// Directories of a repository in which each file is a remote.
const REMOTES: [&str; 2] = ["remotes", "branches"];

/// More of a rebase than a person would write.
const MAX_TODO: u64 = 1 << 20;

/// What an index holds, and what it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    /// `None`: there is no file.
    pub(super) version: Option<FileVersion>,
    pub(super) gitlinks: Arc<Result<Gitlinks, Unreadable>>,
}

/// What was found besides control files.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// The directories at the top of which there is a `.git`.
    pub(super) worktrees: BTreeSet<PathBuf>,
    /// The directories that git takes for repositories without one.
    pub(super) bare: BTreeSet<PathBuf>,
    /// The directories of git, by which each has its index.
    pub(super) indexes: BTreeMap<PathBuf, Index>,
    /// What settings name and is missing.
    pub(super) missing_targets: BTreeSet<PathBuf>,
    /// Set-user-id and set-group-id files.
    pub(super) set_id: BTreeSet<PathBuf>,
    /// There was more than can be looked at.
    pub(super) is_cut: bool,
}

/// What an [`Observed`] comes to, with the state of the files in it.
#[derive(Debug, Default)]
pub(super) struct ObservedState {
    observed: Observed,
    remotes: Snapshot,
    todos: Snapshot,
}

impl Observed {
    /// Looks at the files of each repository.
    pub(super) fn with_files(self) -> ObservedState {
        let directories = || self.indexes.keys();
        let in_remotes = directories().flat_map(|git| REMOTES.map(|name| git.join(name)));
        // With a slash at the end, the directory to which a link leads is looked into as well.
        let in_remotes = in_remotes.flat_map(|path| [path.join(""), path]);
        let remotes = Snapshot::take(&in_remotes.collect::<Vec<_>>());
        let todos = Snapshot::take(&directories().map(|git| git.join(TODO)).collect::<Vec<_>>());
        ObservedState { observed: self, remotes, todos }
    }
}

impl ObservedState {
    /// The directories that have become repositories. A person is told of each, so nothing in it
    /// is told besides. Of a root that is its `.git` alone.
    pub(super) fn made_repositories(&self, now: &Self, roots: &[PathBuf]) -> Vec<PathBuf> {
        let mut new = self.new_repositories(now, roots);
        // What else lies in a root is told by itself.
        new.retain(|(kind, path)| *kind != FindKind::BareRepository || !roots.contains(path));
        new.into_iter().map(|(_, path)| path).collect()
    }

    fn new_repositories(&self, now: &Self, roots: &[PathBuf]) -> Vec<(FindKind, PathBuf)> {
        let worktrees = now.observed.worktrees.difference(&self.observed.worktrees);
        let worktrees = worktrees.map(|directory| {
            if roots.contains(directory) {
                (FindKind::TopRepository, directory.join(super::REPOSITORY))
            } else {
                (FindKind::NestedRepository, directory.clone())
            }
        });
        let bare = now.observed.bare.difference(&self.observed.bare);
        worktrees.chain(bare.map(|it| (FindKind::BareRepository, it.clone()))).collect()
    }

    /// What has come or changed since.
    pub(super) fn compare(&self, now: &Self, roots: &[PathBuf], finds: &mut Finds) {
        let made = self.made_repositories(now, roots);
        let is_in_made = |path: &Path| made.iter().any(|made| path.starts_with(made));
        for (kind, path) in self.new_repositories(now, roots) {
            finds.add(kind, path);
        }
        self.compare_indexes(now, is_in_made, finds);
        for path in self.remotes.changed(&now.remotes) {
            if kind(&path).is_some() && !is_in_made(&path) {
                finds.add(FindKind::Remote, path);
            }
        }
        for path in self.todos.changed(&now.todos) {
            if runs_commands(&path) {
                finds.add(FindKind::RebaseTodo, path);
            }
        }
        for path in &self.observed.missing_targets {
            if fs::symlink_metadata(path).is_ok() {
                finds.add(FindKind::SettingsTarget, path.clone());
            }
        }
        for path in now.observed.set_id.difference(&self.observed.set_id) {
            finds.add(FindKind::SetId, path.clone());
        }
        finds.is_cut = now.observed.is_cut;
    }

    fn compare_indexes(&self, now: &Self, is_in_made: impl Fn(&Path) -> bool, finds: &mut Finds) {
        let none = Gitlinks::new();
        for (git, index) in &now.observed.indexes {
            let before = self.observed.indexes.get(git);
            let is_same = before.is_some_and(|before| before.version == index.version);
            if is_same || is_in_made(git) {
                continue;
            }
            let before = before.map(|before| &*before.gitlinks);
            match &*index.gitlinks {
                Err(Unreadable) => finds.add(FindKind::UnreadIndex, git.join("index")),
                Ok(gitlinks) => {
                    // All are new where it is not known which there were.
                    let before = before.and_then(|before| before.as_ref().ok()).unwrap_or(&none);
                    let top = worktree(git);
                    for gitlink in gitlinks.difference(before) {
                        finds.add(FindKind::Gitlink, top.join(gitlink));
                    }
                }
            }
        }
    }
}

/// The directory in which paths of the index begin, as far as the name tells. Else git's own.
pub(super) fn worktree(git: &Path) -> &Path {
    let is_usual = git.file_name().is_some_and(|name| name == super::REPOSITORY);
    git.parent().filter(|_| is_usual).unwrap_or(git)
}

/// Whether the rest of a rebase runs commands. What is too long to read may, and what cannot be
/// read: a link leads to what anybody can change later.
fn runs_commands(path: &Path) -> bool {
    let text = match plain_file::read(path, MAX_TODO) {
        Ok(text) => text,
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    let is_command = |line: &[u8]| {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        words.next().is_some_and(|word| matches!(word, b"exec" | b"x" | b"-x"))
    };
    text.len() as u64 == MAX_TODO || text.split(|byte| *byte == b'\n').any(is_command)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn a_rebase_runs_commands_by_a_line_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("todo");
        let check = |text: &str, expected: bool| {
            fs::write(&path, text).unwrap();
            assert_eq!(runs_commands(&path), expected, "{text:?}");
        };
        check("pick 1234 exec this\nexecute\n# exec x\n", false);
        check("pick 1234 a\nexec make\n", true);
        check("  \tx make", true);
        check("x\tmake\r\n", true);
        check(&"# a long comment\n".repeat(80_000), true);
        fs::remove_file(&path).unwrap();
        assert!(!runs_commands(&path));
        std::os::unix::fs::symlink("missing", &path).unwrap();
        assert!(runs_commands(&path));
        let pipe = directory.path().join("pipe");
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        assert!(runs_commands(&pipe));
    }

    #[test]
    fn paths_of_an_index_begin_beside_git_s_directory() {
        assert_eq!(worktree(Path::new("/w/.git")), Path::new("/w"));
        assert_eq!(worktree(Path::new("/w/.git/worktrees/x")), Path::new("/w/.git/worktrees/x"));
    }
}
