//! Tests how a stream reports the tools' progress, in each mode.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::answers;
use crate::support::chunks::{call, call_head, call_piece, calls, end, gate, says, text};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::{Builder, Server};
use crate::support::stream::{Event, Stream, Transcript};
use crate::support::upstream::{Step, Upstream};
use crate::support::watch;

/// A turn that reads two files, one of which is missing.
async fn turn(
    builder: Builder,
    upstream: &Upstream,
    body: Value,
    header: Option<&str>,
) -> Transcript {
    let server = builder.file("notes.txt", "needle\n").start().await;
    upstream.round(calls(&[
        ("c1", "Read", json!({ "file_path": "notes.txt" })),
        ("c2", "Read", json!({ "file_path": "missing.txt" })),
    ]));
    upstream.round(says("Done."));
    let mut client = server.client();
    if let Some(mode) = header {
        client = client.header("x-toolhand-progress", mode);
    }
    client.streamed(&body).await
}

#[tokio::test]
async fn progress_is_told_as_reasoning_unless_asked_otherwise() {
    let upstream = Upstream::start();

    let answer = turn(Server::builder(&upstream), &upstream, ask_streamed("Read."), None).await;

    let told = answer.reasoning();
    assert!(told.contains("Read") && told.contains("notes.txt") && told.contains("missing.txt"));
    assert_eq!(answer.text(), "Done.", "never in the content");
    assert!(answer.events.iter().all(|event| event.progress().is_null()));
    let second = upstream.request(1).await;
    let sent = String::from_utf8(second.body).expect("UTF-8");
    assert!(!sent.contains("reasoning_content"), "our own lines never go upstream: {sent}");
}

#[tokio::test]
async fn progress_can_be_told_as_events() {
    let upstream = Upstream::start();
    let asked = with(ask_streamed("Read."), json!({ "toolhand": { "progress": "events" } }));

    // The body's setting takes precedence over the header's.
    let answer = turn(Server::builder(&upstream), &upstream, asked, Some("none")).await;

    assert_eq!(answer.progress("tool_start").len(), 2);
    let ends = answer.progress("tool_end");
    assert_eq!(ends.len(), 2);
    assert_eq!(answer.reasoning(), "");
    for event in answer.events.iter().filter(|event| !event.progress().is_null()) {
        assert_eq!(event.text(), "", "an otherwise empty delta");
    }
}

#[tokio::test]
async fn progress_can_be_silent() {
    let upstream = Upstream::start();

    let answer =
        turn(Server::builder(&upstream), &upstream, ask_streamed("Read."), Some("none")).await;

    assert_eq!(answer.reasoning(), "");
    assert!(answer.events.iter().all(|event| event.progress().is_null()));
}

#[tokio::test]
async fn the_operator_chooses_what_is_the_default() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).config("progress", r#""events""#);

    let answer = turn(builder, &upstream, ask_streamed("Read."), None).await;

    assert_eq!(answer.progress("tool_end").len(), 2);
}

#[tokio::test]
async fn an_answer_in_one_piece_carries_no_progress() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(says("Done."));

    let answer = server.client().chat(&ask("Read.")).await.json();

    assert_eq!(answer["choices"][0]["message"].get("reasoning_content"), None, "{answer:#}");
}

#[tokio::test]
async fn silence_is_filled_with_comments() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("turns.keep_alive", r#""20ms""#).start().await;
    upstream.round(vec![text("I think "), gate("never")]);

    let mut stream = server.client().stream(&ask_streamed("Hi")).await;
    stream.until_text().await;
    for _ in 0..3 {
        stream.until(|event| *event == Event::Comment("keep-alive".to_owned())).await;
    }
}

/// Without the comments, a proxy would take a long tool for a dead connection.
#[tokio::test]
async fn the_silence_of_a_long_tool_is_filled_with_comments() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).free().config("turns.keep_alive", r#""20ms""#).start().await;
    let go = server.workspace().join("go");
    rustix::fs::mkfifoat(rustix::fs::CWD, &go, rustix::fs::Mode::RWXU).expect("a pipe");
    let command = json!({ "command": "read line <go; echo $line" });
    upstream.round(calls(&[("c1", "Bash", command)]));
    upstream.round(says("Done."));

    let mut stream = server.client().stream(&ask_streamed("Wait.")).await;
    for _ in 0..3 {
        stream.until(|event| *event == Event::Comment("keep-alive".to_owned())).await;
    }
    let told = tokio::task::spawn_blocking(move || std::fs::write(go, "gone on\n"));
    watch("the command to go on", told).await.expect("no panic").expect("a pipe");

    assert_eq!(stream.finish().await.text(), "Done.");
    assert_eq!(answers(&upstream, 1).await, ["gone on"]);
}

