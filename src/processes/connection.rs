//! Starts a supervisor, and talks to it over the socket between the two.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, pipe};

use super::command_state::CommandEvent;
use super::descriptors;
use super::orphans::Supervisor;
use super::outcome::RunError;
use super::protocol::{self, LaunchStep, StartFailure};
use crate::text::printable_path;

/// Longer than any report: a path of 4096 bytes takes 16 kB in it. A command may get hold
/// of the socket and write anything.
const MAX_REPORT_BYTES: usize = 64 << 10;

/// A supervisor that was started, and the two directions of its socket.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) supervisor: Supervisor,
    pub(super) reports: Reports,
    pub(super) orders: Orders,
}

/// A supervisor that has not been given its job yet.
#[derive(Debug)]
pub(super) struct ReadySupervisor {
    pub(super) connection: Connection,
    /// What it and the command print.
    pub(super) output: pipe::Receiver,
    /// Standard error, where it is kept apart.
    pub(super) errors: Option<pipe::Receiver>,
    /// It was started before there was a command.
    pub(super) is_spare: bool,
}

/// The supervisor's reports.
#[derive(Debug)]
pub(super) struct Reports {
    socket: BufReader<OwnedReadHalf>,
    /// What has come of the next report.
    line: Vec<u8>,
}

/// The orders to the supervisor. It ends the tree when this is dropped.
#[derive(Debug)]
pub(super) struct Orders {
    socket: OwnedWriteHalf,
}

/// Where a command is started, for errors.
#[derive(Clone, Debug)]
pub(super) struct LaunchPlace {
    pub(super) program: PathBuf,
    pub(super) directory: PathBuf,
}

impl Connection {
    /// `stdout` and `stderr` are the command's.
    pub(super) fn start(
        command: tokio::process::Command,
        stdout: OwnedFd,
        stderr: OwnedFd,
    ) -> io::Result<Self> {
        Self::start_with(command, stdout, stderr, Supervisor::start)
    }

    /// The same for a supervisor whose job comes later, or never.
    pub(super) fn start_ahead(
        command: tokio::process::Command,
        stdout: OwnedFd,
        stderr: OwnedFd,
    ) -> io::Result<Self> {
        Self::start_with(command, stdout, stderr, Supervisor::start_ahead)
    }

    fn start_with(
        mut command: tokio::process::Command,
        stdout: OwnedFd,
        stderr: OwnedFd,
        start: impl FnOnce(&mut tokio::process::Command) -> io::Result<Supervisor>,
    ) -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        command
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(stdout)
            .stderr(stderr);
        let supervisor = start(&mut command)?;
        let (reports, socket) = UnixStream::from_std(ours)?.into_split();
        let reports = Reports { socket: BufReader::new(reports), line: Vec::new() };
        Ok(Self { supervisor, reports, orders: Orders { socket } })
    }
}

impl Reports {
    /// The next report. May be dropped and called again: nothing of a report is lost. The empty
    /// line of a closed socket, or of a read error, is not one.
    pub(super) async fn next(&mut self) -> CommandEvent {
        let room = MAX_REPORT_BYTES.saturating_sub(self.line.len());
        _ = (&mut self.socket).take(room as u64).read_until(b'\n', &mut self.line).await;
        let event = protocol::parse(&self.line);
        self.line.clear();
        event.map_or(CommandEvent::SupervisorGone, CommandEvent::Reported)
    }
}

impl Orders {
    /// Ignores a closed socket: the end of the reports shows that the supervisor is gone.
    pub(super) async fn tell(&mut self, message: &impl Serialize) {
        _ = self.socket.write_all(&protocol::line(message)).await;
    }

    /// Hands a descriptor to a supervisor that waits for it. Nothing else is on its way to it,
    /// so the socket has room.
    pub(super) fn hand(&self, descriptor: OwnedFd) {
        let socket: &UnixStream = self.socket.as_ref();
        _ = descriptors::send(socket, descriptor);
    }
}

impl LaunchPlace {
    /// Says why nothing ran.
    pub(super) fn error(self, failure: StartFailure) -> RunError {
        let Self { program, directory } = self;
        let StartFailure { step, errno, place } = failure;
        let source = io::Error::from_raw_os_error(errno);
        match step {
            LaunchStep::Directory => RunError::Directory { directory, source },
            LaunchStep::View if source.raw_os_error() == Some(libc::ESTALE) => RunError::Exchanged,
            LaunchStep::Confine | LaunchStep::View => RunError::Confinement(match place {
                Some(place) => {
                    let path = printable_path(place.path());
                    format!("{path}: {source}")
                }
                None => source.to_string(),
            }),
            LaunchStep::Execute => RunError::Program { program, source },
        }
    }
}
