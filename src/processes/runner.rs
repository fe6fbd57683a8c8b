//! Starts commands: makes their supervisor's program and job, and says why one did not run.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(test)]
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::bwrap::Entrance;
use super::command_state::StopReason;
use super::confinement::{Confinement, Level};
use super::connection::LaunchPlace;
use super::environment::Environment;
pub(crate) use super::orphans::KeptAlive;
use super::outcome::{Finished, Limits, RunError};
use super::output::KeepOutput;
use super::piped::{PipedLaunch, PipedProcess};
use super::probe::Targets;
use super::protocol::{Input, Job};
use super::running::{Launch, Running};
use super::starter::SupervisorStarter;
use super::worker::Workers;

/// Starts programs. The server has one.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    starter: Arc<SupervisorStarter>,
    environment: Environment,
    umask: Option<u32>,
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

impl Command {
    fn is_inside_bwrap(&self) -> bool {
        self.confinement.as_deref().is_some_and(|it| it.level == Level::Bwrap)
    }

    fn place(&self) -> LaunchPlace {
        LaunchPlace { program: self.program.clone(), directory: self.directory.clone() }
    }
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
        let entrance = Entrance::new(&supervisor);
        let starter = Arc::new(SupervisorStarter::new(supervisor, entrance));
        Self { starter, environment, umask }
    }

    /// Starts programs with further variables, less those that no command is given.
    pub(crate) fn with_variables<'a>(
        &self,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        Self { environment: self.environment.with_variables(variables), ..self.clone() }
    }

    /// Starts programs with the variables of a login shell.
    pub(crate) fn with_login(&self, variables: &[(String, String)]) -> Self {
        Self { environment: self.environment.with_login(variables), ..self.clone() }
    }

    /// What `~` stands for in commands.
    pub(crate) fn home(&self) -> PathBuf {
        self.environment.home()
    }

    /// Looks for bubblewrap elsewhere.
    #[cfg(test)]
    pub(super) fn with_bwrap(self, bwrap: PathBuf) -> Self {
        let supervisor = self.supervisor().to_owned();
        let entrance = Entrance::among(vec![bwrap], &supervisor);
        Self { starter: Arc::new(SupervisorStarter::new(supervisor, entrance)), ..self }
    }

    /// Ends supervisors that were started ahead and have waited this long. Zero: none is started.
    #[cfg(test)]
    pub(crate) fn with_spare_patience(self, patience: Duration) -> Self {
        let program = self.supervisor().to_owned();
        let entrance = Entrance::new(&program);
        let starter = SupervisorStarter::new(program, entrance).with_patience(patience);
        Self { starter: Arc::new(starter), ..self }
    }

    #[cfg(test)]
    pub(super) fn starter(&self) -> &SupervisorStarter {
        &self.starter
    }

    /// Starts the same program for other work.
    pub(crate) fn workers(&self) -> Workers {
        Workers::new(self.supervisor())
    }

    /// Our own binary.
    pub(super) fn supervisor(&self) -> &Path {
        self.starter.program()
    }

    pub(crate) fn environment(&self) -> &Environment {
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
        job.input = Input::Text(input.stdin);
        self.run_job(command, job, limits, cancelled).await
    }

    /// Starts a program that stays, with three pipes, and with `variables` besides those of every
    /// command. It runs until it ends, or until its handle is dropped.
    pub(crate) fn spawn_piped(
        &self,
        command: &Command,
        variables: Vec<(OsString, OsString)>,
    ) -> Result<PipedProcess, RunError> {
        let mut job = self.job(command);
        job.environment.extend(variables);
        job.input = Input::Pipe;
        check_text(command, &job)?;
        let program = self.starter.command(command.confinement.as_deref())?;
        let kept_alive = command.kept_alive.clone();
        let launch =
            PipedLaunch { job, is_inside_bwrap: command.is_inside_bwrap(), place: command.place() };
        PipedProcess::start(program, kept_alive, launch).map_err(RunError::Supervisor)
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
        check_text(command, &job)?;
        let kept_alive = command.kept_alive.clone();
        let (is_inside_bwrap, place) = (command.is_inside_bwrap(), command.place());
        let launch = Launch { job, limits, keep, is_inside_bwrap, place, kept_alive };
        Running::start(Arc::clone(&self.starter), launch)
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
            input: Input::Nothing,
        }
    }
}

/// Refuses what no program can be given.
fn check_text(command: &Command, job: &Job) -> Result<(), RunError> {
    let variables = job.environment.iter().flat_map(|(name, value)| [name, value]);
    let mut bytes = variables.map(|text| text.as_bytes());
    let has_zero = command.arguments.iter().any(|argument| argument.contains('\0'))
        || bytes.any(|bytes| bytes.contains(&0));
    if has_zero { Err(RunError::Nul) } else { Ok(()) }
}
