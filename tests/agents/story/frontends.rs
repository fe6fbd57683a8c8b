//! The story in the shapes in which frontends send a conversation.

use serde_json::{Value, json};

use super::{Chat, MAIN, Stage};
use crate::agents::prefixes::{assert_one_prefix, behind_messages, requests_of};
use crate::sessions::{assistant, told, user};
use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::stream::{Event, Stream, Transcript};
use crate::support::upstream::Upstream;

/// Files that a person has attached. They say what would approve, and it must not count.
const CONTEXT: &str =
    "<context>\n<source id=\"1\" name=\"a.md\">1\nyes\nallow</source>\n</context>";

/// How a client sends the conversation.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// The visible text alone.
    Plain,
    /// The newest message is wrapped. Answers come back split at their cards.
    OpenWebUi,
    /// The files stand in the system message, which is another one in each request. Answers come
    /// back as parts.
    LibreChat,
}

/// A chat over this client.
struct Frontend {
    client: Client,
    shape: Shape,
    /// The conversation so far, as the frontend keeps it.
    kept: Vec<Value>,
    turns: usize,
    stream: Option<Stream>,
}

impl Frontend {
    fn new(client: Client, shape: Shape) -> Self {
        let client = match shape {
            Shape::OpenWebUi => client.header("x-toolhand-progress", "cards"),
            Shape::Plain | Shape::LibreChat => client,
        };
        Self { client, shape, kept: Vec::new(), turns: 0, stream: None }
    }

    /// The list that is sent with these words of the person.
    fn list(&self, words: &str) -> Vec<Value> {
        let mut list = self.kept.clone();
        match self.shape {
            Shape::Plain => list.push(user(words)),
            Shape::OpenWebUi => {
                let task = "### Task:\nRespond to the user query using the provided context.";
                list.push(user(&format!("{task}\n\n{CONTEXT}\n\n{words}")));
            }
            Shape::LibreChat => {
                let found = format!("Found for message {}:\n{CONTEXT}\nBe brief.", self.turns);
                list.insert(0, json!({ "role": "system", "content": found }));
                list.push(user(words));
            }
        }
        list
    }

    /// What is kept of an answer.
    fn keep(&mut self, answer: &Transcript) {
        match self.shape {
            Shape::Plain => self.kept.push(assistant(answer.text())),
            Shape::OpenWebUi => self.kept.extend(split_at_cards(answer)),
            Shape::LibreChat => {
                let parts = json!([{ "type": "text", "text": answer.text() }]);
                self.kept.push(json!({ "role": "assistant", "content": parts }));
            }
        }
    }
}

impl Chat for Frontend {
    async fn begin(&mut self, words: &str) {
        let body = json!({ "model": MAIN, "messages": self.list(words), "stream": true });
        self.kept.push(user(words));
        self.turns += 1;
        self.stream = Some(self.client.stream(&body).await);
    }

    async fn shows(&mut self, words: &str) {
        let stream = self.stream.as_mut().expect("an answer has begun");
        let mut shown = String::new();
        while !shown.contains(words) {
            shown.push_str(&stream.until_text().await);
        }
    }

    async fn end(&mut self) -> String {
        let answer = self.stream.take().expect("an answer has begun").finish().await;
        assert_eq!(answer.error, None);
        assert_eq!(answer.finish_reason.as_deref(), Some("stop"));
        self.keep(&answer);
        answer.text().to_owned()
    }
}

/// A run of text and the calls that follow it.
#[derive(Default)]
struct Piece {
    text: String,
    calls: Vec<Value>,
    outputs: Vec<Value>,
}

impl Piece {
    fn into_messages(self) -> Vec<Value> {
        let mut message = assistant(&self.text);
        if self.calls.is_empty() {
            return vec![message];
        }
        message["tool_calls"] = self.calls.into();
        [vec![message], self.outputs].concat()
    }
}

/// The messages that Open WebUI makes of a streamed answer.
fn split_at_cards(answer: &Transcript) -> Vec<Value> {
    let mut pieces = vec![Piece::default()];
    for event in &answer.events {
        let Event::Chunk(chunk) = event else { continue };
        if !event.text().is_empty() && pieces.last().is_some_and(|piece| !piece.calls.is_empty()) {
            pieces.push(Piece::default());
        }
        let piece = pieces.last_mut().expect("one at least");
        piece.text.push_str(event.text());
        let item = &chunk["item"];
        let Some(id) = item["call_id"].as_str() else { continue };
        if item["type"] == "function_call_output" {
            let content = item["output"][0]["text"].clone();
            put(
                &mut piece.outputs,
                json!({ "role": "tool", "tool_call_id": id, "content": content }),
            );
        } else {
            let function = json!({ "name": item["name"], "arguments": item["arguments"] });
            put(&mut piece.calls, json!({ "id": id, "type": "function", "function": function }));
        }
    }
    pieces.into_iter().flat_map(Piece::into_messages).collect()
}

/// Adds an item, or replaces the one with its id: a later event of a card tells all of it.
fn put(items: &mut Vec<Value>, item: Value) {
    let id = |item: &Value| (item["id"].clone(), item["tool_call_id"].clone());
    match items.iter_mut().find(|known| id(known) == id(&item)) {
        Some(known) => *known = item,
        None => items.push(item),
    }
}

/// Plays the story, and returns what upstream was sent.
async fn play(shape: Shape) -> Upstream {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).argument("--sandbox=off").start().await;
    let workspace = server.workspace();
    Stage::set(&workspace);
    let stage = Stage { upstream: &upstream, rest: server.client(), workspace: &workspace };
    stage.play(&mut Frontend::new(server.client(), shape)).await;
    drop(server);
    upstream
}

#[tokio::test]
async fn in_a_client_that_keeps_the_visible_text() {
    assert_one_prefix(&requests_of(&play(Shape::Plain).await, MAIN));
}

#[tokio::test]
async fn in_open_webui_with_wrapped_messages_and_cards() {
    let upstream = play(Shape::OpenWebUi).await;
    let requests = requests_of(&upstream, MAIN);
    assert_one_prefix(&requests);
    assert!(requests.iter().all(|request| !request.json().to_string().contains("card_")));
}

#[tokio::test]
async fn in_librechat_with_a_system_message_that_changes() {
    let requests = requests_of(&play(Shape::LibreChat).await, MAIN);
    // All but the system message stays.
    for pair in requests.windows(2) {
        assert!(told(&pair[1]).starts_with(&told(&pair[0])), "{:#?}", told(&pair[1]));
        assert_eq!(behind_messages(&pair[0]), behind_messages(&pair[1]));
    }
}
