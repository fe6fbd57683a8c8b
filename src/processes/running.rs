//! Watches a running command: reads its output, and executes what [`CommandState`] decides.
//!
//! The watching happens in a task of its own, so whoever has the handle can pass it on without
//! the command noticing. Dropping the handle ends the tree.

use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::command_state::{CommandEffect, CommandEvent, CommandState, EndCause, StopReason};
use super::connection::{Connection, LaunchPlace, Orders, ReadySupervisor, Reports};
use super::orphans::{KeptAlive, Supervisor};
use super::outcome::{Finished, Limits, RunError};
use super::output::{CommandOutput, KeepOutput, WrittenPiece, write};
use super::protocol::{Job, Order, StartFailure};
use super::starter::SupervisorStarter;
use super::supervisor_kind::SupervisorKind;

/// The capacity of a pipe.
const READ_BYTES: usize = 64 << 10;

/// How long a supervisor may take to exit after it has reported that nothing is left. It
/// takes microseconds, or more on a busy machine.
pub(super) const EXIT_PATIENCE: Duration = Duration::from_secs(3);

/// How long a supervisor may take to read its job.
pub(super) const JOB_PATIENCE: Duration = Duration::from_secs(30);

/// How long a command that has ended waits for a disk to take the rest of its output.
const DISK_PATIENCE: Duration = Duration::from_secs(5);

/// How long a look at a command waits for the disk. What is not written is told from memory.
const LOOK_PATIENCE: Duration = Duration::from_secs(1);

/// How much of what a failed sandbox says is told.
const MAX_FAILURE_CHARS: usize = 500;

/// The largest capacity that a pipe can have.
const MAX_UNREAD_BYTES: usize = 1 << 20;

/// Longer than any server runs.
pub(super) const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A command that was started. Dropping it ends the whole tree.
#[derive(Debug)]
pub(crate) struct Running {
    control: CommandControl,
    watching: JoinSet<Result<Finished, RunError>>,
}

/// Looks at a command and ends it, for whoever does not have its handle.
#[derive(Clone, Debug)]
pub(crate) struct CommandControl {
    output: CommandOutput,
    requests: mpsc::UnboundedSender<Request>,
}

/// What the handle asks of the task.
#[derive(Debug)]
enum Request {
    Stop(StopReason),
    /// There is something to write that no output announces.
    Write,
    /// To read what is in the pipe now.
    Hear(oneshot::Sender<()>),
}

/// What to start.
pub(super) struct Launch {
    pub(super) job: Job,
    pub(super) limits: Limits,
    pub(super) keep: KeepOutput,
    pub(super) is_inside_bwrap: bool,
    pub(super) place: LaunchPlace,
    pub(super) kept_alive: Option<KeptAlive>,
}

impl Running {
    pub(super) fn start(starter: Arc<SupervisorStarter>, launch: Launch) -> Result<Self, RunError> {
        let kind = SupervisorKind::of_spare_for(&launch.job);
        let ReadySupervisor { connection, output: pipe, errors: errors_pipe, is_spare } =
            starter.ready(&launch.job, kind.as_ref())?;
        let Connection { mut supervisor, reports, orders } = connection;
        supervisor.begin_work(launch.kept_alive.clone());
        let (requests, requested) = mpsc::unbounded_channel();
        let Limits { shown, output: limit, .. } = launch.limits;
        let output = CommandOutput::new(shown, launch.keep.clone(), limit);
        let watch = Watch {
            supervisor,
            reports,
            orders,
            requested,
            pipe: Some(pipe),
            output: output.clone(),
            errors_pipe,
            errors: CommandOutput::new(shown, KeepOutput::Nothing, limit),
            writing: None,
            lookers: Vec::new(),
            steps: CommandState::new(),
            is_spare,
        };
        let mut watching = JoinSet::new();
        watching.spawn(watch.run(starter, launch, kind));
        Ok(Self { control: CommandControl { output, requests }, watching })
    }

    pub(crate) fn control(&self) -> &CommandControl {
        &self.control
    }

