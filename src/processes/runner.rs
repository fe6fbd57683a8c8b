//! Starts commands: makes their supervisor's program and job, and says why one did not run.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::bwrap::Entrance;
use super::command_state::{EndCause, StopReason};
use super::confinement::{Confinement, Level};
use super::environment::Environment;
pub(crate) use super::orphans::KeptAlive;
use super::output::{CommandOutput, KeepOutput};
use super::probe::Targets;
use super::protocol::{Exit, FinalDirectory, Job};
use super::running::{Launch, Running};
use super::supervisor;

/// Starts programs. The server has one.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    supervisor: PathBuf,
    environment: Environment,
    umask: Option<u32>,
    entrance: Arc<Entrance>,
}

/// A program to run.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) directory: PathBuf,
    /// `None`: it may do all that this user can.
    pub(crate) confinement: Option<Arc<Confinement>>,
    pub(crate) kept_alive: Option<KeptAlive>,
}

/// What a program is given besides its command line. Its standard error is then kept apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramInput {
    /// Standard input, which ends after it.
    pub(crate) stdin: String,
    /// Variables besides those of every command.
    pub(crate) variables: Vec<(OsString, OsString)>,
}

/// The limits of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// `None`: whoever has the command ends it.
    pub(crate) time: Option<Duration>,
    /// The command is ended after this many bytes of output.
    pub(crate) output: u64,
    /// How many characters of output are kept.
    pub(crate) shown: usize,
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Standard output and standard error, interleaved as they came.
    pub(crate) output: CommandOutput,
    /// Standard error of a program that was given input; it is then not part of `output`.
    pub(crate) errors: CommandOutput,
    pub(crate) cause: EndCause,
    /// `None` if its end was not observed.
    pub(crate) exit: Option<Exit>,
    pub(crate) moved: FinalDirectory,
    /// How many processes it left running. They have been ended.
    pub(crate) leftovers: usize,
    /// How many processes could not be ended.
    pub(crate) stuck: usize,
    /// The supervisor had the command. Else nothing of it ran.
    pub(super) is_taken: bool,
}

/// Why a command did not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("the working directory {} cannot be entered: {source}", .directory.display())]
    Directory { directory: PathBuf, source: io::Error },
    #[error("{} cannot be run: {source}", .program.display())]
    Program { program: PathBuf, source: io::Error },
    /// Nothing ran: a command never runs with less than it was given.
    #[error("the sandbox could not be put in force: {0}")]
    Confinement(String),
    #[error("the command holds a NUL character; a program cannot be given one")]
    Nul,
    #[error("the process that looks after commands could not be started: {0}")]
    Supervisor(io::Error),
}

impl Runner {
    /// `supervisor` is our own binary, `/proc/self/exe` except in tests. `umask` is for
    /// commands, if it differs from the server's.
    pub(crate) fn new(
        supervisor: impl Into<PathBuf>,
        environment: Environment,
        umask: Option<u32>,
    ) -> Self {
        let supervisor = supervisor.into();
        Self { entrance: Arc::new(Entrance::new(&supervisor)), supervisor, environment, umask }
    }

    /// Starts programs with further variables, less those that no command is given.
    pub(crate) fn with_variables<'a>(
        &self,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        Self { environment: self.environment.with_variables(variables), ..self.clone() }
    }

    /// Looks for bubblewrap elsewhere.
    #[cfg(test)]
    pub(super) fn with_bwrap(self, bwrap: PathBuf) -> Self {
        Self { entrance: Arc::new(Entrance::among(vec![bwrap], &self.supervisor)), ..self }
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Starts `command`. It runs until it and everything that it started has ended, or until the
    /// handle is dropped.
    pub(crate) fn spawn(
        &self,
        command: &Command,
        limits: Limits,
        keep: KeepOutput,
    ) -> Result<Running, RunError> {
        self.spawn_job(command, self.job(command), limits, keep)
    }

    /// Runs `command` to its end. Dropping the future, or `cancelled`, ends the whole tree.
    pub(crate) async fn run(
        &self,
        command: &Command,
        limits: Limits,
        cancelled: &CancellationToken,
    ) -> Result<Finished, RunError> {
        self.run_job(command, self.job(command), limits, cancelled).await
    }

    /// Like [`Self::run`], with something on standard input, and standard error apart.
    pub(crate) async fn run_with_input(
        &self,
        command: &Command,
        input: ProgramInput,
        limits: Limits,
        cancelled: &CancellationToken,
    ) -> Result<Finished, RunError> {
        let mut job = self.job(command);
        job.environment.extend(input.variables);
        job.input = Some(input.stdin);
        self.run_job(command, job, limits, cancelled).await
    }

    /// Like [`Self::run`]. The command first attacks `probes` and tells about it.
    pub(super) async fn run_probing(
        &self,
        command: &Command,
        probes: Option<Targets>,
        limits: Limits,
        cancelled: &CancellationToken,
    ) -> Result<Finished, RunError> {
        let job = Job { probes, ..self.job(command) };
        self.run_job(command, job, limits, cancelled).await
    }

    async fn run_job(
        &self,
        command: &Command,
        job: Job,
        limits: Limits,
        cancelled: &CancellationToken,
    ) -> Result<Finished, RunError> {
        let mut running = self.spawn_job(command, job, limits, KeepOutput::Nothing)?;
        tokio::select! {
            finished = running.ended() => return finished,
            () = cancelled.cancelled() => running.control().stop(StopReason::Cancelled),
        }
        running.ended().await
    }

    fn spawn_job(
        &self,
        command: &Command,
        job: Job,
        limits: Limits,
        keep: KeepOutput,
    ) -> Result<Running, RunError> {
        if command.arguments.iter().any(|argument| argument.contains('\0')) {
            return Err(RunError::Nul);
        }
        let confinement = command.confinement.as_deref();
        let program = self.supervisor_in(confinement)?;
        let is_inside_bwrap = confinement.is_some_and(|it| it.level == Level::Bwrap);
        let kept_alive = command.kept_alive.clone();
        let launch = Launch {
            job,
            limits,
            keep,
            is_inside_bwrap,
            program: command.program.clone(),
            directory: command.directory.clone(),
        };
        Running::start(program, kept_alive, launch).map_err(RunError::Supervisor)
    }

    fn job(&self, command: &Command) -> Job {
        let confinement = command.confinement.as_deref();
        Job {
            program: command.program.clone().into(),
            arguments: command.arguments.clone(),
            environment: self.environment.confined(confinement),
            directory: OsString::from(&command.directory),
            umask: self.umask,
            confinement: confinement.cloned(),
            probes: None,
            input: None,
        }
    }

    /// The supervisor's program: in bubblewrap at that level, else as it is.
    fn supervisor_in(
        &self,
        confinement: Option<&Confinement>,
    ) -> Result<tokio::process::Command, RunError> {
        let Some(confinement) = confinement.filter(|it| it.level == Level::Bwrap) else {
            let mut command = tokio::process::Command::new(&self.supervisor);
            command.arg0("toolhand").arg(supervisor::COMMAND);
            return Ok(command);
        };
        let (program, arguments) =
            self.entrance.command(confinement).map_err(RunError::Confinement)?;
        let mut command = tokio::process::Command::new(program);
        command.args(arguments);
        Ok(command)
    }
}
