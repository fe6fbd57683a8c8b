//! Tests what the cards in a list tell: their ids name the turn that showed them.

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use super::frontends::{builder, knows_needle, last_told};
use super::{assistant, conversation, user};
use crate::support::chunks::{calls, gate, says};
use crate::support::client::{Client, with};
use crate::support::stream::Transcript;
use crate::support::upstream::{Step, Upstream};
use crate::support::watch;

fn streamed(messages: &[Value]) -> Value {
    with(conversation(messages), json!({ "stream": true }))
}

fn reads(file: &str) -> Vec<Step> {
    calls(&[("c1", "Read", json!({ "file_path": file }))])
}

fn session(answer: &Transcript) -> String {
    answer.toolhand["session"].as_str().expect("a session").to_owned()
}

/// What Open WebUI sends back of an answer: its cards with their outputs, then its text.
fn sent_back(answer: &Transcript) -> Vec<Value> {
    let items = answer.card_items();
    let mut messages = Vec::new();
    for output in items.iter().filter(|item| item["type"] == "function_call_output") {
        let is_call = |item: &&&Value| {
            item["type"] == "function_call" && item["call_id"] == output["call_id"]
        };
        let call = items.iter().rfind(is_call).expect("its call");
        let call = json!({ "id": call["call_id"], "type": "function",
            "function": call["provider_function"] });
        messages.push(json!({ "role": "assistant", "content": "", "tool_calls": [call] }));
        messages.push(json!({ "role": "tool", "tool_call_id": output["call_id"],
            "content": output["output"][0]["text"] }));
    }
    if !answer.text().is_empty() {
        messages.push(assistant(answer.text()));
    }
    messages
}

/// Asks a model that reads this file and says "Done.".
async fn asked(client: &Client, upstream: &Upstream, words: &str, file: &str) -> Transcript {
    upstream.round(reads(file));
    upstream.round(says("Done."));
    client.streamed(&streamed(&[user(words)])).await
}

#[tokio::test]
async fn two_chats_that_begin_alike_are_told_apart_by_their_cards() {
    let upstream = Upstream::start();
    let server = builder(&upstream).file("other.txt", "thimble\n").start().await;
    let client = server.client().header("x-toolhand-progress", "cards");
    let first = asked(&client, &upstream, "Read it.", "notes.txt").await;
    let other = asked(&client, &upstream, "Read it.", "other.txt").await;
    assert_ne!(session(&first), session(&other));

    for (answer, known, foreign) in [(&first, "needle", "thimble"), (&other, "thimble", "needle")] {
        upstream.round(says("Yes."));
        let mut list = [vec![user("Read it.")], sent_back(answer), vec![user("Sure?")]].concat();
        let second = client.streamed(&streamed(&list)).await;

        assert_eq!(session(&second), session(answer));
        let told = last_told(&upstream).join("\n");
        assert!(told.contains(known) && !told.contains(foreign), "{told}");

        // An answer without cards behind it is found as well.
        list.extend([assistant("Yes."), user("And now?")]);
        upstream.round(says("Still."));
        let third = client.streamed(&streamed(&list)).await;
        assert_eq!(session(&third), session(answer));
        let told = last_told(&upstream).join("\n");
        assert!(told.contains(known) && told.contains("assistant: Yes."), "{told}");
    }
}

/// A frontend may wrap the question in words that nobody knows, or drop it.
#[tokio::test]
async fn cards_decide_whatever_the_user_messages_say() {
    for questions in [&["Quite another question"][..], &[], &["One", "Two"]] {
        let upstream = Upstream::start();
        let server = builder(&upstream).start().await;
        let client = server.client().header("x-toolhand-progress", "cards");
        let first = asked(&client, &upstream, "Read.", "notes.txt").await;
        upstream.round(says("Yes."));

        let before: Vec<Value> = questions.iter().map(|text| user(text)).collect();
        let list = [before, sent_back(&first), vec![user("Sure?")]].concat();
        let second = client.streamed(&streamed(&list)).await;

        assert_eq!(session(&second), session(&first), "{questions:?}");
        assert!(knows_needle(&upstream), "{questions:?}");
    }
}

#[tokio::test]
async fn cards_of_another_key_name_nothing() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    let client = server.client().header("x-toolhand-progress", "cards");
    let first = asked(&client, &upstream, "Read.", "notes.txt").await;
    let key = crate::settings::client_keys::add(&server, &["other"]);
    let other = Client::new(server.address(), &key).header("x-toolhand-progress", "cards");
    upstream.round(says("Yes."));

    let list = [vec![user("Read.")], sent_back(&first), vec![user("Sure?")]].concat();
    let second = other.streamed(&streamed(&list)).await;

    assert_ne!(session(&second), session(&first));
    assert!(!last_told(&upstream).iter().any(|line| line.contains("needle")));
}

/// What the client has changed of an answer is its own.
#[tokio::test]
async fn an_edited_answer_stays_as_it_was_edited() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    let client = server.client().header("x-toolhand-progress", "cards");
    let first = asked(&client, &upstream, "Read.", "notes.txt").await;
    upstream.round(says("Yes."));

    let mut kept = sent_back(&first);
    *kept.last_mut().expect("the text") = assistant("I have read nothing.");
    let list = [vec![user("Read.")], kept, vec![user("Sure?")]].concat();
    let second = client.streamed(&streamed(&list)).await;

    assert_eq!(session(&second), session(&first));
    let told = last_told(&upstream).join("\n");
    assert!(told.contains("assistant: I have read nothing.") && !told.contains("Done."), "{told}");
}

