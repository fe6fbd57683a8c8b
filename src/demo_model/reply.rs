//! Decides the demo model's next answer from the conversation alone.
//!
//! Keeps no state: the assistant messages after the newest user message show how far it
//! is.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::grammar::{self, Call};
use crate::text;

/// The next assistant message.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    Text(String),
    Calls { lead: String, calls: Vec<Call> },
}

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) role: String,
    #[serde(default, deserialize_with = "text_of_content")]
    pub(super) content: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    tool_calls: Vec<MadeCall>,
    tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct MadeCall {
    id: String,
    function: MadeFunction,
}

#[derive(Debug, Deserialize)]
struct MadeFunction {
    name: String,
    arguments: String,
}

/// How much of one tool answer is quoted: enough to show that it is real.
const QUOTED: usize = 1_500;

const ABILITIES: &str = "I am toolhand's built-in demo model: a few rules, no language model. \
I understand:\n\
- read FILE\n\
- find TEXT in DIR\n\
- list GLOB\n\
- run COMMAND\n\
- write TEXT to FILE\n\
- replace A with B in FILE\n\
- call TOOL with {JSON}\n\
Put arguments with spaces in quotes; join commands with \"and\" (at once) or \"then\" (one after the other).";

pub(super) fn next(messages: &[Message], offered: &[&str]) -> Reply {
    let Some(newest) = messages.iter().rposition(|message| message.role == "user") else {
        return Reply::Text(ABILITIES.to_owned());
    };
    let since = &messages[newest + 1..];
    let done = since.iter().filter(|message| !message.tool_calls.is_empty()).count();
    let rounds = match grammar::rounds(&messages[newest].content) {
        Ok(rounds) => rounds,
        Err(part) => return Reply::Text(not_understood(&part)),
    };
    let Some(calls) = rounds.into_iter().nth(done) else {
        return Reply::Text(report(since));
    };
    match calls.iter().find(|call| !offered.contains(&call.tool.as_str())) {
        Some(call) => Reply::Text(unavailable(call, since)),
        None => Reply::Calls { lead: lead(&calls), calls },
    }
}

fn not_understood(part: &str) -> String {
    match part {
        "" => ABILITIES.to_owned(),
        _ => format!("I did not understand \"{}\".\n\n{ABILITIES}", text::prefix(part, 200)),
    }
}

fn unavailable(call: &Call, since: &[Message]) -> String {
    let missing = format!("Demo model: the tool {} is not available in this request.", call.tool);
    if since.is_empty() { missing } else { format!("{}\n\n{missing}", report(since)) }
}

fn lead(calls: &[Call]) -> String {
    let named: Vec<String> =
        calls.iter().map(|call| describe(&call.tool, &call.arguments)).collect();
    format!("Demo model: I call {}.", named.join(" and "))
}

/// Reports every call that was answered, with its answer.
fn report(since: &[Message]) -> String {
    let calls = since.iter().flat_map(|message| &message.tool_calls);
    let told: Vec<String> = calls.map(|call| outcome(call, since)).collect();
    format!("Demo model: here is what the tools answered.\n\n{}", told.join("\n\n"))
}

fn outcome(call: &MadeCall, since: &[Message]) -> String {
    let arguments = serde_json::from_str(&call.function.arguments).unwrap_or(Value::Null);
    let named = describe(&call.function.name, &arguments);
    let answer = since.iter().find(|message| message.tool_call_id.as_ref() == Some(&call.id));
    match answer.map(|message| message.content.as_str()) {
        None => format!("{named} was not answered."),
        Some(answer) if answer.starts_with("Error:") => {
            format!("{named} failed:\n\n{}", quote(answer))
        }
        Some(answer) => format!("{named} answered:\n\n{}", quote(answer)),
    }
}

