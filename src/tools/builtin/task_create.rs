//! Adds a task to the task list of the session.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::tools::planned_tasks::NewTask;
use crate::tools::tool::{CallContext, Tool, ToolError, ToolOutput};

#[derive(Debug)]
pub(crate) struct TaskCreate;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskCreateInput {
    /// What to do, in a few words: "Run the tests".
    #[schemars(length(min = 1, max = 1000))]
    subject: String,
    /// What belongs to it, and when it is done.
    #[schemars(length(max = 10000))]
    description: String,
    /// The subject while it is being done: "Running the tests".
    #[schemars(length(max = 1000))]
    active_form: Option<String>,
}

impl Tool for TaskCreate {
    type Input = TaskCreateInput;

    const NAME: &'static str = "TaskCreate";
    const ACCESS: AccessKind = AccessKind::None;
    const DESCRIPTION: &'static str = "Adds a task to the task list of this conversation. It \
        begins as pending; TaskUpdate changes it, and says which tasks wait for which.";

    fn access_request(&self, _: &TaskCreateInput, _: &CallContext) -> AccessRequest {
        AccessRequest::Nothing
    }

    fn headline(&self, input: &TaskCreateInput) -> String {
        input.subject.clone()
    }

    async fn execute(
        &self,
        input: TaskCreateInput,
        _: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let TaskCreateInput { subject, description, active_form } = input;
        let task = NewTask { subject, description, active_form };
        let made = context.session.planned_tasks.create(task).map_err(ToolError::failed)?;
        let answer = json!({ "task": { "id": made.id, "subject": made.task.subject } });
        Ok(ToolOutput::text(answer.to_string()).with(answer))
    }
}
