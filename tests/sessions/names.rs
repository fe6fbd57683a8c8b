//! Sessions by name: the client's own, and those of frontends.

use serde_json::json;

use super::mixed::weather;
use super::{assistant, conversation, told, user};
use crate::support::chunks::{calls, gate, says};
use crate::support::client::{ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

fn named(name: &str) -> serde_json::Value {
    json!({ "toolhand": { "session": name } })
}

async fn server(upstream: &Upstream) -> Server {
    Server::builder(upstream).file("notes.txt", "needle\n").start().await
}

fn reads_and_says(upstream: &Upstream, answer: &str) {
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(says(answer));
}

#[tokio::test]
async fn x3_a_clients_name_is_echoed_and_leads_to_its_session() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    reads_and_says(&upstream, "Ok.");
    upstream.round(says("Needle."));
    let client = server.client();
    let first = client.chat(&with(conversation(&[user("Read.")]), named("my chat"))).await;
    assert_eq!(first.header("x-toolhand-session"), Some("my chat"));
    assert_eq!(first.json()["toolhand"]["session"], "my chat");

    // The client has dropped its oldest messages.
    let messages = [assistant("Ok."), user("What was it?")];
    client.chat(&with(conversation(&messages), named("my chat"))).await;

    let told = told(&upstream.request(2).await);
    assert!(told.iter().any(|line| line.contains("needle")), "{told:?}");
}

#[tokio::test]
async fn names_that_cannot_be_are_refused_and_those_of_frontends_are_none() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    for bad in ["", &"x".repeat(129), "tab\tbed", "ünïcode", "new\nline"] {
        let answer = client.chat(&with(conversation(&[user("Hi")]), named(bad))).await;
        assert_eq!(answer.refusal(), (400, "invalid_value".to_owned()), "{bad:?}");
    }
    let long = "x".repeat(10_000);
    for (header, id) in [
        ("x-openwebui-chat-id", "temporary:abc"),
        ("x-openwebui-chat-id", "local:1"),
        ("x-openwebui-chat-id", "channel:7"),
        ("x-openwebui-chat-id", long.as_str()),
    ] {
        upstream.round(says("Hi."));
        let answer = client.clone().header(header, id).chat(&conversation(&[user("Hi")])).await;
        let session = answer.header("x-toolhand-session").expect("a session");
        assert!(session.starts_with("sess_"), "{session}");
    }
}

#[tokio::test]
async fn a_chat_of_a_frontend_is_one_session_a_model() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-openwebui-chat-id", "chat-1");
    for _ in 0..3 {
        upstream.round(says("Hello."));
    }
    let of = |model: &str| with(conversation(&[user("Hi")]), json!({ "model": model }));
    client.chat(&of("scripted")).await;
    client.chat(&of("other")).await;
    client.chat(&of("scripted")).await;

    let sessions = server.client().get("/toolhand/v1/sessions").await.json();
    let listed = sessions["data"].as_array().expect("sessions");
    let listed: Vec<_> = listed
        .iter()
        .map(|one| (one["name"].as_str(), one["model"].as_str(), one["turns"].as_u64()))
        .collect();
    assert_eq!(
        listed,
        [(Some("chat-1"), Some("scripted"), Some(2)), (Some("chat-1"), Some("other"), Some(1))]
    );
}

#[tokio::test]
async fn v27_a_second_request_of_a_named_session_waits_and_then_is_refused() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    upstream.round(
        [
            vec![crate::support::chunks::text("One"), gate("end")],
            crate::support::chunks::end("stop"),
        ]
        .concat(),
    );
    let client = server.client();
    let mut stream = client.stream(&with(ask_streamed("One?"), named("busy"))).await;
    stream.until_text().await;
    upstream.round(says("Two."));

    let two = with(conversation(&[user("Two?")]), named("busy"));
    let first = async {
        upstream.open("end");
        stream.finish().await
    };
    let (second, _) = futures::join!(client.chat(&two), first);

    assert_eq!(second.text(), "Two.");
}

#[tokio::test]
async fn v27_a_second_request_of_a_frontends_chat_forks() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    upstream.round(
        [
            vec![crate::support::chunks::text("One"), gate("end")],
            crate::support::chunks::end("stop"),
        ]
        .concat(),
    );
    let client = server.client().header("x-openwebui-chat-id", "chat-1");
    let mut stream = client.stream(&ask_streamed("One?")).await;
    stream.until_text().await;
    upstream.round(says("Two."));

    let second = client.chat(&conversation(&[user("Two?")])).await;

    assert_eq!(second.text(), "Two.");
    upstream.open("end");
    stream.finish().await;
}

