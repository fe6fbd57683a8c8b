//! Tests the client's own tools beside the server's.

use serde_json::{Value, json};

use super::answers_in;
use crate::support::chunks::{call, call_head, call_piece, calls, delta, end, gate, says, text};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

fn tool(name: &str) -> Value {
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
}

fn tools() -> Value {
    json!({ "tools": [tool("weather")] })
}

#[tokio::test]
async fn a_call_of_the_client_goes_to_the_client() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let weather = call(0, "call_w", "weather", &json!({ "city": "Lyon" }));
    upstream.round([vec![text("I ask.")], weather, end("tool_calls")].concat());

    let answer = server.client().streamed(&with(ask_streamed("Weather?"), tools())).await;

    assert_eq!(answer.finish_reason.as_deref(), Some("tool_calls"));
    assert_eq!(answer.text(), "I ask.");
    let expected = json!([{
        "id": "call_w", "type": "function",
        "function": { "name": "weather", "arguments": r#"{"city":"Lyon"}"# },
    }]);
    assert_eq!(answer.message["tool_calls"], expected);
}

#[tokio::test]
async fn a_call_of_the_client_comes_as_it_is_spoken() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let weather = call(0, "call_w", "weather", &json!({ "city": "Lyon" }));
    upstream.round([weather, vec![gate("end")], end("tool_calls")].concat());

    let mut stream = server.client().stream(&with(ask_streamed("Weather?"), tools())).await;
    let is_last =
        |piece: &Value| piece["function"]["arguments"].as_str().unwrap_or("").ends_with('}');
    stream.until(|event| event.delta()["tool_calls"].get(0).is_some_and(is_last)).await;
    upstream.open("end");
    stream.finish().await;
}

#[tokio::test]
async fn a_call_of_a_custom_tool_hands_over_its_text() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let head = json!({ "index": 0, "id": "call_n", "type": "custom", "custom": { "name": "note", "input": "" } });
    let piece = |text: &str| json!({ "index": 0, "type": "custom", "custom": { "input": text } });
    let pieces = [head, piece("{\"no "), piece("json}{")];
    let pieces = pieces.map(|entry| delta(&json!({ "tool_calls": [entry] })));
    let note = json!({ "tools": [{ "type": "custom", "custom": { "name": "note" } }] });
    upstream.round([pieces.to_vec(), end("tool_calls")].concat());
    upstream.round([pieces.to_vec(), end("tool_calls")].concat());

    let whole = server.client().chat(&with(ask("Note it."), note.clone())).await.json();
    let streamed = server.client().streamed(&with(ask_streamed("Note it."), note)).await;

    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    let expected = json!([{
        "id": "call_n", "type": "custom", "custom": { "name": "note", "input": "{\"no json}{" },
    }]);
    assert_eq!(whole["choices"][0]["message"]["tool_calls"], expected);
    assert_eq!(streamed.finish_reason.as_deref(), Some("tool_calls"));
    let said: String = streamed
        .events
        .iter()
        .filter_map(|event| event.delta()["tool_calls"][0]["custom"]["input"].as_str())
        .collect();
    assert_eq!(said, "{\"no json}{");
}

