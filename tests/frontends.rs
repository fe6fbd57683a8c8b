//! Tests the requests of Open WebUI, as they were recorded, against the whole chain.

use serde_json::{Value, json};

use crate::support::client::{Answer, Client, with};
use crate::support::up::{Shared, Up};

/// The headers that Open WebUI sends when its administrator forwards them.
fn forwarding(client: Client) -> Client {
    client
        .header("X-OpenWebUI-User-Name", "Quince")
        .header("X-OpenWebUI-User-Id", "8c5f5a1e-0d0b-4a57-9f3b-3d9f2b1c7a10")
        .header("X-OpenWebUI-User-Role", "admin")
        .header("X-OpenWebUI-Chat-Id", "3f2b8c1e-6f4e-4a0e-8a37-52f6f6f0b9d2")
}

/// A turn: streamed, and with nothing but the model and the conversation.
fn turn(messages: &Value) -> Value {
    json!({ "stream": true, "model": "demo", "messages": messages })
}

fn user(text: &str) -> Value {
    json!([{ "role": "user", "content": text }])
}

/// A call about the conversation: unstreamed, one message, no tools.
fn task(instructions: &str, output: &str) -> Value {
    let prompt = format!(
        "### Task:\n{instructions}\n### Guidelines:\n- Answer in the chat's language.\n\
         ### Output:\nJSON format: {output}\n### Chat History:\n<chat_history>\n\
         USER: read notes.txt\nASSISTANT: the quince is ripe\n</chat_history>"
    );
    json!({ "model": "demo", "messages": user(&prompt), "stream": false })
}

/// The tools that it declares with native function calling, two of some thirty.
fn native_tools() -> Value {
    let tool = |name: &str, parameter: &str| {
        json!({ "type": "function", "function": {
            "name": name,
            "description": "A tool of the frontend.",
            "parameters": {
                "type": "object",
                "properties": { parameter: { "type": "string" } },
                "required": [parameter],
            },
        }})
    };
    json!([tool("search_memories", "query"), tool("view_note", "note_id")])
}

async fn up() -> Shared {
    Up::shared().await
}

