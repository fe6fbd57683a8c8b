//! Counts rounds, calls and usage of a turn, for its summary.

use std::time::Duration;

use super::events::Summary;
use crate::ids::{SessionId, TurnId};
use crate::openai::usage::Usage;

#[derive(Debug, Default)]
pub(super) struct TurnStats {
    /// The one that runs included.
    pub(super) rounds: u32,
    /// Calls that were answered.
    pub(super) tool_calls: usize,
    /// Of all rounds together, and of what was asked in vain.
    pub(super) usage: Option<Usage>,
    pub(super) rounds_without_usage: u32,
    /// Prompt tokens of the last request that told them.
    context_tokens: Option<u64>,
}

impl TurnStats {
    /// The usage of one request, of a round that is perhaps asked again.
    pub(super) fn count(&mut self, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.context_tokens = Some(usage.prompt_tokens());
            self.usage.get_or_insert_default().add(&usage);
        }
    }

    /// The usage of a round that is not asked again.
    pub(super) fn end_round(&mut self, usage: Option<Usage>) {
        self.rounds_without_usage += u32::from(usage.is_none());
        self.count(usage);
    }

    pub(super) fn summary(&self, session: SessionId, turn: TurnId, duration: Duration) -> Summary {
        Summary {
            session,
            turn,
            rounds: self.rounds,
            tool_calls: self.tool_calls,
            duration,
            rounds_without_usage: self.rounds_without_usage,
            context_tokens: self.context_tokens,
        }
    }
}