/// The client judges its own calls, so they are passed on unrepaired.
#[tokio::test]
async fn a_call_of_the_client_says_what_the_model_said() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    for (pieces, expected) in [
        (vec![r#"{"city":"Lyon"}"#, " and so", " on {}"], vec![r#"{"city":"Lyon"} and so on {}"#]),
        (vec![r#"{"city": Ly"#, "on}", "\n"], vec!["{\"city\": Lyon}\n"]),
        (vec!["Lyon, ", r#"{"city":1}"#], vec![r#"Lyon, {"city":1}"#]),
        (vec![r#""Lyon""#], vec![r#""Lyon""#]),
        (
            vec![r#"{"city":"Lyon"} {"city""#, r#":"Oslo"}, "#, "both"],
            vec![r#"{"city":"Lyon"}"#, r#"{"city":"Oslo"}, both"#],
        ),
    ] {
        for _ in 0..2 {
            let pieces = pieces.iter().map(|piece| call_piece(0, piece));
            let head = [call_head(0, "call_w", "weather")].into_iter();
            upstream.round(head.chain(pieces).chain(end("tool_calls")).collect());
        }

        let streamed = server.client().streamed(&with(ask_streamed("Weather?"), tools())).await;
        let whole = server.client().chat(&with(ask("Weather?"), tools())).await.json();

        for message in [&streamed.message, &whole["choices"][0]["message"]] {
            let calls = message["tool_calls"].as_array().expect("calls").iter();
            let said: Vec<_> = calls.map(|call| &call["function"]["arguments"]).collect();
            assert_eq!(said, expected);
        }
    }
}

#[tokio::test]
async fn a_round_of_both_kinds_gives_the_client_only_its_own() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().file("notes.txt", "needle\n").start().await;
    for _ in 0..2 {
        upstream.round(calls(&[
            ("c1", "Read", json!({ "file_path": "notes.txt" })),
            ("c2", "Write", json!({ "file_path": "new.txt", "content": "made" })),
            ("c3", "weather", json!({ "city": "Lyon" })),
            ("c4", "weather", json!({ "city": "Oslo" })),
        ]));
    }

    let streamed = server.client().streamed(&with(ask_streamed("Weather?"), tools())).await;
    let whole = server.client().chat(&with(ask("Weather?"), tools())).await.json();

    for (message, reason) in [
        (&streamed.message, streamed.finish_reason.as_deref()),
        (&whole["choices"][0]["message"], whole["choices"][0]["finish_reason"].as_str()),
    ] {
        assert_eq!(reason, Some("tool_calls"));
        let ids = message["tool_calls"].as_array().expect("calls").iter();
        assert!(ids.map(|call| &call["id"]).eq(["c3", "c4"]), "{message}");
    }
    assert!(server.workspace().join("new.txt").exists(), "the server's calls run now");
    assert_eq!(upstream.requests().len(), 2);
}

/// In any order of the calls. A call that waits behind a server's call must not start when that
/// one is taken out.
#[tokio::test]
async fn a_round_of_both_kinds_ends_well_in_any_order() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().file("notes.txt", "needle\n").start().await;
    let read = ("c1", "Read", json!({ "file_path": "notes.txt" }));
    let write = ("c2", "Write", json!({ "file_path": "new.txt", "content": "made" }));
    let weather = ("c3", "weather", json!({ "city": "Lyon" }));
    for order in [[&write, &read, &weather], [&weather, &write, &read], [&write, &weather, &read]] {
        upstream.round(calls(&order.map(Clone::clone)));

        let answer = server.client().streamed(&with(ask_streamed("Weather?"), tools())).await;

        assert_eq!(answer.finish_reason.as_deref(), Some("tool_calls"));
        assert_eq!(answer.message["tool_calls"][0]["id"], "c3");
    }
    assert!(server.workspace().join("new.txt").exists(), "the server's calls run now");
}

#[tokio::test]
async fn the_clients_answers_go_up_behind_its_calls() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(says("Rain."));
    let call = json!({ "id": "call_w", "type": "function",
        "function": { "name": "weather", "arguments": "{\"city\":\"Lyon\"}" } });
    let messages = json!({ "messages": [
        { "role": "user", "content": "Weather?" },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "tool_call_id": "call_w", "content": "wet" },
    ]});

    let answer = server.client().chat(&with(with(ask(""), messages), tools())).await;

    assert_eq!(answer.text(), "Rain.");
    assert_eq!(answers_in(&upstream.request(0).await.json()), ["wet"]);
}

#[tokio::test]
async fn v15_a_name_of_a_server_tool_is_a_conflict_unless_the_client_wins() {
    let upstream = Upstream::start();
    let strict = Server::start(&upstream).await;
    let lenient =
        Server::builder(&upstream).config("tools.name_conflict", r#""client""#).start().await;
    let clash = json!({ "tools": [tool("Read")] });

    let refused = strict.client().chat(&with(ask("Hi"), clash.clone())).await;
    assert_eq!(refused.refusal(), (400, "tool_name_conflict".to_owned()));
    assert!(upstream.requests().is_empty());

    upstream.round(calls(&[("c1", "Read", json!({ "city": "Lyon" }))]));
    let answer = lenient.client().streamed(&with(ask_streamed("Hi"), clash)).await;
    assert_eq!(answer.message["tool_calls"][0]["function"]["name"], "Read");
}

#[tokio::test]
async fn an_alias_gives_way_to_the_clients_tool() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(calls(&[("c1", "read_file", json!({ "city": "Lyon" }))]));

    let own = json!({ "tools": [tool("read_file")] });
    let answer = server.client().streamed(&with(ask_streamed("Hi"), own)).await;

    assert_eq!(answer.message["tool_calls"][0]["function"]["name"], "read_file");
}

#[tokio::test]
async fn no_tools_means_no_tools() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(says("No."));

    let none = json!({ "tools": [tool("weather")], "tool_choice": "none" });
    server.client().chat(&with(ask("Hi"), none)).await;

    let body = upstream.request(0).await.json();
    assert_eq!(body.get("tools"), None, "{body:#}");
}

#[tokio::test]
async fn a_forced_choice_holds_for_the_first_round_only() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(says("Done."));

    let forced = json!({ "tool_choice": "required", "parallel_tool_calls": false });
    server.client().chat(&with(ask("Hi"), forced)).await;

    let first = upstream.request(0).await.json();
    assert_eq!(first["tool_choice"], "required");
    assert_eq!(first["parallel_tool_calls"], false);
    let second = upstream.request(1).await.json();
    assert!(matches!(second["tool_choice"].as_str(), None | Some("auto")), "{second:#}");
}

/// The second call is complete first. The client must still get them in the model's order.
#[tokio::test]
async fn the_clients_calls_leave_in_the_models_order() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let arguments = r#"{"city":"Lyon"}"#;
    let piece = |index: u64, part: &str| call_piece(index, part);
    let nameless = json!({ "index": 0, "id": "call_a", "function": { "arguments": arguments } });
    let named = json!({ "index": 0, "function": { "name": "weather" } });
    let unknown = json!({ "index": 0, "function": { "name": "weather", "arguments": arguments } });
    let late_id = json!({ "index": 0, "id": "call_a", "function": { "arguments": "" } });
    let entry = |entry: &Value| delta(&json!({ "tool_calls": [entry] }));
    let second = || vec![call_head(1, "call_b", "weather"), piece(1, arguments)];
    for pieces in [
        // The arguments of the first call come last.
        [vec![call_head(0, "call_a", "weather")], second(), vec![piece(0, arguments)]].concat(),
        // Its name comes last.
        [vec![entry(&nameless)], second(), vec![entry(&named)]].concat(),
        // Its arguments and those of a further call come last.
        [
            vec![call_head(0, "call_a", "weather"), call_head(2, "call_c", "weather")],
            second(),
            vec![piece(2, arguments), piece(0, arguments)],
        ]
        .concat(),
        // Its id comes last, or never.
        [vec![entry(&unknown)], second(), vec![entry(&late_id)]].concat(),
    ] {
        for _ in 0..2 {
            upstream.round([pieces.clone(), end("tool_calls")].concat());
        }

        let streamed = server.client().streamed(&with(ask_streamed("Weather?"), tools())).await;
        let whole = server.client().chat(&with(ask("Weather?"), tools())).await.json();

        for message in [&streamed.message, &whole["choices"][0]["message"]] {
            let calls = message["tool_calls"].as_array().expect("calls");
            let mut ids: Vec<_> =
                calls.iter().map(|call| call["id"].as_str().unwrap_or("")).collect();
            assert!(
                calls.iter().all(|call| call["function"]["arguments"] == arguments),
                "{calls:?}"
            );
            if calls.len() == 3 {
                assert_eq!(ids, ["call_a", "call_c", "call_b"]);
                ids.remove(1);
            }
            assert_eq!(ids[1], "call_b", "{ids:?}");
        }
    }
}

/// A client's call behind a server's call is passed on while it streams.
#[tokio::test]
async fn a_call_of_the_client_waits_for_no_call_of_the_server() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let bash = vec![call_head(0, "c1", "Bash"), call_piece(0, r#"{"command": "#)];
    let weather = call(1, "call_w", "weather", &json!({ "city": "Lyon" }));
    let rest = vec![call_piece(0, r#""echo"}"#)];
    upstream.round([bash, weather, vec![gate("rest")], rest, end("tool_calls")].concat());

    let mut stream = server.client().stream(&with(ask_streamed("Weather?"), tools())).await;
    stream.until(|event| event.delta()["tool_calls"][0]["id"] == "call_w").await;
    upstream.open("rest");
    stream.finish().await;
}
