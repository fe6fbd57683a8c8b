//! Servers over HTTP that answer what they should not.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Json, Router};
use futures::StreamExt as _;
use tokio::net::TcpListener;

use super::*;
use crate::secret::Secret;

/// Starts a server for these routes. Returns its base URL.
async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    #[expect(clippy::disallowed_methods, reason = "it ends with the runtime of the test")]
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

async fn state_of(url: &str) -> McpState {
    let mut ground = Ground::new();
    ground.settings.backoff = Vec::new();
    let headers = vec![(reqwest::header::AUTHORIZATION, Secret::new("Bearer sk-very-secret"))];
    let transport = McpTransport::Http { url: url.parse().unwrap(), headers };
    let secrets = vec![Secret::new("sk-very-secret")];
    let settings = McpServerSettings::new("web", transport);
    ground.settings.servers.push(McpServerSettings { secrets, ..settings });
    let servers = ground.start().await;
    until(&servers, "web", |state| !matches!(state, McpState::Starting | McpState::Failed(_)))
        .await;
    servers.states()[0].state.clone()
}

#[tokio::test]
async fn m11_a_redirect_is_not_followed_and_takes_no_key_with_it() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let elsewhere = serve(Router::new().route(
        "/mcp",
        any(move || async move {
            counted.fetch_add(1, Ordering::Relaxed);
            StatusCode::OK
        }),
    ))
    .await;
    for status in [StatusCode::FOUND, StatusCode::TEMPORARY_REDIRECT] {
        let location = format!("{elsewhere}/mcp");
        let answer =
            move || async move { (status, [(header::LOCATION, location)]).into_response() };
        let url = serve(Router::new().route("/mcp", any(answer))).await;

        let state = state_of(&format!("{url}/mcp")).await;

        assert!(matches!(state, McpState::Off(_)), "{state:?}");
    }
    assert_eq!(requests.load(Ordering::Relaxed), 0);
}

/// A 401 with a challenge.
fn refusal() -> Response {
    let challenge = "Bearer resource_metadata=\"http://169.254.169.254/\"";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
}

#[tokio::test]
async fn a_server_that_wants_an_authorization_is_told_apart() {
    for refusal in [refusal(), StatusCode::UNAUTHORIZED.into_response()] {
        let refusal = refusal.into_parts().0;
        let answer = move |headers: HeaderMap| async move {
            assert_eq!(headers[header::AUTHORIZATION], "Bearer sk-very-secret");
            (refusal, "{\"error\": \"no\"}")
        };
        let url = serve(Router::new().route("/mcp", any(answer))).await;
        assert_eq!(state_of(&format!("{url}/mcp")).await, McpState::NeedsAuth);
    }
}

#[tokio::test]
async fn m11_what_a_challenge_names_is_not_asked() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let metadata = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        async { r#"{"authorization_endpoint": "javascript:$(touch /tmp/x)"}"# }
    };
    let elsewhere = serve(Router::new().fallback(metadata)).await;
    let challenge = format!("Bearer resource_metadata=\"{elsewhere}/metadata\"");
    let answer = move || async move {
        (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
    };
    let url = serve(Router::new().route("/mcp", any(answer))).await;

    assert_eq!(state_of(&format!("{url}/mcp")).await, McpState::NeedsAuth);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_page_is_no_server() {
    let answer = || async { ([(header::CONTENT_TYPE, "text/html")], "<p>sk-very-secret</p>") };
    let url = serve(Router::new().route("/mcp", any(answer))).await;
    let state = state_of(&format!("{url}/mcp")).await;
    let why = state.why().unwrap();
    assert!(why.contains("neither JSON nor an event stream") || why.contains("HTTP"), "{why}");
    assert!(!why.contains("secret"), "{why}");
}

/// A server over HTTP.
struct Scripted {
    url: String,
    /// Each method that it was asked, in order.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    fn count(&self, method: &str) -> usize {
        sync::lock(&self.asked).iter().filter(|asked| *asked == method).count()
    }

    /// Waits until it has been started so many times.
    async fn starts(&self, times: usize) {
        while self.count("initialize") < times {
            tokio::task::yield_now().await;
        }
    }
}

