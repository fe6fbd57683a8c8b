//! Tests request heads: keys, paths, methods, and request smuggling.

use serde_json::Value;

use super::door;
use crate::support::chunks::{end, gate, says, text};
use crate::support::client::{Answer, Client, ask, ask_streamed};
use crate::support::server::{KEY, Server};

/// Every route, with a method that it takes.
const ROUTES: &[(&str, &str)] = &[
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/scripted"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/moderations"),
    ("POST", "/v1/rerank"),
    ("POST", "/v1/audio/speech"),
    ("POST", "/v1/audio/transcriptions"),
    ("POST", "/v1/images/generations"),
    ("GET", "/toolhand/v1/status"),
    ("GET", "/toolhand/v1/tools"),
    ("GET", "/openapi.yaml"),
];

#[tokio::test]
async fn h1_every_route_needs_the_key_but_health_and_ready() {
    let (_upstream, server) = door().await;
    let nobody = server.client().key(None);

    for (method, path) in ROUTES {
        let body = (*method == "POST").then(|| ask("Hi").to_string());
        let refused = nobody.send(method, path, body.as_ref().map(String::as_bytes)).await;
        assert_eq!(refused.refusal(), (401, "invalid_api_key".to_owned()), "{path}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"), "{path}");
    }
    let health = nobody.get("/health").await;
    assert_eq!((health.status(), health.body.as_slice()), (200, &br#"{"status":"ok"}"#[..]));
    assert_eq!(nobody.get("/ready").await.status(), 200);
}

#[tokio::test]
async fn h1_a_body_without_a_key_is_not_even_asked_for() {
    let (_upstream, server) = door().await;
    let client = server.client().key(None).header("expect", "100-continue");
    let head = client.request("POST", "/v1/chat/completions", Some(b""));
    let head =
        String::from_utf8(head).expect("ASCII").replace("content-length: 0", "content-length: 9");

    let answers = client.raw(head.as_bytes()).await;

    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].status(), 401);
}

#[tokio::test]
async fn h2_wrong_keys_are_refused_alike_and_then_slowed_down() {
    let (_upstream, server) = door().await;
    let wrong = |key: &str| server.client().key(Some(key));
    let mut texts = Vec::new();
    let long = "x".repeat(32 << 10);
    for key in ["sk-test-of-the-doom", "short", &long, "' OR 1=1--", "", "Bearer"] {
        let refused = wrong(key).get("/v1/models").await;
        assert_eq!(refused.status(), 401, "{key}");
        texts.push(refused.body);
    }
    assert!(texts.windows(2).all(|pair| pair[0] == pair[1]), "{texts:?}");

    for _ in 0..10 {
        wrong("again").get("/v1/models").await;
    }
    let slowed = wrong("again").get("/v1/models").await;
    assert_eq!(slowed.refusal(), (429, "too_many_wrong_keys".to_owned()));
    assert!(slowed.header("retry-after").is_some());
    // A missing key is not a wrong one, and a valid one always passes.
    assert_eq!(server.client().key(None).get("/v1/models").await.status(), 401);
    assert_eq!(server.client().get("/v1/models").await.status(), 200);
}

/// Sends a head unchanged, except that `HOST` and `KEY` are filled in.
async fn raw_status(server: &Server, request: &str) -> Vec<u16> {
    let host = server.address().to_string();
    let request = request.replace("HOST", &host).replace("KEY", KEY).replace('\n', "\r\n");
    let answers = server.client().raw(request.as_bytes()).await;
    answers.iter().map(Answer::status).collect()
}

/// Sends a head in the same way, and returns the error code of each answer.
async fn codes(server: &Server, request: &str) -> Vec<String> {
    let host = server.address().to_string();
    let request = request.replace("HOST", &host).replace("KEY", KEY).replace('\n', "\r\n");
    let answers = server.client().raw(request.as_bytes()).await;
    answers.iter().map(|answer| answer.refusal().1).collect()
}

