//! Runs one command to its end: starts the supervisor, reads the output, and executes
//! what [`CommandState`] decides.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::command_state::{CommandEffect, CommandEvent, CommandState, EndCause};
use super::environment::Environment;
use super::orphans::Supervisor;
use super::output::Capture;
use super::protocol::{self, Exit, FinalDirectory, Job, LaunchStep, Order};
use super::supervisor;

/// The capacity of a pipe.
const READ_BYTES: usize = 64 << 10;

/// How long a supervisor may take to exit after it has reported that nothing is left. It
/// takes microseconds, or more on a busy machine.
const EXIT_PATIENCE: Duration = Duration::from_secs(3);

/// Longer than any report: a path of 4096 bytes takes 16 kB in it. A command may get hold
/// of the socket and write anything.
const MAX_REPORT_BYTES: usize = 64 << 10;

/// The largest capacity that a pipe can have.
const MAX_UNREAD_BYTES: usize = 1 << 20;

/// Starts programs. The server has one.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    supervisor: PathBuf,
    environment: Environment,
    umask: Option<u32>,
}

/// A program to run.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) directory: PathBuf,
}

/// The limits of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    /// The command is ended after this many bytes of output.
    pub(crate) output: u64,
    /// How many characters of output are kept.
    pub(crate) shown: usize,
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Standard output and standard error, interleaved as they came.
    pub(crate) output: Capture,
    pub(crate) cause: EndCause,
    /// `None` if its end was not observed.
    pub(crate) exit: Option<Exit>,
    pub(crate) moved: FinalDirectory,
    /// How many processes it left running. They have been ended.
    pub(crate) leftovers: usize,
    /// How many processes could not be ended.
    pub(crate) stuck: usize,
}

/// Why a command did not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("the working directory {} cannot be entered: {source}", .directory.display())]
    Directory { directory: PathBuf, source: io::Error },
    #[error("{} cannot be run: {source}", .program.display())]
    Program { program: PathBuf, source: io::Error },
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
        Self { supervisor: supervisor.into(), environment, umask }
    }

    /// Runs `command` until it and everything that it started has ended. Dropping the
    /// future, or `cancelled`, ends the whole tree.
    pub(crate) async fn run(
        &self,
        command: &Command,
        limits: Limits,
        cancelled: &CancellationToken,
    ) -> Result<Finished, RunError> {
        if command.arguments.iter().any(|argument| argument.contains('\0')) {
            return Err(RunError::Nul);
        }
        let mut run = self.start(limits).map_err(RunError::Supervisor)?;
        run.tell(&self.job(command)).await;
        let finished = run.watch(limits, cancelled).await;
        finished.map_err(|(step, source)| match step {
            LaunchStep::Directory => {
                RunError::Directory { directory: command.directory.clone(), source }
            }
            LaunchStep::Execute => RunError::Program { program: command.program.clone(), source },
        })
    }

    fn job(&self, command: &Command) -> Job {
        Job {
            program: command.program.clone().into(),
            arguments: command.arguments.clone(),
            environment: self.environment.variables().to_vec(),
            directory: OsString::from(&command.directory),
            umask: self.umask,
        }
    }

    fn start(&self, limits: Limits) -> io::Result<Run> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut command = tokio::process::Command::new(&self.supervisor);
        command
            .arg0("toolhand")
            .arg(supervisor::COMMAND)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(writing.try_clone()?)
            .stderr(writing);
        let supervisor = Supervisor::start(&mut command)?;
        let (reports, orders) = UnixStream::from_std(ours)?.into_split();
        Ok(Run {
            supervisor,
            reports: BufReader::new(reports),
            orders,
            output: Some(pipe::Receiver::from_owned_fd(reading)?),
            captured: Capture::new(limits.shown),
            steps: CommandState::new(),
        })
    }
}

/// A running command.
struct Run {
    supervisor: Supervisor,
    reports: BufReader<OwnedReadHalf>,
    /// The supervisor ends the tree when this is dropped.
    orders: OwnedWriteHalf,
    output: Option<pipe::Receiver>,
    captured: Capture,
    steps: CommandState,
}

/// What the loop wakes up for.
enum Woken {
    Report,
    Output(usize),
    Deadline,
    Cancelled,
}