    /// Waits until the command, and everything that it started, has ended. Only one call gets
    /// the result; a call that is dropped before may be made again.
    pub(crate) async fn ended(&mut self) -> Result<Finished, RunError> {
        match self.watching.join_next().await {
            Some(Ok(finished)) => finished,
            Some(Err(error)) => Err(RunError::Supervisor(io::Error::other(error))),
            None => Err(RunError::Supervisor(io::Error::other("its end was told already"))),
        }
    }
}

impl CommandControl {
    /// What it has printed, as far as it was heard.
    pub(crate) fn output(&self) -> &CommandOutput {
        &self.output
    }

    /// Returns when all that it had printed before the call is heard, and written if it has a
    /// file and the disk answers.
    pub(crate) async fn catch_up(&self) {
        let (looker, caught_up) = oneshot::channel();
        if self.requests.send(Request::Hear(looker)).is_ok() {
            // An error means that it has ended: then all is written.
            _ = timeout(LOOK_PATIENCE, caught_up).await;
        }
    }

    /// Begins to end the command. It can still take its grace.
    pub(crate) fn stop(&self, why: StopReason) {
        // It may have ended by itself.
        _ = self.requests.send(Request::Stop(why));
    }

    /// Puts the whole output into its file from now on, however short it is.
    pub(crate) fn keep_output(&self) {
        self.output.keep_all();
        _ = self.requests.send(Request::Write);
    }
}

/// The task that watches a command.
struct Watch {
    supervisor: Supervisor,
    reports: Reports,
    orders: Orders,
    requested: mpsc::UnboundedReceiver<Request>,
    pipe: Option<pipe::Receiver>,
    output: CommandOutput,
    /// Standard error, where it is kept apart.
    errors_pipe: Option<pipe::Receiver>,
    errors: CommandOutput,
    /// The piece of output that is on its way to the disk.
    writing: Option<JoinHandle<WrittenPiece>>,
    /// They wait until all is written, and hear of it when they are dropped.
    lookers: Vec<oneshot::Sender<()>>,
    steps: CommandState,
    /// The supervisor was started before there was a command.
    is_spare: bool,
}

/// What the loop wakes up for.
enum Woken {
    Supervisor(CommandEvent),
    Output(usize),
    Errors(usize),
    Written(WrittenPiece),
    Deadline,
    Requested(Request),
}

impl Watch {
    async fn run(
        mut self,
        starter: Arc<SupervisorStarter>,
        launch: Launch,
        kind: Option<SupervisorKind>,
    ) -> Result<Finished, RunError> {
        let Launch { job, limits, is_inside_bwrap, place, kept_alive, .. } = launch;
        // Only what takes spares is worth one.
        let _begun = kind.map(|kind| starter.replace_spare(kind));
        let has_errors_apart = self.errors_pipe.is_some();
        let mut piece = vec![0; READ_BYTES];
        self.hand_over(&job, limits).await;
        self.watch(limits, &mut piece).await;
        if self.has_lost_spare(&mut piece) {
            self = self.started_anew(&starter, &job, kept_alive).await?;
            self.hand_over(&job, limits).await;
            self.watch(limits, &mut piece).await;
        }
        let finished = self.finish(&mut piece).await;
        let finished = finished.map_err(|failure| place.error(failure))?;
        if is_inside_bwrap && !finished.is_taken && finished.cause == EndCause::ItsOwn {
            let said = if has_errors_apart { &finished.errors } else { &finished.output };
            let said = said.render(MAX_FAILURE_CHARS, "").trim().replace('\n', "; ");
            return Err(RunError::Confinement(said));
        }
        Ok(finished)
    }

    async fn hand_over(&mut self, job: &Job, limits: Limits) {
        // A supervisor that does not come up takes no long input either.
        let patience = limits.time.unwrap_or(JOB_PATIENCE);
        _ = timeout(patience, self.orders.tell(job)).await;
    }

