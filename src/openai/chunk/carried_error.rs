//! Finds the error in an object that comes where a chunk was expected, however it is dressed.
//!
//! Beside `{"error": …}`, servers and gateways send `{"object": "error", …}`, `{"detail": …}`,
//! `{"code": 500, "msg": …}` and others. What carries no answer and no error is a ping.

use serde_json::{Map, Value};

use crate::openai::error_object::ErrorObject;

/// Members that only an error has.
const ERRORS: [&str; 15] = [
    "error",
    "errors",
    "err",
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
const MESSAGES: [&str; 14] = [
    "message",
    "Message",
    "msg",
    "errmsg",
    "error_message",
    "errorMessage",
    "error_msg",
    "errorMsg",
    "err_msg",
    "status_msg",
    "reason",
    "detail",
    "title",
    "description",
];

/// Members with a code, which is an error's if it is that of a failure.
const CODES: [&str; 6] = ["code", "error_code", "errorCode", "status_code", "statusCode", "status"];

/// Members that say what an object is.
const KINDS: [&str; 8] = ["object", "type", "event", "status", "kind", "level", "state", "result"];

/// How a word ends that calls something a failure.
const WORDS_OF_FAILURE: [&str; 4] = ["error", "exception", "failed", "failure"];

/// Members that hold the outcome of a request.
const OUTCOMES: [&str; 2] = ["base_resp", "header"];

/// Members by which an object says that it is, or is no, success.
const FLAGS: [(&str, bool); 6] = [
    ("success", false),
    ("ok", false),
    ("is_error", true),
    ("isError", true),
    ("failed", true),
    ("has_error", true),
];

/// Members with the error in them, or with what has it.
const INNER: [&str; 7] = ["error", "errors", "fault", "detail", "data", "response", "err"];

/// The error in an object without an answer; `None` if there is none.
pub(super) fn find(members: &Map<String, Value>) -> Option<ErrorObject> {
    if let Some(error) = beside_an_answer(members) {
        return Some(error);
    }
    let is_error = ERRORS.iter().any(|name| members.get(*name).is_some_and(is_something))
        || (has_message(members) && has_failure_code(members));
    is_error.then(|| written(members))
}

/// The error in an object that has an answer too. Only what nothing else means counts.
pub(super) fn beside_an_answer(members: &Map<String, Value>) -> Option<ErrorObject> {
    let outcome = OUTCOMES.iter().find_map(|name| members.get(*name)?.as_object());
    if let Some(outcome) = outcome
        && has_failure_code(outcome)
    {
        return Some(written(outcome));
    }
    (says_error(members) || is_flagged(members)).then(|| written(members))
}

/// The words of an object that carries neither an answer nor an error, and does not say what it
/// is.
pub(super) fn remark(members: &Map<String, Value>) -> Option<ErrorObject> {
    let is_known = KINDS.iter().chain(&CODES).any(|name| members.contains_key(*name));
    (!is_known && has_message(members)).then(|| written(members))
}

/// Whether a member of this name can make [`beside_an_answer`] find something.
pub(super) fn may_tell(name: &str) -> bool {
    KINDS.contains(&name) || OUTCOMES.contains(&name) || FLAGS.iter().any(|(flag, _)| *flag == name)
}

/// The error in the body of a response with a status of failure: it is one, whatever its form.
pub(crate) fn in_body(body: &str) -> ErrorObject {
    let members = match serde_json::from_str::<Value>(body) {
        Ok(Value::Object(members)) => members,
        // Google's servers send a list with the one object in it.
        Ok(Value::Array(mut items)) => match items.first_mut().map(Value::take) {
            Some(Value::Object(members)) => members,
            _ => return ErrorObject::from_body(body),
        },
        _ => return ErrorObject::from_body(body),
    };
    for name in ["error", "detail"] {
        if let Some(value) = members.get(name).filter(|value| is_something(value)) {
            return ErrorObject::from_value(value.clone());
        }
    }
    ErrorObject { is_inferred: false, ..written(&members) }
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
    let mut kinds = KINDS.iter().filter_map(|name| members.get(*name)?.as_str());
    kinds.any(names_a_failure)
}

/// Whether the name of an event, or the kind of an object, says that something has failed.
pub(crate) fn names_a_failure(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    WORDS_OF_FAILURE.iter().any(|end| name.ends_with(end))
}

fn is_flagged(members: &Map<String, Value>) -> bool {
    FLAGS.iter().any(|(name, failed)| match members.get(*name) {
        Some(Value::Bool(told)) => told == failed,
        Some(Value::String(told)) => told.parse() == Ok(*failed),
        _ => false,
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
    let mut inner = INNER.iter().filter_map(|name| match members.get(*name)? {
        Value::Object(inner) => Some(inner),
        Value::Array(items) => items.first()?.as_object(),
        _ => None,
    });
    if let Some(inner) = inner.find(|inner| !inner.is_empty()) {
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
        check(r#"{"object":"Error","usage":{"prompt_tokens":1},"message":"m"}"#, "m", None);
        check(r#"{"choices":[],"usage":{"prompt_tokens":1},"detail":"gone"}"#, "gone", None);
        check(
            r#"{"type":"response.failed","response":{"error":{"message":"m","code":"c"}}}"#,
            "m",
            Some("c"),
        );
        check(r#"{"ok":false,"reason":"m"}"#, "m", None);
        check(r#"{"success":"false","errmsg":"m"}"#, "m", None);
        check(r#"{"is_error":true,"result":"m"}"#, r#"{"is_error":true,"result":"m"}"#, None);
        check(r#"{"kind":"Failure","description":"m"}"#, "m", None);
        check(
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"base_resp":{"status_code":1027,"status_msg":"m"}}"#,
            "m",
            Some("1027"),
        );
        check(r#"{"choices":[{"delta":{"content":""}}],"type":"error","message":"m"}"#, "m", None);
        check(r#"{"choices":[{"delta":{"error":{"message":"m"}}}]}"#, "m", None);
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
            r#"{"ok":true,"success":true,"status":"completed","is_error":false}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],"base_resp":{"status_code":0},"status":"ok"}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],"detail":"x","code":"Accepted","message":"m"}"#,
            r#"{"choices":[{"delta":{"content":"a","error":null}}]}"#,
        ] {
            let read = Chunk::parse(ping);
            assert!(!matches!(read, Err(BadChunk::Error(_))), "{ping}: {read:?}");
        }
    }

    #[test]
    fn the_body_of_a_refusal_is_an_error_in_any_dress() {
        let of = |body: &str| {
            let ErrorObject { message, code, .. } = in_body(body);
            (message, code)
        };
        let told =
            |message: &str, code: Option<&str>| (message.to_owned(), code.map(str::to_owned));
        assert_eq!(of(r#"{"error":{"message":"m","code":"c"}}"#), told("m", Some("c")));
        assert_eq!(of(r#"[{"error":{"message":"m","code":400}}]"#), told("m", Some("400")));
        assert_eq!(of(r#"{"object":"error","message":"m","code":400}"#), told("m", Some("400")));
        assert_eq!(of(r#"{"error":null,"message":"m"}"#), told("m", None));
        assert_eq!(of(r#"{"errors":[{"message":"m","code":7}]}"#), told("m", Some("7")));
        assert_eq!(of(r#"{"error_code":336,"error_msg":"m"}"#), told("m", Some("336")));
        assert_eq!(of(r#"{"Message":"m"}"#), told("m", None));
        assert_eq!(of(r#"{"detail":"Not Found"}"#), told("Not Found", None));
        assert_eq!(of("Bad Request"), told("Bad Request", None));
        assert_eq!(of(r#"{"a":1}"#), told(r#"{"a":1}"#, None));
        assert_eq!(of("[1]"), told("[1]", None));
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