impl Run {
    async fn watch(
        mut self,
        limits: Limits,
        cancelled: &CancellationToken,
    ) -> Result<Finished, (LaunchStep, io::Error)> {
        let mut deadline = Box::pin(sleep(limits.time));
        let mut line = Vec::new();
        let mut piece = vec![0; READ_BYTES];
        let mut is_cancelled = false;
        loop {
            let woken = tokio::select! {
                () = next_report(&mut self.reports, &mut line) => Woken::Report,
                read = next_piece(&mut self.output, &mut piece) => Woken::Output(read),
                () = &mut deadline => Woken::Deadline,
                () = cancelled.cancelled(), if !is_cancelled => Woken::Cancelled,
            };
            is_cancelled |= matches!(woken, Woken::Cancelled);
            let event = match woken {
                Woken::Report => {
                    let event = reported(&line);
                    line.clear();
                    event
                }
                Woken::Output(read) => match self.take(&piece[..read], limits) {
                    Some(event) => event,
                    None => continue,
                },
                Woken::Deadline => CommandEvent::Deadline,
                Woken::Cancelled => CommandEvent::Cancelled,
            };
            let effect = self.steps.step(event);
            if self.act(effect, deadline.as_mut()).await {
                return self.finish(&mut piece).await;
            }
        }
    }

    /// Takes output. Returns an event if the output has closed or is too much.
    fn take(&mut self, piece: &[u8], limits: Limits) -> Option<CommandEvent> {
        if piece.is_empty() {
            self.output = None;
            return Some(CommandEvent::OutputClosed);
        }
        self.captured.push(piece);
        (limits.output < self.captured.bytes()).then_some(CommandEvent::TooMuchOutput)
    }

    /// Executes an effect. Returns whether the run is over.
    async fn act(&mut self, effect: CommandEffect, mut deadline: Pin<&mut Sleep>) -> bool {
        match effect {
            CommandEffect::Nothing => {}
            CommandEffect::Wait(time) => deadline.as_mut().reset(Instant::now() + time),
            CommandEffect::End { grace, then } => {
                self.tell(&Order::End { grace }).await;
                deadline.as_mut().reset(Instant::now() + then);
            }
            CommandEffect::Finish => return true,
        }
        false
    }

    /// Ignores a closed socket: the end of the reports shows that the supervisor is gone.
    async fn tell(&mut self, message: &impl serde::Serialize) {
        _ = self.orders.write_all(&protocol::line(message)).await;
    }

    /// The reports may be forged. So this first makes everything end; what the server
    /// finds then counts more than the reports.
    async fn finish(mut self, piece: &mut [u8]) -> Result<Finished, (LaunchStep, io::Error)> {
        let patience = if self.steps.is_over { EXIT_PATIENCE } else { Duration::ZERO };
        let ended = self.supervisor.end(patience).await;
        if ended.in_order
            && ended.orphans == 0
            && let Some((step, errno)) = self.steps.not_started
        {
            return Err((step, io::Error::from_raw_os_error(errno)));
        }
        // All writers have ended, so their output is in the pipe. A foreign process may
        // hold it open; do not wait for that one.
        let mut unread = MAX_UNREAD_BYTES;
        while let Some(Ok(count @ 1..)) = self.output.as_ref().map(|output| output.try_read(piece))
            && count <= unread
        {
            self.captured.push(&piece[..count]);
            unread -= count;
        }
        self.captured.finish();
        Ok(Finished {
            output: self.captured,
            cause: self.steps.cause,
            exit: self.steps.exit.filter(|_| ended.orphans == 0),
            moved: self.steps.moved,
            leftovers: self.steps.leftovers,
            stuck: ended.left,
        })
    }
}

/// Reads to the end of a report, or up to the most that one may have.
async fn next_report(reports: &mut BufReader<OwnedReadHalf>, line: &mut Vec<u8>) {
    let room = MAX_REPORT_BYTES.saturating_sub(line.len());
    // A read error ends the line, as a closed socket does.
    _ = reports.take(room as u64).read_until(b'\n', line).await;
}

/// Reads a piece of output and returns its size; 0 when it has closed. Never returns
/// after that.
async fn next_piece(output: &mut Option<pipe::Receiver>, piece: &mut [u8]) -> usize {
    match output {
        Some(output) => output.read(piece).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Parses a report. The empty line of a closed socket is not one.
fn reported(line: &[u8]) -> CommandEvent {
    protocol::parse(line).map_or(CommandEvent::SupervisorGone, CommandEvent::Reported)
}