#[tokio::test]
async fn the_head_is_held_back_no_longer_than_it_may_be() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .config("turns.head_hold", r#""30ms""#)
        .config("turns.keep_alive", r#""20ms""#)
        .start()
        .await;
    upstream.round([vec![gate("thought")], says("Yes.")].concat());

    // The head has been sent although upstream has sent nothing.
    let mut stream = server.client().stream(&ask_streamed("Hi")).await;
    stream.until(|event| matches!(event, Event::Comment(_))).await;
    upstream.open("thought");

    assert_eq!(stream.finish().await.text(), "Yes.");
}

#[tokio::test]
async fn a_failure_after_the_head_is_an_error_frame() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("turns.head_hold", r#""10ms""#).start().await;
    let rejected = crate::support::chunks::status(401, &json!({ "error": { "message": "no" } }));
    upstream.round([vec![gate("head")], rejected].concat());

    let stream = server.client().stream(&ask_streamed("Hi")).await;
    upstream.open("head");

    assert_eq!(stream.finish().await.code(), "upstream_auth");
}

/// The item of a card in this event.
fn card_item(event: &Event) -> &Value {
    match event {
        Event::Chunk(chunk) => &chunk["item"],
        _ => &Value::Null,
    }
}

/// Who ends a turn.
#[derive(Clone, Copy, Debug)]
enum EndedBy {
    Shutdown,
    Cancel,
}

/// A turn that is told to end while one of its tools runs.
async fn interrupted(mode: &str, by: EndedBy) -> Transcript {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).free().config("turns.shutdown_grace", r#""1ms""#).start().await;
    let started = server.workspace().join("started");
    rustix::fs::mkfifoat(rustix::fs::CWD, &started, rustix::fs::Mode::RWXU).expect("a pipe");
    let command = json!({ "command": "echo running > started; sleep 1000" });
    upstream.round(calls(&[("c1", "Bash", command)]));
    let asked = with(ask_streamed("Wait."), json!({ "toolhand": { "progress": mode } }));
    let stream = server.client().stream(&asked).await;
    let reading = tokio::task::spawn_blocking(move || std::fs::read(started));
    watch("the command to run", reading).await.expect("no panic").expect("a pipe");

    ended(&server, stream, by).await
}

async fn ended(server: &Server, stream: Stream, by: EndedBy) -> Transcript {
    let code = match by {
        EndedBy::Shutdown => {
            server.terminate();
            "shutting_down"
        }
        EndedBy::Cancel => {
            let turn = stream.head.header("x-toolhand-turn").expect("a turn");
            let cancel = format!("/toolhand/v1/turns/{turn}/cancel");
            assert_eq!(server.client().send("POST", &cancel, None).await.status(), 200);
            "cancelled"
        }
    };
    let answer = stream.finish().await;
    assert_eq!(answer.code(), code);
    answer
}

#[tokio::test]
async fn a_tool_that_is_interrupted_is_told_to_have_ended() {
    let answer = interrupted("events", EndedBy::Shutdown).await;

    let ends = answer.progress("tool_end");
    assert_eq!((answer.progress("tool_start").len(), ends.len()), (1, 1), "{ends:?}");
    assert_eq!((&ends[0]["id"], &ends[0]["error"]), (&json!("c1"), &json!("interrupted")));
}

#[tokio::test]
async fn a_line_that_says_a_tool_began_is_followed_by_one_that_it_ended() {
    let answer = interrupted("reasoning", EndedBy::Shutdown).await;

    assert!(
        answer.reasoning().contains("✗ Bash") && answer.reasoning().ends_with(": interrupted\n")
    );
}

#[tokio::test]
async fn each_call_has_a_card_and_each_card_an_output() {
    let upstream = Upstream::start();
    let answer =
        turn(Server::builder(&upstream), &upstream, ask_streamed("Read."), Some("cards")).await;

    let items = answer.card_items();
    let told: Vec<String> = items
        .iter()
        .map(|item| {
            format!(
                "{} {}",
                item["type"].as_str().expect("a type"),
                item["status"].as_str().expect("a status")
            )
        })
        .collect();
    let first_output = told.iter().position(|word| word.starts_with("function_call_output"));
    let announced: BTreeSet<Option<&str>> =
        items[..first_output.expect("one")].iter().map(|item| item["call_id"].as_str()).collect();
    assert_eq!(announced.len(), 2, "all calls are announced before the first output: {told:?}");
    // The calls run at the same time, so either may end first.
    let mut outputs = answer.card_outputs();
    outputs.sort_by(|(_, status), (_, other)| status.cmp(other));
    let [found, missing] = &outputs[..] else { panic!("{told:?}") };
    assert!(found.0.contains("needle") && found.1 == "completed", "{found:?}");
    assert_eq!(missing.1, "failed", "{missing:?}");
    let mut executing = items.iter().map(|item| &item["arguments"]);
    assert!(executing.any(|arguments| arguments == r#"{"file_path":"notes.txt"}"#), "{items:?}");
    assert_eq!((answer.text(), answer.reasoning().as_str()), ("Done.", ""));
}

/// The tools of a request of Open WebUI.
fn ask_user() -> Value {
    json!([{ "type": "function", "function": {
        "name": "ask_user",
        "parameters": { "type": "object", "properties": { "questions": { "type": "array" } } },
    } }])
}

#[tokio::test]
async fn open_webui_is_shown_cards_unless_the_operator_wants_otherwise() {
    for (progress, expected) in [("reasoning", 2), ("events", 0), ("none", 0)] {
        let upstream = Upstream::start();
        let body = with(ask_streamed("Read."), json!({ "tools": ask_user() }));
        let builder = Server::builder(&upstream).config("progress", &format!("{progress:?}"));
        let answer = turn(builder, &upstream, body, None).await;
        assert_eq!(answer.card_outputs().len(), expected, "{progress}");
    }
}

#[tokio::test]
async fn a_card_is_closed_when_the_turn_is_interrupted() {
    for by in [EndedBy::Shutdown, EndedBy::Cancel] {
        let answer = interrupted("cards", by).await;

        let expected = [("interrupted".to_owned(), "failed".to_owned())];
        assert_eq!(answer.card_outputs(), expected, "{by:?}");
    }
}

#[tokio::test]
async fn a_card_is_closed_when_the_turn_ends_while_the_model_writes_its_call() {
    for by in [EndedBy::Shutdown, EndedBy::Cancel] {
        let upstream = Upstream::start();
        let builder = Server::builder(&upstream).config("turns.shutdown_grace", r#""1ms""#);
        let server = builder.start().await;
        upstream.round(vec![call_head(0, "c1", "Read"), call_piece(0, "{\"file"), gate("never")]);
        let asked = with(ask_streamed("Read."), json!({ "toolhand": { "progress": "cards" } }));
        let mut stream = server.client().stream(&asked).await;
        stream.until(|event| card_item(event)["type"] == "function_call").await;

        let answer = ended(&server, stream, by).await;

        let expected = [("This call did not run.".to_owned(), "failed".to_owned())];
        assert_eq!(answer.card_outputs(), expected, "{by:?}");
    }
}

/// The person is asked in the conversation, or by Open WebUI's dialog.
#[tokio::test]
async fn a_card_is_closed_when_its_turn_suspends_and_when_that_goes_on() {
    for (tools, reason) in [(json!([]), "stop"), (ask_user(), "tool_calls")] {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream)
            .argument("--sandbox=off")
            .file("notes.txt", "needle\n")
            .start()
            .await;
        let client = server.client().header("x-toolhand-progress", "cards");
        upstream.round(calls(&[
            ("r", "Read", json!({ "file_path": "notes.txt" })),
            ("a", "Bash", json!({ "command": "echo ran >> a" })),
        ]));

        let asked = with(ask_streamed("Do it."), json!({ "tools": tools }));
        let first = client.streamed(&asked).await;

        assert_eq!(first.finish_reason.as_deref(), Some(reason));
        let [read, asks] = &first.card_outputs()[..] else { panic!("{:#?}", first.card_items()) };
        assert!(read.0.contains("needle") && read.1 == "completed", "{read:?}");
        let waits = ("This call waits for an answer.".to_owned(), "failed".to_owned());
        assert_eq!(*asks, waits, "no tick for what has not run");
        assert!(!server.workspace().join("a").exists());
        let reply = match first.message["tool_calls"][0].as_object() {
            None => json!({ "role": "user", "content": "1" }),
            Some(call) => {
                let arguments = call["function"]["arguments"].as_str().expect("text");
                let arguments: Value = serde_json::from_str(arguments).expect("JSON");
                let id = arguments["questions"][0]["id"].as_str().expect("an id");
                let chosen = json!({ "answers": { id: { "label": "Allow once" } } });
                json!({ "role": "tool", "tool_call_id": call["id"], "content": chosen.to_string() })
            }
        };
        upstream.round(says("Done."));

        let mut resumed = asked;
        let list = resumed["messages"].as_array_mut().expect("messages");
        list.extend([first.message.clone(), reply]);
        let second = client.streamed(&resumed).await;

        assert_eq!(second.text(), "Done.");
        assert_eq!(server.file("a"), "ran\n");
        let outputs = second.card_outputs();
        assert!(outputs.len() == 1 && outputs[0].1 == "completed", "{outputs:?}");
    }
}

#[tokio::test]
async fn a_card_is_closed_when_the_stream_dies_within_its_call() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let half = [call_head(0, "c1", "Bash"), call_piece(0, "{\"comm")];
    upstream.round([vec![text("I run it.")], half.to_vec(), vec![Step::Close]].concat());

    let asked = with(ask_streamed("Go."), json!({ "toolhand": { "progress": "cards" } }));
    let answer = server.client().streamed(&asked).await;

    assert!(answer.error.is_some());
    assert_eq!(answer.card_outputs(), [("This call did not run.".to_owned(), "failed".to_owned())]);
}

#[tokio::test]
async fn an_output_never_stands_within_a_text() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let call = call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }));
    let spoken = [text("I look "), gate("read"), text("at it.")];
    upstream.round([&spoken[..1], &call[..], &spoken[1..], &end("tool_calls")[..]].concat());
    upstream.round(says("Done."));

    let asked = with(ask_streamed("Read."), json!({ "toolhand": { "progress": "cards" } }));
    let mut stream = server.client().stream(&asked).await;
    stream.until_text().await;
    upstream.reached("read").await;
    upstream.open("read");
    let answer = stream.finish().await;

    let is_output = |event: &Event| card_item(event)["type"] == "function_call_output";
    let output = answer.events.iter().position(is_output).expect("an output");
    let before: String = answer.events[..output].iter().map(Event::text).collect();
    assert_eq!(before, "I look at it.");
    assert_eq!(answer.card_outputs().len(), 1);
}

