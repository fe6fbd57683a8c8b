//! Finds files by name, newest first.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::sync;
use crate::text;
use crate::tools::answer::{AnswerText, Page};
use crate::tools::tool::{CallContext, Concurrency, StartRule, Tool, ToolError, ToolOutput};
use crate::tools::top_entries::TopEntries;
use crate::tools::walk::{self, Bounds, Entry, Filter, Job, PathGlob, Search, Walk};

mod plan;
#[cfg(test)]
mod tests;

use plan::GlobPlan;

/// Paths of one answer. More would only fill the model's context.
const MAX_PATHS: usize = 100;

/// Matching directories that the answer names if no file matched.
const MAX_DIRECTORIES: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct Glob {
    pub(in crate::tools) search: Search,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct GlobInput {
    /// Glob to match file paths against, such as `**/*.rs` or `src/**/*.{ts,tsx}`. A
    /// pattern without a slash matches names at any depth.
    pattern: String,
    /// Directory to search; the working directory if left out.
    path: Option<PathBuf>,
    /// Set to false to list files that ignore files such as .gitignore leave out.
    #[serde(default = "default_true")]
    respect_gitignore: bool,
}

fn default_true() -> bool {
    true
}

impl Tool for Glob {
    type Input = GlobInput;

    const NAME: &'static str = "Glob";
    const ACCESS: AccessKind = AccessKind::Read;
    const DESCRIPTION: &'static str = "Finds files whose path matches a glob, newest first. \
        Files that .gitignore leaves out are not listed. To search file contents, use Grep.";
    const START: StartRule = StartRule::Closed;
    const MAX_RESULT_CHARS: Option<usize> = Some(30_000);

    fn concurrency(&self, _: &GlobInput) -> Concurrency {
        Concurrency::Shared
    }

    fn access_request(&self, input: &GlobInput, context: &CallContext) -> AccessRequest {
        AccessRequest::Search(GlobPlan::from_input(input, context).base)
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
        let cancelled = context.cancelled.clone();
        let prepare = move |bounds| Listing::prepare(&input, permit, &context, bounds);
        self.search.run(&cancelled, prepare).await
    }
}

/// A running call.
#[derive(Debug)]
struct Listing {
    base: PathBuf,
    matcher: PathGlob,
    walk: Walk,
    bounds: Arc<Bounds>,
    started: Instant,
    found: Mutex<Found>,
}

/// The newest matching files, and the number of all.
#[derive(Debug)]
struct Found {
    page: TopEntries<(Reverse<Option<SystemTime>>, PathBuf)>,
    total: usize,
    /// The first matching directories, for an answer without files.
    directories: BTreeSet<PathBuf>,
}

impl Listing {
    fn prepare(
        input: &GlobInput,
        permit: Permit,
        context: &CallContext,
        bounds: Arc<Bounds>,
    ) -> Result<Self, ToolError> {
        walk::check_pattern(&input.pattern)?;
        let started = Instant::now();
        let plan = GlobPlan::from_input(input, context);
        let matcher = plan.compile()?;
        let scope =
            permit.into_search().ok_or_else(|| ToolError::failed("no directory was permitted"))?;
        let base = scope.path().to_owned();
        if !scope.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            let path = base.display();
            return Err(ToolError::Failed(format!("{path} is not an existing directory")));
        }
        let mut found = Found::default();
        if plan.is_base_itself() {
            found.directories.insert(PathBuf::new());
        }
        let filter = Filter {
            disregards_ignores: !input.respect_gitignore,
            max_depth: plan.max_depth(),
            inside: plan.inside,
            ..Filter::default()
        };
        let walk = Walk::open(&scope, filter, Arc::clone(&bounds))
            .map_err(|error| ToolError::Failed(format!("{}: {error}", base.display())))?;
        Ok(Self { base, matcher, walk, bounds, started, found: Mutex::new(found) })
    }

    fn consider(&self, entry: &Entry<'_>) {
        if !self.matcher.is_match(entry.relative) {
            return;
        }
        if entry.is_directory {
            return self.found().note_directory(entry.relative);
        }
        // A file that has vanished meanwhile does not count.
        let Some(modified) = entry.modified() else { return };
        let key = (Reverse(Some(modified)), entry.relative.to_owned());
        let mut found = self.found();
        found.total += 1;
        if !found.page.is_closed_to(&key) {
            let line = format!("{}\n", self.shown(entry.relative));
            found.page.insert(key, line.into_bytes());
        }
    }

    fn shown(&self, relative: &Path) -> String {
        let path = if relative.as_os_str().is_empty() {
            self.base.clone()
        } else {
            self.base.join(relative)
        };
        text::printable_path(&path)
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        sync::lock(&self.found)
    }

    /// The answer if no file matched.
    fn nothing(&self, directories: &BTreeSet<PathBuf>) -> String {
        let names: Vec<String> = directories.iter().map(|path| self.shown(path)).collect();
        match &names[..] {
            [] => "No files found".to_owned(),
            [name] => format!(
                "No files found; {name} is a directory. To list what is in it, use the pattern \
                 {name}/**"
            ),
            names => format!(
                "No files found, only directories: {}. To list what is in one, put /** behind \
                 its name",
                names.join(", ")
            ),
        }
    }
}

impl Job for Listing {
    fn work(&self) {
        self.walk.work(|entry| self.consider(entry));
    }

    fn answer(&self) -> ToolOutput {
        let found = std::mem::take(&mut *self.found());
        let total = found.total;
        let filenames: Vec<String> = found
            .page
            .into_texts()
            .map(|line| {
                String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned()
            })
            .collect();
        let mut text = AnswerText::from(filenames.join("\n")).on_page(Paths { total });
        if filenames.is_empty() {
            text.close(self.nothing(&found.directories));
        }
        let text = text.closed_by(self.bounds.notes());
        let structured = json!({
            "duration_ms": u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "num_files": filenames.len(),
            "total": total,
            "truncated": total > filenames.len() || self.bounds.is_partial(),
            "filenames": filenames,
        });
        ToolOutput::text(text).with(structured)
    }
}

/// The paths of an answer.
#[derive(Debug)]
struct Paths {
    /// How many files match.
    total: usize,
}

impl Page for Paths {
    fn closing_lines(&self, shown: &str) -> Vec<String> {
        match self.total.saturating_sub(shown.lines().count()) {
            0 => Vec::new(),
            more => vec![format!("({more} more; narrow the pattern)")],
        }
    }
}

impl Found {
    fn note_directory(&mut self, path: &Path) {
        if self.total == 0 {
            self.directories.insert(path.to_owned());
            if self.directories.len() > MAX_DIRECTORIES {
                self.directories.pop_last();
            }
        }
    }
}

impl Default for Found {
    fn default() -> Self {
        Self { page: TopEntries::new(MAX_PATHS), total: 0, directories: BTreeSet::new() }
    }
}
