//! Agents that go on after they have ended.

use serde_json::json;

use super::{agent_id, instructions, last_answer, offered, task};
use crate::sessions::{after, assert_goes_on, assistant, conversation, told, user};
use crate::support::chunks::{calls, says};
use crate::support::client::with;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

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

    let last = upstream.requests().pop().unwrap().json();
    let answers: Vec<_> = last["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| {
            message["content"].as_str().unwrap().replace(&id, "ID").replace(&unknown, "ID")
        })
        .collect();
    assert_eq!(answers, ["Error: no agent of this session is called ID"; 2]);
}
