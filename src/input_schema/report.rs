//! Explains to the model what is wrong with its arguments.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use crate::text;

/// Errors that one answer lists. A model would not read more.
const MAX_COMPLAINTS: usize = 10;

/// Bytes of one error.
pub(super) const MAX_LINE: usize = 200;

/// Bytes of a value that are quoted.
const MAX_QUOTE: usize = 60;

/// Describes the errors of a call. `None` if there are none.
pub(super) fn complaint<'a>(
    mut errors: impl Iterator<Item = ValidationError<'a>>,
) -> Option<String> {
    let mut lines: Vec<String> =
        errors.by_ref().take(MAX_COMPLAINTS).map(|error| one(&error)).collect();
    if errors.next().is_some() {
        lines.push("and more".to_owned());
    }
    // They quote the schema, which may be somebody else's.
    (!lines.is_empty()).then(|| text::without_hidden(&lines.join("; ")).into_owned())
}

/// Why a schema does not compile.
pub(super) fn schema_fault(error: &ValidationError<'_>) -> String {
    let line = error.to_string();
    text::prefix(&line, MAX_LINE).escape_debug().to_string()
}

pub(super) fn not_an_object(arguments: &Value, schema: &Value) -> String {
    format!("expected an object with {}, got {}", properties(schema), quoted(arguments))
}

/// A note for the answer on keys that were ignored.
pub(super) fn ignored(unknown: &[String]) -> Vec<String> {
    if unknown.is_empty() {
        return Vec::new();
    }
    let mut names: Vec<String> =
        unknown.iter().take(MAX_COMPLAINTS).map(|name| name_of(name)).collect();
    if unknown.len() > names.len() {
        names.push(format!("{} more", unknown.len() - names.len()));
    }
    vec![format!("(ignored, since this tool does not know it: {})", names.join(", "))]
}

fn one(error: &ValidationError<'_>) -> String {
    let place = place(error.instance_path().as_str());
    let came = quoted(error.instance());
    let line = match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let whole = if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
            return format!("`{whole}` is missing");
        }
        ValidationErrorKind::Type { kind } => format!("expected {}, got {came}", kind_name(kind)),
        ValidationErrorKind::Enum { options } => {
            let options: Vec<String> =
                options.as_array().into_iter().flatten().map(Value::to_string).collect();
            format!("expected one of {}, got {came}", options.join(", "))
        }
        ValidationErrorKind::Minimum { limit } => format!("expected at least {limit}, got {came}"),
        ValidationErrorKind::Maximum { limit } => format!("expected at most {limit}, got {came}"),
        ValidationErrorKind::MinItems { limit } => format!("expected at least {limit} items"),
        ValidationErrorKind::MaxItems { limit } => format!("expected at most {limit} items"),
        _ => error.to_string(),
    };
    format!("`{place}`: {}", text::prefix(&line, MAX_LINE))
}

fn kind_name(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(several) => {
            several.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or ")
        }
    }
}

/// Writes the pointer `/parts/0/old` as `parts[0].old`.
fn place(pointer: &str) -> String {
    let mut place = String::new();
    for part in pointer.split('/').skip(1) {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            place.extend(["[", part, "]"]);
        } else {
            if !place.is_empty() {
                place.push('.');
            }
            place.push_str(&part.replace("~1", "/").replace("~0", "~"));
        }
    }
    place
}

/// Describes a value by its type and, if it is short, its text: `string "abc"`, `an array`.
fn quoted(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Bool(flag) => format!("boolean {flag}"),
        Value::Number(number) => format!("number {number}"),
        Value::String(whole) => {
            let start = text::prefix(whole, MAX_QUOTE);
            let rest = if start.len() < whole.len() { "…" } else { "" };
            format!("string {start:?}{rest}")
        }
    }
}

/// Lists the properties of a schema: `pattern (string), path (string, optional)`.
fn properties(schema: &Value) -> String {
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name))
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    let listed: Vec<String> = properties
        .map(|(name, property)| {
            let kind = property["type"].as_str().unwrap_or("any");
            let optional = if required(name) { "" } else { ", optional" };
            format!("`{name}` ({kind}{optional})")
        })
        .collect();
    if listed.is_empty() { "no properties".to_owned() } else { listed.join(", ") }
}

fn name_of(name: &str) -> String {
    text::prefix(name, MAX_QUOTE).escape_debug().to_string()
}
