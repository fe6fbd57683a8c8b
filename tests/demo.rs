//! Tests the demo model through the server, without LiteLLM between them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::client::{Answer, Client, ask, with};
use crate::support::server::{Builder, Server};
use crate::support::up::Up;

/// A running `toolhand demo-model`. Dropping it ends it.
#[derive(Debug)]
struct DemoModel {
    child: Child,
    url: String,
}

impl DemoModel {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_toolhand"))
            .arg("demo-model")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server's binary");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let line = lines.next().expect("a line").expect("text");
        let address = line.strip_prefix("listening on ").expect("the address");
        Self { url: format!("{address}/v1"), child }
    }
}

impl Drop for DemoModel {
    fn drop(&mut self) {
        let _gone = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// A server in front of the demo model, in which every tool may run.
async fn server() -> (DemoModel, Server) {
    let model = DemoModel::start();
    let server = Builder::new(&model.url)
        .free()
        .file("notes.txt", "the quince is ripe\n")
        .file("src/a.rs", "")
        .start()
        .await;
    (model, server)
}

fn demo(question: &str, members: Value) -> Value {
    with(with(ask(question), json!({ "model": "demo" })), members)
}

/// Two tools of the client.
fn own_tools() -> Value {
    let tool = |name: &str| {
        let parameters =
            json!({ "type": "object", "properties": { "city": { "type": "string" } } });
        json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
    };
    json!({ "tools": [tool("get_weather"), tool("get_time")] })
}

/// Adds the answer's message and an answer to each of its calls, as an SDK does. Returns the
/// names of the calls.
fn go_on(body: &mut Value, answer: &Answer) -> Vec<String> {
    let message = answer.json()["choices"][0]["message"].clone();
    let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
    let messages = body["messages"].as_array_mut().expect("a list");
    messages.push(message);
    for call in &calls {
        let name = call["function"]["name"].as_str().expect("a name");
        messages.push(json!({ "role": "tool", "tool_call_id": call["id"],
            "content": format!("{name} says fine") }));
    }
    let names = calls.iter().map(|call| call["function"]["name"].as_str().expect("a name"));
    names.map(str::to_owned).collect()
}

/// Goes on until the demo model calls no tool of the client. Returns the names of the calls,
/// a list for each request, and the last text.
async fn to_its_end(client: &Client, mut body: Value) -> (Vec<Vec<String>>, String) {
    let mut requests = Vec::new();
    loop {
        let answer = client.chat(&body).await;
        assert_eq!(answer.status(), 200, "{}", answer.json());
        let names = go_on(&mut body, &answer);
        if names.is_empty() {
            return (requests, answer.text());
        }
        requests.push(names);
        assert!(requests.len() < 5, "{requests:?}");
    }
}

#[tokio::test]
async fn a_clients_tool_beside_ours_is_called_once_and_nothing_is_lost() {
    let (_model, server) = server().await;
    let both = r#"read notes.txt and call get_weather with {"city": "Oslo"}"#;

    let (calls, text) = to_its_end(&server.client(), demo(both, own_tools())).await;

    assert_eq!(calls, [["get_weather"]]);
    for told in ["the quince is ripe", "get_weather says fine"] {
        assert_eq!(text.matches(told).count(), 1, "{told}: {text}");
    }
}

#[tokio::test]
async fn commands_before_and_after_a_clients_tool_run_once() {
    let (_model, server) = server().await;
    let question = r#"run echo one >> log then call get_weather with {"city": "Oslo"} and
        call get_time with {"city": "Oslo"} then run echo two >> log and read notes.txt then
        call get_time"#;

    let (calls, text) = to_its_end(&server.client(), demo(question, own_tools())).await;

    assert_eq!(calls, [vec!["get_weather", "get_time"], vec!["get_time"]]);
    assert_eq!(server.file("log"), "one\ntwo\n");
    // The client's list does not show the first command; the session does.
    assert!(text.contains("Bash (echo one >> log) answered:"), "{text}");
    assert_eq!(text.matches("says fine").count(), 3, "{text}");
}

#[tokio::test]
async fn json_of_a_schema_parses_after_a_tool_and_streamed_too() {
    let (_model, server) = server().await;
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "minLength": 3 },
            "kind": { "enum": ["fruit", "tree"] },
            "parts": { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/part" } },
        },
        "required": ["name", "kind", "parts"],
        "additionalProperties": false,
        "$defs": { "part": { "type": "object", "properties": { "n": { "type": "integer" } },
            "required": ["n"], "additionalProperties": false } },
    });
    let format = json!({ "response_format": { "type": "json_schema",
        "json_schema": { "name": "quince", "strict": true, "schema": schema } } });

    let without_tools = json!({ "toolhand": { "tools": { "allow": [] } } });
    let body = with(demo("who are you?", format), without_tools);
    let answer = server.client().chat(&body).await;
    let transcript = server.client().streamed(&with(body, json!({ "stream": true }))).await;

    for text in [answer.text(), transcript.text().to_owned()] {
        let found: Value = serde_json::from_str(&text).expect("JSON");
        assert!(jsonschema::is_valid(&schema, &found), "{found}");
    }
}

#[tokio::test]
async fn a_directory_is_listed_by_its_name() {
    let (_model, server) = server().await;

    let text = server.client().chat(&demo("list src", json!({}))).await.text();

    assert!(text.contains("answered:\n\n```text\n") && text.contains("a.rs"), "{text}");
}