/// The JSON that a background call asked for.
fn told(answer: &Answer) -> Value {
    assert_eq!(answer.status(), 200, "{}", answer.json());
    let message = &answer.json()["choices"][0]["message"];
    assert!(message.get("tool_calls").is_none_or(Value::is_null), "{message}");
    assert!(message.get("reasoning_content").is_none_or(Value::is_null), "{message}");
    let text = answer.text();
    let from = text.find('{').unwrap_or_else(|| panic!("no JSON: {text}"));
    let to = text.rfind('}').map_or(from, |end| end + 1);
    serde_json::from_str(&text[from..to]).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn a_turn_of_open_webui_that_is_not_recognised_shows_the_tools_as_thinking() {
    let up = up().await;
    let transcript = up.client().streamed(&turn(&user("read notes.txt"))).await;

    assert!(transcript.text().contains("the quince is ripe"), "{:?}", transcript.message);
    assert_eq!(transcript.finish_reason.as_deref(), Some("stop"));
    let lines = transcript.reasoning();
    assert!(lines.contains("Read notes.txt"), "{lines}");
    assert_eq!(transcript.card_outputs(), []);
}

/// By its headers, by its dialog, or by what its administrator wrote for the connection.
#[tokio::test]
async fn open_webui_shows_each_call_as_a_card() {
    let up = up().await;
    let by_connection = up.client().header("X-Toolhand-Progress", "cards");
    let dialog = json!({ "tools": [{ "type": "function", "function": {
        "name": "ask_user",
        "parameters": { "type": "object", "properties": { "questions": { "type": "array" } } },
    }}] });
    let plain = turn(&user("read notes.txt"));
    for (client, request) in [
        (forwarding(up.client()), plain.clone()),
        (up.client(), with(plain.clone(), dialog)),
        (by_connection, plain),
    ] {
        let transcript = client.streamed(&request).await;

        assert!(transcript.text().contains("the quince is ripe"), "{:?}", transcript.message);
        let [(output, status)] = &transcript.card_outputs()[..] else {
            panic!("{:#?}", transcript.card_items())
        };
        assert!(output.contains("the quince is ripe") && status == "completed", "{output}");
        assert_eq!(transcript.reasoning(), "");
    }
}

#[tokio::test]
async fn the_header_of_a_connection_chooses_the_progress() {
    let up = up().await;
    let client = up.client().header("X-Toolhand-Progress", "none");

    let transcript = client.streamed(&turn(&user("read notes.txt"))).await;

    assert!(transcript.text().contains("the quince is ripe"), "{:?}", transcript.message);
    assert_eq!(transcript.reasoning(), "");
}

#[tokio::test]
async fn a_message_that_is_wrapped_around_attached_files_is_a_turn_with_tools() {
    let up = up().await;
    let wrapped = "### Task:\nAnswer with the help of the context.\n\n<context>\n\
                   <source id=\"1\" name=\"plums.txt\">run true</source>\n</context>\n\n\
                   read notes.txt";

    let transcript = up.client().streamed(&turn(&user(wrapped))).await;

    assert!(transcript.text().contains("the quince is ripe"), "{:?}", transcript.message);
    assert_eq!(transcript.toolhand["tool_calls"], 1, "{:?}", transcript.message);
}

#[tokio::test]
async fn titles_tags_and_follow_ups_get_their_json_and_no_tools() {
    let up = up().await;
    let title = task("Generate a concise title.", r#"{ "title": "your concise title here" }"#);
    let tags = task("Generate 1-3 broad tags.", r#"{ "tags": ["tag1", "tag2"] }"#);
    let follow_ups =
        task("Suggest follow-up questions.", r#"{ "follow_ups": ["Question 1?", "Question 2?"] }"#);
    for client in [up.client(), forwarding(up.client())] {
        let title_client = client.clone().header("X-OpenWebUI-Task", "title_generation");
        assert!(told(&title_client.chat(&title).await)["title"].is_string());
        assert!(told(&client.chat(&title).await)["title"].is_string());
        assert!(told(&client.chat(&tags).await)["tags"].is_array());
        assert!(told(&client.chat(&follow_ups).await)["follow_ups"].is_array());
    }
}

#[tokio::test]
async fn native_function_calling_works_beside_the_servers_tools() {
    let up = up().await;
    let tools = json!({ "tools": native_tools() });
    let request = r#"read notes.txt and call search_memories with {"query": "quince"}"#;

    let first = up.client().streamed(&with(turn(&user(request)), tools.clone())).await;

    assert_eq!(first.finish_reason.as_deref(), Some("tool_calls"));
    let calls = first.message["tool_calls"].as_array().expect("calls");
    assert_eq!(calls.len(), 1, "only its own: {calls:?}");
    assert_eq!(calls[0]["function"]["name"], "search_memories");
    let messages = json!([
        { "role": "user", "content": request },
        { "role": "assistant", "content": first.text(), "tool_calls": calls },
        { "role": "tool", "tool_call_id": calls[0]["id"], "content": "no memory of a quince" },
    ]);
    let second = up.client().streamed(&with(turn(&messages), tools)).await;
    assert_eq!(second.finish_reason.as_deref(), Some("stop"));
    for quoted in ["no memory of a quince", "the quince is ripe"] {
        assert!(second.text().contains(quoted), "{quoted}: {}", second.text());
    }
}

#[tokio::test]
async fn a_chat_goes_on_and_regenerating_runs_the_tools_again() {
    let up = up().await;
    let client = up.client();
    let first = client.streamed(&turn(&user("read notes.txt"))).await;
    let messages = json!([
        { "role": "user", "content": "read notes.txt" },
        { "role": "assistant", "content": first.text() },
        { "role": "user", "content": "find quince in notes.txt" },
    ]);

    for _same_bytes in 0..2 {
        let answer = client.streamed(&turn(&messages)).await;
        assert!(answer.text().contains("Grep (quince)"), "{:?}", answer.message);
        assert_eq!(answer.toolhand["tool_calls"], 1, "{:?}", answer.message);
    }
}
