//! Checks the top-level fields: their types, and which are denied.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{invalid, missing, quoted, required_string, unsupported};
use crate::api::denied_fields;
use crate::errors::ApiError;
use crate::json::{self, Kind, Object};
use crate::upstream::settings::UnknownFields;

/// Longer than any model's name.
const MAX_MODEL_NAME: usize = 256;

#[derive(Clone, Copy)]
enum Shape {
    Bool,
    Number,
    Integer,
    String,
    Array,
    Object,
    /// A string or a list of strings.
    Stop,
    /// Checked elsewhere, or not at all.
    Any,
}

/// Every field that OpenAI documents for a chat completion, and our own.
const KNOWN: [(&str, Shape); 38] = [
    ("audio", Shape::Object),
    ("frequency_penalty", Shape::Number),
    ("function_call", Shape::Any),
    ("functions", Shape::Array),
    ("logit_bias", Shape::Object),
    ("logprobs", Shape::Bool),
    ("max_completion_tokens", Shape::Integer),
    ("max_tokens", Shape::Integer),
    ("messages", Shape::Any),
    ("metadata", Shape::Object),
    ("modalities", Shape::Array),
    ("model", Shape::Any),
    ("moderation", Shape::Any),
    ("n", Shape::Any),
    ("parallel_tool_calls", Shape::Bool),
    ("prediction", Shape::Object),
    ("presence_penalty", Shape::Number),
    ("prompt_cache_key", Shape::String),
    ("prompt_cache_options", Shape::Object),
    ("prompt_cache_retention", Shape::String),
    ("reasoning_effort", Shape::String),
    ("response_format", Shape::Object),
    ("safety_identifier", Shape::String),
    ("seed", Shape::Integer),
    ("service_tier", Shape::String),
    ("stop", Shape::Stop),
    ("store", Shape::Bool),
    ("stream", Shape::Bool),
    ("stream_options", Shape::Object),
    ("temperature", Shape::Number),
    ("tool_choice", Shape::Any),
    ("toolhand", Shape::Object),
    ("tools", Shape::Array),
    ("top_logprobs", Shape::Integer),
    ("top_p", Shape::Number),
    ("user", Shape::String),
    ("verbosity", Shape::String),
    ("web_search_options", Shape::Object),
];

/// Refuses denied fields and wrong types. Ranges are left to upstream.
pub(super) fn check(fields: &Object<'_>, unknown: UnknownFields) -> Result<(), ApiError> {
    denied_fields::check_chat(fields)?;
    for (name, value) in fields.members() {
        match shape_of(name) {
            Some(shape) => check_shape(name, value, shape)?,
            None if unknown == UnknownFields::Refuse => {
                return Err(unsupported(
                    name,
                    format!("The field {} is not known here.", quoted(name)),
                ));
            }
            None => {}
        }
    }
    check_legacy(fields)?;
    check_count(fields)
}

/// Refuses what `tools` replaced. Its answers could not be told apart from those of the
/// server's calls, and would be lost.
fn check_legacy(fields: &Object<'_>) -> Result<(), ApiError> {
    for (old, new) in [("functions", "tools"), ("function_call", "tool_choice")] {
        if fields.get(old).is_some_and(|value| json::kind(value) != Kind::Null) {
            let message = format!("{old} is not supported: give {new} in its place.");
            return Err(unsupported(old, message));
        }
    }
    Ok(())
}

fn shape_of(name: &str) -> Option<Shape> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape)
}

fn check_shape(name: &str, value: &RawValue, shape: Shape) -> Result<(), ApiError> {
    let kind = json::kind(value);
    let (fits, wanted) = match shape {
        _ if kind == Kind::Null => (true, ""),
        Shape::Any => (true, ""),
        Shape::Bool => (kind == Kind::Bool, "true or false"),
        Shape::Number => (kind == Kind::Number, "a number"),
        Shape::Integer => (is_integer(value), "an integer"),
        Shape::String => (kind == Kind::String, "a string"),
        Shape::Array => (kind == Kind::Array, "an array"),
        Shape::Object => (kind == Kind::Object, "an object"),
        Shape::Stop => (is_stop(value), "a string or an array of strings"),
    };
    if fits { Ok(()) } else { Err(invalid(name, format!("{name} must be {wanted}."))) }
}

fn is_integer(value: &RawValue) -> bool {
    json::number(value).is_some_and(|number| number.fract() == 0.0)
}

fn is_stop(value: &RawValue) -> bool {
    let is_string = |item: &RawValue| json::kind(item) == Kind::String;
    let check = |item: &RawValue| if is_string(item) { Ok(()) } else { Err(()) };
    is_string(value) || json::for_each_item(value, check) == Some(Ok(()))
}

/// `n` must be 1: a turn has one answer.
fn check_count(fields: &Object<'_>) -> Result<(), ApiError> {
    match fields.get("n").map(json::number) {
        None => Ok(()),
        Some(Some(count)) if count.to_bits() == 1.0_f64.to_bits() => Ok(()),
        Some(_) => Err(unsupported("n", "Only n = 1 is supported: one answer a request.")),
    }
}

pub(super) fn model<'a>(fields: &Object<'a>) -> Result<Cow<'a, str>, ApiError> {
    let model = required_string(fields, "model", "model")?;
    if model.trim().is_empty() || model.len() > MAX_MODEL_NAME || model.contains(char::is_control) {
        let message = format!(
            "model must be a name of 1 to {MAX_MODEL_NAME} bytes without control characters."
        );
        return Err(invalid("model", message));
    }
    Ok(model)
}

/// How the client wants the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streaming {
    pub(super) is_streamed: bool,
    pub(super) include_usage: bool,
}

pub(super) fn stream(fields: &Object<'_>) -> Result<Streaming, ApiError> {
    let is_streamed = fields.get("stream").and_then(json::boolean).unwrap_or(false);
    let Some(options) = fields.get("stream_options") else {
        return Ok(Streaming { is_streamed, include_usage: false });
    };
    if !is_streamed {
        let message = "stream_options is only for requests with stream = true.";
        return Err(invalid("stream_options", message));
    }
    let options = Object::from_raw(options).ok_or_else(|| missing("stream_options"))?;
    let include_usage = match options.get("include_usage") {
        None => false,
        Some(value) => json::boolean(value).ok_or_else(|| {
            let param = "stream_options.include_usage";
            invalid(param, format!("{param} must be true or false."))
        })?,
    };
    Ok(Streaming { is_streamed, include_usage })
}
