//! Relays bytes between a client and upstream, as the least that any proxy costs. It
//! collects an unstreamed answer from a stream, as the server does. It is a program of
//! its own with axum and reqwest in their default form, so that nothing chosen for the
//! server but its allocator makes it faster or slower.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use mimalloc::MiMalloc;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The same allocator as in the server's program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[derive(Debug)]
struct Relay {
    upstream: String,
    client: reqwest::Client,
}

#[expect(clippy::print_stdout, reason = "tells its address, as the server does")]
#[tokio::main]
async fn main() {
    // Cannot fail: no other provider was installed.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let upstream = std::env::args().nth(1).expect("the address of upstream");
    let relay = Relay {
        upstream: format!("{upstream}/chat/completions"),
        client: reqwest::Client::builder().no_proxy().build().expect("a client"),
    };
    let router =
        Router::new().route("/v1/chat/completions", post(answer)).with_state(Arc::new(relay));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    println!("listening on http://{}", listener.local_addr().expect("an address"));
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("a TCP socket"));
    axum::serve(listener, router).await.expect("serves until it is killed");
}

async fn answer(State(relay): State<Arc<Relay>>, body: Bytes) -> Response {
    let mut asked: Value = serde_json::from_slice(&body).expect("our own request");
    if asked["stream"] == true {
        let upstream = relay.ask(body).await;
        let body = Body::from_stream(upstream.bytes_stream());
        return ([(CONTENT_TYPE, "text/event-stream")], body).into_response();
    }
    // No tool of the server may run: it asks for no stream either.
    if asked["tool_choice"] == "none" {
        let body = Body::from_stream(relay.ask(body).await.bytes_stream());
        return ([(CONTENT_TYPE, "application/json")], body).into_response();
    }
    asked["stream"] = Value::Bool(true);
    let upstream = relay.ask(asked.to_string().into()).await;
    let stream = upstream.bytes().await.expect("a whole stream");
    let completion = collect(&String::from_utf8_lossy(&stream)).to_string();
    ([(CONTENT_TYPE, "application/json")], completion).into_response()
}

impl Relay {
    async fn ask(&self, body: Bytes) -> reqwest::Response {
        let request = self.client.post(&self.upstream).header(CONTENT_TYPE, "application/json");
        request.body(body).send().await.expect("upstream answers")
    }
}

fn collect(stream: &str) -> Value {
    let mut text = String::new();
    let mut usage = Value::Null;
    for data in stream.lines().filter_map(|line| line.strip_prefix("data: {")) {
        let chunk: Value = serde_json::from_str(&format!("{{{data}")).expect("a chunk");
        text.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
        if chunk["usage"].is_object() {
            usage = chunk["usage"].clone();
        }
    }
    json!({
        "id": "chatcmpl-relay", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": text },
            "finish_reason": "stop",
        }],
        "usage": usage,
    })
}
