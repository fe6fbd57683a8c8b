//! Servers over HTTP as they are: errors in all bodies, sessions that are lost, answers that do not
//! come.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{has, states, until};
use crate::support::faults::{Asked, FaultUpstream, Step, answer, framed, head};
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::turn::one;

const JSON: &str = "content-type: application/json";

/// What answers a call, with its id, and how many have come before.
type Called = dyn Fn(&Value, usize) -> Vec<u8> + Send + Sync;

/// A server of the tool `do`.
fn site(called: impl Fn(&Value, usize) -> Vec<u8> + Send + Sync + 'static) -> FaultUpstream {
    let (called, calls): (Box<Called>, _) = (Box::new(called), AtomicUsize::new(0));
    FaultUpstream::start(Arc::new(move |asked: &Asked| {
        if asked.head.method() != "POST" {
            return vec![Step::Bytes(answer("405 Method Not Allowed", &[], b""))];
        }
        let request = asked.json();
        vec![Step::Bytes(match request["method"].as_str() {
            Some("tools/call") => called(&request["id"], calls.fetch_add(1, Ordering::Relaxed)),
            _ => usual(&request),
        })]
    }))
}

fn usual(request: &Value) -> Vec<u8> {
    let result = match request["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": { "tools": {} }, "serverInfo": { "name": "web", "version": "1" },
        }),
        Some("tools/list") => {
            json!({ "tools": [{ "name": "do", "inputSchema": { "type": "object" } }] })
        }
        _ => return answer("202 Accepted", &[], b""),
    };
    let body = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
    answer("200 OK", &[JSON, "mcp-session-id: s1"], body.to_string().as_bytes())
}

fn done(id: &Value) -> Vec<u8> {
    let result = json!({ "content": [{ "type": "text", "text": "done" }] });
    let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    answer("200 OK", &[JSON], body.as_bytes())
}

