//! Serves the demo model: a small rule-based upstream for trials and tests, not a
//! language model.
//!
//! Speaks OpenAI's wire format on loopback, streamed and not. Calls real tools ("read X",
//! "find TODO in src", …) and quotes their answers. Everything it says is labelled as the
//! demo model's.

mod background;
mod grammar;
mod instance;
mod messages;
mod progress;
mod question;
mod reply;
mod report;
mod wire;

use std::convert::Infallible;
use std::io;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::stream;
use tokio::net::TcpListener;

/// The only model it offers.
pub(crate) const MODEL: &str = "demo";

/// Conversations grow with every tool answer. The server in front enforces the real
/// limit.
const BODY_LIMIT: usize = 64 << 20;

const CHAT_ONLY: &str = "it speaks chat completions only: POST /v1/chat/completions";

/// Serves on `listener` until the future is dropped.
pub(crate) async fn serve(listener: TcpListener) -> io::Result<()> {
    axum::serve(listener, router()).await
}

fn router() -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat_completions))
        .route("/v1/models", get(models))
        .fallback(other_route)
        .method_not_allowed_fallback(async || {
            error(StatusCode::METHOD_NOT_ALLOWED, "this route takes another method")
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
}

/// Refuses what other models may be asked for. LiteLLM and the server in front pass the words
/// of a 400 on, and take a 404 for an unknown model.
async fn other_route(method: Method, uri: Uri) -> Response {
    if method == Method::POST && uri.path().starts_with("/v1/") {
        return error(StatusCode::BAD_REQUEST, CHAT_ONLY);
    }
    error(StatusCode::NOT_FOUND, "the demo model has no such route")
}

async fn models() -> Response {
    json(StatusCode::OK, wire::models())
}

async fn chat_completions(body: Bytes) -> Response {
    let request: wire::Request = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(fault) => return error(StatusCode::BAD_REQUEST, &fault.to_string()),
    };
    let completion = wire::Completion::answering(&request);
    if !request.wants_stream() {
        return json(StatusCode::OK, completion.whole());
    }
    let events = completion.events(request.wants_usage()).into_iter().map(Ok::<_, Infallible>);
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(stream::iter(events))).into_response()
}

fn json(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn error(status: StatusCode, message: &str) -> Response {
    json(status, wire::error(message))
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use http_body_util::BodyExt;
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;

    async fn post(body: &str) -> (StatusCode, String) {
        let request = Request::post("/v1/chat/completions").body(Body::from(body.to_owned()));
        let response = router().oneshot(request.unwrap()).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    fn ask(stream: bool) -> Value {
        json!({
            "model": MODEL,
            "stream": stream,
            "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": "read README.md"}],
            "tools": [{"type": "function", "function": {"name": "Read", "parameters": {}}}],
        })
    }

    #[tokio::test]
    async fn an_unstreamed_answer_is_one_completion() {
        let (status, body) = post(&ask(false).to_string()).await;
        let completion: Value = serde_json::from_str(&body).unwrap();
        let choice = &completion["choices"][0];

        assert_eq!(status, StatusCode::OK);
        assert_eq!(choice["finish_reason"], "tool_calls");
        let call = &choice["message"]["tool_calls"][0]["function"];
        assert_eq!(call["name"], "Read");
        assert_eq!(call["arguments"], r#"{"file_path":"README.md"}"#);
        assert!(completion["usage"]["total_tokens"].as_u64().unwrap() > 0);
    }

    #[tokio::test]
    async fn a_streamed_answer_brings_words_then_the_call_in_pieces_then_usage() {
        let (_, body) = post(&ask(true).to_string()).await;
        let mut events: Vec<&str> =
            body.split_terminator("\n\n").map(|event| &event["data: ".len()..]).collect();

        assert_eq!(events.pop(), Some("[DONE]"));
        let chunks: Vec<Value> =
            events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        let arguments: Vec<&str> = chunks
            .iter()
            .filter_map(|chunk| {
                chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str()
            })
            .collect();
        assert!(arguments.len() > 2, "head and pieces: {arguments:?}");
        assert_eq!(arguments.concat(), r#"{"file_path":"README.md"}"#);
        assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(chunks[chunks.len() - 1]["choices"], json!([]));
        assert!(chunks[chunks.len() - 1]["usage"]["prompt_tokens"].is_u64());
    }

    #[tokio::test]
    async fn other_routes_say_what_it_speaks() {
        for path in ["/v1/completions", "/v1/embeddings", "/v1/images/generations"] {
            let request = Request::post(path).body(Body::from(r#"{"model":"demo"}"#));
            let response = router().oneshot(request.unwrap()).await.unwrap();
            assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{path}");
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let message = body["error"]["message"].as_str().unwrap();
            assert!(message.contains("demo model: it speaks chat completions only"), "{message}");
        }
    }

    #[tokio::test]
    async fn members_that_are_null_count_as_missing() {
        let mut body = ask(false);
        for name in ["stream", "stream_options", "tools", "tool_choice", "response_format"] {
            body[name] = Value::Null;
        }
        let (status, body) = post(&body.to_string()).await;

        assert_eq!(status, StatusCode::OK, "{body}");
    }

    #[tokio::test]
    async fn a_body_that_is_no_request_is_refused_in_words() {
        let (status, body) = post("{\"messages\": 3}").await;

        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(body.contains("messages") || body.contains("expected a sequence"), "{body}");
    }
}
