//! Names the headers that are not in any standard and stand in our answers.

use axum::http::HeaderName;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Obeyed by the SDKs before they look at the status.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

pub(crate) const SESSION: HeaderName = HeaderName::from_static("x-toolhand-session");

pub(crate) const TURN: HeaderName = HeaderName::from_static("x-toolhand-turn");
