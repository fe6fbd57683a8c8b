//! What servers and configurations of other people are like, each as somebody has reported it.

use std::fs;

use serde_json::{Value, json};

use super::{allowed, call, doing, has, offered_names, one, states, text, tool, until};
use crate::lsp::skipped;
use crate::permissions::has_sandbox;
use crate::settings::trust::toolhand;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// A server of one tool with this schema, which answers with its arguments.
fn echoing(schema: &Value) -> Value {
    json!({
        "tools": [{ "name": "do", "description": "Does it.", "inputSchema": schema }],
        "on_call": [{ "echo": 1 }],
    })
}

/// What arrives of arguments at a tool with this schema.
async fn arrived(schema: Value, arguments: Value) -> (Value, String) {
    let upstream = Upstream::start();
    let server = allowed(&upstream, &[("s", echoing(&schema), "")]).start().await;
    let answer = one(&server, &upstream, ("c", "mcp__s__do", arguments)).await;
    let sent = upstream.requests().pop().expect("a request").json();
    let tools = sent["tools"].as_array().expect("definitions").iter();
    let offered = tools.map(|tool| &tool["function"]).find(|tool| tool["name"] == "mcp__s__do");
    (offered.expect("it is offered")["parameters"].clone(), answer)
}

#[tokio::test]
async fn outside_01_a_tool_whose_arguments_are_a_tree_is_offered_and_called() {
    let node = json!({
        "type": "object", "required": ["name"],
        "properties": {
            "name": { "type": "string" },
            "children": { "type": "array", "items": { "$ref": "#/$defs/node" } },
        },
    });
    let schema = json!({
        "type": "object", "properties": { "root": { "$ref": "#/$defs/node" } },
        "$defs": { "node": node },
    });
    let leaf = (0..6)
        .fold(json!({ "name": "leaf" }), |inner, _| json!({ "name": "n", "children": [inner] }));
    let arguments = json!({ "root": leaf });
    let (offered, answer) = arrived(schema.clone(), arguments.clone()).await;
    assert_eq!(serde_json::from_str::<Value>(&answer).expect("JSON"), arguments);
    assert!(!offered.to_string().contains("$ref"), "{offered}");
    let named =
        offered["properties"]["root"]["properties"]["children"]["items"]["properties"]["name"]
            .clone();
    assert_eq!(named["type"], "string", "{offered}");

    let wrong = (0..6).fold(json!({}), |inner, _| json!({ "name": "n", "children": [inner] }));
    let (_, answer) = arrived(schema, json!({ "root": wrong })).await;
    has(&answer, &["invalid input", "name` is missing"]);
}

#[tokio::test]
async fn outside_03_a_pattern_that_looks_around_is_left_to_the_server() {
    let schema = json!({ "type": "object", "properties": {
        "mail": { "type": "string", "format": "email", "pattern": "^(?!\\.)(?!.*\\.\\.)[^@]+@[^@]+$" },
        "code": { "type": "string", "pattern": "^[a-z]{2}$" },
    } });
    let arguments = json!({ "code": "de", "mail": "a@example.com" });
    let (offered, answer) = arrived(schema, arguments.clone()).await;
    assert_eq!(serde_json::from_str::<Value>(&answer).expect("JSON"), arguments);
    assert_eq!(offered["properties"]["mail"]["pattern"], Value::Null);
    assert_eq!(offered["properties"]["code"]["pattern"], "^[a-z]{2}$");
}

#[tokio::test]
async fn outside_04_05_an_empty_list_for_an_object_and_null_for_what_is_absent() {
    for schema in [
        json!({ "type": "object", "properties": [] }),
        json!({ "type": "object", "properties": null, "required": null, "enum": null,
            "additionalProperties": null }),
    ] {
        let (offered, answer) = arrived(schema, json!({})).await;
        assert_eq!(
            (offered, answer.as_str()),
            (json!({ "type": "object", "properties": {} }), "{}")
        );
    }
    let schema = json!({ "type": "object", "required": null, "properties": {
        "kind": { "type": "string", "enum": null, "description": null, "default": null },
        "more": { "type": "object", "properties": [], "required": null },
        "limit": { "type": "number", "minimum": 0, "exclusiveMinimum": true },
    } });
    let arguments = json!({ "kind": "x", "limit": 0.5, "more": { "a": 1 } });
    let (_, answer) = arrived(schema, arguments.clone()).await;
    assert_eq!(serde_json::from_str::<Value>(&answer).expect("JSON"), arguments);
}

#[tokio::test]
async fn outside_03_what_is_left_out_of_a_schema_stands_in_check_and_in_the_log() {
    let upstream = Upstream::start();
    let schema = json!({ "type": "object", "properties": { "a": { "pattern": "(?=a)b" } } });
    let server = allowed(&upstream, &[("s", echoing(&schema), "")]).start().await;
    assert_eq!(offered_names(&server, &upstream).await, ["mcp__s__do"]);
    let words = "the pattern \"(?=a)b\", which is not supported";
    let log = server.log();
    assert_eq!(log.lines().filter(|line| line.contains("(?=a)b")).count(), 1, "{log}");
    let output = toolhand(&server, &["check"]);
    has(&String::from_utf8_lossy(&output.stdout), &["do is offered without", words]);
}

