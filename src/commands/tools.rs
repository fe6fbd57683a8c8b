//! Runs `toolhand tools`: prints what the model is told of the tools.

use std::process::ExitCode;

use clap::Args;

use super::flags::ServeFlags;
use super::signals::{Outcome, run_to_outcome};
use super::{Failure, print_result, say};
use crate::app::services::Services;
use crate::config;
use crate::config::environment::Variables;
use crate::mcp::McpState;
use crate::tools::toolset::Toolset;

#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// The definitions as they go upstream, with those of MCP servers, which are started for it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: ServeFlags,
}

pub(crate) fn run(flags: &Flags, variables: &Variables) -> Result<ExitCode, Failure> {
    let loaded = config::load(&flags.flags.input(variables))?;
    let services = Services::from_config(&loaded)?;
    if !flags.json {
        print_result(&descriptions(services.tools.built_in()))?;
        return Ok(ExitCode::SUCCESS);
    }
    run_to_outcome(|stop| async move {
        let defined = stop.run_until_cancelled(definitions(&services)).await;
        if let Some(servers) = &services.mcp {
            servers.end().await;
        }
        let Some(definitions) = defined else { return Ok(Outcome::Interrupted) };
        print_result(&definitions)?;
        Ok(Outcome::Done)
    })
}

/// Those of a request that chooses no workspace.
async fn definitions(services: &Services) -> String {
    if let Some(servers) = &services.mcp {
        servers.start_and_wait().await;
        for server in servers.states().iter().filter(|server| server.state != McpState::Ready) {
            let why = server.state.why().unwrap_or_default();
            say(&format!("without the MCP server {}: {why}", server.name));
        }
    }
    let snapshot = services.tools.snapshot().await;
    let toolset = snapshot.in_workspace(None);
    let each: Vec<&str> = toolset.definitions().iter().map(|definition| definition.get()).collect();
    format!("[{}]\n", each.join(","))
}

fn descriptions(toolset: &Toolset) -> String {
    let each = toolset.tools().iter().map(|tool| {
        let text = tool.description().trim().replace('\n', "\n    ");
        format!("{}\n    {text}\n", tool.name())
    });
    each.collect::<Vec<_>>().join("\n")
}
