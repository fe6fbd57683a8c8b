//! Servers that hang, die, flood, and ask for what they are not given.

use std::fs;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use super::{
    allowed, call, count, doing, has, heard, offered_names, one, states, text, told, tool, until,
};
use crate::support::chunks::{calls, says};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::support::watch;
use crate::turn::answers_in;

fn good() -> Value {
    doing(json!([{ "result": text("done") }]))
}

#[tokio::test]
async fn calls_of_a_server_overlap_only_where_the_operator_says_so() {
    let upstream = Upstream::start();
    // Two calls are answered when both have come.
    let script = json!({
        "tools": (["first", "second"].map(tool)), "on_call": [{ "pair": text("both") }],
    });
    for (more, first) in [
        ("shared = true\ntimeout = \"60s\"", "both"),
        ("shared = [\"second\"]\ntimeout = \"3s\"", "did not answer in time"),
        ("timeout = \"3s\"", "did not answer in time"),
    ] {
        let server = allowed(&upstream, &[("s", script.clone(), more)]).start().await;
        let both = [("a", "mcp__s__first", json!({})), ("b", "mcp__s__second", json!({}))];
        upstream.round(calls(&both));
        upstream.round(says("Done."));
        assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
        let answers = answers_in(&upstream.requests().pop().expect("a request").json());
        has(&answers[0], &[first]);
        assert_eq!(answers[1], "both", "{more}");
    }
}

#[tokio::test]
async fn m6_a_server_that_never_answers_leaves_the_others_alone() {
    let upstream = Upstream::start();
    let impatient = "start_timeout = \"3s\"";
    let servers = [
        ("good", good(), ""),
        ("listless", json!({ "on_list": [{ "hang": 1 }] }), impatient),
        ("mute", json!({ "on_initialize": [{ "hang": 1 }] }), impatient),
    ];
    let server = allowed(&upstream, &servers).config("mcp.backoff", "[]").start().await;
    assert_eq!(one(&server, &upstream, call("mcp__good__do")).await, "done");
    let states = states(&server).await;
    let words: Vec<_> = states.iter().map(|state| state["state"].as_str()).collect();
    assert_eq!(words, [Some("ready"), Some("off"), Some("off")], "{states:?}");
    assert_eq!(offered_names(&server, &upstream).await, ["mcp__good__do"]);
}

#[tokio::test]
async fn m6_a_call_that_is_never_answered_is_given_up_and_told() {
    let upstream = Upstream::start();
    let servers = [
        ("mute", doing(json!([{ "hang": 1 }])), "timeout = \"100ms\""),
        ("slow", doing(json!([{ "hang": 1 }])), "max_time = \"100ms\""),
    ];
    let server = allowed(&upstream, &servers).start().await;
    for (name, tool) in [("mute", "mcp__mute__do"), ("slow", "mcp__slow__do")] {
        let answer = one(&server, &upstream, call(tool)).await;
        has(&answer, &["Error: ", "whether the call took effect is unknown"]);
        hears(&server, name, "notifications/cancelled", 1).await;
        assert_eq!(count(&server, name, "tools/call"), 1);
    }
}

#[tokio::test]
async fn m7_a_server_that_dies_in_a_call_comes_back_and_the_call_is_not_repeated() {
    let upstream = Upstream::start();
    let script = json!({ "tools": [tool("die"), tool("do")], "calls": {
        "die": [{ "exit": 7 }], "do": [{ "result": text("done") }],
    } });
    let servers = [("s", script, ""), ("good", good(), "")];
    let server = allowed(&upstream, &servers).start().await;
    let answers = told(&server, &upstream, &[call("mcp__s__die"), call("mcp__good__do")]).await;
    has(&answers[0], &["Error: ", "ended while this call ran; whether it took effect is unknown"]);
    assert_eq!(answers[1], "done");
    hears(&server, "s", "tools/list", 2).await;
    until_ready(&server, 1).await;
    assert_eq!(one(&server, &upstream, call("mcp__s__do")).await, "done");
    assert_eq!(count(&server, "s", "tools/call"), 2);
}