#[tokio::test]
async fn outside_52_the_last_words_of_a_server_stand_in_status_check_and_warning() {
    let upstream = Upstream::start();
    let script = json!({ "on_start": [
        { "write": "starting\nAPI_URL is required\n" }, { "exit": 1 },
    ] });
    let server = allowed(&upstream, &[("s", script, "")]).start().await;
    until(&server, "it to be off", |state| state["state"] == "off").await;
    let words = "exit code 1; its last words: starting | API_URL is required";
    assert_eq!(states(&server).await[0]["why"], words);
    has(&server.log(), &["API_URL is required"]);
    let output = toolhand(&server, &["check"]);
    has(&String::from_utf8_lossy(&output.stdout), &[words]);
}

#[tokio::test]
async fn outside_52_a_server_that_is_not_ready_in_time_is_told_with_its_last_words() {
    let upstream = Upstream::start();
    let script = json!({ "on_start": [{ "write": "waiting for the database\n" }, { "deaf": 1 }] });
    let server = allowed(&upstream, &[("s", script, "start_timeout = \"5s\"")])
        .config("mcp.backoff", "[]")
        .start()
        .await;
    until(&server, "it to be off", |state| state["state"] == "off").await;
    let words = "it was not ready within 5s; its last words: waiting for the database";
    assert_eq!(states(&server).await[0]["why"], words);
}

#[tokio::test]
async fn outside_53_what_a_server_keeps_in_its_caches_is_there_at_its_next_start() {
    let upstream = Upstream::start();
    let script = doing(json!([{ "keep": "npm_config_cache" }]));
    let server = allowed(&upstream, &[("s", script, "")]).start().await;
    if !has_sandbox(&server).await {
        let test = "outside_53_what_a_server_keeps_in_its_caches_is_there_at_its_next_start";
        return skipped(test, "no sandbox");
    }
    assert_eq!(one(&server, &upstream, call("mcp__s__do")).await, "kept nothing before");
    let home = server.state_dir().join("mcp");
    let kept: Vec<_> = fs::read_dir(home).expect("a directory").collect();
    assert_eq!(kept.len(), 1);
    // `check` starts the server anew.
    fs::write(
        server.workspace().join("s.json"),
        json!({
            "tools": [tool("do")], "on_start": [{ "kept": "npm_config_cache" }],
        })
        .to_string(),
    )
    .expect("a file");
    let output = toolhand(&server, &["check"]);
    has(&String::from_utf8_lossy(&output.stdout), &["its last words: kept it before"]);
}

fn write_mcp_file(server: &Server, bytes: &[u8]) {
    fs::write(server.workspace().join(".mcp.json"), bytes).expect("a file");
}

#[tokio::test]
async fn outside_18_19_a_file_of_another_program_is_read_with_its_mark_and_its_spellings() {
    let upstream = Upstream::start();
    let script = json!({ "tools": [tool("do")], "on_call": [{ "env": "PORT" }] });
    let server = allowed(&upstream, &[("own", doing(json!([])), "")]).start().await;
    fs::write(server.workspace().join("w.json"), script.to_string()).expect("a file");
    let file = json!({ "mcpServers": {
        "ours": {
            "type": "STDIO", "command": "/usr/bin/python3",
            "args": [server.workspace().join("server.py"), server.workspace().join("w.json")],
            "env": { "PORT": 3000, "DEBUG": true, "NONE": null, "GITHUB_TOKEN": "ghp_0123456789" },
        },
        "none": { "command": "x", "env": null, "disabled": true },
        "far": { "type": "streamableHttp", "url": "https://example.invalid/mcp" },
        "further": { "type": "streamable_http", "url": "https://example.invalid/mcp" },
    } });
    write_mcp_file(&server, &[b"\xef\xbb\xbf", file.to_string().as_bytes()].concat());
    let settings = server.workspace().join(".claude");
    fs::create_dir_all(&settings).expect("a directory");
    let allow = json!({ "permissions": { "deny": ["Bash(rm *)"] } }).to_string();
    fs::write(settings.join("settings.json"), [b"\xef\xbb\xbf", allow.as_bytes()].concat())
        .expect("a file");
    let workspace = server.workspace().display().to_string();
    assert!(toolhand(&server, &["trust", &workspace]).status.success());

    let checked = String::from_utf8(toolhand(&server, &["check"]).stdout).expect("text");
    has(&checked, &["4 servers", "the MCP server ours", "the MCP server far"]);
    for wrong in ["cannot be read", "every call"] {
        assert!(!checked.contains(wrong), "{wrong} in {checked}");
    }
    let without_effect = checked.matches("no effect: the MCP server").count();
    has(&checked, &["no effect: the MCP server none", "the file disables it"]);
    assert_eq!(without_effect, 1, "{checked}");
    if has_sandbox(&server).await {
        has(&checked, &["  ours: ready"]);
    }
}

