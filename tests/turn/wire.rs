//! Tests what gateways and providers were reported to send, from upstream's socket to the
//! client's.

use serde_json::{Value, json};

use super::{answers, assistant_in};
use crate::support::chunks::{
    call, call_head, call_piece, calls, delta, done, end, event, finish, gate, raw, says, status,
    text, whole,
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
        json!({ "index": 0, "id": "c1", "function": { "arguments": format!("\n{ECHO}\n{ECHO}") } }),
        json!({ "index": 0, "function": { "arguments": "{ \"command\" : \"echo x >> log.txt\" }" } }),
        json!({ "id": "c1", "function": { "name": "Bash", "arguments": { "command": "echo x >> log.txt" } } }),
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
async fn wire_01_pieces_in_any_dress_are_one_call() {
    let piece = |id: Option<&str>, name: Option<&str>, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        delta(&json!({ "tool_calls": [{ "index": 0, "id": id, "function": function }] }))
    };
    let (front, back) = ECHO.split_at(15);
    let bash = Some("Bash");
    for pieces in [
        // Each piece has an id of its own.
        vec![
            piece(Some("a"), bash, ""),
            piece(Some("b"), None, front),
            piece(Some("c"), None, back),
        ],
        vec![piece(Some("a"), bash, front), piece(Some("b"), bash, back)],
        // Each piece repeats all before it.
        vec![piece(Some("a"), bash, front), piece(None, None, ECHO), piece(None, None, ECHO)],
        vec![
            piece(Some("a"), bash, ""),
            piece(Some("a"), bash, front),
            piece(Some("a"), bash, ECHO),
        ],
        // The whole comes behind the reason.
        vec![
            piece(Some("a"), bash, front),
            piece(None, None, back),
            finish("tool_calls"),
            piece(Some("a"), bash, ECHO),
        ],
    ] {
        let upstream = Upstream::start();
        let server = free(&upstream).await;
        upstream.round([pieces.clone(), end("tool_calls")].concat());
        upstream.round(says("Done."));

        assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.", "{pieces:?}");
        assert_eq!(server.file("log.txt"), "x\n", "{pieces:?}");
    }
}

