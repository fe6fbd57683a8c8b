//! The bytes that a provider's prompt cache sees of the main agent and of each subagent, over all
//! modes and turns.

use serde_json::{Value, json};

use super::{agent_id, last_answer, offered, task};
use crate::sessions::asking::Talk;
use crate::sessions::{assert_goes_on, transcript};
use crate::support::chunks::{calls, says};
use crate::support::server::Server;
use crate::support::upstream::{Request, Upstream};

const MODES: [&str; 5] = ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"];

/// The model of the subagents, by which their requests are told from the main agent's.
const OF_AGENTS: &str = "haiku";

/// The requests with this model.
pub(crate) fn requests_of(upstream: &Upstream, model: &str) -> Vec<Request> {
    let requests = upstream.requests().into_iter();
    requests.filter(|request| request.json()["model"] == model).collect()
}

/// What follows the messages of a request: the tools, and the settings behind them.
pub(crate) fn behind_messages(request: &Request) -> String {
    let body = String::from_utf8(request.body.clone()).expect("JSON is UTF-8");
    body[transcript(request).len()..].to_owned()
}

/// Asserts that each request begins with the bytes of the one before and has the same tools.
#[track_caller]
pub(crate) fn assert_one_prefix(requests: &[Request]) {
    for pair in requests.windows(2) {
        assert_goes_on(&pair[0], &pair[1]);
        assert_eq!(behind_messages(&pair[0]), behind_messages(&pair[1]));
    }
}

/// The same for requests that a gateway between the server and upstream has formatted its own way.
#[track_caller]
pub(crate) fn assert_one_prefix_of_values(requests: &[Request]) {
    let bodies: Vec<Value> = requests.iter().map(Request::json).collect();
    for pair in bodies.windows(2) {
        let [earlier, later] =
            [&pair[0], &pair[1]].map(|body| body["messages"].as_array().expect("messages"));
        assert!(later.starts_with(earlier), "{earlier:#?}\n--- and then ---\n{later:#?}");
        // Member by member, in order.
        assert_eq!(pair[0]["tools"].to_string(), pair[1]["tools"].to_string());
    }
}

/// A subagent with [`OF_AGENTS`].
fn delegates(agent_type: &str, more: Value) -> Value {
    let mut input = task(agent_type, "Where is the needle?", more);
    input["model"] = OF_AGENTS.into();
    input
}

/// The plan's path, as the model was told it.
pub(crate) fn plan_path(request: &Request) -> String {
    let told = last_answer(request);
    let named = told.split_whitespace().find_map(|word| {
        let end = word.find("plan.md")? + "plan.md".len();
        Some(word[word.find('/')?..end].to_owned())
    });
    named.unwrap_or_else(|| panic!("no plan is named: {told}"))
}