    /// Whether a spare has ended before it took the job, and did not say why. A supervisor reports
    /// first of all that it has the job, so nothing of the command has run.
    fn has_lost_spare(&self, piece: &mut [u8]) -> bool {
        drain(self.pipe.as_ref(), piece, &self.output);
        self.is_spare
            && !self.steps.is_taken
            && self.steps.cause == EndCause::ItsOwn
            && self.output.so_far().1 == 0
    }

    /// Puts a new supervisor in the place of one that has not taken the job.
    async fn started_anew(
        self,
        starter: &SupervisorStarter,
        job: &Job,
        kept_alive: Option<KeptAlive>,
    ) -> Result<Self, RunError> {
        // It must not take the job now.
        self.supervisor.end(Duration::ZERO).await;
        let ReadySupervisor { connection, output: pipe, errors: errors_pipe, is_spare } =
            starter.started(job)?;
        let Connection { mut supervisor, reports, orders } = connection;
        supervisor.begin_work(kept_alive);
        let (pipe, steps) = (Some(pipe), CommandState::new());
        Ok(Self { supervisor, reports, orders, pipe, errors_pipe, steps, is_spare, ..self })
    }

    /// Watches until the run is over.
    async fn watch(&mut self, limits: Limits, piece: &mut [u8]) {
        let mut deadline = Box::pin(sleep(limits.time.unwrap_or(FOR_EVER)));
        let mut of_errors = vec![0; if self.errors_pipe.is_some() { READ_BYTES } else { 0 }];
        loop {
            self.write_next();
            if self.writing.is_none() {
                self.lookers.clear();
            }
            let is_heard = self.output.has_room();
            let woken = tokio::select! {
                event = self.reports.next() => Woken::Supervisor(event),
                read = next_piece(&mut self.pipe, piece), if is_heard => Woken::Output(read),
                read = next_piece(&mut self.errors_pipe, &mut of_errors) => Woken::Errors(read),
                written = piece_written(&mut self.writing) => Woken::Written(written),
                () = &mut deadline => Woken::Deadline,
                Some(request) = self.requested.recv() => Woken::Requested(request),
            };
            let event = match woken {
                Woken::Supervisor(event) => event,
                Woken::Output(read) => match self.take(&piece[..read], limits) {
                    Some(event) => event,
                    None => continue,
                },
                Woken::Errors(read) => match self.take_errors(&of_errors[..read], limits) {
                    Some(event) => event,
                    None => continue,
                },
                Woken::Written(written) => {
                    self.output.piece_written(written);
                    if !self.output.lacks_room() {
                        continue;
                    }
                    CommandEvent::NoRoomForOutput
                }
                Woken::Deadline => CommandEvent::Deadline,
                Woken::Requested(Request::Stop(why)) => CommandEvent::Stop(why),
                // The next turn of the loop does it.
                Woken::Requested(Request::Write) => continue,
                Woken::Requested(Request::Hear(looker)) => {
                    self.lookers.push(looker);
                    match self.hear(piece, limits) {
                        Some(event) => event,
                        None => continue,
                    }
                }
            };
            let effect = self.steps.step(event);
            if self.act(effect, deadline.as_mut()).await {
                return;
            }
        }
    }

    /// Takes output. Returns an event if the output has closed or is too much.
    fn take(&mut self, piece: &[u8], limits: Limits) -> Option<CommandEvent> {
        if piece.is_empty() {
            self.pipe = None;
            return self.errors_pipe.is_none().then_some(CommandEvent::OutputClosed);
        }
        self.output.push(piece);
        self.output.exceeds(limits.output).then_some(CommandEvent::TooMuchOutput)
    }

    /// Takes what is in the pipe.
    fn hear(&mut self, piece: &mut [u8], limits: Limits) -> Option<CommandEvent> {
        drain(self.pipe.as_ref(), piece, &self.output);
        self.output.exceeds(limits.output).then_some(CommandEvent::TooMuchOutput)
    }

    /// The same for standard error that is kept apart.
    fn take_errors(&mut self, piece: &[u8], limits: Limits) -> Option<CommandEvent> {
        if piece.is_empty() {
            self.errors_pipe = None;
            return self.pipe.is_none().then_some(CommandEvent::OutputClosed);
        }
        self.errors.push(piece);
        self.errors.exceeds(limits.output).then_some(CommandEvent::TooMuchOutput)
    }

