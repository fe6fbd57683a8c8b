//! Walks a directory tree as ripgrep does, from an open directory, on several threads.
//!
//! Every name is opened in the directory in which it was listed, and no link is followed. So a
//! concurrent change cannot lead the walk out of the tree. The walk itself leaves out hidden
//! files, so that no visitor sees one.

use std::borrow::Cow;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use ignore::overrides::Override;
use ignore::types::Types;

use super::Bounds;
use super::above::above;
use super::ignore_files::{Reader, rules_of_a_walk};
use super::node::{Kept, Node, OpenDirectories};
use super::passed_over::PassedOver;
use super::queue::Queue;
use super::rules::Rules;
use crate::look_alike::{normal_form, normal_path};
use crate::permissions::{HiddenFiles, SearchScope};
use crate::workspace::{Directory, Workspace};

pub(crate) use entry::{Entry, LeftOut};
use worker::Worker;

mod entry;
mod worker;

/// Directories of version control systems. Their files are internal, and nobody searches them.
const VCS_DIRECTORIES: [&[u8]; 6] = [b".git", b".svn", b".hg", b".bzr", b".jj", b".sl"];

/// Which entries of a tree a search wants.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    /// Whether to use ignore files even if they leave out the searched directory itself. If
    /// not, they are then disregarded.
    pub(crate) enters_ignored: bool,
    pub(crate) disregards_ignores: bool,
    /// Globs, which take precedence over ignore files.
    pub(crate) globs: Option<FilterGlobs>,
    /// The path that globs see in place of the searched directory's: that which was asked for,
    /// where it leads through links. Ignore files see the real one, as in ripgrep.
    pub(crate) globs_top: Option<PathBuf>,
    pub(crate) types: Option<Types>,
    /// The only directory to enter at each level, from the top.
    pub(crate) inside: Vec<String>,
    pub(crate) max_depth: Option<usize>,
}

/// Globs that entries must match, or must not.
#[derive(Clone, Debug)]
pub(crate) struct FilterGlobs {
    pub(crate) matcher: Override,
    /// Whether they, and the directory that they are relative to, are in Unicode's normal form.
    /// Then paths are compared in it as well.
    pub(crate) are_normal: bool,
}

/// A running walk. Each of its threads calls [`Walk::work`].
#[derive(Debug)]
pub(crate) struct Walk {
    bounds: Arc<Bounds>,
    filter: Filter,
    excluded: HiddenFiles,
    /// The path of the top directory, without a slash at its end.
    top: Vec<u8>,
    queue: Queue<Work>,
    open: OpenDirectories,
    rules_left: AtomicUsize,
    /// Whether ignore files leave out the searched directory, or all that is in it.
    pub(crate) is_in_ignored: bool,
    pub(crate) passed_over: PassedOver,
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Wanted,
    LeftOut(LeftOut),
    /// The search does not ask for it, or may not know of it.
    Unwanted,
}

#[derive(Debug)]
enum Work {
    Top(Kept, Option<Arc<Rules>>),
    Directory(Arc<Node>, CString),
    /// The rest of a directory that has been listed in part.
    Rest(Arc<Node>, Kept),
    Files(Arc<Node>, Arc<Directory>, Vec<CString>),
}

impl Walk {
    /// Prepares a walk of the scope. Reads the ignore files from the root that holds the scope
    /// down to the scope.
    pub(crate) fn open(
        scope: &SearchScope,
        mut filter: Filter,
        bounds: Arc<Bounds>,
    ) -> io::Result<Self> {
        let (directory, (root_path, root), excluded) = scope.open()?;
        let rules_left = rules_of_a_walk();
        let mut rules = None;
        let mut is_in_ignored = false;
        if !filter.disregards_ignores {
            let reader = Reader { bounds: &bounds, rules_left: &rules_left, is_too_deep: false };
            let above = above(root_path, root, scope.real_path(), &filter.inside, &reader);
            rules = above.rules;
            is_in_ignored = above.leaves_out || above.leaves_out_entries;
            filter.disregards_ignores = above.leaves_out && !filter.enters_ignored;
        }
        let open = OpenDirectories::default();
        let kept = open.keep(&Arc::new(directory)).ok_or(io::ErrorKind::Other)?;
        let top = scope.real_path().as_os_str().as_bytes();
        let top = top.strip_suffix(b"/").unwrap_or(top).to_owned();
        let queue = Queue::new(Work::Top(kept, rules));
        let passed_over = PassedOver::default();
        Ok(Self {
            bounds,
            filter,
            excluded,
            top,
            queue,
            open,
            rules_left,
            is_in_ignored,
            passed_over,
        })
    }

