//! When a command is over, and what has to be done for that. Pure.

use std::time::Duration;

use super::protocol::{CANCEL_GRACE, Exit, Moved, Report};

/// How long a command's own time-out leaves it to tidy up.
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);

/// How long we listen once the command has ended: what it left running may hold the
/// output open for ever.
const DRAIN: Duration = Duration::from_millis(500);

/// KILL works at once and the supervisor says so; beyond this we answer without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a command came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    ItsOwn,
    TimedOut,
    Cancelled,
    TooMuchOutput,
}

/// Everything that can happen to a command that was started.
#[derive(Debug)]
pub(super) enum Event {
    Reported(Report),
    /// The socket closed without a last report.
    SupervisorGone,
    /// Nobody holds the output open any more.
    OutputClosed,
    TooMuchOutput,
    /// The time that the last effect set is over.
    Deadline,
    Cancelled,
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    /// Come back with `Deadline` after this time.
    Wait(Duration),
    /// Tell the supervisor to end the tree; come back after `then`.
    End {
        grace: Duration,
        then: Duration,
    },
    Finish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// The command has ended, its output not yet.
    Draining,
    Ending,
}

/// One run, as far as it has come.
#[derive(Debug)]
pub(super) struct Steps {
    phase: Phase,
    is_output_closed: bool,
    pub(super) cause: Cause,
    pub(super) exit: Option<Exit>,
    pub(super) moved: Moved,
    pub(super) leftovers: usize,
    /// Processes that could not be ended, or may not have been.
    pub(super) stuck: Option<usize>,
}

impl Steps {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Running,
            is_output_closed: false,
            cause: Cause::ItsOwn,
            exit: None,
            moved: Moved::Not,
            leftovers: 0,
            stuck: None,
        }
    }

    pub(super) fn step(&mut self, event: Event) -> Effect {
        match (event, self.phase) {
            (Event::Reported(Report::Ended { exit, moved }), phase) => {
                self.exit = Some(exit);
                self.moved = moved;
                self.ended(phase)
            }
            (Event::Reported(Report::Gone { leftovers }), _) => {
                self.leftovers = leftovers;
                Effect::Finish
            }
            (Event::Reported(Report::Stuck { processes }), _) => {
                self.stuck = Some(processes);
                Effect::Finish
            }
            (Event::Reported(_) | Event::SupervisorGone, _) => Effect::Finish,
            (Event::OutputClosed, phase) => {
                self.is_output_closed = true;
                if phase == Phase::Draining { self.end(CANCEL_GRACE) } else { Effect::Nothing }
            }
            (Event::TooMuchOutput, Phase::Running) => {
                self.end_because(Cause::TooMuchOutput, CANCEL_GRACE)
            }
            (Event::Deadline, Phase::Running) => self.end_because(Cause::TimedOut, TIMEOUT_GRACE),
            (Event::Cancelled, Phase::Running) => self.end_because(Cause::Cancelled, CANCEL_GRACE),
            (Event::Deadline | Event::Cancelled, Phase::Draining) => self.end(CANCEL_GRACE),
            // The turn has less patience than the time-out had.
            (Event::Cancelled, Phase::Ending) => self.end(CANCEL_GRACE),
            (Event::Deadline, Phase::Ending) => {
                self.stuck = Some(1);
                Effect::Finish
            }
            (Event::TooMuchOutput, Phase::Draining | Phase::Ending) => Effect::Nothing,
        }
    }

    fn ended(&mut self, phase: Phase) -> Effect {
        match phase {
            Phase::Running if self.is_output_closed => self.end(CANCEL_GRACE),
            Phase::Running => {
                self.phase = Phase::Draining;
                Effect::Wait(DRAIN)
            }
            Phase::Draining | Phase::Ending => Effect::Nothing,
        }
    }

    fn end_because(&mut self, cause: Cause, grace: Duration) -> Effect {
        self.cause = cause;
        self.end(grace)
    }

    fn end(&mut self, grace: Duration) -> Effect {
        self.phase = Phase::Ending;
        Effect::End { grace, then: grace + PATIENCE }
    }
}
