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
mod unstreamed;

use serde_json::Value;

use crate::support::upstream::Upstream;

/// What the tools answered, in order, as request `number` told upstream.
pub(crate) async fn answers(upstream: &Upstream, number: usize) -> Vec<String> {
    let body = upstream.request(number).await.json();
    answers_in(&body)
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
