//! Runs one tool call through its stages: enabled → validated → hooked → permitted → executed →
//! answered.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::FutureExt as _;
use serde_json::Value;
use tracing::Instrument as _;

use super::ask::{Ask, Decision};
use crate::hooks::{self, Hooks};
use crate::permissions::{AccessKind, Permissions};
use crate::text::printable;
use crate::tools::tool::{
    AnyTool, CallContext, Concurrency, ParsedCall, StartRule, ToolError, ToolOutput,
};
use crate::tools::toolset::Toolset;
use crate::tools::truncate;

/// A call as the model made it.
#[derive(Clone, Debug)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Its arguments, parsed by the assembler.
    pub(crate) input: Value,
}

/// A call of an enabled tool, with arguments that fit the tool's input.
pub(crate) struct AdmittedCall {
    call: ToolCall,
    tool: Arc<dyn AnyTool>,
    parsed: Box<dyn ParsedCall>,
}

/// The answer to a call: output or an error.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolResult {
    /// The text for the model, without the `Error: ` prefix.
    pub(crate) text: String,
    pub(crate) is_error: bool,
    /// The machine-readable part, for clients that ask for progress events.
    pub(crate) structured: Value,
}

/// What a call may do, before anything of it has run.
pub(crate) enum Judged {
    Permitted(PermittedCall),
    /// A person must be asked.
    #[expect(dead_code, reason = "the permissions' third outcome comes from another part")]
    Asked(Box<Ask>),
    Answered(ToolResult),
}

/// A call that may run now.
pub(crate) struct PermittedCall {
    pipeline: Pipeline,
    call: AdmittedCall,
}

impl PermittedCall {
    /// Whether the call may change anything: its intent is recorded before it runs.
    pub(crate) fn has_effect(&self) -> bool {
        matches!(self.call.tool.access(), AccessKind::Edit | AccessKind::Command)
    }

    pub(crate) async fn run(self, context: CallContext) -> ToolResult {
        self.pipeline.run(self.call, context).await
    }
}

/// The tools of a turn, and what decides about their calls.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) tools: Toolset,
    pub(crate) hooks: Hooks,
    pub(crate) permissions: Permissions,
    /// The operator's limit on an answer, in characters. The lower of this and the tool's own
    /// applies.
    pub(crate) max_result_chars: Option<usize>,
}

impl AdmittedCall {
    pub(crate) fn concurrency(&self) -> Concurrency {
        self.parsed.concurrency()
    }

    /// Whether the call may start at its last brace, before the model moves on. This is so for
    /// a shared call of a tool that declares it. `{}` must wait if the tool has properties,
    /// since a real object may follow it.
    pub(crate) fn starts_when_closed(&self) -> bool {
        let is_empty = self.call.input.as_object().is_some_and(serde_json::Map::is_empty);
        let takes_any =
            self.tool.input_schema()["properties"].as_object().is_some_and(|all| !all.is_empty());
        self.tool.start() == StartRule::Closed
            && self.concurrency() == Concurrency::Shared
            && !(is_empty && takes_any)
    }

    /// The tool's own name; the model may have used an alias.
    pub(crate) fn tool(&self) -> &str {
        self.tool.name()
    }

    pub(crate) fn into_call(self) -> ToolCall {
        self.call
    }

    /// The main argument, for people.
    pub(crate) fn headline(&self) -> String {
        self.parsed.headline()
    }
}

impl Pipeline {
    /// The first two stages: finds the tool and validates the arguments. The scheduler needs no
    /// more to place the call.
    pub(crate) fn admit(&self, call: ToolCall) -> Result<AdmittedCall, ToolError> {
        let Some(tool) = self.tools.get(&call.name).cloned() else {
            return Err(self.tools.unavailable(&call.name));
        };
        let parsed = Arc::clone(&tool).parse(call.input.clone())?;
        Ok(AdmittedCall { call, tool, parsed })
    }

    /// Judges a call. Runs nothing.
    pub(crate) async fn judge(
        &self,
        call: &ToolCall,
        _context: &CallContext,
        _decision: Option<&Decision>,
    ) -> Judged {
        std::future::ready(match self.admit(call.clone()) {
            Ok(call) => Judged::Permitted(PermittedCall { pipeline: self.clone(), call }),
            Err(error) => Judged::Answered(ToolResult::error(&error)),
        })
        .await
    }