/// Of two answers to one question with the same text the cards tell which the list shows.
#[tokio::test]
async fn a_regenerated_answer_is_told_from_the_one_before() {
    for chat in [None, Some("chat-1")] {
        let upstream = Upstream::start();
        let server = builder(&upstream).file("other.txt", "thimble\n").start().await;
        let mut client = server.client().header("x-toolhand-progress", "cards");
        if let Some(chat) = chat {
            client = client.header("x-openwebui-chat-id", chat);
        }
        let first = asked(&client, &upstream, "Read it.", "notes.txt").await;
        asked(&client, &upstream, "Read it.", "other.txt").await;
        upstream.round(says("Yes."));

        let list = [vec![user("Read it.")], sent_back(&first), vec![user("Sure?")]].concat();
        client.streamed(&streamed(&list)).await;

        let told = last_told(&upstream).join("\n");
        assert!(told.contains("needle") && !told.contains("thimble"), "{chat:?}: {told}");
    }
}

/// A turn that was stopped before it said anything: the list has its cards alone.
#[tokio::test]
async fn the_cards_of_a_silent_answer_bring_back_what_was_done() {
    let upstream = Upstream::start();
    let server = builder(&upstream).free().start().await;
    let client = server.client().header("x-toolhand-progress", "cards");
    let started = server.workspace().join("started");
    mkfifoat(CWD, &started, Mode::RWXU).expect("a pipe");
    upstream.round(reads("notes.txt"));
    let command = json!({ "command": "echo running > started; sleep 1000" });
    upstream.round(calls(&[("c2", "Bash", command)]));
    let stream = client.stream(&streamed(&[user("Read.")])).await;
    let turn = stream.head.header("x-toolhand-turn").expect("a turn").to_owned();
    let reading = tokio::task::spawn_blocking(move || std::fs::read(started));
    watch("the command to run", reading).await.expect("no panic").expect("a pipe");
    let cancel = format!("/toolhand/v1/turns/{turn}/cancel");
    assert_eq!(client.send("POST", &cancel, None).await.status(), 200);
    let stopped = stream.finish().await;
    let kept = sent_back(&stopped);
    assert_eq!(kept.len(), 4, "two cards and no text: {kept:#?}");
    upstream.round(says("Yes."));

    let list = [vec![user("Read.")], kept, vec![user("Go on.")]].concat();
    let next = client.streamed(&streamed(&list)).await;

    assert!(last_told(&upstream).iter().any(|line| line.contains("needle")));
    assert_eq!(next.text(), "Yes.");
    let sessions = server.client().get("/toolhand/v1/sessions").await.json();
    assert_eq!(sessions["data"].as_array().map(Vec::len), Some(1), "one session");
}

/// While a turn of the chat runs, a second one forks: what it said is found by the same cards.
#[tokio::test]
async fn an_answer_of_a_fork_goes_on_in_the_fork() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    let client = server.client().header("x-toolhand-progress", "cards");
    let first = asked(&client, &upstream, "Read.", "notes.txt").await;
    let list = [vec![user("Read.")], sent_back(&first)].concat();
    upstream.round([vec![gate("slow")], says("Slowly.")].concat());
    let slow = client.stream(&streamed(&[&list[..], &[user("Slow?")]].concat())).await;
    upstream.reached("slow").await;
    upstream.round(says("Fast."));
    let fast_list = [&list[..], &[user("Fast?")]].concat();
    let fast = client.streamed(&streamed(&fast_list)).await;
    upstream.open("slow");
    slow.finish().await;
    assert_ne!(session(&fast), session(&first));
    upstream.round(says("So."));

    let on = [&fast_list[..], &[assistant("Fast."), user("And?")]].concat();
    let on = client.streamed(&streamed(&on)).await;

    assert_eq!(session(&on), session(&fast));
    assert!(knows_needle(&upstream));
}

/// Without cards and ids the text decides, and it is exact.
#[tokio::test]
async fn todo_list_17_does_not_contain_todo_list() {
    for (one, other) in
        [("todo list", "todo list 17"), ("17", "todo list 17"), ("todo list", "my todo list")]
    {
        let upstream = Upstream::start();
        let server = builder(&upstream).file("other.txt", "thimble\n").start().await;
        let client = server.client();
        asked(&client, &upstream, one, "notes.txt").await;
        asked(&client, &upstream, other, "other.txt").await;
        for (words, known, foreign) in [(one, "needle", "thimble"), (other, "thimble", "needle")] {
            upstream.round(says("Yes."));
            let list = [user(words), assistant("Done."), user("Sure?")];
            client.chat(&conversation(&list)).await;
            let told = last_told(&upstream).join("\n");
            assert!(told.contains(known) && !told.contains(foreign), "{words}: {told}");
        }
        upstream.round(says("Yes."));
        let unknown = [user("todo list 18"), assistant("Done."), user("Sure?")];
        client.chat(&conversation(&unknown)).await;
        assert_eq!(last_told(&upstream).len(), 3, "{:?}", last_told(&upstream));
    }
}
