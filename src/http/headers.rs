//! Names the headers of our answers that are not in a standard.

use axum::http::{HeaderName, HeaderValue};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// SDKs obey it before they look at the status.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

pub(crate) const SESSION: HeaderName = HeaderName::from_static("x-toolhand-session");

pub(crate) const TURN: HeaderName = HeaderName::from_static("x-toolhand-turn");

/// One of our ids as a header's value.
pub(crate) fn header_value(id: &str) -> HeaderValue {
    HeaderValue::from_str(id).expect("our ids are plain ASCII")
}