    /// Gives the next piece to a thread that may wait for the disk.
    fn write_next(&mut self) {
        if self.writing.is_none()
            && let Some(piece) = self.output.next_piece()
        {
            self.writing = Some(spawn_blocking(move || write(&piece)));
        }
    }

    /// Executes an effect. Returns whether the run is over.
    async fn act(&mut self, effect: CommandEffect, mut deadline: Pin<&mut Sleep>) -> bool {
        match effect {
            CommandEffect::Nothing => {}
            CommandEffect::Wait(time) => deadline.as_mut().reset(Instant::now() + time),
            CommandEffect::End { grace, then } => {
                self.orders.tell(&Order::End { grace }).await;
                deadline.as_mut().reset(Instant::now() + then);
            }
            CommandEffect::Finish => return true,
        }
        false
    }

    /// The reports may be forged. So this first makes everything end; what the server
    /// finds then counts more than the reports.
    async fn finish(mut self, piece: &mut [u8]) -> Result<Finished, StartFailure> {
        let patience = if self.steps.is_over { EXIT_PATIENCE } else { Duration::ZERO };
        let Self { supervisor, output, errors, steps, .. } = self;
        let ended = supervisor.end(patience).await;
        if ended.in_order
            && ended.orphans == 0
            && let Some(failure) = steps.not_started
        {
            return Err(failure);
        }
        // All writers have ended, so their output is in the pipe. A foreign process may
        // hold it open; do not wait for that one.
        for (pipe, output) in [(&self.pipe, &output), (&self.errors_pipe, &errors)] {
            drain(pipe.as_ref(), piece, output);
            output.finish();
        }
        if timeout(DISK_PATIENCE, write_rest(&mut self.writing, &output)).await.is_err() {
            output.give_up_file("the disk does not answer");
        }
        Ok(Finished {
            output,
            errors,
            cause: steps.cause,
            exit: steps.exit.filter(|_| ended.orphans == 0),
            moved: steps.moved,
            leftovers: steps.leftovers,
            dropped: steps.dropped,
            stuck: ended.left,
            is_taken: steps.is_taken,
        })
    }
}

/// Takes what is in the pipe now. Asks the kernel: the runtime may not know yet that something
/// has come.
fn drain(pipe: Option<&pipe::Receiver>, piece: &mut [u8], output: &CommandOutput) {
    let mut unread = MAX_UNREAD_BYTES;
    while let Some(pipe) = pipe
        && unread > 0
    {
        let room = unread.min(piece.len());
        match rustix::io::read(pipe, &mut piece[..room]) {
            Ok(count @ 1..) => {
                output.push(&piece[..count]);
                unread -= count;
            }
            Err(Errno::INTR) => {}
            // It is empty or closed.
            Ok(0) | Err(_) => return,
        }
    }
}

/// Writes all that waits for the disk.
async fn write_rest(writing: &mut Option<JoinHandle<WrittenPiece>>, output: &CommandOutput) {
    loop {
        if writing.is_some() {
            output.piece_written(piece_written(writing).await);
        }
        let Some(piece) = output.next_piece() else { return };
        *writing = Some(spawn_blocking(move || write(&piece)));
    }
}

/// Waits until the piece is written; for ever if there is none.
async fn piece_written(writing: &mut Option<JoinHandle<WrittenPiece>>) -> WrittenPiece {
    let written = match writing {
        Some(writing) => writing.await,
        None => pending().await,
    };
    *writing = None;
    written.unwrap_or_else(|error| WrittenPiece {
        fault: Some(error.to_string()),
        ..WrittenPiece::default()
    })
}

/// Reads a piece of output and returns its size; 0 when it has closed. Never returns
/// after that.
async fn next_piece(output: &mut Option<pipe::Receiver>, piece: &mut [u8]) -> usize {
    match output {
        Some(output) => output.read(piece).await.unwrap_or(0),
        None => pending().await,
    }
}
