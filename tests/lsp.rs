//! Asks language servers through the HTTP door: a scripted one that misbehaves, and real ones.

pub(crate) mod real;

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::permissions::has_sandbox;
use crate::settings::trust::{toolhand_on, trust};
use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::turn::{Call, answers_in, one, told};

/// A language server of our own. Its first argument says what it does.
const SCRIPT: &str = include_str!("lsp/server.py");

/// Where the scripted server notes what it sees, in the workspace.
const LOG: &str = "server.log";

/// A server whose operator has configured the scripted language server.
fn scripted(upstream: &Upstream, mode: &str) -> Builder {
    let builder = builder(upstream).file("server.py", SCRIPT).file("a.py", "x = 1\ny = x\n");
    let (script, log) = (builder.workspace().join("server.py"), builder.workspace().join(LOG));
    let arguments = json!([script, mode, log]);
    builder.tables(&format!(
        "[lsp.servers.scripted]\ncommand = \"/usr/bin/python3\"\nargs = {arguments}\n\
         extensions = {{ \".py\" = \"python\" }}\nsettings = {{ own = {{ secret = \"no\" }} }}\n"
    ))
}

/// Puts the scripted server on PATH under this name, outside of the workspace. Returns PATH: the
/// machine's own language servers are not on it.
fn install(builder: &Builder, name: &str) -> PathBuf {
    let bin = builder.home().join("bin");
    install_in(&bin, name, &builder.workspace().join(LOG));
    bin
}

fn install_in(bin: &Path, name: &str, log: &Path) {
    fs::create_dir_all(bin).expect("a directory");
    let script = bin.join("server.py");
    fs::write(&script, SCRIPT).expect("a file");
    let line = format!("exec /usr/bin/python3 {} plain {}", script.display(), log.display());
    let program = bin.join(name);
    fs::write(&program, format!("#!/bin/sh\n{line}\n")).expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("our own file");
}

/// Says that a test proves nothing on this machine.
pub(crate) fn skipped(test: &str, missing: &str) {
    // Not with a macro, whose output nobody sees of a test that passes.
    _ = writeln!(io::stderr(), "SKIPPED {test}: {missing} (scripts/test-env.sh installs it)");
}

async fn is_listed(server: &Server) -> bool {
    let listed = server.client().get("/toolhand/v1/tools").await.json();
    let tools = listed["data"].as_array().expect("a list").clone();
    tools.iter().any(|tool| tool["function"]["name"] == "LSP")
}

async fn language_servers(server: &Server) -> Value {
    server.client().get("/toolhand/v1/status").await.json()["language_servers"].clone()
}

