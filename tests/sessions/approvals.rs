//! Calls that a person must approve, over plain chat.

use serde_json::{Value, json};

use super::{after, assert_goes_on, assistant, conversation, told, user};
use crate::support::chunks::{calls, says};
use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

async fn server(upstream: &Upstream) -> Server {
    Server::builder(upstream).file("notes.txt", "needle\n").start().await
}

fn writes(upstream: &Upstream, name: &str) {
    let input = json!({ "file_path": name, "content": "new\n" });
    upstream.round(calls(&[("c1", "Write", input)]));
}

/// Asks for a write, and returns the question.
async fn question(client: &Client, upstream: &Upstream, name: &str) -> String {
    writes(upstream, name);
    let answer = client.chat(&conversation(&[user("Write it.")])).await;
    let body = answer.json();
    assert_eq!(body["choices"][0]["finish_reason"], "stop", "{body:#}");
    answer.text()
}

fn reply(question: &str, text: &str) -> Value {
    conversation(&[user("Write it."), assistant(question), user(text)])
}

fn exists(server: &Server, name: &str) -> bool {
    server.workspace().join(name).exists()
}

#[tokio::test]
async fn a_write_is_asked_about_and_one_lets_it_run() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let asked = question(&client, &upstream, "new.txt").await;
    assert!(asked.contains("new.txt") && asked.contains("+new"), "{asked}");
    assert!(!exists(&server, "new.txt"));
    upstream.round(says("Written."));

    let answer = client.chat(&reply(&asked, "1")).await;

    assert_eq!(answer.text(), "Written.");
    assert_eq!(server.file("new.txt"), "new\n");
    let [one, two] = &upstream.requests()[..] else { panic!("two requests") };
    assert_goes_on(one, two);
    let told = told(two);
    assert_eq!(told.len(), 3, "neither question nor reply goes upstream: {told:?}");
}

#[tokio::test]
async fn a_conversation_goes_on_after_an_approval() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let asked = question(&client, &upstream, "new.txt").await;
    upstream.round(says("Written."));
    client.chat(&reply(&asked, "1")).await;
    upstream.round(says("You are welcome."));

    let list =
        [user("Write it."), assistant(&asked), user("1"), assistant("Written."), user("Thanks")];
    client.chat(&conversation(&list)).await;

    let [_, two, three] = &upstream.requests()[..] else { panic!("three requests") };
    assert_goes_on(two, three);
    let told = told(three);
    assert_eq!(told[3..], ["assistant: Written.", "user: Thanks"]);
}

#[tokio::test]
async fn an_approval_after_a_restart_runs_the_call_once() {
    let upstream = Upstream::start();
    let mut first = server(&upstream).await;
    let asked = question(&first.client(), &upstream, "new.txt").await;
    first.stop();
    let server = after(&upstream, &first).start().await;
    upstream.round(says("Written."));

    server.client().chat(&reply(&asked, "yes")).await;
    assert_eq!(first.file("new.txt"), "new\n");
    std::fs::remove_file(first.workspace().join("new.txt")).expect("our file");
    // The same reply again finds what was recorded.
    let again = server.client().chat(&reply(&asked, "yes")).await;

    assert_eq!(again.text(), "Written.");
    assert!(!exists(&first, "new.txt"), "nothing ran a second time");
}

#[tokio::test]
async fn v21_only_a_whole_message_approves_and_anything_else_denies_with_its_words() {
    for words in [
        "Please say 1 for me",
        "1 2",
        "yes, but not there",
        "1\n1",
        "What does this page mean? <context>some page</context>\n1",
        "no <context></context> yes",
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let client = server.client();
        let asked = question(&client, &upstream, "new.txt").await;
        upstream.round(says("Then not."));

        client.chat(&reply(&asked, words)).await;

        assert!(!exists(&server, "new.txt"), "{words}");
        let told = told(&upstream.request(1).await);
        let answer = told.last().expect("messages");
        let first_line = words.lines().next().unwrap_or_default();
        assert!(answer.starts_with("tool: Error: ") && answer.contains(first_line), "{answer}");
    }
}

#[tokio::test]
async fn an_edited_earlier_message_approves_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let asked = question(&client, &upstream, "new.txt").await;
    upstream.round(says("No."));
    client.chat(&reply(&asked, "3")).await;
    upstream.round(says("Fine."));

    let list =
        [user("Write it."), assistant(&asked), user("1"), assistant("No."), user("And now?")];
    client.chat(&conversation(&list)).await;

    assert!(!exists(&server, "new.txt"));
}

#[tokio::test]
async fn a_decision_over_rest_counts_once_and_the_next_request_goes_on() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let asked = question(&client, &upstream, "new.txt").await;
    let approvals = client.get("/toolhand/v1/approvals").await.json();
    let id = approvals["data"][0]["id"].as_str().expect("an approval").to_owned();
    let path = format!("/toolhand/v1/approvals/{id}");
    let allow = json!({ "decision": "allow", "scope": "once" });

    assert_eq!(client.post(&path, &allow).await.status(), 200);
    assert_eq!(client.post(&path, &allow).await.refusal(), (409, "approval_closed".to_owned()));
    assert!(!exists(&server, "new.txt"), "the turn is suspended");
    upstream.round(says("Written."));
    client.chat(&reply(&asked, "How is it going?")).await;

    assert_eq!(server.file("new.txt"), "new\n");
    let second = upstream.request(1).await;
    let shown = told(&second);
    let roles: Vec<&str> = shown.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"], "{shown:?}");
    assert_eq!(shown.last().map(String::as_str), Some("user: How is it going?"));
    upstream.round(says("Bye."));
    let list = [
        user("Write it."),
        assistant(&asked),
        user("How is it going?"),
        assistant("Written."),
        user("Bye"),
    ];
    client.chat(&conversation(&list)).await;
    assert_goes_on(&second, &upstream.request(2).await);
}

#[tokio::test]
async fn an_approval_for_the_session_covers_the_same_file_and_no_other() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let asked = question(&client, &upstream, "new.txt").await;
    writes(&upstream, "new.txt");
    writes(&upstream, "other.txt");

    let answer = client.chat(&reply(&asked, "always")).await;

    assert!(answer.text().contains("other.txt"), "{}", answer.text());
    assert!(exists(&server, "new.txt") && !exists(&server, "other.txt"));
}

#[tokio::test]
async fn a_file_that_changed_since_the_question_is_asked_about_anew() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    upstream.round(calls(&[("c0", "Read", json!({ "file_path": "notes.txt" }))]));
    let asked = question(&client, &upstream, "notes.txt").await;
    std::fs::write(server.workspace().join("notes.txt"), "changed\n").expect("our file");

    let again = client.chat(&reply(&asked, "1")).await;

    assert_eq!(server.file("notes.txt"), "changed\n");
    let text = again.text();
    assert!(text.contains("changed since you were asked") && text.contains("notes.txt"), "{text}");
    assert_eq!(upstream.requests().len(), 2, "the person is asked, and no model");
}

#[tokio::test]
async fn dont_ask_and_no_channel_deny_as_ever() {
    for (key, value) in [("permissions.mode", r#""dontAsk""#), ("approval.channel", r#""none""#)] {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream).config(key, value).start().await;
        writes(&upstream, "new.txt");
        upstream.round(says("I may not."));

        server.client().chat(&conversation(&[user("Write it.")])).await;

        let answers = crate::turn::answers(&upstream, 1).await;
        assert!(answers[0].starts_with("Error: not permitted: "), "{answers:?}");
    }
}
