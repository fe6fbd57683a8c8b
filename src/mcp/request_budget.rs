//! Bounds how many requests a server may send us. Each takes an answer, and a server that reads
//! none of them would have them pile up.

use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::time::Instant;

/// How many may come at once.
const BURST: u32 = 1_000;

/// The time in which one more may come.
const INTERVAL: Duration = Duration::from_millis(100);

pub(super) const TOO_MANY: &str = "it sent too many requests: 1,000 at once, or 10 a second";

/// The requests that a server may still send now.
#[derive(Debug)]
pub(super) struct RequestBudget {
    left: u32,
    /// When the last one was added.
    since: Instant,
}

/// The parts of a message that tell it from noise, and requests, answers and notifications apart.
/// The rest is skipped and not kept.
#[derive(Deserialize)]
pub(super) struct MessageKind<'a> {
    #[serde(rename = "jsonrpc")]
    _version: Version,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
enum Version {
    #[serde(rename = "2.0")]
    Two,
}

impl<'a> MessageKind<'a> {
    /// `None`: it is no message.
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        serde_json::from_str(std::str::from_utf8(bytes).ok()?).ok()
    }

    pub(super) fn is_request(&self) -> bool {
        self.id.is_some() && self.method.is_some()
    }

    /// The id as it is written.
    pub(super) fn id(&self) -> Option<&'a str> {
        self.id.map(RawValue::get)
    }

    pub(super) fn has_error(&self) -> bool {
        self.error.is_some()
    }

    pub(super) fn is_answer(&self) -> bool {
        self.method.is_none()
    }
}

impl RequestBudget {
    pub(super) fn new() -> Self {
        Self { left: BURST, since: Instant::now() }
    }

    /// Takes one. False: there is none left.
    pub(super) fn take(&mut self) -> bool {
        let gained = self.since.elapsed().as_millis() / INTERVAL.as_millis();
        let gained = u32::try_from(gained).unwrap_or(u32::MAX);
        self.since += INTERVAL.saturating_mul(gained);
        self.left = self.left.saturating_add(gained).min(BURST);
        let is_any_left = 0 < self.left;
        self.left = self.left.saturating_sub(1);
        is_any_left
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn m9_a_burst_is_taken_and_then_ten_a_second() {
        let mut budget = RequestBudget::new();
        let taken = |budget: &mut RequestBudget| (0..5_000).take_while(|_| budget.take()).count();
        assert_eq!(taken(&mut budget), 1_000);
        advance(Duration::from_millis(1_550)).await;
        assert_eq!(taken(&mut budget), 15);
        advance(Duration::from_millis(50)).await;
        assert_eq!(taken(&mut budget), 1);
        advance(Duration::from_secs(86_400)).await;
        assert_eq!(taken(&mut budget), 1_000);
    }

    #[test]
    fn a_request_has_an_id_and_a_method() {
        let whole = |rest: &str| format!(r#"{{"jsonrpc":"2.0",{rest}}}"#);
        let is_request = |rest| MessageKind::of(whole(rest).as_bytes()).unwrap().is_request();
        let is_answer = |rest| MessageKind::of(whole(rest).as_bytes()).unwrap().is_answer();
        assert!(is_request(r#""id":1,"method":"ping""#));
        assert!(!is_request(r#""id":null,"method":"ping""#));
        assert!(!is_answer(r#""method":"ping""#));
        assert!(is_answer(r#""id":"a","result":{}"#));
    }
}
