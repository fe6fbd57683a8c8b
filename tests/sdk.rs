//! Tests unmodified SDKs and agent frameworks against the whole chain, the real LiteLLM
//! included.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::chunks::calls;
use crate::support::environment;
use crate::support::server::{KEY, Server};
use crate::support::up::Up;
use crate::support::upstream::{Step, Upstream};

/// Runs a script of `tests/sdk` against the whole chain, and reads the JSON that it prints.
async fn run(program: PathBuf, script: &str) -> Value {
    let up = Up::shared().await;
    let told = output(&program, script, &[&up.base_url(), &up.key]).await;
    told.unwrap_or_else(|fault| panic!("{fault}\n--- up ---\n{}", up.log()))
}

/// Runs a script of `tests/sdk`, and reads the JSON that it prints. The error has its stderr.
async fn output(program: &Path, script: &str, arguments: &[&str]) -> Result<Value, String> {
    let mut command = Command::new(program);
    command.arg(Path::new("tests/sdk").join(script)).args(arguments);
    let running = tokio::task::spawn_blocking(move || command.output());
    let output = running.await.expect("no panic").expect("the script's interpreter");
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{script} failed:\n{errors}"));
    }
    Ok(serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[track_caller]
fn quotes_the_file(told: &Value, turn: &str) {
    let text = told[turn]["text"].as_str().unwrap_or_default();
    assert!(text.contains("the quince is ripe"), "{turn}: {told:#}");
}

/// The stream helper passed the items on, and took none of them for a call.
#[track_caller]
fn shows_cards(turn: &Value) {
    let items = turn["items"].as_array().expect("items");
    assert_eq!(items.last(), Some(&json!("function_call_output")), "{turn:#}");
    assert!(items.contains(&json!("function_call")) && turn["calls"].is_null(), "{turn:#}");
}

/// What the schema of the scripts describes.
#[track_caller]
fn is_a_summary(object: &Value) {
    assert!(object["title"].is_string() && object["lines"].is_i64(), "{object:#}");
}

/// Read and the client's tool answered in one message, in the model's order.
#[track_caller]
fn tells_both_answers_once(text: &Value) {
    let text = text.as_str().unwrap_or_default();
    let (read, weather) = (text.find("Read (notes.txt) answered"), text.find("get_weather (Oslo)"));
    assert!(read.is_some() && read < weather, "{text}");
    assert_eq!(text.matches("Read (notes.txt)").count(), 1, "{text}");
    assert_eq!(text.matches("get_weather (Oslo)").count(), 1, "{text}");
    assert!(text.contains("the quince is ripe") && text.contains("rain, 7 degrees"), "{text}");
}

/// The server read a file and the client's tool ran, once.
#[track_caller]
fn used_both_tools(told: &Value, turn: &str) {
    quotes_the_file(told, turn);
    let text = told[turn]["text"].as_str().unwrap_or_default();
    assert!(text.contains("Oslo: rain, 7 degrees"), "{turn}: {told:#}");
    assert_eq!(told[turn]["cities"], json!(["Oslo"]), "{turn}: {told:#}");
}

#[tokio::test]
async fn the_python_sdk() {
    let told = run(environment("sdk").await.join("bin/python"), "turns.py").await;

    assert_eq!(told["models"], json!(["demo"]));
    for turn in ["unstreamed", "streamed", "helper", "cards", "async", "async_helper"] {
        quotes_the_file(&told, turn);
    }
    shows_cards(&told["cards"]);
    assert_eq!(told["unstreamed"]["finish"], "stop");
    assert_eq!(told["streamed"]["finish"], "stop");
    assert_eq!(told["helper"]["finish"], "stop");
    assert!(told["unstreamed"]["usage"].as_u64() > Some(0));
    assert_eq!(told["unstreamed"]["usage"], told["streamed"]["usage"]);
    assert_eq!(told["unstreamed"]["text"], told["streamed"]["text"]);
    assert_eq!(told["helper"]["kinds"], json!(["chunk", "content.delta", "content.done"]));
    for turn in ["client_tool", "client_tool_streamed"] {
        assert_eq!(told[turn]["finish"], "tool_calls", "{told:#}");
        assert_eq!(told[turn]["name"], "get_weather");
        assert_eq!(told[turn]["arguments"], json!({ "city": "Oslo" }));
    }
    let text = told["client_tool"]["text"].as_str().unwrap_or_default();
    assert!(text.contains("rain, 7 degrees"), "{told:#}");
    for turn in ["unstreamed", "streamed"] {
        is_a_summary(&told["structured"][turn]);
    }
    assert_eq!(told["extension"]["tool_calls"], 1);
    assert_eq!(told["unknown_model"], json!({ "status": 404, "code": "model_not_found" }));
}

#[tokio::test]
async fn the_python_sdk_resends_visible_messages_alone() {
    let told = run(environment("sdk").await.join("bin/python"), "conversations.py").await;

    let memory = &told["memory"];
    let recalled = memory["recalled"]["text"].as_str().unwrap_or_default();
    assert!(recalled.contains("Read (notes.txt) answered:"), "{memory:#}");
    assert!(recalled.contains("the quince is ripe") && recalled.contains("Glob (*.txt)"));
    assert_eq!(memory["recalled"]["session"], memory["read"]["session"]);

    let approval = &told["approval"];
    assert_eq!(approval["question"]["finish"], "stop", "{approval:#}");
    assert_eq!(approval["question"]["asked"][0]["tool"], "Write", "{approval:#}");
    let question = approval["question"]["text"].as_str().unwrap_or_default();
    assert!(question.contains("+plum") && question.contains("`1` allow once"), "{question}");
    let allowed = approval["allowed"]["text"].as_str().unwrap_or_default();
    assert!(allowed.contains("Write (of-python.txt) answered:"), "{approval:#}");
    let denied = approval["denied"][1]["text"].as_str().unwrap_or_default();
    assert!(denied.contains("Write (pear.txt) failed:"), "{approval:#}");
    assert!(denied.contains("no, thank you"), "{approval:#}");

    let question = &told["question"];
    assert_eq!(question["question"]["asked"][0]["tool"], "AskUserQuestion", "{question:#}");
    let answered = question["answered"]["text"].as_str().unwrap_or_default();
    assert!(answered.contains(r#"{"Which colour?":"Blue"}"#), "{question:#}");

    let mixed = &told["mixed"];
    assert_eq!(mixed["calls"], json!(["get_weather"]), "{mixed:#}");
    tells_both_answers_once(&mixed["text"]);
    tells_both_answers_once(&mixed["recalled"]);
    assert_eq!(mixed["sessions"][0], mixed["sessions"][1], "{mixed:#}");
    assert_eq!(mixed["sessions"][0], mixed["sessions"][2], "{mixed:#}");
}

#[tokio::test]
async fn the_node_sdk() {
    environment("sdk").await;
    let told = run("node".into(), "turns.mjs").await;

    for turn in ["unstreamed", "streamed", "helper", "cards"] {
        quotes_the_file(&told, turn);
        assert_eq!(told[turn]["finish"], "stop", "{turn}");
    }
    shows_cards(&told["cards"]);
    for progress in ["events", "cards"] {
        let turn = &told["asked"][progress];
        assert_eq!((&turn["finish"], &turn["calls"]), (&json!("stop"), &Value::Null), "{turn:#}");
        assert_eq!(turn["asked"][0]["tool"], "Write", "{turn:#}");
        assert!(turn["text"].to_string().contains(".txt) answered:"), "{turn:#}");
    }
    let kinds = told["asked"]["events"]["kinds"].as_array().expect("kinds");
    assert!(kinds.contains(&json!("approval")), "{kinds:?}");
    assert_eq!(told["client_tool"]["finish"], "tool_calls", "{told:#}");
    assert_eq!(told["client_tool"]["arguments"], json!({ "city": "Oslo" }));
    let text = told["client_tool"]["text"].as_str().unwrap_or_default();
    assert!(text.contains("rain, 7 degrees"), "{told:#}");
    is_a_summary(&told["structured"]);
    assert_eq!(told["wrong_key"], json!({ "status": 401, "code": "invalid_api_key" }));
}

#[tokio::test]
async fn the_ai_sdk() {
    environment("sdk").await;
    let told = run("node".into(), "ai.mjs").await;

    for turn in ["unstreamed", "streamed", "reasoning"] {
        quotes_the_file(&told, turn);
    }
    for turn in ["unstreamed", "streamed"] {
        assert_eq!(told[turn]["finish"], "stop", "{turn}");
        assert!(told[turn]["usage"].as_u64() > Some(0), "{turn}: {told:#}");
    }
    assert_eq!(told["unstreamed"]["steps"], 1, "the server's rounds are no steps");
    for turn in ["client_tool", "client_tool_streamed"] {
        used_both_tools(&told, turn);
        assert_eq!(told[turn]["steps"], 2, "{told:#}");
    }
    let memory = &told["mixed_memory"];
    assert_eq!(memory["cities"], json!(["Oslo"]), "{memory:#}");
    tells_both_answers_once(&memory["text"]);
    assert!(memory["sessions"][0].is_string(), "{memory:#}");
    assert_eq!(memory["sessions"][0], memory["sessions"][1], "{memory:#}");
    for turn in ["output", "object", "streamed"] {
        is_a_summary(&told["structured"][turn]);
    }
    let lines = told["reasoning"]["lines"].as_str().unwrap_or_default();
    assert!(lines.starts_with("→ Read notes.txt\n✓ Read notes.txt ("), "{told:#}");
    assert_eq!(told["responses"]["status"], 404, "{told:#}");
    let message = told["responses"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("openai.chat("), "{message}");
}

#[tokio::test]
async fn the_agents_sdk() {
    let told = run(environment("sdk").await.join("bin/python"), "agents_sdk.py").await;

    for turn in ["answer", "streamed"] {
        quotes_the_file(&told, turn);
    }
    assert_eq!(told["streamed"]["text"], told["streamed"]["final"]);
    let kinds = told["answer"]["kinds"].to_string();
    assert!(!kinds.contains("tool_call"), "the server's calls are not the client's: {kinds}");
    assert!(told["answer"]["usage"].as_u64() > Some(0), "{told:#}");
    for turn in ["tool", "tool_streamed"] {
        used_both_tools(&told, turn);
        let kinds = told[turn]["kinds"].to_string();
        assert_eq!(kinds.matches("\"tool_call_item\"").count(), 1, "{told:#}");
    }
    is_a_summary(&told["structured"]);
    assert_eq!(told["handoff"]["last"], "Reader", "{told:#}");
    assert_eq!(told["responses"]["status"], 404, "{told:#}");
    let message = told["responses"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("OpenAIChatCompletionsModel"), "{message}");
}

#[tokio::test]
async fn langchain() {
    let told = run(environment("sdk").await.join("bin/python"), "langchain_agent.py").await;

    for turn in ["answer", "streamed"] {
        quotes_the_file(&told, turn);
    }
    for turn in ["agent", "agent_streamed"] {
        used_both_tools(&told, turn);
        tells_both_answers_once(&told[turn]["text"]);
        tells_both_answers_once(&told[turn]["recalled"]);
        assert_eq!(told[turn]["calls"], json!(["get_weather"]), "{told:#}");
    }
}

/// What a client makes of a turn that fails after a command has run: the status that it tells,
/// how often the command ran, and how often upstream was asked.
async fn tries(program: &Path, script: &str, client: &str) -> (Value, String, usize) {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("upstream.retries", "0").free().start().await;
    // As many turns as the most eager client would have.
    for _ in 0..7 {
        let command = json!({ "command": "echo ran >> marks" });
        upstream.round(calls(&[("c1", "Bash", command)]));
        upstream.round(vec![Step::Close]);
    }
    let base_url = format!("http://{}/v1", server.address());
    let told = output(program, script, &[client, &base_url, KEY]).await;
    let told = told.unwrap_or_else(|fault| panic!("{client}: {fault}"));
    let asked = upstream.requests().len();
    upstream.forget_script();
    (told["status"].clone(), server.file("marks"), asked)
}

#[tokio::test]
async fn wire_52_no_client_runs_a_command_again_by_its_own_retries() {
    let python = environment("sdk").await.join("bin/python");
    let node = Path::new("node");
    for (program, script, client) in [
        (node, "retries.mjs", "openai"),
        (node, "retries.mjs", "ai"),
        (node, "retries.mjs", "ai_compatible"),
        (node, "retries.mjs", "langchain"),
        (&python, "retries.py", "openai"),
        (&python, "retries.py", "langchain"),
    ] {
        let (status, marks, asked) = tries(program, script, client).await;
        assert_eq!((status, marks.as_str(), asked), (json!(400), "ran\n", 2), "{script} {client}");
    }
}
