//! Tests what a session knows of the files that the model has read, and what the model is told
//! when something else changes one of them.

use std::fs;

use serde_json::{Value, json};

use crate::support::chunks::{calls, says};
use crate::support::client::{ask, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

fn read(name: &str) -> (&'static str, &'static str, Value) {
    ("c1", "Read", json!({ "file_path": name }))
}

fn bash(command: &str) -> (&'static str, &'static str, Value) {
    ("c1", "Bash", json!({ "command": command }))
}

/// Runs one turn in which the model makes one call a round. Returns its last request.
async fn turn(
    upstream: &Upstream,
    server: &Server,
    messages: &Value,
    rounds: &[(&str, &str, Value)],
) -> Value {
    for round in rounds {
        upstream.round(calls(std::slice::from_ref(round)));
    }
    upstream.round(says("Done."));
    let body = with(ask(""), json!({ "messages": messages }));
    let answer = server.client().chat(&body).await;
    assert_eq!(answer.text(), "Done.");
    upstream.requests().pop().expect("a request").json()
}

fn user_says(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

#[tokio::test]
async fn what_a_command_changes_is_told_with_its_answer_and_once() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().file("a.txt", "one\ntwo\n").start().await;
    let edit = json!({ "file_path": "a.txt", "old_string": "2", "new_string": "zwei" });
    let rounds =
        [read("a.txt"), bash("sed -i s/two/2/ a.txt"), ("c1", "Edit", edit), bash("env true")];

    let last = turn(&upstream, &server, &json!([user_says("Go.")]), &rounds).await;

    let answers = answers_in(&last);
    assert!(!answers[0].contains("<reminder>"), "{answers:?}");
    let (_, reminder) = answers[1].split_once("\n\n<reminder>\n").expect("a reminder");
    assert!(reminder.contains("a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n</reminder>"), "{reminder}");
    assert!(
        answers[2].starts_with("Edited ") && !answers[2].contains("other changes"),
        "{answers:?}"
    );
    assert!(
        !answers[2].contains("<reminder>") && !answers[3].contains("<reminder>"),
        "{answers:?}"
    );
    assert_eq!(fs::read_to_string(server.workspace().join("a.txt")).unwrap(), "one\nzwei\n");
}

#[tokio::test]
async fn what_changes_between_turns_is_told_in_front_of_the_users_words_and_stays_there() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).file("a.txt", "one\n").file("b.txt", "x\n").start().await;
    let done = json!({ "role": "assistant", "content": "Done." });
    turn(&upstream, &server, &json!([user_says("Go.")]), &[read("a.txt"), read("b.txt")]).await;
    fs::write(server.workspace().join("a.txt"), "changed\n").unwrap();
    fs::remove_file(server.workspace().join("b.txt")).unwrap();

    let list = json!([user_says("Go."), done, user_says("And now?")]);
    let second = turn(&upstream, &server, &list, &[]).await;
    let list = json!([user_says("Go."), done, user_says("And now?"), done, user_says("Again.")]);
    let third = turn(&upstream, &server, &list, &[]).await;

    let texts = |request: &Value| -> Vec<String> {
        let messages = request["messages"].as_array().expect("messages").iter();
        let users = messages.filter(|message| message["role"] == "user");
        users.map(|message| message["content"].as_str().expect("text").to_owned()).collect()
    };
    let [_, asked] = &texts(&second)[..] else { panic!("{second}") };
    assert!(
        asked.starts_with("<reminder>\n") && asked.ends_with("</reminder>\n\nAnd now?"),
        "{asked}"
    );
    assert!(asked.contains("/a.txt\n@@ -1,1 +1,1 @@\n-one\n+changed\n"), "{asked}");
    assert!(asked.contains("/b.txt\n[File deleted]\n"), "{asked}");
    assert_eq!(texts(&third)[1..], [asked.clone(), "Again.".to_owned()], "the same bytes, once");
}

/// What the last user message of a request says.
fn asked(request: &Value) -> String {
    let messages = request["messages"].as_array().expect("messages").iter().rev();
    let mut users = messages.filter(|message| message["role"] == "user");
    users.next().and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn life_6d_a_change_after_a_restart_and_in_a_fork_is_told_with_its_diff() {
    let upstream = Upstream::start();
    let edit = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "1" });
    let mut first = Server::builder(&upstream).free().file("a.txt", "one\ntwo\n").start().await;
    let begun = [read("a.txt"), ("c2", "Edit", edit)];
    turn(&upstream, &first, &json!([user_says("Go.")]), &begun).await;
    first.stop();
    fs::write(first.workspace().join("a.txt"), "1\nzwei\n").unwrap();
    let server = crate::sessions::after(&upstream, &first).start().await;
    let done = json!({ "role": "assistant", "content": "Done." });

    // Long enough to be known again in another session.
    let answer = "It is known what the file holds now, and nothing else was changed. ".repeat(5);
    let answer = answer.trim();
    let mut list = vec![user_says("Go."), done, user_says("And now?")];
    upstream.round(says(answer));
    server.client().chat(&with(ask(""), json!({ "messages": list }))).await;
    let second = upstream.requests().pop().expect("a request").json();
    let diff = "/a.txt\n@@ -1,2 +1,2 @@\n 1\n-two\n+zwei\n</reminder>";
    assert!(asked(&second).contains(diff), "{}", asked(&second));

    // What was told with its diff is known: a later change is told from there.
    fs::write(first.workspace().join("a.txt"), "1\nzwei\ndrei\n").unwrap();
    upstream.round(says("Done."));
    list.push(json!({ "role": "assistant", "content": answer }));
    list.push(user_says("In another one?"));
    let fork = json!({ "messages": list, "toolhand": { "session": "another" } });
    server.client().chat(&with(ask(""), fork)).await;
    let third = upstream.requests().pop().expect("a request").json();
    assert!(asked(&third).contains(" zwei\n+drei\n</reminder>"), "{}", asked(&third));
}

