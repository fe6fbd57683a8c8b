//! What the tests of suspended turns share: a server that asks, a client that keeps what it is
//! shown, and decisions over REST.

use serde_json::{Value, json};

use super::{conversation, user};
use crate::support::client::{Answer, Client, with};
use crate::support::server::{Builder, Server};
use crate::support::upstream::{Request, Upstream};

const APPROVALS: &str = "/toolhand/v1/approvals";

/// Commands and writes are asked about, and nothing else.
pub(crate) fn builder(upstream: &Upstream) -> Builder {
    Server::builder(upstream).file("notes.txt", "needle\n").argument("--sandbox=off")
}

pub(crate) async fn server(upstream: &Upstream) -> Server {
    builder(upstream).start().await
}

/// A command that leaves a line in a file each time it runs.
pub(crate) fn marks(file: &str) -> Value {
    json!({ "command": format!("echo ran >> {file}") })
}

pub(crate) fn write(file: &str) -> Value {
    json!({ "file_path": file, "content": "new\n" })
}

/// How often a command of [`marks`] ran.
pub(crate) fn times_run(server: &Server, file: &str) -> usize {
    let text = std::fs::read_to_string(server.workspace().join(file)).unwrap_or_default();
    text.lines().count()
}

/// A conversation as a client keeps it: what it said and what it was shown.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    pub(crate) client: Client,
    pub(crate) messages: Vec<Value>,
    pub(crate) members: Value,
    /// The last answer.
    pub(crate) last: Value,
}

impl Talk {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, messages: Vec::new(), members: json!({}), last: Value::Null }
    }

    /// Sends these members with each request.
    pub(crate) fn with(mut self, members: Value) -> Self {
        self.members = members;
        self
    }

    /// Says this, and returns the text of the answer.
    pub(crate) async fn say(&mut self, text: &str) -> String {
        self.messages.push(user(text));
        self.send().await
    }

    /// Answers a call of the last message.
    pub(crate) fn answer(&mut self, id: &str, content: &str) {
        let answer = json!({ "role": "tool", "tool_call_id": id, "content": content });
        self.messages.push(answer);
    }

    pub(crate) async fn send(&mut self) -> String {
        let answer = self.client.chat(&self.body()).await;
        assert_eq!(answer.status(), 200, "{}", String::from_utf8_lossy(&answer.body));
        self.last = answer.json();
        let message = self.last["choices"][0]["message"].clone();
        let text = message["content"].as_str().unwrap_or_default().to_owned();
        self.messages.push(message);
        text
    }

    pub(crate) fn body(&self) -> Value {
        with(conversation(&self.messages), self.members.clone())
    }

    pub(crate) fn finish_reason(&self) -> &str {
        self.last["choices"][0]["finish_reason"].as_str().unwrap_or_default()
    }

    /// The calls of the last answer as `(id, name, arguments)`.
    pub(crate) fn calls(&self) -> Vec<(String, String, Value)> {
        let calls = self.last["choices"][0]["message"]["tool_calls"].as_array();
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let one = |call: &Value| {
            let function = &call["function"];
            let arguments = serde_json::from_str(function["arguments"].as_str().expect("text"));
            (text(&call["id"]), text(&function["name"]), arguments.expect("JSON"))
        };
        calls.into_iter().flatten().map(one).collect()
    }
}

/// The codes in a question, in order.
pub(crate) fn codes(question: &str) -> Vec<String> {
    let pieces = question.split("(`").skip(1).filter_map(|piece| piece.split_once("`)"));
    pieces.map(|(code, _)| code.to_owned()).filter(|code| code.len() == 4).collect()
}

/// What can be decided now.
pub(crate) async fn open(client: &Client) -> Vec<Value> {
    let list = client.get(APPROVALS).await.json();
    list["data"].as_array().expect("a list").clone()
}

pub(crate) async fn decide(client: &Client, approval: &Value, decision: &Value) -> Answer {
    let id = approval["id"].as_str().expect("an id");
    client.post(&format!("{APPROVALS}/{id}"), decision).await
}

pub(crate) fn allow() -> Value {
    json!({ "decision": "allow" })
}

/// The contents of the tool messages of a request.
pub(crate) fn tool_answers(request: &Request) -> Vec<String> {
    let body = request.json();
    let messages = body["messages"].as_array().expect("messages").iter();
    let tools = messages.filter(|message| message["role"] == "tool");
    tools.map(|message| message["content"].as_str().expect("text").to_owned()).collect()
}
