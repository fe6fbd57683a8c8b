//! Lists the background tasks.

use std::path::PathBuf;

use serde::Serialize;

use super::{Page, Rest, seconds};
use crate::ids::{Scope, SessionId};
use crate::tools::tasks::BackgroundTask;

/// A task in a list.
#[derive(Debug, Serialize)]
pub(crate) struct TaskItem {
    id: String,
    session: SessionId,
    kind: &'static str,
    status: &'static str,
    exit_code: Option<i32>,
    command: String,
    description: Option<String>,
    started: i64,
    /// The file of its output.
    output_path: Option<PathBuf>,
}

impl Rest {
    /// The tasks of all sessions that are known, the one started last first.
    pub(crate) fn tasks(&self, scope: Scope) -> Page<TaskItem> {
        let tasks = self.tasks.of_scope(scope);
        Page::new(tasks.into_iter().map(|(session, task)| item(session, &task)).collect(), false)
    }
}

pub(super) fn item(session: SessionId, task: &BackgroundTask) -> TaskItem {
    let end = task.end();
    TaskItem {
        id: task.id.clone(),
        session,
        kind: task.kind(),
        status: end.as_ref().map_or("running", |end| end.status.name()),
        exit_code: end.and_then(|end| end.exit_code),
        command: task.command_line(),
        description: task.description.clone(),
        started: seconds(task.started_ms),
        output_path: task.path.clone(),
    }
}
