//! Tests a provider that fails behind the real LiteLLM, and what the client gets.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::json;

use super::{Builder, Up, drop_up, streamed};
use crate::support::chunks::{
    call, call_head, call_piece, calls, delta, done, finish, says, text, whole,
};
use crate::support::client::Reply;
use crate::support::faults::{Asked, FaultUpstream, Step, answer, framed, head};
use crate::support::upstream;

/// `(model, what its client gets)`: the text or the refusal of a success, or the code of a
/// failure.
const EXPECTED: [(&str, Result<&str, &str>); 18] = [
    ("good", Ok("All is well.")),
    ("key-wrong", Err("upstream_auth")),
    ("key-forbidden", Err("upstream_auth")),
    ("model-gone", Err("model_not_found")),
    ("limit-long", Err("upstream_rate_limited")),
    ("fails", Err("upstream_error")),
    ("overloaded", Err("upstream_error")),
    ("parameter", Err("upstream_rejected")),
    ("too-long", Err("context_length_exceeded")),
    ("reset-first", Err("upstream_error")),
    ("reset-in-text", Err("upstream_error")),
    ("reset-after-call", Ok("I look.\n\nGone on.")),
    // LiteLLM shows this as a proper end.
    ("cut-in-text", Ok("I begin ")),
    ("cut-in-call", Err("upstream_error")),
    ("empty", Err("empty_response")),
    // LiteLLM drops refusals from streams, so the second request wants none.
    ("refused", Ok("I cannot help with that.")),
    ("redirect", Err("upstream_error")),
    ("calls", Ok("Gone on.")),
];

fn refusal(status: &str, lines: &[&str], message: &str, code: &str) -> Vec<Step> {
    let body = json!({ "error": { "message": message, "type": "x", "param": null, "code": code } });
    let lines = [&["content-type: application/json"], lines].concat();
    vec![Step::Bytes(answer(status, &lines, body.to_string().as_bytes()))]
}

/// A stream and its end: `Fin` ends it properly, any other step in the middle.
fn stream(pieces: &[upstream::Step], end: Step) -> Vec<Step> {
    let lines = ["content-type: text/event-stream", "transfer-encoding: chunked"];
    let mut steps = vec![Step::Bytes(head("200 OK", &lines))];
    steps.extend(pieces.iter().map(|piece| match piece {
        upstream::Step::Send(bytes) => Step::Bytes(framed(bytes)),
        other => panic!("no piece of a body: {other:?}"),
    }));
    // LiteLLM must forward the pieces before it sees the end.
    steps.push(Step::Sleep(std::time::Duration::from_millis(300)));
    if let Step::Fin = end {
        steps.push(Step::Bytes(b"0\r\n\r\n".to_vec()));
    }
    steps.push(end);
    steps
}