#[tokio::test]
async fn h3_two_keys_are_none() {
    let (_upstream, server) = door().await;
    let two = "GET /v1/models HTTP/1.1\nHost: HOST\nAuthorization: Bearer KEY\n\
               Authorization: Bearer KEY\nConnection: close\n\n";
    assert_eq!(raw_status(&server, two).await, [400]);
}

#[tokio::test]
async fn h4_a_key_counts_in_one_place_only() {
    let (_upstream, server) = door().await;
    let nobody = server.client().key(None);
    for (name, value) in [
        ("x-api-key", KEY.to_owned()),
        ("api-key", KEY.to_owned()),
        ("cookie", format!("key={KEY}; authorization=Bearer {KEY}")),
        ("authorization", format!("Basic {KEY}")),
        ("authorization", KEY.to_owned()),
    ] {
        let refused = nobody.clone().header(name, &value).get("/v1/models").await;
        assert_eq!(refused.status(), 401, "{name}: {value}");
    }
    let refused = nobody.get(&format!("/v1/models?api_key={KEY}")).await;
    assert_eq!(refused.status(), 401);
}

#[tokio::test]
async fn h5_paths_have_one_spelling() {
    let (_upstream, server) = door().await;
    for path in [
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/v1/../x",
        "/v1/../health",
        "/v1/chat/completions/",
        "/v1/%2e%2e/health",
        "/V1/chat/completions",
        "/v1/chat/completions;x",
        "/v1/mcp/tools",
        "/v1/key/generate",
        "/v1/responses",
        "/v1/files",
        "/key/generate",
        "//",
    ] {
        for method in ["GET", "POST"] {
            let body = (method == "POST").then_some(&b"{}"[..]);
            let refused = server.client().send(method, path, body).await;
            assert_eq!(refused.refusal(), (404, "unknown_route".to_owned()), "{method} {path}");
        }
        let refused = server.client().key(None).get(path).await;
        assert!([401, 404].contains(&refused.status()), "{path}");
    }
}

#[tokio::test]
async fn h24_heads_that_are_too_large_are_refused() {
    let (_upstream, server) = door().await;
    let mut many = server.client();
    for number in 0..101 {
        many = many.header(&format!("x-{number}"), "1");
    }
    assert_eq!(many.get("/v1/models").await.status(), 431);
    let large = server.client().header("x-large", &"a".repeat(66 << 10));
    assert_eq!(large.get("/v1/models").await.status(), 431);
    let path = format!("/v1/models?{}", "a".repeat(70 << 10));
    assert!([414, 431].contains(&server.client().get(&path).await.status()));
}

#[tokio::test]
async fn h25_h26_bodies_have_one_length() {
    let (_upstream, server) = door().await;
    let post = |headers: &str, body: &str| {
        format!(
            "POST /v1/chat/completions HTTP/1.1\nHost: HOST\nAuthorization: Bearer KEY\n\
             Content-Type: application/json\n{headers}\nConnection: close\n\n{body}"
        )
    };
    for headers in [
        "Content-Length: 2\nContent-Length: 3",
        "Content-Length: +2",
        "Content-Length: -1",
        "Content-Length: 0x2",
        "Content-Length: 2, 2",
        "Content-Length: 2 2",
        "Content-Length: 2;",
        "Content-Length:",
        "Content-Length : 2",
        "Transfer-Encoding:",
        "Transfer-Encoding: \x0bchunked",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: identity",
        "X Y: a",
        ": a",
        "X: a\x7f",
        "Content-Length: 99999999999999999999999",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "X-Fold: a\n b",
        "X-Nul: a\0b",
    ] {
        assert_eq!(codes(&server, &post(headers, "{}")).await, ["invalid_value"], "{headers:?}");
    }
    // Heads that hyper could accept and other parsers read differently.
    for headers in [
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding: chunked\nTransfer-Encoding: chunked",
    ] {
        assert_eq!(
            codes(&server, &post(headers, "2\n{}\n0\n\n")).await,
            ["invalid_value"],
            "{headers:?}"
        );
    }
    // Both lengths: one answer, and the rest is never parsed as a request.
    let smuggled = "0\n\nGET /health HTTP/1.1\nHost: HOST\n\n";
    for headers in [
        "Content-Length: 5\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\nContent-Length: 5",
    ] {
        assert_eq!(raw_status(&server, &post(headers, smuggled)).await, [400], "{headers:?}");
    }
    let old = "POST /v1/chat/completions HTTP/1.0\nHost: HOST\nAuthorization: Bearer KEY\n\
               Content-Type: application/json\nTransfer-Encoding: chunked\n\n0\n\n";
    assert_eq!(raw_status(&server, old).await, [400]);
}

