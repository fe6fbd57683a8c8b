//! Tells what a background task has printed since the last look, and whether it has ended.

use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use crate::blocking::FILES;
use crate::input_schema::PropertyAliases;
use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::tools::answer::{AnswerText, Kept, Truncation};
use crate::tools::tasks::{BackgroundTask, NewOutput, TaskEnd};
use crate::tools::tool::{CallContext, Concurrency, Tool, ToolError, ToolOutput};

const MAX_CHARACTERS: usize = 30_000;

/// How long a call waits that names no time.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);

/// A model that waits longer does better without looking: it is told of the end.
const MAX_WAIT: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) struct TaskOutput;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct TaskOutputInput {
    /// The id that the start of the task answered with.
    task_id: String,
    /// Whether to wait for the end of the task; true if it is left out.
    block: Option<bool>,
    /// Milliseconds to wait at most: 30000 if it is left out, 600000 at most.
    timeout: Option<u64>,
    /// The same in seconds.
    wait_up_to: Option<u64>,
    /// A regular expression: only lines that it matches are shown. The others count as seen.
    filter: Option<String>,
}

impl Tool for TaskOutput {
    type Input = TaskOutputInput;

    const NAME: &'static str = "TaskOutput";
    const ALIASES: &'static [&'static str] =
        &["BashOutput", "AgentOutputTool", "get_background_task"];
    const ACCESS: AccessKind = AccessKind::None;
    const DESCRIPTION: &'static str = "Reads what a background command has printed, or what a \
        background agent has done and answered, since it was last looked at, and says whether it \
        runs or how it has ended. Nothing is lost by reading: the file of a command's output has \
        everything. There is no need to poll, since you are told when a task ends.";
    const PROPERTY_ALIASES: PropertyAliases = &[("bash_id", "task_id"), ("agentId", "task_id")];
    const MAX_RESULT_CHARS: Option<usize> = Some(MAX_CHARACTERS);

    fn concurrency(&self, _: &TaskOutputInput) -> Concurrency {
        Concurrency::Shared
    }

    fn access_request(&self, _: &TaskOutputInput, _: &CallContext) -> AccessRequest {
        AccessRequest::Nothing
    }

    fn headline(&self, input: &TaskOutputInput) -> String {
        input.task_id.clone()
    }

    async fn execute(
        &self,
        input: TaskOutputInput,
        _: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let filter = input.filter.as_deref().filter(|filter| !filter.is_empty());
        let filter = filter.map(Regex::new).transpose().map_err(|error| {
            ToolError::InvalidInput(format!("`filter` is not a valid regular expression: {error}"))
        })?;
        let task = context.task(&input.task_id)?;
        if input.block != Some(false) {
            let wait = timeout(time(&input), task.wait_for_end());
            // It may go on for longer, which is no error.
            let waited = context.cancelled.run_until_cancelled(wait).await;
            waited.ok_or(ToolError::Cancelled)?.ok();
        }
        task.catch_up().await;
        answer(task, filter, &context).await
    }
}

fn time(input: &TaskOutputInput) -> Duration {
    let in_seconds = input.wait_up_to.map(Duration::from_secs);
    let wanted = input.timeout.map(Duration::from_millis).or(in_seconds);
    wanted.unwrap_or(DEFAULT_WAIT).min(MAX_WAIT)
}

async fn answer(
    task: Arc<BackgroundTask>,
    filter: Option<Regex>,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let files = context.session.files.clone();
    let files = files.ok_or_else(|| ToolError::failed("this session keeps no output"))?;
    let most = context.max_chars.unwrap_or(MAX_CHARACTERS);
    // Before the output is read, so that all of it is read if the task has ended.
    let end = task.end();
    let (reading, known) = (Arc::clone(&task), context.agent.known_tasks.of(&task));
    let looking = Arc::clone(&known);
    let read = move || reading.read_new(&looking, &files, filter.as_ref(), most);
    let NewOutput { text, left_out, notes } = FILES.run(read).await.map_err(ToolError::failed)?;
    let shown = text.shown(most);
    let body = if shown.left_out > 0 {
        let kept = task.path.clone().map_or(Kept::Nowhere, Kept::At);
        AnswerText::with_gap(shown.head, shown.left_out, kept, shown.tail)
    } else if shown.head.is_empty() && left_out > 0 {
        let lines = if left_out == 1 { "line" } else { "lines" };
        AnswerText::from(format!("(no new line matches the filter, of {left_out} {lines})"))
    } else if shown.head.is_empty() {
        AnswerText::from("(no new output)")
    } else {
        AnswerText::from(shown.head.trim_end_matches('\n')).cut_by(Truncation::HeadAndTail)
    };
    let state = end.as_ref().map_or_else(|| "running".to_owned(), TaskEnd::in_words);
    let structured = json!({
        "task_id": task.id,
        "status": end.as_ref().map_or("running", |end| end.status.name()),
        "exit_code": end.as_ref().and_then(|end| end.exit_code),
        "output": body.to_string(),
        "raw_output_path": task.path,
    });
    let mut lines = vec![format!("Task {}: {state}", task.id)];
    lines.extend(notes);
    if let Some(end) = end {
        lines.extend(end.notes);
        known.mark_end_told();
    }
    Ok(ToolOutput::text(body.closed_by(lines)).with(structured))
}