/// A server of one tool over HTTP, whose calls are answered with this.
async fn server_that_answers<F>(answer: impl Fn() -> F + Clone + Send + Sync + 'static) -> Scripted
where
    F: Future<Output = Response> + Send,
{
    server_where(move |request: Value| {
        let answer = answer.clone();
        async move { if request["method"] == "tools/call" { Some(answer().await) } else { None } }
    })
    .await
}

/// A server of one tool over HTTP, which answers so where it does not do as usual.
async fn server_where<F>(answer: impl Fn(Value) -> F + Clone + Send + Sync + 'static) -> Scripted
where
    F: Future<Output = Option<Response>> + Send,
{
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = asked.clone();
    let route = move |method: Method, body: Bytes| {
        let (answer, noted) = (answer.clone(), noted.clone());
        async move {
            let request: Value = serde_json::from_slice(&body).unwrap_or_default();
            let name = request["method"].as_str().unwrap_or_default();
            sync::lock(&noted).push(name.to_owned());
            let usual = usual_answer(&method, &request);
            answer(request).await.unwrap_or(usual)
        }
    };
    Scripted { url: serve(Router::new().route("/mcp", any(route))).await + "/mcp", asked }
}

fn usual_answer(method: &Method, request: &Value) -> Response {
    let result = match request["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "scripted", "version": "1"},
        }),
        Some("tools/list") => {
            json!({"tools": [{"name": "do", "inputSchema": {"type": "object"}}]})
        }
        Some("tools/call") => text("done"),
        _ if *method == Method::POST => return StatusCode::ACCEPTED.into_response(),
        _ => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
    };
    let body = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
    ([("mcp-session-id", "s1")], Json(body)).into_response()
}

async fn called(server: &Scripted) -> (McpServers, Result<McpAnswer, McpFault>) {
    let mut ground = Ground::new();
    let headers = vec![(reqwest::header::AUTHORIZATION, Secret::new("Bearer sk-very-secret"))];
    let transport = McpTransport::Http { url: server.url.parse().unwrap(), headers };
    ground.settings.servers.push(McpServerSettings::new("web", transport));
    let servers = ground.start().await;
    until(&servers, "web", |state| *state == McpState::Ready).await;
    let answer = call(&servers).await;
    (servers, answer)
}

/// A body that never ends.
fn endless(begin: &'static str) -> Body {
    let begin = futures::stream::once(async move { Bytes::from_static(begin.as_bytes()) });
    let piece = futures::stream::repeat(Bytes::from(vec![b'x'; 1 << 16]));
    Body::from_stream(begin.chain(piece).map(Ok::<_, Infallible>))
}

const UNKNOWN: &str =
    "the MCP server web ended while this call ran; whether it took effect is unknown";

