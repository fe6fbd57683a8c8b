//! Turns with calls of the server's and of the client's tools in one message.

use serde_json::{Value, json};

use super::{after, assert_goes_on, conversation, told, user};
use crate::support::chunks::{calls, end, gate, says, text};
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

#[tokio::test]
async fn a_mixed_turn_of_a_deleted_session_goes_on_with_the_clients_calls_alone() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    both(&upstream);
    let message = first(&server).await;
    let client = server.client();
    let sessions = client.get("/toolhand/v1/sessions").await.json();
    let id = sessions["data"][0]["id"].as_str().expect("an id");
    let gone = client.send("DELETE", &format!("/toolhand/v1/sessions/{id}"), None).await;
    assert_eq!(gone.status(), 200);
    upstream.round(says("All known."));

    let answers = [answer("w2", "snow"), answer("w1", "sun")];
    let last = client.chat(&back(&message, &answers)).await;

    assert_eq!(last.text(), "All known.");
    let told = told(&upstream.request(1).await);
    assert_eq!(told[1..], ["assistant: weather weather", "tool: sun", "tool: snow"]);
}

/// The model's reasoning goes back to it as it was, to another model without what is only its.
#[tokio::test]
async fn a_mixed_turn_of_a_reasoning_model_keeps_its_thoughts() {
    use crate::support::chunks::{call, delta, reasoning};
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let thought = json!({ "type": "thinking", "thinking": "Hm.", "signature": "c2ln" });
    let thoughts = vec![reasoning("Hm."), delta(&json!({ "thinking_blocks": [thought] }))];
    let pair = [
        call(0, "w1", "weather", &json!({ "city": "Lyon" })),
        call(1, "r1", "Read", &json!({ "file_path": "notes.txt" })),
    ];
    upstream.round([thoughts, pair.concat(), end("tool_calls")].concat());
    let body = with(conversation(&[user("Weather and notes?")]), weather());
    let message = server.client().chat(&body).await.json()["choices"][0]["message"].clone();
    upstream.round(says("All known."));
    let list = back(&message, &[answer("w1", "sun")]);
    assert_eq!(server.client().chat(&list).await.text(), "All known.");
    let sent = upstream.request(1).await.json();
    let told = crate::turn::assistant_in(&sent);
    assert_eq!(told["thinking_blocks"], json!([thought]), "{told:#}");
    assert_goes_on(&upstream.request(0).await, &upstream.request(1).await);

    upstream.round(says("Bye."));
    let mut list = list;
    let messages = list["messages"].as_array_mut().expect("messages");
    messages.extend([json!({ "role": "assistant", "content": "All known." }), user("Thanks")]);
    let other = with(list, json!({ "model": "other" }));
    assert_eq!(server.client().chat(&other).await.text(), "Bye.");
    let sent = String::from_utf8(upstream.request(2).await.body).expect("JSON");
    assert!(!sent.contains("c2ln") && sent.contains("needle"), "{sent}");
}

#[tokio::test]
async fn a_mixed_turn_is_streamed_and_its_parallel_calls_are_as_asked() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    both(&upstream);
    let members = json!({ "stream": true, "parallel_tool_calls": false });
    let body = with(with(conversation(&[user("Weather and notes?")]), weather()), members.clone());
    let first = server.client().streamed(&body).await;
    assert_eq!(first.finish_reason.as_deref(), Some("tool_calls"));
    assert_eq!(upstream.request(0).await.json()["parallel_tool_calls"], false);
    upstream.round(says("All known."));

    let answers = [answer("w2", "snow"), answer("w1", "sun")];
    let list = with(back(&first.message, &answers), members);
    assert_eq!(server.client().streamed(&list).await.text(), "All known.");

    let [one, two] = &upstream.requests()[..] else { panic!("two requests") };
    assert_goes_on(one, two);
    assert_eq!(two.json()["parallel_tool_calls"], false);
}

