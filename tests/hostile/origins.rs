//! Tests what browsers send: hosts, origins, simple requests.

use super::door;
use crate::support::chunks::says;
use crate::support::client::{Client, ask};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// `(status, code)` of `GET /v1/models` with this `Host`.
async fn with_host(client: &Client, host: &str) -> (u16, String) {
    client.clone().header("host", host).get("/v1/models").await.refusal()
}

#[tokio::test]
async fn h6_h9_a_foreign_host_is_refused_before_the_key() {
    let (_upstream, server) = door().await;
    let port = server.address().port();
    for client in [server.client(), server.client().key(None)] {
        for host in [
            "evil.com".to_owned(),
            format!("evil.com:{port}"),
            format!("0.0.0.0:{port}"),
            format!("localhost.evil.com:{port}"),
            format!("127.0.0.1.nip.io:{port}"),
            "localhost:1".to_owned(),
        ] {
            let refused = with_host(&client, &host).await;
            assert_eq!(refused, (403, "host_not_allowed".to_owned()), "{host}");
        }
    }
}

#[tokio::test]
async fn h7_a_host_that_is_none_is_refused() {
    let (_upstream, server) = door().await;
    let port = server.address().port();
    let zero = format!("Host: 127.0.0.1:0{port}\r\n");
    let two = format!("Host: 127.0.0.1:{port}\r\nhost: 127.0.0.1:{port}\r\n");
    let list = format!("Host: 127.0.0.1:{port}, 127.0.0.1:{port}\r\n");
    let user = format!("Host: u:p@127.0.0.1:{port}\r\n");
    let path = format!("Host: 127.0.0.1:{port}/\r\n");
    let url = format!("Host: http://127.0.0.1:{port}\r\n");
    let high = format!("Host: l\u{f6}calhost:{port}\r\n");
    for headers in [
        &*zero,
        &two,
        &list,
        &user,
        &path,
        &url,
        &high,
        "",
        "Host: localhost\r\nHost: localhost\r\n",
        "Host: localhost/?a#\r\n",
        "Host: 127.0.0.1@evil\r\n",
        "Host: \r\n",
    ] {
        let request = format!("GET /health HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        let answers = server.client().raw(request.as_bytes()).await;
        assert_eq!(answers.len(), 1, "{headers}");
        assert_eq!(answers[0].refusal().0, 400, "{headers}");
    }
}

#[tokio::test]
async fn h8_the_target_and_the_host_are_both_judged() {
    let (_upstream, server) = door().await;
    let address = server.address();
    let request =
        format!("GET http://evil/health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let answers = server.client().raw(request.as_bytes()).await;
    assert_eq!(answers[0].refusal(), (403, "host_not_allowed".to_owned()));
}

#[tokio::test]
async fn h10_loopback_has_several_names() {
    let (_upstream, server) = door().await;
    let port = server.address().port();
    for host in ["LOCALHOST", "localhost", "[::1]", "127.0.0.1"] {
        let client = server.client().header("host", &format!("{host}:{port}"));
        assert_eq!(client.get("/v1/models").await.status(), 200, "{host}");
    }
}

#[tokio::test]
async fn h11_h12_a_foreign_origin_is_refused() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .config("cors.allow_origins", r#"["https://good.com"]"#)
        .start()
        .await;
    for origin in [
        "https://evil.com",
        "null",
        "http://localhost:3000.evil.com",
        "http://localhost.evil.com",
        "https://good.com.evil.com",
        "http://good.com",
        "https://good.com:8443",
        "https://evil.com#https://good.com",
    ] {
        let refused = server.client().header("origin", origin).get("/v1/models").await;
        assert_eq!(refused.refusal(), (403, "origin_not_allowed".to_owned()), "{origin}");
        let told = refused.head.headers.iter().any(|(name, _)| name.starts_with("access-control"));
        assert!(!told, "{origin}: {:?}", refused.head);
    }
    let good = server.client().header("origin", "https://good.com").get("/v1/models").await;
    assert_eq!(good.status(), 200);
    assert_eq!(good.header("access-control-allow-origin"), Some("https://good.com"));
}

#[tokio::test]
async fn wire_52_origins_of_programs_are_allowed_where_they_are_listed() {
    const LISTED: [&str; 5] = [
        "app://obsidian.md",
        "capacitor://localhost",
        "tauri://localhost",
        "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
        "moz-extension://0a1b2c3d-0000-4000-8000-000000000000",
    ];
    let upstream = Upstream::start();
    let listed = serde_json::json!(LISTED).to_string();
    let server = Server::builder(&upstream).config("cors.allow_origins", &listed).start().await;
    for origin in LISTED {
        let told = server.client().header("origin", origin).get("/v1/models").await;
        assert_eq!(told.status(), 200, "{origin}");
        assert_eq!(told.header("access-control-allow-origin"), Some(origin));
    }
    for origin in ["app://other", "tauri://localhost.evil.com", "capacitor://localhost:1", "app://"]
    {
        let refused = server.client().header("origin", origin).get("/v1/models").await;
        assert_eq!(refused.refusal(), (403, "origin_not_allowed".to_owned()), "{origin}");
    }
}

#[tokio::test]
async fn h13_only_preflights_of_known_origins_are_answered() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .config("cors.allow_origins", r#"["https://good.com"]"#)
        .start()
        .await;
    let preflight = |origin: &str| {
        server
            .client()
            .key(None)
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization")
            .header("access-control-request-private-network", "true")
    };
    let foreign = preflight("https://evil.com").send("OPTIONS", "/v1/chat/completions", None).await;
    assert_eq!(foreign.status(), 403);
    let told = foreign.head.headers.iter().any(|(name, _)| name.starts_with("access-control"));
    assert!(!told, "{:?}", foreign.head);

    let known = preflight("https://good.com").send("OPTIONS", "/v1/chat/completions", None).await;
    assert!([200, 204].contains(&known.status()));
    assert_eq!(known.header("access-control-allow-origin"), Some("https://good.com"));
    assert_eq!(known.header("access-control-allow-credentials"), None);
}

#[tokio::test]
async fn h14_a_simple_request_has_no_effect() {
    let (_upstream, server) = door().await;
    for kind in [
        "text/plain",
        "text/plain;charset=UTF-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "",
    ] {
        let client = server.client().header("content-type", kind);
        for path in ["/v1/chat/completions", "/v1/embeddings"] {
            let refused = client.post(path, &ask("Hi")).await;
            assert_eq!(refused.refusal(), (415, "unsupported_content_type".to_owned()), "{kind}");
        }
    }
}

#[tokio::test]
async fn h14_json_may_say_its_charset() {
    let (upstream, server) = door().await;
    upstream.round(says("Yes."));
    let client = server.client().header("content-type", "Application/JSON; charset=utf-8");
    assert_eq!(client.chat(&ask("Hi")).await.status(), 200);
}

#[tokio::test]
async fn h15_a_picture_on_a_foreign_page_reaches_nothing() {
    let (_upstream, server) = door().await;
    let client = server.client().header("sec-fetch-site", "cross-site");
    assert_eq!(client.get("/v1/models").await.refusal().0, 403);
}

#[tokio::test]
async fn h16_there_are_no_web_sockets() {
    let (_upstream, server) = door().await;
    let client = server
        .client()
        .header("origin", "https://evil.com")
        .header("upgrade", "websocket")
        .header("connection", "upgrade")
        .header("sec-websocket-key", "AAAA");
    assert_eq!(client.get("/v1/models").await.refusal().0, 403);
}
