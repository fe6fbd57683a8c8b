//! Decides in which form upstream is asked, and which rounds' text is the answer's content.

use crate::agent::held_text::ContentRule;
use crate::agent::settings::Delivery;
use crate::openai::Body;
use crate::openai::request::expects_other_than_text;

/// Only a round that may run a tool of ours, or that the client watches, gains by a stream.
pub(super) fn delivery(is_streamed: bool, has_tools: bool) -> Delivery {
    if is_streamed || has_tools { Delivery::Streamed } else { Delivery::Whole }
}

/// `fields` are the request's. Without tools of ours there is one round only.
pub(super) fn content_rule(fields: &Body, has_tools: bool) -> ContentRule {
    if has_tools && expects_other_than_text(fields) {
        ContentRule::LastRound
    } else {
        ContentRule::EveryRound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_watches_and_runs_nothing_is_asked_whole() {
        assert_eq!(delivery(false, false), Delivery::Whole);
        for (is_streamed, has_tools) in [(true, false), (false, true), (true, true)] {
            assert_eq!(delivery(is_streamed, has_tools), Delivery::Streamed);
        }
    }

    #[track_caller]
    fn check(fields: &str, expected: ContentRule) {
        let fields: Body = serde_json::from_str(fields).unwrap();
        assert_eq!(content_rule(&fields, true), expected);
        assert_eq!(content_rule(&fields, false), ContentRule::EveryRound);
    }

    #[test]
    fn a_format_other_than_text_wants_the_last_round_alone() {
        for format in [r#"{"type":"json_object"}"#, r#"{"json_schema":{},"type":"json_schema"}"#] {
            check(&format!(r#"{{"response_format":{format}}}"#), ContentRule::LastRound);
        }
        for format in ["null", "{}", r#"{"type":"text"}"#, r#"{"type":null}"#, r#"{"type":1}"#] {
            check(&format!(r#"{{"response_format":{format}}}"#), ContentRule::EveryRound);
        }
        check("{}", ContentRule::EveryRound);
    }
}
