//! When a command is over, and what has to be done for that. Pure.

use std::time::Duration;

use super::protocol::{CANCEL_GRACE, Exit, Moved, Report, Step};

/// How long a command's own time-out leaves it to tidy up.
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);

/// How long we listen once the command has ended: what it left running may hold the
/// output open for ever.
const DRAIN: Duration = Duration::from_millis(500);

/// KILL works at once and the supervisor says so; beyond this we answer without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// As many as the kernel can number.
const MAX_PROCESSES: usize = 1 << 22;

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
    /// The supervisor says that nothing is left; all it has to do then is to exit.
    pub(super) is_over: bool,
    /// Why nothing ran, by the supervisor's word.
    pub(super) not_started: Option<(Step, i32)>,
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
            is_over: false,
            not_started: None,
        }
    }

    pub(super) fn step(&mut self, event: Event) -> Effect {
        match (event, self.phase) {
            (Event::Reported(report), phase) => self.reported(report, phase),
            (Event::SupervisorGone, _) | (Event::Deadline, Phase::Ending) => Effect::Finish,
            (Event::OutputClosed, phase) => {
                self.is_output_closed = true;
                if phase == Phase::Draining { self.end(CANCEL_GRACE) } else { Effect::Nothing }
            }
            (Event::TooMuchOutput, Phase::Running) => {
                self.end_because(Cause::TooMuchOutput, CANCEL_GRACE)
            }
            (Event::Deadline, Phase::Running) => self.end_because(Cause::TimedOut, TIMEOUT_GRACE),
            (Event::Cancelled, Phase::Running) => self.end_because(Cause::Cancelled, CANCEL_GRACE),
            // While it is being ended: the turn has less patience than the time-out had.
            (Event::Deadline, Phase::Draining) | (Event::Cancelled, _) => self.end(CANCEL_GRACE),
            (Event::TooMuchOutput, Phase::Draining | Phase::Ending) => Effect::Nothing,
        }
    }

    /// A command may have written the report itself: the first word on how it ended is
    /// the one that counts, and no number is taken for more than it can be.
    fn reported(&mut self, report: Report, phase: Phase) -> Effect {
        match report {
            Report::Ended { exit, moved } if self.exit.is_none() => {
                self.exit = Some(exit);
                self.moved = moved;
                return self.ended(phase);
            }
            Report::Ended { .. } => return Effect::Nothing,
            Report::NotStarted { step, errno } if self.exit.is_none() => {
                self.not_started = Some((step, errno));
                self.is_over = true;
            }
            Report::Gone { leftovers } => {
                self.leftovers = leftovers.min(MAX_PROCESSES);
                self.is_over = true;
            }
            Report::Lost => self.is_over = true,
            Report::Stuck { .. } | Report::NotStarted { .. } => {}
        }
        Effect::Finish
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

#[cfg(test)]
mod tests {
    use super::*;

    const ENDED: fn() -> Event =
        || Event::Reported(Report::Ended { exit: Exit::Code(0), moved: Moved::Not });
    const GONE: fn() -> Event = || Event::Reported(Report::Gone { leftovers: 2 });
    const CANCEL: Effect = Effect::End { grace: CANCEL_GRACE, then: Duration::from_millis(2_500) };

    fn check(events: impl IntoIterator<Item = Event>, effects: &[Effect], cause: Cause) -> Steps {
        let mut steps = Steps::new();
        let done: Vec<Effect> = events.into_iter().map(|event| steps.step(event)).collect();
        assert_eq!(done, effects);
        assert_eq!(steps.cause, cause);
        steps
    }

    #[test]
    fn a_command_that_leaves_nothing_behind_is_over_when_its_tree_is() {
        let events = [Event::OutputClosed, ENDED(), GONE()];
        let steps = check(events, &[Effect::Nothing, CANCEL, Effect::Finish], Cause::ItsOwn);

        assert_eq!((steps.exit, steps.leftovers), (Some(Exit::Code(0)), 2));
    }

    #[test]
    fn what_holds_the_output_open_is_heard_for_half_a_second() {
        let events = [ENDED(), Event::Deadline, GONE()];
        check(events, &[Effect::Wait(DRAIN), CANCEL, Effect::Finish], Cause::ItsOwn);

        let events = [ENDED(), Event::OutputClosed, GONE()];
        check(events, &[Effect::Wait(DRAIN), CANCEL, Effect::Finish], Cause::ItsOwn);
    }

    #[test]
    fn the_time_out_is_patient_and_a_cancel_is_not() {
        let patient = Effect::End { grace: TIMEOUT_GRACE, then: Duration::from_secs(4) };
        check([Event::Deadline], &[patient], Cause::TimedOut);
        check([Event::Deadline, Event::Cancelled], &[patient, CANCEL], Cause::TimedOut);
        check([Event::Cancelled, ENDED()], &[CANCEL, Effect::Nothing], Cause::Cancelled);
        check(
            [Event::TooMuchOutput, Event::TooMuchOutput],
            &[CANCEL, Effect::Nothing],
            Cause::TooMuchOutput,
        );
    }

    /// A process that waits for a device cannot be ended.
    #[test]
    fn p7_an_answer_comes_even_if_the_end_does_not() {
        let events = [Event::Cancelled, Event::Deadline];
        let steps = check(events, &[CANCEL, Effect::Finish], Cause::Cancelled);
        assert!(!steps.is_over);

        let steps = check([Event::SupervisorGone], &[Effect::Finish], Cause::ItsOwn);
        assert_eq!((steps.exit, steps.is_over), (None, false));
    }

    #[test]
    fn p8_a_report_says_no_more_than_it_can() {
        let gone = |leftovers| Event::Reported(Report::Gone { leftovers });
        let not_started = || Event::Reported(Report::NotStarted { step: Step::Execute, errno: 2 });
        let again = Event::Reported(Report::Ended { exit: Exit::Code(7), moved: Moved::Nowhere });
        let effects = [Effect::Wait(DRAIN), Effect::Nothing, Effect::Finish];
        let steps = check([ENDED(), again, gone(usize::MAX)], &effects, Cause::ItsOwn);
        assert_eq!((steps.exit, steps.moved), (Some(Exit::Code(0)), Moved::Not));
        assert_eq!(steps.leftovers, MAX_PROCESSES);

        let effects = [Effect::Wait(DRAIN), Effect::Finish];
        let steps = check([ENDED(), not_started()], &effects, Cause::ItsOwn);
        assert_eq!((steps.not_started, steps.is_over), (None, false));
    }

    #[test]
    fn what_came_first_is_the_cause() {
        let steps = check(
            [ENDED(), Event::Cancelled, Event::TooMuchOutput],
            &[Effect::Wait(DRAIN), CANCEL, Effect::Nothing],
            Cause::ItsOwn,
        );
        assert_eq!(steps.exit, Some(Exit::Code(0)));
    }
}
