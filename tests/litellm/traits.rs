//! Tests what is learnt from providers' errors through the real LiteLLM: the cases w12, w23, w24,
//! w25 and w46.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{Builder, Up, drop_up, refusal, stream, streamed};
use crate::support::chunks::{calls, says};
use crate::support::faults::{Asked, FaultUpstream, Faults, Step};

/// The models, each with LiteLLM's provider.
const MODELS: [(&str, &str); 8] = [
    ("misses", "openai"),
    ("misses-vllm", "hosted_vllm"),
    ("toolless", "openai"),
    ("toolless-vllm", "hosted_vllm"),
    ("formats", "openai"),
    ("clumsy", "groq"),
    ("short", "openai"),
    ("silent", "openai"),
];

/// Providers that refuse what their names say.
#[derive(Default)]
struct Choosy {
    /// The answers of `clumsy`.
    clumsy: AtomicUsize,
}

fn lacks_reasoning(body: &Value) -> bool {
    let messages = body["messages"].as_array().expect("messages").iter();
    let mut assistants = messages.filter(|message| message["role"] == "assistant");
    assistants.any(|message| !message["reasoning_content"].is_string())
}

impl Faults for Choosy {
    fn asked(&self, request: &Asked) -> Vec<Step> {
        if request.head.method() == "GET" {
            return refusal("404 N", "No such route", "x");
        }
        let body = request.json();
        let has_tools = body.get("tools").is_some();
        let is_long = request.body.len() > 200_000;
        let bad = "Failed to call a function. Please adjust your prompt.";
        match body["model"].as_str().expect("a model") {
            "misses" | "misses-vllm" if lacks_reasoning(&body) => {
                let message =
                    "reasoning_content is missing in assistant tool call message at index 2";
                refusal("400 B", message, "x")
            }
            "misses" | "misses-vllm" if body["messages"].as_array().map(Vec::len) < Some(4) => {
                let call = json!({ "file_path": "notes.txt" });
                stream(&calls(&[("c1", "Read", call)]))
            }
            "toolless" | "toolless-vllm" if has_tools => {
                refusal("400 B", "registry.ollama.ai/library/gemma:2b does not support tools", "x")
            }
            "formats" if has_tools && body.get("response_format").is_some() => {
                let message =
                    "Function calling with a response mime type: 'application/json' is unsupported";
                refusal("400 B", message, "x")
            }
            "clumsy" if self.clumsy.fetch_add(1, Ordering::Relaxed) == 0 => {
                refusal("400 B", bad, "tool_use_failed")
            }
            "short" if is_long => {
                refusal("400 B", "Range of input length should be [1, 30720]", "x")
            }
            "silent" if is_long => refusal("400 B", "Bad Request", "x"),
            _ => stream(&says("Done.")),
        }
    }
}

fn config(provider: &FaultUpstream) -> String {
    let mut yaml = "model_list:\n".to_owned();
    for (model, kind) in MODELS {
        write!(
            yaml,
            "  - model_name: {model}\n    litellm_params:\n      model: {kind}/{model}\n      \
             api_base: {}\n      api_key: none-needed\n",
            provider.url()
        )
        .expect("a string");
    }
    yaml
}

#[tokio::test]
async fn what_a_provider_refuses_or_misses_behind_litellm_is_left_out_or_added() {
    // Installs LiteLLM if necessary.
    let _installed = Up::shared().await;
    let choosy = FaultUpstream::start(Arc::new(Choosy::default()));
    let up = Builder::borrowing().with_litellm(&config(&choosy)).start_aside().await;
    up.write("notes.txt", "the quince is ripe\n");

    let mut wrong = Vec::new();
    for (model, _) in MODELS {
        let mut body = streamed("Go on.");
        body["model"] = model.into();
        if model == "formats" {
            body["response_format"] = json!({ "type": "json_object" });
        }
        if matches!(model, "short" | "silent") {
            let message = |role: &str, content: &str| json!({ "role": role, "content": content });
            let long = "of plums and pears ".repeat(3000);
            let turns =
                (1..=5).flat_map(|_| [message("user", &long), message("assistant", "Yes.")]);
            body["messages"] = turns.chain([message("user", "And?")]).collect();
        }
        let told = up.client().streamed(&body).await;
        if told.text() != "Done." {
            wrong.push(format!("{model}: {:?}, {:?}", told.text(), told.error));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    drop_up(up).await;
}
