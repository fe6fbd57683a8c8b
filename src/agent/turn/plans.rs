//! Looks up what the agent of a turn has planned, for a transcript that is made shorter.

use std::sync::Arc;

use crate::agent::compaction::{KnowsPlans, Plan, Plans};
use crate::execution::pipeline::Pipeline;
use crate::execution::reminders::plan_phase;
use crate::tools::agent_context::AgentContext;
use crate::tools::session_context::SessionContext;
use crate::tools::todos::Todo;

/// The plans of one agent.
#[derive(Debug)]
pub(super) struct AgentPlans {
    pub(super) session: Arc<SessionContext>,
    pub(super) agent: Arc<AgentContext>,
    pub(super) pipeline: Arc<Pipeline>,
}

impl KnowsPlans for AgentPlans {
    fn plans(&self) -> Plans {
        let todos = self.agent.todos.save().map(|saved| saved.todos).unwrap_or_default();
        let plan = self.agent.is_main().then(|| self.plan()).flatten();
        Plans { todos: todos.iter().map(Todo::line).collect(), plan }
    }
}

impl AgentPlans {
    /// The plan, which the main agent alone writes and carries out.
    fn plan(&self) -> Option<Plan> {
        let path = self.session.files.as_ref()?.plan_path();
        let text = self.session.plan.text().filter(|text| !text.trim().is_empty());
        let state = match plan_phase(&self.session, &self.pipeline.tools) {
            Some(phase) => phase,
            None if text.is_none() => return None,
            None if self.session.mode.has_approved_plan() => {
                "A person has approved your plan: carry it out.".to_owned()
            }
            None => "You have written a plan. Plan mode is over.".to_owned(),
        };
        Some(Plan { path, state, text })
    }
}
