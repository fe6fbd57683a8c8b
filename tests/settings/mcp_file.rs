//! Tests which servers of a workspace's `.mcp.json` start.

use std::fs;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use super::trust::{builder, told, toolhand, trust};
use crate::permissions::has_sandbox;
use crate::sessions::after;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// A server with one tool, for a machine without any library of the protocol.
const SCRIPT: &str = r#"
import json, sys
open("started", "a").write("x")
for line in sys.stdin:
    ask = json.loads(line)
    answers = {
        "initialize": lambda: {"protocolVersion": ask["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "ours", "version": "1"}},
        "tools/list": lambda: {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]},
        "tools/call": lambda: {"content": [{"type": "text", "text": "done"}]},
    }
    if ask.get("method") in answers:
        result = answers[ask["method"]]()
        print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}), flush=True)
"#;

fn write(server: &Server, servers: &Value) {
    let text = json!({ "mcpServers": servers }).to_string();
    fs::write(server.workspace().join(".mcp.json"), text).expect("a file");
}

fn ours() -> Value {
    json!({ "command": "/usr/bin/python3", "args": ["-c", SCRIPT] })
}

/// What `check` says of the servers.
fn checked(server: &Server) -> String {
    let output = toolhand(server, &["check"]);
    let home = server.state_dir().parent().expect("the home").display().to_string();
    let text = String::from_utf8(output.stdout).expect("text").replace(&home, "~");
    let about = text.lines().skip_while(|line| !line.starts_with("MCP file:"));
    about.take_while(|line| line.starts_with("MCP") || line.starts_with(' ')).fold(
        String::new(),
        |text, line| {
            let line = line.split(" tools, started in").next().unwrap_or(line);
            text + line + "\n"
        },
    )
}

#[tokio::test]
async fn a_pipe_in_the_place_of_the_file_is_named() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    mkfifoat(CWD, server.workspace().join(".mcp.json"), Mode::RUSR | Mode::WUSR).expect("a pipe");
    let output = toolhand(&server, &["trust", server.workspace().to_str().expect("UTF-8")]);
    let told = String::from_utf8(output.stderr).expect("text");
    let why = "its .mcp.json is not trusted: not a regular file but a named pipe";
    assert!(told.contains(why), "{told}");
}

/// Whether a server of the workspace has run since the last look.
fn has_started(server: &Server) -> bool {
    fs::remove_file(server.workspace().join("started")).is_ok()
}

#[tokio::test]
async fn g1_m12_a_servers_command_runs_only_from_a_file_that_was_trusted_as_it_is() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    let has_sandbox = has_sandbox(&server).await;
    write(&server, &json!({ "ours": ours(), "\u{1b}[2J": {} }));
    insta::assert_snapshot!(checked(&server), @r"
    MCP file: ~/workspace/.mcp.json: 2 servers
      ignored (untrusted): the MCP server \u{1b}[2J
      ignored (untrusted): the MCP server ours
    MCP servers: none stand under [mcp.servers]
    ");
    assert!(!has_started(&server));

    trust(&server, "trust", &server.workspace());
    let inner = json!({ "type": "http", "url": format!("http://{}/mcp", server.address()) });
    let idle = json!({ "command": "x", "disabled": true });
    write(&server, &json!({ "ours": ours(), "inner": inner, "idle": idle }));
    insta::assert_snapshot!(checked(&server), @r"
    MCP file: ~/workspace/.mcp.json: 3 servers
      ignored (the file has changed since it was trusted): the MCP server idle
      ignored (the file has changed since it was trusted): the MCP server inner
      ignored (the file has changed since it was trusted): the MCP server ours
    MCP servers: none stand under [mcp.servers]
    ");
    assert!(!has_started(&server));

    trust(&server, "trust", &server.workspace());
    let told = checked(&server);
    assert!(told.contains("  the MCP server ours\n"), "{told}");
    let why = "  no effect: the MCP server idle: the file disables it\n";
    assert!(told.contains(why), "{told}");
    assert!(told.contains("inner: off: its address is not public"), "{told}");
    let expected = if has_sandbox { "ours: ready" } else { "ours: off: no sandbox holds" };
    assert!(told.contains(expected), "{told}");
    assert_eq!(has_started(&server), has_sandbox);

    trust(&server, "untrust", &server.workspace());
    assert!(checked(&server).contains("  ignored (untrusted): the MCP server ours\n"));
    assert!(!has_started(&server));
}

#[tokio::test]
async fn m12_a_server_of_the_workspace_never_runs_without_a_sandbox() {
    let upstream = Upstream::start();
    let mut first = builder(&upstream).start().await;
    write(&first, &json!({ "ours": ours() }));
    trust(&first, "trust", &first.workspace());
    first.stop();

    let server = after(&upstream, &first).argument("--sandbox=off").start().await;

    server.logged("does not run without", 0).await;
    let status = server.client().get("/toolhand/v1/status").await.json();
    assert_eq!(status["mcp"][0]["name"], "ours", "{status}");
    assert!(!has_started(&first));
}

#[tokio::test]
async fn m12_a_running_server_ends_once_its_file_changes() {
    let upstream = Upstream::start();
    let mut first = builder(&upstream).start().await;
    if !has_sandbox(&first).await {
        return;
    }
    write(&first, &json!({ "ours": ours() }));
    trust(&first, "trust", &first.workspace());
    first.stop();
    let server = after(&upstream, &first)
        .config("approval.channel", r#""none""#)
        .config("permissions.allow", r#"["mcp__ours"]"#)
        .config("mcp.first_turn_wait", r#""60s""#)
        .start()
        .await;
    let call = || ("c1", "mcp__ours__do", json!({}));
    assert_eq!(told(&server, &upstream, call()).await, "done");

    write(&first, &json!({ "ours": ours(), "more": {} }));

    let answer = told(&server, &upstream, call()).await;
    assert!(answer.starts_with("Error:"), "{answer}");
    server.no_children().await;
}