    /// Walks until no thread has work left, or time is up.
    pub(crate) fn work(&self, visit: impl FnMut(&Entry<'_>)) {
        let mut worker = Worker::new(self, visit);
        self.queue.serve(|| self.bounds.has_ended(), |work| worker.step(work));
    }

    /// Looks up where the links lead that were passed over. Blocks.
    pub(crate) fn follow_links(&self, workspace: &Workspace) {
        let top = if self.top.is_empty() { b"/" } else { self.top.as_slice() };
        let top = Path::new(OsStr::from_bytes(top));
        self.passed_over.follow_links(top, workspace, &self.excluded);
    }

    pub(crate) fn disregards_ignores(&self) -> bool {
        self.filter.disregards_ignores
    }

    /// The only directory that it enters at each level, from the top.
    pub(crate) fn inside(&self) -> &[String] {
        &self.filter.inside
    }

    /// What is left out is only told of where no rule hides that it is there.
    fn judge(&self, path: &Path, name: &[u8], is_directory: bool, node: &Node) -> Verdict {
        if !self.is_on_the_path(name, node.depth) {
            return Verdict::Unwanted;
        }
        let is_named = node.depth < self.filter.inside.len();
        let verdict = match VCS_DIRECTORIES.contains(&name) && !is_named {
            true if is_directory => Verdict::LeftOut(LeftOut::VersionControl),
            true => Verdict::Unwanted,
            false => self.filtered(path, is_directory, node.rules.as_deref()),
        };
        if verdict != Verdict::Unwanted && self.excluded.covers(path, is_directory) {
            return Verdict::Unwanted;
        }
        verdict
    }

    /// The path below the searched directory.
    fn relative<'p>(&self, path: &'p Path) -> &'p Path {
        Path::new(OsStr::from_bytes(&path.as_os_str().as_bytes()[self.top.len() + 1..]))
    }

    /// Whether an entry at this level may lead to a match.
    fn is_on_the_path(&self, name: &[u8], level: usize) -> bool {
        self.filter.inside.get(level).is_none_or(|expected| {
            expected.as_bytes() == name || normal_form(expected.as_bytes()) == normal_form(name)
        })
    }

    /// What globs, ignore files and types say of an entry. The order is that of ripgrep.
    fn filtered(&self, path: &Path, is_directory: bool, rules: Option<&Rules>) -> Verdict {
        if let Some(globs) = &self.filter.globs {
            let seen = match &self.filter.globs_top {
                Some(top) => Cow::Owned(top.join(self.relative(path))),
                None => Cow::Borrowed(path),
            };
            let seen = if globs.are_normal { normal_path(&seen) } else { seen };
            let found = globs.matcher.matched(seen, is_directory);
            if !found.is_none() {
                return if found.is_ignore() { Verdict::Unwanted } else { Verdict::Wanted };
            }
        }
        let is_ignored = rules.is_some_and(|rules| rules.leave_out(path, is_directory));
        let types = self.filter.types.as_ref();
        if types.is_some_and(|types| types.matched(path, is_directory).is_ignore()) {
            return Verdict::Unwanted;
        }
        if is_ignored { Verdict::LeftOut(LeftOut::Ignored) } else { Verdict::Wanted }
    }
}
