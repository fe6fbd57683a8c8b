//! Starts language servers through the supervisor: with the environment of commands, and in the
//! sandbox without a network.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::program::{Launch, ServerProgram, StartedProgram};
use crate::processes::confinement::{Confinement, Network, Shown};
use crate::processes::sandbox::{Confined, Sandbox};
use crate::processes::{Command, PipedProcess, Runner};

#[derive(Debug)]
pub(super) struct Launcher {
    runner: Runner,
    sandbox: Sandbox,
}

impl Launcher {
    pub(super) fn new(runner: Runner, sandbox: Sandbox) -> Self {
        Self { runner, sandbox }
    }

    async fn start(&self, program: &ServerProgram) -> Result<StartedProgram, String> {
        let unstarted = |error: &dyn std::fmt::Display| format!("could not be started: {error}");
        let confined = match program.is_confined {
            true => Some(self.confined(program).await.map_err(|error| unstarted(&error))?),
            false => None,
        };
        let (confinement, kept_alive) = match confined {
            Some((confinement, confined)) => (Some(confinement), Some(confined.guard())),
            None => (None, None),
        };
        let command = Command {
            program: program.program.clone(),
            arguments: program.arguments.clone(),
            directory: program.root.clone(),
            confinement,
            kept_alive,
        };
        let started = self.runner.spawn_piped(&command, Vec::new());
        let PipedProcess { stdin, stdout, stderr, tree } =
            started.map_err(|error| unstarted(&error))?;
        Ok(StartedProgram {
            input: Box::new(stdin),
            output: Box::new(stdout),
            errors: Box::new(stderr),
            process: Box::new(tree),
        })
    }

    /// The sandbox of commands, without a network whatever commands have, and with the place
    /// that the program is installed in.
    async fn confined(
        &self,
        program: &ServerProgram,
    ) -> Result<(Arc<Confinement>, Confined), String> {
        let confined = self.sandbox.confine(program.roots.clone(), None).await;
        let confined = confined.map_err(|error| error.to_string())?;
        let confined = confined.ok_or("the sandbox is not there any more")?;
        let mut confinement = Confinement::clone(&confined.confinement);
        confinement.network = Network::None;
        let is_shown = |place: &Path| {
            let shown = confinement.readable.iter().chain(&confinement.writable);
            shown.into_iter().any(|shown| place.starts_with(shown.from.path()))
        };
        let installed = installation(&program.program).filter(|place| !is_shown(place));
        confinement.readable.extend(installed.map(|place| Shown::as_it_is(&place)));
        Ok((Arc::new(confinement), confined))
    }
}

impl Launch for Launcher {
    fn launch<'a>(
        &'a self,
        program: &'a ServerProgram,
    ) -> BoxFuture<'a, Result<StartedProgram, String>> {
        self.start(program).boxed()
    }
}

/// The directory that a program needs besides its own, where it is known to hold programs alone:
/// a virtual environment of Python, or the packages of Node. Reads the disk.
fn installation(program: &Path) -> Option<PathBuf> {
    let environment = program.parent()?.parent()?;
    if environment.join("pyvenv.cfg").is_file() {
        return environment.canonicalize().ok();
    }
    let real = program.canonicalize().ok()?;
    let packages =
        real.ancestors().filter(|it| it.file_name().is_some_and(|name| name == "node_modules"));
    packages.last().map(Path::to_owned)
}
