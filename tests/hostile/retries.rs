//! Tests requests that are sent again: an SDK's retry, and an `Idempotency-Key`.

use serde_json::{Value, json};

use crate::support::chunks::{calls, end, gate, says, text};
use crate::support::client::{Client, ask, ask_streamed};
use crate::support::server::Server;
use crate::support::upstream::{Step, Upstream};

/// A round whose command appends a line to a file each time it runs.
fn marks() -> Vec<Step> {
    calls(&[("c1", "Bash", json!({ "command": "echo ran >> marks" }))])
}

async fn start() -> (Upstream, Server) {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    (upstream, server)
}

fn retrying(server: &Server) -> Client {
    server.client().header("x-stainless-retry-count", "1")
}

fn half_said() -> Vec<Step> {
    [vec![text("It is "), gate("half"), text("done.")], end("stop")].concat()
}

#[tokio::test]
async fn v26_a_retry_while_tools_ran_joins_the_turn() {
    for body in [ask("Mark it."), ask_streamed("Mark it.")] {
        let (upstream, server) = start().await;
        upstream.round(marks());
        upstream.round(half_said());
        let client = server.client();
        let first = client.post("/v1/chat/completions", &body);
        let second = async {
            upstream.reached("half").await;
            let retry = retrying(&server);
            let third = retrying(&server).header("x-stainless-retry-count", "2");
            let opened = async { upstream.open("half") };
            let (second, third, ()) = tokio::join!(
                retry.post("/v1/chat/completions", &body),
                third.post("/v1/chat/completions", &body),
                opened,
            );
            (second, third)
        };

        let (first, (second, third)) = tokio::join!(first, second);

        for answer in [&first, &second, &third] {
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.header("x-toolhand-turn"), first.header("x-toolhand-turn"));
            assert!(String::from_utf8_lossy(&answer.body).contains("done."), "{answer:?}");
        }
        assert_eq!(server.file("marks"), "ran\n");
    }
}

#[tokio::test]
async fn v26_a_retry_hears_a_stream_from_its_beginning() {
    let (upstream, server) = start().await;
    upstream.round(marks());
    upstream.round(half_said());
    let body = ask_streamed("Mark it.");
    let mut first = server.client().stream(&body).await;
    assert_eq!(first.until_text().await, "It is ");

    let mut second = retrying(&server).stream(&body).await;
    assert_eq!(second.until_text().await, "It is ");
    drop(first);
    upstream.open("half");
    let second = second.finish().await;

    assert_eq!(second.text(), "It is done.");
    assert!(second.reasoning().contains("Bash"), "{second:?}");
    assert_eq!(server.file("marks"), "ran\n");
}

#[tokio::test]
async fn v26_a_retry_after_the_end_is_told_the_same_again() {
    for body in [ask("Mark it."), ask_streamed("Mark it.")] {
        let (upstream, server) = start().await;
        upstream.round(marks());
        upstream.round(says("Marked."));
        let first = server.client().post("/v1/chat/completions", &body).await;

        for _ in 0..2 {
            let again = retrying(&server).post("/v1/chat/completions", &body).await;
            assert_eq!((again.status(), shown(&again.body)), (200, shown(&first.body)));
        }
        assert_eq!(server.file("marks"), "ran\n");
    }
}

/// The text of an answer, streamed or not.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body).into_owned();
    let events = text.split("\n\n").map(|event| event.trim_start_matches("data: "));
    let choices = events.filter_map(|event| serde_json::from_str::<Value>(event).ok());
    choices
        .map(|chunk| {
            let choice = &chunk["choices"][0];
            let content = choice["delta"]["content"].as_str();
            content.or(choice["message"]["content"].as_str()).unwrap_or_default().to_owned()
        })
        .collect()
}

#[tokio::test]
async fn v26_a_failure_after_tools_ran_is_told_again() {
    let (upstream, server) = start().await;
    upstream.round(marks());
    upstream.round(vec![text("It is "), Step::Close]);
    let first = server.client().chat(&ask("Mark it.")).await;
    assert_eq!(first.refusal(), (400, "stream_died".to_owned()));
    assert_eq!(first.header("x-should-retry"), Some("false"));

    let again = retrying(&server).chat(&ask("Mark it.")).await;

    assert_eq!(again.refusal(), first.refusal());
    assert_eq!(again.header("x-should-retry"), Some("false"));
    assert_eq!(server.file("marks"), "ran\n");
}

