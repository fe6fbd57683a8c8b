//! Parses the `error` member of a response body or an error frame from upstream.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// An error as upstream describes it. Its text may contain keys and paths, so clients get it
/// only through `upstream::fault`, which redacts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorObject {
    pub(crate) message: String,
    /// The `type` member.
    pub(crate) kind: Option<String>,
    /// The code as text, even where upstream sends a number. LiteLLM sends `"500"` and
    /// `"None"`.
    pub(crate) code: Option<String>,
    /// Whether no `error` member says so: it is known as an error by a word or by its form alone.
    pub(crate) is_inferred: bool,
}

impl ErrorObject {
    /// The error in a response body: `{"error": …}`, `{"detail": …}`, or the body as text.
    pub(crate) fn from_body(body: &str) -> Self {
        match serde_json::from_str::<Whole>(body) {
            Ok(Whole(Some(error))) => error,
            _ => Self { message: body.to_owned(), ..Self::default() },
        }
    }

    pub(crate) fn from_value(value: Value) -> Self {
        match value {
            Value::Object(mut members) => Self {
                message: with_reason(
                    with_raw(
                        members.remove("message").and_then(text).unwrap_or_default(),
                        members.get("metadata"),
                    ),
                    members.get("param"),
                ),
                kind: members.remove("type").and_then(text),
                code: members.remove("code").and_then(text),
                is_inferred: false,
            },
            other => Self { message: text(other).unwrap_or_default(), ..Self::default() },
        }
    }
}

impl<'de> Deserialize<'de> for ErrorObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Value::deserialize(from).map(Self::from_value)
    }
}

/// The message, with the words of the provider behind a gateway that says nothing itself, as
/// OpenRouter does.
fn with_raw(message: String, metadata: Option<&Value>) -> String {
    const SAYS_NOTHING: &str = "Provider returned error";
    match metadata.and_then(|metadata| metadata["raw"].as_str()) {
        Some(raw) if message.ends_with(SAYS_NOTHING) && !raw.is_empty() => {
            format!("{message}: {raw}")
        }
        _ => message,
    }
}

/// The message, with the sentence that some providers write where the name of the parameter
/// belongs.
fn with_reason(message: String, param: Option<&Value>) -> String {
    match param.and_then(Value::as_str) {
        Some(param) if param.trim().contains(' ') && !message.contains(param) => {
            format!("{message}: {param}")
        }
        _ => message,
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

/// A body with an `error`, or with FastAPI's `detail`.
struct Whole(Option<ErrorObject>);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(WholeVisitor)
    }
}

struct WholeVisitor;

impl<'de> Visitor<'de> for WholeVisitor {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an error")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Whole, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "error" | "detail" => found = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Whole(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_litellms_errors() {
        let error = ErrorObject::from_body(
            r#"{"error":{"message":"no","type":null,"param":null,"code":"500"}}"#,
        );
        assert_eq!(error.message, "no");
        assert_eq!(error.kind, None);
        assert_eq!(error.code.as_deref(), Some("500"));
    }

    #[test]
    fn reads_whatever_else_comes() {
        let of = |body: &str| ErrorObject::from_body(body).message;
        assert_eq!(of(r#"{"error": "just a text"}"#), "just a text");
        assert_eq!(of(r#"{"detail": "Not Found"}"#), "Not Found");
        assert_eq!(of("Internal Server Error"), "Internal Server Error");
        assert_eq!(of("[1]"), "[1]");
        assert_eq!(of(""), "");
        let numbered = ErrorObject::from_body(r#"{"error": {"message": "m", "code": 429}}"#);
        assert_eq!(numbered.code.as_deref(), Some("429"));
    }

    #[test]
    fn a_reason_in_the_place_of_the_parameter_is_read() {
        let of = |param: &str| {
            ErrorObject::from_body(&format!(
                r#"{{"error": {{"message": "Param Incorrect", "param": "{param}"}}}}"#
            ))
            .message
        };
        assert_eq!(of("it must be passed back"), "Param Incorrect: it must be passed back");
        assert_eq!(of("messages[0].role"), "Param Incorrect");
    }

    #[test]
    fn a_gateway_that_says_nothing_quotes_the_provider() {
        let of = |metadata: &str| {
            let error =
                format!(r#"{{"message": "Provider returned error", "metadata": {metadata}}}"#);
            ErrorObject::from_body(&format!(r#"{{"error": {error}}}"#)).message
        };
        assert_eq!(
            of(r#"{"raw": "prompt is too long"}"#),
            "Provider returned error: prompt is too long"
        );
        for nothing in ["null", "{}", r#"{"raw": ""}"#, r#"{"raw": {}}"#] {
            assert_eq!(of(nothing), "Provider returned error");
        }
    }
}
