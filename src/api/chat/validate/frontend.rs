//! Recognises Open WebUI, by its headers or by its tool that asks the person.

use axum::http::HeaderMap;
use serde_json::value::RawValue;

use crate::agent::asking::dialog::ASK_USER;
use crate::json::{self, Object};
use crate::sessions::request::FrontendSigns;

/// Its administrator can have it send these.
const HEADER_PREFIX: &str = "x-openwebui-";
/// The parameter by which it is told from other tools of that name.
const QUESTIONS: &str = "questions";
/// More tools than any frontend declares; the limit of a request is checked elsewhere.
const MAX_TOOLS: usize = 1024;

pub(super) fn signs(fields: &Object<'_>, headers: &HeaderMap) -> FrontendSigns {
    FrontendSigns {
        has_open_webui_header: headers.keys().any(|name| name.as_str().starts_with(HEADER_PREFIX)),
        declares_ask_user: declares_ask_user(fields),
    }
}

/// Whether the tool is declared, whether or not it is passed on to the model.
fn declares_ask_user(fields: &Object<'_>) -> bool {
    let tools = fields.get("tools").and_then(|tools| json::items(tools, MAX_TOOLS));
    tools.is_some_and(|tools| tools.into_iter().any(|tool| is_ask_user(tool).is_some()))
}

fn is_ask_user(tool: &RawValue) -> Option<()> {
    let function = Object::from_raw(Object::from_raw(tool)?.get("function")?)?;
    let parameters = || Object::from_raw(function.get("parameters")?);
    let properties = || Object::from_raw(parameters()?.get("properties")?);
    let is_it = function.string("name")? == ASK_USER && properties()?.get(QUESTIONS).is_some();
    is_it.then_some(())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::{Value, json};

    use super::*;

    fn of_tools(tools: &Value) -> bool {
        let body = json!({ "tools": tools }).to_string();
        signs(&Object::parse(&body).unwrap(), &HeaderMap::new()).declares_ask_user
    }

    #[test]
    fn the_dialog_is_known_by_its_parameter() {
        let tool = |name: &str, parameters: Value| {
            json!([
                { "type": "function", "function": { "name": "other" } },
                { "type": "function", "function": { "name": name, "parameters": parameters } },
            ])
        };
        let questions = || json!({ "properties": { "questions": { "type": "array" } } });
        assert!(of_tools(&tool("ask_user", questions())));
        assert!(!of_tools(&tool("ask_users", questions())));
        assert!(!of_tools(&tool("ask_user", json!({ "properties": { "question": {} } }))));
        assert!(!of_tools(&tool("ask_user", json!({ "questions": {} }))));
        assert!(!of_tools(&tool("ask_user", json!({ "properties": ["questions"] }))));
        let custom = json!([{ "type": "custom", "custom": { "name": "ask_user" } }]);
        for none in [json!([]), json!("ask_user"), json!([null, 7, "ask_user", {}]), custom] {
            assert!(!of_tools(&none), "{none}");
        }
    }

    #[test]
    fn any_forwarded_header_is_a_sign() {
        let body = Object::parse("{}").unwrap();
        let with = |name: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static("x"));
            signs(&body, &headers).has_open_webui_header
        };
        assert!(with("x-openwebui-user-id") && with("x-openwebui-chat-id"));
        assert!(!with("x-openwebui") && !with("x-toolhand-progress"));
    }
}
