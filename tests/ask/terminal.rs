//! Tests `ask` on a terminal: the spinner, control characters, Ctrl-C.

use serde_json::json;

use super::Ask;
use super::pseudo_terminal::PseudoTerminal;
use crate::support::chunks::{calls, end, gate, says, text};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

const ESCAPE: char = '\u{1b}';

/// Clears the line with the cursor.
const CLEARED: &str = "\r\u{1b}[K";
const COLOURS: [&str; 4] = ["\u{1b}[36m", "\u{1b}[32m", "\u{1b}[31m", "\u{1b}[0m"];

/// What the user sees in the end, without colours.
fn seen(screen: &str) -> String {
    let screen = screen.replace("\r\n", "\n");
    let lines = screen.split('\n').map(|line| line.rsplit(CLEARED).next().unwrap_or_default());
    let text = lines.collect::<Vec<_>>().join("\n");
    COLOURS.iter().fold(text, |text, colour| text.replace(colour, ""))
}

#[tokio::test]
async fn a_terminal_shows_a_spinner_durations_and_the_answer() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("a.txt", "one\n").start().await;
    let read = calls(&[("c1", "Read", json!({ "file_path": "a.txt" }))]);
    upstream.round([vec![gate("asked"), text("Reading.")], read].concat());
    upstream.round([vec![gate("read"), text("All")], end("stop")].concat());

    let mut terminal = PseudoTerminal::start(&Ask::of(&server, &["Read it."]));
    terminal.written("s  waiting for the model").await;
    upstream.open("asked");
    terminal.written("Read a.txt (").await;
    terminal.written("characters)\r\n").await;
    upstream.open("read");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("\u{1b}[32m✓\u{1b}[0m Read a.txt ("), "{screen:?}");
    let seen = seen(&screen);
    // Progress does not continue the answer's line, and nothing is left of the spinner.
    assert!(seen.starts_with("Reading.\n✓ Read a.txt ("), "{seen:?}");
    assert!(seen.ends_with(" characters)\n\n\nAll\n"), "{seen:?}");
}

#[tokio::test]
async fn foreign_control_characters_are_shown_and_not_sent() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let script = || {
        let path = "\u{1b}]0;title\u{7}\u{9b}2J\u{202e}";
        upstream.round(calls(&[("c1", "Read", json!({ "file_path": path }))]));
        upstream.round(
            [
                vec![
                    text("\u{1b}"),
                    text("[2J\u{1b}]52;c;eA==\u{7}\ttab\r"),
                    text("\u{9b}31m\u{7f}"),
                ],
                says("\u{202e}end\n"),
            ]
            .concat(),
        );
    };

    script();
    let (code, screen) = PseudoTerminal::start(&Ask::of(&server, &["Go."])).end().await;
    assert_eq!(code, Some(0), "{screen}");
    let plain = seen(&screen);
    assert!(
        plain.contains("\\x1b[2J\\x1b]52;c;eA==\\x07\ttab\\x0d\\x9b31m\\x7f\\u{202e}end\n"),
        "{plain:?}"
    );
    assert!(plain.contains(r"Read \x1b]0;title\x07\x9b2J\u{202e}"), "{plain:?}");
    let unsafe_ones = |c: &char| (c.is_control() && !"\n\t".contains(*c)) || *c == '\u{202e}';
    assert_eq!(plain.chars().find(unsafe_ones), None, "{plain:?}");

    // Without colours no escape sequence is sent at all.
    script();
    let ask = Ask::of(&server, &["Go."]).variable("NO_COLOR", "1");
    let (code, screen) = PseudoTerminal::start(&ask).end().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains(ESCAPE), "{screen:?}");
    assert!(screen.contains(r"→ Read \x1b]0;title"), "{screen:?}");

    // Errors and names are made safe in the same way.
    let ask = Ask::of(&server, &["-s", "\u{1b}[2J", "Go."]);
    let (code, screen) = PseudoTerminal::start(&ask).end().await;
    assert_eq!(code, Some(1), "{screen}");
    assert_eq!(seen(&screen).find(ESCAPE), None, "{screen:?}");

    let ask = Ask::of(&server, &["--json", "Go."]);
    upstream.round(says("\u{9b}2J"));
    let (code, screen) = PseudoTerminal::start(&ask).end().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains('\u{9b}') && screen.contains(r"\x9b2J"), "{screen:?}");
}

#[tokio::test]
async fn ctrl_c_cancels_the_turn() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    upstream.round([vec![text("A first word")], vec![gate("never")]].concat());

    let mut terminal = PseudoTerminal::start(&Ask::of(&server, &["Talk."]));
    terminal.written("A first word").await;
    terminal.press("\u{3}");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(130), "{screen}");
    assert!(screen.ends_with("\r\ntoolhand: interrupted; the turn is cancelled\r\n"), "{screen:?}");
    upstream.abandoned(0).await;
}

#[tokio::test]
async fn ctrl_c_ends_the_command_that_a_turn_runs() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    upstream.round(calls(&[("c1", "Bash", json!({ "command": "sleep 1000" }))]));

    let mut terminal = PseudoTerminal::start(&Ask::of(&server, &["Sleep."]));
    terminal.written("s  Bash sleep 1000").await;
    terminal.press("\u{3}");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(130), "{screen}");
    server.no_children().await;
}

#[tokio::test]
async fn a_prompt_can_be_typed() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(says("Done."));

    let mut terminal = PseudoTerminal::start(&Ask::of(&server, &["-"]));
    terminal.press("Count.\n\u{4}");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(super::asked(&upstream).await, "Count.");
}
