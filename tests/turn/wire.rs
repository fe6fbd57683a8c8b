//! Tests what gateways and providers were reported to send, from upstream's socket to the
//! client's.

use serde_json::{Value, json};

use super::{answers, assistant_in};
use crate::support::chunks::{
    call, call_head, call_piece, calls, delta, done, end, event, finish, gate, raw, says, text,
};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::{Step, Upstream};

const ECHO: &str = r#"{"command":"echo x >> log.txt"}"#;

async fn free(upstream: &Upstream) -> Server {
    Server::builder(upstream).config("upstream.retries", "0").free().start().await
}

/// The call in pieces, and then once more whole.
fn echoed(echo: Step) -> Vec<Step> {
    let command = json!({ "command": "echo x >> log.txt" });
    [call(0, "c1", "Bash", &command), vec![echo], end("tool_calls")].concat()
}

#[tokio::test]
async fn wire_01_a_call_that_comes_once_more_whole_runs_once() {
    let function = |name: Option<&str>| json!({ "name": name, "arguments": ECHO });
    for entry in [
        json!({ "index": 0, "function": { "arguments": ECHO } }),
        json!({ "index": 0, "id": "c1", "type": "function", "function": function(Some("Bash")) }),
        json!({ "index": 0, "id": "", "function": function(None) }),
        json!({ "id": "c1", "function": function(Some("Bash")) }),
        json!({ "index": 1, "id": "c1", "function": function(Some("Bash")) }),
    ] {
        let upstream = Upstream::start();
        let server = free(&upstream).await;
        upstream.round(echoed(delta(&json!({ "tool_calls": [entry] }))));
        upstream.round(says("Done."));

        assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.", "{entry}");

        assert_eq!(server.file("log.txt"), "x\n", "{entry}");
        let sent = upstream.request(1).await.json();
        assert_eq!(assistant_in(&sent)["tool_calls"].as_array().map(Vec::len), Some(1), "{entry}");
    }
}

#[tokio::test]
async fn wire_01_a_clients_call_that_comes_once_more_is_its_call_once() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let city = json!({ "city": "Oslo" });
    let echo = json!({ "tool_calls": [
        { "index": 0, "id": "c1", "function": { "name": "weather", "arguments": city.to_string() } },
    ]});
    upstream
        .round([call(0, "c1", "weather", &city), vec![delta(&echo)], end("tool_calls")].concat());
    let tools = json!({ "tools": [{ "type": "function", "function": { "name": "weather" } }] });

    let told = server.client().chat(&with(ask("Weather?"), tools)).await.json();

    let calls = told["choices"][0]["message"]["tool_calls"].clone();
    assert_eq!(calls.as_array().map(Vec::len), Some(1), "{calls}");
    assert_eq!(calls[0]["function"]["arguments"], city.to_string());
}

/// Whether every call of a request has a name that strict providers take.
fn has_valid_names(sent: &Value) -> bool {
    let is_valid = |name: &str| {
        let is_taken = |char: char| char.is_ascii_alphanumeric() || "_-".contains(char);
        (1..=64).contains(&name.len()) && name.chars().all(is_taken)
    };
    let messages = sent["messages"].as_array().expect("messages");
    let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    calls.map(|call| &call["function"]["name"]).all(|name| name.as_str().is_some_and(is_valid))
}

#[tokio::test]
async fn wire_09_a_name_that_no_provider_takes_bricks_no_chat() {
    let long = "x".repeat(80);
    for name in ["Read<|channel|>commentary", "functions.Read", &long] {
        let upstream = Upstream::start();
        let server = Server::start(&upstream).await;
        upstream.round(calls(&[("c1", name, json!({ "file_path": "a" }))]));
        upstream.round(says("Sorry."));
        let session = json!({ "toolhand": { "session": "mine" } });

        let first = server.client().chat(&with(ask("Read."), session.clone())).await;
        assert_eq!(first.text(), "Sorry.");
        let told = answers(&upstream, 1).await.remove(0);
        assert!(told.starts_with("Error: ") && told.contains("Read"), "{told}");
        upstream.round(says("Fine."));
        let list = json!([
            { "role": "user", "content": "Read." },
            { "role": "assistant", "content": "Sorry." },
            { "role": "user", "content": "Well?" },
        ]);
        let body = with(json!({ "model": "scripted", "messages": list }), session);
        assert_eq!(server.client().chat(&body).await.text(), "Fine.");

        for request in upstream.requests() {
            assert!(has_valid_names(&request.json()), "{name}: {}", request.json());
        }
        assert_eq!(answers(&upstream, 2).await.len(), 1, "the call is still in the history");
    }
}

