//! Runs subagents: each is a turn of its own, whose end is the answer to the call that started it.
//!
//! A subagent lives in the future of its call, so dropping the turn ends it. What it does is
//! recorded with the session, so that it can go on later. A call of a subagent that needs a person
//! suspends the subagent; its parent asks for it.

mod answer;
mod call;
mod prompt;
pub(crate) mod records;
mod run;
pub(crate) mod settings;

use std::fmt;
use std::sync::Arc;

use tokio::sync::Semaphore;

use self::records::AgentRecords;
use self::settings::SubagentSettings;
use super::beginning::Asking;
use super::compaction::ContextLimits;
use super::settings::{ModelRule, TurnSettings};
use crate::definitions::Definitions;
use crate::execution::pipeline::Pipeline;
use crate::memory_budget::MemoryBudget;
use crate::openai::Body;
use crate::tools::agent_context::AgentContext;
use crate::tools::running_agents::RunningAgents;
use crate::tools::session_context::SessionContext;
use crate::upstream::{Client, TraceHeaders};

/// What all subagents of the server share.
#[derive(Debug)]
pub(crate) struct AgentServices {
    pub(crate) upstream: Arc<Client>,
    pub(crate) memory_budget: MemoryBudget,
    pub(crate) model_rules: Arc<[ModelRule]>,
    pub(crate) context_limits: Arc<dyn ContextLimits>,
    pub(crate) turns: TurnSettings,
    pub(crate) max_round_chars: usize,
    pub(crate) settings: SubagentSettings,
}

/// What the subagents of one turn share.
#[derive(Debug)]
pub(crate) struct AgentFamily {
    pub(crate) services: Arc<AgentServices>,
    pub(crate) headers: TraceHeaders,
    pub(crate) session: Arc<SessionContext>,
    pub(crate) records: Arc<dyn AgentRecords>,
    /// The types that files define.
    pub(crate) definitions: Arc<Definitions>,
    /// The model of the conversation.
    pub(crate) model: String,
    /// Members of the request that go along with each request of a subagent.
    pub(crate) fields: Body,
    /// How a person can be asked in the request.
    pub(crate) asking: Asking,
    pub(crate) running: Arc<RunningAgents>,
}

/// Starts the subagents of one agent.
#[derive(Clone)]
pub(crate) struct AgentStarter {
    pub(crate) family: Arc<AgentFamily>,
    /// The agent that starts them.
    pub(crate) agent: Arc<AgentContext>,
    /// The parent's pipeline, narrowed for each subagent.
    pub(crate) pipeline: Arc<Pipeline>,
    /// Its own model.
    model: String,
    /// How deep its subagents are: 1 for those of the main agent.
    depth: u32,
    /// How many run at once. A subagent lends its own slot to those that it starts.
    slots: Arc<Semaphore>,
}

impl AgentStarter {
    /// Starts the subagents of the main agent.
    pub(crate) fn new(
        family: Arc<AgentFamily>,
        agent: Arc<AgentContext>,
        pipeline: Arc<Pipeline>,
    ) -> Self {
        let slots = Arc::clone(&family.running.slots);
        let model = family.model.clone();
        Self { family, agent, pipeline, model, depth: 1, slots }
    }

    /// Starts the subagents of one that it has started.
    fn below(&self, agent: Arc<AgentContext>, pipeline: Arc<Pipeline>, model: &str) -> Self {
        let (family, slots) = (Arc::clone(&self.family), Arc::new(Semaphore::new(1)));
        Self { family, agent, pipeline, model: model.to_owned(), depth: self.depth + 1, slots }
    }

    /// Whether what it starts may start agents of its own.
    fn may_delegate(&self) -> bool {
        self.depth < self.family.services.settings.max_depth
    }
}

impl fmt::Debug for AgentStarter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentStarter").field("depth", &self.depth).finish_non_exhaustive()
    }
}
