//! A frontend's own calls beside a turn: they wait for nothing, and leave no trace.

use serde_json::{Value, json};

use super::frontends::{reads, server};
use super::{assistant, conversation, user};
use crate::support::chunks::{calls, end, gate, says, status, text, whole};
use crate::support::client::{Client, with};
use crate::support::upstream::Upstream;

fn task(output: &str) -> Value {
    let prompt =
        format!("### Task:\nSuggest.\n### Output:\nJSON format: {output}\n### Chat History:\nx");
    with(conversation(&[user(&prompt)]), json!({ "stream": false, "model": "background" }))
}

fn title(upstream: &Upstream) {
    let message = json!({ "role": "assistant", "content": "{\"title\": \"Notes\"}" });
    upstream.round_of("background", status(200, &whole(&message, "stop")));
}

async fn export(client: &Client) -> Value {
    client.get("/toolhand/v1/sessions/chat-1").await.json()
}

#[tokio::test]
async fn v25_a_background_call_waits_for_no_turn_and_writes_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-openwebui-chat-id", "chat-1");
    let of_title = client.clone().header("x-openwebui-task", "title_generation");
    // It arrives before the turn, under the same id.
    title(&upstream);
    assert_eq!(of_title.chat(&task("{ \"title\": \"\" }")).await.text(), "{\"title\": \"Notes\"}");
    assert_eq!(client.get("/toolhand/v1/sessions").await.json()["data"], json!([]));

    let last = [vec![text("It is "), gate("half"), text("done.")], end("stop")].concat();
    upstream.round_of("scripted", reads());
    upstream.round_of("scripted", last);
    let mut stream =
        client.stream(&with(conversation(&[user("Read.")]), json!({ "stream": true }))).await;
    stream.until_text().await;
    for client in [&of_title, &client, &client.clone().header("x-toolhand-session", "chat-1")] {
        title(&upstream);
        let answer = client.chat(&task("{ \"title\": \"\" }")).await;
        assert_eq!(answer.text(), "{\"title\": \"Notes\"}");
        let turns = server.client().get("/toolhand/v1/turns").await.json();
        assert_eq!(turns["data"].as_array().map(Vec::len), Some(1), "{turns}");
    }
    upstream.open("half");
    stream.finish().await;

    let told = export(&server.client()).await;
    assert_eq!(told["turns"], 1);
    assert!(!told.to_string().contains("Task"), "{told}");
    for request in upstream.requests().iter().filter(|one| one.json()["model"] == "background") {
        let body = request.json();
        assert_eq!(body.get("tools"), None);
        assert_eq!(body["messages"].as_array().map(Vec::len), Some(1), "{body}");
    }
}

#[tokio::test]
async fn v25_a_suspended_turn_stays_as_it_is_under_background_calls() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-openwebui-chat-id", "chat-1");
    let write = json!({ "file_path": "new.txt", "content": "new\n" });
    upstream.round_of("scripted", calls(&[("c1", "Write", write)]));
    let question = client.chat(&conversation(&[user("Write.")])).await.text();

    title(&upstream);
    client.chat(&task("{ \"title\": \"\" }")).await;
    let asked = upstream.requests().len();
    // What the user could say next would answer the question: no model is asked.
    let of_scripted = with(task("{ \"follow_ups\": [] }"), json!({ "model": "scripted" }));
    let nothing = client.chat(&of_scripted).await;
    assert_eq!(nothing.text(), "{\"follow_ups\": []}");
    assert_eq!(nothing.header("x-toolhand-session"), Some("chat-1"));
    let of_another = with(task("{ \"follow_ups\": [] }"), json!({ "model": "small" }));
    assert_eq!(client.chat(&of_another).await.text(), "{\"follow_ups\": []}");
    let by_code = with(
        task("{ \"follow_ups\": [] }"),
        json!({ "messages": [user(&format!("### Task:\n\"follow_ups\"\nASSISTANT: {question}"))] }),
    );
    assert_eq!(server.client().chat(&by_code).await.text(), "{\"follow_ups\": []}");
    assert_eq!(upstream.requests().len(), asked);

    upstream.round_of("scripted", says("Written."));
    let list = [user("Write."), assistant(&question), user("1")];
    assert_eq!(client.chat(&conversation(&list)).await.text(), "Written.");
    assert_eq!(server.file("new.txt"), "new\n");
}
