//! Tests what `ask` renders on a terminal, and that a pipe gets the text as it is.

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;

use super::Ask;
use crate::support::chunks::{calls, gate, says, text};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

const ANSWER: &str =
    "# Title\n\nA **bold** word and `code`.\n\n```diff\n-old\n+new\n```\n2 * 3 * 4\n";

#[tokio::test]
async fn bold_code_and_diffs_are_rendered_on_a_terminal_and_plain_in_a_pipe() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(says(ANSWER));
    let (code, screen) = Ask::of(&server, &["Show."]).on_terminal().end().await;
    assert_eq!(code, Some(0), "{screen}");
    for rendered in [
        "\u{1b}[1mTitle\u{1b}[0m",
        "A \u{1b}[1mbold\u{1b}[0m word and \u{1b}[36mcode\u{1b}[0m.",
        "\u{1b}[31m-old\u{1b}[0m",
        "\u{1b}[32m+new\u{1b}[0m",
        "2 * 3 * 4",
    ] {
        assert!(screen.contains(rendered), "{rendered:?}: {screen:?}");
    }
    assert!(!screen.contains("**") && !screen.contains("```"), "{screen:?}");

    upstream.round(says(ANSWER));
    let ended = Ask::of(&server, &["Show."]).run().await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ANSWER));

    upstream.round(says(ANSWER));
    let plain = Ask::of(&server, &["Show."]).variable("NO_COLOR", "1");
    let (_, screen) = plain.on_terminal().end().await;
    assert!(screen.replace("\r\n", "\n").ends_with(ANSWER), "{screen:?}");
}

#[tokio::test]
async fn text_is_rendered_while_the_model_still_speaks() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let pieces = vec![text("So **bo"), text("ld** it is, and"), gate("on"), text(" on")];
    upstream.round([pieces, says("\n")].concat());

    let mut terminal = Ask::of(&server, &["Show."]).on_terminal();
    terminal.written("So \u{1b}[1mbold\u{1b}[0m it is,").await;
    upstream.open("on");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains(" and on\r\n"), "{screen:?}");
}

/// The diff of an approval is what the person decides about.
#[tokio::test]
async fn the_diff_of_an_approval_is_rendered() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("a.txt", "old\n").start().await;
    upstream.round(calls(&[("r1", "Read", json!({ "file_path": "a.txt" }))]));
    let edit = json!({ "file_path": "a.txt", "old_string": "old", "new_string": "new" });
    upstream.round(calls(&[("e1", "Edit", edit)]));
    upstream.round(says("Done."));

    let mut terminal = Ask::of(&server, &["Edit."]).on_terminal();
    terminal.written("\u{1b}[32m+new\u{1b}[0m").await;
    terminal.written("> ").await;
    terminal.press("1\n");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("\u{1b}[31m-old\u{1b}[0m"), "{screen:?}");
    assert_eq!(server.file("a.txt"), "new\n");
}

/// On a terminal the output stands above the spinner until the command ends.
#[tokio::test]
async fn the_output_of_a_running_command_grows() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let held = server.workspace().join("held");
    mkfifoat(CWD, &held, Mode::RWXU).expect("a pipe");
    let command = "echo first line; read x < held; echo last line";
    let script = || {
        upstream.round(calls(&[("c1", "Bash", json!({ "command": command }))]));
        upstream.round(says("Done.\n"));
    };

    script();
    let mut terminal = Ask::of(&server, &["Go."]).on_terminal();
    terminal.written("  \u{1b}[2mfirst line\u{1b}[0m\r\n").await;
    std::fs::write(&held, "on").expect("the command reads it");
    let (code, screen) = terminal.end().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.ends_with("Done.\r\n"), "{screen:?}");

    script();
    let mut child = Ask::of(&server, &["Go."]).start();
    let mut stderr = child.stderr.take().expect("piped");
    let mut told = Vec::new();
    while !String::from_utf8_lossy(&told).contains("\n  first line\n") {
        let reading = tokio::io::AsyncReadExt::read_buf(&mut stderr, &mut told);
        let read = crate::support::watch("the first line", reading).await.expect("a pipe");
        assert!(0 < read, "{}", String::from_utf8_lossy(&told));
    }
    std::fs::write(&held, "on").expect("the command reads it");
    let ended = child.wait_with_output().await.expect("our child");
    assert_eq!((ended.status.code(), ended.stdout), (Some(0), b"Done.\n".to_vec()));
}

#[tokio::test]
async fn todo_lists_and_the_steps_of_agents_are_shown() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let todos = json!({ "todos": [
        { "content": "Look", "status": "in_progress" },
        { "content": "Test", "status": "pending" },
    ] });
    upstream.round(calls(&[("c1", "TodoWrite", todos)]));
    let task = json!({ "description": "look", "prompt": "Look.", "subagent_type": "Explore" });
    upstream.round(calls(&[("c2", "Task", task)]));
    upstream.round(calls(&[("k1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(says("A needle."));
    upstream.round(says("Done.\n"));

    let ended = Ask::of(&server, &["Go."]).run().await;

    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Done.\n"), "{ended:?}");
    assert!(ended.stderr.contains("  [>] Look\n  [ ] Test\n"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("\n  → Read notes.txt\n  ✓ Read notes.txt ("),
        "{}",
        ended.stderr
    );
}

/// A notice of what a command has left, and what a hook says, are for the person at the terminal.
#[tokio::test]
async fn what_a_command_has_left_is_told() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .free()
        .environment("GIT_CONFIG_GLOBAL", "/dev/null")
        .start()
        .await;
    let script = || {
        upstream.round(calls(&[("c1", "Bash", json!({ "command": "git init -q inner" }))]));
        upstream.round(says("Done.\n"));
    };
    let told = "! a command left a nested repository: ";

    script();
    let ended = Ask::of(&server, &["Go."]).run().await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Done.\n"));
    assert_eq!(ended.stderr.lines().filter(|line| line.starts_with(told)).count(), 1, "{ended:?}");

    std::fs::remove_dir_all(server.workspace().join("inner")).expect("a repository");
    script();
    let ended = Ask::of(&server, &["--quiet", "Go."]).run().await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}
