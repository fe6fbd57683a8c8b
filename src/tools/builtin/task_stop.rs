//! Ends a background task.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::input_schema::PropertyAliases;
use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::tools::tasks::TaskStatus;
use crate::tools::tool::{CallContext, Tool, ToolError, ToolOutput};

#[derive(Debug)]
pub(crate) struct TaskStop;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct TaskStopInput {
    /// The id that the start of the task answered with.
    task_id: String,
}

impl Tool for TaskStop {
    type Input = TaskStopInput;

    const NAME: &'static str = "TaskStop";
    const ALIASES: &'static [&'static str] = &["KillShell", "KillBash"];
    const ACCESS: AccessKind = AccessKind::None;
    const DESCRIPTION: &'static str = "Ends a background task and all its processes.";
    const PROPERTY_ALIASES: PropertyAliases = &[("shell_id", "task_id"), ("bash_id", "task_id")];

    fn access_request(&self, _: &TaskStopInput, _: &CallContext) -> AccessRequest {
        AccessRequest::Nothing
    }

    fn headline(&self, input: &TaskStopInput) -> String {
        input.task_id.clone()
    }

    async fn execute(
        &self,
        input: TaskStopInput,
        _: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let task = context.task(&input.task_id)?;
        let ran = task.is_running();
        task.stop().await;
        let end = task.end();
        context.agent.known_tasks.of(&task).mark_end_told();
        let id = &task.id;
        // It may have ended by itself meanwhile.
        if !ran || end.as_ref().is_some_and(|end| end.status != TaskStatus::Killed) {
            let how = task.state();
            return Err(ToolError::Failed(format!("task {id} has ended already: {how}")));
        }
        let structured = json!({
            "task_id": id,
            "status": "killed",
            "exit_code": end.and_then(|end| end.exit_code),
        });
        Ok(ToolOutput::text(format!("Successfully stopped task: {id}")).with(structured))
    }
}
