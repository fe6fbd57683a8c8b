//! A client that sends back only what it sees still has the model see what really happened.

use serde_json::json;

use super::{after, assert_goes_on, assistant, conversation, told, user};
use crate::support::chunks::{calls, says};
use crate::support::client::with;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// Scripts a turn that reads `notes.txt` and says `answer`.
fn reads_and_says(upstream: &Upstream, answer: &str) {
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(says(answer));
}

async fn server(upstream: &Upstream) -> Server {
    Server::builder(upstream).file("notes.txt", "needle\n").start().await
}

#[tokio::test]
async fn earlier_tool_results_come_back_for_a_client_that_never_saw_them() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    reads_and_says(&upstream, "The file says needle.");
    upstream.round(says("It was needle."));
    upstream.round(says("Bye."));
    let client = server.client();

    let first = client.chat(&conversation(&[user("Read my notes.")])).await;
    assert_eq!(first.text(), "The file says needle.");
    let messages =
        [user("Read my notes."), assistant("The file says needle."), user("What was it?")];
    let second = client.chat(&conversation(&messages)).await;
    assert_eq!(second.text(), "It was needle.");
    let messages = [&messages[..], &[assistant("It was needle."), user("Bye")]].concat();
    client.chat(&conversation(&messages)).await;

    let [one, two, three, four] = &upstream.requests()[..] else { panic!("four requests") };
    assert_goes_on(one, two);
    assert_goes_on(two, three);
    assert_goes_on(three, four);
    let told = told(three);
    assert_eq!(told[1], "assistant: Read");
    assert!(told[2].starts_with("tool: ") && told[2].contains("needle"), "{told:?}");
    assert_eq!(told[3..], ["assistant: The file says needle.", "user: What was it?"]);
    assert_eq!(first.header("x-toolhand-session"), second.header("x-toolhand-session"));
}

#[tokio::test]
async fn white_space_and_splitting_do_not_matter() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    reads_and_says(&upstream, "The file\n\nsays needle,\tand more.");
    upstream.round(says("Yes."));
    let client = server.client();
    client.chat(&conversation(&[user("Read my notes.")])).await;

    let split = [
        user("Read  my notes. "),
        assistant("The file says"),
        assistant(" needle, and more.\n"),
        user("Sure?"),
    ];
    client.chat(&conversation(&split)).await;

    let told = told(&upstream.request(2).await);
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!(told[3], "assistant: The file\n\nsays needle,\tand more.");
}

#[tokio::test]
async fn a_first_user_message_finds_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    reads_and_says(&upstream, "The file says needle.");
    upstream.round(says("Hello."));
    let client = server.client();

    let one = client.chat(&conversation(&[user("Read my notes.")])).await;
    let two = client.chat(&conversation(&[user("Read my notes.")])).await;

    assert_eq!(told(&upstream.request(2).await), ["user: Read my notes."]);
    assert_ne!(one.header("x-toolhand-session"), two.header("x-toolhand-session"));
}

#[tokio::test]
async fn an_answer_that_was_edited_is_taken_as_the_client_sent_it() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    reads_and_says(&upstream, "The file says needle.");
    upstream.round(says("As you say."));
    let client = server.client();
    client.chat(&conversation(&[user("Read my notes.")])).await;

    let edited = [user("Read my notes."), assistant("The file says haystack."), user("Sure?")];
    client.chat(&conversation(&edited)).await;

    let expected = ["user: Read my notes.", "assistant: The file says haystack.", "user: Sure?"];
    assert_eq!(told(&upstream.request(2).await), expected);
}

#[tokio::test]
async fn branches_and_regenerated_answers_fork() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    reads_and_says(&upstream, "The file says needle.");
    for answer in ["Left it is.", "Right it is.", "Left again."] {
        upstream.round(says(answer));
    }
    upstream.round(says("Done."));
    let client = server.client();
    let start = [user("Read my notes."), assistant("The file says needle.")];
    let branch = |more: &[serde_json::Value]| conversation(&[&start[..], more].concat());
    client.chat(&conversation(&start[..1])).await;
    client.chat(&branch(&[user("Left?")])).await;
    client.chat(&branch(&[user("Right?")])).await;
    client.chat(&branch(&[user("Left?")])).await;

    client.chat(&branch(&[user("Right?"), assistant("Right it is."), user("And?")])).await;

    let requests = upstream.requests();
    let told = told(&requests[5]);
    assert_eq!(told[4..], ["user: Right?", "assistant: Right it is.", "user: And?"]);
    assert_goes_on(&requests[3], &requests[5]);
}