#[tokio::test]
async fn h27_chunks_have_honest_sizes() {
    let (_upstream, server) = door().await;
    let post = |body: &str| {
        format!(
            "POST /v1/chat/completions HTTP/1.1\nHost: HOST\nAuthorization: Bearer KEY\n\
             Content-Type: application/json\nTransfer-Encoding: chunked\nConnection: close\n\n{body}"
        )
    };
    for size in
        ["fffffffffffffffff", "ffffffffffffffff", "7fffffffffffffff", "-1", "+2", "0x2", "x"]
    {
        let body = format!("{size}\n{{}}\n0\n\n");
        assert_eq!(codes(&server, &post(&body)).await, ["invalid_value"], "{size}");
    }
    let extension = format!("2;{}\n{{}}\n0\n\n", "x".repeat(20 << 10));
    assert_eq!(raw_status(&server, &post(&extension)).await, [400]);
}

#[tokio::test]
async fn h28_bare_line_feeds_are_read_as_hyper_reads_them() {
    let (_upstream, server) = door().await;
    let request =
        format!("GET /health HTTP/1.1\nHost: {}\nConnection: close\n\n", server.address());
    let answers = server.client().raw(request.as_bytes()).await;
    assert_eq!(answers.iter().map(Answer::status).collect::<Vec<_>>(), [200]);
}

#[tokio::test]
async fn h29_pipelined_requests_are_answered_in_order() {
    let (upstream, server) = door().await;
    upstream.round(says("First."));
    upstream.round(says("Second."));
    let body = ask("Hi").to_string();
    let kept = server.client().header("connection", "keep-alive");
    let first = kept.request("POST", "/v1/chat/completions", Some(body.as_bytes()));
    let last = server.client().request("POST", "/v1/chat/completions", Some(body.as_bytes()));

    let answers = server.client().raw(&[first, last].concat()).await;

    let texts: Vec<String> = answers.iter().map(Answer::text).collect();
    assert_eq!(texts, ["First.", "Second."]);
}

#[tokio::test]
async fn h29_one_turn_at_a_time_runs_for_a_connection() {
    let (upstream, server) = door().await;
    upstream.round([vec![text("Fir"), gate("half"), text("st.")], end("stop")].concat());
    let body = ask("Hi").to_string();
    let kept = server.client().header("connection", "keep-alive");
    let first = kept.request("POST", "/v1/chat/completions", Some(body.as_bytes()));
    let last = server.client().request("POST", "/v1/chat/completions", Some(body.as_bytes()));
    let client = server.client();
    let both = [first, last].concat();
    let other = async {
        upstream.reached("half").await;
        // Whatever else the server does meanwhile, it must not begin the second request.
        for _ in 0..3 {
            assert_eq!(server.client().get("/ready").await.status(), 200);
        }
        assert_eq!(upstream.requests().len(), 1);
        upstream.round(says("Second."));
        upstream.open("half");
    };

    let (answers, ()) = tokio::join!(client.raw(&both), other);

    let texts: Vec<String> = answers.iter().map(Answer::text).collect();
    assert_eq!(texts, ["First.", "Second."]);
}

