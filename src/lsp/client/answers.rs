//! Decides what a server is answered that asks something itself. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

use super::lists::Listed;
use super::message::{METHOD_NOT_FOUND, Params};

/// More than any server asks for at once.
const MAX_ITEMS: usize = 256;

#[derive(Deserialize)]
struct ConfigurationParams {
    items: Listed<ConfigurationItem, { MAX_ITEMS + 1 }>,
}

#[derive(Deserialize)]
struct ConfigurationItem {
    section: Option<String>,
}

/// The result for the server, or an error with its code.
pub(super) fn answer(
    method: &str,
    params: &Params,
    settings: &Value,
) -> Result<Value, (i64, String)> {
    match method {
        "workspace/configuration" => configuration(params, settings),
        "client/registerCapability"
        | "client/unregisterCapability"
        | "window/workDoneProgress/create" => Ok(Value::Null),
        // What changes files is a call of the model's, which is judged.
        "workspace/applyEdit" => {
            Ok(json!({ "applied": false, "failureReason": "this client changes no files" }))
        }
        "window/showDocument" => Ok(json!({ "success": false })),
        _ => Err((METHOD_NOT_FOUND, "this client does not offer that".to_owned())),
    }
}

fn configuration(params: &Params, settings: &Value) -> Result<Value, (i64, String)> {
    /// The parameters are wrong.
    const INVALID_PARAMS: i64 = -32602;
    let invalid = |reason: &str| (INVALID_PARAMS, reason.to_owned());
    let asked: ConfigurationParams =
        params.read().map_err(|_| invalid("no configuration items"))?;
    let Listed { items, malformed } = asked.items;
    if MAX_ITEMS < items.len() + malformed {
        return Err(invalid("too many configuration items"));
    }
    if 0 < malformed {
        return Err(invalid("malformed configuration items"));
    }
    let sections = items.iter().map(|item| section(settings, item.section.as_deref()));
    Ok(sections.map(|section| section.cloned().unwrap_or(Value::Null)).collect())
}

/// The settings under a name with dots. An operator may have written the name as one key.
fn section<'a>(settings: &'a Value, name: Option<&str>) -> Option<&'a Value> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Some(settings) };
    settings
        .get(name)
        .or_else(|| name.split('.').try_fold(settings, |within, part| within.get(part)))
}

#[cfg(test)]
mod tests {
    use super::super::message::Incoming;
    use super::*;

    fn answered(method: &str, params: &Value) -> String {
        let settings = json!({ "python": { "analysis": { "mode": "strict" } }, "a.b": 1 });
        let body = json!({ "id": 1, "method": method, "params": params }).to_string();
        let Ok(Incoming::Request { params, .. }) = Incoming::parse(body.as_bytes()) else {
            panic!("{body} is a request")
        };
        match answer(method, &params, &settings) {
            Ok(result) => result.to_string(),
            Err((code, _)) => code.to_string(),
        }
    }

    #[test]
    fn a_server_gets_settings_and_no_say() {
        let items = json!({ "items": [
            { "section": "python.analysis" }, { "section": "a.b" }, { "section": "none.such" }, {},
        ] });
        assert_eq!(
            answered("workspace/configuration", &items),
            r#"[{"mode":"strict"},1,null,{"python":{"analysis":{"mode":"strict"}},"a.b":1}]"#
        );
        assert_eq!(answered("workspace/configuration", &json!([])), "-32602");
        let many = json!({ "items": vec![json!({}); 257] });
        assert_eq!(answered("workspace/configuration", &many), "-32602");
        assert_eq!(answered("client/registerCapability", &json!({})), "null");
        assert_eq!(answered("window/workDoneProgress/create", &json!({ "token": 1 })), "null");
        let edit = answered("workspace/applyEdit", &json!({ "edit": {} }));
        assert!(edit.contains("\"applied\":false"), "{edit}");
        let shown = answered("window/showDocument", &json!({ "uri": "file:///etc/passwd" }));
        assert_eq!(shown, r#"{"success":false}"#);
        for method in ["window/showMessageRequest", "workspace/workspaceFolders", "evil/run"] {
            assert_eq!(answered(method, &json!({})), "-32601", "{method}");
        }
    }
}