#[tokio::test]
async fn wire_01_equal_calls_with_ids_of_their_own_are_two() {
    let upstream = Upstream::start();
    let server = free(&upstream).await;
    let command = json!({ "command": "echo x >> log.txt" });
    upstream.round(calls(&[("c1", "Bash", command.clone()), ("c2", "Bash", command)]));
    upstream.round(says("Done."));

    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
    assert_eq!(server.file("log.txt"), "x\nx\n");
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
    for name in [
        "Read<|channel|>commentary",
        "functions.Read",
        &long,
        " Read ",
        "Read\n",
        "Read\"}",
        "🙂Read",
        "../Read",
        "Read:0",
        "\u{0}Read",
        "读Read",
        "Read(file_path)",
    ] {
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
        ("Complete", Some("stop")),
        ("DONE", Some("stop")),
        ("stopped", None),
        ("time_out", None),
        ("user_cancel", None),
        ("unload", None),
        ("incomplete", None),
        ("ERROR_TOXIC", Some("content_filter")),
        ("content_policy_violation", Some("content_filter")),
        ("blocked", Some("content_filter")),
        ("token_limit", Some("length")),
        ("maxOutputTokens", Some("length")),
        ("ERROR_LIMIT", Some("length")),
        ("FinishReason.MAX_TOKENS", Some("length")),
    ] {
        // The same in one piece, as an unstreamed answer has it.
        let message = json!({ "role": "assistant", "content": "Half of" });
        upstream.round(status(200, &whole(&message, word)));
        let alone = with(ask("Go."), json!({ "tool_choice": "none" }));
        let told = server.client().chat(&alone).await;
        let found = told.json()["choices"][0]["finish_reason"].clone();
        assert_eq!(found.as_str(), expected, "{word}: {}", told.json());

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
        vec![raw("event: failure\ndata: gone\n\n")],
        vec![raw("{\"object\":\"error\",\"message\":\"gone\"}\n\n")],
        vec![raw("Error: gone\n\n")],
        vec![event(
            &json!({ "type": "response.failed", "response": { "error": { "message": "m" } } }),
        )],
        vec![event(&json!({ "choices": null, "error_type": "E", "error_message": "m" }))],
        vec![event(&json!({ "ok": false, "reason": "m" }))],
        vec![event(&json!({ "choices": [], "usage": { "prompt_tokens": 1 }, "detail": "gone" }))],
        vec![
            event(&json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }],
            "base_resp": { "status_code": 1027, "status_msg": "sensitive" } })),
            done(),
        ],
        vec![event(&json!({ "choices": [{ "delta": { "error": { "message": "gone" } } }] }))],
        vec![event(&json!({ "message": "Internal Server Error" })), done()],
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
        event(&json!({ "choices": [{ "delta": { "error": "gone" } }] })),
        event(&json!({ "choices": [{ "delta": { "content": "" } }], "type": "error" })),
        event(&json!({ "success": false, "msg": "gone" })),
        event(&json!({ "status": "failed", "title": "gone" })),
        event(&json!({ "errors": [{ "message": "gone" }] })),
        event(&json!({ "error": "" , "detail": ["gone"] })),
        raw("event: Exception\ndata: {\"message\":\"gone\"}\n\n"),
        raw("ERROR: gone\n\n"),
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
async fn halves_in_reasoning_and_in_blocks_are_joined_and_none_is_lost() {
    let upstream = Upstream::start();
    let server = free(&upstream).await;
    let piece =
        |text: &str| raw(format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{text}}}]}}\n\n"));
    let block = |text: &str| {
        let entry = format!(r#"{{"type":"thinking","thinking":"{text}"}}"#);
        piece(&format!(r#"{{"thinking_blocks":[{entry}]}}"#))
    };
    upstream.round(
        [
            vec![piece(r#"{"reasoning_content":"a\ud83d"}"#), block(r"b\ud83c")],
            vec![piece(r#"{"reasoning_content":"\ude00"}"#), block(r"\udf0d c\ud83d")],
            call(0, "c1", "Glob", &json!({ "pattern": "*" })),
            end("tool_calls"),
        ]
        .concat(),
    );
    upstream.round(says("Done."));

    assert_eq!(server.client().chat(&ask("Look.")).await.text(), "Done.");

    let sent = upstream.request(1).await.json();
    let message = assistant_in(&sent);
    assert_eq!(message["reasoning_content"], "a😀");
    let blocks = json!([{ "type": "thinking", "thinking": "b🌍 c\u{fffd}" }]);
    assert_eq!(message["thinking_blocks"], blocks);

    // At the end of an answer, in text and in the names of arguments.
    let odd = r#"{\"pattern\":\"*\",\"\ud83d\":1}"#;
    let function = format!(r#"{{"name":"Glob","arguments":"{odd}"}}"#);
    let entry = format!(r#"{{"index":0,"id":"c1","function":{function}}}"#);
    upstream.round(
        [vec![piece(&format!(r#"{{"tool_calls":[{entry}]}}"#))], end("tool_calls")].concat(),
    );
    upstream.round([vec![piece(r#"{"content":"So\ud83d"}"#)], end("stop")].concat());
    assert_eq!(server.client().chat(&ask("Again.")).await.text(), "So\u{fffd}");
    let sent = upstream.request(3).await.json();
    let written = assistant_in(&sent)["tool_calls"][0]["function"]["arguments"].clone();
    assert_eq!(written, r#"{"pattern":"*","\ufffd":1}"#);
    let told = answers(&upstream, 3).await.remove(0);
    assert!(told.contains("U+FFFD") && !told.starts_with("Error"), "{told}");
}

#[tokio::test]
async fn lists_and_objects_that_came_as_text_are_taken_at_any_depth() {
    let todo = json!({ "content": "Look", "status": "pending", "activeForm": "Looking" });
    let list = json!([todo]);
    for todos in [
        json!(list.to_string()),
        json!([todo.to_string()]),
        json!(json!([todo.to_string()]).to_string()),
        json!(json!(list.to_string()).to_string()),
        json!(format!("\n{list:#}\n")),
    ] {
        let upstream = Upstream::start();
        let server = free(&upstream).await;
        upstream.round(calls(&[("c1", "TodoWrite", json!({ "todos": todos }))]));
        upstream.round(says("Done."));

        assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
        let told = answers(&upstream, 1).await.remove(0);
        assert!(!told.starts_with("Error"), "{todos}: {told}");
    }
    // A part of it is none.
    let upstream = Upstream::start();
    let server = free(&upstream).await;
    upstream.round(calls(&[("c1", "TodoWrite", json!({ "todos": format!("{list} and more") }))]));
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
    assert!(answers(&upstream, 1).await[0].starts_with("Error"));
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
async fn wire_52_where_nothing_has_run_the_status_is_the_one_of_the_failure() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .config("upstream.retries", "0")
        .config("permissions.deny", r#"["Bash(touch *)"]"#)
        .free()
        .start()
        .await;
    for (name, input) in [
        ("Nobody", json!({})),
        ("Bash", json!({ "command": 5 })),
        ("Bash", json!({ "command": "touch ran" })),
    ] {
        upstream.round(calls(&[("c1", name, input.clone())]));
        upstream.round(vec![Step::Close]);
        let failed = server.client().chat(&ask("Go.")).await;
        assert_eq!(failed.refusal(), (502, "upstream_error".to_owned()), "{name} {input}");

        // The same request runs anew.
        upstream.round(says("Better."));
        assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Better.", "{name} {input}");
    }
    assert!(!server.workspace().join("ran").exists());

    // What only reads has run.
    upstream.round(calls(&[("c1", "Glob", json!({ "pattern": "*" }))]));
    upstream.round(vec![Step::Close]);
    let failed = server.client().chat(&ask("Go.")).await;
    assert_eq!(failed.refusal(), (400, "upstream_error".to_owned()));
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
