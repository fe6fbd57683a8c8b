//! Tests calls of the server's tools, valid and invalid, and what the model is told of them.

use serde_json::{Value, json};

use super::{answers, assistant_in};
use crate::support::chunks::{call, call_head, call_piece, calls, done, end, finish, says, text};
use crate::support::client::{ask, ask_streamed};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

#[tokio::test]
async fn the_model_reads_a_file_and_answers() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    upstream.round(calls(&[("call_1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(says("It says needle."));

    let answer = server.client().chat(&ask("What do the notes say?")).await;

    assert_eq!(answer.text(), "It says needle.");
    let body = answer.json();
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!(body["choices"][0]["message"].get("tool_calls"), None);
    assert_eq!(body["toolhand"]["rounds"], 2);
    assert_eq!(body["toolhand"]["tool_calls"], 1);
    let second = upstream.request(1).await.json();
    let asked = assistant_in(&second);
    assert_eq!(asked["tool_calls"][0]["id"], "call_1");
    assert_eq!(asked["tool_calls"][0]["function"]["name"], "Read");
    assert!(answers(&upstream, 1).await[0].contains("needle"));
}

#[tokio::test]
async fn answers_keep_the_order_of_the_calls_and_a_failure_stops_no_neighbour() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).file("a.txt", "first\n").file("b.txt", "second\n").start().await;
    upstream.round(calls(&[
        ("c1", "Read", json!({ "file_path": "a.txt" })),
        ("c2", "Read", json!({ "file_path": "missing.txt" })),
        ("c3", "Grep", json!({ "pattern": "second" })),
        ("c4", "Read", json!({ "file_path": "b.txt" })),
    ]));
    upstream.round(says("Done."));

    let answer = server.client().streamed(&ask_streamed("Read them.")).await;

    assert_eq!(answer.text(), "Done.");
    let answers = answers(&upstream, 1).await;
    assert!(answers[0].contains("first"), "{answers:?}");
    assert!(answers[1].starts_with("Error: "), "{answers:?}");
    assert!(answers[2].contains("b.txt"), "{answers:?}");
    assert!(answers[3].contains("second"), "{answers:?}");
}

#[tokio::test]
async fn a_command_runs_where_the_operator_said_so() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    upstream.round(calls(&[
        ("c1", "Bash", json!({ "command": "echo made > new.txt; pwd; exit 3" })),
        ("c2", "Read", json!({ "file_path": "new.txt" })),
    ]));
    upstream.round(says("Done."));

    server.client().streamed(&ask_streamed("Run it.")).await;

    let answers = answers(&upstream, 1).await;
    assert!(answers[0].contains("workspace") && answers[0].contains("Exit code 3"), "{answers:?}");
    assert!(answers[1].contains("made"), "{answers:?}");
}

#[tokio::test]
async fn what_would_ask_is_told_what_would_allow_it_where_nobody_is_asked() {
    let upstream = Upstream::start();
    let nobody = r#""none""#;
    let server = Server::builder(&upstream).config("approval.channel", nobody).start().await;
    upstream.round(calls(&[
        ("c1", "Bash", json!({ "command": "touch ran" })),
        ("c2", "Write", json!({ "file_path": "new.txt", "content": "made" })),
    ]));
    upstream.round(says("Not allowed."));

    server.client().streamed(&ask_streamed("Run it.")).await;

    let answers = answers(&upstream, 1).await;
    assert!(answers.iter().all(|answer| answer.starts_with("Error: ")), "{answers:?}");
    assert!(answers[0].contains("permission"), "{answers:?}");
    assert!(answers[1].contains("permission"), "{answers:?}");
    assert!(!server.workspace().join("ran").exists());
    assert!(!server.workspace().join("new.txt").exists());
}

