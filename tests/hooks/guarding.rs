//! Tests that a hook which was to deny something does not fail open: by its matcher, by the place
//! of its program, or by not starting at all.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::settings::trust::toolhand;
use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

/// A server that asks nobody, with these tables.
fn builder(upstream: &Upstream, tables: &str) -> Builder {
    Server::builder(upstream)
        .argument("--sandbox=off")
        .argument("--permission-mode=acceptEdits")
        .config("approval.channel", r#""none""#)
        .file("a.txt", "needle\n")
        .tables(tables)
}

/// What the model is told of these calls.
async fn told(server: &Server, upstream: &Upstream, round: &[(&str, &str, Value)]) -> Vec<String> {
    upstream.round(calls(round));
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
    answers_in(&upstream.requests().pop().expect("a request").json())
}

fn read() -> (&'static str, &'static str, Value) {
    ("c1", "Read", json!({ "file_path": "a.txt" }))
}

fn glob() -> (&'static str, &'static str, Value) {
    ("c2", "Glob", json!({ "pattern": "*.txt" }))
}

#[tokio::test]
async fn k6_a_matcher_is_a_list_of_names_or_a_pattern_found_anywhere() {
    for (matcher, denies_read, denies_glob) in [
        ("Edit, Read", true, false),
        ("Edit,Glob,", false, true),
        ("Edit | Read", true, false),
        ("^Re", true, false),
        ("ea.", true, false),
        ("lob$", false, true),
        ("^(?!mcp__).*$", true, true),
        ("^(?!Re).*$", false, true),
        ("(?<=Gl)ob", false, true),
        ("read_file", true, false),
        ("*", true, true),
        ("rea", true, false),
    ] {
        let upstream = Upstream::start();
        // `rea` is a name, and no tool has it; an alias of Read begins so.
        let denies_read = denies_read && matcher != "rea";
        let table = format!(
            "\n[[hooks]]\nevent = \"PreToolUse\"\nmatcher = '{matcher}'\n\
             command = 'echo no >&2; exit 2'\n"
        );
        let server = builder(&upstream, &table).start().await;
        let told = told(&server, &upstream, &[read(), glob()]).await;
        let is_denied = |answer: &String| answer == "Error: not permitted: no";
        assert_eq!(is_denied(&told[0]), denies_read, "{matcher}: {told:?}");
        assert_eq!(is_denied(&told[1]), denies_glob, "{matcher}: {told:?}");
    }
}

#[test]
fn a_matcher_that_does_not_compile_stops_the_start() {
    for matcher in ["(", "*Edit", "Edit Write", "Edit, mcp__.*", "[z-a]", "(?!"] {
        let table = format!(
            "\n[[hooks]]\nevent = \"PreToolUse\"\nmatcher = '{matcher}'\ncommand = 'true'\n"
        );
        let builder = Builder::new("http://127.0.0.1:1/v1").tables(&table);
        let (status, _, stderr) = builder.run();
        assert_eq!(status.code(), Some(1), "{matcher}: {stderr}");
        assert!(stderr.contains("the matcher"), "{matcher}: {stderr}");
    }
}

#[tokio::test]
async fn k6_a_program_with_arguments_is_found_below_the_workspace() {
    let places = [
        "command = '${CLAUDE_PROJECT_DIR}/my hooks/deny.sh'\nargs = []",
        "command = ['${CLAUDE_PROJECT_DIR}/my hooks/deny.sh']",
        "command = '/bin/sh'\nargs = ['${CLAUDE_PROJECT_DIR}/my hooks/deny.sh']",
    ];
    for place in places {
        let upstream = Upstream::start();
        let table = format!("\n[[hooks]]\nevent = \"PreToolUse\"\nmatcher = 'Read'\n{place}\n");
        let builder =
            builder(&upstream, &table).file("my hooks/deny.sh", "#!/bin/sh\necho no >&2\nexit 2\n");
        let script = builder.workspace().join("my hooks/deny.sh");
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("our own");
        let server = builder.start().await;
        let told = told(&server, &upstream, &[read()]).await;
        assert_eq!(told[0], "Error: not permitted: no", "{place}");
    }
}

#[tokio::test]
async fn k1_a_hook_that_cannot_do_its_work_asks_and_check_tells_its_last_words() {
    for (hook, words) in [
        ("command = ['/nonexistent/guard']", "could not be started"),
        ("command = '/nonexistent/guard'", "No such file"),
        ("command = 'echo API_KEY_FILE is required >&2; kill -9 $$'", "API_KEY_FILE is required"),
        ("command = 'echo still loading >&2; sleep 1000'\ntimeout = '200ms'", "still loading"),
    ] {
        let upstream = Upstream::start();
        let table = |on_error: &str| {
            format!("\n[[hooks]]\nevent = \"PreToolUse\"\nmatcher = 'Read'\n{hook}\n{on_error}\n")
        };
        let server = builder(&upstream, &table("")).start().await;
        let told_of = told(&server, &upstream, &[read(), glob()]).await;
        let asks = "Error: not permitted: Read needs an approval (the hook hooks[0] ";
        assert!(told_of[0].starts_with(asks), "{hook}: {told_of:?}");
        assert!(told_of[1].ends_with("a.txt"), "{hook}: {told_of:?}");
        server.logged("hook failed", 1).await;
        let log = server.log();
        let line = log.lines().find(|line| line.contains("hook failed")).expect("a line");
        assert!(line.contains(words), "{hook}: {line}");
        let check = toolhand(&server, &["check"]);
        let check = String::from_utf8_lossy(&check.stdout).into_owned();
        let line = check.lines().find(|line| line.starts_with("    failed at ")).expect(&check);
        assert!(line.contains(words), "{hook}: {check}");

        for (on_error, expected) in [("pass", "needle"), ("deny", "it denies what it cannot judge")]
        {
            let upstream = Upstream::start();
            let table = table(&format!("on_error = '{on_error}'"));
            let server = builder(&upstream, &table).start().await;
            let told = told(&server, &upstream, &[read()]).await;
            assert!(told[0].contains(expected), "{hook} {on_error}: {told:?}");
        }
    }
}

#[tokio::test]
async fn check_names_matchers_that_no_tool_has() {
    let upstream = Upstream::start();
    let table = "\n[[hooks]]\nevent = \"PreToolUse\"\nmatcher = 'Bash, Bsh'\ncommand = 'true'\n";
    let server = builder(&upstream, table).start().await;
    let check = toolhand(&server, &["check"]);
    let check = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(check.contains("never runs for Bsh: there is no such tool"), "{check}");
    assert!(!check.contains("never runs for Bash"), "{check}");
}
