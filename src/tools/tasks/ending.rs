//! Says how a background task has ended. Pure.

use crate::processes::{EndCause, Exit, Finished, RunError};

/// The words of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskStatus {
    Completed,
    Failed,
    /// It was ended: by somebody who asked for it, with its session, or at a limit.
    Killed,
}

/// What is told of a task that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskEnd {
    pub(crate) status: TaskStatus,
    pub(crate) exit_code: Option<i32>,
    /// Why, where an exit code does not say it.
    pub(crate) reason: Option<String>,
    /// Lines for whoever reads the output.
    pub(crate) notes: Vec<String>,
}

impl TaskStatus {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }
}

impl TaskEnd {
    /// `is_success` says whether an exit code is what the command was to end with.
    pub(crate) fn new(
        finished: &Finished,
        reason: Option<String>,
        is_success: impl FnOnce(i32) -> bool,
        notes: Vec<String>,
    ) -> Self {
        let (status, exit_code) = match (finished.cause, finished.exit) {
            (EndCause::ItsOwn, Some(Exit::Code(code))) if is_success(code) => {
                (TaskStatus::Completed, Some(code))
            }
            (EndCause::ItsOwn, Some(Exit::Code(code))) => (TaskStatus::Failed, Some(code)),
            (EndCause::ItsOwn, _) => (TaskStatus::Failed, None),
            (_, Some(Exit::Code(code))) => (TaskStatus::Killed, Some(code)),
            (_, _) => (TaskStatus::Killed, None),
        };
        Self { status, exit_code, reason, notes }
    }

    /// For a command that did not come to run.
    pub(crate) fn not_run(error: &RunError) -> Self {
        let reason = Some(error.to_string());
        Self { status: TaskStatus::Failed, exit_code: None, reason, notes: Vec::new() }
    }

    /// `completed, exit code 0`
    pub(crate) fn in_words(&self) -> String {
        let status = self.status.name();
        match (self.exit_code, &self.reason) {
            (Some(code), None) => format!("{status}, exit code {code}"),
            (Some(code), Some(reason)) => format!("{status} ({reason}), exit code {code}"),
            (None, Some(reason)) => format!("{status} ({reason})"),
            (None, None) => status.to_owned(),
        }
    }
}
