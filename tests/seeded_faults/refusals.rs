//! Generates answers that are not streams, with the error that the client gets for each.

use crate::support::faults::{Step, answer};
use crate::support::seeded::SeededRandom;

/// An answer without any output of the model.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) code: &'static str,
    /// Whether the request is repeated.
    pub(super) again: bool,
    pub(super) steps: Vec<Step>,
}

/// Statuses, each with its error code and whether the request is repeated.
const STATUSES: [(u16, &str, bool); 20] = [
    (500, "upstream_error", true),
    (502, "upstream_error", true),
    (503, "upstream_error", true),
    (504, "upstream_error", true),
    (529, "upstream_error", true),
    (424, "upstream_error", true),
    (408, "upstream_error", true),
    (429, "upstream_rate_limited", true),
    (429, "upstream_rate_limited", true),
    (400, "upstream_rejected", false),
    (422, "upstream_rejected", false),
    (418, "upstream_rejected", false),
    (401, "upstream_auth", false),
    (403, "upstream_auth", false),
    (404, "upstream_rejected", false),
    (301, "upstream_invalid", false),
    (302, "upstream_invalid", false),
    (307, "upstream_invalid", false),
    (204, "upstream_error", true),
    (200, "upstream_invalid", false),
];

/// Headers with a short wait, or without a valid one.
const WAITS: [&str; 8] = [
    "retry-after: 0",
    "retry-after: -1",
    "retry-after: soon",
    "retry-after: Sun, 06 Nov 1994 08:49:37 GMT",
    "retry-after: Sun, 99 Nov 1994",
    "retry-after: 1e300",
    "llm_provider-retry-after: 0.01",
    "x-nothing: 1",
];

/// Headers with a longer wait than the server accepts.
const TOO_LONG: [&str; 3] = [
    "retry-after: 3600",
    "llm_provider-retry-after: 31",
    "retry-after: Fri, 01 Jan 2100 00:00:00 GMT",
];

/// The HTTP status of an error code when it comes before a stream, and no call was told of.
pub(super) fn status_of(code: &str) -> u16 {
    match code {
        "upstream_rejected" => 400,
        "model_not_found" => 404,
        "upstream_rate_limited" => 429,
        "upstream_timeout" => 504,
        _ => 502,
    }
}

impl Refusal {
    pub(super) fn new(dice: &mut SeededRandom) -> Self {
        let (status, code, again) = *dice.pick(&STATUSES);
        let waits_too_long = status == 429 && dice.happens(30);
        let wait = *dice.pick(if waits_too_long { &TOO_LONG[..] } else { &WAITS });
        let kind = if status == 200 { "content-type: text/html" } else { "content-type: x/y" };
        let lines = [kind, wait, "location: http://169.254.169.254/"];
        let body = match status {
            204 => Vec::new(),
            200 => b"<html>Please log in.</html>".to_vec(),
            _ => body(dice),
        };
        let mut steps = if status == 204 {
            vec![Step::Bytes(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())]
        } else {
            vec![Step::Bytes(answer(&format!("{status} Said"), &lines, &body))]
        };
        if dice.happens(30) {
            steps.push(Step::Fin);
        }
        Self { code, again: again && !waits_too_long, steps }
    }

    /// The connection ends before the response head, or the head never comes.
    pub(super) fn before_the_head(dice: &mut SeededRandom) -> Self {
        const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let cut = dice.below(HEAD.len() - 1);
        let part = Step::Bytes(HEAD[..cut].to_vec());
        let noise = Step::Bytes(b"\x00\xff no HTTP \r\n\r\n".to_vec());
        let steps = match dice.below(6) {
            0 => vec![Step::Reset],
            1 => vec![Step::Fin],
            2 => vec![part, Step::Reset],
            3 => vec![part, Step::Fin],
            4 => vec![noise, Step::Fin],
            _ => return Self::never(dice, part),
        };
        Self { code: "upstream_error", again: true, steps }
    }

    fn never(dice: &mut SeededRandom, part: Step) -> Self {
        let steps = if dice.happens(50) { vec![Step::Hang] } else { vec![part, Step::Hang] };
        Self { code: "upstream_timeout", again: false, steps }
    }
}

/// The body of a refusal: in LiteLLM's form, in another form, or empty.
fn body(dice: &mut SeededRandom) -> Vec<u8> {
    match dice.below(5) {
        0 => Vec::new(),
        1 => b"{\"detail\":\"no\"}".to_vec(),
        2 => b"\xff\xfe\x00 garbage".to_vec(),
        3 => vec![b'x'; 100_000],
        _ => br#"{"error":{"message":"no, key sk-secretsecret1","type":null,"param":null,"code":"1"}}"#
            .to_vec(),
    }
}
