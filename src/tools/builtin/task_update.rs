//! Changes a task of the task list of the session, or takes it out.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::tools::planned_tasks::{PlannedStatus, TaskChange};
use crate::tools::tool::{CallContext, Tool, ToolError, ToolOutput};

#[derive(Debug)]
pub(crate) struct TaskUpdate;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskUpdateInput {
    /// The id of the task.
    task_id: String,
    /// The new status; `deleted` takes the task off the task list.
    status: Option<PlannedStatus>,
    /// A new subject.
    #[schemars(length(min = 1, max = 1000))]
    subject: Option<String>,
    /// A new description.
    #[schemars(length(max = 10000))]
    description: Option<String>,
    /// The subject while it is being done.
    #[schemars(length(max = 1000))]
    active_form: Option<String>,
    /// Ids of tasks that wait for this one.
    #[serde(default)]
    add_blocks: Vec<String>,
    /// Ids of tasks that this one waits for.
    #[serde(default)]
    add_blocked_by: Vec<String>,
}

impl Tool for TaskUpdate {
    type Input = TaskUpdateInput;

    const NAME: &'static str = "TaskUpdate";
    const ACCESS: AccessKind = AccessKind::None;
    const DESCRIPTION: &'static str = "Changes a task of the task list: its status, its text, \
        or which tasks wait for which. What is left out stays as it is.";

    fn access_request(&self, _: &TaskUpdateInput, _: &CallContext) -> AccessRequest {
        AccessRequest::Nothing
    }

    fn headline(&self, input: &TaskUpdateInput) -> String {
        match input.status {
            Some(status) => format!("{}: {}", input.task_id, status.as_str()),
            None => input.task_id.clone(),
        }
    }

    async fn execute(
        &self,
        input: TaskUpdateInput,
        _: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let TaskUpdateInput { task_id, status, subject, description, active_form, .. } = input;
        let (add_blocks, add_blocked_by) = (input.add_blocks, input.add_blocked_by);
        let change =
            TaskChange { status, subject, description, active_form, add_blocks, add_blocked_by };
        let updated = context.session.planned_tasks.update(&task_id, change);
        let answer = json!({ "task": updated.map_err(ToolError::failed)? });
        Ok(ToolOutput::text(answer.to_string()).with(answer))
    }
}
