//! Agents that go on after they have ended.

use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::{agent_id, instructions, last_answer, offered, task};
use crate::sessions::leaving::{lasting, started};
use crate::sessions::{after, assert_goes_on, assistant, conversation, told, user};
use crate::support::chunks::{calls, gate, says};
use crate::support::client::with;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

fn in_session(messages: &[serde_json::Value]) -> serde_json::Value {
    with(conversation(messages), json!({ "toolhand": { "session": "work" } }))
}

#[tokio::test]
async fn an_agent_goes_on_with_what_it_knows_also_after_a_restart() {
    let upstream = Upstream::start();
    let mut first = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    upstream.round(calls(&[("c1", "Task", task("Explore", "Find it.", json!({})))]));
    upstream.round(calls(&[("k1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(says("It is there."));
    upstream.round(says("Found."));
    let answer = first.client().chat(&in_session(&[user("Go.")])).await.text();
    let id = agent_id(&last_answer(&upstream.requests()[3]));
    first.stop();
    let second = after(&upstream, &first).start().await;

    let input = json!({ "description": "more", "prompt": "And the line?", "resume": id });
    upstream.round(calls(&[("c2", "Task", input)]));
    upstream.round(says("Line 1."));
    upstream.round(says("Line 1, it says."));
    let list = [user("Go."), assistant(&answer), user("Where?")];
    let answer = second.client().chat(&in_session(&list)).await;

    assert_eq!(answer.text(), "Line 1, it says.");
    let requests = upstream.requests();
    let (before, resumed) = (&requests[2], &requests[5]);
    assert_goes_on(before, resumed);
    assert_eq!(told(resumed)[3..], ["assistant: It is there.", "user: And the line?"]);
    assert_eq!(instructions(before), instructions(resumed));
    assert_eq!(offered(before), offered(resumed));
    assert!(last_answer(&requests[6]).starts_with("Line 1.\n"), "{}", last_answer(&requests[6]));
}

#[tokio::test]
async fn a_foreign_agent_and_one_of_another_session_are_not_found_alike() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).start().await;
    upstream.round(calls(&[("c1", "Task", task("Explore", "Find it.", json!({})))]));
    upstream.round(says("It is there."));
    upstream.round(says("Found."));
    server.client().chat(&in_session(&[user("Go.")])).await;
    let id = agent_id(&last_answer(&upstream.requests()[2]));
    let unknown = format!("agent_{}", "0".repeat(32));

    let resume = |id: &str| json!({ "description": "d", "prompt": "p", "resume": id });
    upstream.round(calls(&[("c1", "Task", resume(&id)), ("c2", "Task", resume(&unknown))]));
    upstream.round(says("No."));
    let other = with(conversation(&[user("Go.")]), json!({ "toolhand": { "session": "other" } }));
    server.client().chat(&other).await;

    let answers = answers_in(&upstream.requests().pop().unwrap().json());
    let answers = answers.iter().map(|answer| answer.replace(&id, "ID").replace(&unknown, "ID"));
    assert_eq!(
        answers.collect::<Vec<_>>(),
        ["Error: no agent of this session is called ID; start one without `resume`"; 2]
    );
}

/// An agent is cut off in a command of its own, and is resumed by the id that the answer to its
/// call names. Returns that answer.
async fn resumed_after_it_was_cut_off(is_killed: bool) -> String {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).free().file("notes.txt", "needle\n");
    let mut first = builder.start().await;
    let call = task("general-purpose", "Find it.", json!({}));
    upstream.round(calls(&[("c1", "Task", call)]));
    upstream.round(calls(&[("k1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round([vec![gate("second")], lasting()].concat());
    let streamed =
        json!({ "stream": true, "toolhand": { "session": "work", "progress": "events" } });
    let body = with(conversation(&[user("Go.")]), streamed);
    let mut stream = first.client().stream(&body).await;
    // The parent knows of the agent now, and what it records is behind that.
    stream.until_progress("subagent").await;
    upstream.open("second");
    started(&first).await;
    let mut second = None;
    if is_killed {
        kill_process(first.pid(), Signal::KILL).expect("our child is there");
        first.stop();
        second = Some(after(&upstream, &first).free().start().await);
    }
    drop(stream);
    let server = second.as_ref().unwrap_or(&first);
    upstream.round(says("I see."));
    let mut list = vec![user("Go."), user("What happened?")];
    let answer = server.client().chat(&in_session(&list)).await;
    assert_eq!(answer.text(), "I see.");
    let told_of_it = last_answer(&upstream.requests()[3]);

    let id = agent_id(&told_of_it);
    let input = json!({ "description": "more", "prompt": "Go on.", "resume": id });
    upstream.round(calls(&[("c2", "Task", input)]));
    upstream.round(says("In line 1."));
    upstream.round(says("It is in line 1."));
    list.extend([assistant("I see."), user("Let it go on.")]);
    let answer = server.client().chat(&in_session(&list)).await;

    assert_eq!(answer.text(), "It is in line 1.");
    let resumed = &upstream.requests()[5];
    let words = told(resumed);
    assert_goes_on(&upstream.requests()[1], resumed);
    assert!(words.iter().any(|line| line.contains("needle")), "{words:?}");
    let prompt = words.last().expect("the prompt");
    let tells = prompt.starts_with("user: (Your last step was interrupted.");
    assert!(tells && prompt.ends_with("Go on."), "{prompt}");
    assert_eq!(first.file("started"), "x\n");
    told_of_it.replace(&id, "ID")
}

#[tokio::test]
async fn an_agent_whose_client_left_is_resumed_by_the_id_in_its_answer() {
    insta::assert_snapshot!(resumed_after_it_was_cut_off(false).await, @r"
    Error: interrupted
    agent_id: ID (resume it with this id to let it go on)
    ");
}

#[tokio::test]
async fn an_agent_whose_server_was_killed_is_resumed_by_the_id_in_its_answer() {
    insta::assert_snapshot!(resumed_after_it_was_cut_off(true).await, @r"
    Error: interrupted, outcome unknown
    agent_id: ID (resume it with this id to let it go on)
    ");
}