/// Names the tool and its main argument.
fn describe(tool: &str, arguments: &Value) -> String {
    let main = arguments.as_object().and_then(|object| object.values().find_map(Value::as_str));
    match main {
        Some(main) => format!("{tool} ({})", text::prefix(main, 200)),
        None => tool.to_owned(),
    }
}

/// Quotes the answer in a fence longer than any run of backticks in it.
fn quote(answer: &str) -> String {
    let shown = text::prefix(answer, QUOTED).trim_end_matches('\n');
    let longest = shown.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let cut = match answer.len() - shown.len() {
        0 | 1 => String::new(),
        _ => format!("\n(cut: {} bytes in all)", answer.len()),
    };
    format!("{fence}\n{shown}\n{fence}{cut}")
}

/// The text of a string, or of the text parts of a list. Other parts are ignored.
fn text_of_content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    })
}

fn null_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MadeCall>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALL: [&str; 6] = ["Read", "Grep", "Glob", "Bash", "Write", "Edit"];

    fn say(messages: Value, offered: &[&str]) -> Reply {
        let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
        next(&messages, offered)
    }

    fn text(messages: Value) -> String {
        match say(messages, &ALL) {
            Reply::Text(text) => text,
            Reply::Calls { calls, .. } => panic!("calls: {calls:?}"),
        }
    }

    fn tools(messages: Value) -> Vec<String> {
        match say(messages, &ALL) {
            Reply::Text(text) => panic!("text: {text}"),
            Reply::Calls { calls, .. } => calls.into_iter().map(|call| call.tool).collect(),
        }
    }

    fn call(id: &str, name: &str, arguments: &str) -> Value {
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    }

    #[test]
    fn finds_its_round_by_the_messages_behind_the_newest_user_message() {
        let user =
            json!({"role": "user", "content": [{"type": "text", "text": "read a then run b"}]});
        let first = json!({"role": "assistant", "content": null,
            "tool_calls": [call("1", "Read", r#"{"file_path":"a"}"#)]});
        let answer = json!({"role": "tool", "tool_call_id": "1", "content": "     1\tone"});
        let second =
            json!({"role": "assistant", "tool_calls": [call("2", "Bash", r#"{"command":"b"}"#)]});
        let failed =
            json!({"role": "tool", "tool_call_id": "2", "content": "Error: no such command"});

        assert_eq!(tools(json!([user])), ["Read"]);
        assert_eq!(tools(json!([user, first, answer])), ["Bash"]);
        insta::assert_snapshot!(text(json!([user, first, answer, second, failed])), @r"
        Demo model: here is what the tools answered.

        Read (a) answered:

        ```
             1	one
        ```

        Bash (b) failed:

        ```
        Error: no such command
        ```
        ");
        assert_eq!(tools(json!([user, first, answer, user])), ["Read"]);
    }

    #[test]
    fn calls_nothing_that_was_not_offered() {
        let messages = json!([{"role": "user", "content": "run ls"}]);

        let reply = say(messages, &["Read"]);

        let said = "Demo model: the tool Bash is not available in this request.";
        assert_eq!(reply, Reply::Text(said.to_owned()));
    }

    #[test]
    fn says_what_it_can_do() {
        let help = text(json!([{"role": "user", "content": "who are you?"}]));

        assert!(help.starts_with("I did not understand \"who are you?\"."), "{help}");
        assert!(help.contains("replace A with B in FILE"), "{help}");
    }

    #[test]
    fn quotes_long_answers_in_part_and_fences_safely() {
        let messages = json!([
            {"role": "user", "content": "read a"},
            {"role": "assistant", "tool_calls": [call("1", "Read", "{}")]},
            {"role": "tool", "tool_call_id": "1", "content": format!("```\n{}", "é".repeat(2_000))},
        ]);

        let report = text(messages);

        assert!(report.contains("````\n```\né"), "{report}");
        assert!(report.ends_with("````\n(cut: 4004 bytes in all)"), "{report}");
        assert!(report.len() < 2_000);
    }
}