/// A pipe in the workspace that holds a command until it is written to.
fn held(server: &Server) -> impl FnOnce() {
    let held = server.workspace().join("held");
    rustix::fs::mkfifoat(rustix::fs::CWD, &held, rustix::fs::Mode::RWXU).expect("a pipe");
    move || std::fs::write(held, "on").expect("the command reads it")
}

/// A command that prints a line, waits, and prints another.
fn two_lines() -> Vec<Step> {
    calls(&[("c1", "Bash", json!({ "command": "echo first line; read x < held; echo last line" }))])
}

#[tokio::test]
async fn the_output_of_a_running_command_grows_in_its_card() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let let_go_on = held(&server);
    upstream.round(two_lines());
    upstream.round(says("Done."));
    let asked = with(ask_streamed("Go."), json!({ "toolhand": { "progress": "cards" } }));
    let mut stream = server.client().stream(&asked).await;

    let shows = |event: &Event| {
        let arguments = card_item(event)["arguments"].as_str().unwrap_or_default();
        arguments.starts_with("$ echo first line;") && arguments.ends_with("\n\nfirst line\n")
    };
    stream.until(shows).await;
    let_go_on();
    let answer = stream.finish().await;

    let [(output, status)] = &answer.card_outputs()[..] else { panic!("{answer:?}") };
    assert_eq!((output.as_str(), status.as_str()), ("first line\nlast line", "completed"));
    let items = answer.card_items();
    let growing = items.iter().find(|item| {
        item["arguments"].as_str().is_some_and(|arguments| arguments.starts_with('$'))
    });
    let growing = growing.expect("an item with output");
    assert_eq!(growing["status"], "completed", "it is shown as executing");
    let last = items.iter().rfind(|item| item["type"] == "function_call").expect("the call");
    assert!(
        last["arguments"].as_str().is_some_and(|it| it.starts_with(r#"{"command":"#)),
        "{last}"
    );
}

/// A progress bar, and dots: nothing of it ends a line.
#[tokio::test]
async fn a_line_that_has_not_ended_grows_too() {
    let bar = "printf '\\r10%%'; read x < held; printf '\\r20%%\\n'";
    let dots = "printf ..; read x < held; printf '..\\n'";
    for (command, running, ended) in [(bar, "10%", "20%"), (dots, "..", "....")] {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream).free().start().await;
        for progress in ["cards", "events"] {
            let let_go_on = held(&server);
            upstream.round(calls(&[("c1", "Bash", json!({ "command": command }))]));
            upstream.round(says("Done."));
            let asked = with(ask_streamed("Go."), json!({ "toolhand": { "progress": progress } }));
            let mut stream = server.client().stream(&asked).await;

            let in_card = format!("$ {command}\n\n{running}");
            let shows = |event: &Event| {
                let told = event.progress();
                card_item(event)["arguments"] == in_card
                    || (told["text"] == "" && told["unfinished"] == running)
            };
            stream.until(shows).await;
            let_go_on();
            let answer = stream.finish().await;

            for (output, _) in answer.card_outputs() {
                assert_eq!(output, ended);
            }
            std::fs::remove_file(server.workspace().join("held")).expect("the pipe");
        }
    }
}

