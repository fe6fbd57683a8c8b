//! Tests the memory behind the stateless API, from the client's socket to upstream's and back.

mod approvals;
pub(crate) mod asking;
mod background;
mod builds;
mod cards;
mod code_orders;
mod compaction;
mod config_tool;
mod consent;
mod cut_off;
mod databases;
mod dialogs;
mod disks;
mod endings;
mod frontends;
mod grants;
pub(crate) mod kills;
pub(crate) mod leaving;
mod left_behind;
mod memory;
mod mixed;
mod names;
mod orders;
mod plan_mode;
mod questions;
mod repeated;
pub(crate) mod repeats;
mod replies;
mod rest;
mod restart;
mod retained;
mod rules;
mod sandbox_effects;
pub(crate) mod scenario;
mod several;
mod shown_effects;
mod stale;
mod tabs;
mod tasks;
mod todos;
mod waiting;

use serde_json::{Value, json};

use crate::support::server::{Builder, Server};
use crate::support::upstream::{Request, Upstream};

/// A user's message.
pub(crate) fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// What a client kept of an answer: its visible text.
pub(crate) fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

/// A request with these messages.
pub(crate) fn conversation(messages: &[Value]) -> Value {
    json!({ "model": "scripted", "messages": messages })
}

/// The bytes of a request up to the end of its messages: what a provider's prompt cache sees.
pub(crate) fn transcript(request: &Request) -> String {
    let body = String::from_utf8(request.body.clone()).expect("JSON is UTF-8");
    let end = body.rfind(r#"],"tools":["#).expect("tools behind the messages");
    body[..end].to_owned()
}

/// Asserts that upstream's request `later` begins with the bytes of request `earlier`.
#[track_caller]
pub(crate) fn assert_goes_on(earlier: &Request, later: &Request) {
    let (earlier, later) = (transcript(earlier), transcript(later));
    let common = earlier.bytes().zip(later.bytes()).take_while(|(a, b)| a == b).count();
    assert!(
        common == earlier.len(),
        "after …{}: {} / {}",
        &earlier[common.saturating_sub(80)..common],
        &earlier[common..],
        &later[common..]
    );
}

/// The messages of a request as `role: content`, calls by their names.
pub(crate) fn told(request: &Request) -> Vec<String> {
    let body = request.json();
    let messages = body["messages"].as_array().expect("messages").iter();
    let one = |message: &Value| {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls: Vec<_> = calls.filter_map(|call| call["function"]["name"].as_str()).collect();
        let content = message["content"].as_str().unwrap_or_default();
        format!("{}: {content}{}", message["role"].as_str().unwrap_or("?"), calls.join(" "))
    };
    messages.map(one).filter(|line| !line.starts_with("system: ")).collect()
}

/// Builds a server over the files of an earlier one.
pub(crate) fn after(upstream: &Upstream, gone: &Server) -> Builder {
    Server::builder(upstream)
        .argument(&format!("--state-dir={}", gone.state_dir().display()))
        .argument(&format!("--workspace={}", gone.workspace().display()))
}
