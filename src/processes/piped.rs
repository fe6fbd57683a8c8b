//! A program that stays, with three pipes: what it is told, what it says, and its standard error.
//!
//! Nothing of what it says is read or limited here; whoever has the pipes does that. Its tree ends
//! like that of a command: when the program itself ends, when the handle is dropped, and when the
//! server ends.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::command_state::{CommandEffect, CommandEvent, CommandState, EndCause};
use super::connection::{Connection, LaunchPlace, Orders, Reports};
use super::orphans::{KeptAlive, Supervisor};
use super::outcome::RunError;
use super::protocol::{Exit, Job, Order, Report};
use super::running::{EXIT_PATIENCE, FOR_EVER, JOB_PATIENCE};

/// A program that was started to stay. The pipes can be taken out; dropping `tree` ends it.
#[derive(Debug)]
pub(crate) struct PipedProcess {
    /// Its standard input ends when this is dropped.
    pub(crate) stdin: pipe::Sender,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
    pub(crate) tree: PipedTree,
}

/// The process and all that it has started. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct PipedTree {
    watching: JoinSet<Result<PipedEnd, RunError>>,
}

/// How a program that stayed has ended. Nothing of its tree is left then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PipedEnd {
    pub(crate) cause: EndCause,
    /// `None` if its end was not observed.
    pub(crate) exit: Option<Exit>,
    /// How many processes could not be ended.
    pub(crate) stuck: usize,
}

/// What to start, besides the supervisor's program.
pub(super) struct PipedLaunch {
    pub(super) job: Job,
    pub(super) is_inside_bwrap: bool,
    pub(super) place: LaunchPlace,
}

impl PipedProcess {
    pub(super) fn start(
        command: tokio::process::Command,
        kept_alive: Option<KeptAlive>,
        launch: PipedLaunch,
    ) -> io::Result<Self> {
        let (its_input, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stdout, its_output) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, its_errors) = pipe_with(PipeFlags::CLOEXEC)?;
        let connection = Connection::start(command, its_output, its_errors)?;
        let Connection { mut supervisor, reports, orders } = connection;
        supervisor.begin_work(kept_alive);
        let (its_input, steps) = (Some(its_input), CommandState::new());
        let watch = Watch { supervisor, reports, orders, its_input, steps };
        let mut watching = JoinSet::new();
        watching.spawn(watch.run(launch));
        Ok(Self {
            stdin: pipe::Sender::from_owned_fd(stdin)?,
            stdout: pipe::Receiver::from_owned_fd(stdout)?,
            stderr: pipe::Receiver::from_owned_fd(stderr)?,
            tree: PipedTree { watching },
        })
    }
}

impl PipedTree {
    /// Waits until the program, and everything that it started, has ended. Only one call gets
    /// the result; a call that is dropped before may be made again.
    pub(crate) async fn ended(&mut self) -> Result<PipedEnd, RunError> {
        match self.watching.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) => Err(RunError::Supervisor(io::Error::other(error))),
            None => Err(RunError::Supervisor(io::Error::other("its end was told already"))),
        }
    }
}

/// The task that watches the program.
struct Watch {
    supervisor: Supervisor,
    reports: Reports,
    orders: Orders,
    /// Until the supervisor has it.
    its_input: Option<OwnedFd>,
    steps: CommandState,
}

impl Watch {
    async fn run(mut self, launch: PipedLaunch) -> Result<PipedEnd, RunError> {
        let PipedLaunch { job, is_inside_bwrap, place } = launch;
        _ = timeout(JOB_PATIENCE, self.orders.tell(&job)).await;
        drop(job);
        self.watch().await;
        let Self { supervisor, steps, .. } = self;
        let patience = if steps.is_over { EXIT_PATIENCE } else { Duration::ZERO };
        let ended = supervisor.end(patience).await;
        // The reports may be forged; what the server finds counts more.
        if ended.in_order
            && ended.orphans == 0
            && let Some(failure) = steps.not_started
        {
            return Err(place.error(failure));
        }
        if is_inside_bwrap && !steps.is_taken && steps.cause == EndCause::ItsOwn {
            let why = "bubblewrap ended before the program; its standard error says why";
            return Err(RunError::Confinement(why.to_owned()));
        }
        let exit = steps.exit.filter(|_| ended.orphans == 0);
        Ok(PipedEnd { cause: steps.cause, exit, stuck: ended.left })
    }

    async fn watch(&mut self) {
        // Nobody reads the output here, so the end of the program does not wait for it.
        self.steps.step(CommandEvent::OutputClosed);
        let mut deadline = Box::pin(sleep(JOB_PATIENCE));
        loop {
            let event = tokio::select! {
                event = self.reports.next() => event,
                () = &mut deadline => CommandEvent::Deadline,
            };
            if let CommandEvent::Reported(Report::Taken) = event
                && let Some(input) = self.its_input.take()
            {
                self.orders.hand(input);
                deadline.as_mut().reset(Instant::now() + FOR_EVER);
            }
            match self.steps.step(event) {
                CommandEffect::Nothing => {}
                CommandEffect::Wait(time) => deadline.as_mut().reset(Instant::now() + time),
                CommandEffect::End { grace, then } => {
                    self.orders.tell(&Order::End { grace }).await;
                    deadline.as_mut().reset(Instant::now() + then);
                }
                CommandEffect::Finish => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
