//! Starts the program of a server, in the sandbox where there is one.

use std::path::PathBuf;

use super::owner::McpOwner;
use super::settings::{McpCommand, McpServerSettings};
use crate::processes::sandbox::{Confined, Sandbox};
use crate::processes::{Command, PipedProcess, Runner};

/// Starts programs of servers. The server has one.
#[derive(Clone, Debug)]
pub(crate) struct McpLauncher {
    pub(crate) runner: Runner,
    pub(crate) sandboxes: McpSandboxes,
    /// Where a server works that names no directory.
    pub(crate) workspace: PathBuf,
}

/// What holds the programs back.
#[derive(Clone, Debug)]
pub(crate) enum McpSandboxes {
    /// The operator wants none.
    Off,
    On {
        with_network: Sandbox,
        without_network: Sandbox,
        /// Nothing starts where no sandbox holds.
        is_required: bool,
    },
}

impl McpSandboxes {
    pub(crate) fn each(&self) -> impl Iterator<Item = &Sandbox> {
        let both = match self {
            Self::Off => None,
            Self::On { with_network, without_network, .. } => Some([with_network, without_network]),
        };
        both.into_iter().flatten()
    }
}

impl McpLauncher {
    /// The error says why it does not start.
    pub(super) async fn start(
        &self,
        server: &McpServerSettings,
        command: &McpCommand,
    ) -> Result<PipedProcess, String> {
        let confined = self.confined(server, command).await?;
        let variables = command.variables.iter();
        let variables = variables.map(|(name, value)| (name.into(), value.expose().into()));
        let to_run = Command {
            program: command.program.clone(),
            arguments: command.arguments.clone(),
            directory: self.directory(command),
            confinement: confined.as_ref().map(|confined| confined.confinement.clone()),
            kept_alive: confined.as_ref().map(Confined::guard),
        };
        self.runner.spawn_piped(&to_run, variables.collect()).map_err(|error| error.to_string())
    }

    fn directory(&self, command: &McpCommand) -> PathBuf {
        command.directory.clone().unwrap_or_else(|| self.workspace.clone())
    }

    async fn confined(
        &self,
        server: &McpServerSettings,
        command: &McpCommand,
    ) -> Result<Option<Confined>, String> {
        let McpSandboxes::On { with_network, without_network, is_required } = &self.sandboxes
        else {
            return unconfined(server, "the settings want no sandbox").map(|()| None);
        };
        let sandbox = if command.network { with_network } else { without_network };
        let roots = vec![self.workspace.clone()];
        let confined = sandbox.confine(roots, None).await;
        let confined = confined.map_err(|error| format!("the sandbox fails: {error}"))?;
        if confined.is_some() {
            return Ok(confined);
        }
        if *is_required {
            return Err("no sandbox holds on this machine, and the settings require one".into());
        }
        unconfined(server, "no sandbox holds")?;
        tracing::warn!(server = server.name, "no sandbox holds: this MCP server runs without");
        Ok(None)
    }
}

/// Whether a server may run without a sandbox: only one of the operator's own, whose command the
/// operator wrote. A repository wrote that of a workspace's server.
fn unconfined(server: &McpServerSettings, why: &str) -> Result<(), String> {
    match server.owner {
        McpOwner::Operator => Ok(()),
        McpOwner::Workspace(_) => {
            Err(format!("{why}, and a server of the workspace's .mcp.json does not run without"))
        }
    }
}
