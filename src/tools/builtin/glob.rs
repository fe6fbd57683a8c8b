//! Finds files by name, newest first.

use std::cmp::Reverse;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::{DirEntry, WalkState};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::task;
use tokio::time::Instant;

use crate::permissions::{Permit, Reach};
use crate::text;
use crate::tools::page::Page;
use crate::tools::tool::{CallContext, Concurrency, Start, Tool, ToolError, ToolOutput};
use crate::tools::walk::{self, Bounds, Hidden, Ignores};

/// Enough to choose from; more would only crowd the model's context.
const MAX_PATHS: usize = 100;

/// What makes a part of a pattern more than a name.
const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

#[derive(Debug)]
pub(crate) struct Glob {
    hidden: Hidden,
    time_limit: Duration,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct GlobInput {
    /// Glob to match file paths against, such as `**/*.rs` or `src/**/*.{ts,tsx}`. A
    /// pattern without a slash matches names at any depth.
    pattern: String,
    /// Directory to search; the working directory if left out.
    path: Option<PathBuf>,
    /// Set to false to list files that ignore files such as .gitignore leave out.
    #[serde(default = "yes")]
    respect_gitignore: bool,
}

fn yes() -> bool {
    true
}

impl Glob {
    pub(crate) fn new(hidden: Hidden) -> Self {
        Self { hidden, time_limit: walk::TIME_LIMIT }
    }
}

impl Tool for Glob {
    type Input = GlobInput;

    const NAME: &'static str = "Glob";
    const DESCRIPTION: &'static str = "Finds files whose path matches a glob, newest first. \
        Files that .gitignore leaves out are not listed. To search file contents, use Grep.";
    const START: Start = Start::Closed;
    const MAX_RESULT_CHARS: Option<usize> = Some(30_000);

    fn concurrency(&self, _: &GlobInput) -> Concurrency {
        Concurrency::Shared
    }

    fn reach(&self, input: &GlobInput, context: &CallContext) -> Reach {
        Reach::Search(Plan::of(input, context).base)
    }

    fn headline(&self, input: &GlobInput) -> String {
        input.pattern.clone()
    }

    async fn execute(
        &self,
        input: GlobInput,
        permit: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        // Ends the walk also when this future is dropped before it is done.
        let cancelled = context.cancelled.child_token();
        let _ends_with_us = cancelled.clone().drop_guard();
        let bounds = Bounds::new(self.time_limit, cancelled);
        let hidden = self.hidden.clone();
        // The walk blocks on the disk, so it must not run on an async worker.
        task::spawn_blocking(move || find(&input, &permit, &context, &hidden, &bounds))
            .await
            .map_err(ToolError::failed)?
    }
}

/// Where to search, and for what from there.
#[derive(Debug, PartialEq)]
struct Plan {
    base: PathBuf,
    pattern: String,
    /// The pattern's leading plain directories: nothing outside them can match.
    inside: Vec<String>,
}

/// The files that matched: the newest of them, and how many there were.
struct Found {
    page: Page<(Reverse<Option<SystemTime>>, PathBuf)>,
    total: usize,
}

impl Plan {
    /// A pattern that leads elsewhere (absolute, `~`, `..`) is taken apart: its plain
    /// directories are where to search.
    fn of(input: &GlobInput, context: &CallContext) -> Self {
        let base = context.resolve(input.path.as_deref());
        let mut pattern = input.pattern.trim_start_matches("./").to_owned();
        if pattern.ends_with('/') {
            pattern.push_str("**");
        }
        let parts: Vec<&str> = pattern.split('/').collect();
        let is_plain = |part: &&&str| !part.contains(SPECIAL);
        let plain = parts[..parts.len() - 1].iter().take_while(is_plain).count();
        let prefix = Path::new("/").join(parts[..plain].join("/"));
        let leads_elsewhere = pattern.starts_with(['/', '~'])
            || prefix.components().any(|part| part == Component::ParentDir);
        if plain > 0 && leads_elsewhere {
            let directory = format!("{}/", parts[..plain].join("/"));
            let base = crate::workspace::absolute(&base, Path::new(&directory));
            return Self { base, pattern: parts[plain..].join("/"), inside: Vec::new() };
        }
        let inside = parts[..plain].iter().map(|part| (*part).to_owned()).collect();
        let pattern = if parts.len() == 1 { format!("**/{pattern}") } else { pattern };
        Self { base, pattern, inside }
    }

