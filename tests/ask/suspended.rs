//! Tests `ask` when a turn waits for a person: the question, the reply at the terminal, and
//! what happens without one. A scripted server plays our own.

use serde_json::{Value, json};

use super::{Ask, Ended};
use crate::support::chunks::{delta, end, says, text};
use crate::support::pseudo_terminal::PseudoTerminal;
use crate::support::server::Server;
use crate::support::upstream::{Step, Upstream};

const SESSION: &str = "sess_0123456789abcdef0123456789abcdef";
const QUESTION: &str = "Run `make`?\n1. allow once\n3. deny (KXQZ)";

fn head() -> Step {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers =
        vec![header("content-type", "text/event-stream"), header("x-toolhand-session", SESSION)];
    Step::Head { status: 200, headers }
}

fn event(event: &Value) -> Step {
    delta(&json!({ "toolhand": event }))
}

fn approval() -> Step {
    approval_of("KXQZ")
}

fn approval_of(code: &str) -> Step {
    event(&json!({
        "type": "approval", "id": "appr_1", "code": code, "tool": "Bash", "argument": "make",
        "effect": "Runs `make`.", "why": null, "choices": ["allow", "deny"],
        "created": 1, "expires": 2,
    }))
}

/// A turn that asks these questions of the model's own.
fn asks(questions: &[&str]) -> Vec<Step> {
    let one = |question: &&str| json!({ "question": question, "options": [{ "label": "Red" }] });
    let question = event(&json!({
        "type": "question", "id": "appr_1", "code": "KXQZ", "tool": "AskUserQuestion",
        "questions": questions.iter().map(one).collect::<Vec<_>>(),
    }));
    [vec![head(), question, text(&questions.join("\n"))], end("stop")].concat()
}

/// A turn that asks for approvals with these codes.
fn asks_approvals(codes: &[&str]) -> Vec<Step> {
    let approvals = codes.iter().map(|code| approval_of(code)).collect();
    [vec![head()], approvals, vec![text("May I?")], end("stop")].concat()
}

/// A turn that says something, and then asks with this text.
fn suspends(question: &str) -> Vec<Step> {
    let question = if question.is_empty() { vec![] } else { vec![text(question)] };
    [vec![head(), text("I build it."), approval()], question, end("stop")].concat()
}

fn finishes(answer: &str) -> Vec<Step> {
    [vec![head()], says(answer)].concat()
}

fn ask(upstream: &Upstream, arguments: &[&str]) -> Ask {
    Ask::at(&upstream.url(), &[&["-m", "m"], arguments].concat())
}

async fn on_terminal(upstream: &Upstream, shows: &str) -> PseudoTerminal {
    let mut terminal = ask(upstream, &["Build."]).variable("NO_COLOR", "1").on_terminal();
    terminal.written(shows).await;
    terminal.written("> ").await;
    terminal
}

/// What the request said, and of which session it is.
async fn request(upstream: &Upstream, number: usize) -> (Value, Value) {
    let body = upstream.request(number).await.json();
    (body["messages"].clone(), body["toolhand"].clone())
}

fn waits(ended: &Ended) -> bool {
    let sentence = format!(
        "toolhand: the turn waits for your answer: reply with `toolhand ask --session {SESSION} \"KXQZ 1\"`\n"
    );
    ended.code == Some(3) && ended.stderr.ends_with(&sentence)
}

