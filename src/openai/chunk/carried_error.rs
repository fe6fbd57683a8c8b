//! Finds the error in an object that comes where a chunk was expected, however it is dressed.
//!
//! Beside `{"error": …}`, servers and gateways send `{"object": "error", …}`, `{"detail": …}`,
//! `{"code": 500, "msg": …}` and others. What carries no answer and no error is a ping.

use serde_json::{Map, Value};

use crate::openai::error_object::ErrorObject;

/// Members that only an error has.
const ERRORS: [&str; 14] = [
    "error",
    "errors",
    "detail",
    "details",
    "fault",
    "exception",
    "traceback",
    "error_message",
    "errorMessage",
    "error_msg",
    "errorMsg",
    "err_msg",
    "error_code",
    "errorCode",
];

/// Members with the words of an error, the best first.
const MESSAGES: [&str; 11] = [
    "message",
    "msg",
    "error_message",
    "errorMessage",
    "error_msg",
    "errorMsg",
    "err_msg",
    "status_msg",
    "detail",
    "title",
    "description",
];

/// Members with a code, which is an error's if it is that of a failure.
const CODES: [&str; 6] = ["code", "error_code", "errorCode", "status_code", "statusCode", "status"];

/// Members that say what an object is.
const KINDS: [&str; 4] = ["object", "type", "event", "status"];

/// Members that hold the outcome of a request.
const OUTCOMES: [&str; 2] = ["base_resp", "header"];

/// The error in an object without an answer; `None` if there is none.
pub(super) fn find(members: &Map<String, Value>) -> Option<ErrorObject> {
    let outcome = OUTCOMES.iter().find_map(|name| members.get(*name)?.as_object());
    if let Some(outcome) = outcome
        && has_failure_code(outcome)
    {
        return Some(written(outcome));
    }
    let is_error = says_error(members)
        || ERRORS.iter().any(|name| members.get(*name).is_some_and(is_something))
        || members.get("success") == Some(&Value::Bool(false))
        || (has_message(members) && has_failure_code(members));
    is_error.then(|| written(members))
}

/// The error in a text that was sent as one.
pub(crate) fn in_text(text: &str) -> ErrorObject {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(members)) => find(&members).unwrap_or_else(|| written(&members)),
        Ok(Value::String(message)) => inferred(message),
        _ => inferred(text.to_owned()),
    }
}

/// An error of which nothing but its words is known.
pub(super) fn inferred(message: String) -> ErrorObject {
    ErrorObject { message, is_inferred: true, ..ErrorObject::default() }
}

/// Whether the value of a member that names an error tells one: `null`, `false`, `0`, `""`, `[]`
/// and `{}` do not.
pub(super) fn is_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) => true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty() && text != "0",
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// Whether the object calls itself an error.
fn says_error(members: &Map<String, Value>) -> bool {
    let kinds = KINDS.iter().filter_map(|name| members.get(*name)?.as_str());
    kinds.map(str::to_ascii_lowercase).any(|kind| {
        let ends = ["error", "exception", "failed", "failure"];
        ends.iter().any(|end| kind.ends_with(end))
    })
}

fn has_message(members: &Map<String, Value>) -> bool {
    MESSAGES
        .iter()
        .any(|name| members.get(*name).is_some_and(|text| text.is_string() && is_something(text)))
}

fn has_failure_code(members: &Map<String, Value>) -> bool {
    CODES.iter().filter_map(|name| members.get(*name)).any(is_failure_code)
}

/// Whether a code is that of a failure. Numbers below 400 may be those of a success; a word is
/// one unless it says so, as `InvalidParameter` does not.
fn is_failure_code(code: &Value) -> bool {
    const GOOD: [&str; 10] = [
        "ok",
        "success",
        "succeeded",
        "pending",
        "queued",
        "running",
        "processing",
        "in_progress",
        "completed",
        "null",
    ];
    match code {
        Value::Number(number) => number.as_i64().is_some_and(|code| !(0..400).contains(&code)),
        Value::String(text) => match text.parse::<i64>() {
            Ok(code) => !(0..400).contains(&code),
            Err(_) => !text.is_empty() && !GOOD.contains(&text.to_ascii_lowercase().as_str()),
        },
        _ => false,
    }
}

