//! Tests `toolhand chat`: questions in one session, at a terminal and from a pipe.

use serde_json::json;

use super::Ask;
use crate::support::chunks::{calls, error_frame, gate, says, text};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// The messages of a request, as text.
async fn sent(upstream: &Upstream, number: usize) -> String {
    upstream.request(number).await.json()["messages"].to_string()
}

#[tokio::test]
async fn a_chat_remembers_what_was_said_and_done() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(says("It says **needle**."));
    upstream.round(says("As I said."));

    let mut terminal = Ask::chat(&server, &[]).on_terminal();
    terminal.written("you > ").await;
    terminal.press("Read my notes.\n");
    terminal.written("It says \u{1b}[1mneedle\u{1b}[0m.").await;
    terminal.press("What did \\\nthey say?\n");
    terminal.written("As I said.\r\nyou > ").await;
    terminal.press("\u{4}");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(0), "{screen}");
    let last = sent(&upstream, 2).await;
    for known in ["Read my notes.", "needle", "It says **needle**.", "What did \\nthey say?"] {
        assert!(last.contains(known), "{known}: {last}");
    }
    assert!(
        screen.contains("toolhand chat -s chat-") && screen.contains(" goes on here"),
        "{screen}"
    );
}

#[tokio::test]
async fn lines_that_are_pasted_together_are_one_question() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let question = "What is this?\n\n  - one\n  - two";
    let ways = [vec![format!("{question}\n\n")], vec![question.to_owned(), "\n".to_owned()]];

    let mut terminal = Ask::chat(&server, &[]).on_terminal();
    terminal.written("you > ").await;
    for (number, way) in ways.into_iter().enumerate() {
        upstream.round(says(&format!("Answer {number}.")));
        for piece in way {
            terminal.press(&piece);
        }
        terminal.written(&format!("Answer {number}.\r\nyou > ")).await;
        let asked = upstream.request(number).await.json()["messages"].clone();
        let last = asked.as_array().and_then(|messages| messages.last()).expect("a message");
        assert_eq!(last["content"], question);
    }
    terminal.press("\u{4}");
    let (code, screen) = terminal.end().await;
    assert_eq!(code, Some(0), "{screen}");
}

#[tokio::test]
async fn a_named_chat_goes_on_and_each_line_of_a_pipe_is_a_question() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for answer in ["Hello, Quince.", "Quince.\n", "Still Quince."] {
        upstream.round(says(answer));
    }

    let first = Ask::chat(&server, &["-s", "mine", "-q"]);
    let first = first.run_with(b"I am Quince.\n\nWho am I?\n").await;
    let second = Ask::chat(&server, &["-s", "mine", "-q"]).run_with(b"And now?").await;

    assert_eq!((first.code, first.stdout.as_str()), (Some(0), "Hello, Quince.\nQuince.\n"));
    assert_eq!((second.code, second.stdout.as_str()), (Some(0), "Still Quince.\n"));
    assert_eq!(first.stderr, "");
    let last = sent(&upstream, 2).await;
    assert!(last.contains("I am Quince.") && last.contains("Who am I?"), "{last}");
}

#[tokio::test]
async fn ctrl_c_cancels_the_answer_and_at_the_prompt_the_chat() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round([vec![text("A first word")], vec![gate("never")]].concat());
    upstream.round(says("Here I am."));

    let mut terminal = Ask::chat(&server, &[]).on_terminal();
    terminal.press("Talk.\n");
    terminal.written("A first word").await;
    terminal.press("\u{3}");
    terminal.written("toolhand: interrupted; the turn is cancelled\r\nyou > ").await;
    upstream.abandoned(0).await;
    terminal.press("Still there?\n");
    terminal.written("Here I am.\r\nyou > ").await;
    terminal.press("\u{3}");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(130), "{screen}");
}

#[tokio::test]
async fn an_approval_is_given_at_the_terminal_and_a_failure_ends_no_chat() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let command = json!({ "command": "echo done > made.txt" });
    upstream.round(calls(&[("c1", "Bash", command)]));
    upstream.round(says("Made."));

    let mut terminal = Ask::chat(&server, &["-m", "scripted"]).on_terminal();
    terminal.press("Make it.\n");
    terminal.written("Bash needs your approval").await;
    terminal.written("\r\n> ").await;
    terminal.press("1\n");
    terminal.written("Made.").await;
    upstream.round(vec![text("Half"), error_frame("broken")]);
    terminal.press("And now?\n");
    terminal.written("toolhand: the server answered with an error").await;
    upstream.round(says("Better."));
    terminal.press("Again?\n");
    terminal.written("Better.").await;
    terminal.press("\u{4}");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(server.file("made.txt"), "done\n");
}

#[tokio::test]
async fn a_chat_without_a_server_says_how_to_start_one() {
    let home = tempfile::tempdir().expect("a directory");
    let ended = Ask::command_on("chat", &home.path().join("state"), &[]).run().await;
    ended.check_failed(6, "toolhand up");
}
