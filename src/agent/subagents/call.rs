//! Connects the call of Task with the subagent that it starts or takes up.

use std::fmt;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;

use super::AgentStarter;
use super::run::RunOutcome;
use crate::agent::delegation::{
    AgentOutcome, CallAgent, QueuedSlot, Resumption, StartsAgents, Tell,
};
use crate::sync;
use crate::tools::output::{ToolError, ToolOutput};
use crate::tools::subagent::{AgentTask, Subagents};

/// Starts the subagent of one call.
#[derive(Clone)]
struct Call(Arc<Inner>);

struct Inner {
    starter: AgentStarter,
    tell: Tell,
    /// Where the agent waits, and what the call takes up in the place of a new one. Taken by its
    /// run.
    begins: Mutex<Option<(QueuedSlot, Option<Resumption>)>>,
    outcome: Mutex<AgentOutcome>,
}

impl StartsAgents for AgentStarter {
    fn queue(&self) -> QueuedSlot {
        QueuedSlot::new(Arc::clone(&self.slots))
    }

    fn for_call(
        &self,
        slot: QueuedSlot,
        resumption: Option<Resumption>,
        tell: Tell,
    ) -> Box<dyn CallAgent> {
        let (begins, outcome) = (Mutex::new(Some((slot, resumption))), Mutex::default());
        Box::new(Call(Arc::new(Inner { starter: self.clone(), tell, begins, outcome })))
    }
}

impl CallAgent for Call {
    fn subagents(&self) -> Arc<dyn Subagents> {
        Arc::new(self.clone())
    }

    fn take_outcome(&self) -> AgentOutcome {
        std::mem::take(&mut *sync::lock(&self.0.outcome))
    }
}

impl Subagents for Call {
    fn run(&self, task: AgentTask) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let begins = sync::lock(&inner.begins).take();
            let (slot, resumption) = begins.ok_or_else(|| {
                ToolError::failed("this call has started its agent; call Task again for another")
            })?;
            let outcome = inner.starter.run(task, (slot, resumption), &inner.tell).await?;
            let RunOutcome { answer, suspended, usage } = outcome;
            *sync::lock(&inner.outcome) = AgentOutcome { suspended, usage };
            answer
        })
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