    fn compile(&self) -> Result<GlobSet, ToolError> {
        let invalid = |error: globset::Error| ToolError::InvalidInput(error.to_string());
        let glob =
            GlobBuilder::new(&self.pattern).literal_separator(true).build().map_err(invalid)?;
        GlobSetBuilder::new().add(glob).build().map_err(invalid)
    }
}

fn find(
    input: &GlobInput,
    permit: &Permit,
    context: &CallContext,
    hidden: &Hidden,
    bounds: &Bounds,
) -> Result<ToolOutput, ToolError> {
    walk::check_pattern(&input.pattern)?;
    let started = Instant::now();
    let plan = Plan::of(input, context);
    let matcher = plan.compile()?;
    let target = permit.target().ok_or_else(|| ToolError::failed("no directory was permitted"))?;
    let root = target.real_path();
    if !root.is_dir() {
        let path = target.path().display();
        return Err(ToolError::Failed(format!("{path} is not an existing directory")));
    }
    let found = walk_tree(root, ignores(input, root, context), plan, &matcher, hidden, bounds);
    answer(found, target.path(), bounds, started)
}

/// Ignore files do not count below a directory that they leave out itself: who names
/// it wants to see it.
fn ignores(input: &GlobInput, root: &Path, context: &CallContext) -> Ignores {
    let top = context.session.working_dir();
    let top = top.canonicalize().unwrap_or(top);
    if input.respect_gitignore && !(root.starts_with(&top) && walk::is_ignored(root, &top)) {
        Ignores::Honoured
    } else {
        Ignores::Disregarded
    }
}

fn walk_tree(
    root: &Path,
    ignores: Ignores,
    plan: Plan,
    matcher: &GlobSet,
    hidden: &Hidden,
    bounds: &Bounds,
) -> Found {
    let inside = plan.inside;
    let leads_on = move |entry: &DirEntry| {
        let expected = entry.depth().checked_sub(1).and_then(|level| inside.get(level));
        expected.is_none_or(|name| entry.file_name() == name.as_str())
    };
    let found = Mutex::new(Found { page: Page::new(MAX_PATHS), total: 0 });
    walk::tree(root, ignores, hidden, leads_on).build_parallel().run(|| {
        Box::new(|entry| {
            if bounds.is_over() {
                return WalkState::Quit;
            }
            match entry {
                Ok(entry) => consider(&entry, root, matcher, &found),
                Err(_) => bounds.note_unreadable(),
            }
            WalkState::Continue
        })
    });
    found.into_inner().expect("no walker panics")
}

fn consider(entry: &DirEntry, root: &Path, matcher: &GlobSet, found: &Mutex<Found>) {
    let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
    let Ok(relative) = entry.path().strip_prefix(root) else { return };
    if !is_file || !matcher.is_match(relative) {
        return;
    }
    // A file may vanish while we walk; one that did is no match.
    let Ok(metadata) = entry.metadata() else { return };
    let key = (Reverse(metadata.modified().ok()), relative.to_owned());
    let mut found = found.lock().expect("no walker panics");
    found.total += 1;
    if !found.page.is_closed_to(&key) {
        found.page.insert(key, b"\n".to_vec());
    }
}

fn answer(
    found: Found,
    base: &Path,
    bounds: &Bounds,
    started: Instant,
) -> Result<ToolOutput, ToolError> {
    let notes = bounds.finish()?;
    let total = found.total;
    let filenames: Vec<String> = found
        .page
        .into_keys()
        .map(|(_, path)| text::printable(base.join(path).as_os_str().as_encoded_bytes()))
        .collect();
    let mut lines = filenames.clone();
    if lines.is_empty() {
        lines.push("No files found".to_owned());
    }
    if total > filenames.len() {
        lines.push(format!("({} more; narrow the pattern)", total - filenames.len()));
    }
    lines.extend(notes);
    let structured = json!({
        "duration_ms": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "num_files": filenames.len(),
        "total": total,
        "truncated": total > filenames.len() || bounds.timed_out(),
        "filenames": filenames,
    });
    Ok(ToolOutput::text(lines.join("\n")).with(structured))
}
