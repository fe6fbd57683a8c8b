//! Tests request members with values that no client means.

use serde_json::{Value, json};

use super::door;
use crate::support::chunks::says;
use crate::support::client::{ask, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

async fn code(server: &Server, members: &Value) -> (u16, String, Value) {
    let refused = server.client().chat(&with(ask("Hi"), members.clone())).await;
    let (status, code) = refused.refusal();
    (status, code, refused.json()["error"]["param"].clone())
}

#[tokio::test]
async fn v9_a_model_has_a_name() {
    let (_upstream, server) = door().await;
    for model in [json!(""), json!("m".repeat(4096)), json!("a\nb"), json!(5), json!(null)] {
        let refused = code(&server, &json!({ "model": model })).await;
        assert_eq!((refused.0, refused.2), (400, json!("model")), "{model}");
    }
    let missing = server.client().chat(&json!({ "messages": [] })).await;
    assert_eq!(missing.refusal(), (400, "missing_field".to_owned()));
}

#[tokio::test]
async fn v11_there_is_one_answer() {
    let (upstream, server) = door().await;
    for n in [json!(0), json!(2), json!("1"), json!(-1)] {
        let refused = code(&server, &json!({ "n": n })).await;
        assert_eq!(refused, (400, "unsupported_value".to_owned(), json!("n")), "{n}");
    }
    upstream.round(says("Yes."));
    let one = server.client().chat(&with(ask("Hi"), json!({ "n": 1 }))).await;
    assert_eq!(one.status(), 200);
}

#[tokio::test]
async fn v12_v13_wrong_types_are_refused_here() {
    let (_upstream, server) = door().await;
    for (members, param) in [
        (json!({ "stream": "true" }), "stream"),
        (json!({ "stream_options": { "include_usage": true } }), "stream_options"),
        (json!({ "stream": true, "stream_options": 1 }), "stream_options"),
        (json!({ "temperature": "hot" }), "temperature"),
        (json!({ "max_tokens": "many" }), "max_tokens"),
        (json!({ "tools": {} }), "tools"),
        (json!({ "tool_choice": 5 }), "tool_choice"),
        (json!({ "parallel_tool_calls": "no" }), "parallel_tool_calls"),
        (json!({ "metadata": "x" }), "metadata"),
    ] {
        let refused = code(&server, &members).await;
        assert_eq!((refused.0, refused.2), (400, json!(param)), "{members}");
    }
}

#[tokio::test]
async fn v13_v14_ranges_and_news_are_upstreams_to_judge() {
    let (upstream, server) = door().await;
    for members in [
        json!({ "max_tokens": -1 }),
        json!({ "max_tokens": 1e30 }),
        json!({ "temperature": 99 }),
        json!({ "stop": ["1", "2", "3", "4", "5"] }),
        json!({ "logprobs": true, "modalities": ["text"], "audio": { "voice": "v" } }),
        json!({ "a_field_of_tomorrow": { "deep": [1, null] } }),
    ] {
        upstream.round(says("Yes."));
        let answer = server.client().chat(&with(ask("Hi"), members.clone())).await;
        assert_eq!(answer.status(), 200, "{members}");
        let sent = upstream.requests().pop().expect("a request").json();
        for (name, value) in members.as_object().expect("an object") {
            assert_eq!(&sent[name], value, "{members}");
        }
    }
    // Upstream's refusal is passed on.
    let refusal = json!({ "error": { "message": "max_tokens is too small", "code": "400" } });
    upstream.round(crate::support::chunks::status(400, &refusal));
    let refused = server.client().chat(&with(ask("Hi"), json!({ "max_tokens": -1 }))).await;
    assert_eq!(refused.refusal(), (400, "upstream_rejected".to_owned()));
    assert!(refused.json()["error"]["message"].as_str().expect("text").contains("too small"));
}

#[tokio::test]
async fn v22_many_invisible_characters_are_text() {
    let (upstream, server) = door().await;
    let text = "\u{200b}".repeat(1_000_000) + "\0";
    upstream.round(says("Yes."));

    assert_eq!(server.client().chat(&ask(&text)).await.status(), 200);

    let sent = upstream.request(0).await.json();
    let last = sent["messages"].as_array().and_then(|sent| sent.last()).expect("a message");
    assert_eq!(last["content"], json!(text));
}

#[tokio::test]
async fn v14_unknown_fields_can_be_refused() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).config("upstream.unknown_fields", r#""refuse""#).start().await;
    let refused = code(&server, &json!({ "a_field_of_tomorrow": 1 })).await;
    assert_eq!((refused.0, refused.2), (400, json!("a_field_of_tomorrow")));
    upstream.round(says("Yes."));
    let known = json!({ "logprobs": true, "seed": 1, "modalities": ["text"], "top_logprobs": 2 });
    assert_eq!(server.client().chat(&with(ask("Hi"), known)).await.status(), 200);
}

