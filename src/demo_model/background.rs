//! Answers what frontends ask about a conversation on their own: titles, tags, follow-up
//! questions, search queries.
//!
//! Such a prompt shows the JSON that it wants. The answer has the same members.

use serde_json::{Map, Value, json};

use super::question;
use crate::text;

/// Where a prompt ends and the conversation begins.
const HISTORY: [&str; 3] = ["<chat_history>", "### Chat History", "### Context"];

/// The braces of a prompt that are tried as the beginning of the example.
const MAX_EXAMPLES: usize = 32;

/// The longest part of a prompt that is searched for an example.
const MAX_PROMPT: usize = 20_000;

/// The answer to a prompt about the conversation in it.
pub(super) fn answer(prompt: &str) -> Option<String> {
    if !question::is_wrapped(prompt) {
        return plain_title(prompt);
    }
    let (instructions, history) = split(prompt);
    let example = example(text::prefix(instructions, MAX_PROMPT))?;
    let members = example.into_iter().map(|(name, shown)| {
        let value = member(&name, &shown, history);
        (name, value)
    });
    Some(Value::Object(members.collect()).to_string())
}

fn split(prompt: &str) -> (&str, &str) {
    let at = HISTORY.iter().filter_map(|mark| prompt.find(mark)).min();
    prompt.split_at(at.unwrap_or(prompt.len()))
}

/// The first object with members in the text.
fn example(text: &str) -> Option<Map<String, Value>> {
    let objects = text.match_indices('{').take(MAX_EXAMPLES).filter_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        match values.next()?.ok()? {
            Value::Object(members) => Some(members),
            _ => None,
        }
    });
    objects.into_iter().find(|members| !members.is_empty())
}

fn member(name: &str, shown: &Value, history: &str) -> Value {
    match (name, shown) {
        ("title", Value::String(_)) => title(history).into(),
        ("tags", Value::Array(_)) => json!(["demo"]),
        ("follow_ups", Value::Array(_)) => json!(["list *", "read README.md", "find TODO in ."]),
        (_, Value::String(_)) => "demo".into(),
        (_, Value::Array(_)) => json!([]),
        (_, Value::Object(_)) => json!({}),
        (_, Value::Number(_)) => 0.into(),
        (_, other) => other.clone(),
    }
}

/// The first words of the person, if the history shows them.
fn title(history: &str) -> String {
    let first = history.lines().find_map(|line| line.trim().strip_prefix("USER:"));
    match first.map(str::trim) {
        None | Some("") => "Demo conversation".to_owned(),
        Some(words) => format!("Demo: {}", text::first_chars(words, 40)),
    }
}

/// The answer to a prompt that wants a title and nothing around it.
fn plain_title(prompt: &str) -> Option<String> {
    let beginning = text::prefix(prompt, 300).to_lowercase();
    let asks = ["provide a", "generate a", "create a", "write a", "summarize"];
    let wants_title = beginning.contains("title")
        && beginning.contains("conversation")
        && asks.iter().any(|ask| beginning.contains(ask));
    wants_title.then(|| title(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prompt in the form of Open WebUI's.
    fn prompt(task: &str, output: &str) -> String {
        format!(
            "### Task:\n{task}\n### Guidelines:\n- Be brief {{really}}.\n### Output:\n{output}\n\
             ### Chat History:\n<chat_history>\nUSER: read README.md {{\"x\": 1}}\n\
             ASSISTANT: {{\"tags\": [\"a\"]}}\n</chat_history>"
        )
    }

    #[track_caller]
    fn check(output: &str, expected: &str) {
        assert_eq!(answer(&prompt("Do it.", output)).as_deref(), Some(expected));
    }

    #[test]
    fn the_answer_has_the_members_that_the_prompt_shows() {
        check(
            r#"JSON format: { "title": "your concise title here" }"#,
            r#"{"title":"Demo: read README.md {\"x\": 1}"}"#,
        );
        check(r#"JSON format: { "tags": ["tag1", "tag2", "tag3"] }"#, r#"{"tags":["demo"]}"#);
        check(
            r#"JSON format: { "follow_ups": ["Question 1?", "Question 2?"] }"#,
            r#"{"follow_ups":["list *","read README.md","find TODO in ."]}"#,
        );
        check("Strictly JSON:\n{\n  \"queries\": [\"a\", \"b\"]\n}", r#"{"queries":[]}"#);
        check(r#"JSON: `{ "text": "<your_completion>" }`"#, r#"{"text":"demo"}"#);
        check(
            r#"{"name": "x", "n": 1.5, "is": true, "of": {}}"#,
            r#"{"name":"demo","n":0,"is":true,"of":{}}"#,
        );
    }

    #[test]
    fn a_prompt_without_an_example_is_none_of_these() {
        assert_eq!(answer(&prompt("Do it.", "Only words.")), None);
        assert_eq!(answer("read README.md"), None);
        assert_eq!(answer("find title in conversation.md"), None);
    }

    #[test]
    fn a_plain_title_is_plain() {
        let prompt =
            "Provide a concise, 5-word-or-less title for the conversation. Only return the title.";
        assert_eq!(answer(prompt).as_deref(), Some("Demo conversation"));
    }
}
