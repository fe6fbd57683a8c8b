//! Walking a directory tree as ripgrep does, within a time and for one call.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ignore::{DirEntry, WalkBuilder};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::disk;
use super::tool::{ToolError, ToolOutput};
use crate::permissions::Hidden;

/// Their contents are the tools' own, never what a person would look for.
const VCS_DIRECTORIES: [&str; 6] = [".git", ".svn", ".hg", ".bzr", ".jj", ".sl"];

/// A search that takes longer is better narrowed; the answer says so.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Longer patterns are a model gone astray, and deep ones overflow the parser.
const MAX_PATTERN_CHARS: usize = 1024;
const MAX_BRACE_DEPTH: usize = 10;

/// How a tool searches.
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) hidden: Hidden,
    pub(crate) time_limit: Duration,
}

/// Where one search may not look, until when it may go on, and what it could not look
/// at.
#[derive(Debug)]
pub(crate) struct Bounds {
    hidden: Hidden,
    deadline: Instant,
    /// Cancelled, or nobody waits any more. Asking the token itself for each file
    /// would make its lock a bottleneck.
    stopped: AtomicBool,
    timed_out: AtomicBool,
    unreadable: AtomicUsize,
}

/// Stops the work when the call that waits for it is dropped.
struct StopOnDrop(Arc<Bounds>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }
}

impl Search {
    pub(crate) fn new(hidden: Hidden) -> Self {
        Self { hidden, time_limit: TIME_LIMIT }
    }

    /// Runs work until it is done or has seen that its bounds are over.
    pub(crate) async fn run(
        &self,
        cancelled: &CancellationToken,
        work: impl FnOnce(&Bounds) -> Result<ToolOutput, ToolError> + Send + 'static,
    ) -> Result<ToolOutput, ToolError> {
        let bounds = Arc::new(Bounds::new(self));
        let _guard = StopOnDrop(Arc::clone(&bounds));
        let worker = disk::blocking(move || work(&bounds));
        tokio::select! {
            biased;
            () = cancelled.cancelled() => Err(ToolError::Cancelled),
            done = worker => done,
        }
    }
}

impl Bounds {
    fn new(search: &Search) -> Self {
        Self {
            hidden: search.hidden.clone(),
            deadline: Instant::now() + search.time_limit,
            stopped: AtomicBool::new(false),
            timed_out: AtomicBool::new(false),
            unreadable: AtomicUsize::new(0),
        }
    }

    /// Whether to stop; remembers that time ran out.
    pub(crate) fn is_over(&self) -> bool {
        if self.stopped.load(Ordering::Relaxed) {
            return true;
        }
        let late = Instant::now() >= self.deadline;
        if late {
            self.timed_out.store(true, Ordering::Relaxed);
        }
        late
    }

    pub(crate) fn note_unreadable(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }

    /// What the answer must say besides its results.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.timed_out() {
            notes.push(
                "(incomplete: the search ran out of time; narrow the path or the pattern)"
                    .to_owned(),
            );
        }
        match self.unreadable.load(Ordering::Relaxed) {
            0 => {}
            1 => notes.push("(1 file or directory could not be read)".to_owned()),
            n => notes.push(format!("({n} files or directories could not be read)")),
        }
        notes
    }
}

/// Whether ignore files count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ignores {
    Honoured,
    Disregarded,
}

/// A walk below `root` that sees hidden files, follows no links and leaves out what
/// ignore files, version control and `bounds` say, and what is not `wanted`.
///
/// A user's global ignore file does not count: the answer depends on the tree alone.
pub(crate) fn tree(
    root: &Path,
    ignores: Ignores,
    bounds: &Bounds,
    wanted: impl Fn(&DirEntry) -> bool + Send + Sync + 'static,
) -> WalkBuilder {
    walk(root, ignores, bounds.hidden.clone(), wanted)
}

fn walk(
    root: &Path,
    ignores: Ignores,
    hidden: Hidden,
    wanted: impl Fn(&DirEntry) -> bool + Send + Sync + 'static,
) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder.standard_filters(ignores == Ignores::Honoured).hidden(false).git_global(false);
    if ignores == Ignores::Honoured {
        builder.add_custom_ignore_filename(".rgignore");
    }
    builder.follow_links(false).filter_entry(move |entry| {
        entry.depth() == 0
            || (!is_vcs_directory(entry) && wanted(entry) && !hidden.covers(entry.path()))
    });
    builder
}

/// Whether an ignore file leaves out `path` itself, seen from `top` above it.
pub(crate) fn is_ignored(path: &Path, top: &Path) -> bool {
    path.ancestors().take_while(|ancestor| *ancestor != top).any(is_left_out)
}

fn is_left_out(path: &Path) -> bool {
    let Some(parent) = path.parent() else { return false };
    let own = path.to_owned();
    let is_own = move |entry: &DirEntry| entry.path() == own;
    !walk(parent, Ignores::Honoured, Hidden::nothing(), is_own)
        .max_depth(Some(1))
        .build()
        .flatten()
        .any(|entry| entry.path() == path)
}

/// Refuses globs that would overwhelm the parser.
pub(crate) fn check_pattern(pattern: &str) -> Result<(), ToolError> {
    if pattern.chars().nth(MAX_PATTERN_CHARS).is_some() {
        return Err(ToolError::InvalidInput(format!(
            "the glob is longer than {MAX_PATTERN_CHARS} characters"
        )));
    }
    let (mut depth, mut deepest) = (0_usize, 0);
    for c in pattern.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest > MAX_BRACE_DEPTH {
        return Err(ToolError::InvalidInput(format!(
            "the glob has more than {MAX_BRACE_DEPTH} levels of braces"
        )));
    }
    Ok(())
}

fn is_vcs_directory(entry: &DirEntry) -> bool {
    VCS_DIRECTORIES.iter().any(|name| entry.file_name() == *name)
}
