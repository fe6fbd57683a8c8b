//! Lists the background tasks of the session.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::tools::tasks::BackgroundTask;
use crate::tools::tool::{CallContext, Concurrency, Tool, ToolError, ToolOutput};

#[derive(Debug)]
pub(crate) struct ListTasks;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ListTasksInput {}

impl Tool for ListTasks {
    type Input = ListTasksInput;

    const NAME: &'static str = "ListTasks";
    const ALIASES: &'static [&'static str] = &["list_background_tasks"];
    const ACCESS: AccessKind = AccessKind::None;
    const DESCRIPTION: &'static str = "Lists the background tasks of this conversation, commands \
        and agents, a line each: id, status, age and what it is.";

    fn concurrency(&self, _: &ListTasksInput) -> Concurrency {
        Concurrency::Shared
    }

    fn access_request(&self, _: &ListTasksInput, _: &CallContext) -> AccessRequest {
        AccessRequest::Nothing
    }

    fn headline(&self, _: &ListTasksInput) -> String {
        String::new()
    }

    async fn execute(
        &self,
        _: ListTasksInput,
        _: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let tasks = context.session.tasks.as_ref().map(|tasks| tasks.all()).unwrap_or_default();
        if tasks.is_empty() {
            return Ok(ToolOutput::text("No background tasks").with(json!({ "tasks": [] })));
        }
        let lines: Vec<String> = tasks.iter().map(|task| line(task)).collect();
        let listed: Vec<_> = tasks
            .iter()
            .map(|task| {
                let end = task.end();
                json!({
                    "task_id": task.id,
                    "status": end.as_ref().map_or("running", |end| end.status.name()),
                    "exit_code": end.and_then(|end| end.exit_code),
                    "command": task.command_line(),
                })
            })
            .collect();
        Ok(ToolOutput::text(lines.join("\n")).with(json!({ "tasks": listed })))
    }
}

fn line(task: &BackgroundTask) -> String {
    format!("{}  {}  {}  {}", task.id, task.state(), age(task.age()), task.command_line())
}

/// `5 s`, `3 min`, `2 h`.
fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_told_in_the_unit_that_fits() {
        let of = |seconds| age(Duration::from_secs(seconds));
        assert_eq!([of(0), of(59), of(60), of(7199)], ["0 s", "59 s", "1 min", "1 h"]);
    }
}
