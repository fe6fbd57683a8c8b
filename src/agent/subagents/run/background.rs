//! Lets a subagent work on when the turn that started it is over.

use std::sync::Arc;

use serde_json::json;

use super::Run;
use crate::agent::agent_event::{AgentEvent, AgentStep};
use crate::agent::delegation::{QueuedSlot, Tell};
use crate::agent::subagents::AgentStarter;
use crate::progress_lines;
use crate::tools::output::{ToolError, ToolOutput};
use crate::tools::running_agents::RunningAgent;
use crate::tools::tasks::{AgentOutput, NewAgentTask, TaskEnd, TaskStatus};

impl AgentStarter {
    /// Starts the run as a task of the session, and answers at once. `running` notes that the
    /// agent runs.
    pub(super) fn in_background(
        self,
        run: Run,
        (slot, running): (QueuedSlot, RunningAgent),
    ) -> Result<ToolOutput, ToolError> {
        let nowhere = || ToolError::failed("nothing can run in the background here");
        let tasks = self.family.session.tasks.clone().ok_or_else(nowhere)?;
        let place = tasks.reserve().map_err(ToolError::failed)?;
        let (id, agent_type) = (run.id.to_string(), run.record.agent_type.name.clone());
        let description = run.record.description.clone();
        let output = Arc::new(AgentOutput::default());
        let (knowing, saying) = (Arc::clone(&self.agent), Arc::clone(&output));
        let run = Box::pin(async move {
            let end = self.to_the_end(run, slot, saying).await;
            drop(running);
            end
        });
        let answer = json!({ "agent_id": id, "agent_type": agent_type, "status": "running" });
        let new = NewAgentTask { id: id.clone(), agent_type, description, output, run };
        let task = place.start_agent(new);
        knowing.known_tasks.started(&task, 0);
        let text = format!(
            "The agent works in the background. You are told when it ends; TaskOutput has what it \
             says.\nagent_id: {id}"
        );
        Ok(ToolOutput::text(text).with(answer))
    }

    /// Writes what the agent does and answers into its output.
    async fn to_the_end(&self, run: Run, slot: QueuedSlot, output: Arc<AgentOutput>) -> TaskEnd {
        let saying = Arc::clone(&output);
        let tell: Tell = Arc::new(move |event| {
            if let Some(line) = line(&event) {
                saying.push(&line);
            }
        });
        let outcome = self.drive(run, slot, &tell).await;
        let answer = outcome.and_then(|outcome| outcome.answer);
        let (status, text) = match answer {
            Ok(answer) => (TaskStatus::Completed, answer.text.to_string()),
            Err(error) => (TaskStatus::Failed, format!("Error: {error}")),
        };
        output.push(&format!("{text}\n"));
        TaskEnd { status, exit_code: None, reason: None, notes: Vec::new() }
    }
}

fn line(event: &AgentEvent) -> Option<String> {
    match &event.step {
        AgentStep::ToolStarted { tool, headline, .. } => {
            Some(progress_lines::started(tool, headline))
        }
        _ => None,
    }
}