/// Plays one round of invalid calls. None of them may run, and the model must be told why.
async fn check_bad_calls(round: Vec<crate::support::upstream::Step>, expected: &[&str]) {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().file("notes.txt", "needle\n").start().await;
    upstream.round(round);
    upstream.round(says("I see."));

    let answer = server.client().streamed(&ask_streamed("Try.")).await;

    assert!(answer.text().ends_with("I see."), "{}", answer.text());
    let answers = answers(&upstream, 1).await;
    assert_eq!(answers.len(), expected.len(), "{answers:?}");
    for (answer, expected) in answers.iter().zip(expected) {
        assert!(answer.starts_with("Error: ") && answer.contains(expected), "{answers:?}");
    }
    assert!(!server.workspace().join("ran").exists());
}

#[tokio::test]
async fn an_unknown_tool_is_named() {
    let round = calls(&[("c1", "Raed", json!({ "file_path": "notes.txt" }))]);
    check_bad_calls(round, &["no tool named Raed is available"]).await;
}

#[tokio::test]
async fn arguments_that_do_not_parse_never_run() {
    let bash = |arguments: &str| {
        let call = vec![call_head(0, "c1", "Bash"), call_piece(0, arguments)];
        [call, end("tool_calls")].concat()
    };
    for (arguments, told) in [
        (
            r#"{"command": touch ran}"#,
            "the arguments are not one JSON object: expected ident at line 1 column 14",
        ),
        (
            r#"{"command": "touch ran"} and so on"#,
            "unexpected 'a' after the end of the object, at byte 26",
        ),
        ("touch ran", "unexpected 't' where an object should begin, at byte 1"),
        (r#"["touch ran"]"#, "unexpected '[' where an object should begin, at byte 1"),
        (r#"{"command": 7}"#, "`command`: expected string, got number 7"),
        (r#"{"comand": "touch ran"}"#, "`command` is missing"),
    ] {
        check_bad_calls(bash(arguments), &[told]).await;
    }
}

#[tokio::test]
async fn a_call_cut_off_by_the_output_limit_never_runs() {
    let cut = vec![
        text("I write."),
        call_head(0, "c1", "Bash"),
        call_piece(0, r#"{"command": "touch ran && echo "#),
    ];
    check_bad_calls([cut, end("length")].concat(), &["cut off by the output limit"]).await;
    // Whole, but never sealed: the model may have meant to continue.
    let whole = call(0, "c1", "Bash", &json!({ "command": "touch ran" }));
    check_bad_calls([whole, end("length")].concat(), &["cut off by the output limit"]).await;
}

#[tokio::test]
async fn the_call_past_the_limit_of_a_round_gets_an_error() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let ids: Vec<String> = (0..33).map(|number| format!("c{number}")).collect();
    let reads: Vec<(&str, &str, Value)> =
        ids.iter().map(|id| (&**id, "Read", json!({ "file_path": "notes.txt" }))).collect();
    upstream.round(calls(&reads));
    upstream.round(says("Enough."));

    server.client().streamed(&ask_streamed("Read a lot.")).await;

    let answers = answers(&upstream, 1).await;
    assert_eq!(answers.len(), 33);
    assert!(answers[..32].iter().all(|answer| answer.contains("needle")), "{answers:?}");
    assert!(answers[32].starts_with("Error: "), "{answers:?}");
}

#[tokio::test]
async fn calls_without_ids_get_some_and_object_arguments_are_read() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let odd = crate::support::chunks::delta(&json!({ "tool_calls": [{
        "function": { "name": "Read", "arguments": { "file_path": "notes.txt" } },
    }]}));
    upstream.round(vec![odd, finish("stop"), done()]);
    upstream.round(says("Done."));

    server.client().streamed(&ask_streamed("Read it.")).await;

    let second = upstream.request(1).await.json();
    let id = assistant_in(&second)["tool_calls"][0]["id"].as_str().expect("an id").to_owned();
    assert!(!id.is_empty());
    assert!(answers(&upstream, 1).await[0].contains("needle"));
}

#[tokio::test]
async fn the_round_limit_ends_the_turn() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .config("turns.max_rounds", "2")
        .file("notes.txt", "needle\n")
        .start()
        .await;
    for _ in 0..2 {
        upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    }

    let answer = server.client().streamed(&ask_streamed("Go on and on.")).await;

    assert_eq!(answer.finish_reason.as_deref(), Some("length"));
    assert_eq!(answer.toolhand["rounds"], 2);
}
