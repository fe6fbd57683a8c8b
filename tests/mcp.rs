//! Lets models use MCP servers through the HTTP door: scripted ones that misbehave, and real ones.

mod answers;
mod confined;
mod definitions;
mod failures;
pub(crate) mod installed;
mod keys;
mod outside;
mod outside_http;
mod outside_schemas;
mod permissions;
mod public;
mod real;

use std::fs;

use serde_json::{Value, json};

use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::support::watch;
use crate::turn::{Call, one, told};

/// An MCP server of our own. Its argument is the file of its script.
const SCRIPT: &str = include_str!("mcp/server.py");

/// A scripted server: its name, its script, and further lines of its table.
type Scripted<'a> = (&'a str, Value, &'a str);

/// A server with these MCP servers, and nothing allowed.
fn builder(upstream: &Upstream, servers: &[Scripted<'_>]) -> Builder {
    let mut builder = Server::builder(upstream)
        .config("mcp.first_turn_wait", r#""60s""#)
        .config("mcp.backoff", r#"["1ms", "1ms", "1ms"]"#)
        .file("server.py", SCRIPT);
    for (name, script, more) in servers {
        let workspace = builder.workspace();
        let [file, log] = ["json", "log"].map(|end| workspace.join(format!("{name}.{end}")));
        let mut script = script.clone();
        script["log"] = json!(log);
        let arguments = json!([workspace.join("server.py"), file]);
        builder = builder.file(&format!("{name}.json"), &script.to_string()).tables(&format!(
            "[mcp.servers.{name}]\ncommand = \"/usr/bin/python3\"\nargs = {arguments}\n{more}\n"
        ));
    }
    builder
}

/// The same, where each call of them is allowed and nobody is asked.
fn allowed(upstream: &Upstream, servers: &[Scripted<'_>]) -> Builder {
    let rules: Vec<_> = servers.iter().map(|(name, ..)| format!("mcp__{name}")).collect();
    builder(upstream, servers)
        .config("approval.channel", r#""none""#)
        .config("permissions.allow", &json!(rules).to_string())
}

fn tool(name: &str) -> Value {
    described(name, "Does it.")
}

fn described(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// A script with the one tool `do`, which does this when it is called.
#[expect(clippy::needless_pass_by_value, reason = "each test writes its value in place")]
fn doing(actions: Value) -> Value {
    json!({ "tools": [tool("do")], "on_call": actions })
}

fn call(name: &'static str) -> Call {
    ("c", name, json!({}))
}

/// The MCP tools of a list of definitions: their names and descriptions.
fn mcp_tools(definitions: &Value) -> Vec<(String, String)> {
    let word =
        |tool: &Value, member: &str| tool["function"][member].as_str().expect("a text").to_owned();
    let all = definitions.as_array().expect("definitions").iter();
    let all = all.map(|tool| (word(tool, "name"), word(tool, "description")));
    all.filter(|(name, _)| name.starts_with("mcp__")).collect()
}

/// The MCP tools that the next turn offers to the model.
async fn offered(server: &Server, upstream: &Upstream) -> Vec<(String, String)> {
    told(server, upstream, &[]).await;
    mcp_tools(&upstream.requests().pop().expect("a request").json()["tools"])
}

async fn offered_names(server: &Server, upstream: &Upstream) -> Vec<String> {
    offered(server, upstream).await.into_iter().map(|(name, _)| name).collect()
}

/// Each server's state, how many tools it offers, and why it is off.
async fn states(server: &Server) -> Vec<Value> {
    let status = server.client().get("/toolhand/v1/status").await.json();
    status["mcp"].as_array().expect("servers").clone()
}

/// Waits until the first server's state is as it should be.
async fn until(server: &Server, what: &str, is_so: impl Fn(&Value) -> bool) {
    let waiting = async { while !is_so(&states(server).await[0]) {} };
    watch(what, waiting).await;
}

/// What a scripted server has heard: methods, and what it was answered.
fn heard(server: &Server, name: &str) -> Vec<String> {
    let log = server.workspace().join(format!("{name}.log"));
    fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn count(server: &Server, name: &str, method: &str) -> usize {
    heard(server, name).iter().filter(|line| *line == method).count()
}

/// A text of which every part must be there.
#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}
