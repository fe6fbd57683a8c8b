//! Runs a subagent as a background task, and keeps what it says.

use std::fmt;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{BackgroundTask, TaskEnd, TaskPlace, TaskStatus, TaskWork, forget_old};
use crate::clock;
use crate::sync;

/// What a background agent has said: a line for each step, and its answer at the end.
#[derive(Debug, Default)]
pub(crate) struct AgentOutput(Mutex<String>);

impl AgentOutput {
    pub(crate) fn push(&self, text: &str) {
        sync::lock(&self.0).push_str(text);
    }

    /// What was said behind the first `seen` bytes.
    pub(super) fn since(&self, seen: u64) -> String {
        let seen = usize::try_from(seen).unwrap_or(usize::MAX);
        sync::lock(&self.0).get(seen..).unwrap_or_default().to_owned()
    }
}

/// A subagent that becomes a task.
pub(crate) struct NewAgentTask {
    pub(crate) id: String,
    pub(crate) agent_type: String,
    pub(crate) description: String,
    pub(crate) output: Arc<AgentOutput>,
    /// Resolves when the agent has ended. Dropping it ends the agent.
    pub(crate) run: BoxFuture<'static, TaskEnd>,
}

impl TaskPlace {
    /// Starts the agent. The session owns it.
    pub(crate) fn start_agent(self, new: NewAgentTask) -> Arc<BackgroundTask> {
        let NewAgentTask { id, agent_type, description, output, run } = new;
        let (end, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let task = Arc::new(BackgroundTask {
            id,
            command: format!("{agent_type}: {description}"),
            description: Some(description),
            started_ms: clock::now_ms(),
            started: Instant::now(),
            work: TaskWork::Agent { output, stop: stop.clone() },
            path: None,
            ended,
        });
        let mut state = sync::lock(&self.tasks.state);
        while state.watching.try_join_next().is_some() {}
        forget_old(&mut state.tasks);
        // Of an agent that goes on, the run before is told no more.
        state.tasks.retain(|known| known.id != task.id);
        state.tasks.push(Arc::clone(&task));
        let stops = [self.tasks.over.clone(), state.revoked.clone(), stop];
        state.watching.spawn(async move {
            end.send_replace(Some(watch_agent(run, stops).await));
        });
        drop(state);
        task
    }
}

/// Holds the agent until it has ended.
async fn watch_agent(
    run: BoxFuture<'static, TaskEnd>,
    [over, revoked, stop]: [CancellationToken; 3],
) -> TaskEnd {
    let killed = |reason: Option<&str>| TaskEnd {
        status: TaskStatus::Killed,
        exit_code: None,
        reason: reason.map(str::to_owned),
        notes: Vec::new(),
    };
    tokio::select! {
        end = run => end,
        () = over.cancelled() => killed(Some("the session ended")),
        () = revoked.cancelled() => killed(Some("its client key was revoked")),
        () = stop.cancelled() => killed(None),
    }
}

impl fmt::Debug for NewAgentTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewAgentTask").field("id", &self.id).finish_non_exhaustive()
    }
}
