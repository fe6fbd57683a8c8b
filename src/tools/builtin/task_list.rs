//! Lists the tasks of the session.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::text::one_line;
use crate::tools::planned_tasks::PlannedTask;
use crate::tools::tool::{CallContext, Tool, ToolError, ToolOutput};

#[derive(Debug)]
pub(crate) struct TaskList;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct TaskListInput {}

impl Tool for TaskList {
    type Input = TaskListInput;

    const NAME: &'static str = "TaskList";
    const ACCESS: AccessKind = AccessKind::None;
    const DESCRIPTION: &'static str = "Lists the tasks of the task list, a line each: id, status, \
        subject and what it waits for.";

    fn access_request(&self, _: &TaskListInput, _: &CallContext) -> AccessRequest {
        AccessRequest::Nothing
    }

    fn headline(&self, _: &TaskListInput) -> String {
        String::new()
    }

    async fn execute(
        &self,
        _: TaskListInput,
        _: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let tasks = context.session.planned_tasks.all();
        let lines: Vec<String> = tasks.iter().map(line).collect();
        let text = if tasks.is_empty() { "No tasks".to_owned() } else { lines.join("\n") };
        Ok(ToolOutput::text(text).with(json!({ "tasks": tasks })))
    }
}

fn line(task: &PlannedTask) -> String {
    let PlannedTask { id, task, status, blocked_by, .. } = task;
    let subject = one_line(&task.subject);
    let waits = match &blocked_by[..] {
        [] => String::new(),
        ids => format!(" (blocked by {})", ids.join(", ")),
    };
    format!("{id}  {}  {subject}{waits}", status.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::builtin::task_create::TaskCreate;
    use crate::tools::builtin::task_get::TaskGet;
    use crate::tools::builtin::task_update::TaskUpdate;
    use crate::tools::tool::test_support::Workspace;

    #[tokio::test]
    async fn a_plan_is_made_changed_and_listed() {
        let workspace = Workspace::new(&[]);
        assert_eq!(workspace.call(TaskList, json!({})).await, "No tasks");
        let create = |subject: &str| json!({ "subject": subject, "description": "d" });
        let made = workspace.call(TaskCreate, create("Build")).await;
        assert_eq!(made, r#"{"task":{"id":"1","subject":"Build"}}"#);
        workspace.call(TaskCreate, create("Test\nit")).await;
        // Models write ids as numbers too.
        let wait = json!({ "taskId": 2, "addBlockedBy": [1.0, "1"], "status": "in_progress" });
        workspace.call(TaskUpdate, wait).await;
        insta::assert_snapshot!(workspace.call(TaskList, json!({})).await, @r"
        1  pending  Build
        2  in_progress  Test it (blocked by 1)
        ");
        insta::assert_snapshot!(workspace.call(TaskGet, json!({ "taskId": 1 })).await, @r#"{"task":{"id":"1","subject":"Build","description":"d","status":"pending","blocks":["2"],"blockedBy":[]}}"#);
        let circle = json!({ "taskId": "1", "addBlockedBy": ["2"] });
        insta::assert_snapshot!(workspace.call(TaskUpdate, circle).await, @"Error: task 1 cannot be blocked by task 2: they would wait for each other");
        let unknown = json!({ "taskId": "7" });
        insta::assert_snapshot!(workspace.call(TaskGet, unknown).await, @r#"Error: no task has the id "7"; TaskList shows them"#);
        workspace.call(TaskUpdate, json!({ "taskId": "1", "status": "deleted" })).await;
        assert_eq!(workspace.call(TaskList, json!({})).await, "2  in_progress  Test it");
    }
}