/// How the provider answers a request for this model.
fn provider(request: &Asked) -> Vec<Step> {
    // LiteLLM asks for the list of models, and works without it.
    if request.head.method() == "GET" {
        return refusal("404 N", &[], "No such route", "x");
    }
    let body = request.json();
    let is_answered =
        body["messages"].as_array().is_some_and(|list| list.iter().any(|m| m["role"] == "tool"));
    if is_answered {
        return stream(&says("Gone on."), Step::Fin);
    }
    let read = || call(0, "c1", "Read", &json!({ "file_path": "notes.txt" }));
    let half = || vec![call_head(0, "c1", "Read"), call_piece(0, "{\"file_path")];
    match body["model"].as_str().expect("a model") {
        "good" => stream(&says("All is well."), Step::Fin),
        "key-wrong" => {
            refusal("401 U", &[], "Incorrect API key sk-secret123456", "invalid_api_key")
        }
        "key-forbidden" => refusal("403 F", &[], "Not for you", "forbidden"),
        "model-gone" => refusal("404 N", &[], "The model does not exist", "model_not_found"),
        "limit-long" => refusal("429 T", &["retry-after: 3600"], "Slow down", "rate_limit"),
        "fails" => refusal("500 I", &[], "CUDA out of memory", "x"),
        "overloaded" => refusal("503 O", &[], "Overloaded", "x"),
        "parameter" => refusal("400 B", &[], "temperature must be below 2", "x"),
        "too-long" => refusal(
            "400 B",
            &[],
            "This model's maximum context length is 8 tokens.",
            "context_length_exceeded",
        ),
        "reset-first" => vec![Step::Reset],
        "reset-in-text" => stream(&[text("I begin ")], Step::Reset),
        "reset-after-call" => {
            let other = vec![call_head(1, "c2", "Read"), call_piece(1, "{\"file_path")];
            stream(&[vec![text("I look.")], read(), other].concat(), Step::Reset)
        }
        "cut-in-text" => stream(&[text("I begin ")], Step::Fin),
        "cut-in-call" => stream(&half(), Step::Fin),
        "empty" | "refused" if body["stream"] != true => {
            let refusal = (body["model"] == "refused").then_some("I cannot help with that.");
            let message = json!({ "role": "assistant", "content": null, "refusal": refusal });
            let body = whole(&message, "stop").to_string();
            let lines = ["content-type: application/json"];
            vec![Step::Bytes(answer("200 OK", &lines, body.as_bytes()))]
        }
        "empty" => stream(&[finish("stop"), done()], Step::Fin),
        "refused" => {
            let refusal = delta(&json!({ "refusal": "I cannot help with that." }));
            stream(&[refusal, finish("stop"), done()], Step::Fin)
        }
        "redirect" => refusal("302 M", &["location: http://127.0.0.1:9/"], "Elsewhere", "x"),
        "calls" => {
            stream(&calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]), Step::Fin)
        }
        other => panic!("no script for {other}"),
    }
}

/// LiteLLM's configuration with every model.
fn config(provider: &FaultUpstream) -> String {
    let mut yaml = "model_list:\n".to_owned();
    for (model, _) in EXPECTED {
        write!(
            yaml,
            "  - model_name: {model}\n    litellm_params:\n      model: openai/{model}\n      \
             api_base: {}\n      api_key: none-needed\n",
            provider.url()
        )
        .expect("a string");
    }
    yaml
}

/// A chain whose LiteLLM has these providers.
async fn start(failing: &FaultUpstream) -> Up {
    let builder = Builder::borrowing()
        .with_litellm(&config(failing))
        .environment("TOOLHAND_UPSTREAM_BACKOFF", r#"["1ms", "1ms"]"#);
    let up = builder.start_aside().await;
    up.write("notes.txt", "the quince is ripe\n");
    up
}

#[tokio::test]
async fn a_failing_provider_behind_litellm_is_told_in_our_words() {
    // Installs LiteLLM if necessary.
    let _installed = Up::shared().await;
    let failing = FaultUpstream::start(Arc::new(provider));
    let mut up = start(&failing).await;

    let mut wrong = Vec::new();
    for (model, expected) in EXPECTED {
        let mut body = streamed("Go on.");
        body["model"] = model.into();
        let asked = AssertUnwindSafe(up.client().ask(&body)).catch_unwind().await;
        let reply = match asked {
            Ok(reply) => reply,
            // Some interpreters crash where LiteLLM's stream from a provider breaks.
            Err(_) if up.has_lost_litellm() => {
                up = start(&failing).await;
                up.client().ask(&body).await
            }
            Err(panic) => resume_unwind(panic),
        };
        let (found, words) = match reply {
            Reply::Answer(refused) => {
                let (_, code) = refused.refusal();
                if code == "upstream_rate_limited" {
                    assert_eq!(refused.header("retry-after"), Some("3600"), "{refused:?}");
                }
                (Err(code), String::from_utf8_lossy(&refused.body).into_owned())
            }
            Reply::Stream(stream) => {
                let told = stream.finish().await;
                let words = format!("{:?}", told.error);
                match &told.error {
                    Some(error) => (Err(error["code"].as_str().expect("a code").to_owned()), words),
                    None => (Ok(format!("{}{}", told.text(), told.refusal())), words),
                }
            }
        };
        let found = found.as_deref().map_err(String::as_str);
        if found != expected || words.contains("sk-secret") || words.contains("Traceback") {
            wrong.push(format!("{model}: {found:?}, not {expected:?}: {words}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    drop_up(up).await;
}
