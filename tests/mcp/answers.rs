//! What servers answer: each kind of content, errors, resources and prompts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{allowed, call, count, described, doing, has, one, text, told, tool};
use crate::sessions::told as messages;
use crate::support::chunks::says;
use crate::support::client::ask;
use crate::support::upstream::Upstream;

const SERVER_KEY: &str = "sk-of-the-server-0123456789";

#[expect(clippy::needless_pass_by_value, reason = "each test writes its value in place")]
fn content(parts: Value) -> Value {
    doing(json!([{ "result": { "content": parts } }]))
}

#[tokio::test]
async fn a_picture_reaches_the_model_and_audio_is_kept_in_a_file() {
    let upstream = Upstream::start();
    let picture = STANDARD.encode(include_bytes!("../documents/picture.png"));
    let audio = STANDARD.encode("RIFF: as if it were audio\n");
    let script = content(json!([
        { "type": "text", "text": "before" },
        { "type": "image", "data": picture, "mimeType": "image/png" },
        { "type": "audio", "data": audio, "mimeType": "audio/wav" },
        { "type": "text", "text": "after" },
    ]));
    let server = allowed(&upstream, &[("s", script, "")]).start().await;
    let answer = one(&server, &upstream, call("mcp__s__do")).await;
    has(&answer, &["before\n(image attached) PNG, ", "\nafter", "attachment of type audio/wav"]);
    let body = upstream.requests().pop().expect("a request").json();
    assert!(body.to_string().contains("data:image/png;base64,"), "{body}");

    let kept = answer.split_once("kept in ").and_then(|(_, rest)| rest.split_once(']'));
    let path = kept.expect("a file").0;
    let bytes = std::fs::read(path).expect("the file that is named");
    assert_eq!(bytes, b"RIFF: as if it were audio\n");
}

#[tokio::test]
async fn m10_a_link_is_named_and_never_followed_and_much_is_cut() {
    let upstream = Upstream::start();
    let script = json!({ "tools": (["link", "much"].map(tool)), "calls": {
        "link": [{ "result": { "content": [
            { "type": "resource_link", "uri": "file:///etc/passwd", "name": "all users" },
            { "type": "resource_link", "uri": "http://127.0.0.1:1/x", "name": "a page" },
            { "type": "hologram", "data": "x" },
        ] } }],
        "much": [{ "result": text(&"line of it\n".repeat(600_000)) }],
    } });
    let server = allowed(&upstream, &[("s", script, "")]).start().await;
    let answers = told(&server, &upstream, &[call("mcp__s__link"), call("mcp__s__much")]).await;
    let link = "[link to the resource all users: file:///etc/passwd]\n\
                [link to the resource a page: http://127.0.0.1:1/x]";
    has(&answers[0], &[link]);
    assert!(!answers[0].contains("root:"), "{}", answers[0]);
    assert!(answers[1].len() < 200_000, "{}", answers[1].len());
    assert_eq!(count(&server, "s", "resources/read"), 0);
}

#[tokio::test]
async fn a_picture_bomb_is_not_shown() {
    let upstream = Upstream::start();
    let bomb = STANDARD.encode(include_bytes!("../documents/bomb.png"));
    let script = content(json!([{ "type": "image", "data": bomb, "mimeType": "image/png" }]));
    let server = allowed(&upstream, &[("s", script, "")]).start().await;
    let answer = one(&server, &upstream, call("mcp__s__do")).await;
    has(&answer, &["(a PNG picture that is not shown: "]);
}

#[tokio::test]
async fn structured_content_and_errors_are_told() {
    let upstream = Upstream::start();
    let failed = json!({ "content": [{ "type": "text", "text": "no such row" }], "isError": true });
    let script = json!({ "tools": (["data", "fails", "echo"].map(tool)), "calls": {
        "data": [{ "result": { "content": [], "structuredContent": { "rows": 3 } } }],
        "fails": [{ "result": failed }],
        "echo": [{ "echo": 1 }],
    } });
    let server = allowed(&upstream, &[("s", script, "")]).start().await;
    let echo = ("c", "mcp__s__echo", json!({ "b": [1, { "c": null }], "a": "ü" }));
    let calls = [call("mcp__s__data"), call("mcp__s__fails"), echo];
    let answers = told(&server, &upstream, &calls).await;
    assert_eq!(answers[0], "{\n  \"rows\": 3\n}");
    has(&answers[1], &["Error: ", "no such row"]);
    assert_eq!(answers[2], "{\"a\": \"\\u00fc\", \"b\": [1, {\"c\": null}]}");
}

