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
    assert_snapshot!(ignored, @r"
    No files found
    (passed over: 3 ignored entries: $WORKSPACE/a.rs, $WORKSPACE/b.rs, $WORKSPACE/c.git-rs; to list them, set respect_gitignore to false)
    (passed over: 1 version control directory: $WORKSPACE/.git; to list what is in one, set path to it)
    ");
    let all = json!({ "pattern": "*.{rs,git-rs}", "respect_gitignore": false });
    check(&workspace, all, &["a.rs", "b.rs", "c.git-rs"]).await;
    let inside = json!({ "pattern": "HEAD", "respect_gitignore": false });
    assert_snapshot!(workspace.call(glob(), inside).await, @r"
    No files found
    (passed over: 1 version control directory: $WORKSPACE/.git; to list what is in one, set path to it)
    ");
    check(&workspace, json!({ "pattern": ".git/*" }), &[".git/HEAD"]).await;
    check(&workspace, json!({ "pattern": "*", "path": ".git" }), &[".git/HEAD"]).await;
}

#[tokio::test]
async fn lists_what_is_in_an_ignored_directory_that_was_named() {
    let workspace =
        Workspace::new(&[(".ignore", "target/\n*.o\n"), ("target/debug/a.o", ""), ("src/b.o", "")]);
    check(&workspace, json!({ "pattern": "*.o", "path": "target/debug" }), &["target/debug/a.o"])
        .await;
    assert_snapshot!(workspace.call(glob(), json!({ "pattern": "*.o", "path": "src" })).await, @r"
    No files found
    (passed over: 1 ignored entry: $WORKSPACE/src/b.o; to list them, set respect_gitignore to false)
    ");
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

#[tokio::test]
async fn files_19a_brackets_are_read_literally_where_nothing_else_fits() {
    let files = [
        "src/app/[locale]/(auth)/page.tsx",
        "src/app/[...slug]/page.tsx",
        "src/app/[[...opt]]/page.tsx",
        "src/app/{id}/page.ts",
        "src/app/@slot/page.tsx",
        "src/routes/$id+_layout.tsx",
        "src/l/a.rs",
        "src/[l]/b.rs",
        "src/{a",
    ];
    let workspace = Workspace::new(&files.map(|path| (path, "")));
    let call = async |pattern: &str| workspace.call(glob(), json!({ "pattern": pattern })).await;
    let literal = "(brackets and braces of the glob are read as plain characters: it matches \
        nothing otherwise)";
    for (pattern, path) in [
        ("src/app/[locale]/(auth)/**", "src/app/[locale]/(auth)/page.tsx"),
        ("src/app/[...slug]/*.{ts,tsx}", "src/app/[...slug]/page.tsx"),
        ("**/[[...opt]]/page.tsx", "src/app/[[...opt]]/page.tsx"),
        ("src/app/{id}/page.ts", "src/app/{id}/page.ts"),
        ("src/{a", "src/{a"),
    ] {
        assert_eq!(call(pattern).await, format!("$WORKSPACE/{path}\n{literal}"), "{pattern}");
    }
    for (pattern, path) in [
        ("src/app/@slot/*", "src/app/@slot/page.tsx"),
        ("src/routes/$id+*.tsx", "src/routes/$id+_layout.tsx"),
        ("src/[l]/*", "src/l/a.rs"),
    ] {
        assert_eq!(call(pattern).await, format!("$WORKSPACE/{path}"), "{pattern}");
    }
    let group = call("**/!(*.test).tsx").await;
    assert!(group.contains("there are no groups such as !(a|b)"), "{group}");
}

#[tokio::test]
async fn files_21_what_ignore_files_leave_out_is_counted_and_found_where_it_is_named() {
    let workspace = Workspace::new(&[
        (".git/HEAD", ""),
        (".gitignore", "scripts/*\nnode_modules/\n*.log\n"),
        ("scripts/build.sh", ""),
        ("scripts/deep/x.sh", ""),
        ("node_modules/pkg/index.js", ""),
        ("logs/a.log", ""),
        ("logs/b.txt", ""),
    ]);
    let call = async |arguments: Value| workspace.call(glob(), arguments).await;
    assert_snapshot!(call(json!({ "pattern": "**/*.sh" })).await, @r"
    No files found
    (passed over: 3 ignored entries: $WORKSPACE/node_modules/, $WORKSPACE/scripts/build.sh, $WORKSPACE/scripts/deep/; to list them, set respect_gitignore to false)
    (passed over: 1 version control directory: $WORKSPACE/.git; to list what is in one, set path to it)
    ");
    assert_snapshot!(call(json!({ "pattern": "*.sh", "path": "logs" })).await, @"No files found");
    for (pattern, path) in [
        ("scripts/build.sh", "scripts/build.sh"),
        ("build.sh", "scripts/build.sh"),
        ("node_modules/pkg/*", "node_modules/pkg/index.js"),
        ("node_modules/pkg/index.js", "node_modules/pkg/index.js"),
        ("logs/a.log", "logs/a.log"),
    ] {
        let answer = call(json!({ "pattern": pattern })).await;
        assert_eq!(answer, format!("$WORKSPACE/{path}"), "{pattern}");
    }
    let emptied = "(ignore files leave out this directory, so they do not count in it)";
    let scripts = call(json!({ "pattern": "*.sh", "path": "scripts" })).await;
    assert_eq!(scripts.lines().count(), 3, "{scripts}");
    assert!(scripts.ends_with(emptied), "{scripts}");
    assert_eq!(scripts, call(json!({ "pattern": "scripts/**/*.sh" })).await);
    let output = workspace.run(&erase(glob()), json!({ "pattern": "**/*.sh" })).await.unwrap();
    assert_eq!(output.structured["passed_over"]["ignored"], 3);
}

#[tokio::test]
async fn files_20_linked_directories_are_counted_and_entered_where_they_are_named() {
    let workspace = Workspace::new(&[("items/foo/x.md", ""), ("items/foo/deep/y.md", "")]);
    std::fs::create_dir(workspace.path("cat")).unwrap();
    for (to, at) in [("../items/foo", "cat/foo"), ("../nowhere", "cat/broken"), ("/", "cat/out")] {
        std::os::unix::fs::symlink(to, workspace.path(at)).unwrap();
    }
    let call = async |arguments: Value| workspace.call(glob(), arguments).await;
    assert_snapshot!(call(json!({ "pattern": "cat/**/*.md" })).await, @r"
    No files found
    (passed over: 1 linked directory: $WORKSPACE/cat/foo; to list what is in one, set path to it)
    (passed over: 1 link out of the workspace: $WORKSPACE/cat/out; nothing there is searched)
    ");
    check(&workspace, json!({ "pattern": "cat/foo/x.md" }), &["cat/foo/x.md"]).await;
    let all = ["cat/foo/deep/y.md", "cat/foo/x.md"];
    check(&workspace, json!({ "pattern": "cat/foo/**" }), &all).await;
    check(&workspace, json!({ "pattern": "cat/foo/*/y.md" }), &all[..1]).await;
    check(&workspace, json!({ "pattern": "*.md", "path": "cat/foo" }), &all).await;
    assert_snapshot!(call(json!({ "pattern": "cat/out/*" })).await, @r"
    No files found
    (passed over: 1 link out of the workspace: $WORKSPACE/cat/out; nothing there is searched)
    ");
    assert_snapshot!(call(json!({ "pattern": "cat/*.md" })).await, @"No files found");
}

#[tokio::test]
async fn files_20_a_link_does_not_lead_to_what_is_hidden() {
    let mut workspace = Workspace::new(&[("state/key.rs", ""), (".ignore", "key.rs\n")]);
    std::os::unix::fs::symlink("state", workspace.path("way in")).unwrap();
    workspace.hide(&workspace.path("state"));
    for pattern in ["way in/key.rs", "way in/*", "key.rs", "state/key.rs", "**/*.rs"] {
        let answer = workspace.call(glob(), json!({ "pattern": pattern })).await;
        assert_eq!(answer, "No files found", "{pattern}");
    }
}
