//! The steps every tool call passes through, in order:
//! enabled → validated → hooked → permitted → executed → answered.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::future::FutureExt as _;
use serde_json::Value;
use tracing::Instrument as _;

use crate::hooks::{self, Hooks};
use crate::permissions::Permissions;
use crate::tools::tool::{
    AnyTool, CallContext, Concurrency, ParsedCall, Start, ToolError, ToolOutput,
};
use crate::tools::toolset::Toolset;
use crate::tools::truncate;

/// A call as the model made it.
#[derive(Clone, Debug)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Its arguments, parsed where they were put together.
    pub(crate) input: Value,
}

/// A call to a tool that exists, with arguments that tool understands.
pub(crate) struct AdmittedCall {
    call: ToolCall,
    tool: Arc<dyn AnyTool>,
    parsed: Box<dyn ParsedCall>,
}

/// The answer to a call, good or bad.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolResult {
    /// What the model reads, without the mark of an error.
    pub(crate) text: String,
    pub(crate) is_error: bool,
    pub(crate) structured: Value,
}

/// The tools of a turn, and everything that stands between them and the model.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) tools: Toolset,
    pub(crate) hooks: Hooks,
    pub(crate) permissions: Permissions,
    /// The operator's own bound on an answer, beside each tool's.
    pub(crate) max_result_chars: Option<usize>,
}

impl AdmittedCall {
    pub(crate) fn concurrency(&self) -> Concurrency {
        self.parsed.concurrency()
    }

    /// Whether the call may start at its last brace, before the model moves on: a
    /// shared call of a local tool. `{}` for a tool that has properties may be
    /// the beginning of something else.
    pub(crate) fn starts_when_closed(&self) -> bool {
        let is_empty = self.call.input.as_object().is_some_and(serde_json::Map::is_empty);
        let takes_any =
            self.tool.input_schema()["properties"].as_object().is_some_and(|all| !all.is_empty());
        self.tool.start() == Start::Closed
            && self.concurrency() == Concurrency::Shared
            && !(is_empty && takes_any)
    }

    /// The tool's own name, whatever alias the model used.
    pub(crate) fn tool(&self) -> &str {
        self.tool.name()
    }

    /// The main argument, in a few words.
    pub(crate) fn headline(&self) -> String {
        self.parsed.headline()
    }
}

impl Pipeline {
    /// Enabled and validated: all the scheduler needs in order to place the call.
    pub(crate) fn admit(&self, call: ToolCall) -> Result<AdmittedCall, ToolError> {
        let Some(tool) = self.tools.get(&call.name).cloned() else {
            return Err(self.tools.unavailable(&call.name));
        };
        let parsed = Arc::clone(&tool).parse(call.input.clone())?;
        Ok(AdmittedCall { call, tool, parsed })
    }

    /// Hooked, permitted, executed and answered. Cannot fail: a failure, even a
    /// panic, is an answer.
    pub(crate) async fn run(&self, admitted: AdmittedCall, context: CallContext) -> ToolResult {
        let limit = self.answer_limit(admitted.tool.as_ref());
        let keep = admitted.tool.keep();
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
            result.text = truncate::cap(result.text, limit, keep);
        }
        span.in_scope(|| tracing::debug!(is_error = result.is_error, "answered"));
        result
    }

    fn answer_limit(&self, tool: &dyn AnyTool) -> Option<usize> {
        [tool.max_result_chars(), self.max_result_chars].into_iter().flatten().min()
    }

    async fn try_run(
        &self,
        admitted: AdmittedCall,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let tool = Arc::clone(&admitted.tool);
        let parsed = self.hook(admitted).await?;
        let notes = parsed.notes().join("\n");
        let permit = self
            .permissions
            .permit(tool.name(), parsed.reach(&context))
            .await
            .map_err(|refusal| ToolError::Denied(refusal.to_string()))?;
        let mut output = parsed.execute(permit, context).await?;
        if output.text.is_empty() {
            output.text = format!("({} completed with no output)", tool.name());
        }
        if !notes.is_empty() {
            output.text = format!("{}\n{notes}", output.text);
        }
        Ok(output)
    }

    async fn hook(&self, admitted: AdmittedCall) -> Result<Box<dyn ParsedCall>, ToolError> {
        let AdmittedCall { call, tool, parsed } = admitted;
        match self.hooks.before_call(tool.name(), &call.input).await {
            hooks::Verdict::Continue => Ok(parsed),
            hooks::Verdict::Rewrite(arguments) => {
                let rewritten = tool.parse(arguments)?;
                // The scheduler has placed the call by what it was before.
                if rewritten.concurrency() == parsed.concurrency() {
                    Ok(rewritten)
                } else {
                    Err(ToolError::failed("a hook changed what this call does; call it again"))
                }
            }
            hooks::Verdict::Block(reason) => Err(ToolError::Denied(reason)),
        }
    }
}

