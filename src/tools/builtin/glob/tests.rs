//! Calls Glob as the model does.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::tools::tool::erase;
use crate::tools::tool::test_support::Workspace;

fn glob() -> Glob {
    Glob::default()
}

async fn check(workspace: &Workspace, arguments: Value, expected: &[&str]) {
    let answer = workspace.call(glob(), arguments.clone()).await;
    let mut lines: Vec<&str> = answer.lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> = expected.iter().map(|path| format!("$WORKSPACE/{path}")).collect();
    assert_eq!(lines, expected, "{arguments}");
}

#[tokio::test]
async fn lists_matches_newest_first_and_ties_by_name() {
    let workspace = Workspace::new(&[("b.rs", ""), ("a.rs", ""), ("new.rs", ""), ("notes.md", "")]);
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
    let workspace =
        Workspace::new(&[(".ignore", "target/\n*.o\n"), ("target/debug/a.o", ""), ("src/b.o", "")]);
    check(&workspace, json!({ "pattern": "*.o", "path": "target/debug" }), &["target/debug/a.o"])
        .await;
    assert_eq!(
        workspace.call(glob(), json!({ "pattern": "*.o", "path": "src" })).await,
        "No files found"
    );
}

#[tokio::test]
async fn shows_no_hidden_paths_and_follows_no_links() {
    let mut workspace = Workspace::new(&[("state/key.rs", ""), ("a.rs", "")]);
    std::os::unix::fs::symlink(workspace.root(), workspace.path("loop")).unwrap();
    std::os::unix::fs::symlink(workspace.path("a.rs"), workspace.path("link.rs")).unwrap();
    let state = workspace.path("state");
    workspace.hide(&state);

    let answer = workspace.call(glob(), json!({ "pattern": "*.rs" })).await;

    assert_eq!(answer, "$WORKSPACE/a.rs");
}

#[tokio::test]
async fn escapes_names_that_would_break_the_answer() {
    use std::os::unix::ffi::OsStrExt as _;
    let workspace = Workspace::new(&[("-rf.rs", ""), ("a\n$b.rs", ""), ("esc\u{1b}[2J.rs", "")]);
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

    assert_eq!(output.text.to_string().lines().count(), MAX_PATHS + 1);
    assert_eq!(output.text.to_string().lines().last(), Some("(2 more; narrow the pattern)"));
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
    let with_no_time =
        Glob { search: Search { time_limit: std::time::Duration::ZERO, ..Search::default() } };
    assert_snapshot!(workspace.call(with_no_time, json!({ "pattern": "*" })).await, @r"
    No files found
    (incomplete: the search ran out of time; narrow the path or the pattern)
    ");

    workspace.context().cancelled.cancel();
    assert_snapshot!(workspace.call(glob(), json!({ "pattern": "*" })).await, @"Error: interrupted");
}

#[tokio::test]
async fn takes_the_beginning_of_a_pattern_as_a_path() {
    let workspace = Workspace::new(&[("a/x.rs", ""), ("a/b/y.rs", ""), ("z.rs", "")]);
    let check = async |pattern: &str, expected: &[&str]| {
        check(&workspace, json!({ "pattern": pattern }), expected).await;
    };
    check("./*.rs", &["z.rs"]).await;
    check("././a/./*.rs", &["a/x.rs"]).await;
    check("a/../*.rs", &["z.rs"]).await;
    check("a//x.rs", &["a/x.rs"]).await;
    check("a/*/./y.rs", &["a/b/y.rs"]).await;
    check("./", &["a/b/y.rs", "a/x.rs", "z.rs"]).await;
    let answer = workspace.call(glob(), json!({ "pattern": "*/../z.rs" })).await;
    assert_snapshot!(answer, @"Error: invalid input: the glob has `..` behind a wildcard; put it first, or set path");
    // The home directory of these sessions is `/`.
    for pattern in ["~", "~/*.rs", "~/etc/*"] {
        let answer = workspace.call(glob(), json!({ "pattern": pattern })).await;
        assert!(answer.starts_with("Error: not permitted: /"), "{pattern}: {answer}");
    }
}

#[tokio::test]
async fn says_that_only_a_directory_has_the_name_and_how_to_list_it() {
    let workspace = Workspace::new(&[("src/lib/x", ""), ("lib/y", "")]);
    let answer = async |pattern: &str| workspace.call(glob(), json!({ "pattern": pattern })).await;
    assert_snapshot!(answer("src").await, @"No files found; $WORKSPACE/src is a directory. To list what is in it, use the pattern $WORKSPACE/src/**");
    assert_snapshot!(answer(".").await, @"No files found; $WORKSPACE is a directory. To list what is in it, use the pattern $WORKSPACE/**");
    assert_snapshot!(answer("src/lib/..").await, @"No files found; $WORKSPACE/src is a directory. To list what is in it, use the pattern $WORKSPACE/src/**");
    assert_snapshot!(answer("lib").await, @"No files found, only directories: $WORKSPACE/lib, $WORKSPACE/src/lib. To list what is in one, put /** behind its name");
    assert_snapshot!(answer("nothing").await, @"No files found");
}
