//! Runs one command to its end: starts the supervisor, reads the output, and executes
//! what [`CommandState`] decides.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::bwrap::Entrance;
use super::command_state::{CommandEffect, CommandEvent, CommandState, EndCause};
use super::confinement::{Confinement, Level};
use super::environment::Environment;
pub(crate) use super::orphans::KeptAlive;
use super::orphans::Supervisor;
use super::output::Capture;
use super::probe::Targets;
use super::protocol::{self, Exit, FinalDirectory, Job, LaunchStep, Order};
use super::supervisor;
use super::worker::Workers;

/// The capacity of a pipe.
const READ_BYTES: usize = 64 << 10;

/// How long a supervisor may take to exit after it has reported that nothing is left. It
/// takes microseconds, or more on a busy machine.
const EXIT_PATIENCE: Duration = Duration::from_secs(3);

/// Longer than any report: a path of 4096 bytes takes 16 kB in it. A command may get hold
/// of the socket and write anything.
const MAX_REPORT_BYTES: usize = 64 << 10;

/// How much of what a failed sandbox says is told.
const MAX_FAILURE_CHARS: usize = 500;

/// The largest capacity that a pipe can have.
const MAX_UNREAD_BYTES: usize = 1 << 20;

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
    /// Standard error of a program that was given input; it is then not part of `output`.
    pub(crate) errors: Capture,
    pub(crate) cause: EndCause,
    /// `None` if its end was not observed.
    pub(crate) exit: Option<Exit>,
    pub(crate) moved: FinalDirectory,
    /// How many processes it left running. They have been ended.
    pub(crate) leftovers: usize,
    /// How many processes could not be ended.
    pub(crate) stuck: usize,
    /// The supervisor had the command. Else nothing of it ran.
    is_taken: bool,
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

    /// Starts the same program for other work.
    pub(crate) fn workers(&self) -> Workers {
        Workers::new(&self.supervisor)
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Runs `command` until it and everything that it started has ended. Dropping the
    /// future, or `cancelled`, ends the whole tree.
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
        if command.arguments.iter().any(|argument| argument.contains('\0')) {
            return Err(RunError::Nul);
        }
        let confinement = command.confinement.as_deref();
        let program = self.supervisor_in(confinement)?;
        let has_errors_apart = job.input.is_some();
        let mut run = Self::start(program, command.kept_alive.clone(), limits, has_errors_apart)
            .map_err(RunError::Supervisor)?;
        // A supervisor that does not come up takes no long input either.
        _ = timeout(limits.time, run.tell(&job)).await;
        let finished = run.watch(limits, cancelled).await.map_err(|(step, source)| match step {
            LaunchStep::Directory => {
                RunError::Directory { directory: command.directory.clone(), source }
            }
            LaunchStep::Confine => RunError::Confinement(source.to_string()),
            LaunchStep::Execute => RunError::Program { program: command.program.clone(), source },
        })?;
        let is_inside = confinement.is_some_and(|it| it.level == Level::Bwrap);
        if is_inside && !finished.is_taken && finished.cause == EndCause::ItsOwn {
            let said = if has_errors_apart { &finished.errors } else { &finished.output };
            let said = said.render(MAX_FAILURE_CHARS, "").trim().replace('\n', "; ");
            return Err(RunError::Confinement(said));
        }
        Ok(finished)
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

    fn start(
        mut command: tokio::process::Command,
        kept_alive: Option<KeptAlive>,
        limits: Limits,
        has_errors_apart: bool,
    ) -> io::Result<Run> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
        let apart = has_errors_apart.then(|| pipe_with(PipeFlags::CLOEXEC)).transpose()?;
        let (errors, stderr) = match apart {
            Some((reading, writing)) => (Some(reading), writing),
            None => (None, writing.try_clone()?),
        };
        command
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(writing)
            .stderr(stderr);
        let supervisor = Supervisor::start(&mut command, kept_alive)?;
        let (reports, orders) = UnixStream::from_std(ours)?.into_split();
        Ok(Run {
            supervisor,
            reports: BufReader::new(reports),
            orders,
            output: Some(pipe::Receiver::from_owned_fd(reading)?),
            captured: Capture::new(limits.shown),
            errors: errors.map(pipe::Receiver::from_owned_fd).transpose()?,
            captured_errors: Capture::new(limits.shown),
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
    /// Standard error, where it is kept apart.
    errors: Option<pipe::Receiver>,
    captured_errors: Capture,
    steps: CommandState,
}

/// What the loop wakes up for.
enum Woken {
    Report,
    Output(usize),
    Errors(usize),
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
        let mut of_errors = vec![0; if self.errors.is_some() { READ_BYTES } else { 0 }];
        let mut is_cancelled = false;
        loop {
            let woken = tokio::select! {
                () = next_report(&mut self.reports, &mut line) => Woken::Report,
                read = next_piece(&mut self.output, &mut piece) => Woken::Output(read),
                read = next_piece(&mut self.errors, &mut of_errors) => Woken::Errors(read),
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
                Woken::Errors(read) => match self.take_errors(&of_errors[..read], limits) {
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
            return self.errors.is_none().then_some(CommandEvent::OutputClosed);
        }
        self.captured.push(piece);
        (limits.output < self.captured.bytes()).then_some(CommandEvent::TooMuchOutput)
    }

    /// The same for standard error that is kept apart.
    fn take_errors(&mut self, piece: &[u8], limits: Limits) -> Option<CommandEvent> {
        if piece.is_empty() {
            self.errors = None;
            return self.output.is_none().then_some(CommandEvent::OutputClosed);
        }
        self.captured_errors.push(piece);
        (limits.output < self.captured_errors.bytes()).then_some(CommandEvent::TooMuchOutput)
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
        read_rest(self.output.as_ref(), &mut self.captured, piece);
        read_rest(self.errors.as_ref(), &mut self.captured_errors, piece);
        Ok(Finished {
            output: self.captured,
            errors: self.captured_errors,
            cause: self.steps.cause,
            exit: self.steps.exit.filter(|_| ended.orphans == 0),
            moved: self.steps.moved,
            leftovers: self.steps.leftovers,
            stuck: ended.left,
            is_taken: self.steps.is_taken,
        })
    }
}

/// Reads what is in the pipe, and ends the text.
fn read_rest(pipe: Option<&pipe::Receiver>, captured: &mut Capture, piece: &mut [u8]) {
    let mut unread = MAX_UNREAD_BYTES;
    while let Some(Ok(count @ 1..)) = pipe.map(|pipe| pipe.try_read(piece))
        && count <= unread
    {
        captured.push(&piece[..count]);
        unread -= count;
    }
    captured.finish();
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
