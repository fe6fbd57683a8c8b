//! Counts the rounds, calls and token usage of a turn, for its summary.

use std::time::Duration;

use super::events::Summary;
use crate::ids::TurnId;
use crate::openai::usage::Usage;

/// The counts so far.
#[derive(Debug, Default)]
pub(super) struct TurnStats {
    /// Rounds begun, the current one included.
    pub(super) rounds: u32,
    /// Calls that have been answered.
    pub(super) tool_calls: usize,
    /// Of all requests together, those that were repeated included.
    pub(super) usage: Option<Usage>,
    pub(super) rounds_without_usage: u32,
    /// The prompt tokens of the last request that reported usage.
    context_tokens: Option<u64>,
    /// The same, while it holds for what is sent next.
    size: Option<u64>,
}

impl TurnStats {
    /// Adds the usage of one request.
    pub(super) fn count(&mut self, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.context_tokens = Some(usage.prompt_tokens());
            self.size = self.context_tokens.filter(|tokens| *tokens > 0).or(self.size);
            self.usage.get_or_insert_default().add(&usage);
        }
    }

    /// Adds the usage of a request beside the conversation's.
    pub(super) fn count_aside(&mut self, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.usage.get_or_insert_default().add(&usage);
        }
    }

    /// The tokens of the conversation when it was last counted.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    /// The conversation is no longer what was counted.
    pub(super) fn forget_size(&mut self) {
        self.size = None;
    }

    /// Adds the usage of a round's last request, and counts the round if it reported none.
    pub(super) fn end_round(&mut self, usage: Option<Usage>) {
        self.rounds_without_usage += u32::from(usage.is_none());
        self.count(usage);
    }

    pub(super) fn summary(&self, session: String, turn: TurnId, duration: Duration) -> Summary {
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