#[tokio::test]
async fn v26_what_its_client_left_after_tools_ran_is_cancelled() {
    let (upstream, server) = start().await;
    upstream.round(marks());
    upstream.round(half_said());
    let mut first = server.client().stream(&ask_streamed("Mark it.")).await;
    first.until_text().await;
    drop(first);
    upstream.abandoned(1).await;

    for _ in 0..2 {
        let again = retrying(&server).chat(&ask_streamed("Mark it.")).await;
        assert_eq!(again.refusal(), (409, "cancelled".to_owned()));
        assert_eq!(again.header("x-should-retry"), Some("false"));
    }
    assert_eq!(server.file("marks"), "ran\n");
}

#[tokio::test]
async fn v26_a_retry_of_what_ran_no_tool_runs_anew() {
    let (upstream, server) = start().await;
    // The turn has failed.
    upstream.round(vec![Step::Close]);
    upstream.round(vec![Step::Close]);
    upstream.round(vec![Step::Close]);
    assert_eq!(server.client().chat(&ask("Hi")).await.status(), 502);
    upstream.round(says("Second."));
    assert_eq!(retrying(&server).chat(&ask("Hi")).await.text(), "Second.");

    // Its client has left; and of two simultaneous retries, one begins the turn.
    upstream.round(vec![text("I begin "), gate("never")]);
    let mut left = server.client().stream(&ask_streamed("Hi")).await;
    left.until_text().await;
    drop(left);
    upstream.abandoned(4).await;
    upstream.round(half_said());
    let body = ask_streamed("Hi");
    let (client, other) = (retrying(&server), retrying(&server));
    let mut one = client.stream(&body).await;
    one.until_text().await;
    let mut two = other.stream(&body).await;
    two.until_text().await;
    upstream.open("half");
    assert_eq!(one.finish().await.text(), "It is done.");
    assert_eq!(two.finish().await.text(), "It is done.");
}

#[tokio::test]
async fn v26_only_a_retry_of_the_same_bytes_is_one() {
    let (upstream, server) = start().await;
    upstream.round(marks());
    upstream.round(says("First."));
    let body = ask("Mark it.").to_string();
    let send = |client: Client, body: String| async move {
        client.send("POST", "/v1/chat/completions", Some(body.as_bytes())).await.text()
    };
    assert_eq!(send(server.client(), body.clone()).await, "First.");

    let zero = server.client().header("x-stainless-retry-count", "0");
    let none = server.client().header("x-stainless-retry-count", "no");
    let plan = retrying(&server).header("x-toolhand-mode", "plan");
    let others = [(server.client(), &*body), (zero, &body), (none, &body), (plan, &body)];
    for (number, (client, body)) in others.into_iter().enumerate() {
        upstream.round(says(&format!("Anew {number}.")));
        assert_eq!(send(client, body.to_owned()).await, format!("Anew {number}."));
    }
    upstream.round(says("Another."));
    assert_eq!(send(retrying(&server), format!("{body} ")).await, "Another.");

    // The last turn with this body ran no tool, so a retry starts anew.
    upstream.round(says("Anew."));
    assert_eq!(send(retrying(&server), body).await, "Anew.");
}

#[tokio::test]
async fn an_idempotency_key_names_a_request() {
    let (upstream, server) = start().await;
    let named = server.client().header("idempotency-key", "mine-1");
    upstream.round(says("Once."));

    let first = named.chat(&ask("Hi")).await;
    let again = named.chat(&ask("Hi")).await;
    let other = named.chat(&ask("Hello")).await;

    assert_eq!((first.text(), again.text()), ("Once.".to_owned(), "Once.".to_owned()));
    assert_eq!(other.refusal(), (422, "idempotency_mismatch".to_owned()));
    upstream.round(says("Twice."));
    let another = server.client().header("idempotency-key", "mine-2");
    assert_eq!(another.chat(&ask("Hi")).await.text(), "Twice.");
}

#[tokio::test]
async fn two_requests_of_one_name_at_once_are_one_turn() {
    let (upstream, server) = start().await;
    let named = server.client().header("idempotency-key", "mine-1");
    upstream.round(half_said());
    upstream.open("half");

    let body = ask("Hi");
    let (one, two) = tokio::join!(named.chat(&body), named.chat(&body));

    assert_eq!((one.text(), two.text()), ("It is done.".to_owned(), "It is done.".to_owned()));
}
