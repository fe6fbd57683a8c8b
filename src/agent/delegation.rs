//! Defines how a turn lets a call start a subagent, and what it hears of it. `subagents` implements
//! it.

use std::fmt;
use std::sync::Arc;

use super::agent_event::AgentEvent;
use super::record::SuspendedAgent;
use crate::execution::ask::Decision;
use crate::ids::{AgentId, ApprovalId};
use crate::openai::usage::Usage;
use crate::tools::subagent::Subagents;

/// What starts the subagents of one agent's turn.
pub(crate) trait StartsAgents: Send + Sync + fmt::Debug {
    /// For one call, which may take up an agent. `tell` is told what the agent does.
    fn for_call(&self, resumption: Option<Resumption>, tell: Tell) -> Box<dyn CallAgent>;
}

/// The subagent of one call, if it starts one.
pub(crate) trait CallAgent: Send + Sync {
    fn subagents(&self) -> Arc<dyn Subagents>;

    /// What it came to beside the call's answer.
    fn take_outcome(&self) -> AgentOutcome;
}

/// Is told what a subagent does.
pub(crate) type Tell = Arc<dyn Fn(AgentEvent) + Send + Sync>;

/// An agent that goes on with what a person decided about its calls.
#[derive(Clone, Debug)]
pub(crate) struct Resumption {
    pub(crate) agent: AgentId,
    /// By the ids that the asks have in the agent's own round.
    pub(crate) decisions: Vec<(ApprovalId, Decision)>,
}

/// What a call's subagent came to beside the answer.
#[derive(Debug, Default)]
pub(crate) struct AgentOutcome {
    /// Set where the call has no answer yet.
    pub(crate) suspended: Option<SuspendedAgent>,
    pub(crate) usage: Option<Usage>,
}
