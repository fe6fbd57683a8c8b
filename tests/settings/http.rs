//! Tests `server`, `auth`, `log` and the limits on what clients send.

use serde_json::{Value, json};

use crate::support::chunks::says;
use crate::support::client::{Answer, Client, ask, with};
use crate::support::server::{KEY, Server};
use crate::support::upstream::Upstream;

#[tokio::test]
async fn further_hosts_are_let_in_by_name() {
    let upstream = Upstream::start();
    let list = r#"["chat.example", "other.example:81"]"#;
    let server = Server::builder(&upstream).config("server.allowed_hosts", list).start().await;
    for (host, status) in [
        ("chat.example", 200),
        ("chat.example:9000", 200),
        ("other.example:81", 200),
        ("other.example:82", 403),
        ("sub.chat.example", 403),
    ] {
        let answer = server.client().header("host", host).get("/health").await;
        assert_eq!(answer.status(), status, "{host}");
    }
}

/// The status of a request with a wrong key that a proxy forwards for this address.
async fn forwarded(server: &Server, address: &str) -> u16 {
    let client = Client::new(server.address(), "sk-wrong").header("x-forwarded-for", address);
    client.get("/v1/models").await.status()
}

#[tokio::test]
async fn a_trusted_proxy_tells_whose_wrong_key_it_was() {
    let upstream = Upstream::start();
    for (trusted, other) in [(r#"["127.0.0.1"]"#, 401), ("[]", 429)] {
        let server = Server::builder(&upstream)
            .config("limits.wrong_keys_per_minute", "1")
            .config("server.trusted_proxies", trusted)
            .start()
            .await;

        assert_eq!(forwarded(&server, "192.0.2.1").await, 401);
        assert_eq!(forwarded(&server, "192.0.2.1").await, 429);
        assert_eq!(forwarded(&server, "192.0.2.2").await, other);
        assert_eq!(server.client().get("/v1/models").await.status(), 200);
    }
}

/// The peer is on loopback and a trusted proxy, and says so of whom it speaks for.
#[tokio::test]
async fn x11_no_address_stands_for_a_key() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .config("server.trusted_proxies", r#"["127.0.0.1", "::1"]"#)
        .start()
        .await;
    let localhost = format!("localhost:{}", server.address().port());
    let body = ask("Hi").to_string();
    for (name, value) in [
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-host", "localhost"),
        ("x-real-ip", "127.0.0.1"),
        ("forwarded", "for=127.0.0.1;host=localhost"),
        ("host", &*localhost),
    ] {
        let nobody = server.client().key(None).header(name, value);
        for (method, path) in [
            ("POST", "/v1/chat/completions"),
            ("GET", "/v1/models"),
            ("GET", "/toolhand/v1/status"),
            ("GET", "/toolhand/v1/sessions"),
            ("GET", "/toolhand/v1/approvals"),
        ] {
            let body = (method == "POST").then_some(body.as_bytes());
            let refused = nobody.send(method, path, body).await;
            let expected = (401, "invalid_api_key".to_owned());
            assert_eq!(refused.refusal(), expected, "{name} {path}");
        }
    }
}

#[tokio::test]
async fn x11_a_request_behind_one_with_a_key_needs_its_own() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let kept = server.client().header("connection", "keep-alive");
    let with_key = kept.request("GET", "/toolhand/v1/sessions", None);
    let without = server.client().key(None).request("GET", "/toolhand/v1/sessions", None);

    let answers = server.client().raw(&[with_key, without].concat()).await;

    let statuses: Vec<u16> = answers.iter().map(Answer::status).collect();
    assert_eq!(statuses, [200, 401]);
}

#[tokio::test]
async fn keys_can_be_done_without() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("auth.required", "false").start().await;
    assert_eq!(server.client().key(None).get("/v1/models").await.status(), 200);
}

#[tokio::test]
async fn what_a_request_declares_is_bounded() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .config("limits.client_tools", "2")
        .config("limits.schema", r#""1KiB""#)
        .start()
        .await;
    let tools = |count: usize, description: &str| {
        let tool = |at: usize| {
            let city = json!({ "type": "string", "description": description });
            let parameters = json!({ "type": "object", "properties": { "city": city } });
            let function = json!({ "name": format!("own_{at}"), "parameters": parameters });
            json!({ "type": "function", "function": function })
        };
        with(ask("Hi"), json!({ "tools": (0..count).map(tool).collect::<Vec<Value>>() }))
    };
    upstream.round(says("Hi."));

    assert_eq!(server.client().chat(&tools(2, "short")).await.status(), 200);
    for body in [tools(3, "short"), tools(1, &"long ".repeat(300))] {
        assert_eq!(server.client().chat(&body).await.refusal().0, 400);
    }
}

#[tokio::test]
async fn a_head_may_be_so_large() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("limits.head_bytes", r#""2KiB""#).start().await;
    let with_header = |bytes: usize| server.client().header("x-long", &"x".repeat(bytes));
    assert_eq!(with_header(1000).get("/health").await.status(), 200);
    assert_eq!(with_header(4000).get("/health").await.status(), 431);
}

#[tokio::test]
async fn the_log_is_as_the_operator_wants_it() {
    let upstream = Upstream::start();
    let mut json = Server::builder(&upstream).config("log.format", r#""json""#).start().await;
    assert!(json.stop().expect("a status").success());
    let log = json.log();
    let lines: Vec<Value> = log
        .lines()
        // This one is no part of the log.
        .filter(|line| *line != "stopped")
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    assert!(lines.iter().any(|line| line["message"] == "listening"), "{log}");

    let mut quiet = Server::builder(&upstream).config("log.level", r#""off""#).start().await;
    assert!(quiet.stop().expect("a status").success());
    assert_eq!(quiet.log(), "stopped\n");
}

#[tokio::test]
async fn keys_and_questions_are_never_logged() {
    let upstream = Upstream::start();
    let mut server = Server::builder(&upstream)
        .config("log.level", r#""debug""#)
        .environment("TOOLHAND_UPSTREAM_API_KEY", "sk-of-upstream")
        .start()
        .await;
    upstream.round(says("A quince."));

    server.client().chat(&ask("Which fruit?")).await;

    assert!(server.stop().expect("a status").success());
    let log = server.log();
    assert!(log.contains("listening"));
    for secret in [KEY, "sk-of-upstream", "Which fruit?", "A quince."] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}
