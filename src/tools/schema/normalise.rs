//! Converts arguments to the types of their schema, where the meaning is certain.

use serde_json::{Map, Number, Value};

/// 2^53. Doubles represent every integer up to this one exactly.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Optional properties that are dropped if they are empty. An empty path or glob means none.
const EMPTY_IS_NONE: [&str; 3] = ["path", "glob", "type"];

/// Properties with ids that are text and look like numbers.
const NUMBERED: [&str; 3] = ["taskId", "addBlocks", "addBlockedBy"];

/// Converts integers written as whole floats or as digits, ids written as integers, and booleans
/// written as text. Drops
/// `null` and empty paths of optional properties. Removes unknown keys and returns their
/// names.
pub(super) fn normalise(schema: &Value, arguments: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    walk(schema, arguments, "", &mut unknown);
    unknown
}

fn walk(schema: &Value, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match (schema["type"].as_str(), value) {
        (Some("integer"), value) => {
            if let Some(integer) = integer(value) {
                *value = integer;
            }
        }
        (Some("boolean"), value) => match value.as_str() {
            Some("true") => *value = true.into(),
            Some("false") => *value = false.into(),
            _ => {}
        },
        (Some("array"), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(&schema["items"], item, &format!("{path}[{index}]"), unknown);
            }
        }
        (Some("object"), Value::Object(members)) => {
            if let Some(properties) = schema["properties"].as_object() {
                let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
                keep_known(properties, required, members, path, unknown);
                for (name, member) in members {
                    if NUMBERED.contains(&name.as_str()) {
                        id_as_text(member);
                    }
                    walk(&properties[name], member, &joined(path, name), unknown);
                }
            }
        }
        _ => {}
    }
}

fn keep_known(
    properties: &Map<String, Value>,
    required: &[Value],
    members: &mut Map<String, Value>,
    path: &str,
    unknown: &mut Vec<String>,
) {
    members.retain(|name, value| {
        let known = properties.contains_key(name);
        if !known && !name.starts_with('_') {
            unknown.push(joined(path, name));
        }
        let is_none = value.is_null()
            || (value.as_str() == Some("") && EMPTY_IS_NONE.contains(&name.as_str()));
        known && (!is_none || required.iter().any(|needed| needed == name))
    });
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Converts `5` to `"5"`, also as one of several.
fn id_as_text(value: &mut Value) {
    if let Value::Array(items) = value {
        items.iter_mut().for_each(id_as_text);
    } else if value.is_number() {
        let whole = integer(value).unwrap_or_else(|| value.clone());
        if whole.is_u64() || whole.is_i64() {
            *value = whole.to_string().into();
        }
    }
}

/// Converts `5.0` and `"5"` to `5`. `None` if the value is an integer already, or cannot be
/// read as one.
fn integer(value: &Value) -> Option<Value> {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().filter(|float| float.abs() <= MAX_EXACT)?;
            (float.fract() == 0.0).then(|| exact(float))
        }
        Value::String(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let number: Option<Number> = text
                .parse::<i64>()
                .map(Number::from)
                .or_else(|_| text.parse::<u64>().map(Number::from))
                .ok();
            number.filter(|_| plain).map(Value::Number)
        }
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "whole, and within the exact range")]
fn exact(float: f64) -> Value {
    Value::from(float as i64)
}
