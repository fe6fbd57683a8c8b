//! Tests the keys of `[limits]` that bound one request.

use serde_json::{Value, json};

use crate::support::chunks::says;
use crate::support::client::{ask, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

#[tokio::test]
async fn v5_messages_and_their_calls_are_counted() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .config("limits.messages", "6")
        .config("limits.calls", "4")
        .start()
        .await;
    let list = |exchanges: usize, calls: usize| {
        let exchange = |round: usize| {
            let calls = (0..calls).map(|at| {
                json!({ "id": format!("c{round}_{at}"), "type": "function",
                    "function": { "name": "f", "arguments": "{}" } })
            });
            let asked = json!({ "role": "assistant", "tool_calls": calls.collect::<Vec<Value>>() });
            [asked, json!({ "role": "user", "content": "go on" })]
        };
        let messages: Vec<Value> = (0..exchanges).flat_map(exchange).collect();
        with(ask(""), json!({ "messages": messages }))
    };
    for (exchanges, calls) in [(3, 1), (2, 2), (1, 4)] {
        upstream.round(says("Hi."));
        assert_eq!(server.client().chat(&list(exchanges, calls)).await.status(), 200);
    }
    for (exchanges, calls, key) in
        [(4, 1, "limits.messages"), (3, 2, "limits.calls"), (1, 5, "limits.calls")]
    {
        let refused = server.client().chat(&list(exchanges, calls)).await;
        assert_eq!(refused.refusal(), (400, "invalid_value".to_owned()));
        let error = &refused.json()["error"];
        assert_eq!(error["param"], "messages");
        assert!(error["message"].as_str().expect("text").contains(key), "{error}");
    }
}

#[test]
fn a_limit_of_nothing_is_an_error_that_names_it() {
    for (key, zero) in [
        ("body", r#""0""#),
        ("upload", r#""0B""#),
        ("body_time", r#""0s""#),
        ("client_tools", "0"),
        ("schema", r#""0""#),
        ("messages", "0"),
        ("calls", "0"),
        ("header_time", r#""0s""#),
        ("idle_connection", r#""0s""#),
        ("head_bytes", r#""0""#),
        ("connections", "0"),
        ("unauthenticated_per_peer", "0"),
        ("runs", "0"),
        ("runs_per_key", "0"),
        ("wrong_keys_per_minute", "0"),
        ("line", r#""0""#),
        ("response", r#""0""#),
        ("buffers", r#""0""#),
        ("slow_client", r#""0ms""#),
    ] {
        let builder = crate::support::server::Builder::new("http://127.0.0.1:9/v1");
        let (status, _, told) = builder.config(&format!("limits.{key}"), zero).run();
        assert!(!status.success(), "{key}");
        assert!(told.contains(&format!("limits.{key}")) || told.contains(key), "{told}");
        assert!(told.contains("0 would refuse everything"), "{told}");
    }
    let builder = crate::support::server::Builder::new("http://127.0.0.1:9/v1");
    let (_, _, told) = builder.environment("TOOLHAND_LIMITS_RUNS", "0").run();
    assert!(told.contains("TOOLHAND_LIMITS_RUNS") && told.contains("refuse everything"), "{told}");
}
