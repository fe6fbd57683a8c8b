//! Answers a request that a client sends again, in its own way, after its turn has failed: the
//! tools that ran before the failure are not run a second time.
//!
//! `sessions::running` knows a retry that names itself as one, and an `Idempotency-Key`. This file
//! is about requests that say nothing: the same bytes of the same client, soon after the failure
//! was delivered.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::response::{IntoResponse as _, Response};
use tokio::time::Instant;

use crate::errors::ApiError;
use crate::http::errors::failed_after_tools;
use crate::http::headers::{SESSION, TURN};
use crate::ids::Scope;
use crate::sessions::running::{RequestFingerprint, RequestName};
use crate::sync;

/// The time after its delivery in which a failure answers the same request: longer than the pauses
/// of workflow programs, which are up to 5 s, and shorter than a person takes to change their
/// mind and ask once more.
const REPEAT_WINDOW: Duration = Duration::from_secs(10);

/// The most failures that are remembered. One is a few hundred bytes.
const MAX_FAILURES: usize = 1024;

/// The failures of unstreamed requests that were delivered after tools had run.
#[derive(Debug, Default)]
pub(crate) struct DeliveredFailures(Mutex<HashMap<(Scope, RequestName), DeliveredFailure>>);

/// The answer with a failure, as the client got it.
#[derive(Clone, Debug)]
pub(super) struct FailureAnswer {
    pub(super) error: ApiError,
    pub(super) session: HeaderValue,
    pub(super) turn: HeaderValue,
}

/// A failure, and when it was last delivered.
#[derive(Debug)]
struct DeliveredFailure {
    failure: FailureAnswer,
    at: Instant,
}

impl DeliveredFailures {
    /// Remembers a failure that is delivered now.
    pub(super) fn note(&self, scope: Scope, request: RequestFingerprint, failure: FailureAnswer) {
        let now = Instant::now();
        let mut known = sync::lock(&self.0);
        if known.len() >= MAX_FAILURES {
            known.retain(|_, delivered| delivered.is_recent(now));
        }
        if known.len() < MAX_FAILURES {
            known.insert((scope, request.request_name()), DeliveredFailure { failure, at: now });
        }
    }

    /// The answer to a request whose failure was delivered a moment ago. It is delivered once
    /// more, so that a client which goes on in this way never runs the tools again.
    pub(super) fn answer(&self, scope: Scope, request: RequestFingerprint) -> Option<Response> {
        let now = Instant::now();
        let mut known = sync::lock(&self.0);
        let name = (scope, request.request_name());
        let delivered = known.get_mut(&name)?;
        if !delivered.is_recent(now) {
            known.remove(&name);
            return None;
        }
        delivered.at = now;
        Some(delivered.failure.clone().into_response())
    }
}

impl DeliveredFailure {
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= REPEAT_WINDOW
    }
}

impl FailureAnswer {
    pub(super) fn into_response(self) -> Response {
        let Self { error, session, turn } = self;
        ([(SESSION, session), (TURN, turn)], failed_after_tools(error)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;

    use super::*;
    use crate::errors::ErrorCode;

    fn request(body: &str, key: Option<&str>) -> RequestFingerprint {
        let key = key.map(|key| ("idempotency-key".parse().unwrap(), key.parse().unwrap()));
        RequestFingerprint::from_request(&HeaderMap::from_iter(key), None, body.as_bytes())
    }

    fn failure() -> FailureAnswer {
        let name = HeaderValue::from_static("x");
        let error = ApiError::new(ErrorCode::UpstreamUnavailable, "away");
        FailureAnswer { error, session: name.clone(), turn: name }
    }

    fn scope(byte: u8) -> Scope {
        Scope::from_bytes([byte; 32])
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_request_gets_the_failure_for_ten_seconds_and_no_longer() {
        let failures = DeliveredFailures::default();
        let (mine, asked) = (scope(1), request("body", None));
        assert!(failures.answer(mine, asked).is_none());
        failures.note(mine, asked, failure());

        let again = failures.answer(mine, asked).unwrap();
        assert_eq!(again.status(), 400);
        assert_eq!(again.headers()[TURN], "x");
        for other in [request("other", None), request("body", Some("k"))] {
            assert!(failures.answer(mine, other).is_none());
        }
        assert!(failures.answer(scope(2), asked).is_none());

        // Each delivery counts, so that a client never comes to the end of it.
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(9)).await;
            assert!(failures.answer(mine, asked).is_some());
        }
        tokio::time::advance(Duration::from_millis(10_001)).await;
        assert!(failures.answer(mine, asked).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_failures_are_remembered() {
        let failures = DeliveredFailures::default();
        for number in 0..=MAX_FAILURES {
            failures.note(scope(1), request(&number.to_string(), None), failure());
        }
        assert_eq!(sync::lock(&failures.0).len(), MAX_FAILURES);
        tokio::time::advance(REPEAT_WINDOW * 2).await;
        failures.note(scope(1), request("new", None), failure());
        assert_eq!(sync::lock(&failures.0).len(), 1);
    }
}