#[tokio::test]
async fn outside_mcp_accept_takes_the_flags_of_the_running_server() {
    let upstream = Upstream::start();
    let script = doing(json!([{ "result": text("done") }]));
    let server = allowed(&upstream, &[("s", script, "")]).start().await;
    assert_eq!(offered_names(&server, &upstream).await, ["mcp__s__do"]);
    let changed = json!({ "tools": [
        { "name": "do", "description": "Sends.", "inputSchema": { "type": "object" } },
    ], "on_call": [{ "result": text("sent") }] });
    fs::write(server.workspace().join("s.json"), changed.to_string()).expect("a file");
    let (workspace, state) = (server.workspace(), server.state_dir());
    let accept = [
        "mcp",
        "accept",
        "s",
        "--workspace",
        workspace.to_str().expect("text"),
        "--state-dir",
        state.to_str().expect("text"),
        "--listen",
        "127.0.0.1:0",
        "--permission-mode",
        "default",
        "--sandbox",
        "auto",
        "--no-auth",
        "--upstream",
        "http://127.0.0.1:9/v1",
        "--log",
        "json",
        // Those of `up`.
        "--litellm-config",
        "litellm.yaml",
        "--litellm-workers",
        "2",
        "--litellm-port",
        "4001",
        "--demo-port",
        "4002",
    ];
    let output = toolhand(&server, &accept);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    has(&told, &["1 tools are taken as they are now, 1 of them changed or new"]);
    let output = toolhand(&server, &[&["mcp", "list"][..], &accept[3..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn outside_47_an_error_of_a_program_that_names_no_request_ends_the_call_that_waits() {
    let upstream = Upstream::start();
    for id in [json!(null), json!(""), json!("unknown")] {
        let error = json!({ "code": -32_700, "message": "Parse error: too deep" });
        let script = doing(json!([{ "send": { "id": id, "error": error } }]));
        let server = allowed(&upstream, &[("s", script, "")]).start().await;
        let answer = one(&server, &upstream, call("mcp__s__do")).await;
        has(&answer, &["Error: ", "the MCP server s refuses this: Parse error: too deep"]);
        assert_eq!(states(&server).await[0]["state"], "ready");
    }
}

#[tokio::test]
async fn outside_18_19_files_in_utf_16_and_in_the_spellings_of_further_programs_are_read() {
    let upstream = Upstream::start();
    let script = json!({ "tools": [tool("do")] });
    let server = allowed(&upstream, &[("own", doing(json!([])), "")]).start().await;
    fs::write(server.workspace().join("w.json"), script.to_string()).expect("a file");
    let program = json!([server.workspace().join("server.py"), server.workspace().join("w.json")]);
    let parts = json!({ "path": "/usr/bin/python3", "args": program, "env": { "PORT": 1 } });
    let workspace = server.workspace().display().to_string();
    let zed = json!({ "context_servers": { "ours": { "source": "custom", "command": parts } } });
    let list = json!({ "mcpServers": [
        { "name": "ours", "command": "/usr/bin/python3", "args": program, "env": ["PORT=1"] },
    ] });
    let opencode = json!({ "mcp": { "ours": { "type": "local", "enabled": true,
        "command": ["/usr/bin/python3", program[0], program[1]],
        "environment": { "HOME_OF": "{env:HOME}" } } } });
    let empty = json!({ "mcpServers": { "ours": { "transport": { "type": "stdio" }, "url": "",
        "command": "/usr/bin/python3", "args": program, "headers": [], "cwd": "" } } });
    for file in [zed, list, opencode, empty] {
        let text = format!("\u{feff}{file}");
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        write_mcp_file(&server, &wide);
        assert!(toolhand(&server, &["trust", &workspace]).status.success());
        let checked = String::from_utf8(toolhand(&server, &["check"]).stdout).expect("text");
        for wrong in ["no effect: the MCP server", "cannot be read", "is not UTF-8"] {
            assert!(!checked.contains(wrong), "{file}: {wrong} in {checked}");
        }
        has(&checked, &["the MCP server ours"]);
        if has_sandbox(&server).await {
            has(&checked, &["  ours: ready"]);
        }
    }
}

#[tokio::test]
async fn outside_tools_json_prints_what_goes_upstream() {
    let upstream = Upstream::start();
    let server = allowed(&upstream, &[("s", doing(json!([])), "")]).start().await;
    assert_eq!(offered_names(&server, &upstream).await, ["mcp__s__do"]);
    let sent = upstream.requests().pop().expect("a request").json()["tools"].clone();
    let output = toolhand(&server, &["tools", "--json"]);
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed, sent);
}
