//! Collects the ignore rules of a directory, and matches paths as ripgrep does.

use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::Gitignore;
use rustix::fs::FileType;

use crate::workspace::Directory;

pub(super) use reader::{Reader, rules_of_a_walk};

mod reader;

/// In order of precedence: a file beats those after it.
const NAMES: [&CStr; 3] = [c".rgignore", c".ignore", c".gitignore"];
const GIT_IGNORE: usize = 2;
const EXCLUDE: usize = 3;

/// The rules of a directory, linked to those of the directories above.
#[derive(Debug)]
pub(super) struct Rules {
    above: Option<Arc<Rules>>,
    /// The rules of each of [`NAMES`], then of `.git/info/exclude`.
    own: [Option<Gitignore>; 4],
    /// Whether this is the root of a repository. Git's rules above it do not apply in it.
    is_repository: bool,
    is_in_repository: bool,
}

/// The ignore files of a directory, with their kinds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Present {
    files: [Option<FileType>; 3],
    git: Option<FileType>,
    has_jj: bool,
}

impl Present {
    /// Notes an entry of the directory, if it matters here.
    pub(super) fn note(&mut self, name: &CStr, kind: FileType) {
        if !name.to_bytes().starts_with(b".") {
            return;
        }
        if let Some(index) = NAMES.iter().position(|known| *known == name) {
            self.files[index] = Some(kind);
        } else if name == c".git" {
            self.git = Some(kind);
        } else if name == c".jj" {
            self.has_jj = true;
        }
    }

    /// Looks up each name. For a directory that has not been listed to its end.
    pub(super) fn look(directory: &Directory) -> Self {
        let mut present = Self::default();
        for name in NAMES.into_iter().chain([c".git", c".jj"]) {
            if let Ok((_, stat)) = directory.stat(name) {
                present.note(name, FileType::from_raw_mode(stat.st_mode));
            }
        }
        present
    }

    fn is_repository(self) -> bool {
        self.git.is_some() || self.has_jj
    }

    fn is_nothing(self) -> bool {
        self.files.iter().all(Option::is_none) && !self.is_repository()
    }
}

impl Rules {
    /// The rules above a root: none, since files outside the workspace are not read. But the
    /// root may lie in a repository, and then `.gitignore` applies.
    pub(super) fn above(root: &Path) -> Option<Arc<Self>> {
        let is_in_repository = root.ancestors().skip(1).any(|directory| {
            [".git", ".jj"].iter().any(|name| directory.join(name).symlink_metadata().is_ok())
        });
        is_in_repository.then(|| {
            let own = [const { None }; 4];
            Arc::new(Self { above: None, own, is_repository: true, is_in_repository })
        })
    }

    /// The rules in `directory`, which is at `path`.
    pub(super) fn within(
        above: Option<&Arc<Self>>,
        directory: &Directory,
        path: &Path,
        present: Present,
        reader: &Reader<'_>,
    ) -> Option<Arc<Self>> {
        if present.is_nothing() {
            return above.cloned();
        }
        let is_repository = present.is_repository();
        let is_in_repository = is_repository || above.is_some_and(|above| above.is_in_repository);
        let mut own = [const { None }; 4];
        for (index, kind) in present.files.into_iter().enumerate() {
            // As in ripgrep, `.gitignore` applies in repositories only.
            let counts = index != GIT_IGNORE || is_in_repository;
            if let Some(kind) = kind.filter(|_| counts) {
                own[index] = reader.read(directory, NAMES[index], kind, path, path);
            }
        }
        if present.git == Some(FileType::Directory) {
            own[EXCLUDE] = reader.read_exclude(directory, path);
        }
        if !is_repository && own.iter().all(Option::is_none) {
            return above.cloned();
        }
        Some(Arc::new(Self { above: above.cloned(), own, is_repository, is_in_repository }))
    }

    /// Whether the rules leave out `path`, which is an entry of this directory.
    ///
    /// For each kind of ignore file, the nearest directory with a match decides. Among the
    /// kinds, the one with the highest precedence decides.
    pub(super) fn leave_out(&self, path: &Path, is_directory: bool) -> bool {
        let mut found: [Option<bool>; 4] = [None; 4];
        let mut is_same_repository = true;
        let mut here = Some(self);
        while let Some(rules) = here {
            for (index, own) in rules.own.iter().enumerate() {
                let Some(own) = own else { continue };
                let counts = index < GIT_IGNORE || is_same_repository;
                if counts && found[index].is_none() {
                    found[index] = match own.matched(path, is_directory) {
                        Match::None => None,
                        Match::Ignore(_) => Some(true),
                        Match::Whitelist(_) => Some(false),
                    };
                }
            }
            is_same_repository &= !rules.is_repository;
            here = rules.above.as_deref();
        }
        found.into_iter().flatten().next().unwrap_or(false)
    }
}

/// Drops the rules above in a loop, as a `Node` does: they are linked as deep.
impl Drop for Rules {
    fn drop(&mut self) {
        let mut next = self.above.take();
        while let Some(mut rules) = next.and_then(Arc::into_inner) {
            next = rules.above.take();
        }
    }
}
