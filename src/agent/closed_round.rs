//! Closes a round that an earlier turn left open, and after which the conversation goes on.

use serde_json::{Value, json};

use super::delegation::how_to_resume;
use super::pictures;
use super::record::{OpenCall, OpenRound, RecordedRound};

/// Answers a call that has not run, or not to its end.
pub(crate) const INTERRUPTED: &str = "Error: interrupted";

/// The round with an answer to each of its calls: `client` has the client's own answers, what else
/// has none was interrupted.
pub(crate) fn closed(open: &OpenRound, client: impl Fn(&str) -> Option<Value>) -> RecordedRound {
    let mut messages = vec![open.message.clone()];
    for (slot, call) in open.calls.iter().enumerate() {
        let id = &open.message["tool_calls"][slot]["id"];
        messages.push(match call {
            OpenCall::Answered { answer: content, .. } => answer(id, content),
            OpenCall::Given { message } => given(id, message),
            OpenCall::Waiting => answer(id, INTERRUPTED),
            OpenCall::Suspended(waiting) => {
                answer(id, &format!("{INTERRUPTED}\n{}", how_to_resume(&waiting.agent)))
            }
            OpenCall::Clients { id: clients } => match client(clients) {
                None => answer(id, INTERRUPTED),
                Some(message) => under_id(id, message),
            },
        });
    }
    let pictures = open.calls.iter().map(|call| match call {
        OpenCall::Answered { pictures, .. } => pictures.clone(),
        _ => Vec::new(),
    });
    messages.extend(pictures::message(&pictures.collect::<Vec<_>>()));
    RecordedRound {
        messages: Value::from(messages).to_string(),
        model: open.model.clone(),
        has_reasoning: open.has_reasoning,
    }
}

/// The message with the answer to a call.
pub(crate) fn answer(id: &Value, content: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": content })
}

/// The client's own answer, which an earlier request brought.
fn given(id: &Value, message: &str) -> Value {
    serde_json::from_str(message)
        .map_or_else(|_| answer(id, INTERRUPTED), |message| under_id(id, message))
}

fn under_id(id: &Value, mut message: Value) -> Value {
    message["tool_call_id"] = id.clone();
    message
}
