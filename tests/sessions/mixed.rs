//! Turns with calls of the server's and of the client's tools in one message.

use serde_json::{Value, json};

use super::{after, assert_goes_on, conversation, told, user};
use crate::support::chunks::{calls, says};
use crate::support::client::with;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

pub(crate) fn weather() -> Value {
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let function = json!({ "name": "weather", "parameters": parameters });
    json!({ "tools": [{ "type": "function", "function": function }] })
}

/// Both kinds of calls in one message, in an order of the model's own.
fn both(upstream: &Upstream) {
    upstream.round(calls(&[
        ("w1", "weather", json!({ "city": "Lyon" })),
        ("r1", "Read", json!({ "file_path": "notes.txt" })),
        ("w2", "weather", json!({ "city": "Oslo" })),
    ]));
}

async fn server(upstream: &Upstream) -> Server {
    Server::builder(upstream).file("notes.txt", "needle\n").start().await
}

fn answer(id: &str, text: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": text })
}

/// The list with which the client comes back.
fn back(message: &Value, answers: &[Value]) -> Value {
    let list = [&[user("Weather and notes?"), message.clone()][..], answers].concat();
    with(conversation(&list), weather())
}

async fn first(server: &Server) -> Value {
    let body = with(conversation(&[user("Weather and notes?")]), weather());
    let answer = server.client().chat(&body).await.json();
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    let message = answer["choices"][0]["message"].clone();
    let ids = message["tool_calls"].as_array().expect("calls").iter();
    assert_eq!(ids.map(|call| call["id"].clone()).collect::<Vec<_>>(), ["w1", "w2"]);
    message
}

#[tokio::test]
async fn the_clients_answers_join_the_servers_in_the_models_order() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    both(&upstream);
    let message = first(&server).await;
    upstream.round(says("All known."));

    let answers = [answer("w2", "snow"), answer("w1", "sun")];
    let last = server.client().chat(&back(&message, &answers)).await;

    assert_eq!(last.text(), "All known.");
    let [one, two] = &upstream.requests()[..] else { panic!("two requests") };
    assert_goes_on(one, two);
    let told = told(two);
    assert_eq!(told[1], "assistant: weather Read weather");
    assert_eq!(told[2], "tool: sun");
    assert!(told[3].contains("needle"), "{told:?}");
    assert_eq!(told[4], "tool: snow");
}

#[tokio::test]
async fn a_mixed_turn_goes_on_after_a_restart() {
    let upstream = Upstream::start();
    let mut server = server(&upstream).await;
    both(&upstream);
    let message = first(&server).await;
    server.stop();
    let server = after(&upstream, &server).start().await;
    upstream.round(says("All known."));

    let answers = [answer("w1", "sun"), answer("w2", "snow")];
    let last = server.client().chat(&back(&message, &answers)).await;

    assert_eq!(last.text(), "All known.");
    assert_goes_on(&upstream.request(0).await, &upstream.request(1).await);
}

#[tokio::test]
async fn v18_only_some_answers_are_refused_and_spoil_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    both(&upstream);
    let message = first(&server).await;
    upstream.round(says("All known."));
    let client = server.client();

    let refused = client.chat(&back(&message, &[answer("w2", "snow")])).await;
    assert_eq!(refused.refusal(), (400, "missing_tool_results".to_owned()));
    assert!(String::from_utf8_lossy(&refused.body).contains("w1"));
    let answers = [answer("w1", "sun"), answer("w2", "snow")];
    assert_eq!(client.chat(&back(&message, &answers)).await.text(), "All known.");
}

#[tokio::test]
async fn a_conversation_that_went_on_has_its_calls_answered_as_interrupted() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    both(&upstream);
    let message = first(&server).await;
    upstream.round(says("Never mind."));

    let list = [user("Weather and notes?"), message, user("Forget it.")];
    server.client().chat(&with(conversation(&list), weather())).await;

    let told = told(&upstream.request(1).await);
    assert_eq!(told[2], "tool: Error: interrupted");
    assert!(told[3].contains("needle"), "{told:?}");
    assert_eq!(told[4], "tool: Error: interrupted");
    assert_eq!(told.last().map(String::as_str), Some("user: Forget it."));
}

#[tokio::test]
async fn what_no_session_fits_goes_on_with_the_clients_calls_alone() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    upstream.round(says("Fine."));
    let function = json!({ "name": "weather", "arguments": "{\"city\":\"Rome\"}" });
    let call = json!({ "id": "call_0", "type": "function", "function": function });
    let message = json!({ "role": "assistant", "content": null, "tool_calls": [call] });

    let last = server.client().chat(&back(&message, &[answer("call_0", "rain")])).await;

    assert_eq!(last.text(), "Fine.");
    let told = told(&upstream.request(0).await);
    assert_eq!(told[1..], ["assistant: weather", "tool: rain"]);
}
