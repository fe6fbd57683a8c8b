//! Tests that what real MCP servers offer and answer reaches each provider through the real
//! LiteLLM: their schemas, a call that tells its progress, a picture, links to resources.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::drop_up;
use super::providers::{builder, pictures, question, shipped_settings, start_with};
use crate::mcp::installed;
use crate::support::providers::{Captured, Provider, Providers, Said};
use crate::support::up::Up;

/// How many tools each of the servers has.
const TOOL_COUNTS: [(&str, usize); 5] =
    [("everything", 13), ("fetch", 1), ("files", 14), ("git", 12), ("time", 2)];

/// A chain with all of the servers, whose tools may be called, and a repository to look at.
async fn start(providers: &Providers) -> Up {
    let builder = builder().await;
    let workspace = builder.workspace();
    let mut init = Command::new("git");
    init.args(["init", "-q"]).current_dir(&workspace).stdin(Stdio::null());
    assert!(init.status().expect("git").success());
    let servers = [
        ("everything", installed::everything().await),
        ("fetch", installed::fetch().await),
        ("files", installed::filesystem(&workspace).await),
        ("git", installed::git().await),
        ("time", installed::time().await),
    ];
    let rules: Vec<_> = servers.iter().map(|(name, _)| format!("mcp__{name}")).collect();
    let settings = format!(
        "permissions.allow = {}\nmcp.first_turn_wait = \"60s\"\n{}",
        json!(rules),
        installed::configuration(&servers)
    );
    start_with(providers, shipped_settings(), builder.configured(&settings)).await
}

/// The calls, and what is in their answers.
fn calls(up: &Up) -> Vec<(&'static str, Value, &'static str)> {
    let workspace = up.workspace();
    let converted =
        json!({ "source_timezone": "UTC", "target_timezone": "Asia/Tokyo", "time": "12:00" });
    vec![
        ("mcp__time__convert_time", converted, "21:00"),
        ("mcp__git__git_status", json!({ "repo_path": workspace }), "Untracked files:"),
        (
            "mcp__files__read_text_file",
            json!({ "path": workspace.join("notes.txt") }),
            "the quince is ripe",
        ),
        ("mcp__fetch__fetch", json!({ "url": "http://127.0.0.1:1/" }), "Error: "),
        ("mcp__everything__get-sum", json!({ "a": 2, "b": 3.5 }), "5.5"),
        (
            "mcp__everything__trigger-long-running-operation",
            json!({ "duration": 0.2, "steps": 4 }),
            "completed",
        ),
        ("mcp__everything__get-tiny-image", json!({}), "(image attached) PNG"),
        ("mcp__everything__get-resource-links", json!({ "count": 2 }), "[link to the resource "),
    ]
}

/// The tools of the servers, by name: what toolhand says that it sends.
async fn advertised(up: &Up) -> Vec<Value> {
    let listed = up.client().get("/toolhand/v1/tools").await.json();
    let tools = listed["data"].as_array().expect("tools").iter();
    let tools = tools.map(|tool| tool.get("function").unwrap_or(tool).clone());
    tools.filter(|tool| tool["name"].to_string().starts_with("\"mcp__")).collect()
}

fn properties(tool: &Value) -> BTreeSet<String> {
    let properties = tool["parameters"]["properties"].as_object();
    properties.map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
}

/// Each definition has arrived, with its description and its parameters.
fn check_definitions(request: &Captured, advertised: &[Value]) {
    let arrived = request.tools();
    for tool in advertised {
        let place = format!("{:?}, {}", request.provider, tool["name"]);
        let found = arrived.iter().filter(|found| found["name"] == tool["name"]);
        let found: Vec<_> = found.collect();
        let [found] = found[..] else { panic!("{place}: {} times", found.len()) };
        assert_eq!(found["description"], tool["description"], "{place}");
        assert_eq!(properties(found), properties(tool), "{place}");
    }
}

#[tokio::test]
async fn what_real_mcp_servers_offer_and_answer_reaches_each_provider() {
    let providers = Providers::start();
    let up = start(&providers).await;
    let calls = calls(&up);
    for provider in Provider::ALL {
        let said = calls.iter().map(|(name, input, _)| (*name, input.clone()));
        providers.say([Said::Calls(said.collect()), Said::Text("All of it.")]);
        let asked = json!([{ "role": "user", "content": "What is there?" }]);
        let answer = up.client().streamed(&question(provider, asked)).await;
        assert_eq!(answer.text(), "All of it.", "{provider:?}");

        let captured = providers.take();
        let [first, second] = &captured[..] else { panic!("{provider:?}: {}", captured.len()) };
        let advertised = advertised(&up).await;
        for (server, count) in TOOL_COUNTS {
            let prefix = format!("\"mcp__{server}__");
            let of_server =
                advertised.iter().filter(|tool| tool["name"].to_string().starts_with(&prefix));
            assert_eq!(of_server.count(), count, "{server}: {advertised:?}");
        }
        check_definitions(first, &advertised);
        let exchanges = second.exchanges();
        assert_eq!(exchanges.len(), calls.len(), "{provider:?}: {exchanges:?}");
        for (found, (name, arguments, answer)) in exchanges.iter().zip(&calls) {
            assert_eq!((found.name.as_str(), &found.arguments), (*name, arguments), "{provider:?}");
            assert!(found.answer.contains(answer), "{provider:?}: {found:?}");
        }
        let mut found = Vec::new();
        pictures(&second.json(), &mut found);
        let shown = found.iter().filter(|picture| picture.starts_with("iVBOR")).count();
        assert_eq!(shown, usize::from(provider != Provider::Ollama), "{provider:?}");
    }
    drop_up(up).await;
}
