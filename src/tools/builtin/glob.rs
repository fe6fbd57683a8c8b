//! Finds files by name, newest first.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::permissions::{AccessKind, AccessRequest, Permit, SearchScope};
use crate::sync;
use crate::tools::answer::{AnswerText, Page};
use crate::tools::session_context::SessionContext;
use crate::tools::tool::{CallContext, Concurrency, StartRule, Tool, ToolError, ToolOutput};
use crate::tools::top_entries::TopEntries;
use crate::tools::walk::{
    self, AMONG_IGNORED, Bounds, Entry, Filter, Job, LeftOut, PassedKind, READ_LITERALLY, Search,
    Walk,
};

mod plan;
#[cfg(test)]
mod tests;

use plan::{GlobPlan, Matchers, NamesFiles};

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
        Files that .gitignore leaves out are not listed, unless named exactly. To search file \
        contents, use Grep.";
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
    top: Top,
    matchers: Matchers,
    names_files: NamesFiles,
    has_extended_group: bool,
    walk: Walk,
    /// The walk without ignore files, made once the first one has found nothing in a directory
    /// that an ignore file empties.
    among_ignored: OnceLock<Option<Walk>>,
    max_depth: Option<usize>,
    session: Arc<SessionContext>,
    bounds: Arc<Bounds>,
    started: Instant,
    found: Mutex<Findings>,
}

/// The directory that is walked.
#[derive(Debug)]
struct Top {
    scope: SearchScope,
    /// The directory that the call names, from which the answer names files.
    base: PathBuf,
    /// The path of the walked directory below the base, where that leads through a link.
    below: PathBuf,
}

/// What is found by each reading of the pattern.
#[derive(Debug, Default)]
struct Findings {
    as_written: Found,
    with_literals: Found,
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
        let matchers = plan.compile()?;
        let scope =
            permit.into_search().ok_or_else(|| ToolError::failed("no directory was permitted"))?;
        if !scope.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            let path = scope.path().display();
            return Err(ToolError::Failed(format!("{path} is not an existing directory")));
        }
        let mut found = Findings::default();
        if plan.is_base_itself() {
            found.as_written.directories.insert(PathBuf::new());
        }
        let (names_files, max_depth) = (plan.names_files(), plan.max_depth());
        let (top, inside) = Top::open(scope, plan.inside, context);
        let filter = Filter {
            disregards_ignores: !input.respect_gitignore,
            max_depth: top.depth_from(max_depth),
            inside,
            ..Filter::default()
        };
        let failed =
            |error: io::Error| ToolError::Failed(format!("{}: {error}", top.base.display()));
        let walk = Walk::open(&top.scope, filter, Arc::clone(&bounds)).map_err(failed)?;
        Ok(Self {
            top,
            matchers,
            names_files,
            has_extended_group: walk::has_extended_group(&input.pattern),
            walk,
            among_ignored: OnceLock::new(),
            max_depth,
            session: Arc::clone(&context.session),
            bounds,
            started,
            found: Mutex::new(found),
        })
    }

    /// The second walk, if the first one was to no avail, and ignore files are why.
    fn among_ignored(&self) -> Option<&Walk> {
        let decide = || {
            let is_of_use = self.walk.is_in_ignored
                && !self.walk.disregards_ignores()
                && self.found().is_empty()
                && !self.bounds.has_ended();
            if !is_of_use {
                return None;
            }
            let filter = Filter {
                disregards_ignores: true,
                max_depth: self.top.depth_from(self.max_depth),
                inside: self.walk.inside().to_owned(),
                ..Filter::default()
            };
            Walk::open(&self.top.scope, filter, Arc::clone(&self.bounds)).ok()
        };
        self.among_ignored.get_or_init(decide).as_ref()
    }

    fn consider(&self, walk: &Walk, entry: &Entry<'_>) {
        let relative = self.top.relative(entry.relative);
        let is_match = self.matchers.as_written.as_ref().is_ok_and(|it| it.is_match(&relative));
        let with_literals = &self.matchers.with_literals;
        let is_literal_match =
            || with_literals.as_ref().is_some_and(|matcher| matcher.is_match(&relative));
        let reading = match () {
            () if is_match => Some(Reading::AsWritten),
            () if is_literal_match() => Some(Reading::WithLiterals),
            () => None,
        };
        if let Some(why) = entry.left_out {
            let is_listed = why == LeftOut::Ignored
                && !entry.is_directory
                && reading.is_some_and(|reading| self.names_files.in_reading(reading));
            if !is_listed {
                return Self::pass_over(walk, entry, why, reading.is_some());
            }
        }
        let Some(reading) = reading else { return };
        if entry.is_directory {
            return self.found().of(reading).note_directory(&relative);
        }
        // A file that has vanished meanwhile does not count.
        let Some(modified) = entry.modified() else { return };
        let key = (Reverse(Some(modified)), relative.into_owned());
        let mut found = self.found();
        let found = found.of(reading);
        found.total += 1;
        if !found.page.is_closed_to(&key) {
            let line = format!("{}\n", self.shown(&key.1));
            found.page.insert(key, line.into_bytes());
        }
    }

    /// Records what was left out, if it may be or hold a match.
    fn pass_over(walk: &Walk, entry: &Entry<'_>, why: LeftOut, is_match: bool) {
        let passed = &walk.passed_over;
        match why {
            LeftOut::Ignored if entry.is_directory => {
                passed.note(PassedKind::Ignored, &entry.relative.join(""));
            }
            // A file that rules hide under another name shows no time.
            LeftOut::Ignored if is_match && entry.modified().is_some() => {
                passed.note(PassedKind::Ignored, entry.relative);
            }
            LeftOut::Ignored => {}
            LeftOut::VersionControl => passed.note(PassedKind::VersionControl, entry.relative),
            LeftOut::Link { is_wanted_as_file } => {
                let is_wanted_as_file = is_wanted_as_file && is_match;
                if entry.is_directory || is_wanted_as_file {
                    passed.note_link(entry.relative, is_wanted_as_file);
                }
            }
        }
    }

    fn shown(&self, below_base: &Path) -> String {
        walk::below(&self.top.base, below_base)
    }

    fn found(&self) -> MutexGuard<'_, Findings> {
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

    /// What an answer without files says of what was not looked at.
    fn notes_on_absence(&self, walk: &Walk) -> Vec<String> {
        // An answer that comes late must not wait for the file system.
        if !self.bounds.is_partial() {
            walk.follow_links(&self.session.workspace);
        }
        let shown = |path: &Path| self.shown(&self.top.relative(path));
        let mut notes = walk.passed_over.lines(&shown, |kind| match kind {
            PassedKind::Ignored => "to list them, set respect_gitignore to false",
            PassedKind::LinkedFile => "such a file can be read by its path",
            PassedKind::LinkOutside => "nothing there is searched",
            _ => "to list what is in one, set path to it",
        });
        if self.has_extended_group {
            notes.push(
                "(parentheses are plain characters: there are no groups such as !(a|b); for a \
                 choice, use {a,b})"
                    .to_owned(),
            );
        }
        notes
    }
}