#[tokio::test]
async fn the_output_of_a_running_command_is_an_event() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let let_go_on = held(&server);
    upstream.round(two_lines());
    upstream.round(says("Done."));
    let asked = with(ask_streamed("Go."), json!({ "toolhand": { "progress": "events" } }));
    let mut stream = server.client().stream(&asked).await;

    stream.until(|event| event.progress()["text"] == "first line\n").await;
    let_go_on();
    let answer = stream.finish().await;

    let told = answer.progress("tool_output");
    assert_eq!((&told[0]["id"], &told[0]["tool"]), (&json!("c1"), &json!("Bash")), "{told:?}");
}

/// What the model says of a command is not what it runs.
#[tokio::test]
async fn a_command_is_named_by_itself_wherever_it_is_told() {
    let command = "# List the files\nrm -r precious\necho gone";
    let input = json!({ "command": command, "description": "List the files" });
    for progress in ["cards", "events", "reasoning"] {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream).free().file("precious/a", "x\n").start().await;
        upstream.round(calls(&[("c1", "Bash", input.clone())]));
        upstream.round(says("Done."));
        let asked = with(ask_streamed("Go."), json!({ "toolhand": { "progress": progress } }));

        let answer = server.client().streamed(&asked).await;

        let cards = answer.card_items().into_iter().map(|item| item["name"].to_string());
        let events = answer.progress("tool_start").into_iter().map(|it| it["argument"].to_string());
        let told: Vec<String> = cards.chain(events).chain([answer.reasoning()]).collect();
        let told = told.join("\n");
        assert!(told.contains("rm -r precious …") && !told.contains("List the files"), "{told}");
    }
}