impl ToolResult {
    pub(crate) fn error(error: &ToolError) -> Self {
        Self { text: error.to_string(), is_error: true, structured: Value::Null }
    }

    /// What stands in the `role: tool` message.
    pub(crate) fn wire_text(&self) -> String {
        if self.is_error { format!("Error: {}", self.text) } else { self.text.clone() }
    }
}

impl From<Result<ToolOutput, ToolError>> for ToolResult {
    fn from(outcome: Result<ToolOutput, ToolError>) -> Self {
        match outcome {
            Ok(ToolOutput { text, structured, is_error }) => Self { text, is_error, structured },
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
mod tests {
    use futures::future::{BoxFuture, FutureExt as _};
    use serde_json::json;
    use tempfile::TempDir;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::hooks::{Hook, Verdict};
    use crate::permissions::{self, Hidden, Sandbox};
    use crate::tools::builtin::glob::Glob;
    use crate::tools::tool::{SessionFacts, erase};
    use crate::workspace::Workspace;

    /// Says the same of every call.
    struct Always(fn() -> Verdict);

    impl Hook for Always {
        fn before_call<'a>(&'a self, _: &'a str, _: &'a Value) -> BoxFuture<'a, Verdict> {
            async { self.0() }.boxed()
        }
    }

    /// Calls `name` in a workspace with the one file `a.txt`.
    async fn call(name: &str, arguments: &str, hook: Option<fn() -> Verdict>) -> String {
        let directory: TempDir = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.txt"), "").unwrap();
        let workspace = Arc::new(Workspace::open(vec![directory.path().to_owned()]).unwrap());
        let permissions = Permissions::new(
            &permissions::Settings::default(),
            &[],
            Sandbox::Auto,
            Arc::clone(&workspace),
            Hidden::directory(&directory.path().join("state")),
        );
        let hooks = hook.map(|verdict| Arc::new(Always(verdict)) as Arc<dyn Hook>);
        let pipeline = Pipeline {
            tools: Toolset::new(vec![erase(Glob::new(Hidden::nothing()))]),
            hooks: Hooks::for_test(hooks.into_iter().collect()),
            permissions: permissions.unwrap(),
            max_result_chars: None,
        };
        let context = CallContext {
            session: Arc::new(SessionFacts::new(workspace)),
            cancelled: CancellationToken::new(),
        };
        let call = ToolCall {
            id: "call_1".to_owned(),
            name: name.to_owned(),
            input: serde_json::from_str(arguments).unwrap(),
        };
        let result = match pipeline.admit(call) {
            Ok(admitted) => pipeline.run(admitted, context).await,
            Err(error) => ToolResult::error(&error),
        };
        let root = directory.path().canonicalize().unwrap();
        result.wire_text().replace(root.to_str().unwrap(), "$WORKSPACE")
    }

    const PATTERN: &str = r#"{"pattern":"*.txt"}"#;

    #[tokio::test]
    async fn runs_a_permitted_call() {
        assert_eq!(call("Glob", PATTERN, None).await, "$WORKSPACE/a.txt");
    }

    #[tokio::test]
    async fn refuses_a_tool_that_is_not_there() {
        let answer = call("Glub", PATTERN, None).await;
        assert!(answer.starts_with("Error: no tool named Glub is available"), "{answer}");
    }

    #[tokio::test]
    async fn mentions_what_had_no_effect() {
        let answer = call("Glob", r#"{"pattern":"*.txt","sandbox":false}"#, None).await;
        assert!(
            answer.starts_with("$WORKSPACE/a.txt\n(") && answer.contains("sandbox"),
            "{answer}"
        );
    }

    #[tokio::test]
    async fn a_hook_may_block_a_call() {
        let answer = call("Glob", PATTERN, Some(|| Verdict::Block("not today".to_owned()))).await;
        assert_eq!(answer, "Error: not permitted: not today");
    }

    #[tokio::test]
    async fn a_call_that_a_hook_changed_is_checked_anew() {
        let none =
            call("Glob", PATTERN, Some(|| Verdict::Rewrite(json!({"pattern": "*.rs"})))).await;
        assert_eq!(none, "No files found");
        let wrong = call("Glob", PATTERN, Some(|| Verdict::Rewrite(json!({"pattern": 5})))).await;
        assert!(wrong.starts_with("Error: invalid input"), "{wrong}");
    }
}
