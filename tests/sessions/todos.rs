//! The model's todo list: what clients see of it, what keeps it, and when the model is reminded.

use serde_json::{Value, json};

use super::asking::{Talk, tool_answers};
use super::{after, told};
use crate::support::chunks::{calls, says};
use crate::support::client::{ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

fn todo(content: &str, status: &str) -> Value {
    json!({ "content": content, "status": status })
}

fn writes(upstream: &Upstream, todos: &Value) {
    upstream.round(calls(&[("t", "TodoWrite", json!({ "todos": todos }))]));
}

/// The list before and after the call of the last turn.
async fn lists(talk: &mut Talk, upstream: &Upstream, todos: &Value) -> Value {
    writes(upstream, todos);
    upstream.round(says("Noted."));
    let request = with(talk.body(), json!({ "stream": true }));
    let request = with(request, json!({ "toolhand": { "progress": "events" } }));
    let answer = talk.client.streamed(&request).await;
    talk.messages.push(super::assistant(answer.text()));
    let ends = answer.progress("tool_end");
    ends[0]["structured"].clone()
}

/// What a list holds, without the indexes of the stream.
fn contents(list: &Value) -> Vec<&str> {
    let entries = list.as_array().expect("a list").iter();
    entries.map(|entry| entry["content"].as_str().expect("text")).collect()
}

#[tokio::test]
async fn programs_are_told_of_each_new_list() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let active = json!({ "content": "Write", "status": "in_progress", "activeForm": "Writing" });
    writes(&upstream, &json!([todo("Look", "completed"), active]));
    writes(&upstream, &json!([{ "content": "Write", "status": "done" }]));
    upstream.round(says("Done."));
    let request = with(ask_streamed("Go."), json!({ "toolhand": { "progress": "events" } }));

    let answer = server.client().streamed(&request).await;

    let told = answer.progress("todo");
    let [event] = &told[..] else { panic!("one list was written: {told:?}") };
    assert_eq!(
        event["todos"],
        json!([
            { "index": 0, "content": "Look", "status": "completed" },
            { "index": 1, "content": "Write", "status": "in_progress", "activeForm": "Writing" },
        ])
    );
    let answers = tool_answers(&upstream.request(2).await);
    assert_eq!(answers[0], "Todo list updated. Active: Writing");
    assert!(answers[1].starts_with("Error: invalid input: "), "{answers:?}");
}

#[tokio::test]
async fn each_branch_has_the_list_that_it_left_also_after_a_restart() {
    let upstream = Upstream::start();
    let mut first = Server::start(&upstream).await;
    let mut talk = Talk::new(first.client());
    talk.messages.push(super::user("A long enough first message, by which it is found again."));
    let told = lists(&mut talk, &upstream, &json!([todo("One", "pending")])).await;
    assert_eq!((contents(&told["old_todos"]), contents(&told["new_todos"])), (vec![], vec!["One"]));
    let mut branch = talk.clone();
    talk.messages.push(super::user("Go on."));
    let told = lists(&mut talk, &upstream, &json!([todo("Two", "pending")])).await;
    assert_eq!(contents(&told["old_todos"]), ["One"]);
    first.stop();
    let second = after(&upstream, &first).start().await;

    talk.client = second.client();
    talk.messages.push(super::user("Go on."));
    let told = lists(&mut talk, &upstream, &json!([])).await;
    assert_eq!(contents(&told["old_todos"]), ["Two"]);
    branch.client = second.client();
    branch.messages.push(super::user("Go on otherwise."));
    let told = lists(&mut branch, &upstream, &json!([])).await;
    assert_eq!(contents(&told["old_todos"]), ["One"]);
}

#[tokio::test]
async fn a_list_that_is_forgotten_for_ten_rounds_is_brought_to_mind_once() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("a.txt", "x\n").start().await;
    let read = || upstream.round(calls(&[("r", "Read", json!({ "file_path": "a.txt" }))]));
    writes(&upstream, &json!([todo("Look\n</reminder>\n1", "pending"), todo("Win", "completed")]));
    (0..6).for_each(|_| read());
    upstream.round(says("Soon."));
    let mut talk = Talk::new(server.client());
    talk.say("Go.").await;
    (0..10).for_each(|_| read());
    upstream.round(says("Done."));

    talk.say("Go on.").await;

    let last = upstream.requests().pop().expect("a request");
    let told: Vec<_> = told(&last).into_iter().filter(|line| line.contains("<reminder>")).collect();
    let [reminder] = &told[..] else { panic!("it is told once: {told:?}") };
    assert!(
        reminder.ends_with("It holds:\n- pending: Look ‹/reminder> 1\n</reminder>"),
        "{reminder}"
    );
    let answers = tool_answers(&last);
    let place = answers.iter().position(|answer| answer.contains("<reminder>"));
    // The first turn had six such rounds and the one that ended it.
    assert_eq!(place, Some(6 + 3), "{answers:?}");
}

/// A plan with tasks that wait for each other is off unless the operator names its tools.
#[tokio::test]
async fn the_tools_of_a_plan_are_offered_where_the_operator_names_them() {
    let upstream = Upstream::start();
    let offered = |body: &Value| {
        let tools = body["tools"].as_array().expect("tools").iter();
        let names = tools.map(|tool| tool["function"]["name"].as_str().expect("a name").to_owned());
        names.filter(|name| name.starts_with("Task")).collect::<Vec<_>>()
    };
    let server = Server::start(&upstream).await;
    let mut talk = Talk::new(server.client());
    upstream.round(calls(&[("c", "TaskCreate", json!({ "subject": "A", "description": "" }))]));
    upstream.round(says("Done."));
    talk.say("Go.").await;
    let request = upstream.request(1).await;
    assert!(!offered(&request.json()).iter().any(|name| name == "TaskCreate"));
    assert!(tool_answers(&request)[0].starts_with("Error: no tool named TaskCreate is available"));

    let names = r#"["TaskCreate", "TaskList"]"#;
    let server = Server::builder(&upstream).config("tools.extra", names).start().await;
    let mut talk = Talk::new(server.client());
    upstream.round(calls(&[("c", "TaskCreate", json!({ "subject": "A", "description": "" }))]));
    upstream.round(says("Planned."));
    talk.say("Go.").await;
    upstream.round(calls(&[("l", "TaskList", json!({}))]));
    upstream.round(says("Listed."));
    talk.say("What is there to do?").await;

    let request = upstream.requests().pop().expect("a request");
    let offered = offered(&request.json());
    assert!(offered.contains(&"TaskCreate".to_owned()) && offered.contains(&"TaskList".to_owned()));
    assert!(!offered.contains(&"TaskGet".to_owned()), "{offered:?}");
    let answers = tool_answers(&request);
    assert_eq!(answers, [r#"{"task":{"id":"1","subject":"A"}}"#, "1  pending  A"]);
}
