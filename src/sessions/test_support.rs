//! Makes typed messages of JSON, for tests.

use serde_json::Value;

use super::message::{CARD_PREFIX, CallOf, ClientCall, ClientMessage, Role};
use crate::json;

/// The messages as validation makes them. A call whose id begins with `server_` is one of a
/// tool of the server.
pub(crate) fn client_messages(list: &Value) -> Vec<ClientMessage> {
    let list = list.as_array().expect("a list");
    list.iter().enumerate().map(|(index, message)| client_message(index, message)).collect()
}

fn client_message(index: usize, message: &Value) -> ClientMessage {
    let role = match message["role"].as_str().expect("a role") {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        "function" => Role::Function,
        _ => Role::Instruction,
    };
    let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
        let id = call["id"].as_str().unwrap_or_default();
        let of = match () {
            () if id.starts_with(CARD_PREFIX) => CallOf::Card,
            () if id.starts_with("server_") => CallOf::Server,
            () => CallOf::Client,
        };
        ClientCall { id: id.into(), of }
    });
    ClientMessage {
        index,
        role,
        json: json::raw(message.to_string()),
        calls: calls.collect(),
        answers: message["tool_call_id"].as_str().map(Into::into),
        says_nothing: role == Role::Assistant
            && message["content"].is_null()
            && message["tool_calls"].is_null(),
    }
}
