//! Knows the subagents of a session that run now, and how many more may.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

use crate::ids::AgentId;
use crate::sync;

/// The subagents of a session that run now.
#[derive(Debug)]
pub(crate) struct RunningAgents {
    ids: Mutex<HashSet<AgentId>>,
    /// `subagents.max_running`. Who waits is served in order.
    pub(crate) slots: Arc<Semaphore>,
}

/// An agent that runs. Dropping it notes that it no longer does.
#[derive(Debug)]
pub(crate) struct RunningAgent {
    running: Arc<RunningAgents>,
    agent: AgentId,
}

impl RunningAgents {
    pub(crate) fn new(max_running: usize) -> Self {
        Self { ids: Mutex::default(), slots: Arc::new(Semaphore::new(max_running)) }
    }

    pub(crate) fn is_running(&self, agent: &AgentId) -> bool {
        sync::lock(&self.ids).contains(agent)
    }

    /// Notes that the agent runs. `None`: it does already.
    pub(crate) fn begin(self: &Arc<Self>, agent: &AgentId) -> Option<RunningAgent> {
        let is_new = sync::lock(&self.ids).insert(agent.clone());
        is_new.then(|| RunningAgent { running: Arc::clone(self), agent: agent.clone() })
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        sync::lock(&self.running.ids).remove(&self.agent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_agent_that_has_ended_nothing_is_left() {
        let running = Arc::new(RunningAgents::new(4));
        let id = AgentId::random();
        let agent = running.begin(&id).expect("it does not run yet");
        assert!(running.begin(&id).is_none(), "it runs");

        drop(agent);

        assert!(sync::lock(&running.ids).is_empty());
        assert!(running.begin(&id).is_some());
    }
}