#[tokio::test]
async fn a_reply_at_the_terminal_goes_on_with_the_turn() {
    let upstream = Upstream::start();
    upstream.round(suspends(QUESTION));
    upstream.round(suspends("Really?\n"));
    upstream.round(finishes("Built."));

    let mut terminal = on_terminal(&upstream, "3. deny (KXQZ)").await;
    terminal.press("\n  \n 1 \n");
    terminal.written("Really?").await;
    terminal.press("yes\n");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.replace("\r\n", "\n").contains("I build it.\nRun `make`?\n1."), "{screen:?}");
    assert!(screen.ends_with("Built.\r\n"), "{screen:?}");
    let (messages, extension) = request(&upstream, 0).await;
    assert_eq!(messages, json!([{ "role": "user", "content": "Build." }]));
    assert_eq!(extension, json!({ "progress": "events" }));
    for (number, reply) in [(1, "KXQZ 1"), (2, "KXQZ yes")] {
        let (messages, extension) = request(&upstream, number).await;
        assert_eq!(messages, json!([{ "role": "user", "content": reply }]));
        let expected = json!({ "progress": "events", "session": SESSION, "history": "server" });
        assert_eq!(extension, expected);
    }
}

#[tokio::test]
async fn without_a_terminal_the_question_is_on_stderr_and_nothing_is_approved() {
    let upstream = Upstream::start();
    for question in [QUESTION, ""] {
        upstream.round(suspends(question));
        let ended = ask(&upstream, &["Build."]).run().await;

        assert!(waits(&ended), "{ended:?}");
        assert_eq!(ended.stdout, "I build it.");
        let expected = if question.is_empty() { "KXQZ Bash\nRuns `make`.\n" } else { QUESTION };
        assert!(ended.stderr.starts_with(expected), "{ended:?}");
    }
    // What is piped is the prompt, never a reply.
    upstream.round(suspends(QUESTION));
    let ended = ask(&upstream, &["--quiet", "Build."]).run_with(b"1\n1\n").await;
    assert!(waits(&ended) && ended.stderr.starts_with(QUESTION), "{ended:?}");
    assert_eq!(upstream.requests().len(), 3);
}

#[tokio::test]
async fn a_program_gets_the_answer_and_the_same_status() {
    let upstream = Upstream::start();
    let message = json!({ "role": "assistant", "content": QUESTION, "refusal": null });
    let body = json!({
        "object": "chat.completion",
        "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
        "toolhand": { "asked": [{ "type": "approval", "code": "KXQZ", "tool": "Bash" }] },
    });
    let headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("x-toolhand-session".to_owned(), SESSION.to_owned()),
    ];
    upstream.round(vec![Step::Answer { status: 200, headers, body: body.to_string().into() }]);

    let ended = ask(&upstream, &["--json", "Build."]).run().await;

    assert!(waits(&ended) && ended.stderr.starts_with(QUESTION), "{ended:?}");
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap(), body);
}

#[tokio::test]
async fn ctrl_d_leaves_the_turn_waiting() {
    let upstream = Upstream::start();
    upstream.round(suspends(QUESTION));

    let mut terminal = on_terminal(&upstream, "KXQZ").await;
    terminal.press("\u{4}");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(3), "{screen}");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn several_questions_take_a_line_each() {
    let upstream = Upstream::start();
    upstream.round(asks(&["Colour?", "Size?"]));
    upstream.round(asks(&["Sure?"]));
    upstream.round(finishes("Ordered."));

    let mut terminal = on_terminal(&upstream, "question 1 of 2 > ").await;
    // The second line is there before it is asked for.
    terminal.press("1\n\n a large one \n");
    terminal.written("Sure?\r\n> ").await;
    terminal.press("yes\n");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(screen.matches("question 2 of 2 > ").count(), 2, "an empty line is no answer");
    for (number, reply) in [(1, "KXQZ 1\na large one"), (2, "KXQZ yes")] {
        let (messages, _) = request(&upstream, number).await;
        assert_eq!(messages, json!([{ "role": "user", "content": reply }]));
    }
}