#[tokio::test]
async fn m8_a_session_that_is_gone_ends_the_connection_and_the_call_is_not_repeated() {
    let server = server_that_answers(|| async { StatusCode::NOT_FOUND.into_response() }).await;
    let (servers, answer) = called(&server).await;
    assert_eq!(answer.unwrap_err().0, UNKNOWN);
    server.starts(2).await;
    until(&servers, "web", |state| *state == McpState::Ready).await;
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn m8_an_answer_that_breaks_off_ends_the_connection_and_the_call_is_not_repeated() {
    for begin in ["", "data: {\"jsonrpc\": \"2.0\", \"id\""] {
        let server = server_that_answers(move || async move {
            let broken = [Ok(Bytes::from(begin)), Err(io::Error::other("gone"))];
            let body = Body::from_stream(futures::stream::iter(broken));
            ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
        })
        .await;
        let (servers, answer) = called(&server).await;
        assert_eq!(answer.unwrap_err().0, UNKNOWN, "{begin}");
        server.starts(2).await;
        until(&servers, "web", |state| *state == McpState::Ready).await;
        assert_eq!(server.count("tools/call"), 1);
    }
}

#[tokio::test]
async fn an_error_of_http_fails_its_call_alone() {
    let calls = Arc::new(AtomicUsize::new(0));
    let server = server_where(move |request| {
        let is_first =
            request["method"] == "tools/call" && calls.fetch_add(1, Ordering::Relaxed) == 0;
        async move { is_first.then(|| StatusCode::INTERNAL_SERVER_ERROR.into_response()) }
    })
    .await;
    let (servers, answer) = called(&server).await;
    assert_eq!(
        answer.unwrap_err().0,
        "the MCP server web did not answer this: it answers with HTTP 500; whether it took effect \
         is unknown"
    );
    assert_eq!(call(&servers).await.unwrap().parts, [McpPart::Text("done".into())]);
    assert_eq!((server.count("initialize"), server.count("tools/call")), (1, 2));
}

#[tokio::test]
async fn m11_a_redirect_of_a_call_is_not_followed_and_takes_no_key_with_it() {
    let elsewhere = server_where(|_| async { None }).await;
    for status in [StatusCode::FOUND, StatusCode::PERMANENT_REDIRECT] {
        let target = elsewhere.url.clone();
        let server = server_that_answers(move || {
            let target = target.clone();
            async move { (status, [(header::LOCATION, target)]).into_response() }
        })
        .await;
        let (_servers, answer) = called(&server).await;
        let why = answer.unwrap_err().0;
        assert!(why.contains("whether it took effect is unknown"), "{why}");
        assert_eq!(server.count("tools/call"), 1);
    }
    assert!(sync::lock(&elsewhere.asked).is_empty());
}

#[tokio::test]
async fn m11_a_call_that_is_answered_401_tells_that_the_server_needs_a_key() {
    for answer in [refusal, || StatusCode::UNAUTHORIZED.into_response()] {
        let refuses = Arc::new(AtomicBool::new(false));
        let server = server_where(move |request| {
            if request["method"] == "tools/call" {
                refuses.store(true, Ordering::Relaxed);
            }
            let is_refused = refuses.load(Ordering::Relaxed);
            async move { is_refused.then(answer) }
        })
        .await;
        let (servers, answer) = called(&server).await;
        assert_eq!(answer.unwrap_err().0, UNKNOWN);
        until(&servers, "web", |state| *state == McpState::NeedsAuth).await;
        assert_eq!(server.count("tools/call"), 1);
    }
}

#[tokio::test]
async fn a_server_of_the_old_transport_is_named_so() {
    let events = || async {
        ([(header::CONTENT_TYPE, "text/event-stream")], "event: endpoint\ndata: /messages\n\n")
    };
    let url = serve(Router::new().route("/sse", axum::routing::get(events))).await;
    for path in ["/sse", "/none"] {
        let state = state_of(&format!("{url}{path}")).await;
        let why = state.why().unwrap();
        assert!(why.contains("the old SSE transport, which is not supported"), "{why}");
    }
}

#[tokio::test]
async fn m8_an_event_or_a_body_that_is_too_long_ends_the_connection() {
    let type_of = |name: &'static str| [(header::CONTENT_TYPE, name)];
    let event =
        move || async move { (type_of("text/event-stream"), endless("data: ")).into_response() };
    let body = move || async move { (type_of("application/json"), endless("\"")).into_response() };
    let long = move || async move {
        let text = "x".repeat(9 << 20);
        let result = json!({"content": [{"type": "text", "text": text}]});
        Json(json!({"jsonrpc": "2.0", "id": 2, "result": result})).into_response()
    };
    let many = move || async move {
        let values = format!("[{}[]]", "[],".repeat(600_000));
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{\"x\":{values}}}}}");
        (type_of("text/event-stream"), format!("data: {answer}\n\n")).into_response()
    };
    let all = [
        server_that_answers(event).await,
        server_that_answers(body).await,
        server_that_answers(long).await,
        server_that_answers(many).await,
    ];
    for server in all {
        let (_servers, answer) = called(&server).await;
        let why = answer.unwrap_err().0;
        assert!(why.ends_with("whether it took effect is unknown"), "{why}");
        server.starts(2).await;
    }
}

#[tokio::test]
async fn m5_a_schema_that_is_too_deep_costs_only_its_tool_in_an_event() {
    let server = server_where(|request| async move {
        if request["method"] != "tools/list" {
            return None;
        }
        let (open, close) = ("{\"properties\":{\"a\":".repeat(1_000), "}}".repeat(1_000));
        let tools = [
            format!("{{\"name\":\"deep\",\"inputSchema\":{open}{{}}{close}}}"),
            tool("do").to_string(),
        ];
        let result = format!("{{\"tools\":[{}]}}", tools.join(","));
        let id = &request["id"];
        let event = format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n\n");
        Some(([(header::CONTENT_TYPE, "text/event-stream")], event).into_response())
    })
    .await;
    let (servers, answer) = called(&server).await;
    assert_eq!(answer.unwrap().parts, [McpPart::Text("done".into())]);
    assert!(servers.snapshot().withheld[0].why.contains("deep"), "{:?}", servers.snapshot());
}

/// An error that names no request.
fn nameless(status: StatusCode, words: &str) -> Response {
    let error = json!({"code": -32_000, "message": words});
    (status, Json(json!({"jsonrpc": "2.0", "id": null, "error": error}))).into_response()
}

#[tokio::test]
async fn outside_47_an_http_error_that_names_no_request_ends_its_call_with_the_servers_words() {
    for status in [400, 403, 406, 413, 422, 429, 500, 503] {
        let status = StatusCode::from_u16(status).unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let server = server_where(move |request| {
            let is_first =
                request["method"] == "tools/call" && calls.fetch_add(1, Ordering::Relaxed) == 0;
            async move { is_first.then(|| nameless(status, "Not Acceptable: text only")) }
        })
        .await;
        let (servers, answer) = called(&server).await;
        let words = format!("HTTP {}: Not Acceptable: text only", status.as_u16());
        assert_eq!(answer.unwrap_err().0, format!("the MCP server web refuses this: {words}"));
        // The session is as it was.
        assert_eq!(call(&servers).await.unwrap().parts, [McpPart::Text("done".into())]);
        assert_eq!((server.count("initialize"), server.count("tools/call")), (1, 2));
    }
}

#[tokio::test]
async fn outside_47_an_answer_that_no_call_waits_for_ends_the_call_that_it_answers() {
    let event = |message: Value| {
        let begin = Bytes::from(format!("data: {message}\n\n"));
        let begin = futures::stream::once(async move { Ok::<_, Infallible>(begin) });
        // The stream stays open.
        let body = Body::from_stream(begin.chain(futures::stream::pending()));
        ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
    };
    let error =
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "no such row"}});
    let foreign = json!({"jsonrpc": "2.0", "id": 4_711, "result": text("foreign")});
    let of_another = "its answer is to another request";
    let list =
        json!([{"jsonrpc": "2.0", "id": "server-error", "error": {"message": "no such row"}}]);
    for (message, is_event, words) in [
        (error.clone(), true, "no such row"),
        (error, false, "no such row"),
        (foreign.clone(), true, of_another),
        (foreign, false, of_another),
        (list, false, "no such row"),
    ] {
        let server = server_that_answers(move || {
            let message = message.clone();
            async move { if is_event { event(message) } else { Json(message).into_response() } }
        })
        .await;
        let (_servers, answer) = called(&server).await;
        assert_eq!(answer.unwrap_err().0, format!("the MCP server web refuses this: {words}"));
    }
}