#[tokio::test]
async fn m6_the_first_turn_waits_no_longer_than_it_may_and_a_late_server_joins_the_next() {
    let upstream = Upstream::start();
    let mut script = good();
    script["on_start"] = json!([{ "read": "gate" }]);
    let builder = allowed(&upstream, &[("s", script, "start_timeout = \"10m\"")])
        .config("mcp.first_turn_wait", r#""50ms""#);
    let gate = builder.workspace().join("gate");
    mkfifoat(CWD, &gate, Mode::RWXU).expect("a pipe");
    let server = builder.start().await;

    assert_eq!(offered_names(&server, &upstream).await, [""; 0]);
    assert_eq!(states(&server).await[0]["state"], "starting");

    // Returns when the server reads.
    let opened = tokio::task::spawn_blocking(move || fs::write(gate, ""));
    watch("the server to go on", opened).await.expect("a task").expect("our own pipe");
    until_ready(&server, 0).await;
    assert_eq!(offered_names(&server, &upstream).await, ["mcp__s__do"]);
    assert_eq!(one(&server, &upstream, call("mcp__s__do")).await, "done");
}

#[tokio::test]
async fn m6_a_cancelled_turn_tells_the_server() {
    let upstream = Upstream::start();
    let script = doing(json!([{ "hang": 1 }]));
    let server = allowed(&upstream, &[("s", script, "")]).start().await;
    upstream.round(calls(&[("c", "mcp__s__do", json!({}))]));
    let client = server.client();
    let stream = client.stream(&ask_streamed("Go.")).await;
    hears(&server, "s", "tools/call", 1).await;

    let turn = stream.head.header("x-toolhand-turn").expect("a turn").to_owned();
    let cancel = format!("/toolhand/v1/turns/{turn}/cancel");
    assert_eq!(client.send("POST", &cancel, None).await.json()["cancelled"], true);

    hears(&server, "s", "notifications/cancelled", 1).await;
    assert_eq!(stream.finish().await.code(), "cancelled");
    assert_eq!(count(&server, "s", "tools/call"), 1);
}

/// Waits until a scripted server has heard a line with these words so many times.
async fn hears(server: &Server, name: &str, words: &str, times: usize) {
    let has_heard = || {
        let heard = heard(server, name);
        heard.iter().filter(|line| line.contains(words)).count() >= times
    };
    let waiting = async {
        while !has_heard() {
            tokio::task::yield_now().await;
        }
    };
    watch(&format!("{name} to hear {words}"), waiting).await;
}

/// Waits until the server at this place, by name, is ready.
async fn until_ready(server: &Server, place: usize) {
    let ready = async { while states(server).await[place]["state"] != "ready" {} };
    watch("a server that is ready", ready).await;
}

#[tokio::test]
async fn m7_a_server_that_dies_at_each_start_is_off_after_its_restarts() {
    let upstream = Upstream::start();
    let servers = [("loops", json!({ "on_start": [{ "exit": 3 }] }), ""), ("ok", good(), "")];
    let server = allowed(&upstream, &servers).start().await;
    assert_eq!(one(&server, &upstream, call("mcp__ok__do")).await, "done");
    until(&server, "it to be off", |state| state["state"] == "off").await;
    assert_eq!(states(&server).await[0]["why"], "exit code 3");
    let answer = one(&server, &upstream, call("mcp__loops__do")).await;
    assert_eq!(answer, "Error: the MCP server loops is not running: exit code 3");
}

#[tokio::test]
async fn m8_noise_and_floods_are_passed_over_and_a_long_line_ends_the_server() {
    let upstream = Upstream::start();
    let noise = json!([
        { "raw": { "text": "starting up…\n\u{0}\n{}\n[]\n{\"half\": \n", "times": 100 } },
        { "stderr": 4_000_000 },
    ]);
    let long = json!([{ "raw": { "text": "xxxxxxxxxx", "times": 1_000_000 } }]);
    let half = json!([{ "raw": { "text": "{\"jsonrpc\": \"2.0\", \"id\"" } }, { "exit": 0 }]);
    let script = json!({
        "on_start": noise,
        "tools": (["do", "half", "long"].map(tool)),
        "calls": { "do": [{ "result": text("done") }], "half": half, "long": long },
    });
    let server = allowed(&upstream, &[("s", script, "")]).start().await;
    assert_eq!(one(&server, &upstream, call("mcp__s__do")).await, "done");
    for bad in ["mcp__s__half", "mcp__s__long"] {
        until_ready(&server, 0).await;
        let answer = one(&server, &upstream, call(bad)).await;
        has(&answer, &["Error: ", "whether it took effect is unknown"]);
        hears(&server, "s", "tools/list", if bad.ends_with("half") { 2 } else { 3 }).await;
    }
    until_ready(&server, 0).await;
    assert_eq!(one(&server, &upstream, call("mcp__s__do")).await, "done");
}

#[tokio::test]
async fn m9_foreign_answers_are_dropped_and_what_a_server_asks_is_refused() {
    let upstream = Upstream::start();
    let ask = |id: u32, method: &str| {
        json!({ "send": { "id": id, "method": method, "params": {
            "messages": [], "maxTokens": 1, "message": "Your password?",
            "requestedSchema": { "type": "object", "properties": {} },
        } } })
    };
    let foreign = |id: u32| json!({ "send": { "id": id, "result": text("foreign") } });
    let script = doing(json!([
        foreign(999), foreign(0), ask(1, "sampling/createMessage"), ask(2, "elicitation/create"),
        ask(3, "roots/list"), { "result": text("done") }, { "result": text("twice") },
    ]));
    let server = allowed(&upstream, &[("s", script, "")]).start().await;
    assert_eq!(one(&server, &upstream, call("mcp__s__do")).await, "done");
    hears(&server, "s", "-32601", 3).await;
    assert_eq!(one(&server, &upstream, call("mcp__s__do")).await, "done");
    let log = fs::read_to_string(server.workspace().join("s.log")).expect("a log");
    assert!(!log.contains("\"role\"") && !log.contains("roots\":"), "{log}");
}

#[tokio::test]
async fn the_client_is_told_how_far_a_call_is() {
    let upstream = Upstream::start();
    let script = doing(json!([{ "progress": 1 }, { "hang": 1 }]));
    let server = allowed(&upstream, &[("s", script, "")]).start().await;
    upstream.round(calls(&[("c", "mcp__s__do", json!({}))]));
    let body = with(ask_streamed("Go."), json!({ "toolhand": { "progress": "events" } }));
    let mut stream = server.client().stream(&body).await;
    let told = stream.until_progress("tool_output").await;
    let expected =
        json!({ "type": "tool_output", "id": "c", "tool": "mcp__s__do", "text": "0/1 step" });
    assert_eq!(told, expected);
}