#[tokio::test]
async fn a_card_shows_at_most_10000_characters_of_an_output() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    upstream.round(calls(&[("c1", "Bash", json!({ "command": "seq 1 3000" }))]));
    upstream.round(says("Done."));
    let asked = with(ask_streamed("Go."), json!({ "toolhand": { "progress": "cards" } }));

    let answer = server.client().streamed(&asked).await;

    let [(output, status)] = &answer.card_outputs()[..] else { panic!("{answer:?}") };
    assert_eq!((output.chars().count(), status.as_str()), (10_000, "completed"));
    assert!(output.starts_with("1\n2\n") && output.contains("\n… (13892 characters in all;"));
    for item in answer.card_items().into_iter().filter(|item| item["type"] != "function_call") {
        assert_eq!(item["output"].as_array().map(Vec::len), Some(1), "a list of parts: {item}");
    }
}

/// Seven times "View Result from Read" would tell nothing.
#[tokio::test]
async fn a_card_is_named_after_its_tool_and_its_main_argument() {
    let upstream = Upstream::start();
    let answer =
        turn(Server::builder(&upstream), &upstream, ask_streamed("Read."), Some("cards")).await;

    let calls: Vec<&Value> =
        answer.card_items().into_iter().filter(|item| item["type"] == "function_call").collect();
    let last_of = |name: &str| calls.iter().rfind(|item| item["name"] == name);
    for file in ["notes.txt", "missing.txt"] {
        let call = last_of(&format!("Read {file}")).unwrap_or_else(|| panic!("{calls:#?}"));
        let arguments = json!({ "file_path": file }).to_string();
        // Another provider would refuse a name with spaces.
        assert_eq!(call["provider_function"], json!({ "name": "Read", "arguments": arguments }));
    }
}