    /// The other stages. Never fails: an error, even a panic, becomes the answer.
    pub(crate) async fn run(&self, admitted: AdmittedCall, context: CallContext) -> ToolResult {
        let limit = self.answer_limit(admitted.tool.as_ref());
        let truncation = admitted.tool.truncation();
        let span = tracing::info_span!("tool_call", tool = admitted.tool(), id = admitted.call.id);
        let outcome = AssertUnwindSafe(self.try_run(admitted, context))
            .catch_unwind()
            .instrument(span.clone())
            .await
            .unwrap_or_else(|_| {
                Err(ToolError::failed("the tool crashed; this is a bug of the server"))
            });
        let mut result = ToolResult::from(outcome);
        if let Some(limit) = limit {
            result.text = truncate::cap(result.text, limit, truncation);
        }
        result.text = without_nul(result.text);
        span.in_scope(|| tracing::debug!(is_error = result.is_error, "answered"));
        result
    }

    fn answer_limit(&self, tool: &dyn AnyTool) -> Option<usize> {
        [tool.max_result_chars(), self.max_result_chars].into_iter().flatten().min()
    }

    /// Hooks, permits and executes the call.
    async fn try_run(
        &self,
        admitted: AdmittedCall,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let tool = Arc::clone(&admitted.tool);
        let parsed = self.hook(admitted).await?;
        let notes = parsed.notes().join("\n");
        let access_request = parsed.access_request(&context);
        let permit = self.permissions.permit(tool.name(), tool.access(), access_request).await?;
        // Remember the target: `execute` consumes the permit.
        let sought = permit.target().map(|target| (target.path().to_owned(), target.is_missing()));
        let mut output = match parsed.execute(permit, context).await {
            Ok(output) => output,
            Err(error) => return Err(self.with_similar(error, tool.access(), sought).await),
        };
        if output.text.is_empty() {
            output.text = format!("({} completed with no output)", tool.name());
        }
        if !notes.is_empty() {
            output.text = format!("{}\n{notes}", output.text);
        }
        Ok(output)
    }

    /// Adds the most similar path to the error where a file does not exist.
    async fn with_similar(
        &self,
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
        match self.permissions.similar(path).await {
            Some(similar) => {
                let similar = printable(similar.as_os_str().as_bytes());
                ToolError::Missing(format!("{message}. The closest name there is {similar}"))
            }
            None => error,
        }
    }

    /// Runs the hooks, and validates the arguments again if a hook changed them.
    async fn hook(&self, admitted: AdmittedCall) -> Result<Box<dyn ParsedCall>, ToolError> {
        let AdmittedCall { call, tool, parsed } = admitted;
        match self.hooks.before_call(tool.name(), &call.input).await {
            hooks::HookVerdict::Continue => Ok(parsed),
            hooks::HookVerdict::Rewrite(arguments) => {
                let rewritten = tool.parse(arguments)?;
                // The scheduler placed the call by its old concurrency, so a change of it
                // cannot be honoured.
                if rewritten.concurrency() == parsed.concurrency() {
                    Ok(rewritten)
                } else {
                    Err(ToolError::failed("a hook changed what this call does; call it again"))
                }
            }
            hooks::HookVerdict::Block(reason) => Err(ToolError::Denied(reason)),
        }
    }
}

/// Replaces NUL characters: some providers refuse them, and no model needs them.
fn without_nul(text: String) -> String {
    const SHOWN: &str = "\u{2400}";
    if text.contains('\0') { text.replace('\0', SHOWN) } else { text }
}

impl ToolResult {
    pub(crate) fn error(error: &ToolError) -> Self {
        Self { text: error.to_string(), is_error: true, structured: Value::Null }
    }

    /// The content of the `role: tool` message.
    pub(crate) fn wire_text(&self) -> String {
        if self.is_error { format!("Error: {}", self.text) } else { self.text.clone() }
    }
}

impl From<Result<ToolOutput, ToolError>> for ToolResult {
    fn from(outcome: Result<ToolOutput, ToolError>) -> Self {
        match outcome {
            Ok(ToolOutput { text, mut structured, hooks_only, is_error }) => {
                if let Some(members) = structured.as_object_mut() {
                    members.retain(|name, _| !hooks_only.contains(&name.as_str()));
                }
                Self { text, is_error, structured }
            }
            Err(error) => Self::error(&error),
        }
    }
}

impl fmt::Debug for AdmittedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmittedCall").field("call", &self.call).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