/// The fork is a session of its own, which the chat goes on from.
#[tokio::test]
async fn a_chat_goes_on_from_what_its_fork_did_and_asked() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .file("notes.txt", "needle\n")
        .argument("--sandbox=off")
        .start()
        .await;
    let client = server.client().header("x-openwebui-chat-id", "chat-1");
    let running = [
        vec![crate::support::chunks::text("One"), gate("end")],
        crate::support::chunks::end("stop"),
    ];
    upstream.round(running.concat());
    let mut stream = client.stream(&ask_streamed("One?")).await;
    stream.until_text().await;
    reads_and_says(&upstream, "It says what I was looking for.");
    client.chat(&conversation(&[user("Read.")])).await;
    upstream.open("end");
    stream.finish().await;

    let write = json!({ "file_path": "new.txt", "content": "new\n" });
    upstream.round(calls(&[("c2", "Write", write)]));
    let mut list =
        vec![user("Read."), assistant("It says what I was looking for."), user("Write.")];
    let question = client.chat(&conversation(&list)).await.text();

    let seen = told(&upstream.request(3).await);
    assert!(seen.iter().any(|line| line.contains("needle")), "{seen:?}");
    upstream.round(says("Written."));
    list.extend([assistant(&question), user("1")]);
    assert_eq!(client.chat(&conversation(&list)).await.text(), "Written.");
    assert_eq!(server.file("new.txt"), "new\n");
}

#[tokio::test]
async fn a_chat_that_changes_its_model_back_knows_what_the_other_did() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-openwebui-chat-id", "chat-1");
    let of = |model: &str, list: &[serde_json::Value]| {
        with(conversation(list), json!({ "model": model }))
    };
    upstream.round(says("Hello."));
    let mut list = vec![user("Hi.")];
    client.chat(&of("scripted", &list)).await;
    reads_and_says(&upstream, "It says what I was looking for.");
    list.extend([assistant("Hello."), user("Read.")]);
    client.chat(&of("other", &list)).await;
    upstream.round(says("Needle."));
    list.extend([assistant("It says what I was looking for."), user("What was it?")]);

    client.chat(&of("scripted", &list)).await;

    let seen = told(&upstream.request(3).await);
    assert!(seen.iter().any(|line| line.contains("needle")), "{seen:?}");
}

/// Models count their calls anew, so the ids alone say nothing.
#[tokio::test]
async fn a_result_joins_the_round_of_its_own_column() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .file("one.txt", "first needle\n")
        .file("two.txt", "second needle\n")
        .start()
        .await;
    let client = server.client().header("x-openwebui-chat-id", "chat-1");
    let body = |list: &[serde_json::Value]| with(conversation(list), weather());
    let round = |file: &str, city: &str| {
        calls(&[
            ("r", "Read", json!({ "file_path": file })),
            ("call_1", "weather", json!({ "city": city })),
        ])
    };
    upstream.round([vec![gate("go")], round("one.txt", "Oslo")].concat());
    let one = body(&[user("One?")]);
    let both = async {
        upstream.reached("go").await;
        upstream.round(round("two.txt", "Bonn"));
        let two = client.chat(&body(&[user("Two?")])).await;
        upstream.open("go");
        two.json()["choices"][0]["message"].clone()
    };
    let (_, message) = futures::join!(client.chat(&one), both);
    upstream.round(says("All known."));
    let result = json!({ "role": "tool", "tool_call_id": "call_1", "content": "sun" });

    client.chat(&body(&[user("Two?"), message, result])).await;

    let seen = told(&upstream.request(2).await).join("\n");
    assert!(seen.contains("second needle") && !seen.contains("first needle"), "{seen}");
}

/// A chat id is an explicit one, so it leads to its other models without the content address.
#[tokio::test]
async fn a_chat_knows_its_other_models_also_without_the_content_address() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .file("notes.txt", "needle\n")
        .config("sessions.content_address", "false")
        .start()
        .await;
    let chat = |id: &str| server.client().header("x-openwebui-chat-id", id);
    reads_and_says(&upstream, "It says what I was looking for.");
    chat("one").chat(&conversation(&[user("Read.")])).await;
    let list = [user("Read."), assistant("It says what I was looking for."), user("What was it?")];
    let of_other = with(conversation(&list), json!({ "model": "other" }));
    for (id, knows) in [("one", true), ("two", false)] {
        upstream.round(says("Needle."));
        chat(id).chat(&of_other).await;
        let sent = upstream.requests().pop().expect("a request");
        let seen = told(&sent);
        assert_eq!(seen.iter().any(|line| line.contains("needle")), knows, "{id}: {seen:?}");
    }
}
