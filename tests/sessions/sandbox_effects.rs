//! What a person is told that the sandbox does to a command, and the model that it did.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::asking::{Talk, open, tool_answers};
use crate::support::chunks::{calls, says};
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;

const LEVELS: [&str; 2] = ["bwrap", "landlock"];
const NOTE: &str = "touch ~/note.txt && ls -la ~";

/// What fails where no name is resolved, with whichever program there is.
const DOWNLOAD: &str = "curl -sS http://example.invalid/ || \
    python3 -c 'import socket; socket.getaddrinfo(\"example.invalid\", 80)'";

fn builder(upstream: &Upstream, level: &str) -> Builder {
    Server::builder(upstream).config("sandbox.use", &format!("[{level:?}]"))
}

/// `None` where the level does not hold.
pub(super) async fn at_level(builder: Builder, level: &str) -> Option<Server> {
    let server = builder.start().await;
    let status = server.client().get("/toolhand/v1/status").await.json();
    (status["sandbox"]["level"] == level).then_some(server)
}

/// What is asked about a command, the approval over REST, and what the model is told of it when it
/// was allowed.
async fn told(server: &Server, upstream: &Upstream, call: &Value) -> (String, Value, String) {
    let client = server.client();
    let mut talk = Talk::new(client.clone());
    upstream.round(calls(&[("c", "Bash", call.clone())]));
    let question = talk.say("Do it.").await;
    assert!(question.contains("needs your approval"), "{question}");
    let approval = open(&client).await.remove(0);
    upstream.round(says("Done."));
    assert_eq!(talk.say("1").await, "Done.");
    let answers = tool_answers(&upstream.requests().pop().expect("a request"));
    (question, approval, answers.concat())
}

/// The file of [`NOTE`] on the machine.
fn note(server: &Server) -> PathBuf {
    let workspace = server.workspace().canonicalize().expect("a workspace");
    workspace.with_file_name("note.txt")
}

fn bash(command: &str) -> Value {
    json!({ "command": command })
}

/// The lines of a question about the sandbox.
fn of_sandbox(question: &str) -> Vec<&str> {
    question.lines().filter(|line| line.starts_with("- sandbox: ")).collect()
}

#[tokio::test]
async fn a_file_in_home_is_told_to_be_lost_before_and_after() {
    let upstream = Upstream::start();
    for level in LEVELS {
        let Some(server) = at_level(builder(&upstream, level), level).await else { continue };
        let (question, approval, answer) = told(&server, &upstream, &bash(NOTE)).await;
        let note = note(&server);
        let lines = of_sandbox(&question);
        // At landlock home cannot be listed either.
        let expected = if level == "bwrap" { 1 } else { 2 };
        assert_eq!(lines.len(), expected, "{level}: {question}");
        let line = lines[0];
        let (before, after) = match level {
            "bwrap" => ("is gone when the command ends: home is empty", "has dropped"),
            _ => ("cannot be written", "can write only in the workspace"),
        };
        assert!(line.starts_with(&format!("- sandbox: `{}` {before}", note.display())), "{line}");
        assert!(line.ends_with("(`sandbox.writable`)"), "{line}");
        assert_eq!(approval["sandbox"][0]["settings"], json!(["sandbox.writable"]), "{approval}");
        let text = approval["sandbox"][0]["text"].as_str().expect("a text");
        assert!(line.contains(text), "{approval}");
        assert!(answer.contains(after) && answer.contains("`sandbox.writable`"), "{answer}");
        assert!(answer.contains(&note.display().to_string()), "{answer}");
        assert!(!answer.contains("dangerouslyDisableSandbox") && !note.exists(), "{answer}");
    }
}

#[tokio::test]
async fn a_download_is_told_to_have_no_network_before_and_after() {
    let upstream = Upstream::start();
    for level in LEVELS {
        let Some(server) = at_level(builder(&upstream, level), level).await else { continue };
        let (question, approval, answer) = told(&server, &upstream, &bash(DOWNLOAD)).await;
        let line = "- sandbox: no network: `curl` cannot connect to anything (`sandbox.network`)";
        assert_eq!(of_sandbox(&question), [line], "{level}: {question}");
        assert!(!question.contains("talks to the network"), "{question}");
        assert_eq!(approval["sandbox"][0]["settings"], json!(["sandbox.network"]), "{approval}");
        assert_eq!(answer.matches("the sandbox has no network").count(), 1, "{answer}");
        assert!(answer.contains("`sandbox.network = \"full\"`"), "{answer}");
    }
}