async fn start(upstream: &Upstream, site: &FaultUpstream) -> Server {
    let url = site.url();
    Server::builder(upstream)
        .config("mcp.first_turn_wait", r#""60s""#)
        .config("mcp.backoff", r#"["1ms", "1ms", "1ms"]"#)
        .config("approval.channel", r#""none""#)
        .config("permissions.allow", r#"["mcp__web"]"#)
        .tables(&format!("[mcp.servers.web]\nurl = {url:?}\n"))
        .start()
        .await
}

async fn called(server: &Server, upstream: &Upstream) -> String {
    one(server, upstream, ("c", "mcp__web__do", json!({}))).await
}

#[tokio::test]
async fn outside_47_an_error_in_any_body_ends_its_call_and_the_session_stays() {
    const HTML: &str = "content-type: text/html";
    const TEXT: &str = "content-type: text/plain";
    const EVENTS: &str = "content-type: text/event-stream";
    let rpc = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"no such row"}}}}"#
        )
    };
    let event = |id: &str| format!("event: message\ndata: {}\n\n", rpc(id));
    let cases: Vec<(&str, &str, String, &str)> = vec![
        ("400 Bad Request", JSON, rpc("null"), "HTTP 400: no such row"),
        ("406 Not Acceptable", JSON, rpc("\"server-error\""), "HTTP 406: no such row"),
        ("413 Too Large", JSON, rpc("true"), "HTTP 413: no such row"),
        ("422 Unprocessable", JSON, format!("[{}]", rpc("null")), "HTTP 422: no such row"),
        ("429 Too Many", JSON, rpc("null"), "HTTP 429: no such row"),
        ("500 Internal", JSON, rpc("{}"), "HTTP 500: no such row"),
        ("503 Unavailable", JSON, rpc("1.5"), "HTTP 503: no such row"),
        ("400 Bad Request", JSON, r#"{"error":"no such row"}"#.into(), "HTTP 400: no such row"),
        ("400 Bad Request", JSON, r#"{"detail":"no such row"}"#.into(), "HTTP 400: no such row"),
        ("400 Bad Request", TEXT, "no such row".into(), "HTTP 400"),
        ("400 Bad Request", HTML, "<h1>no such row</h1>".into(), "HTTP 400"),
        ("502 Bad Gateway", HTML, "<h1>nginx</h1>".into(), "HTTP 502"),
        ("500 Internal", JSON, String::new(), "HTTP 500"),
        ("500 Internal", EVENTS, event("null"), "HTTP 500"),
        ("200 OK", JSON, rpc("null"), "no such row"),
        ("200 OK", JSON, rpc("4711"), "no such row"),
        ("200 OK", JSON, format!("[{}]", rpc("null")), "no such row"),
        ("200 OK", JSON, "[]".into(), "does not follow the MCP protocol"),
        ("200 OK", JSON, String::new(), "does not follow the MCP protocol"),
        ("200 OK", HTML, "<p>Log in</p>".into(), "neither JSON nor an event stream"),
        ("200 OK", TEXT, rpc("null"), "neither JSON nor an event stream"),
        ("200 OK", EVENTS, event("null"), "no such row"),
        ("200 OK", EVENTS, event("\"x\""), "no such row"),
        ("202 Accepted", JSON, String::new(), "it has taken the request (HTTP 202)"),
        ("204 No Content", JSON, String::new(), "it has taken the request (HTTP 202)"),
    ];
    let answers: Vec<Vec<u8>> = cases
        .iter()
        .map(|(status, kind, body, _)| answer(status, &[kind], body.as_bytes()))
        .collect();
    let site = site(move |id, before| match before % 2 {
        0 => answers[before / 2].clone(),
        _ => done(id),
    });
    let upstream = Upstream::start();
    let server = start(&upstream, &site).await;
    for (status, _, body, words) in cases {
        let told = called(&server, &upstream).await;
        assert!(told.starts_with("Error: ") && told.contains(words), "{status} {body}: {told}");
        assert_eq!(called(&server, &upstream).await, "done", "{status} {body}");
        assert_eq!(states(&server).await[0]["state"], "ready");
    }
}

#[tokio::test]
async fn outside_16_a_session_that_is_lost_under_any_status_is_begun_anew() {
    let rpc = |words: &str| {
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": words } })
            .to_string()
    };
    for (status, body) in [
        ("400 Bad Request", rpc("Bad Request: No valid session ID provided")),
        ("401 Unauthorized", rpc("Session not found")),
        ("403 Forbidden", rpc("Invalid session")),
        ("404 Not Found", String::new()),
        ("409 Conflict", "unknown session".to_owned()),
        ("410 Gone", "<h1>Gone</h1>".to_owned()),
        ("500 Internal", rpc("Session terminated")),
        ("503 Unavailable", rpc("Session not found")),
    ] {
        let line = status.to_owned();
        let (now, begun) = (Arc::new(AtomicUsize::new(1)), Arc::new(AtomicUsize::new(0)));
        let (sessions, noted) = (Arc::clone(&now), Arc::clone(&begun));
        let site = FaultUpstream::start(Arc::new(move |asked: &Asked| {
            if asked.head.method() != "POST" {
                return vec![Step::Bytes(answer("405 Method Not Allowed", &[], b""))];
            }
            let request = asked.json();
            let session = format!("mcp-session-id: s{}", sessions.load(Ordering::Relaxed));
            let is_known = request["method"] == "initialize"
                || asked.head.header("mcp-session-id").is_some_and(|id| session.ends_with(id));
            vec![Step::Bytes(match request["method"].as_str() {
                _ if !is_known => answer(&line, &[JSON], body.as_bytes()),
                Some("initialize") => {
                    noted.fetch_add(1, Ordering::Relaxed);
                    let usual = String::from_utf8(usual(&request)).expect("text");
                    usual.replace("mcp-session-id: s1", &session).into_bytes()
                }
                Some("tools/call") => done(&request["id"]),
                _ => usual(&request),
            })]
        }));
        let upstream = Upstream::start();
        let server = start(&upstream, &site).await;
        assert_eq!(called(&server, &upstream).await, "done");
        now.fetch_add(1, Ordering::Relaxed);
        has(&called(&server, &upstream).await, &["Error: "]);
        let is_new = || 2 <= begun.load(Ordering::Relaxed);
        let again = |state: &Value| is_new() && state["state"] == "ready";
        until(&server, "a new session", again).await;
        assert_eq!(called(&server, &upstream).await, "done", "{status}");
    }
}

#[tokio::test]
async fn outside_47_an_answer_to_another_request_ends_a_call_whose_stream_stays_open() {
    let error =
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": 1, "message": "no row" } });
    let site = FaultUpstream::start(Arc::new(move |asked: &Asked| {
        if asked.head.method() != "POST" {
            return vec![Step::Bytes(answer("405 Method Not Allowed", &[], b""))];
        }
        let request = asked.json();
        if request["method"] != "tools/call" {
            return vec![Step::Bytes(usual(&request))];
        }
        let lines = ["content-type: text/event-stream", "transfer-encoding: chunked"];
        let event = framed(format!("data: {error}\n\n").as_bytes());
        vec![Step::Bytes([head("200 OK", &lines), event].concat()), Step::Hang]
    }));
    let upstream = Upstream::start();
    let server = start(&upstream, &site).await;
    has(&called(&server, &upstream).await, &["Error: ", "the MCP server web refuses this: no row"]);
}

#[tokio::test]
async fn outside_16_a_401_to_the_list_of_tools_is_told_as_a_missing_key() {
    let challenge = "www-authenticate: Bearer realm=\"x\"";
    for line in [JSON, challenge] {
        let site = FaultUpstream::start(Arc::new(move |asked: &Asked| {
            if asked.head.method() != "POST" {
                return vec![Step::Bytes(answer("405 Method Not Allowed", &[], b""))];
            }
            let request = asked.json();
            let body =
                b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"no key\"}}";
            vec![Step::Bytes(match request["method"].as_str() {
                Some("tools/list") => answer("401 Unauthorized", &[line], body),
                _ => usual(&request),
            })]
        }));
        let upstream = Upstream::start();
        let server = start(&upstream, &site).await;
        until(&server, "it to want a key", |state| state["state"] == "needs_auth").await;
    }
}
