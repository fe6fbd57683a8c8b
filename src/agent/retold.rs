//! Writes how a turn finished into its record, and reads it back to tell the turn again.

use std::time::Duration;

use serde_json::{Map, Value};

use super::events::{Finished, Summary};
use super::record::RecordedSummary;
use crate::ids::TurnId;
use crate::json;
use crate::openai::chunk::{FinishReason, RawMembers};
use crate::openai::usage::Usage;

impl Finished {
    /// What `End.summary` holds.
    pub(crate) fn to_record(&self) -> RecordedSummary {
        let unknown = self
            .unknown
            .iter()
            .map(|(name, raw)| (name.clone(), serde_json::from_str(raw.get()).unwrap_or_default()));
        let summary =
            recorded(Some(self.reason), self.usage.as_ref(), &self.summary, unknown.collect());
        let messages = self.messages.as_ref().map(|messages| json::array(messages).to_string());
        RecordedSummary { messages, ..summary }
    }

    /// Reads `End.summary` of a turn that finished. `None` if it did not finish.
    pub(crate) fn from_record(
        recorded: RecordedSummary,
        session: String,
        turn: TurnId,
    ) -> Option<Self> {
        let unknown: RawMembers = recorded
            .unknown
            .into_iter()
            .filter_map(|(name, value)| Some((name, serde_json::value::to_raw_value(&value).ok()?)))
            .collect();
        Some(Self {
            reason: FinishReason::from_word(&recorded.reason?)?,
            usage: recorded.usage.and_then(Usage::read),
            summary: Summary {
                session,
                turn,
                rounds: recorded.rounds,
                tool_calls: recorded.tool_calls,
                duration: Duration::from_millis(recorded.duration_ms),
                rounds_without_usage: recorded.rounds_without_usage,
                context_tokens: recorded.context_tokens,
            },
            messages: recorded.messages.and_then(|messages| serde_json::from_str(&messages).ok()),
            unknown,
            whole: None,
        })
    }
}

/// The same for a turn that did not finish.
pub(super) fn unfinished(usage: Option<&Usage>, summary: &Summary) -> RecordedSummary {
    recorded(None, usage, summary, Map::new())
}

fn recorded(
    reason: Option<FinishReason>,
    usage: Option<&Usage>,
    summary: &Summary,
    unknown: Map<String, Value>,
) -> RecordedSummary {
    RecordedSummary {
        reason: reason.map(|reason| reason.as_str().to_owned()),
        usage: usage.map(|usage| usage.counts().clone()),
        rounds: summary.rounds,
        tool_calls: summary.tool_calls,
        duration_ms: summary.duration.as_millis().try_into().unwrap_or(u64::MAX),
        rounds_without_usage: summary.rounds_without_usage,
        context_tokens: summary.context_tokens,
        unknown,
        messages: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_recorded_is_told_again() {
        let usage = json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7});
        let finished = Finished {
            reason: FinishReason::ToolCalls,
            usage: Usage::read(usage.as_object().unwrap().clone()),
            summary: Summary {
                session: "s".to_owned(),
                turn: TurnId::random(),
                rounds: 2,
                tool_calls: 3,
                duration: Duration::from_millis(1500),
                rounds_without_usage: 1,
                context_tokens: Some(9),
            },
            messages: Some(vec![json::raw(r#"{"role":"assistant","content":"1.0"}"#.to_owned())]),
            unknown: serde_json::from_str(r#"{"citations":["a"]}"#).unwrap(),
            whole: None,
        };

        let turn = finished.summary.turn.clone();
        let written = serde_json::to_string(&finished.to_record()).unwrap();
        let read = serde_json::from_str(&written).unwrap();
        let again = Finished::from_record(read, "s".to_owned(), turn);

        assert_eq!(format!("{:?}", again.unwrap()), format!("{finished:?}"));
        let unfinished = unfinished(finished.usage.as_ref(), &finished.summary);
        assert!(Finished::from_record(unfinished, String::new(), TurnId::random()).is_none());
    }
}
