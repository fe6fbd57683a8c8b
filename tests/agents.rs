//! Tests the agent's own tools: subagents, plans and skills.

mod asking;
mod background;
mod prefixes;
mod resuming;
mod rules;
mod running;
pub(crate) mod story;

use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::upstream::{Request, Step};

/// A call of Task with this prompt, and further arguments.
pub(crate) fn task(agent_type: &str, prompt: &str, more: Value) -> Value {
    let mut arguments = json!({
        "description": "looks around",
        "prompt": prompt,
        "subagent_type": agent_type,
    });
    if let (Value::Object(arguments), Value::Object(more)) = (&mut arguments, more) {
        arguments.extend(more);
    }
    arguments
}

/// The system prompt of a request.
pub(crate) fn instructions(request: &Request) -> String {
    let body = request.json();
    body["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
}

/// The names of the tools that a request offers.
pub(crate) fn offered(request: &Request) -> Vec<String> {
    let body = request.json();
    let tools = body["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned)).collect()
}

/// The last answer of a tool in a request.
pub(crate) fn last_answer(request: &Request) -> String {
    let body = request.json();
    let messages = body["messages"].as_array().into_iter().flatten().rev();
    let mut answers = messages.filter(|message| message["role"] == "tool");
    answers.next().and_then(|answer| answer["content"].as_str()).unwrap_or_default().to_owned()
}

/// What the one session of the server shows of its agents.
async fn agents_shown(server: &Server) -> Vec<Value> {
    let sessions = server.client().get("/toolhand/v1/sessions").await.json();
    let id = sessions["data"][0]["id"].as_str().expect("a session");
    let mut shown = server.client().get(&format!("/toolhand/v1/sessions/{id}")).await.json();
    serde_json::from_value(shown["agents"].take()).expect("a list")
}

/// The id in the last line of an agent's answer.
pub(crate) fn agent_id(answer: &str) -> String {
    let (_, rest) = answer.rsplit_once("agent_id: ").expect("an agent's answer");
    rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

/// An answer that counts these tokens.
pub(crate) fn counted(mut steps: Vec<Step>, prompt: u64, completion: u64) -> Vec<Step> {
    let at = steps.len() - 1;
    steps.insert(at, crate::support::chunks::usage(prompt, completion));
    steps
}
