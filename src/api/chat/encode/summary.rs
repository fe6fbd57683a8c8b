//! Writes the `toolhand` member and the usage of an answer.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::asks::OpenAsks;
use crate::agent::events::Finished;
use crate::ids::TurnId;
use crate::openai::usage::Usage;

/// The `toolhand` member of an answer.
#[derive(Debug, Serialize)]
pub(crate) struct Extension<'a> {
    session: &'a str,
    turn: &'a TurnId,
    rounds: u32,
    tool_calls: usize,
    duration_ms: u64,
    rounds_without_usage: u32,
    context_tokens: Option<u64>,
    /// What the turn added to the conversation, if the request asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<&'a [Box<RawValue>]>,
    /// What a person is asked, if the turn waits for that.
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    asked: &'a [Value],
}

impl<'a> Extension<'a> {
    pub(crate) fn new(finished: &'a Finished, asked: &'a OpenAsks) -> Self {
        let summary = &finished.summary;
        Self {
            session: &summary.session,
            turn: &summary.turn,
            rounds: summary.rounds,
            tool_calls: summary.tool_calls,
            duration_ms: milliseconds(summary.duration),
            rounds_without_usage: summary.rounds_without_usage,
            context_tokens: summary.context_tokens,
            messages: finished.messages.as_deref(),
            asked: asked.as_slice(),
        }
    }
}

/// The sum over all rounds. Zeros when upstream reported no usage.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Figures<'a> {
    Summed(&'a Usage),
    None { prompt_tokens: u8, completion_tokens: u8, total_tokens: u8 },
}

impl<'a> Figures<'a> {
    pub(crate) fn from_usage(usage: Option<&'a Usage>) -> Self {
        match usage {
            Some(usage) => Self::Summed(usage),
            None => Self::None { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
        }
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