impl Top {
    /// The directory to walk, and the only directory to enter in it at each level. Where these
    /// lead through a link, the walk begins behind it.
    fn open(scope: SearchScope, inside: Vec<String>, context: &CallContext) -> (Self, Vec<String>) {
        let base = scope.path().to_owned();
        let below: PathBuf = inside.iter().collect();
        let behind = || {
            let target = context.session.workspace.resolve(&base.join(&below)).ok()?;
            let is_linked = target.real_path() != scope.real_path().join(&below);
            let is_directory = target.metadata().is_ok_and(|metadata| metadata.is_dir());
            if is_linked && is_directory { scope.through_link(target) } else { None }
        };
        match behind() {
            Some(scope) => (Self { scope, base, below }, Vec::new()),
            None => (Self { scope, base, below: PathBuf::new() }, inside),
        }
    }

    /// The path below the base of what is below the walked directory.
    fn relative<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        if self.below.as_os_str().is_empty() {
            Cow::Borrowed(path)
        } else {
            Cow::Owned(self.below.join(path))
        }
    }

    /// A depth from the base on, from the walked directory on.
    fn depth_from(&self, max_depth: Option<usize>) -> Option<usize> {
        max_depth.map(|depth| depth.saturating_sub(self.below.components().count()))
    }
}

/// How brackets and braces of the pattern are read.
#[derive(Clone, Copy, Debug)]
enum Reading {
    AsWritten,
    WithLiterals,
}

impl NamesFiles {
    fn in_reading(self, reading: Reading) -> bool {
        match reading {
            Reading::AsWritten => self.as_written,
            Reading::WithLiterals => self.with_literals,
        }
    }
}

impl Job for Listing {
    fn work(&self) {
        self.walk.work(|entry| self.consider(&self.walk, entry));
        if let Some(walk) = self.among_ignored() {
            walk.work(|entry| self.consider(walk, entry));
        }
    }

    fn answer(&self) -> Result<ToolOutput, ToolError> {
        let among_ignored = self.among_ignored.get().and_then(Option::as_ref);
        let walk = among_ignored.unwrap_or(&self.walk);
        let (found, reading) = std::mem::take(&mut *self.found()).chosen();
        if let Err(fault) = &self.matchers.as_written
            && found.is_empty()
        {
            return Err(ToolError::InvalidInput(fault.clone()));
        }
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
            text = text.closed_by(self.notes_on_absence(walk));
        } else {
            let is_literal = matches!(reading, Reading::WithLiterals);
            text = text.closed_by(is_literal.then(|| READ_LITERALLY.to_owned()));
            let is_ignored = among_ignored.is_some();
            text = text.closed_by(is_ignored.then(|| AMONG_IGNORED.to_owned()));
        }
        let text = text.closed_by(self.bounds.notes());
        let structured = json!({
            "duration_ms": u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "num_files": filenames.len(),
            "total": total,
            "truncated": total > filenames.len() || self.bounds.is_partial(),
            "passed_over": walk.passed_over.counts(),
            "filenames": filenames,
        });
        Ok(ToolOutput::text(text).with(structured))
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

impl Findings {
    fn of(&mut self, reading: Reading) -> &mut Found {
        match reading {
            Reading::AsWritten => &mut self.as_written,
            Reading::WithLiterals => &mut self.with_literals,
        }
    }

    fn is_empty(&self) -> bool {
        self.as_written.is_empty() && self.with_literals.is_empty()
    }

    /// What the pattern matches as it is written, unless that is nothing.
    fn chosen(self) -> (Found, Reading) {
        if self.as_written.is_empty() && !self.with_literals.is_empty() {
            (self.with_literals, Reading::WithLiterals)
        } else {
            (self.as_written, Reading::AsWritten)
        }
    }
}

impl Found {
    fn is_empty(&self) -> bool {
        self.total == 0 && self.directories.is_empty()
    }

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
