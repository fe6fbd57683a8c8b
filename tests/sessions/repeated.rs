//! Requests that are sent again: by an SDK, under an `Idempotency-Key`, across a restart.

use serde_json::{Value, json};

use super::frontends::{builder, last_told, reads, reads_and_says, server};
use super::{after, assistant, conversation, user};
use crate::support::chunks::{calls, end, gate, says, text};
use crate::support::client::{Answer, Client, with};
use crate::support::server::Server;
use crate::support::upstream::{Step, Upstream};

const CHAT: &str = "/v1/chat/completions";

fn marks() -> Vec<Step> {
    calls(&[("c1", "Bash", json!({ "command": "echo ran >> marks" }))])
}

fn named(server: &Server, key: &str) -> Client {
    server.client().header("idempotency-key", key)
}

async fn with_chat_header(upstream: &Upstream) -> Server {
    builder(upstream).config("sessions.id_headers", r#"["X-Chat"]"#).start().await
}

fn streamed(messages: &[Value]) -> Value {
    with(conversation(messages), json!({ "stream": true }))
}

/// The message of an answer, streamed or not, joined as an SDK does.
fn shown(answer: &Answer) -> (u16, String, Vec<String>) {
    let body = String::from_utf8(answer.body.clone()).expect("UTF-8");
    let (mut text, mut calls) = (String::new(), Vec::new());
    let events = body.lines().map(|line| line.trim_start_matches("data: "));
    for chunk in events.filter_map(|event| serde_json::from_str::<Value>(event).ok()) {
        let choice = &chunk["choices"][0];
        for part in [&choice["delta"], &choice["message"]] {
            text += part["content"].as_str().unwrap_or_default();
            let own = part["tool_calls"].as_array().into_iter().flatten();
            calls.extend(own.filter_map(|call| call["id"].as_str().map(str::to_owned)));
        }
    }
    (answer.status(), text, calls)
}

#[tokio::test]
async fn v26_an_idempotency_key_holds_across_a_restart_in_every_form() {
    for body in [conversation(&[user("Mark.")]), streamed(&[user("Mark.")])] {
        let upstream = Upstream::start();
        let mut gone = builder(&upstream).free().start().await;
        upstream.round(marks());
        upstream.round(says("Marked."));
        let first = named(&gone, "k-1").post(CHAT, &body).await;
        gone.stop();
        let server = after(&upstream, &gone).free().start().await;

        for _ in 0..2 {
            let again = named(&server, "k-1").post(CHAT, &body).await;
            assert_eq!(shown(&again), shown(&first));
            assert_eq!(again.header("x-toolhand-turn"), first.header("x-toolhand-turn"));
            assert_eq!(again.header("x-toolhand-session"), first.header("x-toolhand-session"));
        }
        let retry = server.client().header("x-stainless-retry-count", "1");
        assert_eq!(shown(&retry.post(CHAT, &body).await), shown(&first));
        let other = named(&server, "k-1").chat(&conversation(&[user("Mark it.")])).await;
        assert_eq!(other.refusal(), (422, "idempotency_mismatch".to_owned()));
        assert_eq!(gone.file("marks"), "ran\n");
        assert_eq!(upstream.requests().len(), 2);
    }
}

#[tokio::test]
async fn v26_an_idempotency_key_is_of_one_session() {
    let upstream = Upstream::start();
    let server = with_chat_header(&upstream).await;
    let body = conversation(&[user("Hi")]);
    let headers = [
        "x-toolhand-session",
        "x-openwebui-chat-id",
        "x-conversation-id",
        "chatui-conversation-id",
        "x-opencode-session",
        "x-chat",
    ];
    for header in headers {
        upstream.round(says("Hello."));
        let key = format!("key of {header}");
        let of = |chat: &str| named(&server, &key).header(header, chat);
        assert_eq!(of("one").chat(&body).await.text(), "Hello.");
        assert_eq!(of("one").chat(&body).await.text(), "Hello.");
        let other = of("other").chat(&body).await;
        assert_eq!(other.refusal(), (422, "idempotency_mismatch".to_owned()), "{header}");
    }
    // The same key of another client is another.
    let key = crate::settings::client_keys::add(&server, &["other"]);
    upstream.round(says("I am another."));
    let other =
        Client::new(server.address(), &key).header("idempotency-key", "key of x-conversation-id");
    assert_eq!(other.chat(&body).await.text(), "I am another.");
}

#[tokio::test]
async fn v26_a_retry_under_another_chat_id_is_another_request() {
    let upstream = Upstream::start();
    let server = with_chat_header(&upstream).await;
    let body = conversation(&[user("Hi")]);
    for header in ["x-conversation-id", "x-chat"] {
        reads_and_says(&upstream, "Hello.");
        reads_and_says(&upstream, "I am another.");
        let client = server.client().header("x-stainless-retry-count", "1");
        let of = |chat: &str| client.clone().header(header, &format!("{chat} of {header}"));
        assert_eq!(of("one").chat(&body).await.text(), "Hello.");
        assert_eq!(of("one").chat(&body).await.text(), "Hello.");
        assert_eq!(of("other").chat(&body).await.text(), "I am another.");
    }
}

#[tokio::test]
async fn v26_a_running_turn_is_joined_by_its_key_and_by_a_retry_of_a_named_session() {
    let upstream = Upstream::start();
    let server = builder(&upstream).free().start().await;
    upstream.round(marks());
    upstream.round([vec![text("It is "), gate("half"), text("done.")], end("stop")].concat());
    let body = streamed(&[user("Mark.")]);
    let client = named(&server, "k-1").header("x-toolhand-session", "mine");
    let mut first = client.stream(&body).await;
    first.until_text().await;

    let mut second = client.clone().header("x-stainless-retry-count", "1").stream(&body).await;
    second.until_text().await;
    upstream.open("half");

    assert_eq!(first.finish().await.text(), "It is done.");
    assert_eq!(second.finish().await.text(), "It is done.");
    assert_eq!(server.file("marks"), "ran\n");
}

#[tokio::test]
async fn v26_a_mixed_turn_is_told_again_with_its_calls_and_resumed_once() {
    for is_streamed in [false, true] {
        let upstream = Upstream::start();
        let mut gone = builder(&upstream).free().start().await;
        let body = |list: &[Value]| {
            let body = with(conversation(list), super::mixed::weather());
            with(body, json!({ "stream": is_streamed }))
        };
        upstream.round(calls(&[
            ("w1", "weather", json!({ "city": "Lyon" })),
            ("c1", "Bash", json!({ "command": "echo ran >> marks" })),
        ]));
        let ask = body(&[user("Go.")]);
        let first = named(&gone, "k-1").post(CHAT, &ask).await;
        assert_eq!(shown(&first).2, ["w1"]);
        assert_eq!(shown(&named(&gone, "k-1").post(CHAT, &ask).await), shown(&first));
        upstream.round(says("All known."));
        let function = json!({ "name": "weather", "arguments": "{\"city\":\"Lyon\"}" });
        let call = json!({ "id": "w1", "type": "function", "function": function });
        let message = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
        let answer = json!({ "role": "tool", "tool_call_id": "w1", "content": "sun" });
        let on = body(&[user("Go."), message, answer]);
        let second = named(&gone, "k-2").post(CHAT, &on).await;
        assert_eq!(shown(&second).1, "All known.");
        gone.stop();
        let server = after(&upstream, &gone).free().start().await;

        assert_eq!(shown(&named(&server, "k-1").post(CHAT, &ask).await), shown(&first));
        assert_eq!(shown(&named(&server, "k-2").post(CHAT, &on).await), shown(&second));
        assert_eq!(gone.file("marks"), "ran\n");
        assert_eq!(upstream.requests().len(), 2);
    }
}

#[tokio::test]
async fn v26_a_suspended_turn_is_told_again_with_the_same_question() {
    let upstream = Upstream::start();
    let mut gone = server(&upstream).await;
    let write = json!({ "file_path": "new.txt", "content": "new\n" });
    upstream.round(calls(&[("c1", "Write", write)]));
    let ask = conversation(&[user("Write.")]);
    let first = named(&gone, "k-1").chat(&ask).await;
    assert_eq!(named(&gone, "k-1").chat(&ask).await.text(), first.text());
    gone.stop();
    let server = after(&upstream, &gone).start().await;
    assert_eq!(named(&server, "k-1").chat(&ask).await.text(), first.text());
    let open = server.client().get("/toolhand/v1/approvals").await.json();
    assert_eq!(open["data"].as_array().map(Vec::len), Some(1), "it is asked once");
    upstream.round(says("Written."));
    let reply = conversation(&[user("Write."), assistant(&first.text()), user("1")]);

    let bodies = (named(&server, "k-2"), named(&server, "k-2"));
    let (one, two) = tokio::join!(bodies.0.chat(&reply), bodies.1.chat(&reply));

    assert_eq!((one.text(), two.text()), ("Written.".to_owned(), "Written.".to_owned()));
    assert_eq!(gone.file("new.txt"), "new\n");
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn v26_a_failed_turn_is_told_again_across_a_restart_only_if_tools_ran() {
    let upstream = Upstream::start();
    let mut gone = builder(&upstream).free().start().await;
    let body = conversation(&[user("Mark.")]);
    upstream.round(marks());
    upstream.round(vec![text("It is "), Step::Close]);
    let first = named(&gone, "ran").chat(&body).await;
    assert_eq!(first.refusal(), (400, "stream_died".to_owned()));
    for _ in 0..3 {
        upstream.round(vec![Step::Close]);
    }
    let other = conversation(&[user("Say.")]);
    assert_eq!(named(&gone, "did not").chat(&other).await.status(), 502);
    gone.stop();
    let server = after(&upstream, &gone).free().start().await;
    upstream.round(says("Said."));

    let again = named(&server, "ran").chat(&body).await;
    assert_eq!(again.refusal(), first.refusal());
    assert_eq!(again.header("x-should-retry"), Some("false"));
    assert_eq!(named(&server, "did not").chat(&other).await.text(), "Said.");
    assert_eq!(gone.file("marks"), "ran\n");
}

/// The first turn takes longer than a request waits for it: 10 seconds.
#[tokio::test]
async fn v27_a_named_session_that_stays_busy_is_refused_and_may_be_asked_again() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    upstream.round([vec![text("One"), gate("end")], end("stop")].concat());
    let client = server.client().header("x-toolhand-session", "busy");
    let mut stream = client.stream(&streamed(&[user("One?")])).await;
    stream.until_text().await;

    let two = conversation(&[user("Two?")]);
    let refused = client.chat(&two).await;
    assert_eq!(refused.refusal(), (409, "session_busy".to_owned()));
    assert_eq!(refused.header("x-should-retry"), Some("true"));
    assert_eq!(upstream.requests().len(), 1, "nothing was interleaved");
    upstream.open("end");
    stream.finish().await;
    upstream.round(says("Two."));
    let retry = client.header("x-stainless-retry-count", "1");
    assert_eq!(retry.chat(&two).await.text(), "Two.");
}

/// By content address, a second request forks from the point that its messages name.
#[tokio::test]
async fn v27_a_second_request_without_an_id_forks_and_knows_what_happened() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    upstream.round(reads());
    upstream.round(says("It says needle."));
    let first = client.chat(&conversation(&[user("Read.")])).await;
    let list = |text: &str| vec![user("Read."), assistant("It says needle."), user(text)];
    upstream.round([vec![text("One"), gate("end")], end("stop")].concat());
    let mut stream = client.stream(&streamed(&list("One?"))).await;
    stream.until_text().await;
    upstream.round(says("Two."));

    let second = client.chat(&conversation(&list("Two?"))).await;

    assert_eq!(second.text(), "Two.");
    assert!(last_told(&upstream)[2].contains("needle"));
    assert_ne!(second.header("x-toolhand-session"), first.header("x-toolhand-session"));
    upstream.open("end");
    stream.finish().await;
    // Each branch goes on in its own session.
    for (said, asked) in [("One", "One?"), ("Two.", "Two?")] {
        upstream.round(says("So."));
        let more = [list(asked), vec![assistant(said), user("And?")]].concat();
        client.chat(&conversation(&more)).await;
        let told = last_told(&upstream);
        assert!(told[2].contains("needle") && told.len() == 7, "{told:?}");
    }
}

#[tokio::test]
async fn v26_messages_that_were_asked_for_are_told_again_after_a_restart() {
    let upstream = Upstream::start();
    let mut gone = server(&upstream).await;
    reads_and_says(&upstream, "It says needle.");
    let body =
        with(conversation(&[user("Read.")]), json!({ "toolhand": { "include": ["messages"] } }));
    let first = named(&gone, "k-1").chat(&body).await.json();
    assert_eq!(first["toolhand"]["messages"].as_array().map(Vec::len), Some(3), "{first}");
    gone.stop();
    let server = after(&upstream, &gone).start().await;

    let again = named(&server, "k-1").chat(&body).await.json();

    assert_eq!(again["toolhand"]["messages"], first["toolhand"]["messages"]);
}
