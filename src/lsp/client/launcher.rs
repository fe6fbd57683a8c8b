//! Starts language servers through the supervisor: with the environment of commands, and in the
//! sandbox without a network.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::program::{Launch, ProgramEnd, ServerProgram, StartedProgram};
use super::rustup;
use crate::blocking::FILES;
use crate::processes::confinement::{Confinement, Network, Shown};
use crate::processes::sandbox::{Confined, Sandbox};
use crate::processes::{Command, Exit, PipedEnd, PipedProcess, RunError, Runner};

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
        let confined = if program.is_confined {
            Some(self.confined(program).await.map_err(|error| unstarted(&error))?)
        } else {
            None
        };
        let (confinement, kept_alive) = match confined {
            Some((confinement, confined)) => (Some(confinement), Some(confined.guard())),
            None => (None, None),
        };
        let command = Command {
            program: executable(&program.program),
            arguments: program.arguments.clone(),
            directory: program.root.clone(),
            confinement,
            kept_alive,
        };
        let variables = self.variables(program).await.map_err(|error| unstarted(&error))?;
        let started = self.runner.spawn_piped(&command, variables);
        let PipedProcess { stdin, stdout, stderr, mut tree } =
            started.map_err(|error| unstarted(&error))?;
        Ok(StartedProgram {
            input: Box::new(stdin),
            output: Box::new(stdout),
            errors: Box::new(stderr),
            end: ProgramEnd::new(async move { reason(tree.ended().await) }),
        })
    }

    async fn variables(
        &self,
        program: &ServerProgram,
    ) -> Result<Vec<(OsString, OsString)>, String> {
        if program.is_trusted {
            return Ok(Vec::new());
        }
        let (home, roots) = (self.runner.home(), program.roots.clone());
        let program = program.program.clone();
        let variables = FILES.run(move || rustup::variables(&program, &home, &roots)).await;
        variables.map_err(|error| error.to_string())?.map_err(ToOwned::to_owned)
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

/// Why a program has ended, in words that follow "it has ended".
fn reason(ended: Result<PipedEnd, RunError>) -> Option<String> {
    match ended {
        Err(error) => Some(error.to_string()),
        Ok(PipedEnd { exit: Some(Exit::Code(code)), .. }) => Some(format!("exit code {code}")),
        Ok(PipedEnd { exit: Some(Exit::Signal(signal)), .. }) => Some(format!("signal {signal}")),
        Ok(PipedEnd { exit: None, .. }) => None,
    }
}

/// The program to start: of the packages of Node the file itself, because the sandbox need not
/// show the place of the link.
fn executable(program: &Path) -> PathBuf {
    let real = program.canonicalize().ok();
    let is_of_node = |real: &PathBuf| real.iter().any(|name| name == "node_modules");
    real.filter(is_of_node).unwrap_or_else(|| program.to_owned())
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