/// One turn that reads a file, in a request with these members.
async fn reads_in(talk: &mut Talk, upstream: &Upstream, members: Value) {
    upstream.round(calls(&[("r", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(says("Read."));
    talk.members = members;
    assert_eq!(talk.say("Read it.").await, "Read.", "{}", talk.members);
}

#[tokio::test]
async fn the_tools_are_the_same_bytes_in_every_mode_of_a_server() {
    let mut seen = Vec::new();
    for mode in MODES {
        let upstream = Upstream::start();
        let argument = format!("--permission-mode={mode}");
        let server = Server::builder(&upstream).argument(&argument).start().await;
        upstream.round(says("Hello."));
        assert_eq!(Talk::new(server.client()).say("Hi").await, "Hello.");
        seen.push(behind_messages(&upstream.request(0).await));
    }
    assert!(seen[0].contains("ExitPlanMode") && seen[0].contains("AskUserQuestion"), "{}", seen[0]);
    for (mode, tools) in MODES.iter().zip(&seen) {
        assert_eq!(tools, &seen[0], "{mode}");
    }
}

#[tokio::test]
async fn tools_and_history_stay_the_same_bytes_over_all_modes_turns_and_agents() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().file("notes.txt", "needle\n").start().await;
    let mut talk = Talk::new(server.client());
    let write = |name: &str| json!({ "file_path": name, "content": "new\n" });
    // The request's own mode. The session goes on planning once a request has said so.
    for mode in ["default", "acceptEdits", "dontAsk", "bypassPermissions", "default"] {
        reads_in(&mut talk, &upstream, json!({ "toolhand": { "mode": mode } })).await;
    }
    // Before, in and after plan mode, with subagents.
    talk.members = json!({});
    let explores = || {
        upstream.round_of("scripted", calls(&[("t", "Task", delegates("Explore", json!({})))]));
        let grep = json!({ "pattern": "needle" });
        upstream.round_of(OF_AGENTS, calls(&[("g", "Grep", grep)]));
        upstream.round_of(OF_AGENTS, says("In notes.txt."));
        upstream.round_of("scripted", says("Found."));
    };
    explores();
    assert_eq!(talk.say("Find it.").await, "Found.");
    upstream.round(calls(&[("e", "EnterPlanMode", json!({}))]));
    assert!(talk.say("Plan.").await.contains("Enter plan mode?"));
    upstream.round(says("Planning."));
    assert_eq!(talk.say("1").await, "Planning.");
    let plan = plan_path(&upstream.requests().pop().expect("a request"));
    explores();
    assert_eq!(talk.say("Find it again.").await, "Found.");
    upstream.round(calls(&[("w", "Write", write(&plan))]));
    upstream.round(calls(&[("x", "ExitPlanMode", json!({}))]));
    assert!(talk.say("Is it ready?").await.contains("`2` go on in acceptEdits"));
    upstream.round(calls(&[("w", "Write", write("new.txt"))]));
    upstream.round(says("Written."));
    assert_eq!(talk.say("2").await, "Written.");
    explores();
    assert_eq!(talk.say("Find it once more.").await, "Found.");
    // Plan mode that a request began, and requests that say otherwise in it.
    for mode in ["plan", "bypassPermissions", "dontAsk"] {
        reads_in(&mut talk, &upstream, json!({ "toolhand": { "mode": mode } })).await;
    }

    assert_eq!(server.file("new.txt"), "new\n");
    let main = requests_of(&upstream, "scripted");
    assert_eq!(main.len(), 10 + 3 * 2 + 2 + 2 + 2 + 6);
    assert_one_prefix(&main);
    let agents = requests_of(&upstream, OF_AGENTS);
    for (number, agent) in agents.chunks(2).enumerate() {
        assert_one_prefix(agent);
        assert_eq!(behind_messages(&agent[0]), behind_messages(&agents[0]), "agent {number}");
    }
}

#[tokio::test]
async fn an_agent_that_asks_and_is_resumed_keeps_its_prefix() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let mut talk = Talk::new(server.client());
    let write = json!({ "file_path": "new.txt", "content": "new\n" });
    let start = delegates("general-purpose", json!({}));
    upstream.round_of("scripted", calls(&[("t", "Task", start)]));
    upstream.round_of(OF_AGENTS, calls(&[("r", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round_of(OF_AGENTS, calls(&[("w", "Write", write)]));
    assert!(talk.say("Write it.").await.contains("new.txt"));
    upstream.round_of(OF_AGENTS, says("Written."));
    upstream.round_of("scripted", says("It is written."));
    assert_eq!(talk.say("1").await, "It is written.");
    let id = agent_id(&last_answer(&upstream.requests().pop().expect("a request")));
    let again = delegates("general-purpose", json!({ "resume": id }));
    upstream.round_of("scripted", calls(&[("t2", "Task", again)]));
    upstream.round_of(OF_AGENTS, calls(&[("r2", "Read", json!({ "file_path": "new.txt" }))]));
    upstream.round_of(OF_AGENTS, says("It says new."));
    upstream.round_of("scripted", says("So it says."));
    assert_eq!(talk.say("What does it say?").await, "So it says.");

    assert_eq!(server.file("new.txt"), "new\n");
    let (main, agent) = (requests_of(&upstream, "scripted"), requests_of(&upstream, OF_AGENTS));
    assert_eq!((main.len(), agent.len()), (4, 5));
    assert_one_prefix(&main);
    assert_one_prefix(&agent);
    assert!(!offered(&agent[0]).contains(&"AskUserQuestion".to_owned()));
}