#[tokio::test]
async fn life_6d_what_is_too_long_to_be_kept_is_named_between_turns_too() {
    let upstream = Upstream::start();
    let long = "a line of text\n".repeat(80_000);
    let server = Server::builder(&upstream).file("a.txt", &long).start().await;
    turn(&upstream, &server, &json!([user_says("Go.")]), &[read("a.txt")]).await;
    fs::write(server.workspace().join("a.txt"), "short\n").unwrap();

    let done = json!({ "role": "assistant", "content": "Done." });
    let list = json!([user_says("Go."), done, user_says("And now?")]);
    let second = turn(&upstream, &server, &list, &[]).await;
    let told = asked(&second);
    assert!(told.contains("hanged; read them again before you edit them:\n"), "{told}");
    assert!(told.contains("/a.txt\n</reminder>"), "{told}");
}

#[tokio::test]
async fn a_file_that_may_no_longer_be_read_is_only_named() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).free().file("a.txt", "one\n");
    let user = builder.home().join(".claude");
    let server = builder.start().await;
    let rule = json!({ "permissions": { "deny": ["Read(a.txt)"] } });
    let write = format!(
        "mkdir -p {user}; echo '{rule}' >{user}/settings.json; echo secret >a.txt",
        user = user.display()
    );

    let last =
        turn(&upstream, &server, &json!([user_says("Go.")]), &[read("a.txt"), bash(&write)]).await;

    let answers = answers_in(&last);
    assert!(answers[1].contains("hanged; read them again before you edit them:\n"), "{answers:?}");
    assert!(answers[1].contains("/a.txt\n</reminder>"), "{answers:?}");
    assert!(!answers[1].contains("secret"), "{answers:?}");
}

#[tokio::test]
async fn lines_of_an_answer_that_is_sent_no_more_are_shown_again() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("a.txt", "one\n").start().await;
    let done = |text: &str| json!({ "role": "assistant", "content": text });
    turn(&upstream, &server, &json!([user_says("Go.")]), &[read("a.txt")]).await;
    let all = json!([user_says("Go."), done("Done."), user_says("Again.")]);
    let second = turn(&upstream, &server, &all, &[read("a.txt"), bash("pwd")]).await;
    assert!(answers_in(&second)[1].contains("has not changed"), "{second}");

    let trimmed = json!([user_says("Again."), done("Done."), user_says("And now?")]);
    let third = turn(&upstream, &server, &trimmed, &[read("a.txt")]).await;

    assert_eq!(answers_in(&third).last().unwrap(), "     1\tone", "{third}");
}

#[tokio::test]
async fn a_file_that_a_plain_command_has_shown_can_be_edited() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).free();
    let files = ["a.txt", "b.txt", "c.txt", "d.txt"];
    let builder = files.iter().fold(builder, |builder, name| builder.file(name, "one\ntwo\n"));
    let server = builder.start().await;
    let edit = |name: &str| {
        ("c1", "Edit", json!({ "file_path": name, "old_string": "two", "new_string": "2" }))
    };
    let rounds = [
        bash("cat a.txt"),
        edit("a.txt"),
        bash("sed -n '1,2p' b.txt"),
        edit("b.txt"),
        bash("cat c.txt | head"),
        edit("c.txt"),
        bash("cat d.txt && env true"),
        edit("d.txt"),
        bash("head -n 0 d.txt"),
        edit("d.txt"),
    ];

    let answers = answers_in(&turn(&upstream, &server, &json!([user_says("Go.")]), &rounds).await);

    assert!(answers[1].starts_with("Edited ") && answers[3].starts_with("Edited "), "{answers:?}");
    assert!(answers[5].starts_with("Error: Must read file before editing"), "{answers:?}");
    assert!(answers[7].starts_with("Error: Must read file before editing"), "{answers:?}");
    assert!(answers[9].starts_with("Error: Must read file before editing"), "nothing was shown");
}

#[tokio::test]
async fn a_file_that_became_something_else_is_named() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).free().file("a.txt", "one\n").file("b.txt", "x\n");
    let server = builder.start().await;
    let replace = bash("rm a.txt b.txt; mkdir a.txt; mkfifo b.txt");
    let rounds = [read("a.txt"), read("b.txt"), replace, bash("env true")];

    let answers = answers_in(&turn(&upstream, &server, &json!([user_says("Go.")]), &rounds).await);

    assert!(answers[2].contains("hanged; read them again before you edit them:\n"), "{answers:?}");
    assert!(answers[2].contains("/a.txt\n") && answers[2].contains("/b.txt\n"), "{answers:?}");
    assert!(!answers[3].contains("<reminder>"), "told once: {answers:?}");
}