#[tokio::test]
async fn a_todo_list_is_a_checklist() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let todos = json!({ "todos": [
        { "content": "Look", "status": "completed" },
        { "content": "Mend", "status": "in_progress", "activeForm": "Mending" },
        { "content": "Test", "status": "pending" },
    ] });
    upstream.round(calls(&[("c1", "TodoWrite", todos)]));
    upstream.round(says("Done."));
    let asked = with(ask_streamed("Plan."), json!({ "toolhand": { "progress": "cards" } }));

    let answer = server.client().streamed(&asked).await;

    let items = answer.card_items();
    let last = items.iter().rfind(|item| item["type"] == "function_call").expect("the call");
    assert_eq!(last["arguments"], "[x] Look\n[>] Mending\n[ ] Test\n");
    assert_eq!(last["name"], "TodoWrite 1 of 3 done: Mending");
}

#[tokio::test]
async fn the_steps_of_an_agent_show_in_its_card_while_it_runs() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let task = json!({ "description": "look", "prompt": "Look.", "subagent_type": "Explore" });
    upstream.round(calls(&[("c1", "Task", task)]));
    upstream.round(calls(&[("k1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round([vec![gate("agent")], says("A needle.")].concat());
    upstream.round(says("Done."));
    let asked = with(ask_streamed("Look."), json!({ "toolhand": { "progress": "cards" } }));
    let mut stream = server.client().stream(&asked).await;

    upstream.reached("agent").await;
    let shows = |event: &Event| {
        let item = card_item(event);
        let arguments = item["arguments"].as_str().unwrap_or_default();
        let name = item["name"].as_str().unwrap_or_default();
        arguments.contains("\n✓ Read notes.txt (") && name.ends_with("look · Read notes.txt")
    };
    stream.until(shows).await;
    upstream.open("agent");
    let answer = stream.finish().await;

    let items = answer.card_items();
    let last = items.iter().rfind(|item| item["type"] == "function_call").expect("the call");
    assert_eq!(last["name"], "Task Explore: look");
    assert!(answer.card_outputs()[0].0.starts_with("A needle."));
}

/// Open WebUI with Legacy function calling and without forwarded headers: nothing tells that it is
/// Open WebUI, and it hides the reasoning.
#[tokio::test]
async fn a_running_command_shows_as_one_line_where_there_are_no_cards() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let let_go_on = held(&server);
    upstream.round([vec![text("I run it.")], two_lines()].concat());
    upstream.round(says("Done."));
    let mut stream = server.client().stream(&ask_streamed("Go.")).await;

    let status = |event: &Event| match event {
        Event::Chunk(chunk) if chunk["event"]["type"] == "status" => {
            assert_eq!(chunk["choices"][0]["delta"], json!({}));
            chunk["event"]["data"].clone()
        }
        _ => Value::Null,
    };
    stream.until(|event| status(event)["done"] == false).await;
    let_go_on();
    let answer = stream.finish().await;

    let told: Vec<Value> = answer.events.iter().map(status).filter(|it| !it.is_null()).collect();
    let [runs, ended] = &told[..] else { panic!("{told:?}") };
    let line = "Bash echo first line; read x < held; echo last line";
    assert_eq!(*runs, json!({ "description": line, "done": false }));
    assert_eq!(*ended, json!({ "description": line, "done": true }));
    let all = answer.events.iter().map(|event| status(event).to_string()).collect::<String>();
    assert!(!all.contains("last line\\n"), "no output goes this way: {all}");

    for progress in ["none", "events", "cards"] {
        upstream.round(calls(&[("c1", "Glob", json!({ "pattern": "*" }))]));
        upstream.round(says("Done."));
        let asked = with(ask_streamed("Go."), json!({ "toolhand": { "progress": progress } }));
        let answer = server.client().streamed(&asked).await;
        assert!(answer.events.iter().all(|event| status(event).is_null()), "{progress}");
    }
}