#[tokio::test]
async fn what_the_operator_allows_is_neither_told_nor_lost() {
    let upstream = Upstream::start();
    for level in LEVELS {
        let builder = builder(&upstream, level).config("sandbox.network", r#""full""#);
        let notes = builder.home().join("notes");
        fs::create_dir(&notes).expect("a directory");
        let builder = builder.config("sandbox.writable", &json!([notes]).to_string());
        let Some(server) = at_level(builder, level).await else { continue };
        let kept = bash("touch ~/notes/note.txt && ls -la ~/notes");
        let (question, approval, answer) = told(&server, &upstream, &kept).await;
        assert_eq!(of_sandbox(&question), Vec::<&str>::new(), "{level}: {question}");
        assert_eq!(approval["sandbox"], json!([]), "{approval}");
        assert!(!answer.contains("sandbox"), "{level}: {answer}");
        assert!(notes.join("note.txt").exists());

        let (question, _, answer) = told(&server, &upstream, &bash(DOWNLOAD)).await;
        assert!(!question.contains("no network"), "{level}: {question}");
        assert!(!answer.contains("the sandbox"), "{level}: {answer}");
    }
}

#[tokio::test]
async fn a_command_outside_says_so_and_nothing_of_the_sandbox() {
    let upstream = Upstream::start();
    for level in LEVELS {
        let builder = builder(&upstream, level).config("sandbox.escape", "true");
        let Some(server) = at_level(builder, level).await else { continue };
        let call = json!({ "command": NOTE, "dangerouslyDisableSandbox": true });
        let (question, approval, answer) = told(&server, &upstream, &call).await;
        assert!(question.contains("**outside of the sandbox**"), "{question}");
        assert_eq!(approval["sandbox"], json!([]), "{approval}");
        assert!(!answer.contains("sandbox"), "{answer}");
        assert!(note(&server).exists());

        fs::remove_file(note(&server)).expect("a file");
        let (_, _, answer) = told(&server, &upstream, &bash(NOTE)).await;
        assert!(answer.contains("`dangerouslyDisableSandbox` asks a person"), "{answer}");
    }
}

fn init(directory: &Path) {
    let mut git = std::process::Command::new("git");
    let status = git.args(["init", "-q"]).current_dir(directory).status();
    assert!(status.expect("git").success());
}

/// git stages all files, and one of them is closed to what nobody has approved.
#[tokio::test]
async fn a_command_that_met_a_secret_is_asked_about_when_it_comes_again() {
    let upstream = Upstream::start();
    let builder = builder(&upstream, "bwrap").config("sandbox.auto_allow", "true");
    let builder = builder.file(".env", "KEY=hidden\n");
    let Some(server) = at_level(builder, "bwrap").await else { return };
    init(&server.workspace());
    let mut talk = Talk::new(server.client());
    let line = bash("git add -A; git status --short");
    upstream.round(calls(&[("c", "Bash", line.clone())]));
    upstream.round(calls(&[("d", "Bash", line)]));
    let question = talk.say("Stage it.").await;
    let answer = tool_answers(&upstream.requests().pop().expect("a request")).concat();
    assert!(answer.contains("/.env to commands that nobody has approved"), "{answer}");
    assert!(answer.contains("run exactly the same command again"), "{answer}");

    assert!(question.contains("a file that may hold secrets was closed to it"), "{question}");
    upstream.round(says("Done."));
    assert_eq!(talk.say("1").await, "Done.");
    let answer = tool_answers(&upstream.requests().pop().expect("a request")).pop();
    let answer = answer.expect("an answer");
    assert!(answer.contains("A  .env") && !answer.contains("closes"), "{answer}");
}

#[tokio::test]
async fn a_kept_settings_file_is_told_and_so_is_a_repository_above() {
    let upstream = Upstream::start();
    let builder = builder(&upstream, "bwrap").config("sandbox.auto_allow", "true");
    let Some(server) = at_level(builder, "bwrap").await else { return };
    let client = server.client();
    let told = async |line: &str| {
        upstream.round(calls(&[("c", "Bash", bash(line))]));
        upstream.round(says("Done."));
        let mut talk = Talk::new(client.clone());
        assert_eq!(talk.say("Do it.").await, "Done.");
        tool_answers(&upstream.requests().pop().expect("a request")).concat()
    };
    let workspace = server.workspace().canonicalize().expect("a workspace");
    let above = workspace.parent().expect("a directory");
    fs::create_dir(above.join(".git")).expect("a directory");
    let answer = told("git log").await;
    let expected = format!("the repository of the workspace begins at {}", above.display());
    assert!(answer.contains(&expected), "{answer}");

    init(&workspace);
    let answer = told("git config user.name other").await;
    let kept = format!("the sandbox keeps {}/.git/config as it is", workspace.display());
    assert!(answer.contains(&kept), "{answer}");
}