#[tokio::test]
async fn wire_28_white_space_before_a_call_is_left_out_and_alone_is_no_answer() {
    let upstream = Upstream::start();
    let server = free(&upstream).await;
    let read = json!({ "pattern": "*" });
    upstream.round([vec![text("\n\n")], call(0, "c1", "Glob", &read), end("tool_calls")].concat());
    upstream.round([vec![text("\n \n")], end("stop")].concat());
    upstream.round(says("Nothing there."));

    let answer = server.client().chat(&ask("Look.")).await;

    assert_eq!(answer.text().trim(), "Nothing there.");
    let sent = upstream.request(1).await.json();
    assert_eq!(assistant_in(&sent)["content"], Value::Null);

    upstream.round(vec![text(" "), finish("stop"), done()]);
    let whole = json!({ "choices": [{ "message": { "role": "assistant", "content": "\n" },
        "finish_reason": "stop" }] });
    upstream.round(vec![Step::Answer {
        status: 200,
        headers: Vec::new(),
        body: whole.to_string().into_bytes(),
    }]);
    let empty = server.client().chat(&ask("Hi")).await;
    assert_eq!(empty.refusal(), (502, "empty_response".to_owned()));
}

#[tokio::test]
async fn wire_15_words_for_a_cut_answer_are_no_success() {
    let upstream = Upstream::start();
    let server = free(&upstream).await;
    for (word, expected) in [
        ("abort", None),
        ("insufficient_system_resource", None),
        ("OTHER", None),
        ("cancelled", None),
        ("model_length", Some("length")),
        ("MAX_TOKENS", Some("length")),
        ("sensitive", Some("content_filter")),
        ("SAFETY", Some("content_filter")),
        ("STOP", Some("stop")),
        ("end_turn", Some("stop")),
        ("eos_token", Some("stop")),
    ] {
        upstream.round(vec![text("Half of"), finish(word), done()]);
        let answer = server.client().stream(&ask_streamed("Go.")).await.finish().await;
        match expected {
            Some(reason) => assert_eq!(answer.finish_reason.as_deref(), Some(reason), "{word}"),
            None => assert!(answer.error.is_some(), "{word} is shown as a success"),
        }
    }
}

#[tokio::test]
async fn wire_16_an_exclusive_call_before_a_failure_does_not_run() {
    let command = json!({ "command": "echo x >> log.txt" });
    let ends = [
        vec![finish("abort"), done()],
        vec![event(&json!({ "object": "error", "message": "m", "code": 500 }))],
        vec![raw("event: error\ndata: {\"message\":\"gone\"}\n\n")],
        vec![event(&json!({ "detail": "internal" }))],
        vec![event(&json!({ "type": "error", "message": "overloaded" }))],
        vec![raw("error: {\"code\":500,\"message\":\"m\"}\n\n")],
    ];
    for end in ends {
        let upstream = Upstream::start();
        let server = free(&upstream).await;
        let both = [call(0, "c1", "Bash", &command), call(1, "c2", "Bash", &command)].concat();
        upstream.round([both, end.clone()].concat());

        let answer = server.client().chat(&ask("Go.")).await;

        assert_eq!(answer.refusal().0, 502, "{end:?}");
        assert!(!server.workspace().join("log.txt").exists(), "{end:?}");
    }
}

#[tokio::test]
async fn errors_in_any_dress_end_an_answer_as_an_error() {
    let upstream = Upstream::start();
    let server = free(&upstream).await;
    for end in [
        raw("event: error\ndata: gone\n\n"),
        raw("error: gone\n\n"),
        event(&json!({ "detail": "gone" })),
        event(&json!({ "object": "error", "message": "gone" })),
        event(&json!({ "code": "InternalError", "message": "gone", "request_id": "r" })),
        event(&json!({ "choices": [{ "delta": {}, "error": { "message": "gone" } }] })),
    ] {
        upstream.round(vec![text("Half of"), end.clone(), finish("stop"), done()]);
        let answer = server.client().stream(&ask_streamed("Go.")).await.finish().await;
        assert!(answer.error.is_some(), "{end:?} is shown as a success");
    }
}

