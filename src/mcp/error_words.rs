//! Reads what a message of a server says that is an error, in the forms that there are, and which
//! request it names.

use rmcp::model::{ErrorCode, ErrorData, RequestId};
use serde_json::Value;

/// What a message answers whose id is that of no request.
pub(super) const FOREIGN: &str = "its answer is to another request";

/// The error that ends a request, of a message that is no answer to it.
pub(super) fn error_of(message: &Value) -> ErrorData {
    let words = words_of(message).unwrap_or_else(|| FOREIGN.to_owned());
    let code = message["error"]["code"].as_i64().and_then(|code| i32::try_from(code).ok());
    ErrorData::new(code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode), words, None)
}

/// Whether an id is that of this request. Some servers send numbers back as texts.
pub(super) fn is_id(id: &RequestId, found: &Value) -> bool {
    match found {
        Value::Number(number) => id.to_string() == number.to_string(),
        Value::String(text) => id.to_string() == *text,
        _ => false,
    }
}

/// What a body says that is an error, in one of the forms that there are.
pub(super) fn words_of(message: &Value) -> Option<String> {
    let error = &message["error"];
    let places = [
        &error["message"],
        &message["error_description"],
        error,
        &message["message"],
        &message["detail"],
    ];
    let words = places.into_iter().find_map(Value::as_str)?;
    (!words.trim().is_empty()).then(|| words.to_owned())
}
