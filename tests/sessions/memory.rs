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

#[tokio::test]
async fn a_client_that_sends_only_its_newest_message_may_edit_what_was_read() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").free().start().await;
    let client = server.client().header("x-toolhand-session", "mine");
    reads_and_says(&upstream, "Read.");
    client.chat(&conversation(&[user("Read.")])).await;
    let edit = json!({ "file_path": "notes.txt", "old_string": "needle", "new_string": "pin" });
    upstream
        .round(calls(&[("c2", "Edit", edit), ("c3", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(says("Edited."));

    client.chat(&conversation(&[user("Edit.")])).await;

    assert_eq!(server.file("notes.txt"), "pin\n");
    let seen = told(&upstream.request(3).await);
    assert!(seen.last().is_some_and(|line| line.contains("pin")), "{seen:?}");
}

/// More answers are the same than are compared one by one.
#[tokio::test]
async fn of_many_equal_answers_of_a_session_the_one_to_the_same_words_counts() {
    const TURNS: usize = 70;
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-conversation-id", "long");
    let mut list = Vec::new();
    for number in 0..TURNS {
        let arguments = json!({ "file_path": format!("file-{number}.txt") });
        upstream.round(calls(&[("c1", "Read", arguments)]));
        upstream.round(says("Done."));
        list.push(user(&format!("Read file {number}.")));
        client.chat(&conversation(&list)).await;
        list.push(assistant("Done."));
    }
    upstream.round(says("So."));
    list.truncate(6);
    list.push(user("And now?"));

    client.chat(&conversation(&list)).await;

    let seen = upstream.request(2 * TURNS).await.json().to_string();
    for number in 0..3 {
        assert!(seen.contains(&format!("file-{number}.txt")), "{seen}");
    }
    assert!(!seen.contains("file-69.txt"), "{seen}");
}

#[tokio::test]
async fn only_a_list_that_ends_with_our_own_text_asks_to_go_on_with_it() {
    let call = json!({ "id": "c9", "type": "function",
        "function": { "name": "Read", "arguments": "{}" } });
    let function = json!({ "name": "f", "arguments": "{}" });
    let tails: [Vec<serde_json::Value>; 3] = [
        vec![
            user("And f?"),
            json!({ "role": "assistant", "content": null, "function_call": function }),
            json!({ "role": "function", "name": "f", "content": "{\"temp\":20}" }),
        ],
        vec![
            user("Again."),
            json!({ "role": "assistant", "content": null, "tool_calls": [call.clone()] }),
        ],
        vec![json!({ "role": "assistant", "content": null, "tool_calls": [call] })],
    ];
    for tail in tails {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let client = server.client();
        upstream.round(says("The first answer."));
        client.chat(&conversation(&[user("First.")])).await;
        upstream.round(says("It is sunny."));
        let list = [vec![user("First."), assistant("The first answer.")], tail].concat();

        let answer = client.chat(&conversation(&list)).await;

        assert_eq!(answer.text(), "It is sunny.");
        let sent = upstream.request(1).await.json().to_string();
        assert!(!sent.contains("not finished"), "{sent}");
        let session = answer.header("x-toolhand-session").expect("a session");
        let path = format!("/toolhand/v1/sessions/{session}");
        let kept = server.client().get(&path).await.json();
        let newest = kept["messages"].as_array().and_then(|messages| messages.last());
        assert_eq!(newest.map(|message| &message["content"]), Some(&json!("It is sunny.")));
    }
}

/// Nested as deep as a parser takes it, a member could not be read again from the record.
#[tokio::test]
async fn a_deep_member_of_a_delta_does_not_spoil_the_record() {
    for depth in [90, 110, 124, 126, 140] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let client = server.client();
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let frame = format!(r#"{{"choices":[{{"index":0,"delta":{{"x_meta":{deep}}}}}]}}"#);
        let deep = crate::support::chunks::raw(format!("data: {frame}\n\n"));
        let read = calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]);
        upstream.round([vec![deep], read].concat());
        upstream.round(says("It says what I was looking for."));
        let mut list = vec![user("Read.")];
        let first = client.chat(&conversation(&list)).await;
        assert_eq!(first.text(), "It says what I was looking for.", "{depth}");
        list.extend([assistant(&first.text()), user("What was it?")]);
        upstream.round_of("other", says("Needle."));

        let answer = client.chat(&with(conversation(&list), json!({ "model": "other" }))).await;

        assert_eq!(answer.text(), "Needle.", "{depth}");
        let seen = told(&upstream.request(2).await);
        assert!(seen.iter().any(|line| line.contains("needle")), "{depth}: {seen:?}");
    }
}

#[tokio::test]
async fn a_server_that_has_the_history_tells_a_stopped_turn_once() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-toolhand-session", "mine");
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(vec![crate::support::chunks::gate("never")]);
    let stream = client.stream(&crate::support::client::ask_streamed("Read.")).await;
    upstream.reached("never").await;
    drop(stream);
    upstream.abandoned(1).await;
    upstream.round(says("Needle."));
    let body = with(
        conversation(&[user("Read."), user("Well?")]),
        json!({ "toolhand": { "history": "server" } }),
    );

    let answer = client.chat(&body).await;

    assert_eq!(answer.text(), "Needle.");
    let seen = told(&upstream.request(2).await);
    assert_eq!(seen.iter().filter(|line| line.contains("needle")).count(), 1, "{seen:?}");
}

#[tokio::test]
async fn a_server_that_has_the_history_has_the_instructions_too() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-toolhand-session", "mine");
    upstream.otherwise(says("Oui."));
    let system = |text: &str| json!({ "role": "system", "content": text });
    let server_history = json!({ "toolhand": { "history": "server" } });
    let say = async |list: &[serde_json::Value]| {
        client.chat(&with(conversation(list), server_history.clone())).await;
        let sent = upstream.requests().pop().expect("a request").json();
        let texts = sent["messages"].as_array().expect("messages").iter();
        let texts = texts.map(|message| message["content"].as_str().unwrap_or_default().to_owned());
        texts.collect::<Vec<_>>().join(" | ")
    };

    let first = say(&[system("ANSWER IN FRENCH."), user("One?")]).await;
    let second = say(&[user("Two?")]).await;
    let third = say(&[system("ANSWER IN DUTCH."), user("Three?")]).await;
    let fourth = say(&[user("Four?")]).await;

    assert!(first.ends_with("ANSWER IN FRENCH. | One?"), "{first}");
    assert_eq!(second, format!("{first} | Oui. | Two?"));
    assert!(
        !third.contains("FRENCH") && third.contains("ANSWER IN DUTCH. | One? | Oui."),
        "{third}"
    );
    assert_eq!(fourth, format!("{third} | Oui. | Four?"));
    upstream.forget_script();
}
