//! Tests turns that outlive their connection: who looks on, from where, and who stops them.

use serde_json::{Value, json};

use crate::support::chunks::{calls, end, gate, says, text};
use crate::support::client::{Answer, Client, ask, ask_streamed};
use crate::support::http::Framing;
use crate::support::server::Server;
use crate::support::upstream::{Step, Upstream};
use crate::support::watch;

/// A server whose turns go on for an hour without a client.
async fn patient(upstream: &Upstream) -> Server {
    Server::builder(upstream).free().config("turns.disconnect_grace", r#""1h""#).start().await
}

fn marks() -> Vec<Step> {
    calls(&[("c1", "Bash", json!({ "command": "echo ran >> marks" }))])
}

fn half_said() -> Vec<Step> {
    [vec![text("It is "), gate("half"), text("done.")], end("stop")].concat()
}

/// Starts a turn, and leaves it once it has said something. Returns its id.
async fn left(server: &Server) -> String {
    let mut stream = server.client().stream(&ask_streamed("Mark it.")).await;
    stream.until_text().await;
    stream.head.header("x-toolhand-turn").expect("a turn").to_owned()
}

fn stream_of(turn: &str) -> String {
    format!("/toolhand/v1/turns/{turn}/stream")
}

/// The `(id, data)` of each SSE event.
fn events(body: &str) -> Vec<(String, String)> {
    let events = body.split_terminator("\n\n").filter(|event| !event.starts_with(':'));
    events
        .map(|event| {
            let (id, data) = event.split_once('\n').expect("an id and data");
            let id = id.strip_prefix("id: ").expect("an id");
            (id.to_owned(), data.strip_prefix("data: ").expect("data").to_owned())
        })
        .collect()
}

fn said(events: &[(String, String)]) -> String {
    let chunks = events.iter().filter_map(|(_, data)| serde_json::from_str::<Value>(data).ok());
    chunks
        .map(|chunk| {
            chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned()
        })
        .collect()
}

fn body(answer: &Answer) -> String {
    String::from_utf8(answer.body.clone()).expect("UTF-8")
}

/// Follows a stream until it has brought `words`, and leaves it.
async fn follow_until(client: &Client, turn: &str, words: &str) -> Vec<(String, String)> {
    let mut reader = client.open("GET", &stream_of(turn), None).await;
    let head = watch("a head", reader.head()).await.expect("a head").expect("an answer");
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    let (mut framing, mut body) = (head.framing(Framing::ToEnd), String::new());
    while !body.contains(words) {
        let piece = watch("a piece", reader.piece(&mut framing)).await.expect("a piece");
        body.push_str(&String::from_utf8(piece.expect("no end")).expect("UTF-8"));
    }
    events(&body)
}

#[tokio::test]
async fn a_turn_goes_on_without_its_client_and_is_followed_from_any_event() {
    let upstream = Upstream::start();
    let server = patient(&upstream).await;
    upstream.round(marks());
    upstream.round(half_said());
    let turn = left(&server).await;

    let turns = server.client().get("/toolhand/v1/turns").await.json();
    assert_eq!(turns["data"][0]["id"], turn);
    assert_eq!(turns["data"][0]["state"], "running");
    let first_half = follow_until(&server.client(), &turn, "It is ").await;
    upstream.open("half");
    // Told to its end once; from then on its text is one piece.
    server.client().get(&stream_of(&turn)).await;
    let whole = events(&body(&server.client().get(&stream_of(&turn)).await));

    assert_eq!(said(&whole), "It is done.");
    assert_eq!(whole.last().map(|(_, data)| &**data), Some("[DONE]"));
    for (place, (id, _)) in first_half.iter().enumerate() {
        let behind = events(&body(
            &server.client().header("last-event-id", id).get(&stream_of(&turn)).await,
        ));
        let seen = said(&first_half[..=place]);
        assert_eq!(seen + &said(&behind), "It is done.", "behind {id}");
        let roles = |events: &[(String, String)]| {
            events.iter().filter(|(_, data)| data.contains(r#""role""#)).count()
        };
        assert_eq!(roles(&first_half[..=place]) + roles(&behind), 1, "behind {id}");
    }
    for (place, (id, _)) in whole.iter().enumerate() {
        let behind = events(&body(
            &server.client().header("last-event-id", id).get(&stream_of(&turn)).await,
        ));
        let expected = &whole[(place + 1).min(whole.len() - 1)..];
        let data = |events: &[(String, String)]| -> Vec<String> {
            events.iter().map(|(_, data)| data.clone()).collect()
        };
        assert_eq!(data(&behind), data(expected), "behind {id}");
    }
    assert_eq!(server.file("marks"), "ran\n");
    let turns = server.client().get("/toolhand/v1/turns").await.json();
    assert_eq!(turns["data"], json!([]));
}

#[tokio::test]
async fn a_retry_joins_a_turn_that_its_client_has_left() {
    let upstream = Upstream::start();
    let server = patient(&upstream).await;
    upstream.round(marks());
    upstream.round(half_said());
    let turn = left(&server).await;

    let retry = server.client().header("x-stainless-retry-count", "1");
    let mut again = retry.stream(&ask_streamed("Mark it.")).await;
    assert_eq!(again.until_text().await, "It is ");
    upstream.open("half");

    assert_eq!(again.head.header("x-toolhand-turn"), Some(&*turn));
    assert_eq!(again.finish().await.text(), "It is done.");
    assert_eq!(server.file("marks"), "ran\n");
}

#[tokio::test]
async fn a_grace_that_is_over_stops_the_turn() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).config("turns.disconnect_grace", r#""20ms""#).start().await;
    upstream.round(vec![text("I begin "), gate("never")]);

    left(&server).await;

    upstream.abandoned(0).await;
}

#[tokio::test]
async fn a_cancelled_turn_ends_for_everybody_and_stays_cancelled() {
    let upstream = Upstream::start();
    let server = patient(&upstream).await;
    upstream.round(vec![text("I begin "), gate("never")]);
    let mut stream = server.client().stream(&ask_streamed("Hi")).await;
    stream.until_text().await;
    let turn = stream.head.header("x-toolhand-turn").expect("a turn").to_owned();
    let cancel = format!("/toolhand/v1/turns/{turn}/cancel");

    let first = server.client().send("POST", &cancel, None).await;
    upstream.abandoned(0).await;
    let second = server.client().send("POST", &cancel, None).await;

    assert_eq!((first.status(), &first.json()["cancelled"]), (200, &json!(true)));
    assert_eq!((second.status(), &second.json()["cancelled"]), (200, &json!(false)));
    assert_eq!(stream.finish().await.code(), "cancelled");
    // It has run no tool, so the same request may run.
    upstream.round(says("Anew."));
    let retry = server.client().header("x-stainless-retry-count", "1");
    assert_eq!(retry.streamed(&ask_streamed("Hi")).await.text(), "Anew.");
}

#[tokio::test]
async fn an_unstreamed_turn_is_followed_as_it_comes() {
    let upstream = Upstream::start();
    let server = patient(&upstream).await;
    upstream.round(half_said());
    let client = server.client();
    let body = ask("Hi");
    let looking_on = async {
        upstream.reached("half").await;
        let turns = server.client().get("/toolhand/v1/turns").await.json();
        let turn = turns["data"][0]["id"].as_str().expect("a turn").to_owned();
        follow_until(&server.client(), &turn, "It is ").await;
        upstream.open("half");
    };

    let (answer, ()) = tokio::join!(client.chat(&body), looking_on);

    assert_eq!(answer.text(), "It is done.");
}

#[tokio::test]
async fn x1_no_spelling_of_an_id_tells_more_than_a_random_one() {
    let upstream = Upstream::start();
    let server = patient(&upstream).await;
    upstream.round(vec![text("I begin "), gate("never")]);
    let turn = left(&server).await;
    let session =
        server.client().get("/toolhand/v1/turns").await.json()["data"][0]["session"].clone();
    assert!(session.is_string());
    let upper = turn.to_uppercase();
    let long = "x".repeat(10_000);
    let spellings =
        [&*upper, "turn_0", "%00", "%FF%FE", "%0d%0a", "..%2fstatus", "%2e%2e", "a%20b", &long];
    for (method, before, behind) in [
        ("GET", "/toolhand/v1/sessions/", ""),
        ("DELETE", "/toolhand/v1/sessions/", ""),
        ("GET", "/toolhand/v1/turns/", "/stream"),
        ("POST", "/toolhand/v1/turns/", "/cancel"),
        ("POST", "/toolhand/v1/approvals/", ""),
    ] {
        let send = async |id: &str| {
            let decision = br#"{"decision":"allow"}"#;
            let body = before.contains("approvals").then_some(&decision[..]);
            server.client().send(method, &format!("{before}{id}{behind}"), body).await
        };
        let random = send("turn_00000000000000000000000000000000").await;
        assert_eq!(random.refusal(), (404, "not_found".to_owned()), "{method} {before}");
        for spelling in spellings {
            let answer = send(spelling).await;
            assert_eq!((answer.status(), &answer.body), (404, &random.body), "{spelling}");
        }
    }
    let bad = server.client().header("last-event-id", "no id").get(&stream_of(&turn)).await;
    assert_eq!(bad.refusal(), (400, "invalid_value".to_owned()));
}

#[tokio::test]
async fn the_lists_of_a_new_key_are_empty() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for list in ["sessions", "turns", "approvals"] {
        let answer = server.client().get(&format!("/toolhand/v1/{list}")).await;
        assert_eq!(answer.json(), json!({ "object": "list", "data": [], "has_more": false }));
    }
    for query in ["limit=0", "limit=101", "limit=x", "limit=1&limit=2", "after=%FF"] {
        let answer = server.client().get(&format!("/toolhand/v1/sessions?{query}")).await;
        assert!(matches!(answer.status(), 400 | 404), "{query}: {}", answer.status());
    }
}
