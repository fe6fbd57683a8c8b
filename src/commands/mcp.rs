//! Runs `toolhand mcp`: starts MCP servers to list them, or to accept what their tools are now.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::flags::RunningServerFlags;
use super::signals::{Outcome, run_to_outcome};
use super::{Failure, print, say};
use crate::app::services::Services;
use crate::app::state_dir;
use crate::config;
use crate::config::environment::Variables;
use crate::mcp::{AcceptedTools, McpServers};
use crate::text;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server, and take its tools as they are now
    Accept(AcceptFlags),
    /// Start each server, and show what its tools are
    List(ListFlags),
}

#[derive(Debug, Args)]
pub(crate) struct AcceptFlags {
    /// Its name under [mcp.servers], or in the workspace's .mcp.json
    #[arg(value_name = "SERVER")]
    server: String,
    // Those that the running server was started with: they say where its files are.
    #[command(flatten)]
    flags: RunningServerFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ListFlags {
    #[command(flatten)]
    flags: RunningServerFlags,
}

pub(crate) fn run(command: &Command, variables: &Variables) -> Result<ExitCode, Failure> {
    let (flags, only) = match command {
        Command::Accept(accept) => (&accept.flags, Some(accept.server.clone())),
        Command::List(list) => (&list.flags, None),
    };
    let loaded = config::load(&flags.input(variables))?;
    let services = Services::from_config(&loaded)?;
    state_dir::inspect(&loaded.config.server.state_dir)?;
    run_to_outcome(|stop| async move {
        let none = || {
            Failure::new("no server stands under [mcp.servers], nor in a .mcp.json that is trusted")
        };
        let servers = services.mcp.ok_or_else(none)?;
        let done = async {
            if let Some(name) = only {
                return accept(&servers, &name).await;
            }
            list(&servers).await;
            Ok(())
        };
        let done: Option<Result<(), Failure>> = stop.run_until_cancelled(done).await;
        servers.end().await;
        done.map_or(Ok(Outcome::Interrupted), |done| done.map(|()| Outcome::Done))
    })
}

async fn list(servers: &McpServers) {
    servers.start_and_wait().await;
    for server in servers.states() {
        let why = server.state.why().map(|why| format!(": {why}")).unwrap_or_default();
        print(&format!("{}: {}{why}\n", server.name, server.state.name()));
        for tool in &server.withheld {
            print(&format!("  {} is not offered: {}\n", tool.own_name, tool.why));
        }
        for tool in &server.incomplete {
            print(&format!("  {} is offered without {}\n", tool.own_name, tool.left_out));
        }
    }
    for tool in servers.snapshot().tools {
        print(&format!("{}: {}\n", tool.name, text::one_line(&tool.description)));
    }
}

async fn accept(servers: &McpServers, name: &str) -> Result<(), Failure> {
    servers.start_only(name).await?;
    let AcceptedTools { known, changed } = servers.accept(name).await?;
    for tool in &changed {
        let description = text::one_line(&tool.description);
        let schema = text::shown_line(&tool.schema.advertised().to_string());
        print(&format!("{} is now: {description}\n  {schema}\n", tool.name));
    }
    let count = known + changed.len();
    let changed = changed.len();
    say(&format!(
        "{name}: {count} tools are taken as they are now, {changed} of them changed or new"
    ));
    Ok(())
}
