//! Tests the unmodified OpenAI SDKs against the whole chain, the real LiteLLM included.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::environment;
use crate::support::up::Up;

/// Runs a script of `tests/sdk` and reads the JSON that it prints.
async fn run(program: PathBuf, script: &str) -> Value {
    let up = Up::shared().await;
    let mut command = Command::new(program);
    command.arg(Path::new("tests/sdk").join(script)).args([&up.base_url(), &up.key]);
    let running = tokio::task::spawn_blocking(move || command.output());
    let output = running.await.expect("no panic").expect("the SDK's interpreter");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} failed:\n{errors}\n--- up ---\n{}", up.log());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[track_caller]
fn quotes_the_file(told: &Value, turn: &str) {
    let text = told[turn]["text"].as_str().unwrap_or_default();
    assert!(text.contains("the quince is ripe"), "{turn}: {told:#}");
}

#[tokio::test]
async fn the_python_sdk() {
    let told = run(environment("sdk").await.join("bin/python"), "turns.py").await;

    assert_eq!(told["models"], json!(["demo"]));
    for turn in ["unstreamed", "streamed", "helper", "async", "async_helper"] {
        quotes_the_file(&told, turn);
    }
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
    assert_eq!(told["extension"]["tool_calls"], 1);
    assert_eq!(told["unknown_model"], json!({ "status": 404, "code": "model_not_found" }));
}

#[tokio::test]
async fn the_node_sdk() {
    environment("sdk").await;
    let told = run("node".into(), "turns.mjs").await;

    for turn in ["unstreamed", "streamed", "helper"] {
        quotes_the_file(&told, turn);
        assert_eq!(told[turn]["finish"], "stop", "{turn}");
    }
    assert_eq!(told["client_tool"]["finish"], "tool_calls", "{told:#}");
    assert_eq!(told["client_tool"]["arguments"], json!({ "city": "Oslo" }));
    let text = told["client_tool"]["text"].as_str().unwrap_or_default();
    assert!(text.contains("rain, 7 degrees"), "{told:#}");
    assert_eq!(told["wrong_key"], json!({ "status": 401, "code": "invalid_api_key" }));
}
