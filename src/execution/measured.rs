//! Measures calls of MCP servers' tools through the pipeline, for `make bench` alone.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::pipeline::{Executed, Judged, Pipeline, ToolCall};
use crate::hooks::Hooks;
use crate::mcp::{
    McpLauncher, McpReach, McpSandboxes, McpSection, McpServers, McpSettings, ValueSource,
};
use crate::own_endpoints::OwnEndpoints;
use crate::permissions::{ExcludedPaths, PermissionSettings, Permissions, SandboxMode};
use crate::processes::{Environment, Runner};
use crate::secret::Secret;
use crate::settings_files::SettingsFiles;
use crate::tools::agent_context::AgentContext;
use crate::tools::mcp;
use crate::tools::session_context::SessionContext;
use crate::tools::tool::CallContext;
use crate::tools::toolset::Toolset;
use crate::workspace::Workspace;

const START: Duration = Duration::from_secs(60);

/// Running servers, and the pipeline that calls their tools.
#[derive(Debug)]
pub struct McpCalls {
    pipeline: Pipeline,
    context: CallContext,
}

impl McpCalls {
    /// Starts the servers of a table `[servers]` in TOML, all of whose tools are allowed.
    /// `None` if the table or the directory is wrong.
    pub async fn start(directory: &Path, servers: &str) -> Option<Self> {
        let workspace = Arc::new(Workspace::open(vec![directory.to_owned()]).ok()?);
        let settings: McpSection = toml::from_str(servers).ok()?;
        let settings = settings.resolve(&NoValues);
        let permissions = permissions(&workspace, &settings)?;
        let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
        let runner = Runner::new("/proc/self/exe", Environment::allowed([path]), None);
        let sandboxes = McpSandboxes::Off;
        let kept = directory.join("kept");
        let launcher = McpLauncher { runner, sandboxes, workspace: directory.to_owned(), kept };
        let own = OwnEndpoints::new(&"http://127.0.0.1:1/v1".parse().ok()?);
        let servers = McpServers::new(settings, McpReach { launcher, own }, directory);
        servers.start();
        servers.ready_within(START).await;
        let tools = servers.snapshot().tools.into_iter();
        let tools = tools.map(|tool| mcp::erase(servers.clone(), tool)).collect();
        let session = Arc::new(SessionContext::new(workspace));
        let agent = Arc::new(AgentContext::main(&session));
        Some(Self {
            pipeline: Pipeline {
                tools: Toolset::new(tools),
                hooks: Hooks::default(),
                permissions,
                max_result_chars: None,
                agent_type: None,
            },
            context: CallContext::new(agent, session, CancellationToken::new()),
        })
    }

    /// How long each of so many calls takes, one after the other, from the parsed arguments to the
    /// answer in the form of our answers. `None` if one fails.
    #[expect(clippy::disallowed_methods, reason = "measures calls and nothing else")]
    pub async fn times(&self, tool: &str, input: &Value, calls: usize) -> Option<Vec<Duration>> {
        let mut times = Vec::with_capacity(calls);
        for number in 0..calls {
            let id = format!("call_{number}");
            let call = ToolCall { id, name: tool.to_owned(), input: input.clone() };
            let start = Instant::now();
            self.call(call).await?;
            times.push(start.elapsed());
        }
        Some(times)
    }

    async fn call(&self, call: ToolCall) -> Option<()> {
        let admitted = self.pipeline.admit(call).ok()?;
        let judged = self.pipeline.judge(admitted, &self.context, None).await;
        let Judged::Permitted(permitted) = judged else { return None };
        let Executed::Answered(result) = permitted.run(self.context.clone()).await else {
            return None;
        };
        (!result.is_error).then_some(())
    }
}

/// A look at each settings file is what they cost where none is there.
fn permissions(workspace: &Arc<Workspace>, servers: &McpSettings) -> Option<Permissions> {
    let allow = servers.servers.iter().map(|server| format!("mcp__{}", server.name)).collect();
    let settings = PermissionSettings { allow, ..PermissionSettings::default() };
    let nowhere = Path::new("/nonexistent");
    let excluded = ExcludedPaths::below(nowhere);
    let workspace = Arc::clone(workspace);
    let permissions =
        Permissions::new(&settings, &[], SandboxMode::Off, workspace, excluded).ok()?;
    let files = Arc::new(SettingsFiles::new(None, nowhere));
    permissions.with_settings_files(files, &[]).ok()
}

/// No table of the bench has keys.
struct NoValues;

impl ValueSource for NoValues {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, _: &str) -> Result<Secret, String> {
        Err("no file is read here".to_owned())
    }
}
