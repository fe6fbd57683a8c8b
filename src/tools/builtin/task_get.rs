//! Shows one task of the task list of the session.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::tools::tool::{CallContext, Tool, ToolError, ToolOutput};

#[derive(Debug)]
pub(crate) struct TaskGet;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskGetInput {
    /// The id of the task.
    task_id: String,
}

impl Tool for TaskGet {
    type Input = TaskGetInput;

    const NAME: &'static str = "TaskGet";
    const ACCESS: AccessKind = AccessKind::None;
    const DESCRIPTION: &'static str = "Shows one task of the task list: description, status, \
        what it blocks and what blocks it.";

    fn access_request(&self, _: &TaskGetInput, _: &CallContext) -> AccessRequest {
        AccessRequest::Nothing
    }

    fn headline(&self, input: &TaskGetInput) -> String {
        input.task_id.clone()
    }

    async fn execute(
        &self,
        input: TaskGetInput,
        _: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let task = context.session.planned_tasks.get(&input.task_id).map_err(ToolError::failed)?;
        let answer = json!({ "task": task });
        Ok(ToolOutput::text(answer.to_string()).with(answer))
    }
}
