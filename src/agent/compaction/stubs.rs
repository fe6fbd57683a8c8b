//! Replaces results of tools by a line each.

use serde_json::Value;
use serde_json::value::RawValue;

use super::size::Size;
use crate::agent::pictures;
use crate::agent::record::RecordedRound;
use crate::text;

/// The arguments that say best what a call was about, the best first.
const MAIN_ARGUMENTS: [&str; 7] =
    ["file_path", "path", "command", "pattern", "query", "url", "description"];

/// The most of an argument that a stub repeats, in bytes.
const MAX_ARGUMENT: usize = 80;

/// Replaces the results of the round, the first first, until `bytes` are saved. Returns how
/// many were. All other messages keep their bytes.
pub(super) fn leave_out(round: &mut RecordedRound, bytes: usize) -> usize {
    let Ok(messages) = serde_json::from_str::<Vec<&RawValue>>(&round.messages) else { return 0 };
    let mut calls = Vec::new();
    let mut written: Vec<String> = Vec::with_capacity(messages.len());
    let mut saved = 0;
    for message in messages {
        let raw = message.get();
        let mut value: Value = serde_json::from_str(raw).unwrap_or_default();
        if let Some(own) = value["tool_calls"].as_array() {
            calls.extend(own.iter().cloned());
        }
        if pictures::is_picture_message(&value) && saved < bytes {
            saved += Size::counted(raw.as_bytes());
            continue;
        }
        if value["role"] == "tool" && saved < bytes {
            value["content"] = stub(&calls, &value["tool_call_id"]).into();
            let stubbed = value.to_string();
            if stubbed.len() < raw.len() {
                saved += raw.len() - stubbed.len();
                written.push(stubbed);
                continue;
            }
        }
        written.push(raw.to_owned());
    }
    if saved > 0 {
        round.messages = format!("[{}]", written.join(","));
    }
    saved
}

fn stub(calls: &[Value], id: &Value) -> String {
    let call = calls.iter().find(|call| call["id"] == *id);
    let called = call.map_or_else(|| "a tool".to_owned(), named);
    format!("(The result of {called} is left out here to save room. If you need it, call again.)")
}

/// The tool of a call and its main argument, in one line.
pub(super) fn named(call: &Value) -> String {
    let function = &call["function"];
    let name = function["name"].as_str().unwrap_or("a tool");
    let arguments = function["arguments"].as_str().unwrap_or_default();
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let main = MAIN_ARGUMENTS.iter().find_map(|main| arguments[*main].as_str());
    let first = || arguments.as_object()?.values().find_map(Value::as_str);
    match main.or_else(first) {
        None => name.to_owned(),
        Some(argument) => {
            let line = text::one_line(argument);
            format!("{name} {}", text::shortened(&line, MAX_ARGUMENT))
        }
    }
}
