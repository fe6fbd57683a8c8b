//! Defines how a turn lets a call start a subagent, and what it hears of it. `subagents` implements
//! it.

use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::agent_event::AgentEvent;
use super::record::SuspendedAgent;
use crate::execution::ask::Decision;
use crate::ids::{AgentId, ApprovalId};
use crate::openai::usage::Usage;
use crate::tools::subagent::Subagents;

/// The last line of the answer to a call whose agent has ended before it was done.
pub(crate) fn how_to_resume(agent: &AgentId) -> String {
    format!("agent_id: {agent} (resume it with this id to let it go on)")
}

/// What starts the subagents of one agent's turn.
pub(crate) trait StartsAgents: Send + Sync + fmt::Debug {
    /// Takes the next place among the calls that wait to start an agent.
    fn queue(&self) -> QueuedSlot;

    /// For one call, which may take up an agent. `tell` is told what the agent does.
    fn for_call(
        &self,
        slot: QueuedSlot,
        resumption: Option<Resumption>,
        tell: Tell,
    ) -> Box<dyn CallAgent>;
}

/// A place in the queue for one of the slots in which agents run. Dropping it gives it up.
pub(crate) struct QueuedSlot(BoxFuture<'static, Option<OwnedSemaphorePermit>>);

impl QueuedSlot {
    pub(crate) fn new(slots: Arc<Semaphore>) -> Self {
        let mut waiting = slots.acquire_owned().map(Result::ok).boxed();
        // The first poll takes the place.
        let waiting = match waiting.as_mut().now_or_never() {
            Some(slot) => std::future::ready(slot).boxed(),
            None => waiting,
        };
        Self(waiting)
    }

    /// Waits for the slot. `None`: there will be none.
    pub(crate) async fn taken(self) -> Option<OwnedSemaphorePermit> {
        self.0.await
    }
}

impl fmt::Debug for QueuedSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QueuedSlot").finish()
    }
}

/// The subagent of one call, if it starts one.
pub(crate) trait CallAgent: Send + Sync {
    fn subagents(&self) -> Arc<dyn Subagents>;

    /// Its usage, and its open approvals if it is suspended.
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

/// The usage of a call's subagent, and its open approvals if it is suspended.
#[derive(Debug, Default)]
pub(crate) struct AgentOutcome {
    /// Set where the call has no answer yet.
    pub(crate) suspended: Option<SuspendedAgent>,
    pub(crate) usage: Option<Usage>,
}
