//! Tests `upstream`, `models` and the limits on what upstream sends.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::chunks::{call, end, reasoning, says, status, text};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::{Builder, Server};
use crate::support::upstream::{Step, Upstream};
use crate::turn::assistant_in;

#[tokio::test]
async fn the_key_for_upstream_may_stand_in_a_file() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream);
    let key = builder.home().join("upstream-key");
    fs::write(&key, "sk-of-a-file\n").expect("a file");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("our own");
    let path = format!("{:?}", key.to_str().expect("UTF-8"));
    let server = builder.config("upstream.api_key_file", &path).start().await;
    upstream.round(says("Hi."));

    server.client().chat(&ask("Hi")).await;

    let sent = upstream.request(0).await;
    assert_eq!(sent.head.header("authorization"), Some("Bearer sk-of-a-file"));
}

#[tokio::test]
async fn a_proxy_is_asked_for_upstream() {
    let proxy = Upstream::start();
    let server = Builder::new("http://models.example/v1")
        .config("upstream.proxy", &format!("\"http://{}\"", proxy.address()))
        .environment("HTTP_PROXY", "http://127.0.0.1:9")
        .start()
        .await;
    proxy.answer("http://models.example/v1/chat/completions", says("Hi."));

    assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Hi.");
}

#[tokio::test]
async fn proxies_of_the_environment_are_not_used() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).environment("HTTP_PROXY", "http://127.0.0.1:9").start().await;
    upstream.round(says("Hi."));

    assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Hi.");
}

#[tokio::test]
async fn the_forwarded_routes_are_those_that_are_named() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).config("upstream.passthrough", r#"["responses"]"#).start().await;
    upstream.answer("/v1/responses", status(200, &json!({ "id": "resp" })));
    let body = json!({ "model": "m", "input": "Hi" });

    assert_eq!(server.client().post("/v1/responses", &body).await.json()["id"], "resp");
    let refused = server.client().post("/v1/embeddings", &body).await.refusal();
    assert_eq!(refused, (404, "unknown_route".to_owned()));
    assert_eq!(upstream.all_requests().len(), 1);
}

#[tokio::test]
async fn so_many_attempts_are_made() {
    for retries in [0, 3] {
        let upstream = Upstream::start();
        let server =
            Server::builder(&upstream).config("upstream.retries", &retries.to_string()).start();
        let server = server.await;
        upstream.otherwise(status(503, &json!({ "error": { "message": "Busy." } })));

        assert_eq!(server.client().chat(&ask("Hi")).await.status(), 502);
        assert_eq!(upstream.requests().len(), retries + 1);
    }
}

#[tokio::test]
async fn a_long_retry_after_is_not_waited_for() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).config("upstream.retry_max_wait", r#""1s""#).start().await;
    upstream.round(vec![Step::Answer {
        status: 429,
        headers: vec![("retry-after".to_owned(), "2".to_owned())],
        body: br#"{"error":{"message":"Slow down."}}"#.to_vec(),
    }]);

    let answer = server.client().chat(&ask("Hi")).await;

    assert_eq!(answer.refusal(), (429, "upstream_rate_limited".to_owned()));
    assert_eq!(answer.header("retry-after"), Some("2"));
}

#[tokio::test]
async fn the_models_own_reasoning_goes_back_unless_it_is_dropped() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .tables("[[models]]\nmatch = \"quiet-*\"\nreasoning = \"drop\"\n")
        .start()
        .await;
    for (at, (model, is_sent)) in [("quiet-1", false), ("loud-1", true)].into_iter().enumerate() {
        let glob = call(0, "c1", "Glob", &json!({ "pattern": "*" }));
        upstream.round([vec![reasoning("I think.")], glob, end("tool_calls")].concat());
        upstream.round(says("Done."));

        server.client().chat(&with(ask("Hi"), json!({ "model": model }))).await;

        let second = upstream.request(2 * at + 1).await.json();
        let said = assistant_in(&second).get("reasoning_content");
        assert_eq!(said, is_sent.then(|| json!("I think.")).as_ref(), "{model}");
    }
}

/// The error code for an answer with this many bytes in one line.
async fn code_of_long_answer(key: &str, limit: &str, bytes: usize) -> Value {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).config(key, limit).config("upstream.retries", "0").start();
    let server = server.await;
    upstream.round([vec![text("First.")], says(&"x".repeat(bytes))].concat());
    let answer = server.client().streamed(&ask_streamed("Hi")).await;
    answer.error.map_or(Value::Null, |error| error["code"].clone())
}

#[tokio::test]
async fn what_upstream_sends_is_bounded() {
    for key in ["limits.line", "limits.response"] {
        assert_eq!(code_of_long_answer(key, r#""64KiB""#, 100_000).await, "upstream_invalid");
        assert_eq!(code_of_long_answer(key, r#""64KiB""#, 10_000).await, Value::Null);
    }
}
