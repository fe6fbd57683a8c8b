//! Decides from the record of a turn what a request that is sent again gets.

use std::time::Duration;

use super::fingerprint::RequestFingerprint;
use super::requests::mismatch;
use super::retold::tools_ran;
use super::shared_turn::cancelled;
use crate::agent::record::Outcome;
use crate::errors::ApiError;
use crate::sessions::record::TurnRecord;

/// How long an `Idempotency-Key` names its request.
const NAMED: Duration = Duration::from_secs(24 * 60 * 60);

/// How long after its start a turn can be meant by an SDK's retry: SDKs wait ten minutes for an
/// answer, and retry twice. The same bytes on another day are another request.
const RETRIED: Duration = Duration::from_secs(60 * 60);

/// What a request gets that was sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeated {
    /// The turn is told again.
    Retell,
    /// The turn runs anew: nothing has run that must not run twice.
    RunsAnew,
}

/// `record` is the newest of this request; `now_ms` is in milliseconds since 1970.
pub(super) fn repeated(
    record: &TurnRecord,
    fingerprint: RequestFingerprint,
    now_ms: i64,
) -> Result<Repeated, ApiError> {
    let limit = if fingerprint.is_named() { NAMED } else { RETRIED };
    // A clock that was set back makes no turn older.
    let age = u128::from(now_ms.saturating_sub(record.row.started_ms).unsigned_abs());
    if now_ms > record.row.started_ms && age > limit.as_millis() {
        return Ok(Repeated::RunsAnew);
    }
    if record.row.request.is_some_and(|request| request != fingerprint.request()) {
        return Err(mismatch());
    }
    let tools_ran = tools_ran(record);
    // What a person was asked once is not asked a second time beside it.
    let is_kept = tools_ran || fingerprint.is_named() || record.has_asked();
    match record.end().map(|end| &end.outcome) {
        None | Some(Outcome::Stopped) if tools_ran => Err(cancelled()),
        Some(Outcome::Finished { .. }) if is_kept => Ok(Repeated::Retell),
        Some(Outcome::Failed { .. }) if tools_ran => Ok(Repeated::Retell),
        _ => Ok(Repeated::RunsAnew),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;

    use super::*;
    use crate::agent::record::{End, Entry};
    use crate::errors::ErrorCode;
    use crate::sessions::running::retold::samples;

    const HOUR: i64 = 60 * 60 * 1000;

    fn named() -> RequestFingerprint {
        let headers =
            HeaderMap::from_iter([("idempotency-key".parse().unwrap(), "k".parse().unwrap())]);
        RequestFingerprint::from_request(&headers, None, b"body")
    }

    fn retry() -> RequestFingerprint {
        let name = "x-stainless-retry-count".parse().unwrap();
        let headers = HeaderMap::from_iter([(name, "1".parse().unwrap())]);
        RequestFingerprint::from_request(&headers, None, b"body")
    }

    fn record(outcome: Option<Outcome>, tools_ran: bool) -> TurnRecord {
        let end = |outcome| End { tools_ran, ..samples::end(outcome, "So.") };
        let entries = outcome.map(|outcome| Entry::End(Box::new(end(outcome))));
        let mut record = samples::record(entries.into_iter().collect());
        record.row.request = Some(named().request());
        record
    }

    fn code(result: Result<Repeated, ApiError>) -> Result<Repeated, ErrorCode> {
        result.map_err(|error| error.code)
    }

    #[test]
    fn what_ran_tools_is_told_and_never_run_again() {
        let finished = || Some(Outcome::Finished { reason: "stop".to_owned() });
        let failed =
            || Some(Outcome::Failed { code: "internal".to_owned(), message: String::new() });
        let cancelled = Err(ErrorCode::Cancelled);
        for (outcome, tools_ran, of_name, of_retry) in [
            (finished(), true, Ok(Repeated::Retell), Ok(Repeated::Retell)),
            (finished(), false, Ok(Repeated::Retell), Ok(Repeated::RunsAnew)),
            (failed(), true, Ok(Repeated::Retell), Ok(Repeated::Retell)),
            (failed(), false, Ok(Repeated::RunsAnew), Ok(Repeated::RunsAnew)),
            (Some(Outcome::Stopped), true, cancelled, cancelled),
            (Some(Outcome::Stopped), false, Ok(Repeated::RunsAnew), Ok(Repeated::RunsAnew)),
            (None, false, Ok(Repeated::RunsAnew), Ok(Repeated::RunsAnew)),
        ] {
            let record = record(outcome, tools_ran);
            assert_eq!(code(repeated(&record, named(), 2_000)), of_name, "{record:?}");
            assert_eq!(code(repeated(&record, retry(), 2_000)), of_retry, "{record:?}");
        }
    }

    #[test]
    fn a_name_holds_for_a_day_whatever_the_clock_does() {
        let told = record(Some(Outcome::Finished { reason: "stop".to_owned() }), true);
        for (now, of_name, of_retry) in [
            (HOUR / 2, Repeated::Retell, Repeated::Retell),
            (23 * HOUR, Repeated::Retell, Repeated::RunsAnew),
            (25 * HOUR, Repeated::RunsAnew, Repeated::RunsAnew),
            (-25 * HOUR, Repeated::Retell, Repeated::Retell),
        ] {
            assert_eq!(code(repeated(&told, named(), now)), Ok(of_name), "{now}");
            assert_eq!(code(repeated(&told, retry(), now)), Ok(of_retry), "{now}");
        }
    }

    #[test]
    fn another_body_under_the_same_name_is_a_mistake() {
        let mut told = record(Some(Outcome::Finished { reason: "stop".to_owned() }), true);
        told.row.request = Some([7; 32]);
        assert_eq!(code(repeated(&told, named(), 2_000)), Err(ErrorCode::IdempotencyMismatch));
    }
}