#[tokio::test]
async fn several_approvals_take_one_choice_or_a_line_for_each_code() {
    let prompt = "one choice for all 2, or a line `CODE choice` for each > ";
    for (keys, reply) in [
        ("1\n", "KXQZ 1\nBCDF 1"),
        ("what for?\n", "what for?"),
        ("KXQZ 1\nbcdf no\n", "KXQZ 1\nbcdf no"),
        ("BCDF always\n\n", "BCDF always"),
    ] {
        let upstream = Upstream::start();
        upstream.round(asks_approvals(&["KXQZ", "BCDF"]));
        upstream.round(finishes("Built."));

        let mut terminal = on_terminal(&upstream, prompt).await;
        terminal.press(keys);
        let (code, screen) = terminal.end().await;

        assert_eq!(code, Some(0), "{screen}");
        let left = screen.contains("1 of 2 left (an empty line leaves them out) > ");
        assert_eq!(left, keys.lines().count() == 2, "{screen}");
        let (messages, _) = request(&upstream, 1).await;
        assert_eq!(messages, json!([{ "role": "user", "content": reply }]));
    }
}

#[tokio::test]
async fn ctrl_d_between_two_lines_leaves_the_turn_waiting() {
    for asks in [asks(&["Colour?", "Size?"]), asks_approvals(&["KXQZ", "BCDF"])] {
        let upstream = Upstream::start();
        upstream.round(asks);

        let mut terminal = on_terminal(&upstream, " > ").await;
        terminal.press("KXQZ 1\n\u{4}");
        let (code, screen) = terminal.end().await;

        assert_eq!(code, Some(3), "{screen}");
        assert_eq!(upstream.requests().len(), 1);
    }
}

#[tokio::test]
async fn ctrl_c_at_a_question_sends_nothing() {
    let upstream = Upstream::start();
    upstream.round(suspends(QUESTION));

    let mut terminal = on_terminal(&upstream, "KXQZ").await;
    terminal.press("\u{3}");
    let (code, screen) = terminal.end().await;

    assert!(screen.contains("interrupted; the turn still waits for your answer"), "{screen:?}");
    assert_eq!(code, Some(130), "{screen}");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_question_cannot_write_to_the_terminal() {
    let upstream = Upstream::start();
    upstream.round(suspends("\u{1b}[2J\u{9b}31mRun\u{202e}?\n"));

    let mut terminal = on_terminal(&upstream, r"\x1b[2J\x9b31mRun\u{202e}?").await;
    terminal.press("\u{4}");
    let (_, screen) = terminal.end().await;

    assert!(!screen.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{screen:?}");
}

#[tokio::test]
async fn what_was_decided_elsewhere_is_not_asked() {
    let upstream = Upstream::start();
    let round = event(&json!({ "type": "round", "round": 2 }));
    upstream.round([vec![head(), approval(), round, text("Built.")], end("stop")].concat());

    let ended = ask(&upstream, &["Build."]).run().await;

    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Built."), "{ended:?}");
}

#[tokio::test]
async fn a_named_session_remembers() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(says("Hello, Quince."));
    upstream.round(says("Quince."));

    for prompt in ["I am Quince.", "Who am I?"] {
        let ended = Ask::of(&server, &["-s", "mine", prompt]).run().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }

    let messages = upstream.request(1).await.json()["messages"].clone();
    let sent = messages.to_string();
    assert!(sent.contains("I am Quince.") && sent.contains("Hello, Quince."), "{messages:#}");
}

#[tokio::test]
async fn an_approval_at_the_terminal_runs_the_command() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let command = json!({ "command": "echo done > made.txt" });
    upstream.round(crate::support::chunks::calls(&[("c1", "Bash", command)]));
    upstream.round(says("Made."));

    let mut terminal = Ask::of(&server, &["Make it."]).on_terminal();
    terminal.written("> ").await;
    assert!(!server.workspace().join("made.txt").exists());
    terminal.press("1\n");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("Made."), "{screen:?}");
    assert!(server.workspace().join("made.txt").exists());
}

