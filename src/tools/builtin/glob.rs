//! Finds files by name, newest first.

use std::cmp::Reverse;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::{DirEntry, WalkState};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::permissions::{AccessKind, Hidden, Permit, Reach};
use crate::text;
use crate::tools::page::Page;
use crate::tools::tool::{CallContext, Concurrency, Start, Tool, ToolError, ToolOutput};
use crate::tools::walk::{self, Bounds, Ignores, Search};

/// Enough to choose from; more would only crowd the model's context.
const MAX_PATHS: usize = 100;

/// What makes a part of a pattern more than a name.
const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

#[derive(Debug)]
pub(crate) struct Glob {
    search: Search,
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
        Self { search: Search::new(hidden) }
    }
}

impl Tool for Glob {
    type Input = GlobInput;

    const NAME: &'static str = "Glob";
    const ACCESS: AccessKind = AccessKind::Read;
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
        let cancelled = context.cancelled.clone();
        let work = move |bounds: &Bounds| find(&input, &permit, &context, bounds);
        self.search.run(&cancelled, work).await
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
    bounds: &Bounds,
) -> Result<ToolOutput, ToolError> {
    walk::check_pattern(&input.pattern)?;
    let started = Instant::now();
    let plan = Plan::of(input, context);
    let matcher = plan.compile()?;
    let target = permit.target().ok_or_else(|| ToolError::failed("no directory was permitted"))?;
    let root = target.real_path();
    if !target.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        let path = target.path().display();
        return Err(ToolError::Failed(format!("{path} is not an existing directory")));
    }
    let found = walk_tree(root, ignores(input, root, context), plan, &matcher, bounds);
    Ok(answer(found, target.path(), bounds, started))
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
    bounds: &Bounds,
) -> Found {
    let inside = plan.inside;
    let leads_on = move |entry: &DirEntry| {
        let expected = entry.depth().checked_sub(1).and_then(|level| inside.get(level));
        expected.is_none_or(|name| entry.file_name() == name.as_str())
    };
    let found = Mutex::new(Found { page: Page::new(MAX_PATHS), total: 0 });
    walk::tree(root, ignores, bounds, leads_on).build_parallel().run(|| {
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

fn answer(found: Found, base: &Path, bounds: &Bounds, started: Instant) -> ToolOutput {
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
    lines.extend(bounds.notes());
    let structured = json!({
        "duration_ms": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "num_files": filenames.len(),
        "total": total,
        "truncated": total > filenames.len() || bounds.timed_out(),
        "filenames": filenames,
    });
    ToolOutput::text(lines.join("\n")).with(structured)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::{Value, json};

    use super::*;
    use crate::tools::tool::erase;
    use crate::tools::tool::test_support::Workspace;

    fn glob() -> Glob {
        Glob::new(Hidden::nothing())
    }

    async fn check(workspace: &Workspace, arguments: Value, expected: &[&str]) {
        let answer = workspace.call(glob(), arguments.clone()).await;
        let mut lines: Vec<&str> = answer.lines().collect();
        lines.sort_unstable();
        let expected: Vec<String> =
            expected.iter().map(|path| format!("$WORKSPACE/{path}")).collect();
        assert_eq!(lines, expected, "{arguments}");
    }

    #[tokio::test]
    async fn lists_matches_newest_first_and_ties_by_name() {
        let workspace =
            Workspace::new(&[("b.rs", ""), ("a.rs", ""), ("new.rs", ""), ("notes.md", "")]);
        workspace.age("b.rs", 60);
        workspace.age("a.rs", 60);

        let answer = workspace.call(glob(), json!({ "pattern": "*.rs" })).await;

        assert_snapshot!(answer, @r"
        $WORKSPACE/new.rs
        $WORKSPACE/a.rs
        $WORKSPACE/b.rs
        ");
    }

    #[tokio::test]
    async fn matches_as_ripgreps_globs_do() {
        let workspace = Workspace::new(&[
            ("main.rs", ""),
            ("src/lib.rs", ""),
            ("src/deep/mod.rs", ""),
            ("src/deep/app.ts", ""),
            (".config/x.toml", ""),
        ]);
        let check = async |pattern: &str, expected: &[&str]| {
            check(&workspace, json!({ "pattern": pattern }), expected).await;
        };
        check("*.rs", &["main.rs", "src/deep/mod.rs", "src/lib.rs"]).await;
        check("main.rs", &["main.rs"]).await;
        check("src/*.rs", &["src/lib.rs"]).await;
        check("./src/*.rs", &["src/lib.rs"]).await;
        check("src/**/*.rs", &["src/deep/mod.rs", "src/lib.rs"]).await;
        check("**/*.{ts,toml}", &[".config/x.toml", "src/deep/app.ts"]).await;
        check("src/deep/", &["src/deep/app.ts", "src/deep/mod.rs"]).await;
        check("*/*.rs", &["src/lib.rs"]).await;
        check("src/[lm]*.rs", &["src/lib.rs"]).await;
    }

    #[tokio::test]
    async fn takes_patterns_that_lead_elsewhere() {
        let workspace = Workspace::new(&[("a/x.rs", ""), ("b/y.rs", ""), ("b/c/x.rs", "")]);
        let absolute = workspace.path("b/**/*.rs").to_str().unwrap().to_owned();
        check(&workspace, json!({ "pattern": absolute }), &["b/c/x.rs", "b/y.rs"]).await;
        let file = workspace.path("b/y.rs").to_str().unwrap().to_owned();
        check(&workspace, json!({ "pattern": file, "path": "a" }), &["b/y.rs"]).await;
        check(&workspace, json!({ "pattern": "../b/*.rs", "path": "a" }), &["b/y.rs"]).await;
        let outside = workspace.call(glob(), json!({ "pattern": "/etc/*.conf" })).await;
        assert_snapshot!(outside, @"Error: not permitted: /etc is outside the workspace");
        let outside = workspace.call(glob(), json!({ "pattern": "../*" })).await;
        assert!(outside.starts_with("Error: not permitted"), "{outside}");
    }

    #[tokio::test]
    async fn honours_ignore_files_as_ripgrep_does() {
        let workspace = Workspace::new(&[
            (".gitignore", "*.git-rs\n"),
            (".ignore", "a.rs\n"),
            (".rgignore", "b.rs\n"),
            ("a.rs", ""),
            ("b.rs", ""),
            ("c.git-rs", ""),
        ]);
        check(&workspace, json!({ "pattern": "*.{rs,git-rs}" }), &["c.git-rs"]).await;
        workspace.write(".git/HEAD", b"");
        let ignored = workspace.call(glob(), json!({ "pattern": "*.{rs,git-rs}" })).await;
        assert_eq!(ignored, "No files found");
        let all = json!({ "pattern": "*.{rs,git-rs}", "respect_gitignore": false });
        check(&workspace, all, &["a.rs", "b.rs", "c.git-rs"]).await;
        let inside = json!({ "pattern": "HEAD", "respect_gitignore": false });
        assert_eq!(workspace.call(glob(), inside).await, "No files found");
    }

    #[tokio::test]
    async fn lists_what_is_in_an_ignored_directory_that_was_named() {
        let workspace = Workspace::new(&[
            (".ignore", "target/\n*.o\n"),
            ("target/debug/a.o", ""),
            ("src/b.o", ""),
        ]);
        check(
            &workspace,
            json!({ "pattern": "*.o", "path": "target/debug" }),
            &["target/debug/a.o"],
        )
        .await;
        assert_eq!(
            workspace.call(glob(), json!({ "pattern": "*.o", "path": "src" })).await,
            "No files found"
        );
    }

    #[tokio::test]
    async fn shows_no_hidden_paths_and_follows_no_links() {
        let workspace = Workspace::new(&[("state/key.rs", ""), ("a.rs", "")]);
        std::os::unix::fs::symlink(workspace.root(), workspace.path("loop")).unwrap();
        std::os::unix::fs::symlink(workspace.path("a.rs"), workspace.path("link.rs")).unwrap();
        let state = workspace.path("state");
        let glob = Glob::new(Hidden::directory(&state));

        let answer = workspace.call(glob, json!({ "pattern": "*.rs" })).await;

        assert_eq!(answer, "$WORKSPACE/a.rs");
    }

    #[tokio::test]
    async fn escapes_names_that_would_break_the_answer() {
        use std::os::unix::ffi::OsStrExt as _;
        let workspace =
            Workspace::new(&[("-rf.rs", ""), ("a\n$b.rs", ""), ("esc\u{1b}[2J.rs", "")]);
        let name = std::ffi::OsStr::from_bytes(b"\xff.rs");
        std::fs::write(workspace.root().join(name), "").unwrap();

        let answer = workspace.call(glob(), json!({ "pattern": "*.rs" })).await;

        let mut lines: Vec<&str> = answer.lines().collect();
        lines.sort_unstable();
        assert_snapshot!(lines.join("\n"), @r"
        $WORKSPACE/-rf.rs
        $WORKSPACE/\xff.rs
        $WORKSPACE/a\n$b.rs
        $WORKSPACE/esc\u{1b}[2J.rs
        ");
    }

    #[tokio::test]
    async fn lists_a_hundred_and_counts_the_rest() {
        let workspace = Workspace::new(&[]);
        for n in 0..102 {
            workspace.write(&format!("{n}.rs"), b"");
        }

        let output = workspace.run(&erase(glob()), json!({ "pattern": "*.rs" })).await.unwrap();

        assert_eq!(output.text.lines().count(), MAX_PATHS + 1);
        assert_eq!(output.text.lines().last(), Some("(2 more; narrow the pattern)"));
        assert_eq!(output.structured["total"], 102);
        assert_eq!(output.structured["num_files"], 100);
        assert_eq!(output.structured["truncated"], true);
    }

    #[tokio::test]
    async fn explains_what_it_cannot_search() {
        let workspace = Workspace::new(&[("a.rs", "")]);
        let answer = async |arguments: Value| workspace.call(glob(), arguments).await;
        assert_snapshot!(answer(json!({ "pattern": "src/{a" })).await, @"Error: invalid input: error parsing glob 'src/{a': unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)");
        assert_snapshot!(answer(json!({ "pattern": "[" })).await, @"Error: invalid input: error parsing glob '**/[': unclosed character class; missing ']'");
        assert_snapshot!(answer(json!({ "pattern": "*", "path": "nowhere" })).await, @"Error: $WORKSPACE/nowhere is not an existing directory");
        assert_snapshot!(answer(json!({ "pattern": "*", "path": "a.rs" })).await, @"Error: $WORKSPACE/a.rs is not an existing directory");
        assert_snapshot!(answer(json!({ "pattern": "{".repeat(15_000) })).await, @"Error: invalid input: the glob is longer than 1024 characters");
        assert_snapshot!(answer(json!({ "pattern": "*".repeat(5_000) })).await, @"Error: invalid input: the glob is longer than 1024 characters");
        assert_snapshot!(answer(json!({ "pattern": "{".repeat(11) })).await, @"Error: invalid input: the glob has more than 10 levels of braces");
        assert_snapshot!(answer(json!({ "pattern": "{a,b}".repeat(20) })).await, @"No files found");
        assert_snapshot!(answer(json!({ "pattern": "*", "sandbox": false })).await, @r"
        $WORKSPACE/a.rs
        (ignored, since this tool does not know it: sandbox)
        ");
    }

    #[tokio::test]
    async fn says_so_when_time_runs_out_and_stops_when_cancelled() {
        let workspace = Workspace::new(&[("a.rs", "")]);
        let hurried = Glob {
            search: Search { hidden: Hidden::nothing(), time_limit: std::time::Duration::ZERO },
        };
        assert_snapshot!(workspace.call(hurried, json!({ "pattern": "*" })).await, @r"
        No files found
        (incomplete: the search ran out of time; narrow the path or the pattern)
        ");

        workspace.context().cancelled.cancel();
        assert_snapshot!(workspace.call(glob(), json!({ "pattern": "*" })).await, @"Error: interrupted");
    }
}