#[tokio::test]
async fn h30_h31_other_protocols_get_nothing() {
    let (_upstream, server) = door().await;
    let http2 = server.client().raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(http2.iter().all(|answer| answer.status() == 400), "{http2:?}");
    let tls = server.client().raw(&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]).await;
    assert!(tls.iter().all(|answer| answer.status() == 400), "{tls:?}");
    let connect = "CONNECT evil:443 HTTP/1.1\nHost: HOST\nConnection: close\n\n";
    let status = raw_status(&server, connect).await;
    assert!(matches!(status[..], [400..=405]), "{status:?}");
    let trace = server.client().send("TRACE", "/v1/chat/completions", None).await;
    assert!([404, 405].contains(&trace.status()));
}

#[tokio::test]
async fn h36_only_the_connections_end_ends_a_stream_of_http_1_0() {
    let (upstream, server) = door().await;
    let request = |body: &Value, connection: &str| {
        let body = body.to_string();
        format!(
            "POST /v1/chat/completions HTTP/1.0\r\nHost: {}\r\nAuthorization: Bearer {KEY}\r\n\
             {connection}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            server.address(),
            body.len(),
        )
    };
    for connection in ["Connection: keep-alive\r\n", "connection: Keep-Alive\r\n", ""] {
        upstream.round(says("Streamed."));
        let sent = request(&ask_streamed("Hi"), connection);
        // The server closes, or this would wait for ever.
        let answers = server.client().raw(sent.as_bytes()).await;
        assert_eq!(answers.len(), 1);
        let head = &answers[0].head;
        assert_eq!((head.status(), head.header("connection")), (200, Some("close")), "{head:?}");
        assert_eq!(head.header("transfer-encoding"), None, "{head:?}");
        let body = String::from_utf8_lossy(&answers[0].body);
        assert!(body.contains("Streamed.") && body.ends_with("data: [DONE]\n\n"), "{body}");
    }

    // An answer with a length keeps the connection for the next request.
    upstream.round(says("First."));
    upstream.round(says("Second."));
    let kept = request(&ask("Hi"), "Connection: keep-alive\r\n");
    let last = request(&ask("Hi"), "");
    let answers = server.client().raw([kept, last].concat().as_bytes()).await;
    let texts: Vec<String> = answers.iter().map(Answer::text).collect();
    assert_eq!(texts, ["First.", "Second."]);
}

#[tokio::test]
async fn h10_a_dot_at_the_end_of_our_name_changes_nothing() {
    let (_upstream, server) = door().await;
    let port = server.address().port();
    for (host, expected) in [
        (format!("localhost.:{port}"), 200),
        (format!("LOCALHOST.:{port}"), 200),
        (format!("localhost..:{port}"), 403),
        (format!("localhost.evil.com.:{port}"), 403),
        ("localhost.".to_owned(), 403),
    ] {
        let request = format!(
            "GET /v1/models HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {KEY}\r\n\
             Connection: close\r\n\r\n"
        );
        let answers = server.client().raw(request.as_bytes()).await;
        let statuses: Vec<u16> = answers.iter().map(Answer::status).collect();
        assert_eq!(statuses, [expected], "{host}");
    }
}

#[tokio::test]
async fn a_method_that_a_route_does_not_know_is_405() {
    let (_upstream, server) = door().await;
    for (method, path) in ROUTES {
        let other = if *method == "GET" { "POST" } else { "GET" };
        let body = (other == "POST").then_some(&b"{}"[..]);
        let refused = server.client().send(other, path, body).await;
        assert_eq!(refused.refusal(), (405, "method_not_allowed".to_owned()), "{path}");
        assert!(refused.header("allow").is_some_and(|allow| allow.contains(method)), "{path}");
    }
}

#[tokio::test]
async fn h34_forwarded_headers_grant_nothing() {
    let (_upstream, server) = door().await;
    let liar: Client = server
        .client()
        .key(None)
        .header("x-forwarded-for", "127.0.0.1")
        .header("x-forwarded-host", "localhost")
        .header("x-scopes", "admin");
    assert_eq!(liar.get("/v1/models").await.status(), 401);
    let host = server.client().header("host", "evil.com").header("x-forwarded-host", "localhost");
    assert_eq!(host.get("/v1/models").await.status(), 403);
}
