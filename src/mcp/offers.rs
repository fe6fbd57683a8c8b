//! What a server offers besides tools: resources and prompts. Pure.

use serde_json::{Map, Value};

use super::redaction::Redaction;
use crate::text;

/// The longest address of a resource.
const MAX_ADDRESS_BYTES: usize = 2 << 10;

/// A resource, or a template of resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct McpResource {
    pub(crate) server: String,
    pub(crate) uri: String,
    pub(crate) is_template: bool,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) mime_type: Option<String>,
}

/// A prompt, which a user's message names as `/mcp__{server}__{name}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct McpPrompt {
    pub(crate) server: String,
    pub(crate) name: String,
    pub(crate) description: String,
    /// The names of its arguments, in order, and whether each is required.
    pub(crate) arguments: Vec<(String, bool)>,
}

/// The listed resources and templates that have an address.
pub(super) fn resources(server: &str, listed: &[Value], redaction: &Redaction) -> Vec<McpResource> {
    let line = |value: &Value| value.as_str().map(|text| redaction.line(text));
    let resource = |entry: &Value| {
        let template = entry["uriTemplate"].as_str();
        let uri = template.or_else(|| entry["uri"].as_str())?;
        // It is sent back as it is, so nothing may be changed in it.
        (is_address(uri) && !redaction.is_in(uri)).then(|| McpResource {
            server: server.to_owned(),
            uri: uri.to_owned(),
            is_template: template.is_some(),
            name: line(&entry["name"]).unwrap_or_default(),
            description: line(&entry["description"]),
            mime_type: line(&entry["mimeType"]),
        })
    };
    listed.iter().filter_map(resource).collect()
}

/// Whether an address can be told to the model and sent back as it is.
pub(super) fn is_address(uri: &str) -> bool {
    uri.len() <= MAX_ADDRESS_BYTES && text::shown_line(uri) == uri
}

/// The listed prompts whose name can be part of a command.
pub(super) fn prompts(server: &str, listed: &[Value], redaction: &Redaction) -> Vec<McpPrompt> {
    let is_name = |name: &&str| {
        !name.is_empty()
            && name.len() <= 64
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let argument = |argument: &Value| {
        let name = argument["name"].as_str()?;
        Some((redaction.line(name), argument["required"] == true))
    };
    let prompt = |entry: &Value| {
        let name = entry["name"].as_str().filter(is_name).filter(|name| !redaction.is_in(name))?;
        Some(McpPrompt {
            server: server.to_owned(),
            name: name.to_owned(),
            description: redaction.line(entry["description"].as_str().unwrap_or_default()),
            arguments: entry["arguments"]
                .as_array()
                .map(|all| all.iter().take(32).filter_map(argument).collect())
                .unwrap_or_default(),
        })
    };
    listed.iter().filter_map(prompt).collect()
}

/// The text of a prompt: that of its messages, one after the other.
pub(super) fn prompt_text(result: &Value, redaction: &Redaction) -> String {
    let text = |message: &Value| {
        let content = &message["content"];
        let text = content["text"].as_str().or_else(|| content["resource"]["text"].as_str());
        text.map(|text| redaction.text(text))
    };
    let messages = result["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    messages.iter().filter_map(text).collect::<Vec<_>>().join("\n\n")
}

/// Words of a command as the arguments of a prompt, in their order; the last takes the rest.
pub(super) fn prompt_arguments(
    prompt: &McpPrompt,
    words: &str,
) -> Result<Map<String, Value>, String> {
    let mut arguments = Map::new();
    let mut rest = words.trim();
    for (index, (name, is_required)) in prompt.arguments.iter().enumerate() {
        let is_last = index + 1 == prompt.arguments.len();
        let (word, after) = match rest.split_once(char::is_whitespace) {
            Some((word, after)) if !is_last => (word, after.trim_start()),
            _ => (rest, ""),
        };
        rest = after;
        if !word.is_empty() {
            arguments.insert(name.clone(), Value::String(word.to_owned()));
        } else if *is_required {
            return Err(format!("the prompt `{}` needs the argument `{name}`", prompt.name));
        }
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::secret::Secret;

    #[test]
    fn resources_and_prompts_that_cannot_be_named_are_left_out() {
        let redaction = Redaction::new(vec![Secret::new("sk-very-secret")]);
        let listed = [
            json!({"uri": "x://1", "name": "One"}),
            json!({"uri": "x://sk-very-secret/1", "name": "One"}),
            json!({"uriTemplate": "x://{id}", "name": "Any"}),
            json!({"uri": "x://\u{202e}1"}),
            json!({"name": "none"}),
        ];
        let found = resources("s", &listed, &redaction);
        assert_eq!(found.iter().map(|found| found.is_template).collect::<Vec<_>>(), [false, true]);

        let listed = [
            json!({"name": "a b"}),
            json!({"name": "ok", "arguments": 1}),
            json!({"name": "sk-very-secret"}),
            json!(null),
        ];
        let found = prompts("s", &listed, &redaction);
        assert_eq!(found.iter().map(|found| &*found.name).collect::<Vec<_>>(), ["ok"]);
    }

    #[test]
    fn the_words_of_a_command_are_the_arguments_of_a_prompt() {
        let listed = [json!({"name": "p", "arguments": [
            {"name": "city", "required": true}, {"name": "note"}
        ]})];
        let prompt = &prompts("s", &listed, &Redaction::default())[0];

        let given = prompt_arguments(prompt, " Bern  a long note ").unwrap();
        assert_eq!(Value::Object(given), json!({"city": "Bern", "note": "a long note"}));
        assert!(prompt_arguments(prompt, " ").unwrap_err().contains("`city`"));
    }
}