/// A server that forgets its sessions when it is told to, and then answers so.
async fn forgetful(answer: fn() -> Response) -> (Scripted, Arc<AtomicUsize>) {
    let session = Arc::new(AtomicUsize::new(1));
    let now = Arc::clone(&session);
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&asked);
    let route = move |method: Method, headers: HeaderMap, body: Bytes| {
        let session = format!("s{}", now.load(Ordering::Relaxed));
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let name = request["method"].as_str().unwrap_or_default().to_owned();
        sync::lock(&noted).push(name.clone());
        let sent = headers.get("mcp-session-id").and_then(|sent| sent.to_str().ok());
        let is_known = name == "initialize" || sent == Some(session.as_str());
        async move {
            if !is_known && method == Method::POST {
                return answer();
            }
            let mut usual = usual_answer(&method, &request);
            usual.headers_mut().insert("mcp-session-id", session.parse().unwrap());
            usual
        }
    };
    let url = serve(Router::new().route("/mcp", any(route))).await + "/mcp";
    (Scripted { url, asked }, session)
}

#[tokio::test]
async fn outside_16_a_session_that_is_lost_in_any_words_is_begun_anew() {
    let answers: [fn() -> Response; 9] = [
        || nameless(StatusCode::BAD_REQUEST, "Bad Request: No valid session ID provided"),
        || nameless(StatusCode::UNAUTHORIZED, "Session not found"),
        || nameless(StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        || nameless(StatusCode::OK, "Server not initialized"),
        || (StatusCode::BAD_REQUEST, "Invalid session ID").into_response(),
        || (StatusCode::INTERNAL_SERVER_ERROR, "oops").into_response(),
        || Json(json!({"error": "Session not found"})).into_response(),
        || {
            let event = "event: message\ndata: {\"error\":\"Session not found\"}\n\n";
            ([(header::CONTENT_TYPE, "text/event-stream")], event).into_response()
        },
        || (StatusCode::CONFLICT, Json(json!({"error": "unknown session"}))).into_response(),
    ];
    for answer in answers {
        let (server, session) = forgetful(answer).await;
        let (servers, first) = called(&server).await;
        assert!(first.is_ok(), "{first:?}");
        session.fetch_add(1, Ordering::Relaxed);

        assert!(call(&servers).await.is_err());

        server.starts(2).await;
        until(&servers, "web", |state| *state == McpState::Ready).await;
        assert_eq!(call(&servers).await.unwrap().parts, [McpPart::Text("done".into())]);
        assert_eq!(server.count("tools/call"), 3);
    }
}

#[tokio::test]
async fn outside_16_a_server_that_forgets_sessions_often_stays_in_use() {
    let gone = || nameless(StatusCode::NOT_FOUND, "Session not found");
    let (server, session) = forgetful(gone).await;
    let (servers, first) = called(&server).await;
    assert!(first.is_ok(), "{first:?}");
    for starts in 2..8 {
        session.fetch_add(1, Ordering::Relaxed);
        assert!(call(&servers).await.is_err());
        server.starts(starts).await;
        until(&servers, "web", |state| *state == McpState::Ready).await;
    }
    assert_eq!(call(&servers).await.unwrap().parts, [McpPart::Text("done".into())]);
}

#[tokio::test]
async fn a_401_to_the_list_of_tools_says_that_the_server_needs_a_key() {
    for answer in [
        refusal,
        || StatusCode::UNAUTHORIZED.into_response(),
        || nameless(StatusCode::UNAUTHORIZED, "no key"),
    ] {
        let server =
            server_where(
                move |request| async move { (request["method"] == "tools/list").then(answer) },
            )
            .await;
        assert_eq!(state_of(&server.url).await, McpState::NeedsAuth);
        assert_eq!(server.count("initialize"), 1);
    }
}

#[tokio::test]
async fn outside_47_a_request_that_is_only_accepted_ends_unless_a_stream_can_bring_its_answer() {
    // Without a session nobody listens.
    let accepted = || async { StatusCode::ACCEPTED.into_response() };
    for has_session in [true, false] {
        let server = server_where(move |request: Value| async move {
            let is_call = request["method"] == "tools/call";
            let mut answer = if is_call {
                StatusCode::ACCEPTED.into_response()
            } else {
                usual_answer(&Method::POST, &request)
            };
            if !has_session {
                answer.headers_mut().remove("mcp-session-id");
            }
            request["method"].is_string().then_some(answer)
        })
        .await;
        let (servers, answer) = called(&server).await;
        let why = answer.unwrap_err().0;
        assert!(
            why.contains("it has taken the request (HTTP 202), and no stream is open"),
            "{why}"
        );
        assert!(why.ends_with("whether it took effect is unknown"), "{why}");
        assert_eq!(servers.states()[0].state, McpState::Ready);
    }
    let list = server_where(move |request: Value| async move {
        let is_list = request["method"] == "tools/list";
        if is_list { Some(accepted().await) } else { None }
    })
    .await;
    let state = state_of(&list.url).await;
    assert!(state.why().unwrap().contains("it has taken the request (HTTP 202)"), "{state:?}");
}

#[tokio::test]
async fn outside_47_the_answer_to_an_accepted_request_comes_on_the_stream_that_listens() {
    let (answers, listens) = tokio::sync::mpsc::unbounded_channel::<String>();
    let listens = Arc::new(Mutex::new(Some(listens)));
    let route = move |method: Method, body: Bytes| {
        let (answers, listens) = (answers.clone(), Arc::clone(&listens));
        async move {
            let request: Value = serde_json::from_slice(&body).unwrap_or_default();
            if method == Method::GET {
                let Some(listens) = sync::lock(&listens).take() else {
                    return StatusCode::METHOD_NOT_ALLOWED.into_response();
                };
                let events = futures::stream::unfold(listens, |mut listens| async move {
                    let event = listens.recv().await?;
                    Some((Ok::<_, Infallible>(Bytes::from(event)), listens))
                });
                let body = Body::from_stream(events);
                return ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response();
            }
            if request["method"] == "tools/call" {
                let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": text("late")});
                answers.send(format!("data: {answer}\n\n")).unwrap();
                return StatusCode::ACCEPTED.into_response();
            }
            usual_answer(&method, &request)
        }
    };
    let url = serve(Router::new().route("/mcp", any(route))).await + "/mcp";
    let (servers, answer) = called(&Scripted { url, asked: Arc::default() }).await;
    assert_eq!(answer.unwrap().parts, [McpPart::Text("late".into())]);
    assert_eq!(call(&servers).await.unwrap().parts, [McpPart::Text("late".into())]);
}

#[tokio::test]
async fn outside_47_an_error_that_cannot_be_read_ends_its_call() {
    let event = |message: &Value| {
        let begin = Bytes::from(format!("data: {message}\n\n"));
        let begin = futures::stream::once(async move { Ok::<_, Infallible>(begin) });
        let body = Body::from_stream(begin.chain(futures::stream::pending()));
        ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
    };
    for is_event in [true, false] {
        let server = server_where(move |request: Value| async move {
            let message = json!({"jsonrpc": "2.0", "id": request["id"], "error": "no such row"});
            let answer = if is_event { event(&message) } else { Json(message).into_response() };
            (request["method"] == "tools/call").then_some(answer)
        })
        .await;
        let (_servers, answer) = called(&server).await;
        assert_eq!(answer.unwrap_err().0, "the MCP server web refuses this: no such row");
    }
}