#[tokio::test]
async fn a_mixed_turn_with_a_custom_tool_of_the_client_resumes() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let tools = json!({ "tools": [{ "type": "custom", "custom": { "name": "sql" } }] });
    let custom = json!({ "tool_calls": [{ "index": 0, "id": "s1", "type": "custom",
        "custom": { "name": "sql", "input": "select 1" } }] });
    let read = crate::support::chunks::call(1, "r1", "Read", &json!({ "file_path": "notes.txt" }));
    upstream
        .round([vec![crate::support::chunks::delta(&custom)], read, end("tool_calls")].concat());
    let body = with(conversation(&[user("Query.")]), tools.clone());
    let message = server.client().chat(&body).await.json()["choices"][0]["message"].clone();
    assert_eq!(message["tool_calls"][0]["custom"]["input"], "select 1", "{message}");
    upstream.round(says("One."));

    let list = conversation(&[user("Query."), message, answer("s1", "1")]);
    assert_eq!(server.client().chat(&with(list, tools)).await.text(), "One.");

    let [one, two] = &upstream.requests()[..] else { panic!("two requests") };
    assert_goes_on(one, two);
    let told = told(two);
    assert_eq!(told[2], "tool: 1");
    assert!(told[3].contains("needle"), "{told:?}");
}

/// While a turn works with the client's answers, other answers and other words are another request.
#[tokio::test]
async fn v27_other_answers_meanwhile_get_a_turn_of_their_own() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    both(&upstream);
    let message = first(&server).await;
    upstream.round([vec![text("All "), gate("half"), text("known.")], end("stop")].concat());
    let sunny = back(&message, &[answer("w1", "sun"), answer("w2", "snow")]);
    let mut stream = server.client().stream(&with(sunny, json!({ "stream": true }))).await;
    stream.until_text().await;

    upstream.round(says("So it rains."));
    let rainy = back(&message, &[answer("w1", "rain"), answer("w2", "rain")]);
    let other = server.client().chat(&rainy).await;
    assert_eq!(other.text(), "So it rains.");
    let told = told(&upstream.request(2).await);
    assert_eq!(told[2], "tool: rain");
    assert!(told[3].contains("needle"), "{told:?}");
    upstream.round(says("Forgotten."));
    let list = [user("Weather and notes?"), message, user("Forget it.")];
    let words = server.client().chat(&with(conversation(&list), weather())).await;
    assert_eq!(words.text(), "Forgotten.");

    upstream.open("half");
    assert_eq!(stream.finish().await.text(), "All known.");
}

#[tokio::test]
async fn a_client_that_leaves_the_history_to_the_server_sends_its_answers_alone() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    both(&upstream);
    let client = server.client().header("x-toolhand-session", "mine");
    let history = json!({ "toolhand": { "history": "server" } });
    let body = with(with(conversation(&[user("Weather and notes?")]), weather()), history.clone());
    assert_eq!(client.chat(&body).await.status(), 200);
    let send = async |answers: &[Value]| {
        client.chat(&with(with(conversation(answers), weather()), history.clone())).await
    };

    let refused = send(&[answer("w2", "snow")]).await;
    assert_eq!(refused.refusal(), (400, "missing_tool_results".to_owned()));
    upstream.round(says("All known."));
    let last = send(&[answer("w2", "snow"), answer("w1", "sun")]).await;

    assert_eq!(last.text(), "All known.");
    let told = told(&upstream.request(1).await);
    assert_eq!(told[2], "tool: sun");
    assert!(told[3].contains("needle"), "{told:?}");
}

/// Two conversations with the same words and ids, in which the server's call found something else.
#[tokio::test]
async fn an_open_round_that_may_be_anothers_brings_nothing() {
    for header in [None, Some("a-new-chat")] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        both(&upstream);
        let message = first(&server).await;
        std::fs::write(server.workspace().join("notes.txt"), "thimble\n").expect("a file");
        both(&upstream);
        first(&server).await;
        let client = server.client();
        let client =
            header.map_or(client.clone(), |chat| client.header("x-openwebui-chat-id", chat));

        for list in [
            back(&message, &[answer("w1", "sun"), answer("w2", "snow")]),
            back(&message, &[answer("w1", "sun"), answer("w2", "snow"), user("So?")]),
        ] {
            upstream.round(says("Fine."));
            assert_eq!(client.chat(&list).await.text(), "Fine.");
            let told = told(upstream.requests().last().expect("a request"));
            let hidden = |line: &String| line.contains("needle") || line.contains("thimble");
            assert!(!told.iter().any(hidden), "{told:?}");
            assert_eq!(told[1..4], ["assistant: weather weather", "tool: sun", "tool: snow"]);
        }
    }
}