#[tokio::test]
async fn m13_neither_a_key_nor_a_stack_reaches_the_model_or_the_client() {
    let upstream = Upstream::start();
    let message = format!("bad token {SERVER_KEY}\n  at /srv/main.py line 3");
    let error = json!({ "code": -32000, "message": message, "data": { "trace": "main.py" } });
    let script = json!({ "tools": (["fails", "prints", "others"].map(tool)), "calls": {
        "fails": [{ "error": error }],
        "prints": [{ "env": "SERVER_KEY" }],
        "others": [{ "env": "TOOLHAND_API_KEY" }],
    } });
    // The server repeats the key alone, and the whole value.
    let more = "env = { SERVER_KEY = \"--key=${env:GIVEN_KEY}\" }";
    let server = allowed(&upstream, &[("s", script, more)])
        .environment("GIVEN_KEY", SERVER_KEY)
        .start()
        .await;
    let calls = ["mcp__s__fails", "mcp__s__prints", "mcp__s__others"].map(call);
    let answers = told(&server, &upstream, &calls).await;
    has(&answers[0], &["Error: the MCP server s refuses this: bad token [secret]"]);
    assert!(!answers[0].contains("main.py"), "{}", answers[0]);
    assert_eq!(answers[1..], ["[secret]", "unset"]);
    assert!(!server.log().contains(SERVER_KEY));
}

#[tokio::test]
async fn resources_are_listed_and_read_and_a_prompt_is_a_command() {
    let upstream = Upstream::start();
    let prompt = json!({ "name": "greet", "description": "Greets.",
        "arguments": [{ "name": "who", "required": true }] });
    let said = json!({ "messages": [
        { "role": "user", "content": { "type": "text", "text": "Greet Ada as a pirate would." } },
    ] });
    let script = json!({
        "tools": [described("do", "Does it.")],
        "capabilities": { "tools": {}, "resources": {}, "prompts": {} },
        "answers": {
            "resources/list": { "resources": [{ "uri": "note://1", "name": "First" }] },
            "resources/templates/list": { "resourceTemplates": [
                { "uriTemplate": "note://{id}", "name": "Any note" },
            ] },
            "resources/read": { "contents": [{ "uri": "note://1", "text": "remember me" }] },
            "prompts/list": { "prompts": [prompt] },
            "prompts/get": said,
        },
    });
    let server = allowed(&upstream, &[("s", script, "")]).start().await;
    let read = json!({ "server": "s", "uri": "note://1" });
    let calls = [("c", "ListMcpResources", json!({})), ("c", "ReadMcpResource", read)];
    let answers = told(&server, &upstream, &calls).await;
    assert_eq!(answers[0], "note://1 First\ntemplate note://{id} Any note");
    has(&answers[1], &["[resource note://1]\nremember me"]);

    upstream.round(says("Ahoy, Ada."));
    let answer = server.client().chat(&ask("/mcp__s__greet Ada")).await;
    assert_eq!(answer.text(), "Ahoy, Ada.");
    let request = upstream.requests().pop().expect("a request");
    has(&messages(&request).join("\n"), &["Greet Ada as a pirate would."]);
    let refused = server.client().chat(&ask("/mcp__s__greet")).await;
    assert_eq!(refused.status(), 400, "{}", refused.json());
    has(&refused.json().to_string(), &["needs the argument `who`"]);
}

#[tokio::test]
async fn resources_are_listed_a_hundred_at_a_time() {
    let upstream = Upstream::start();
    let all: Vec<_> =
        (0..250).map(|n| json!({ "uri": format!("note://{n}"), "name": "N" })).collect();
    let script = json!({
        "tools": [tool("do")],
        "capabilities": { "tools": {}, "resources": {} },
        "answers": {
            "resources/list": { "resources": all },
            "resources/templates/list": { "resourceTemplates": [] },
        },
    });
    let server = allowed(&upstream, &[("s", script, "")]).start().await;
    let page = |cursor: &str| ("c", "ListMcpResources", json!({ "cursor": cursor }));
    let calls = [page(""), page("100"), page("200"), page("250"), page("x")];
    let answers = told(&server, &upstream, &calls).await;
    let pages =
        ["(100 of 250; go on with cursor \"100\")", "(200 of 250; go on with cursor \"200\")"];
    for (number, (answer, end)) in answers.iter().zip(pages).enumerate() {
        let first = format!("note://{} N\n", 100 * number);
        assert!(answer.starts_with(&first), "{answer}");
        assert!(answer.ends_with(end), "{answer}");
        assert_eq!(answer.matches("note://").count(), 100);
    }
    assert!(answers[2].starts_with("note://200 N\n") && answers[2].ends_with("note://249 N"));
    assert_eq!(answers[3], "(no more: 250 resources in all)");
    has(&answers[4], &["Error: ", "is no cursor of this list"]);
}

#[tokio::test]
async fn the_tools_for_resources_are_offered_where_a_server_has_some() {
    let upstream = Upstream::start();
    let offers = async |script: Value| {
        let server = allowed(&upstream, &[("s", script, "")]).start().await;
        told(&server, &upstream, &[]).await;
        let request = upstream.requests().pop().expect("a request").json();
        let tools = request["tools"].as_array().expect("definitions").iter();
        let names = tools.map(|tool| tool["function"]["name"].as_str().expect("a name"));
        names.filter(|name| name.ends_with("McpResources") || name.ends_with("McpResource")).count()
    };
    let mut script = doing(json!([]));
    assert_eq!(offers(script.clone()).await, 0);
    script["capabilities"] = json!({ "tools": {}, "resources": {} });
    script["answers"] = json!({ "resources/list": { "resources": [] } });
    assert_eq!(offers(script.clone()).await, 0);
    script["answers"] =
        json!({ "resources/list": { "resources": [{ "uri": "x://1", "name": "1" }] } });
    assert_eq!(offers(script).await, 2);
}
