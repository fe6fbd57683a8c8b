//! Tests chat completions from the client's socket to upstream's and back.

mod answers;
mod calls;
mod client_tools;
mod cut_off;
mod disconnects;
mod events;
mod failures;
mod looking_on;
mod merging;
mod order;
mod progress;
mod recordings;
mod refusals;
mod response_format;
mod sent_upstream;
mod start;
mod traits;
mod unstreamed;
mod wire;

use serde_json::Value;

use crate::support::chunks::{calls as calling, says};
use crate::support::client::ask;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// What the tools answered, in order, as request `number` told upstream.
pub(crate) async fn answers(upstream: &Upstream, number: usize) -> Vec<String> {
    let body = upstream.request(number).await.json();
    answers_in(&body)
}

/// A call of the model: its id, the tool, and the input.
pub(crate) type Call = (&'static str, &'static str, Value);

/// What the model is told of calls that it makes one after the other.
pub(crate) async fn told(server: &Server, upstream: &Upstream, all: &[Call]) -> Vec<String> {
    for (id, name, input) in all {
        upstream.round(calling(&[(id, name, input.clone())]));
    }
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
    answers_in(&upstream.requests().pop().expect("a request").json())
}

pub(crate) async fn one(server: &Server, upstream: &Upstream, call: Call) -> String {
    told(server, upstream, &[call]).await.remove(0)
}

/// The contents of the `role: tool` messages of a request.
pub(crate) fn answers_in(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().expect("messages");
    let answers = messages.iter().filter(|message| message["role"] == "tool");
    answers.map(|message| message["content"].as_str().expect("text").to_owned()).collect()
}

/// The last assistant message of a request.
pub(crate) fn assistant_in(body: &Value) -> &Value {
    let messages = body["messages"].as_array().expect("messages");
    let mut told = messages.iter().rev();
    told.find(|message| message["role"] == "assistant").expect("an assistant message")
}