#[tokio::test]
async fn the_whole_transcript_is_found_by_the_servers_own_id() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    reads_and_says(&upstream, "Needle.");
    upstream.round(says("It was needle."));
    let client = server.client();
    let first = client.chat(&conversation(&[user("Read my notes.")])).await;
    let session = first.header("x-toolhand-session").expect("a session").to_owned();

    let members = json!({ "toolhand": { "session": session, "history": "server" } });
    let second = client.chat(&with(conversation(&[user("What was it?")]), members)).await;

    assert_eq!(second.text(), "It was needle.");
    let [_, two, three] = &upstream.requests()[..] else { panic!("three requests") };
    assert_goes_on(two, three);
    let told = told(three);
    assert_eq!(told[3..], ["assistant: Needle.", "user: What was it?"]);
    assert_eq!(second.header("x-toolhand-session"), Some(session.as_str()));
}

#[tokio::test]
async fn the_working_directory_is_as_it_was_after_the_answer_that_the_request_goes_on_from() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).free();
    let server = builder.file("inner/here.txt", "inner\n").start().await;
    let bash = |command: &str| calls(&[("c1", "Bash", json!({ "command": command }))]);
    upstream.round(bash("cd inner"));
    upstream.round(says("I am in the inner directory now."));
    upstream.round(bash("pwd"));
    upstream.round(says("Still there."));
    upstream.round(bash("pwd"));
    upstream.round(says("A new start."));
    let client = server.client();
    client.chat(&conversation(&[user("Go in.")])).await;
    let on = [user("Go in."), assistant("I am in the inner directory now."), user("Where?")];
    client.chat(&conversation(&on)).await;
    client.chat(&conversation(&[user("Where are you?")])).await;

    let answers = crate::turn::answers(&upstream, 3).await;
    assert!(answers[1].trim_end().ends_with("/inner"), "{answers:?}");
    let answers = crate::turn::answers(&upstream, 5).await;
    assert!(answers[0].trim_end().ends_with("/workspace"), "{answers:?}");
}

#[tokio::test]
async fn what_was_read_is_known_to_the_next_turn() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().file("notes.txt", "needle\n").start().await;
    reads_and_says(&upstream, "The file says needle.");
    let edit = json!({ "file_path": "notes.txt", "old_string": "needle", "new_string": "thread" });
    upstream.round(calls(&[("c2", "Edit", edit)]));
    upstream.round(says("Changed."));
    let client = server.client();
    client.chat(&conversation(&[user("Read my notes.")])).await;

    let messages = [user("Read my notes."), assistant("The file says needle."), user("Change it.")];
    client.chat(&conversation(&messages)).await;

    assert_eq!(server.file("notes.txt"), "thread\n");
}

#[tokio::test]
async fn v25_a_background_call_writes_no_session() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    upstream.round(crate::support::chunks::status(
        200,
        &crate::support::chunks::whole(
            &json!({ "role": "assistant", "content": "A title" }),
            "stop",
        ),
    ));
    let body =
        with(conversation(&[user("### Task:\nGenerate a title.")]), json!({ "stream": false }));
    let client = server.client();

    assert_eq!(client.chat(&body).await.text(), "A title");

    let sessions = client.get("/toolhand/v1/sessions").await.json();
    assert_eq!(sessions["data"], json!([]));
}

/// What is loaded of a conversation counts as memory of the request.
#[tokio::test]
async fn d11_a_session_that_does_not_fit_into_memory_is_refused_and_the_others_go_on() {
    let upstream = Upstream::start();
    let mut first = Server::builder(&upstream).config("limits.buffers", r#""16MiB""#).start().await;
    let large = "x".repeat(1 << 20);
    for number in 0..8 {
        upstream.round(says("Yes."));
        let client = first.client().header("x-conversation-id", "large");
        let list = conversation(&[user(&format!("{number} {large}"))]);
        assert_eq!(client.chat(&list).await.status(), 200);
    }
    first.stop();
    let server = after(&upstream, &first).config("limits.buffers", r#""16MiB""#).start().await;
    let chat = |name: &str| server.client().header("x-conversation-id", name);

    for _ in 0..2 {
        let refused = chat("large").chat(&conversation(&[user("And now?")])).await;
        assert_eq!(refused.refusal(), (503, "overloaded".to_owned()));
        upstream.round(says("Of course."));
        let other = chat("small").chat(&conversation(&[user("Do you still answer?")])).await;
        assert_eq!(other.text(), "Of course.");
    }
    let export = server.client().get("/toolhand/v1/sessions/large").await;
    assert_eq!(export.status(), 503, "{export:?}");
}