#[tokio::test]
async fn questions_of_a_named_session_are_answered_at_the_terminal() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let question = |text: &str| {
        let options = ["Red", "Green"].map(|label| json!({ "label": label }));
        json!({ "question": text, "header": "Choice", "options": options })
    };
    let input = json!({ "questions": [question("Inside?"), question("Outside?")] });
    upstream.round(crate::support::chunks::calls(&[("c1", "AskUserQuestion", input)]));
    upstream.round(says("Painted."));

    let mut terminal = Ask::of(&server, &["-s", "mine", "Paint it."]).on_terminal();
    terminal.written("question 1 of 2 > ").await;
    terminal.press("2\n");
    terminal.written("question 2 of 2 > ").await;
    terminal.press("blue\n");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(0), "{screen}");
    let sent = upstream.request(1).await.json();
    let answers = sent["messages"].as_array().expect("messages").last().expect("one").clone();
    assert_eq!(answers["content"], r#"{"answers":{"Inside?":"Green","Outside?":"blue"}}"#);
}

#[tokio::test]
async fn an_open_question_of_a_named_session_is_answered_by_a_later_call() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).argument("--sandbox=off").start().await;
    let command = json!({ "command": "echo done >> made.txt" });
    upstream.round(crate::support::chunks::calls(&[("c1", "Bash", command)]));

    let asked = Ask::of(&server, &["-s", "mine", "Make it."]).run().await;

    assert_eq!(asked.code, Some(3), "{asked:?}");
    assert!(asked.stderr.contains("echo done >> made.txt"), "{asked:?}");
    let code = crate::sessions::asking::codes(&asked.stderr).remove(0);
    let how = format!("toolhand ask --session mine \"{code} 1\"");
    assert!(asked.stderr.contains(&how), "{asked:?}");
    assert!(!server.workspace().join("made.txt").exists());

    // A bare choice may be meant for another question: it is asked again.
    let bare = Ask::of(&server, &["-s", "mine", "1"]).run().await;
    assert_eq!(bare.code, Some(3), "{bare:?}");
    assert!(bare.stderr.contains(&format!("such as `{code} 1`")), "{bare:?}");
    assert!(!server.workspace().join("made.txt").exists());
    upstream.round(says("Made."));

    let replied = Ask::of(&server, &["-s", "mine", &format!("{code} 1")]).run().await;

    assert_eq!((replied.code, replied.stdout.as_str()), (Some(0), "Made."), "{replied:?}");
    assert_eq!(server.file("made.txt"), "done\n");
    let sent = upstream.request(1).await.json()["messages"].to_string();
    assert!(!sent.contains("needs your approval"), "the question never goes upstream: {sent}");
}

/// Two terminals look at one session: the reply of the first is to what the first was shown.
#[tokio::test]
async fn x14_a_reply_at_a_terminal_is_to_the_question_that_the_terminal_shows() {
    for key in ["1\n", "yes\n", "2\n"] {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream).argument("--sandbox=off").start().await;
        let runs = |file: &str| {
            let command = json!({ "command": format!("echo ran >> {file}") });
            upstream.round(crate::support::chunks::calls(&[("c1", "Bash", command)]));
        };
        let at_terminal = |words: &str| {
            let ask = Ask::of(&server, &["-s", "shared", words]);
            ask.variable("NO_COLOR", "1").on_terminal()
        };
        runs("one.txt");
        let mut first = at_terminal("Do one.");
        first.written("echo ran >> one.txt").await;
        first.written("> ").await;
        runs("two.txt");
        let mut second = at_terminal("Not that one.");
        second.written("echo ran >> two.txt").await;
        second.written("> ").await;

        first.press(key);
        first.written("echo ran >> two.txt").await;
        first.written("> ").await;

        let exists = |file: &str| server.workspace().join(file).exists();
        assert!(!exists("one.txt") && !exists("two.txt"), "{key:?}");
        assert_eq!(crate::sessions::asking::open(&server.client()).await.len(), 1);
        first.press("\u{4}");
        assert_eq!(first.end().await.0, Some(3));
        upstream.round(says("Done."));
        second.press("1\n");
        let (code, screen) = second.end().await;
        assert_eq!(code, Some(0), "{screen}");
        assert!(!exists("one.txt") && exists("two.txt"), "{key:?}");
    }
}
