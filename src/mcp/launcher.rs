//! Starts the program of a server, in the sandbox where there is one.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use super::owner::McpOwner;
use super::settings::{McpCommand, McpServerSettings};
use crate::blocking::FILES;
use crate::processes::sandbox::{Confined, Sandbox};
use crate::processes::{Command, PipedProcess, Runner};

/// Starts programs of servers. The server has one.
#[derive(Clone, Debug)]
pub(crate) struct McpLauncher {
    pub(crate) runner: Runner,
    pub(crate) sandboxes: McpSandboxes,
    /// Where a server works that names no directory.
    pub(crate) workspace: PathBuf,
    /// Where each server has a directory of its own, which it finds again at its next start.
    pub(crate) kept: PathBuf,
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

    fn for_command(&self, command: &McpCommand) -> Option<&Sandbox> {
        match self {
            Self::Off => None,
            Self::On { with_network, .. } if command.network => Some(with_network),
            Self::On { without_network, .. } => Some(without_network),
        }
    }

    fn are_required(&self) -> bool {
        matches!(self, Self::On { is_required: true, .. })
    }
}

impl McpLauncher {
    /// The error says why it does not start.
    pub(super) async fn start(
        &self,
        server: &McpServerSettings,
        command: &McpCommand,
    ) -> Result<PipedProcess, String> {
        let kept = self.kept_if_confined(server, command).await;
        let confined = self.confined(server, command, kept.clone()).await?;
        let mut variables = Vec::new();
        // Without a sandbox the home is there, with what other programs have downloaded.
        if confined.is_some()
            && let Some(kept) = &kept
        {
            variables = self.runner.environment().kept_caches(kept);
        }
        // Of a variable that is there twice, the last value counts.
        let own = command.variables.iter();
        variables.extend(own.map(|(name, value)| (name.into(), value.expose().into())));
        let to_run = Command {
            program: command.program.clone(),
            arguments: command.arguments.clone(),
            directory: self.directory(command),
            confinement: confined.as_ref().map(|confined| confined.confinement.clone()),
            kept_alive: confined.as_ref().map(Confined::guard),
        };
        self.runner.spawn_piped(&to_run, variables).map_err(|error| error.to_string())
    }

    fn directory(&self, command: &McpCommand) -> PathBuf {
        let directory = command.directory.as_ref();
        directory.map_or_else(|| self.workspace.clone(), |named| self.workspace.join(named))
    }

    /// Forgets what a server may have installed in part: one that is ended while it installs would
    /// fail for ever. What it has downloaded stays. Blocks.
    pub(super) fn forget_installed(&self, server: &McpServerSettings) {
        let npm = self.kept.join(server.kept_name()).join("npm");
        // A link in its place is the server's doing, and leads elsewhere.
        let is_directory = fs::symlink_metadata(&npm).is_ok_and(|found| found.is_dir());
        if is_directory {
            // Where there is none, nothing is lost.
            _ = fs::remove_dir_all(npm.join("_npx"));
        }
    }

    /// The directory that a server keeps in its sandbox. Without a sandbox it needs none.
    async fn kept_if_confined(
        &self,
        server: &McpServerSettings,
        command: &McpCommand,
    ) -> Option<PathBuf> {
        let sandbox = self.sandboxes.for_command(command)?;
        sandbox.level().await?;
        let launcher = self.clone();
        let name = server.kept_name();
        FILES.run(move || launcher.kept_directory(&name)).await.ok().flatten()
    }

    /// The directory of this name. `None`: it cannot be made, and the server does without. Blocks.
    fn kept_directory(&self, name: &str) -> Option<PathBuf> {
        let directory = self.kept.join(name);
        for made in [&self.kept, &directory] {
            // The state directory is made by who runs the server, and not here.
            match DirBuilder::new().mode(0o700).create(made) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return None,
                _ => {}
            }
        }
        let directory = directory.canonicalize().ok()?;
        // Where the state directory lies in what is shown, it is closed, with all that is in it.
        let shown = self.sandboxes.each().flat_map(Sandbox::writable).chain([&self.workspace]);
        let is_closed = shown.into_iter().any(|shown| directory.starts_with(shown));
        (!is_closed).then_some(directory)
    }

    async fn confined(
        &self,
        server: &McpServerSettings,
        command: &McpCommand,
        kept: Option<PathBuf>,
    ) -> Result<Option<Confined>, String> {
        let Some(sandbox) = self.sandboxes.for_command(command) else {
            return unconfined(server, "the settings want no sandbox").map(|()| None);
        };
        let roots = vec![self.workspace.clone()];
        let confined = match kept {
            Some(kept) => sandbox.confine_with_kept(roots, kept).await,
            None => sandbox.confine(roots, None).await,
        };
        let confined = confined.map_err(|error| format!("the sandbox fails: {error}"))?;
        if confined.is_some() {
            return Ok(confined);
        }
        if self.sandboxes.are_required() {
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
