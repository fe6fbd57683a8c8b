//! Executes a call that was permitted, and shapes its answer.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::FutureExt as _;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::hooked::AfterCall;
use super::{ToolResult, crashed};
use crate::execution::fitting;
use crate::look_alike::{looks_same, path_difference};
use crate::permissions::{AccessKind, Permissions, Permit};
use crate::text::printable_path;
use crate::tools::answer::AnswerText;
use crate::tools::plan_mode::read_plan;
use crate::tools::tool::{AnyTool, CallContext, ParsedCall, ToolError, ToolOutput};
use crate::workspace::{NameMatch, Target};

/// A call with its permit: all that is left is to run it, once.
pub(crate) struct PermittedCall {
    pub(super) id: String,
    pub(super) tool: Arc<dyn AnyTool>,
    pub(super) parsed: Box<dyn ParsedCall>,
    pub(super) permit: Permit,
    pub(super) permissions: Permissions,
    /// The most characters of its answer.
    pub(super) limit: Option<usize>,
    pub(super) after: AfterCall,
}

/// What a call that ran came to.
#[derive(Debug)]
pub(crate) enum Executed {
    Answered(Box<ToolResult>),
    /// An agent that it has started needs a person. The call is to be made once more.
    Suspended,
}

impl PermittedCall {
    /// Whether the call may change something. It is committed before it runs.
    pub(crate) fn has_effect(&self) -> bool {
        self.permit.may_change()
    }

    /// The tool's own name; the model may have used an alias.
    pub(crate) fn tool(&self) -> &str {
        self.tool.name()
    }

    /// Runs the call. Never fails: an error, even a panic, becomes the answer.
    pub(crate) async fn run(self, context: CallContext) -> Executed {
        let Self { id, tool, parsed, permit, permissions, limit, after } = self;
        let span = tracing::info_span!("tool_call", tool = tool.name(), id);
        let began = Instant::now();
        let context = CallContext { max_chars: limit, ..context };
        let is_plan = |permit: &Permit| {
            let (target, files) = (permit.target(), context.session.files.as_ref());
            target.zip(files).is_some_and(|(target, files)| files.is_plan(target.path()))
        };
        let writes_plan = tool.access() == AccessKind::Edit && is_plan(&permit);
        let running = try_run(&*tool, parsed, permit, &permissions, context.clone());
        let mut outcome = AssertUnwindSafe(running)
            .catch_unwind()
            .instrument(span.clone())
            .await
            .unwrap_or_else(|_| Err(crashed()));
        let took = began.elapsed();
        if matches!(outcome, Err(ToolError::Suspended)) {
            return Executed::Suspended;
        }
        if writes_plan {
            // What cannot be read is told when the plan is to be approved.
            _ = read_plan(&context.session).await;
        }
        if let Ok(output) = &mut outcome {
            let files = std::mem::take(&mut output.files);
            fitting::keep_files(&mut output.text, files, &context.session).await;
        }
        let response = after.response(&outcome);
        let mut result = ToolResult::from(outcome);
        if let Some(limit) = limit {
            let room = result.text.room_for_body(limit);
            fitting::fit(&mut result.text, room, &context.session).await;
        }
        result.text = without_nul(result.text);
        span.in_scope(|| tracing::debug!(is_error = result.is_error, "answered"));
        result.notices = after.notices();
        let adding = after.add_to(&mut result, (&*tool, &id), response, took, &context);
        adding.instrument(span).await;
        Executed::Answered(Box::new(result))
    }
}

async fn try_run(
    tool: &dyn AnyTool,
    parsed: Box<dyn ParsedCall>,
    permit: Permit,
    permissions: &Permissions,
    context: CallContext,
) -> Result<ToolOutput, ToolError> {
    let mut notes = parsed.notes().to_vec();
    // Remember the target: `execute` consumes the permit.
    let sought = permit.target().map(|target| (target.path().to_owned(), target.is_missing()));
    let (taken, beside) = name_notes(permit.target());
    let mut output = match parsed.execute(permit, context).await {
        Ok(output) => output,
        Err(error) => {
            let error = with_similar(permissions, error, tool.access(), sought).await;
            return Err(with_note(error, taken));
        }
    };
    notes.extend(taken.into_iter().chain(beside));
    let notes = notes.join("\n");
    if output.text.is_empty() && output.files.is_empty() {
        output.text = format!("({} completed with no output)", tool.name()).into();
    }
    if !notes.is_empty() {
        output.text.close(notes);
    }
    Ok(output)
}

/// What is told of names that look the same: that the one on the disk was taken for the given one,
/// or that a new file stands beside another now.
fn name_notes(target: Option<&Target>) -> (Option<String>, Option<String>) {
    let found = target.and_then(|target| Some((target.path(), target.name_match()?)));
    let difference = |there: &Path, given: &Path| {
        path_difference(there, given, "the given path").unwrap_or_default()
    };
    match found {
        None => (None, None),
        Some((path, NameMatch::GivenAs(given))) => {
            let (difference, path) = (difference(path, given), printable_path(path));
            let note = format!(
                "(the path that exists is {path}, which only looks the same: {difference})"
            );
            (Some(note), None)
        }
        Some((path, NameMatch::Beside(other))) => {
            let (difference, other) = (difference(other, path), printable_path(other));
            let note = format!("(beside it is {other}, which looks the same: {difference})");
            (None, Some(note))
        }
    }
}

/// The error with what is told of the name.
fn with_note(error: ToolError, note: Option<String>) -> ToolError {
    match (error, note) {
        (ToolError::Failed(message), Some(note)) => ToolError::Failed(format!("{message} {note}")),
        (error, _) => error,
    }
}

/// Adds the most similar path to the error where a file does not exist.
pub(super) async fn with_similar(
    permissions: &Permissions,
    error: ToolError,
    access: AccessKind,
    sought: Option<(PathBuf, bool)>,
) -> ToolError {
    let (Some((path, is_missing)), message) = (sought, error.to_string()) else {
        return error;
    };
    // A writing tool may fail for other reasons in a file that it was about to create.
    let is_about_it = match error {
        ToolError::Missing(_) => true,
        ToolError::Failed(_) => is_missing && access == AccessKind::Read,
        _ => false,
    };
    if !is_about_it {
        return error;
    }
    let sought_path = path.clone();
    match permissions.similar(path).await {
        Some(similar) => {
            let difference = look_alike_note(&similar, &sought_path).unwrap_or_default();
            let similar = printable_path(&similar);
            ToolError::Missing(format!(
                "{message}. The closest name there is {similar}{difference}"
            ))
        }
        None => error,
    }
}

/// The difference of two paths whose last common parts look the same.
fn look_alike_note(there: &Path, given: &Path) -> Option<String> {
    let mut parts = there.components().zip(given.components());
    let (one, other) = parts.find(|(one, other)| one != other)?;
    let (one, other) = (one.as_os_str().to_str()?, other.as_os_str().to_str()?);
    if !looks_same(one, other) {
        return None;
    }
    let difference = path_difference(there, given, "the given path")?;
    Some(format!(", which looks the same: {difference}"))
}

/// Replaces NUL characters: some providers refuse them, and no model needs them.
fn without_nul(text: AnswerText) -> AnswerText {
    const SHOWN: &str = "\u{2400}";
    if text.contains('\0') { text.map(|part| part.replace('\0', SHOWN)) } else { text }
}

impl fmt::Debug for PermittedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermittedCall")
            .field("tool", &self.tool())
            .field("permit", &self.permit)
            .finish_non_exhaustive()
    }
}