fn builder(upstream: &Upstream) -> Builder {
    Server::builder(upstream)
        .config("approval.channel", r#""none""#)
        .config("lsp.enabled", r#""auto""#)
        .argument("--permission-mode=acceptEdits")
}

fn definition(path: &str, line: u32, symbol: &str) -> Call {
    let operation = "goto_definition";
    let input = json!({
        "operation": operation, "file_path": path, "line": line, "symbol": symbol,
    });
    ("c", "LSP", input)
}

fn read(path: &str) -> Call {
    ("c", "Read", json!({ "file_path": path }))
}

fn edit(path: &str, old: &str, new: &str) -> Call {
    ("c", "Edit", json!({ "file_path": path, "old_string": old, "new_string": new }))
}

fn log(server: &Server) -> String {
    fs::read_to_string(server.workspace().join(LOG)).unwrap_or_default()
}

/// A text of which every part must be there.
#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[tokio::test]
async fn a_definition_comes_with_its_line_and_the_line_that_was_asked_about() {
    let upstream = Upstream::start();
    let server = scripted(&upstream, "plain").start().await;
    let answer = one(&server, &upstream, definition("a.py", 2, "x")).await;
    assert_eq!(answer, "a.py:1:1: x = 1\n(asked about line 2, column 5: y = x)");
    let hover = json!({ "operation": "hover", "filePath": "a.py", "line": "2", "column": 900 });
    let answer = one(&server, &upstream, ("c", "LSP", hover)).await;
    has(&answer, &["at 1:5"]);
}

#[tokio::test]
async fn an_edit_tells_what_it_broke_and_counts_what_was_broken_before() {
    let upstream = Upstream::start();
    let server = scripted(&upstream, "plain")
        .file("b.py", "one\nBAD old\n")
        .config("lsp.diagnostics", r#""20s""#)
        .start()
        .await;
    // The server has looked at the file once it answers about it.
    told(&server, &upstream, &[read("b.py"), definition("b.py", 1, "one")]).await;
    let answers =
        told(&server, &upstream, &[read("b.py"), edit("b.py", "one", "zero\nBAD new")]).await;
    has(&answers[1], &["Diagnostics (scripted): 1 new", "\n2:1 error: it is BAD new"]);
    assert!(!answers[1].contains("it is BAD old"), "{}", answers[1]);
    let write = json!({ "file_path": "b.py", "content": "fine\n" });
    let answers = told(&server, &upstream, &[read("b.py"), ("c", "Write", write)]).await;
    has(&answers[1], &["Diagnostics (scripted): nothing new"]);
}

#[tokio::test]
async fn an_edit_tells_what_it_broke_however_many_other_files_a_server_tells_of() {
    let upstream = Upstream::start();
    let server = scripted(&upstream, "others").config("lsp.diagnostics", r#""20s""#).start().await;
    told(&server, &upstream, &[definition("a.py", 1, "x")]).await;
    let answers = told(&server, &upstream, &[read("a.py"), edit("a.py", "y = x", "BAD")]).await;
    has(&answers[1], &["Diagnostics (scripted): 1 new", "2:1 error: it is BAD"]);
}

#[tokio::test]
async fn a_list_without_a_version_counts_when_the_budget_is_over() {
    let upstream = Upstream::start();
    let server =
        scripted(&upstream, "versionless").config("lsp.diagnostics", r#""5s""#).start().await;
    told(&server, &upstream, &[definition("a.py", 1, "x")]).await;
    let answers = told(&server, &upstream, &[read("a.py"), edit("a.py", "y = x", "BAD")]).await;
    has(&answers[1], &["1 new", "2:1 error: it is BAD"]);
}

#[tokio::test]
async fn a_server_that_says_nothing_is_pending_and_one_that_starts_is_not_waited_for() {
    let upstream = Upstream::start();
    let server =
        scripted(&upstream, "silent").config("lsp.diagnostics", r#""300ms""#).start().await;
    let write = json!({ "file_path": "cold.py", "content": "x\n" });
    let cold = one(&server, &upstream, ("c", "Write", write)).await;
    assert!(!cold.contains("iagnostics"), "{cold}");
    told(&server, &upstream, &[definition("a.py", 1, "x")]).await;
    let answers = told(&server, &upstream, &[read("a.py"), edit("a.py", "y", "z")]).await;
    has(&answers[1], &["Diagnostics pending: scripted has not looked at the change yet."]);
}

#[tokio::test]
async fn a_budget_of_zero_asks_for_no_diagnostics() {
    let upstream = Upstream::start();
    let server = scripted(&upstream, "plain").config("lsp.diagnostics", r#""0s""#).start().await;
    told(&server, &upstream, &[definition("a.py", 1, "x")]).await;
    let answers = told(&server, &upstream, &[read("a.py"), edit("a.py", "y = x", "BAD")]).await;
    assert!(!answers[1].contains("iagnostics"), "{}", answers[1]);
}

#[tokio::test]
async fn a_server_that_dies_at_each_start_is_off_and_says_why() {
    let upstream = Upstream::start();
    let server = scripted(&upstream, "dies").start().await;
    let answer = one(&server, &upstream, definition("a.py", 1, "x")).await;
    has(&answer, &["Error: scripted is off: it has ended", "it said: Traceback: it is broken"]);
    one(&server, &upstream, definition("a.py", 1, "x")).await;
    assert_eq!(log(&server).matches("started").count(), 4);
    assert_eq!(language_servers(&server).await[0]["state"], "off");
}

#[tokio::test]
async fn a_gigabyte_of_header_ends_the_server() {
    let upstream = Upstream::start();
    let server = scripted(&upstream, "header").start().await;
    let answer = one(&server, &upstream, definition("a.py", 1, "x")).await;
    has(&answer, &["Error: scripted is off: it sent a header of more than 8192 bytes"]);
}

#[tokio::test]
async fn what_a_server_asks_is_refused_but_its_configuration() {
    let upstream = Upstream::start();
    let server = scripted(&upstream, "asks").start().await;
    told(&server, &upstream, &[definition("a.py", 1, "x")]).await;
    has(
        &log(&server),
        &[
            r#"answer {"applied": false, "failureReason": "this client changes no files"}"#,
            r#"answer {"success": false}"#,
            r#"answer [{"secret": "no"}]"#,
            r#"answer {"code": -32601"#,
        ],
    );
}

#[tokio::test]
async fn places_outside_come_without_text_and_secrets_not_at_all() {
    let upstream = Upstream::start();
    let server = scripted(&upstream, "outside").start().await;
    let answer = one(&server, &upstream, definition("a.py", 2, "x")).await;
    has(&answer, &["/etc/passwd:1:1\na.py:1:1: x = 1", "(1 left out, in what is no file)"]);
    assert!(!answer.contains("root:"), "{answer}");
    drop(server);

    let server = scripted(&upstream, "secrets")
        .file(".env", "KEY=hidden\n")
        .file("denied.py", "hidden = 1\n")
        .config("permissions.deny", r#"["Read(denied.py)"]"#)
        .start()
        .await;
    let answer = one(&server, &upstream, definition("a.py", 2, "x")).await;
    has(&answer, &["a.py:1:1: x = 1", "(2 left out, in files that may not be read)"]);
    assert!(!answer.contains("hidden") && !answer.contains("denied"), "{answer}");
    let answer = one(&server, &upstream, definition("denied.py", 1, "hidden")).await;
    has(&answer, &["Error: not permitted: the rule `Read(denied.py)`"]);
    let answer = one(&server, &upstream, definition("/etc/hostname.py", 1, "x")).await;
    has(&answer, &["Error: not permitted: "]);
}

#[tokio::test]
async fn an_open_file_that_becomes_one_that_may_not_be_read_is_closed() {
    for replacement in ["denied.py", ".env"] {
        let upstream = Upstream::start();
        let server = scripted(&upstream, "texts")
            .file("b.py", "b = 1\n")
            .file(".env", "KEY=hidden\n")
            .file("denied.py", "hidden = 1\n")
            .config("permissions.deny", r#"["Read(denied.py)"]"#)
            .start()
            .await;
        one(&server, &upstream, definition("b.py", 1, "b")).await;
        has(&log(&server), &["textDocument/didOpen", "b = 1"]);
        fs::remove_file(server.workspace().join("b.py")).expect("our own file");
        symlink(replacement, server.workspace().join("b.py")).expect("a link");
        one(&server, &upstream, definition("a.py", 2, "x")).await;
        let log = log(&server);
        has(&log, &["textDocument/didClose", "y = x"]);
        assert!(!log.contains("hidden"), "{log}");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_and_told() {
    let upstream = Upstream::start();
    let server = scripted(&upstream, "never").config("lsp.timeout", r#""200ms""#).start().await;
    let answer = one(&server, &upstream, definition("a.py", 1, "x")).await;
    let expected = "Error: scripted did not answer within 200ms; the request was cancelled";
    assert_eq!(answer, expected);
    one(&server, &upstream, definition("a.py", 1, "x")).await;
    has(&log(&server), &["cancelled"]);
}

#[tokio::test]
async fn a_server_that_the_workspace_brings_is_not_run() {
    let upstream = Upstream::start();
    let builder = builder(&upstream).file("a.py", "x = 1\n");
    let workspace = builder.workspace();
    let bin = ["bin", "node_modules/.bin"].map(|directory| workspace.join(directory));
    let run = workspace.join("was-run");
    let mut builder = builder;
    for directory in ["bin", "node_modules/.bin"] {
        let name = format!("{directory}/basedpyright-langserver");
        builder = builder.file(&name, &format!("#!/bin/sh\necho run >>{}\n", run.display()));
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(workspace.join(name), mode).expect("our own file");
    }
    // The machine's own language servers are not on it.
    let path = format!("{}:{}:bin", bin[0].display(), bin[1].display());
    let server = builder.environment("PATH", &path).start().await;
    trust(&server, "trust", &workspace);
    let answer = one(&server, &upstream, definition("a.py", 1, "x")).await;
    has(&answer, &["Error: no tool named LSP is available"]);
    told(&server, &upstream, &[read("a.py"), edit("a.py", "x", "y")]).await;
    assert!(!run.exists());
}

/// Stands for rustup, which starts what the workspace names unless the variable names another.
const RUSTUP: &str = r#"#!/bin/sh
if [ -z "$RUSTUP_TOOLCHAIN" ] && [ -e rust-toolchain.toml ]; then
    exec ./evil/bin/rust-analyzer
fi
"#;

#[tokio::test]
async fn a_workspace_chooses_no_toolchain_unless_it_is_trusted() {
    let upstream = Upstream::start();
    let builder = builder(&upstream)
        .file("Cargo.toml", "")
        .file("a.rs", "fn x() {}\n")
        .file("rust-toolchain.toml", "[toolchain]\npath = \"evil\"\n")
        .argument("--sandbox=off");
    let (workspace, home) = (builder.workspace(), builder.home().to_owned());
    let (bin, run) = (home.join("bin"), workspace.join("was-run"));
    let evil = format!("#!/bin/sh\necho run >>{}\n", run.display());
    let builder = builder.file("evil/bin/rust-analyzer", &evil);
    let log = workspace.join(LOG);
    fs::create_dir_all(&bin).expect("a directory");
    fs::write(bin.join("server.py"), SCRIPT).expect("a file");
    let script = bin.join("server.py");
    let line = format!("exec /usr/bin/python3 {} plain {}\n", script.display(), log.display());
    fs::write(bin.join("rustup"), format!("{RUSTUP}{line}")).expect("a file");
    for program in [bin.join("rustup"), workspace.join("evil/bin/rust-analyzer")] {
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("our own file");
    }
    symlink("rustup", bin.join("rust-analyzer")).expect("a link");
    fs::create_dir_all(home.join(".rustup")).expect("a directory");
    let settings = "version = \"12\"\ndefault_toolchain = \"stable\"\n";
    fs::write(home.join(".rustup/settings.toml"), settings).expect("a file");
    // Without trust, the operator's word for the server lets it start.
    let own =
        "[lsp.servers.own]\ncommand = \"rust-analyzer\"\nextensions = { \".rs\" = \"rust\" }\n";
    let builder = builder.tables(own).environment("HOME", &home.to_string_lossy());
    let server = builder.environment("PATH", &bin.to_string_lossy()).start().await;
    let answer = one(&server, &upstream, definition("a.rs", 1, "x")).await;
    has(&answer, &["a.rs:1:1: fn x() {}"]);
    assert!(!run.exists());
    trust(&server, "trust", &workspace);
    one(&server, &upstream, definition("a.rs", 1, "x")).await;
    assert!(run.exists());
}

#[tokio::test]
async fn a_servers_start_needs_the_sandbox_trust_or_the_operators_word() {
    let upstream = Upstream::start();
    let builder = builder(&upstream).file("a.py", "x = 1\ny = x\n");
    let builder = builder.config("sandbox.mode", r#""off""#);
    let path = builder.home().join("bin").display().to_string();
    let (bin, log) = (builder.home().join("bin"), builder.workspace().join(LOG));
    fs::create_dir(&bin).expect("a directory");
    let server = builder.environment("PATH", &path).start().await;
    assert!(!is_listed(&server).await);
    let checked = |server: &Server| {
        let output = toolhand_on(&path, server, &["check"]);
        let text = String::from_utf8(output.stdout).expect("text");
        let (_, after) = text.split_once("\nlanguage servers:").unwrap_or_else(|| panic!("{text}"));
        after.lines().take(2).collect::<Vec<_>>().join("\n")
    };
    has(&checked(&server), &["none is on PATH"]);

    // It is on PATH, outside of the workspace, and so not configured.
    install_in(&bin, "basedpyright-langserver", &log);
    let answer = one(&server, &upstream, definition("a.py", 2, "x")).await;
    has(&answer, &["Error: no tool named LSP is available"]);
    let offered = upstream.requests().pop().expect("a request").json()["tools"].to_string();
    assert!(!offered.contains("\"LSP\"") && !is_listed(&server).await, "{offered}");
    let servers = language_servers(&server).await;
    let why = servers[0]["why"].as_str().expect("a reason");
    has(why, &["basedpyright would run code of the workspace", "`toolhand trust "]);
    has(&checked(&server), &["  basedpyright: off: basedpyright would run code", "trust "]);

    trust(&server, "trust", &server.workspace());
    assert!(is_listed(&server).await);
    has(&checked(&server), &["  basedpyright: on demand: starts when it is needed, not confined"]);
    let answer = one(&server, &upstream, definition("a.py", 2, "x")).await;
    has(&answer, &["a.py:1:1: x = 1"]);
    trust(&server, "untrust", &server.workspace());
    assert!(!is_listed(&server).await);
    let answer = one(&server, &upstream, definition("a.py", 2, "x")).await;
    has(&answer, &["Error: no tool named LSP is available"]);
}

#[tokio::test]
async fn a_server_for_other_languages_than_the_workspaces_is_not_offered() {
    let upstream = Upstream::start();
    let builder = builder(&upstream).file("a.py", "x = 1\n");
    let bin = install(&builder, "clangd");
    let server = builder.environment("PATH", &bin.to_string_lossy()).start().await;
    trust(&server, "trust", &server.workspace());
    assert!(!is_listed(&server).await);
    install_in(&bin, "basedpyright-langserver", &server.workspace().join(LOG));
    assert!(is_listed(&server).await);
}

#[tokio::test]
async fn a_confined_server_reaches_nothing_outside_of_the_workspace() {
    let upstream = Upstream::start();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let builder = scripted(&upstream, "reaches").environment("OPENAI_API_KEY", "sk-of-the-server");
    // Not in /tmp, of which a sandbox has its own.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let outside = place.path().join("made");
    let port = listener.local_addr().expect("an address").port();
    let aims = json!({ "file": outside, "port": port });
    let server = builder.file("reach.json", &aims.to_string()).start().await;
    if !has_sandbox(&server).await {
        return skipped("a_confined_server_reaches_nothing_outside_of_the_workspace", "no sandbox");
    }
    let answer = one(&server, &upstream, definition("a.py", 2, "x")).await;
    has(&answer, &["a.py:1:1: x = 1"]);
    let log = log(&server);
    has(&log, &["write failed: ", "connection failed: ", "environment {"]);
    assert!(!log.contains("sk-of-the-server") && !log.contains("OPENAI_API_KEY"), "{log}");
    assert!(!outside.exists());
    assert_eq!(listener.accept().expect_err("nobody").kind(), ErrorKind::WouldBlock);
    assert_eq!(language_servers(&server).await[0]["state"], "ready");
}

#[tokio::test]
async fn rust_analyzer_runs_no_code_of_a_repository_that_nobody_trusts() {
    let upstream = Upstream::start();
    let builder = builder(&upstream).file("a.rs", "x\n").file("Cargo.toml", "[package]\n");
    let bin = install(&builder, "rust-analyzer");
    let server = builder.environment("PATH", &bin.to_string_lossy()).start().await;
    if !has_sandbox(&server).await {
        let test = "rust_analyzer_runs_no_code_of_a_repository_that_nobody_trusts";
        return skipped(test, "no sandbox");
    }
    let options = || {
        let log = log(&server);
        let last = log.lines().rfind(|line| line.starts_with("options "));
        last.map(|line| line.trim_start_matches("options ").to_owned()).expect("options")
    };
    one(&server, &upstream, definition("a.rs", 1, "x")).await;
    let untrusted: Value = serde_json::from_str(&options()).expect("JSON");
    assert_eq!(untrusted["cargo"]["buildScripts"]["enable"], false, "{untrusted}");
    assert_eq!(untrusted["procMacro"]["enable"], false, "{untrusted}");
    assert_eq!(untrusted["checkOnSave"], false, "{untrusted}");
    trust(&server, "trust", &server.workspace());
    one(&server, &upstream, definition("a.rs", 1, "x")).await;
    assert_eq!(options(), "{}");
}

#[tokio::test]
async fn a_server_that_gives_diagnostics_only_when_asked_is_asked_after_an_edit() {
    let upstream = Upstream::start();
    let server = scripted(&upstream, "pull").config("lsp.diagnostics", r#""20s""#).start().await;
    told(&server, &upstream, &[definition("a.py", 1, "x")]).await;
    let answers = told(&server, &upstream, &[read("a.py"), edit("a.py", "y = x", "BAD")]).await;
    has(&answers[1], &["Diagnostics (scripted): 1 new", "\n2:1 error: it is BAD"]);
}

#[tokio::test]
async fn a_server_that_reads_the_project_is_asked_again_and_else_said_to_be_indexing() {
    let upstream = Upstream::start();
    let server = scripted(&upstream, "settles").start().await;
    let answer = one(&server, &upstream, definition("a.py", 2, "x")).await;
    assert_eq!(answer, "a.py:1:1: x = 1\n(asked about line 2, column 5: y = x)");
    drop(server);

    let server = scripted(&upstream, "indexing").config("lsp.timeout", r#""2s""#).start().await;
    let answer = one(&server, &upstream, definition("a.py", 2, "x")).await;
    has(&answer, &["scripted found nothing.", "(scripted may be still indexing the project"]);
}

#[tokio::test]
async fn positions_are_counted_as_the_server_does() {
    let upstream = Upstream::start();
    let text = "s = \"\u{1f600}\u{e9}\"; x = s\n";
    for (mode, character) in [("plain", 11), ("utf-8", 14), ("utf-16", 11), ("utf-32", 10)] {
        let server = scripted(&upstream, mode).file("a.py", text).start().await;
        let hover = json!({ "operation": "hover", "filePath": "a.py", "line": 1, "symbol": "x" });
        let answer = one(&server, &upstream, ("c", "LSP", hover)).await;
        has(&answer, &[&format!("at 0:{character}"), "column 11"]);
        if mode != "plain" {
            let answer = one(&server, &upstream, definition("a.py", 1, "x")).await;
            has(&answer, &["a.py:1:11: s = \"\u{1f600}\u{e9}\"; x = s"]);
        }
    }
}

#[tokio::test]
async fn fifty_documents_are_open_and_one_of_more_than_10_mib_is_none() {
    let upstream = Upstream::start();
    let builder = (0..51).fold(scripted(&upstream, "plain"), |builder, number| {
        builder.file(&format!("f{number}.py"), "x = 1\n")
    });
    let server = builder.file("big.py", &"x = 1\n".repeat(2 << 20)).start().await;
    for numbers in [0..30, 30..51] {
        let all = numbers.clone().map(|number| definition(&format!("f{number}.py"), 1, "x"));
        let ids: Vec<String> = numbers.clone().map(|number| format!("c{number}")).collect();
        let round = ids.iter().zip(all).map(|(id, (_, name, input))| (id.as_str(), name, input));
        upstream.round(calls(&round.collect::<Vec<_>>()));
        upstream.round(says("Done."));
        assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
        let answers = answers_in(&upstream.requests().pop().expect("a request").json());
        assert_eq!(answers.len(), numbers.len());
        for (number, answer) in numbers.zip(answers) {
            has(&answer, &[&format!("f{number}.py:1:1: x = 1")]);
        }
    }
    // One that was closed is opened again: an answer follows it.
    one(&server, &upstream, definition("f0.py", 1, "x")).await;
    let log = log(&server);
    let count = |what: &str| log.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!(count("opened ") - count("closed "), 50, "{log}");

    let answer = one(&server, &upstream, definition("big.py", 1, "x")).await;
    has(&answer, &["Error: ", "big.py is larger than 10 MiB, the most for a language server"]);
}

#[tokio::test]
async fn each_project_of_a_server_is_reported() {
    let upstream = Upstream::start();
    let builder = scripted(&upstream, "plain");
    let server = builder
        .tables("roots = [\"own.toml\"]\n")
        .file("one/own.toml", "")
        .file("one/a.py", "x = 1\n")
        .file("two/own.toml", "")
        .file("two/a.py", "x = 1\n")
        .start()
        .await;
    let on_demand = language_servers(&server).await;
    assert_eq!(on_demand[0]["state"], "on_demand");
    assert!(on_demand[0]["root"].is_null(), "{on_demand}");
    let calls = [definition("one/a.py", 1, "x"), definition("two/a.py", 1, "x")];
    told(&server, &upstream, &calls).await;
    let servers = language_servers(&server).await;
    let roots: Vec<_> = servers.as_array().expect("a list").iter().map(|it| &it["root"]).collect();
    let workspace = server.workspace().canonicalize().expect("a path");
    assert_eq!(roots, [&json!(workspace.join("one")), &json!(workspace.join("two"))]);
}

#[tokio::test]
async fn outside_lsp_more_projects_than_servers_may_run_are_asked_one_after_the_other() {
    let upstream = Upstream::start();
    let mut builder = builder(&upstream).file("server.py", SCRIPT);
    let (script, log) = (builder.workspace().join("server.py"), builder.workspace().join(LOG));
    for language in ["one", "two"] {
        let arguments = json!([script, "symbols", log]);
        builder = builder.tables(&format!(
            "[lsp.servers.{language}]\ncommand = \"/usr/bin/python3\"\nargs = {arguments}\n\
             extensions = {{ \".{language}\" = \"{language}\" }}\nroots = [\"{language}.toml\"]\n"
        ));
        for number in 1..=3 {
            let project = format!("{language}-{number}");
            builder = builder.file(&format!("{project}/{language}.toml"), "");
            builder = builder.file(&format!("{project}/main.x"), "fn wanted() {}\n");
        }
    }
    let server = builder.start().await;
    let input = json!({ "operation": "workspaceSymbol", "query": "wanted" });
    let answer = one(&server, &upstream, ("c", "LSP", input)).await;
    for language in ["one", "two"] {
        for number in 1..=3 {
            has(&answer, &[&format!("{language}-{number}/main.x:1:1 function wanted")]);
        }
    }
    assert!(!answer.contains("not answered"), "{answer}");
}

#[tokio::test]
async fn outside_lsp_a_symbol_without_a_file_asks_every_server_of_the_workspace() {
    let upstream = Upstream::start();
    let builder = builder(&upstream).file("server.py", SCRIPT);
    let (script, log) = (builder.workspace().join("server.py"), builder.workspace().join(LOG));
    let table = |name: &str, mode: &str| {
        let arguments = json!([script, mode, log]);
        format!(
            "[lsp.servers.{name}]\ncommand = \"/usr/bin/python3\"\nargs = {arguments}\n\
             extensions = {{ \".{name}\" = \"{name}\" }}\nroots = [\"{name}.toml\"]\n"
        )
    };
    let tables = [table("one", "symbols"), table("two", "symbols"), table("three", "symbols-no")];
    let server = builder
        .tables(&tables.concat())
        .file("back/one.toml", "")
        .file("back/main.x", "fn wanted() {}\n")
        .file("front/two.toml", "")
        .file("front/main.x", "function wanted() {}\n")
        .file("three.toml", "")
        .start()
        .await;
    for (name, path) in [("query", None), ("symbol", None), ("query", Some("."))] {
        let input = json!({ "operation": "workspaceSymbol", name: "wanted", "filePath": path });
        let answer = one(&server, &upstream, ("c", "LSP", input)).await;
        has(
            &answer,
            &[
                "back/main.x:1:1 function wanted: fn wanted() {}",
                "front/main.x:1:1 function wanted: function wanted() {}",
                "(not answered: three does not offer workspace/symbol)",
            ],
        );
    }
    has(&self::log(&server), &["symbol back wanted", "symbol front wanted"]);
}

/// A server whose operator has configured scripted language servers of these modes, each with a
/// project of its own.
fn with_projects(upstream: &Upstream, modes: &[&str]) -> Builder {
    let mut builder = builder(upstream).file("server.py", SCRIPT);
    let (script, log) = (builder.workspace().join("server.py"), builder.workspace().join(LOG));
    for (at, mode) in modes.iter().enumerate() {
        let arguments = json!([script, mode, log]);
        builder = builder
            .tables(&format!(
                "[lsp.servers.s{at}]\ncommand = \"/usr/bin/python3\"\nargs = {arguments}\n\
                 extensions = {{ \".s{at}\" = \"s{at}\" }}\nroots = [\"s{at}.toml\"]\n"
            ))
            .file(&format!("p{at}/s{at}.toml"), "")
            .file(&format!("p{at}/main.x"), "fn wanted() {}\n");
    }
    builder.config("lsp.timeout", r#""2s""#)
}

#[tokio::test]
async fn outside_lsp_a_server_that_answers_nothing_is_told_and_the_others_are_asked() {
    let upstream = Upstream::start();
    let modes = ["symbols", "symbols-null", "symbols-error", "symbols-never"];
    let server = with_projects(&upstream, &modes).start().await;
    let input = json!({ "operation": "workspaceSymbol", "query": "wanted" });
    let answer = one(&server, &upstream, ("c", "LSP", input)).await;
    has(
        &answer,
        &[
            "p0/main.x:1:1 function wanted: fn wanted() {}",
            "(not answered: s2 ",
            "no project is loaded",
            "(not answered: s3 ",
        ],
    );
    assert!(!answer.contains("s1"), "nothing found is an answer: {answer}");
}

#[tokio::test]
async fn outside_lsp_nothing_found_is_told_from_no_answer() {
    let upstream = Upstream::start();
    let input = json!({ "operation": "workspaceSymbol", "query": "wanted" });
    let server = with_projects(&upstream, &["symbols-null", "symbols-null"]).start().await;
    let answer = one(&server, &upstream, ("c", "LSP", input.clone())).await;
    has(&answer, &["s0, s1 found nothing."]);
    let modes = ["symbols-error", "symbols-never", "symbols-malformed"];
    let server = with_projects(&upstream, &modes).start().await;
    let answer = one(&server, &upstream, ("c", "LSP", input)).await;
    let malformed = "s2 answered workspace/symbol with something else";
    has(&answer, &["Error: ", "s0 ", "no project is loaded", "s1 ", malformed]);
}
