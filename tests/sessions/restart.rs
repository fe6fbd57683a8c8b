//! What a session knows survives the server.

use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::{after, assert_goes_on, assistant, conversation, told, user};
use crate::support::chunks::{calls, gate, says};
use crate::support::client::{ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

#[tokio::test]
async fn d1_an_answer_that_was_heard_is_known_after_a_kill() {
    let upstream = Upstream::start();
    let mut server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(says("It says needle."));
    server.client().streamed(&ask_streamed("Read.")).await;
    kill_process(server.pid(), Signal::KILL).expect("our child is there");
    server.stop();
    let server = after(&upstream, &server).start().await;
    upstream.round(says("Needle."));

    let list = [user("Read."), assistant("It says needle."), user("What?")];
    server.client().chat(&conversation(&list)).await;

    let [_, two, three] = &upstream.requests()[..] else { panic!("three requests") };
    assert_goes_on(two, three);
    assert!(told(three)[2].contains("needle"));
}

#[tokio::test]
async fn d10_a_call_that_ran_when_the_server_was_killed_reads_outcome_unknown() {
    let upstream = Upstream::start();
    let mut killed = Server::builder(&upstream).free().start().await;
    let command = json!({ "command": "echo x >> counter; sleep 1000" });
    upstream.round(calls(&[("c1", "Bash", command)]));
    let session = json!({ "toolhand": { "session": "mine", "progress": "events" } });
    let mut stream = killed.client().stream(&with(ask_streamed("Count."), session.clone())).await;
    stream.until_progress("tool_start").await;
    // The shell makes the file before it writes it.
    while std::fs::read(killed.workspace().join("counter")).unwrap_or_default().is_empty() {
        tokio::task::yield_now().await;
    }
    kill_process(killed.pid(), Signal::KILL).expect("our child is there");
    killed.stop();
    let server = after(&upstream, &killed).free().start().await;
    upstream.round(says("I do not know how far it came."));

    let list = [user("Count."), user("Go on.")];
    server.client().chat(&with(conversation(&list), session)).await;

    let told = told(&upstream.request(1).await);
    assert!(
        told.iter().any(|line| line == "tool: Error: interrupted, outcome unknown"),
        "{told:?}"
    );
    assert_eq!(killed.file("counter"), "x\n", "it is never run again by itself");
}

#[tokio::test]
async fn a_stopped_turn_is_known_to_a_request_that_goes_on_from_its_user_message() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    let partial = "I have begun to tell you a long story about a needle in a haystack";
    upstream.round(vec![crate::support::chunks::text(partial), gate("never")]);
    let client = server.client();
    let mut stream = client.stream(&ask_streamed("Tell.")).await;
    assert_eq!(stream.until_text().await, partial);
    drop(stream);
    upstream.abandoned(1).await;
    upstream.open("never");
    upstream.round(says("As I said."));

    let list = [user("Tell."), assistant(partial), user("Go on.")];
    let answer = client.chat(&conversation(&list)).await;

    assert_eq!(answer.text(), "As I said.");
    let told = told(&upstream.request(2).await);
    assert!(told[2].contains("needle"), "the tool's answer is there: {told:?}");
    assert_eq!(told[3..], [format!("assistant: {partial}"), "user: Go on.".to_owned()]);
}
