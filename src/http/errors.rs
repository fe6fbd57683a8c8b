//! Turns an error into a response.

use std::any::Any;
use std::time::Duration;

use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::headers::SHOULD_RETRY;
use crate::errors::{ApiError, ErrorCode};

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).expect("the table holds statuses");
        let mut response = (status, self.body()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(wait) = self.retry_after {
            headers.insert(RETRY_AFTER, whole_seconds(wait).into());
        }
        if self.code == ErrorCode::UpstreamAuth {
            // A wrong key stays wrong until the operator changes it.
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        if self.code == ErrorCode::SessionBusy {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("true"));
        }
        if leaves_the_body_unread(self.code) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// The answer of a handler that panicked.
pub(crate) fn panicked(_cause: Box<dyn Any + Send>) -> Response {
    ApiError::new(ErrorCode::Internal, "The server failed while handling this request.")
        .into_response()
}

/// Tells SDKs not to send the request again.
pub(crate) fn never_retry(mut response: Response) -> Response {
    response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    response
}

/// The response to a turn that failed after its tools had run: a client that sends the request
/// again runs them again. Some clients know nothing of [`SHOULD_RETRY`], and retry by the status
/// alone, so it is one that none of them retries (`docs/clients.md`, Retries). `code` still says
/// what happened.
pub(crate) fn failed_after_tools(error: ApiError) -> Response {
    let status = error.code.status();
    let mut response = never_retry(error.into_response());
    if is_retried_by_some(status) {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    // It asks a client to come back.
    response.headers_mut().remove(RETRY_AFTER);
    response
}

/// Whether any client sends a request with this answer again: 408, 409, 425, 429 and 5xx are
/// retried by most, and `@langchain/openai` retries all but 400 to 407 and 409.
fn is_retried_by_some(status: u16) -> bool {
    !(400..408).contains(&status)
}

fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

fn leaves_the_body_unread(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::BodyTooLarge | ErrorCode::RequestTimeout | ErrorCode::Overloaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_key_is_asked_for_a_bearer() {
        let response = ApiError::new(ErrorCode::InvalidApiKey, "no").into_response();

        assert_eq!(response.status(), 401);
        assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
    }

    #[test]
    fn a_wait_is_rounded_up() {
        let error = ApiError::new(ErrorCode::TooManyWrongKeys, "wait")
            .retry_after(Some(Duration::from_millis(1200)));

        assert_eq!(error.into_response().headers()[RETRY_AFTER], "2");
    }

    #[test]
    fn w52_a_failure_after_tools_has_a_status_that_no_client_retries() {
        for code in ErrorCode::ALL {
            let error = ApiError::new(code, "m").retry_after(Some(Duration::from_secs(1)));
            let response = failed_after_tools(error);
            let status = response.status().as_u16();
            assert!((400..408).contains(&status), "{code:?}: {status}");
            assert_eq!(response.headers()[SHOULD_RETRY], "false");
            assert!(!response.headers().contains_key(RETRY_AFTER));
        }
    }

    #[test]
    fn a_body_left_unread_closes_the_connection() {
        let response = ApiError::new(ErrorCode::BodyTooLarge, "large").into_response();

        assert_eq!(response.headers()[CONNECTION], "close");
    }
}