fn tool(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name } })
}

#[tokio::test]
async fn v16_tools_are_bounded_and_well_named() {
    let (_upstream, server) = door().await;
    let deep = (0..100).fold(json!({}), |inner, _| json!({ "properties": { "a": inner } }));
    let with_schema = |schema: Value| json!({ "type": "function", "function": { "name": "x", "parameters": schema } });
    let thousand: Vec<Value> = (0..1000).map(|number| tool(&format!("tool_{number}"))).collect();
    for tools in [
        Value::Array(thousand),
        json!([tool(&"n".repeat(65))]),
        json!([tool("a/b")]),
        json!([tool("a b")]),
        json!([tool("é")]),
        json!([tool("")]),
        json!([tool("twice"), tool("twice")]),
        json!([with_schema(json!({ "description": "x".repeat(2 << 20) }))]),
        json!([{ "type": "mcp", "server_url": "http://evil" }]),
        json!([{ "function": { "name": "x" } }]),
        json!([{ "type": "function" }]),
    ] {
        let refused = code(&server, &json!({ "tools": tools })).await;
        assert_eq!(refused.0, 400, "{}", tools.to_string().chars().take(80).collect::<String>());
    }
    // Our own limit for JSON is below 200 levels.
    assert_eq!(code(&server, &json!({ "tools": [with_schema(deep)] })).await.0, 400);
}

#[tokio::test]
async fn v17_a_forced_tool_is_one_that_there_is() {
    let (_upstream, server) = door().await;
    let named = json!({ "type": "function", "function": { "name": "nobody" } });
    let refused = code(&server, &json!({ "tool_choice": named })).await;
    assert_eq!((refused.0, refused.2), (400, json!("tool_choice.function.name")));
    let no_tools = json!({ "tool_choice": "required", "toolhand": { "tools": { "allow": [] } } });
    let refused = code(&server, &no_tools).await;
    assert_eq!((refused.0, refused.2), (400, json!("tool_choice")));
}

#[tokio::test]
async fn the_extension_knows_its_keys() {
    let (_upstream, server) = door().await;
    for (extension, named) in [
        (json!({ "session": "a\nb" }), "session"),
        (json!({ "history": "server" }), "history"),
        (json!({ "detach": "yes" }), "detach"),
        (json!({ "include": ["all"] }), "include"),
        (json!({ "progres": "none" }), "progres"),
        (json!({ "progress": "loud" }), "progress"),
        (json!({ "progress": "card" }), "progress"),
        (json!({ "workspace": "elsewhere" }), "workspace"),
        (json!({ "workspace": "/etc" }), "workspace"),
        (json!({ "max_rounds": 0 }), "max_rounds"),
        (json!({ "max_rounds": "many" }), "max_rounds"),
        (json!({ "tools": { "allow": ["Nobody"] } }), "tools"),
        (json!({ "mode": "yolo" }), "mode"),
    ] {
        let refused = code(&server, &json!({ "toolhand": extension })).await;
        assert_eq!(refused.0, 400, "{extension}");
        let told = refused.2.as_str().expect("a param").to_owned();
        assert!(told.starts_with("toolhand") && told.contains(named), "{extension}: {told}");
    }
}

#[tokio::test]
async fn a_mode_may_only_be_tightened() {
    let (_upstream, server) = door().await;
    let refused = code(&server, &json!({ "toolhand": { "mode": "bypassPermissions" } })).await;
    assert_eq!((refused.0, refused.1), (403, "mode_not_allowed".to_owned()));
}
