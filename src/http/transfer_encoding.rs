//! Refuses a body whose length a proxy could read in another way (request smuggling:
//! `docs/threats.md`, H26).
//!
//! hyper reads such a body safely by its own rules. A proxy before this server may have
//! other rules, and then take a part of the body for a request, or the reverse.

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::HeaderValue;
use axum::http::header::{CONNECTION, TRANSFER_ENCODING};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::errors::{ApiError, ErrorCode};

pub(crate) async fn check(request: Request, next: Next) -> Response {
    if is_unambiguous(request.headers()) {
        return next.run(request).await;
    }
    let message = "Send the body with a Content-Length, or with 'Transfer-Encoding: chunked' \
                   and nothing else.";
    let mut response = ApiError::new(ErrorCode::InvalidValue, message).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Checks the transfer coding only. hyper refuses two lengths that differ, and ignores
/// the length of a chunked body.
fn is_unambiguous(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked =
        codings.next().is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    is_chunked && codings.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(headers: &[(&str, &str)], expected: bool) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        assert_eq!(is_unambiguous(&map), expected, "{headers:?}");
    }

    #[test]
    fn h26_a_body_has_one_length() {
        check(&[], true);
        check(&[("content-length", "2")], true);
        check(&[("transfer-encoding", "Chunked")], true);
        check(&[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")], false);
        for coding in ["gzip, chunked", "identity, chunked", "chunked, chunked", ",chunked", "gzip"]
        {
            check(&[("transfer-encoding", coding)], false);
        }
    }
}