#[tokio::test]
async fn halves_of_surrogate_pairs_are_joined_over_deltas() {
    let upstream = Upstream::start();
    let server = free(&upstream).await;
    let piece =
        |text: &str| raw(format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{text}}}]}}\n\n"));
    let arguments = |half: &str| {
        piece(&format!(r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":"{half}"}}}}]}}"#))
    };
    upstream.round(
        [
            vec![call_head(0, "c1", "Write"), call_piece(0, r#"{"file_path":"a.txt","content":""#)],
            vec![arguments(r"\ud83d"), arguments(r"\ude00"), call_piece(0, r#" \ud83d"}"#)],
            end("tool_calls"),
        ]
        .concat(),
    );
    let content = |half: &str| piece(&format!(r#"{{"content":"{half}"}}"#));
    upstream.round([vec![content(r"a\ud83d"), content(r"\ude00b")], end("stop")].concat());

    let answer = server.client().chat(&ask("Write.")).await;

    assert_eq!(answer.text(), "a😀b");
    assert_eq!(server.file("a.txt"), "😀 \u{fffd}");
    let sent = upstream.request(1).await.json();
    let written = assistant_in(&sent)["tool_calls"][0]["function"]["arguments"].clone();
    assert_eq!(written, r#"{"file_path":"a.txt","content":"\ud83d\ude00 \ufffd"}"#);
    let told = answers(&upstream, 1).await.remove(0);
    assert!(told.contains("U+FFFD"), "{told}");
}

#[tokio::test]
async fn a_list_that_came_as_text_is_taken() {
    let upstream = Upstream::start();
    let server = free(&upstream).await;
    let todos = json!([{ "content": "Look", "status": "pending", "activeForm": "Looking" }]);
    upstream.round(calls(&[("c1", "TodoWrite", json!({ "todos": todos.to_string() }))]));
    upstream.round(says("Done."));

    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
    let told = answers(&upstream, 1).await.remove(0);
    assert!(!told.starts_with("Error"), "{told}");
}

#[tokio::test]
async fn wire_52_a_failure_after_tools_is_told_again_and_nothing_runs() {
    let upstream = Upstream::start();
    let server = free(&upstream).await;
    let marks = || calls(&[("c1", "Bash", json!({ "command": "echo ran >> marks" }))]);
    upstream.round(marks());
    upstream.round(vec![Step::Close]);

    let first = server.client().chat(&ask("Mark.")).await;
    let again = server.client().chat(&ask("Mark.")).await;

    assert_eq!(first.refusal(), (400, "upstream_error".to_owned()));
    assert_eq!(first.header("x-should-retry"), Some("false"));
    assert_eq!(again.refusal(), first.refusal());
    assert_eq!(again.header("x-toolhand-turn"), first.header("x-toolhand-turn"));
    assert_eq!(server.file("marks"), "ran\n");
    assert_eq!(upstream.requests().len(), 2);

    // Other words, or another key, are another request.
    upstream.round(marks());
    upstream.round(says("Marked."));
    assert_eq!(server.client().chat(&ask("Mark it.")).await.text(), "Marked.");
    let key = crate::settings::client_keys::add(&server, &["other"]);
    upstream.round(says("I am another."));
    let other = crate::support::client::Client::new(server.address(), &key);
    assert_eq!(other.chat(&ask("Mark.")).await.text(), "I am another.");
}

#[tokio::test]
async fn wire_52_equal_requests_at_once_are_turns_of_their_own() {
    let upstream = Upstream::start();
    let server = free(&upstream).await;
    upstream.round([vec![text("One."), gate("one")], end("stop")].concat());
    upstream.round(says("Two."));
    let mut first = server.client().stream(&ask_streamed("Go.")).await;
    first.until_text().await;

    let second = server.client().streamed(&ask_streamed("Go.")).await;
    upstream.open("one");

    assert_eq!(first.finish().await.text(), "One.");
    assert_eq!(second.text(), "Two.");
}
