//! Starts supervisors, and keeps one of each kind started ahead of its command.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe;

use super::bwrap::Entrance;
use super::confinement::{Confinement, Level};
use super::connection::{Connection, ReadySupervisor};
use super::outcome::RunError;
use super::protocol::{Input, Job};
use super::spare::{SpareSlot, WorkBegun};
use super::supervisor;

/// Starts supervisors. Clones of a runner share one.
#[derive(Debug)]
pub(super) struct SupervisorStarter {
    program: PathBuf,
    entrance: Entrance,
    plain: SpareSlot,
    inside_bwrap: SpareSlot,
}

/// Where a supervisor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SupervisorKind {
    /// As a child of the server.
    Plain,
    /// As the first process of bubblewrap's namespaces.
    InsideBwrap,
}

impl SupervisorKind {
    pub(super) fn of(confinement: Option<&Confinement>) -> Self {
        match confinement.map(|confinement| confinement.level) {
            Some(Level::Bwrap) => Self::InsideBwrap,
            Some(Level::Landlock) | None => Self::Plain,
        }
    }
}

impl SupervisorStarter {
    pub(super) fn new(program: PathBuf, entrance: Entrance) -> Self {
        Self { program, entrance, plain: SpareSlot::default(), inside_bwrap: SpareSlot::default() }
    }

    /// Our own binary.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// The spare supervisor if there is one that fits the job, else a new one.
    pub(super) fn ready(&self, job: &Job) -> Result<ReadySupervisor, RunError> {
        match self.spare_for(job) {
            Some(spare) => Ok(spare),
            None => self.started(job),
        }
    }

    fn spare_for(&self, job: &Job) -> Option<ReadySupervisor> {
        // A spare has one pipe for all output.
        if !matches!(job.input, Input::Nothing) {
            return None;
        }
        let kind = SupervisorKind::of(job.confinement.as_ref());
        self.slot(kind).take(self.executed(kind)?)
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
        self.slot(kind).fill_later(move || {
            if let Some(starter) = starter.upgrade() {
                starter.fill(kind);
            }
        })
    }

    fn fill(&self, kind: SupervisorKind) {
        let Some(executed) = self.executed(kind) else { return };
        self.slot(kind).fill(executed, || match kind {
            SupervisorKind::Plain => {
                let started = with_pipes(self.plain_command(), false, Connection::start_ahead)?;
                Ok(ReadySupervisor { is_spare: true, ..started })
            }
            SupervisorKind::InsideBwrap => self.bwrap_started_ahead(),
        });
    }

    /// Bubblewrap reads its arguments from where its standard output would be: any other
    /// descriptor would be inherited by whatever else this process starts meanwhile.
    fn bwrap_started_ahead(&self) -> io::Result<ReadySupervisor> {
        let (program, list) = self.entrance.command_ahead().map_err(io::Error::other)?;
        let mut command = tokio::process::Command::new(program);
        command.args(list);
        let (arguments, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        let (output, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut connection = Connection::start_ahead(command, arguments, stderr)?;
        connection.orders.tell_arguments_through(pipe::Sender::from_owned_fd(ours)?);
        let output = pipe::Receiver::from_owned_fd(output)?;
        Ok(ReadySupervisor { connection, output, errors: None, is_spare: true })
    }

    /// The program that is executed for a supervisor of this kind. `None`: there is none.
    fn executed(&self, kind: SupervisorKind) -> Option<&Path> {
        match kind {
            SupervisorKind::Plain => Some(&self.program),
            SupervisorKind::InsideBwrap => self.entrance.bwrap(),
        }
    }

    pub(super) fn slot(&self, kind: SupervisorKind) -> &SpareSlot {
        match kind {
            SupervisorKind::Plain => &self.plain,
            SupervisorKind::InsideBwrap => &self.inside_bwrap,
        }
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