/// The error that an object tells.
fn written(members: &Map<String, Value>) -> ErrorObject {
    let inner =
        ["error", "errors", "fault", "detail", "data"].iter().find_map(|name| {
            match members.get(*name)? {
                Value::Object(inner) => Some(inner),
                Value::Array(items) => items.first()?.as_object(),
                _ => None,
            }
        });
    if let Some(inner) = inner {
        return written(inner);
    }
    let text = |names: &[&str]| {
        let mut values = names.iter().filter_map(|name| members.get(*name));
        values.find(|value| is_something(value)).map(as_text)
    };
    let named = text(&MESSAGES).or_else(|| text(&ERRORS));
    ErrorObject {
        message: named.unwrap_or_else(|| Value::Object(members.clone()).to_string()),
        kind: text(&["type"]),
        code: text(&CODES),
        is_inferred: true,
    }
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::chunk::{BadChunk, Chunk};

    #[track_caller]
    fn check(payload: &str, message: &str, code: Option<&str>) {
        let Err(BadChunk::Error(error)) = Chunk::parse(payload) else {
            panic!("no error: {payload}")
        };
        assert_eq!((error.message.as_str(), error.code.as_deref()), (message, code), "{payload}");
    }

    #[test]
    fn an_error_is_found_in_any_dress() {
        check(
            r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#,
            "too long",
            Some("400"),
        );
        check(r#"{"detail":"Not Found"}"#, "Not Found", None);
        check(r#"{"detail":[{"msg":"field required","type":"missing"}]}"#, "field required", None);
        check(r#"{"type":"error","message":"overloaded"}"#, "overloaded", None);
        check(r#"{"type":"error","error":{"type":"x","message":"m"}}"#, "m", None);
        check(
            r#"{"event":"error","data":{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}}"#,
            "Overloaded",
            None,
        );
        check(r#"{"error":"just a text"}"#, "just a text", None);
        check(r#"{"errors":[{"message":"first","code":7}]}"#, "first", Some("7"));
        check(
            r#"{"code":"InvalidParameter","message":"m","request_id":"r"}"#,
            "m",
            Some("InvalidParameter"),
        );
        check(
            r#"{"error_code":336003,"error_msg":"the max input"}"#,
            "the max input",
            Some("336003"),
        );
        check(r#"{"code":1261,"msg":"too long","success":false}"#, "too long", Some("1261"));
        check(
            r#"{"id":"x","choices":null,"base_resp":{"status_code":1008,"status_msg":"no balance"}}"#,
            "no balance",
            Some("1008"),
        );
        check(r#"{"status":"error","message":"m"}"#, "m", Some("error"));
        check(r#"{"object":"error","choices":[],"message":"m"}"#, "m", None);
        check(
            r#"{"object":"error","choices":[{"delta":{"content":"a"}}],"message":"m"}"#,
            "m",
            None,
        );
        check(
            r#"{"choices":[{"delta":{},"finish_reason":"error","error":{"message":"gone","code":502}}]}"#,
            "gone",
            Some("502"),
        );
    }

    #[test]
    fn a_ping_carries_no_error() {
        for ping in [
            "{}",
            r#"{"type":"ping"}"#,
            r#"{"choices":null}"#,
            r#"{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}"#,
            r#"{"status":"processing","message":"queued","code":0}"#,
            r#"{"error":null,"detail":null,"code":200,"message":"success"}"#,
            r#"{"base_resp":{"status_code":0,"status_msg":""}}"#,
            r#"{"type":"heartbeat","message":"still here"}"#,
            r#"{"message":"welcome"}"#,
            r#"{"id":"x","object":"chat.completion.chunk","error":{}}"#,
        ] {
            let read = Chunk::parse(ping);
            assert!(!matches!(read, Err(BadChunk::Error(_))), "{ping}: {read:?}");
        }
    }

    #[test]
    fn a_text_that_was_sent_as_an_error_is_one() {
        assert_eq!(in_text("Internal Server Error").message, "Internal Server Error");
        assert_eq!(in_text(r#"{"code":500,"message":"m"}"#).message, "m");
        assert_eq!(in_text(r#"{"error":{"message":"m","code":"c"}}"#).code.as_deref(), Some("c"));
        assert_eq!(in_text(r#""quoted""#).message, "quoted");
        assert_eq!(in_text(r#"{"a":1}"#).message, r#"{"a":1}"#);
    }
}
