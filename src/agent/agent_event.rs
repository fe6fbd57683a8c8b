//! Defines what is told of a subagent while it runs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::AgentId;

/// What a subagent does.
#[derive(Clone, Debug)]
pub(crate) struct AgentEvent {
    pub(crate) agent: AgentId,
    pub(crate) agent_type: String,
    pub(crate) step: AgentStep,
}

#[derive(Clone, Debug)]
pub(crate) enum AgentStep {
    Started {
        /// What it does, in a few words.
        description: String,
    },
    ToolStarted {
        /// The id of its call.
        call_id: String,
        tool: String,
        /// Its main argument.
        headline: String,
    },
    ToolEnded {
        call_id: String,
        tool: String,
        /// Its main argument.
        headline: String,
        duration: Duration,
        /// The length of the answer.
        chars: usize,
        error: Option<String>,
    },
    /// A command of it has left what other programs obey.
    LeftBehind(String),
    Ended {
        counts: RunCounts,
        error: Option<String>,
    },
}

/// What a run has come to, beside its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunCounts {
    pub(crate) tool_uses: usize,
    pub(crate) duration_ms: u64,
    pub(crate) rounds: u32,
    pub(crate) tokens: u64,
}

impl RunCounts {
    pub(crate) fn and(self, more: Self) -> Self {
        Self {
            tool_uses: self.tool_uses + more.tool_uses,
            duration_ms: self.duration_ms.saturating_add(more.duration_ms),
            rounds: self.rounds.saturating_add(more.rounds),
            tokens: self.tokens.saturating_add(more.tokens),
        }
    }
}

impl AgentEvent {
    /// The estimated memory beside the size of the type, in bytes.
    pub(crate) fn size_estimate(&self) -> usize {
        let step = match &self.step {
            AgentStep::Started { description } => description.len(),
            AgentStep::ToolStarted { call_id, tool, headline } => {
                call_id.len() + tool.len() + headline.len()
            }
            AgentStep::ToolEnded { call_id, tool, headline, error, .. } => {
                let error = error.as_ref().map_or(0, String::len);
                call_id.len() + tool.len() + headline.len() + error
            }
            AgentStep::LeftBehind(line) => line.len(),
            AgentStep::Ended { error, .. } => error.as_ref().map_or(0, String::len),
        };
        size_of::<Self>() + self.agent_type.len() + step
    }
}
