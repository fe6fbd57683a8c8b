//! Tests the way of a call from the model's JSON to its answer.

mod judging;
mod kinds;
mod paths;

use futures::future::{BoxFuture, FutureExt as _};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::files::Files;
use crate::hooks::{Hook, HookVerdict};
use crate::permissions::{self, AccessKind, ExcludedPaths, Mode, Sandbox};
use crate::processes::{Environment, Runner};
use crate::tools::builtin::{self, bash};
use crate::tools::tool::SessionContext;
use crate::workspace::Workspace;

/// A hook that gives the same verdict on every call.
struct Always(fn() -> HookVerdict);

impl Hook for Always {
    fn before_call<'a>(&'a self, _: &'a str, _: &'a Value) -> BoxFuture<'a, HookVerdict> {
        async { self.0() }.boxed()
    }
}

/// A pipeline with all tools, in a workspace that holds the file `a.txt`. Everything is allowed
/// but the state directory `state`.
struct Ground {
    directory: TempDir,
    pipeline: Pipeline,
    context: CallContext,
}

impl Ground {
    fn new() -> Self {
        Self::with_hook(None)
    }

    fn with_hook(hook: Option<fn() -> HookVerdict>) -> Self {
        let directory: TempDir = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.txt"), "").unwrap();
        let workspace = Arc::new(Workspace::open(vec![directory.path().to_owned()]).unwrap());
        let hidden = ExcludedPaths::below(&directory.path().join("state"));
        let settings = permissions::PermissionSettings {
            mode: Mode::BypassPermissions,
            ..permissions::PermissionSettings::default()
        };
        let permissions =
            Permissions::new(&settings, &[], Sandbox::Off, Arc::clone(&workspace), hidden);
        let tools = builtin::list(&builtin::Services {
            files: Arc::new(Files::default()),
            runner: Runner::new("/proc/self/exe", Environment::allowed([]), None),
            bash: bash::BashSettings::default(),
        });
        let hooks = hook.map(|verdict| Arc::new(Always(verdict)) as Arc<dyn Hook>);
        let pipeline = Pipeline {
            tools: Toolset::new(tools),
            hooks: Hooks::for_test(hooks.into_iter().collect()),
            permissions: permissions.unwrap(),
            max_result_chars: None,
        };
        let context = CallContext {
            session: Arc::new(SessionContext::new(workspace)),
            cancelled: CancellationToken::new(),
        };
        Self { directory, pipeline, context }
    }

    /// The answer as the model reads it, with the workspace's path replaced.
    async fn call(&self, name: &str, arguments: &str) -> String {
        let call = ToolCall {
            id: "call_1".to_owned(),
            name: name.to_owned(),
            input: serde_json::from_str(arguments).unwrap(),
        };
        let result = match self.pipeline.admit(call) {
            Ok(admitted) => self.pipeline.run(admitted, self.context.clone()).await,
            Err(error) => ToolResult::error(&error),
        };
        let root = self.directory.path().canonicalize().unwrap();
        result.wire_text().replace(root.to_str().unwrap(), "$WORKSPACE")
    }
}

async fn call(name: &str, arguments: &str, hook: Option<fn() -> HookVerdict>) -> String {
    Ground::with_hook(hook).call(name, arguments).await
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
    assert!(answer.starts_with("$WORKSPACE/a.txt\n(") && answer.contains("sandbox"), "{answer}");
}

#[tokio::test]
async fn a_hook_may_block_a_call() {
    let answer = call("Glob", PATTERN, Some(|| HookVerdict::Block("not today".to_owned()))).await;
    assert_eq!(answer, "Error: not permitted: not today");
}

#[tokio::test]
async fn a_call_that_a_hook_changed_is_checked_anew() {
    let none =
        call("Glob", PATTERN, Some(|| HookVerdict::Rewrite(json!({"pattern": "*.rs"})))).await;
    assert_eq!(none, "No files found");
    let wrong = call("Glob", PATTERN, Some(|| HookVerdict::Rewrite(json!({"pattern": 5})))).await;
    assert!(wrong.starts_with("Error: invalid input"), "{wrong}");
}

#[tokio::test]
async fn t17_no_nul_character_of_a_file_reaches_the_model() {
    let ground = Ground::new();
    let page = "line\n".repeat(60_000);
    std::fs::write(ground.directory.path().join("b.txt"), format!("{page}end\0\nlast\n")).unwrap();
    ground.call("Read", r#"{"file_path":"b.txt"}"#).await;

    let edit = r#"{"file_path":"b.txt","old_string":"last","new_string":"LAST"}"#;
    let edited = ground.call("Edit", edit).await;
    let nearest = r#"{"file_path":"b.txt","old_string":"end\u0000.","new_string":"LAST"}"#;
    let missed = ground.call("Edit", nearest).await;

    assert!(edited.contains("\n end\u{2400}\n-last\n+LAST"), "{edited:?}");
    assert!(!missed.contains('\0'), "{missed:?}");
    assert!(std::fs::read(ground.directory.path().join("b.txt")).unwrap().contains(&0));
}
