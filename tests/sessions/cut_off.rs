//! What a server that was killed has done is in the session: in its export, and in what the model
//! is told next.

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::mixed::weather;
use super::scenario::OUTCOME_UNKNOWN;
use super::{after, assistant, conversation, told, user};
use crate::support::chunks::{calls, gate, says};
use crate::support::client::{Client, ask, ask_streamed, with};
use crate::support::disk::{Disk, Fault};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

fn kill(server: &mut Server) {
    kill_process(server.pid(), Signal::KILL).expect("our child is there");
    server.stop();
}

/// The export's messages.
async fn exported(client: &Client, name: &str) -> Vec<Value> {
    let answer = client.get(&format!("/toolhand/v1/sessions/{name}")).await;
    assert_eq!(answer.status(), 200);
    answer.json()["messages"].as_array().expect("messages").clone()
}

/// The answers to a call in a list of messages.
fn answers(messages: &[Value], id: &str) -> Vec<String> {
    let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    assert_eq!(calls.filter(|call| call["id"] == id).count(), 1, "{messages:#?}");
    let answers = messages.iter().filter(|message| message["tool_call_id"] == id);
    answers.map(|message| message["content"].as_str().expect("text").to_owned()).collect()
}

/// Approves a command whose server is killed while the command runs, or behind it.
async fn killed_after_approval(command: &str, is_over: bool) -> (Server, Server, Upstream) {
    let upstream = Upstream::start();
    let mut killed = Server::builder(&upstream).argument("--sandbox=off").start().await;
    upstream.round(calls(&[("c1", "Bash", json!({ "command": command }))]));
    let client = killed.client().header("x-toolhand-session", "mine");
    let question = client.chat(&ask("Go.")).await.text();
    upstream.round(vec![gate("never")]);
    let reply = [user("Go."), assistant(&question), user("1")];
    let body = with(conversation(&reply), json!({ "stream": true }));
    let stream = client.stream(&body).await;
    if is_over {
        upstream.reached("never").await;
    }
    // The shell makes the file before it writes it.
    while std::fs::read(killed.workspace().join("counter")).unwrap_or_default().is_empty() {
        tokio::task::yield_now().await;
    }
    kill(&mut killed);
    drop(stream);
    upstream.open("never");
    upstream.forget_script();
    let server = after(&upstream, &killed).argument("--sandbox=off").start().await;
    (server, killed, upstream)
}

#[tokio::test]
async fn d1_the_export_has_an_approved_command_that_ran_before_a_kill() {
    let command = "echo x >> counter; echo printed $((1+1))";
    let (server, killed, _upstream) = killed_after_approval(command, true).await;

    let messages = exported(&server.client(), "mine").await;

    let [answer] = &answers(&messages, "c1")[..] else { panic!("one answer: {messages:#?}") };
    assert!(answer.contains("printed 2"), "{answer}");
    assert_eq!(killed.file("counter"), "x\n");
}

#[tokio::test]
async fn d10_the_export_has_an_approved_command_that_ran_when_the_server_was_killed() {
    let command = "echo x >> counter; sleep 1000";
    let (server, killed, upstream) = killed_after_approval(command, false).await;

    let messages = exported(&server.client(), "mine").await;

    assert_eq!(answers(&messages, "c1"), [OUTCOME_UNKNOWN]);
    assert_eq!(killed.file("counter"), "x\n");
    // The turn that goes on tells it once more, and the export still has it once.
    upstream.round(says("I do not know how far it came."));
    let client = server.client().header("x-toolhand-session", "mine");
    let body = with(
        conversation(&[user("What happened?")]),
        json!({ "toolhand": { "history": "server" } }),
    );
    assert_eq!(client.chat(&body).await.status(), 200);
    let messages = exported(&client, "mine").await;
    assert_eq!(answers(&messages, "c1"), [OUTCOME_UNKNOWN]);
    assert_eq!(killed.file("counter"), "x\n");
}

#[tokio::test]
async fn d10_the_export_has_a_command_that_needed_no_approval_and_was_killed() {
    let upstream = Upstream::start();
    let mut killed = Server::builder(&upstream).free().start().await;
    let (read, run) = (json!({ "command": "echo x >> one" }), "echo x >> counter; sleep 1000");
    upstream.round(calls(&[("c0", "Bash", read)]));
    upstream.round(calls(&[("c1", "Bash", json!({ "command": run }))]));
    let client = killed.client().header("x-toolhand-session", "mine");
    let stream = client.stream(&ask_streamed("Count.")).await;
    // The shell makes the file before it writes it.
    while std::fs::read(killed.workspace().join("counter")).unwrap_or_default().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(!exported(&client, "mine").await.iter().any(|it| it["tool_call_id"] == "c1"));
    kill(&mut killed);
    drop(stream);
    let server = after(&upstream, &killed).free().start().await;

    let messages = exported(&server.client(), "mine").await;

    assert_eq!(answers(&messages, "c0").len(), 1);
    assert_eq!(answers(&messages, "c1"), [OUTCOME_UNKNOWN]);
}

/// Kills the server at each write behind the client's results. `shows`: the client sends its whole
/// list; else it leaves the history to the server.
async fn killed_behind_results(shows: bool) {
    let mut kills_behind = 0;
    for write in 0.. {
        let upstream = Upstream::start();
        let disk = Disk::new();
        let builder = Server::builder(&upstream).file("notes.txt", "needle\n");
        let mut killed = disk.under(builder).start().await;
        let name = json!({ "toolhand": { "session": "mine", "history": "server" } });
        let read = ("r1", "Read", json!({ "file_path": "notes.txt" }));
        upstream.round(calls(&[("w1", "weather", json!({ "city": "Lyon" })), read]));
        let body = with(with(ask("Weather?"), weather()), name.clone());
        let message = killed.client().chat(&body).await.json()["choices"][0]["message"].clone();
        upstream.otherwise(says("Fine."));
        let result = json!({ "role": "tool", "tool_call_id": "w1", "content": "sun" });
        let whole = [user("Weather?"), message, result.clone()];
        let list = if shows { conversation(&whole) } else { conversation(&[result]) };
        let session = json!({ "toolhand": { "session": "mine" } });
        let named = if shows { session } else { name.clone() };
        disk.plan(Fault::Kill, write);
        killed.client().try_chat(&with(with(list, weather()), named)).await;
        let was_hit = disk.was_hit();
        disk.mend();
        killed.stop();
        let server = after(&upstream, &killed).start().await;
        let asked = upstream.requests().len();
        let session = server.client().get("/toolhand/v1/sessions/mine").await.json();
        let has_results = session["turns"] == 2;

        let body = with(with(ask("And now?"), weather()), name);
        assert_eq!(server.client().chat(&body).await.status(), 200);

        let told = told(&upstream.request(asked).await);
        assert!(told.iter().any(|line| line.contains("needle")), "{write}: {told:?}");
        assert!(told.iter().any(|line| line == "assistant: weather Read"), "{write}: {told:?}");
        let is_told = told.iter().any(|line| line == "tool: sun");
        assert_eq!(is_told, has_results, "{write}: {told:?}");
        if !was_hit {
            break;
        }
        kills_behind += usize::from(has_results);
    }
    assert!(0 < kills_behind, "no kill fell behind the results");
}

#[tokio::test]
async fn d1_a_mixed_round_is_whole_after_a_kill_behind_the_clients_results() {
    killed_behind_results(true).await;
    killed_behind_results(false).await;
}