#[tokio::test]
async fn a_title_is_the_json_that_open_webui_asks_for() {
    let (_model, server) = server().await;
    let prompt = "### Task:\nGenerate a title.\n### Output:\nJSON format: { \"title\": \"x\" }\n\
                  ### Chat History:\n<chat_history>\nUSER: read notes.txt\n</chat_history>";

    let text = server.client().chat(&demo(prompt, json!({ "stream": false }))).await.text();

    assert_eq!(text, r#"{"title":"Demo: read notes.txt"}"#);
}

#[tokio::test]
async fn what_it_cannot_do_is_a_400_that_says_so() {
    let (_model, server) = server().await;
    let bodies = [
        ("/v1/completions", json!({ "model": "demo", "prompt": "x" })),
        ("/v1/embeddings", json!({ "model": "demo", "input": "x" })),
        ("/v1/images/generations", json!({ "model": "demo", "prompt": "x" })),
    ];
    for (path, body) in bodies {
        let refused = server.client().post(path, &body).await;
        assert_eq!(refused.refusal(), (400, "upstream_rejected".to_owned()), "{path}");
        let message = refused.json()["error"]["message"].to_string();
        assert!(message.contains("it speaks chat completions only"), "{path}: {message}");
    }
}

#[tokio::test]
async fn through_litellm_errors_say_what_helps() {
    let up = Up::shared().await;
    let client = up.client();
    let asked = |model: &str| with(ask("hello"), json!({ "model": model }));
    let message = |answer: &Answer| answer.json()["error"]["message"].to_string();

    for model in ["sonnet", "ollama/llama"] {
        let refused = client.chat(&asked(model)).await;
        assert_eq!(refused.refusal(), (404, "model_not_found".to_owned()), "{model}");
        assert!(message(&refused).contains("(left out: set "), "{}", message(&refused));
    }
    let refused = client.post("/v1/embeddings", &json!({ "model": "opus", "input": "x" })).await;
    assert!(message(&refused).contains("left out: set ANTHROPIC_API_KEY"), "{}", message(&refused));
    let refused = client.chat(&asked("dem")).await;
    assert!(message(&refused).contains("did you mean demo?"), "{}", message(&refused));

    for (path, body) in [
        ("/v1/completions", json!({ "model": "demo", "prompt": "x" })),
        ("/v1/completions", json!({ "model": "demo", "prompt": "x", "stream": true })),
        ("/v1/embeddings", json!({ "model": "demo", "input": "x" })),
        ("/v1/moderations", json!({ "model": "demo", "input": "x" })),
        ("/v1/images/generations", json!({ "model": "demo", "prompt": "x" })),
        ("/v1/audio/speech", json!({ "model": "demo", "input": "x", "voice": "alloy" })),
    ] {
        let refused = client.post(path, &body).await;
        assert_eq!(refused.refusal(), (400, "upstream_rejected".to_owned()), "{path}");
        let message = message(&refused);
        assert!(message.contains("it speaks chat completions only"), "{path}: {message}");
    }
    let body = json!({ "model": "demo", "query": "x", "documents": ["a"] });
    let refused = client.post("/v1/rerank", &body).await;
    assert_eq!(refused.refusal(), (400, "upstream_rejected".to_owned()));
    assert!(message(&refused).contains("does not offer"), "{}", message(&refused));
}

#[tokio::test]
async fn through_litellm_a_schema_and_a_clients_tool_arrive() {
    let up = Up::shared().await;
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer", "minimum": 3 } },
        "required": ["n"], "additionalProperties": false });
    let format = json!({ "toolhand": { "tools": { "allow": [] } }, "response_format": {
        "type": "json_schema", "json_schema": { "name": "n", "strict": true, "schema": schema } } });
    let answer = up.client().chat(&demo("who are you?", format)).await;
    assert_eq!(answer.text(), r#"{"n":3}"#);

    let both = r#"read notes.txt and call get_weather with {"city": "Oslo"}"#;
    let (calls, text) = to_its_end(&up.client(), demo(both, own_tools())).await;
    assert_eq!(calls, [["get_weather"]]);
    for told in ["the quince is ripe", "get_weather says fine"] {
        assert_eq!(text.matches(told).count(), 1, "{told}: {text}");
    }
}

/// What a newcomer types: the model enters plan mode, shows a plan, and carries it out.
#[tokio::test]
async fn a_plan_is_made_and_approved_before_anything_changes() {
    let model = DemoModel::start();
    let server = Builder::new(&model.url).argument("--sandbox=off").start().await;
    let client = server.client().header("x-toolhand-session", "plan");
    let mut list = Vec::new();
    let mut said = Vec::new();
    for words in ["plan a greeting then write hello to hello.md", "1", "2"] {
        list.push(json!({ "role": "user", "content": words }));
        let request = json!({ "model": "demo", "messages": list });
        let answer = client.chat(&request).await.text();
        list.push(json!({ "role": "assistant", "content": answer }));
        said.push(answer);
    }
    assert!(said[0].contains("Enter plan mode?"), "{said:?}");
    assert!(said[1].contains("2. a greeting") && said[1].contains("`2` go on in acceptEdits"));
    assert!(said[2].contains("Write (hello.md) answered"), "{said:?}");
    assert_eq!(server.file("hello.md"), "hello");
}
