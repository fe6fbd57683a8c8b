//! Tests the way of a call from the model's JSON to its answer.

mod hooks;
mod judging;
mod kinds;
mod paths;

use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::files::Files;
use crate::permissions::{self, AccessKind, ExcludedPaths, Mode, SandboxMode};
use crate::processes::sandbox::SandboxSettings;
use crate::processes::{self, Environment, Runner};
use crate::tools::agent_context::AgentContext;
use crate::tools::builtin::{self, bash};
use crate::tools::session_context::SessionContext;
use crate::workspace::Workspace;

/// A pipeline with all tools, in a workspace that holds the file `a.txt`. Everything is allowed
/// but the state directory `state`.
struct Ground {
    directory: TempDir,
    pipeline: Pipeline,
    context: CallContext,
}

impl Ground {
    fn new() -> Self {
        let directory: TempDir = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.txt"), "").unwrap();
        let workspace = Arc::new(Workspace::open(vec![directory.path().to_owned()]).unwrap());
        let hidden = ExcludedPaths::below(&directory.path().join("state"));
        let settings = permissions::PermissionSettings {
            mode: Mode::BypassPermissions,
            ..permissions::PermissionSettings::default()
        };
        let permissions =
            Permissions::new(&settings, &[], SandboxMode::Off, Arc::clone(&workspace), hidden);
        let runner = Runner::new("/proc/self/exe", Environment::allowed([]), None);
        let tools = builtin::list(&builtin::Services {
            files: Arc::new(Files::default()),
            sandbox: processes::sandbox::Sandbox::new(runner.clone(), SandboxSettings::default()),
            sandbox_escape: false,
            runner,
            bash: bash::BashSettings::default(),
            settings_files: None,
            definitions: crate::definitions::Definitions::none(),
            languages: None,
            settings: Arc::default(),
            web: crate::web::test_support::web(),
            page_reader: None,
            search: None,
            mcp: None,
        });
        let pipeline = Pipeline {
            agent_type: None,
            tools: Toolset::new(tools),
            hooks: Hooks::default(),
            permissions: permissions.unwrap(),
            max_result_chars: None,
        };
        let session = Arc::new(SessionContext::new(workspace));
        let agent = Arc::new(AgentContext::main(&session));
        let context = CallContext::new(agent, session, CancellationToken::new());
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

async fn call(name: &str, arguments: &str) -> String {
    Ground::new().call(name, arguments).await
}

const PATTERN: &str = r#"{"pattern":"*.txt"}"#;

#[tokio::test]
async fn runs_a_permitted_call() {
    assert_eq!(call("Glob", PATTERN).await, "$WORKSPACE/a.txt");
}

#[tokio::test]
async fn refuses_a_tool_that_is_not_there() {
    let answer = call("Glub", PATTERN).await;
    assert!(answer.starts_with("Error: no tool named Glub is available"), "{answer}");
}

#[tokio::test]
async fn mentions_what_had_no_effect() {
    let answer = call("Glob", r#"{"pattern":"*.txt","sandbox":false}"#).await;
    assert!(answer.starts_with("$WORKSPACE/a.txt\n(") && answer.contains("sandbox"), "{answer}");
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
