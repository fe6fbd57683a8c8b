//! Tests what gateways and providers were reported to send and to refuse, through the real
//! LiteLLM: the cases w01, w09, w24 and w28, as far as it lets them pass.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Builder, Up, drop_up, refusal, stream, streamed};
use crate::support::chunks::{call, calls, delta, end, says, text, whole};
use crate::support::faults::{Asked, FaultUpstream, Step, answer};
use crate::support::upstream;

/// The models, each with LiteLLM's provider.
const MODELS: [(&str, &str); 12] = [
    ("echo", "openai"),
    ("echo-vllm", "hosted_vllm"),
    ("ids", "openai"),
    ("names", "openai"),
    ("names-moonshot", "moonshot"),
    ("blank", "openai"),
    ("blank-vllm", "hosted_vllm"),
    ("texts", "openai"),
    ("blind", "openai"),
    ("unverified", "openai"),
    ("plain", "openai"),
    ("plain-vllm", "hosted_vllm"),
];

fn piece(id: &str, name: Option<&str>, arguments: &str) -> upstream::Step {
    let function = json!({ "name": name, "arguments": arguments });
    delta(&json!({ "tool_calls": [
        { "index": 0, "id": id, "type": "function", "function": function }
    ]}))
}

/// What a strict provider has against a request; `None` if nothing.
fn complaint(body: &Value) -> Option<&'static str> {
    let messages = body["messages"].as_array().expect("messages");
    let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let is_taken = |char: char| char.is_ascii_alphanumeric() || "_-".contains(char);
    let is_odd = |name: &str| name.is_empty() || name.len() > 64 || !name.chars().all(is_taken);
    let mut names = calls.filter_map(|call| call["function"]["name"].as_str());
    if names.any(is_odd) {
        return Some("Invalid 'messages[1].tool_calls[0].function.name'");
    }
    let is_blank = |content: &Value| content.as_str().is_some_and(|text| text.trim().is_empty());
    let mut assistants = messages.iter().filter(|message| message["role"] == "assistant");
    if assistants.any(|message| is_blank(&message["content"])) {
        return Some("text content blocks must contain non-whitespace text");
    }
    let answers = messages.iter().filter(|message| message["role"] == "tool").count();
    (answers > 1).then_some("more answers than calls")
}

/// How the provider answers a request for this model.
fn provider(request: &Asked) -> Vec<Step> {
    if request.head.method() == "GET" {
        return refusal("404 N", "No such route", "x");
    }
    let body = request.json();
    let model = body["model"].as_str().expect("a model").to_owned();
    if let Some(complaint) = complaint(&body) {
        return refusal("400 B", complaint, "x");
    }
    let messages = body["messages"].as_array().expect("messages");
    let has_instructions = messages.iter().any(|message| message["role"] == "system");
    match model.as_str() {
        "blind" if body.to_string().contains("image_url") => {
            return refusal("404 N", "No endpoints found that support image input", "x");
        }
        "unverified" if body["stream"] == true => {
            return refusal(
                "400 B",
                "Your organization must be verified to stream this model.",
                "x",
            );
        }
        "unverified" => {
            let said = whole(&json!({ "role": "assistant", "content": "Done." }), "stop");
            let lines = ["content-type: application/json"];
            return vec![Step::Bytes(answer("200 OK", &lines, said.to_string().as_bytes()))];
        }
        "plain" | "plain-vllm" if has_instructions => {
            return refusal("400 B", "Developer instruction is not enabled for models/gemma", "x");
        }
        "plain" | "plain-vllm" if body.get("tools").is_some() => {
            return refusal("400 B", "Function calling is not enabled for models/gemma", "x");
        }
        _ => {}
    }
    if messages.iter().any(|message| message["role"] == "tool") || model.starts_with("plain") {
        return stream(&says("Done."));
    }
    stream(&first_answer(&model))
}

/// What the model calls.
fn first_answer(model: &str) -> Vec<upstream::Step> {
    let command = json!({ "command": format!("echo x >> {model}.txt") });
    let arguments = command.to_string();
    let (front, back) = arguments.split_at(14);
    match model {
        "echo" | "echo-vllm" => {
            let echo = piece("c1", Some("Bash"), &arguments);
            [call(0, "c1", "Bash", &command), vec![echo], end("tool_calls")].concat()
        }
        "ids" => {
            let pieces =
                vec![piece("a", Some("Bash"), ""), piece("b", None, front), piece("c", None, back)];
            [pieces, end("tool_calls")].concat()
        }
        "names" | "names-moonshot" => {
            calls(&[("c1", "functions.Read<|channel|>", json!({ "file_path": "notes.txt" }))])
        }
        "blank" | "blank-vllm" => {
            let read = json!({ "file_path": "notes.txt" });
            [vec![text("\n\n")], call(0, "c1", "Read", &read), end("tool_calls")].concat()
        }
        "texts" => {
            let todos = json!([{ "content": "a", "status": "pending", "activeForm": "b" }]);
            calls(&[("c1", "TodoWrite", json!({ "todos": todos.to_string() }))])
        }
        "blind" => calls(&[("c1", "Read", json!({ "file_path": "picture.png" }))]),
        other => panic!("no script for {other}"),
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
async fn wire_01_09_24_28_hold_behind_litellm() {
    // Installs LiteLLM if necessary.
    let _installed = Up::shared().await;
    let odd = FaultUpstream::start(Arc::new(provider));
    let up = Builder::borrowing().with_litellm(&config(&odd)).free().start_aside().await;
    up.write("notes.txt", "the quince is ripe\n");
    let picture = Path::new("tests/documents/picture.png");
    fs::copy(picture, up.workspace().join("picture.png")).expect("a copy");

    let mut wrong = Vec::new();
    for (model, _) in MODELS {
        let mut body = streamed("Go on.");
        body["model"] = model.into();
        let told = up.client().streamed(&body).await;
        if told.text().trim() != "Done." {
            wrong.push(format!("{model}: {:?}, {:?}", told.text(), told.error));
        }
    }
    for model in ["echo", "echo-vllm", "ids"] {
        let ran = fs::read_to_string(up.workspace().join(format!("{model}.txt")));
        if ran.as_deref().ok() != Some("x\n") {
            wrong.push(format!("{model}: {ran:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    drop_up(up).await;
}
