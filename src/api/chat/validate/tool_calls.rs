//! Reads the tool calls of an assistant message: their shape and their arguments.

use std::borrow::Cow;
use std::fmt::Arguments;

use serde_json::value::RawValue;

use super::{invalid, missing, required_items, required_object, required_string};
use crate::errors::ApiError;
use crate::json::{self, Object};
use crate::openai::call_name;
use crate::openai::chunk::surrogates;

/// Replaces arguments that cannot be parsed.
const NO_ARGUMENTS: &str = "{}";

/// A call of the history. It is never run.
#[derive(Debug)]
pub(super) struct Call<'a> {
    /// As the client sent it; empty if it has none.
    pub(super) id: Cow<'a, str>,
    /// The tool's name; empty if a custom call has none.
    pub(super) name: Cow<'a, str>,
    /// The call, with arguments that are valid JSON.
    pub(super) json: Cow<'a, RawValue>,
}

impl Call<'_> {
    /// Mends a name that providers refuse.
    pub(super) fn mend_name(&mut self) {
        let mended = call_name::mended(&self.name).into_owned();
        if mended == *self.name {
            return;
        }
        let Some(object) = Object::from_raw(&self.json) else { return };
        let is_custom = object.string("type").as_deref() == Some("custom");
        let kind = if is_custom { "custom" } else { "function" };
        let Some(function) = object.get(kind).and_then(Object::from_raw) else { return };
        let name = json::quoted(&mended);
        let function = function.with(&[("name", Some(&name))]);
        self.json = Cow::Owned(object.with(&[(kind, Some(&function))]));
    }
}

/// Reads at most one call more than `most`, so that the caller sees when there are too
/// many.
pub(super) fn read<'a>(
    calls: &'a RawValue,
    most: usize,
    at: Arguments<'_>,
) -> Result<Vec<Call<'a>>, ApiError> {
    let read = |(index, call)| read_one(call, format_args!("{at}[{index}]"));
    required_items(calls, most, at)?.into_iter().enumerate().map(read).collect()
}

/// Reads one call. Its arguments must be JSON for upstream, because providers parse them.
fn read_one<'a>(call: &'a RawValue, at: Arguments<'_>) -> Result<Call<'a>, ApiError> {
    let object = required_object(call, at)?;
    let id = match object.get("id") {
        None => Cow::Borrowed(""),
        Some(_) => required_string(&object, "id", format_args!("{at}.id"))?,
    };
    let kind = object.string("type");
    if kind.as_deref() == Some("custom") {
        let custom = object.get("custom").and_then(Object::from_raw);
        let name = custom.and_then(|custom| custom.string("name")).unwrap_or_default();
        return Ok(Call { id, name, json: Cow::Borrowed(call) });
    }
    if object.get("type").is_some() && kind.as_deref() != Some("function") {
        return Err(invalid(format_args!("{at}.type"), "A tool call is a function or custom."));
    }
    let function_at = format_args!("{at}.function");
    let function = object.get("function").ok_or_else(|| missing(function_at))?;
    let function = required_object(function, function_at)?;
    let name = required_string(&function, "name", format_args!("{function_at}.name"))?;
    let json = match repaired_arguments(function.get("arguments")) {
        None => Cow::Borrowed(call),
        Some(arguments) => {
            let arguments = json::quoted(&arguments);
            let function = function.with(&[("arguments", Some(&arguments))]);
            Cow::Owned(object.with(&[("function", Some(&function))]))
        }
    };
    Ok(Call { id, name, json })
}

/// Valid arguments to replace these; `None` if these are valid.
fn repaired_arguments(arguments: Option<&RawValue>) -> Option<String> {
    let Some(arguments) = arguments else { return Some(NO_ARGUMENTS.to_owned()) };
    let Some(text) = json::string(arguments) else { return Some(arguments.get().to_owned()) };
    if matches!(text.trim(), "" | "null") {
        return Some(NO_ARGUMENTS.to_owned());
    }
    if serde_json::from_str::<&RawValue>(&text).is_err() {
        return Some(serde_json::json!({ "text": text }).to_string());
    }
    match surrogates::repaired(&text) {
        Cow::Owned(repaired) => Some(repaired),
        Cow::Borrowed(_) => None,
    }
}
