//! Takes one tool call through its stages: enabled → validated → hooked → judged, and then,
//! if it is permitted, executed → answered.
//!
//! A call that needs a person ends its way as [`Judged::Asked`]. It is judged again, from the
//! start, with what the person decided.

mod hooked;
mod judging;
mod permitted;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock};

use futures::future::FutureExt as _;
use serde_json::Value;
use tokio::sync::OnceCell;
use tracing::Instrument as _;

use super::ask::{Ask, Decision};
use crate::hooks::{HookOutcome, Hooks};
use crate::permissions::Permissions;
use crate::sync;
use crate::tools::answer::AnswerText;
use crate::tools::todos::Todo;
use crate::tools::tool::{
    AnyTool, CallContext, Concurrency, ParsedCall, Picture, StartRule, ToolError, ToolOutput,
};
use crate::tools::toolset::Toolset;
pub(crate) use permitted::{Executed, PermittedCall};

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
    hooked: Arc<HookedCall>,
}

/// What hooks said of a call. They are asked once, however often it is judged.
#[derive(Debug, Default)]
struct HookedCall {
    before: OnceCell<HookOutcome>,
    /// In the place of a person.
    requested: OnceCell<HookOutcome>,
    notified: OnceCell<HookOutcome>,
    words: Arc<HookWords>,
}

/// What hooks said of a call that is not about this call alone.
#[derive(Debug, Default)]
struct HookWords {
    /// What the person was not told yet.
    notices: Mutex<Vec<String>>,
    /// The last text of the turn, if one of them ends it.
    ends_turn: OnceLock<String>,
}

impl HookedCall {
    /// The same call with other arguments, about which they are asked anew.
    fn with_other_input(&self) -> Self {
        Self { words: Arc::clone(&self.words), ..Self::default() }
    }
}

impl HookWords {
    /// Takes them out of what was said.
    fn heed(&self, mut outcome: HookOutcome) -> HookOutcome {
        sync::lock(&self.notices).append(&mut outcome.notices);
        if let Some(text) = &outcome.ends_turn {
            // Of several texts the first one counts.
            _ = self.ends_turn.set(text.clone());
        }
        outcome
    }

    fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *sync::lock(&self.notices))
    }
}

/// What became of a call that was judged. Nothing has run yet.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most calls are permitted; a box would only move it")]
pub(crate) enum Judged {
    Permitted(PermittedCall),
    /// A person must be asked. Then the call is judged again with the [`Decision`].
    Asked(Box<Ask>),
    /// It will not run: it is denied, it would fail, or the person's words are its answer.
    Answered(ToolResult),
}

/// The answer to a call: output or an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ToolResult {
    /// The text for the model, without the `Error: ` prefix.
    pub(crate) text: AnswerText,
    pub(crate) pictures: Vec<Picture>,
    pub(crate) is_error: bool,
    /// The machine-readable part, for clients that ask for progress events.
    pub(crate) structured: Value,
    /// The new todo list, if the call has written it.
    pub(crate) todos: Option<Vec<Todo>>,
    /// A hook ends the turn when the answers of the round are in, with this as its last text.
    pub(crate) ends_turn: Option<String>,
    /// What hooks tell the person.
    pub(crate) notices: Vec<String>,
    /// What a command has left that other programs obey, for the person.
    pub(crate) left_behind: Vec<String>,
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
    /// The type of the subagent whose calls these are; `None`: the main agent's.
    pub(crate) agent_type: Option<Arc<str>>,
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

    /// The main argument, for people.
    pub(crate) fn headline(&self) -> String {
        self.parsed.headline()
    }

    /// What hooks tell the person of the call, and have not told before.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        self.hooked.words.take_notices()
    }

    /// The same call, to be judged once more. The hooks are not asked again.
    pub(crate) fn again(&self) -> Result<Self, ToolError> {
        let (call, tool) = (self.call.clone(), Arc::clone(&self.tool));
        let parsed = Arc::clone(&tool).parse(call.input.clone())?;
        Ok(Self { call, tool, parsed, hooked: Arc::clone(&self.hooked) })
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
        Ok(AdmittedCall { call, tool, parsed, hooked: Arc::default() })
    }

    /// The next stages: asks the hooks and the permissions, and runs nothing. Each judgement
    /// opens anew what the call leads to, so a decision holds only for what is there now.
    /// Never fails: an error, even a panic, becomes the answer.
    pub(crate) async fn judge(
        &self,
        call: AdmittedCall,
        context: &CallContext,
        decision: Option<&Decision>,
    ) -> Judged {
        let span = tracing::info_span!("tool_judgement", tool = call.tool(), id = call.call.id);
        let words = Arc::clone(&call.hooked.words);
        let judged = AssertUnwindSafe(self.try_judge(call, context, decision))
            .catch_unwind()
            .instrument(span)
            .await;
        match judged.unwrap_or_else(|_| Err(crashed())) {
            Ok(judged) => judged,
            Err(error) => Judged::Answered(ToolResult {
                ends_turn: words.ends_turn.get().cloned(),
                notices: words.take_notices(),
                ..ToolResult::error(&error)
            }),
        }
    }

    /// Judges and runs the call where nobody can be asked.
    #[cfg(test)]
    pub(crate) async fn run(&self, admitted: AdmittedCall, context: CallContext) -> ToolResult {
        match self.judge(admitted, &context, None).await {
            Judged::Permitted(call) => match call.run(context).await {
                Executed::Answered(result) => *result,
                Executed::Suspended => ToolResult::error(&ToolError::Suspended),
            },
            Judged::Asked(ask) => ToolResult::error(&ask.unanswered(super::ask::NoAnswer::Nobody)),
            Judged::Answered(result) => result,
        }
    }

    /// The most characters of an answer of this tool.
    fn answer_limit(&self, tool: &dyn AnyTool) -> Option<usize> {
        [tool.max_result_chars(), self.max_result_chars].into_iter().flatten().min()
    }
}

/// The answer to a call whose code panicked.
fn crashed() -> ToolError {
    ToolError::failed("the tool crashed; this is a bug of the server")
}

impl ToolResult {
    pub(crate) fn error(error: &ToolError) -> Self {
        Self { text: error.to_string().into(), is_error: true, ..Self::default() }
    }

    /// The bytes that it keeps in memory.
    pub(crate) fn size(&self) -> usize {
        self.text.size() + self.pictures.iter().map(|picture| picture.bytes.len()).sum::<usize>()
    }

    /// The content of the `role: tool` message.
    pub(crate) fn wire_text(&self) -> String {
        if self.is_error { format!("Error: {}", self.text) } else { self.text.to_string() }
    }
}

impl From<Result<ToolOutput, ToolError>> for ToolResult {
    fn from(outcome: Result<ToolOutput, ToolError>) -> Self {
        match outcome {
            Ok(ToolOutput {
                text,
                pictures,
                todos,
                mut structured,
                hooks_only,
                is_error,
                left_behind,
                ..
            }) => {
                if let Some(members) = structured.as_object_mut() {
                    members.retain(|name, _| !hooks_only.contains(&name.as_str()));
                }
                let without = Self::default();
                Self { text, pictures, is_error, structured, todos, left_behind, ..without }
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
