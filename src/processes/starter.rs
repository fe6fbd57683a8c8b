//! Starts supervisors, and keeps those started ahead that the next commands are likely to need.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe;
use tokio::time::sleep;

use super::bwrap::Entrance;
use super::confinement::{Confinement, Level};
use super::connection::{Connection, ReadySupervisor};
use super::outcome::RunError;
use super::protocol::{Input, Job};
use super::spare::{SpareNumber, Spares, WorkBegun};
use super::supervisor;
use super::supervisor_kind::{MountedView, SupervisorKind};

/// How long a spare waits for a command. It keeps what it has mounted from being given back.
const SPARE_PATIENCE: Duration = Duration::from_secs(300);

/// The capacity of a pipe.
const PIPE_BYTES: usize = 64 << 10;

/// Starts supervisors. Clones of a runner share one.
#[derive(Debug)]
pub(super) struct SupervisorStarter {
    program: PathBuf,
    entrance: Entrance,
    spares: Spares,
    /// How long a spare waits for a command. Zero: none is started.
    patience: Duration,
}

impl SupervisorStarter {
    pub(super) fn new(program: PathBuf, entrance: Entrance) -> Self {
        Self { program, entrance, spares: Spares::default(), patience: SPARE_PATIENCE }
    }

    /// Ends spares that have waited this long.
    #[cfg(test)]
    pub(super) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Our own binary.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// A spare of this kind if there is one that can be used, else a new supervisor for the job.
    pub(super) fn ready(
        &self,
        job: &Job,
        kind: Option<&SupervisorKind>,
    ) -> Result<ReadySupervisor, RunError> {
        match kind.and_then(|kind| self.spares.take(kind, self.executed(kind)?)) {
            Some(spare) => Ok(spare),
            None => self.started(job),
        }
    }

    /// A new supervisor, for this job alone.
    pub(super) fn started(&self, job: &Job) -> Result<ReadySupervisor, RunError> {
        let command = self.command(job.confinement.as_ref())?;
        let has_errors_apart = matches!(job.input, Input::Text(_));
        let started = with_pipes(command, has_errors_apart, Connection::start);
        started.map_err(RunError::Supervisor)
    }

    /// The supervisor's program: in bubblewrap at that level, else as it is.
    pub(super) fn command(
        &self,
        confinement: Option<&Confinement>,
    ) -> Result<tokio::process::Command, RunError> {
        let Some(confinement) = confinement.filter(|it| it.level == Level::Bwrap) else {
            return Ok(self.plain_command());
        };
        let (program, arguments) =
            self.entrance.command(confinement).map_err(RunError::Confinement)?;
        let mut command = tokio::process::Command::new(program);
        command.args(arguments);
        Ok(command)
    }

    fn plain_command(&self) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.arg0("toolhand").arg(supervisor::COMMAND);
        command
    }

    /// Starts a spare when the command has had a head start, or has ended: then its
    /// [`WorkBegun`] is dropped.
    pub(super) fn replace_spare(self: &Arc<Self>, kind: SupervisorKind) -> WorkBegun {
        let starter = Arc::downgrade(self);
        let patience = self.patience;
        self.spares.fill_later(async move {
            let Some(number) = starter.upgrade().and_then(|starter| starter.fill(&kind)) else {
                return;
            };
            sleep(patience).await;
            if let Some(starter) = starter.upgrade() {
                starter.spares.end(number);
            }
        })
    }

    fn fill(&self, kind: &SupervisorKind) -> Option<SpareNumber> {
        if self.patience.is_zero() {
            return None;
        }
        let executed = self.executed(kind)?;
        self.spares.fill(kind, executed, || match kind {
            SupervisorKind::Plain => {
                let started = with_pipes(self.plain_command(), false, Connection::start_ahead)?;
                Ok(ReadySupervisor { is_spare: true, ..started })
            }
            SupervisorKind::InsideBwrap(view) => self.bwrap_started_ahead(view),
        })
    }

    /// Bubblewrap reads its arguments from where its standard output would be: any other
    /// descriptor would be inherited by whatever else this process starts meanwhile. On its
    /// command line everybody could read them for as long as it waits.
    fn bwrap_started_ahead(&self, view: &MountedView) -> io::Result<ReadySupervisor> {
        let (program, list) = self.entrance.command_ahead().map_err(io::Error::other)?;
        let mut command = tokio::process::Command::new(program);
        command.args(list);
        let (arguments, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        let (output, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        if view.arguments().len() > PIPE_BYTES {
            return Err(io::Error::other("more arguments than a pipe takes"));
        }
        File::from(ours).write_all(view.arguments())?;
        let connection = Connection::start_ahead(command, arguments, stderr)?;
        let output = pipe::Receiver::from_owned_fd(output)?;
        Ok(ReadySupervisor { connection, output, errors: None, is_spare: true })
    }

    /// The program that is executed for a supervisor of this kind. `None`: there is none.
    fn executed(&self, kind: &SupervisorKind) -> Option<&Path> {
        match kind {
            SupervisorKind::Plain => Some(&self.program),
            SupervisorKind::InsideBwrap(_) => self.entrance.bwrap(),
        }
    }

    #[cfg(test)]
    pub(super) fn spares(&self) -> &Spares {
        &self.spares
    }
}

/// Starts a supervisor with pipes for what its command prints.
fn with_pipes(
    command: tokio::process::Command,
    has_errors_apart: bool,
    start: fn(tokio::process::Command, OwnedFd, OwnedFd) -> io::Result<Connection>,
) -> io::Result<ReadySupervisor> {
    let (output, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (errors, stderr) = if has_errors_apart {
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
        (Some(pipe::Receiver::from_owned_fd(reading)?), writing)
    } else {
        (None, stdout.try_clone()?)
    };
    let connection = start(command, stdout, stderr)?;
    let output = pipe::Receiver::from_owned_fd(output)?;
    Ok(ReadySupervisor { connection, output, errors, is_spare: false })
}
