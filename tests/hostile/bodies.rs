//! Tests bodies that are not JSON, or no valid completion request.

use serde_json::{Value, json};

use super::door;
use crate::support::chunks::says;
use crate::support::client::{Answer, ask, with};
use crate::support::server::Server;

async fn send(server: &Server, body: &[u8]) -> Answer {
    server.client().send("POST", "/v1/chat/completions", Some(body)).await
}

#[tokio::test]
async fn v1_v2_v3_v4_v22_what_is_not_strict_json_is_refused() {
    let (_upstream, server) = door().await;
    let whole = ask("Hi").to_string();
    let inside = |member: &str| whole.replacen('{', &format!("{{{member},"), 1);
    let deep = |open: &str, close: &str| {
        inside(&format!(r#""deep":{}1{}"#, open.repeat(130), close.repeat(130)))
    };
    for body in [
        String::new(),
        "{".to_owned(),
        format!("{whole} x"),
        whole.replacen('}', ",}", 1),
        format!("\u{feff}{whole}"),
        inside(r#""x":NaN"#),
        inside(r#""x":1e999"#),
        whole.replace('"', "'"),
        inside("\"x\":\"a\nb\""),
        inside(r#""model":"twice""#),
        inside(r#""metadata":{"a":1,"a":2}"#),
        inside(r#""x":"\ud83d""#),
        deep("[", "]"),
        deep("{\"a\":", "}"),
    ] {
        let refused = send(&server, body.as_bytes()).await;
        assert_eq!(refused.refusal(), (400, "invalid_json".to_owned()), "{body}");
        let message = refused.json()["error"]["message"].as_str().expect("a message").to_owned();
        assert!(message.contains("line ") && message.contains("column "), "{body}: {message}");
    }
    // V4
    for body in ["[]", "\"text\"", "null"] {
        assert_eq!(send(&server, body.as_bytes()).await.refusal().0, 400, "{body}");
    }
    let refused = send(&server, b"{\"model\":\"\xff\"}").await;
    assert_eq!(refused.refusal(), (400, "invalid_json".to_owned()));
}

#[tokio::test]
async fn v1_the_place_of_the_mistake_is_told() {
    let (_upstream, server) = door().await;
    let refused = send(&server, b"{\n  \"model\": oops }").await;
    let message = refused.json()["error"]["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("line 2"), "{message}");
}

/// Checks that the request is refused with 400, and that the error names `param`.
async fn check(server: &Server, members: Value, param: &str) {
    let refused = server.client().chat(&with(ask("Hi"), members.clone())).await;
    let (status, code) = refused.refusal();
    assert_eq!(status, 400, "{members}");
    assert_ne!(code, "invalid_json", "{members}");
    let told = refused.json()["error"]["param"].clone();
    assert_eq!(told, json!(param), "{members}: {}", refused.json());
}

#[tokio::test]
async fn v5_messages_are_a_list_of_some() {
    let (_upstream, server) = door().await;
    let missing = server.client().chat(&json!({ "model": "scripted" })).await;
    assert_eq!(missing.refusal(), (400, "missing_field".to_owned()));
    assert_eq!(missing.json()["error"]["param"], "messages");
    let many = vec![json!({ "role": "user", "content": "" }); 10_001];
    for messages in [json!([]), json!("Hi"), json!(null), json!({}), Value::Array(many)] {
        check(&server, json!({ "messages": messages }), "messages").await;
    }
}

#[tokio::test]
async fn v6_v7_v8_a_message_is_told_by_its_place() {
    let (_upstream, server) = door().await;
    let user = json!({ "role": "user", "content": "Hi" });
    let image = |url: &str| json!([{ "type": "image_url", "image_url": { "url": url } }]);
    for (message, param) in [
        (json!({ "role": "robot", "content": "Hi" }), "messages[1].role"),
        (json!({ "content": "Hi" }), "messages[1].role"),
        (json!({ "role": "user", "content": null }), "messages[1].content"),
        (json!({ "role": "user", "content": 5 }), "messages[1].content"),
        (json!({ "role": "user" }), "messages[1].content"),
        (json!({ "role": "user", "content": [{ "text": "Hi" }] }), "messages[1].content[0].type"),
        (
            json!({ "role": "user", "content": image("file:///etc/passwd") }),
            "messages[1].content[0].image_url.url",
        ),
        (
            json!({ "role": "user", "content": image("/etc/passwd") }),
            "messages[1].content[0].image_url.url",
        ),
        (json!("Hi"), "messages[1]"),
    ] {
        check(&server, json!({ "messages": [user, message] }), param).await;
    }
}

#[tokio::test]
async fn v7_v8_v22_what_is_upstreams_to_judge_goes_there() {
    let (upstream, server) = door().await;
    let parts = json!([
        { "type": "hologram", "depth": 3 },
        { "type": "image_url", "image_url": { "url": "https://pictures.example/cat.png" } },
        { "type": "text", "text": "\u{0}\u{200b}\u{200b}" },
    ]);
    let messages = json!([{ "role": "user", "content": parts }]);
    upstream.round(says("I see."));

    let answer = server.client().chat(&with(ask(""), json!({ "messages": messages }))).await;

    assert_eq!(answer.status(), 200);
    let sent = upstream.request(0).await.json();
    assert_eq!(sent["messages"].as_array().and_then(|sent| sent.last()), Some(&messages[0]));
}

#[tokio::test]
async fn v18_answers_without_their_call_are_named() {
    let (_upstream, server) = door().await;
    let call = |id: &str| json!({ "id": id, "type": "function", "function": { "name": "weather", "arguments": "{}" } });
    let answer = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": "wet" });
    let asked = json!({ "role": "assistant", "tool_calls": [call("c1"), call("c2")] });
    let user = json!({ "role": "user", "content": "Hi" });
    for (messages, code, named) in [
        (json!([user, answer("lost")]), "unknown_tool_call", "lost"),
        (json!([user, asked, answer("c1")]), "missing_tool_results", "c2"),
    ] {
        let body = with(ask(""), json!({ "messages": messages }));
        let refused = server.client().chat(&body).await;
        assert_eq!(refused.refusal(), (400, code.to_owned()), "{messages}");
        let told = refused.json()["error"]["message"].as_str().expect("text").to_owned();
        assert!(told.contains(named), "{told}");
    }
}

#[tokio::test]
async fn v20_arguments_of_the_history_are_made_valid() {
    let (upstream, server) = door().await;
    let call = |id: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": "weather", "arguments": arguments } });
    let messages = json!([
        { "role": "user", "content": "Hi" },
        { "role": "assistant", "tool_calls": [call("c1", "{broken"), call("c2", "")] },
        { "role": "tool", "tool_call_id": "c1", "content": "no" },
        { "role": "tool", "tool_call_id": "c2", "content": "no" },
    ]);
    upstream.round(says("I see."));

    // The scripted upstream checks that the arguments it gets are JSON.
    let answer = server.client().chat(&with(ask(""), json!({ "messages": messages }))).await;

    assert_eq!(answer.status(), 200);
}