/// A client that keeps the hidden messages itself brings them back with its own answers.
#[tokio::test]
async fn the_messages_of_a_mixed_turn_come_back_and_are_used_as_they_are() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    both(&upstream);
    let client = server.client();
    let include = json!({ "toolhand": { "include": ["messages"] } });
    let send = async |list: &[Value]| {
        let body = with(with(conversation(list), weather()), include.clone());
        let answer = client.chat(&body).await;
        assert_eq!(answer.status(), 200, "{}", String::from_utf8_lossy(&answer.body));
        answer.json()
    };
    let asked = user("Weather and notes?");
    let first = send(std::slice::from_ref(&asked)).await;
    assert_eq!(first["choices"][0]["finish_reason"], "tool_calls");
    let kept = first["toolhand"]["messages"].as_array().expect("messages").clone();
    let ids = |message: &Value| -> Vec<Value> {
        let calls = message["tool_calls"].as_array().expect("calls").iter();
        calls.map(|call| call["id"].clone()).collect()
    };
    assert_eq!(ids(&kept[0]), ["w1", "r1", "w2"], "{kept:#?}");
    assert_eq!(kept[1]["tool_call_id"], "r1", "{kept:#?}");
    upstream.round(says("All known."));

    let answers = [answer("w1", "sun"), answer("w2", "snow")];
    let list = [&[asked][..], &kept, &answers].concat();
    let second = send(&list).await;

    assert_eq!(second["choices"][0]["message"]["content"], "All known.");
    let [one, two] = &upstream.requests()[..] else { panic!("two requests") };
    assert_goes_on(one, two);
    let lines = told(two);
    assert_eq!(lines[1..3], ["assistant: weather Read weather", "tool: sun"]);
    assert!(lines[3].contains("needle"), "{lines:?}");
    assert_eq!(lines[4..], ["tool: snow"], "each once");
    let added = second["toolhand"]["messages"].as_array().expect("messages").clone();
    assert_eq!(added, [json!({ "role": "assistant", "content": "All known." })]);
    // All of it comes back once more.
    upstream.round(says("Bye."));
    let list = [list, added, vec![user("Thanks")]].concat();
    send(&list).await;
    assert_goes_on(&upstream.request(1).await, &upstream.request(2).await);
    let lines = told(&upstream.request(2).await);
    assert_eq!(lines[5..], ["assistant: All known.", "user: Thanks"]);
}

/// A frontend may split one message of ours, or say something between its answers.
#[tokio::test]
async fn the_answers_of_one_round_may_stand_apart() {
    let split = |message: &Value, at: usize| {
        let mut own = message.clone();
        own["tool_calls"] = json!([message["tool_calls"][at]]);
        own
    };
    for is_split in [true, false] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        both(&upstream);
        let message = first(&server).await;
        upstream.round(says("All known."));
        let (one, other) = (answer("w1", "sun"), answer("w2", "snow"));
        let list = if is_split {
            vec![split(&message, 0), one, split(&message, 1), other]
        } else {
            vec![message, other, user("Also this."), one]
        };
        let list = [vec![user("Weather and notes?")], list].concat();

        let joined = server.client().chat(&with(conversation(&list), weather())).await;

        assert_eq!(joined.text(), "All known.", "{joined:?}");
        let told = told(&upstream.request(1).await);
        assert_eq!(told[1], "assistant: weather Read weather");
        assert_eq!((told[2].as_str(), told[4].as_str()), ("tool: sun", "tool: snow"));
        assert_eq!(told.iter().any(|line| line == "user: Also this."), !is_split);
    }
}

#[tokio::test]
async fn v18_an_answer_to_no_call_is_refused_beside_those_of_a_round() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    both(&upstream);
    let message = first(&server).await;
    let own = [answer("w1", "sun"), answer("w2", "snow")];
    let with_another = [&own[..], &[answer("nope", "?")]].concat();

    let refused = server.client().chat(&back(&message, &with_another)).await;

    assert_eq!(refused.refusal(), (400, "unknown_tool_call".to_owned()));
    assert!(String::from_utf8_lossy(&refused.body).contains("nope"));
    upstream.round(says("All known."));
    assert_eq!(server.client().chat(&back(&message, &own)).await.text(), "All known.");
}
