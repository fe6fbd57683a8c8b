//! Decides what to do next with a running command: (state, event) → effect. Pure.

use std::time::Duration;

use super::protocol::{
    CANCEL_GRACE, DroppedPaths, Exit, FinalDirectory, MAX_DROPPED, Report, StartFailure,
};

/// How long a command may clean up after its time limit.
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);

/// How long output is still read after the command has ended. A process that it left
/// running may keep the output open for ever.
const OUTPUT_DRAIN: Duration = Duration::from_millis(500);

/// KILL works at once, and the supervisor reports it. After this time the answer does not
/// wait for the supervisor.
const SUPERVISOR_TIMEOUT: Duration = Duration::from_secs(2);

/// More processes than the kernel can number.
const MAX_PROCESSES: usize = 1 << 22;

/// Why a command was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndCause {
    ItsOwn,
    TimedOut,
    Cancelled,
    /// Somebody asked for it.
    Stopped,
    TooMuchOutput,
    /// All that may be kept of its session is full, and nothing of that can go.
    NoRoomForOutput,
    TooManyProcesses,
}

/// Why whoever has the command ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// It has had its time.
    TimedOut,
    /// Nobody waits for it any more.
    Cancelled,
    /// Somebody asked for it.
    Asked,
}

/// Everything that can happen to a started command.
#[derive(Debug)]
pub(super) enum CommandEvent {
    Reported(Report),
    /// The socket closed without a final report.
    SupervisorGone,
    /// No process holds the output open any more.
    OutputClosed,
    TooMuchOutput,
    /// The quota has no room for more of the output.
    NoRoomForOutput,
    /// The time that the last effect set has passed.
    Deadline,
    Stop(StopReason),
}

/// The reaction to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandEffect {
    Nothing,
    /// Send `Deadline` after this time.
    Wait(Duration),
    /// Tell the supervisor to end the tree, and send `Deadline` after `then`.
    End {
        grace: Duration,
        then: Duration,
    },
    Finish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// The command has ended; its output has not.
    Draining,
    Ending,
}

/// The state of one run.
#[derive(Debug)]
pub(super) struct CommandState {
    phase: Phase,
    is_output_closed: bool,
    pub(super) cause: EndCause,
    pub(super) exit: Option<Exit>,
    pub(super) moved: FinalDirectory,
    pub(super) leftovers: usize,
    pub(super) dropped: DroppedPaths,
    /// The supervisor has reported that nothing is left, and is about to exit.
    pub(super) is_over: bool,
    /// The supervisor has the job.
    pub(super) is_taken: bool,
    /// Why nothing ran, as the supervisor reported.
    pub(super) not_started: Option<StartFailure>,
}

impl CommandState {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Running,
            is_output_closed: false,
            cause: EndCause::ItsOwn,
            exit: None,
            moved: FinalDirectory::Not,
            leftovers: 0,
            dropped: DroppedPaths::default(),
            is_over: false,
            is_taken: false,
            not_started: None,
        }
    }

    pub(super) fn step(&mut self, event: CommandEvent) -> CommandEffect {
        match (event, self.phase) {
            (CommandEvent::Reported(report), phase) => self.reported(report, phase),
            (CommandEvent::SupervisorGone, _) | (CommandEvent::Deadline, Phase::Ending) => {
                CommandEffect::Finish
            }
            (CommandEvent::OutputClosed, phase) => {
                self.is_output_closed = true;
                if phase == Phase::Draining {
                    self.end(CANCEL_GRACE)
                } else {
                    CommandEffect::Nothing
                }
            }
            (CommandEvent::TooMuchOutput, Phase::Running) => {
                self.end_because(EndCause::TooMuchOutput, CANCEL_GRACE)
            }
            (CommandEvent::NoRoomForOutput, Phase::Running) => {
                self.end_because(EndCause::NoRoomForOutput, CANCEL_GRACE)
            }
            (CommandEvent::Deadline | CommandEvent::Stop(StopReason::TimedOut), Phase::Running) => {
                self.end_because(EndCause::TimedOut, TIMEOUT_GRACE)
            }
            (CommandEvent::Stop(StopReason::Asked), Phase::Running) => {
                self.end_because(EndCause::Stopped, TIMEOUT_GRACE)
            }
            (CommandEvent::Stop(StopReason::Cancelled), Phase::Running) => {
                self.end_because(EndCause::Cancelled, CANCEL_GRACE)
            }
            // Already being ended: a cancelled turn waits less long than the time limit
            // does.
            (CommandEvent::Deadline, Phase::Draining)
            | (CommandEvent::Stop(StopReason::Cancelled), _) => self.end(CANCEL_GRACE),
            (
                CommandEvent::TooMuchOutput | CommandEvent::NoRoomForOutput | CommandEvent::Stop(_),
                Phase::Draining | Phase::Ending,
            ) => CommandEffect::Nothing,
        }
    }

    /// The command may have forged the report. So only the first report of its end
    /// counts, and counts are bounded.
    fn reported(&mut self, report: Report, phase: Phase) -> CommandEffect {
        match report {
            Report::Taken => {
                self.is_taken = true;
                return CommandEffect::Nothing;
            }
            Report::TooManyProcesses => {
                if self.phase == Phase::Running {
                    self.cause = EndCause::TooManyProcesses;
                }
                return CommandEffect::Nothing;
            }
            Report::Ended { exit, moved } if self.exit.is_none() => {
                self.exit = Some(exit);
                self.moved = moved;
                return self.ended(phase);
            }
            Report::Ended { .. } => return CommandEffect::Nothing,
            Report::NotStarted(failure) if self.exit.is_none() => {
                self.not_started = Some(failure);
                self.is_over = true;
            }
            Report::Dropped(DroppedPaths { mut named, more }) => {
                named.truncate(MAX_DROPPED);
                self.dropped = DroppedPaths { named, more: more.min(MAX_PROCESSES) };
                return CommandEffect::Nothing;
            }
            Report::Gone { leftovers } => {
                self.leftovers = leftovers.min(MAX_PROCESSES);
                self.is_over = true;
            }
            Report::Lost => self.is_over = true,
            Report::Stuck { .. } | Report::NotStarted(_) => {}
        }
        CommandEffect::Finish
    }

    fn ended(&mut self, phase: Phase) -> CommandEffect {
        match phase {
            Phase::Running if self.is_output_closed => self.end(CANCEL_GRACE),
            Phase::Running => {
                self.phase = Phase::Draining;
                CommandEffect::Wait(OUTPUT_DRAIN)
            }
            Phase::Draining | Phase::Ending => CommandEffect::Nothing,
        }
    }

    fn end_because(&mut self, cause: EndCause, grace: Duration) -> CommandEffect {
        self.cause = cause;
        self.end(grace)
    }

    fn end(&mut self, grace: Duration) -> CommandEffect {
        self.phase = Phase::Ending;
        CommandEffect::End { grace, then: grace + SUPERVISOR_TIMEOUT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::protocol::LaunchStep;

    const ENDED: fn() -> CommandEvent = || {
        CommandEvent::Reported(Report::Ended { exit: Exit::Code(0), moved: FinalDirectory::Not })
    };
    const GONE: fn() -> CommandEvent = || CommandEvent::Reported(Report::Gone { leftovers: 2 });
    const CANCELLED: fn() -> CommandEvent = || CommandEvent::Stop(StopReason::Cancelled);
    const CANCEL: CommandEffect =
        CommandEffect::End { grace: CANCEL_GRACE, then: Duration::from_millis(2_500) };

    fn check(
        events: impl IntoIterator<Item = CommandEvent>,
        effects: &[CommandEffect],
        cause: EndCause,
    ) -> CommandState {
        let mut steps = CommandState::new();
        let done: Vec<CommandEffect> = events.into_iter().map(|event| steps.step(event)).collect();
        assert_eq!(done, effects);
        assert_eq!(steps.cause, cause);
        steps
    }

    #[test]
    fn a_command_that_leaves_nothing_behind_is_over_when_its_tree_is() {
        let events = [CommandEvent::OutputClosed, ENDED(), GONE()];
        let steps = check(
            events,
            &[CommandEffect::Nothing, CANCEL, CommandEffect::Finish],
            EndCause::ItsOwn,
        );

        assert_eq!((steps.exit, steps.leftovers), (Some(Exit::Code(0)), 2));
    }

    #[test]
    fn what_holds_the_output_open_is_heard_for_half_a_second() {
        let events = [ENDED(), CommandEvent::Deadline, GONE()];
        check(
            events,
            &[CommandEffect::Wait(OUTPUT_DRAIN), CANCEL, CommandEffect::Finish],
            EndCause::ItsOwn,
        );

        let events = [ENDED(), CommandEvent::OutputClosed, GONE()];
        check(
            events,
            &[CommandEffect::Wait(OUTPUT_DRAIN), CANCEL, CommandEffect::Finish],
            EndCause::ItsOwn,
        );
    }

    #[test]
    fn the_time_out_is_patient_and_a_cancel_is_not() {
        let patient = CommandEffect::End { grace: TIMEOUT_GRACE, then: Duration::from_secs(4) };
        check([CommandEvent::Deadline], &[patient], EndCause::TimedOut);
        check([CommandEvent::Deadline, CANCELLED()], &[patient, CANCEL], EndCause::TimedOut);
        check([CANCELLED(), ENDED()], &[CANCEL, CommandEffect::Nothing], EndCause::Cancelled);
        check(
            [CommandEvent::TooMuchOutput, CommandEvent::TooMuchOutput],
            &[CANCEL, CommandEffect::Nothing],
            EndCause::TooMuchOutput,
        );
        check(
            [CommandEvent::NoRoomForOutput, CommandEvent::TooMuchOutput],
            &[CANCEL, CommandEffect::Nothing],
            EndCause::NoRoomForOutput,
        );
    }

    #[test]
    fn p6_who_is_asked_to_stop_may_clean_up() {
        let stop = || CommandEvent::Stop(StopReason::Asked);
        let patient = CommandEffect::End { grace: TIMEOUT_GRACE, then: Duration::from_secs(4) };
        check([stop(), stop()], &[patient, CommandEffect::Nothing], EndCause::Stopped);
        check([stop(), CANCELLED()], &[patient, CANCEL], EndCause::Stopped);
        let timed_out = CommandEvent::Stop(StopReason::TimedOut);
        check([timed_out], &[patient], EndCause::TimedOut);
        let effects = [CommandEffect::Wait(OUTPUT_DRAIN), CommandEffect::Nothing];
        check([ENDED(), stop()], &effects, EndCause::ItsOwn);
    }

    /// A process that waits for a device cannot be ended.
    #[test]
    fn p7_an_answer_comes_even_if_the_end_does_not() {
        let events = [CANCELLED(), CommandEvent::Deadline];
        let steps = check(events, &[CANCEL, CommandEffect::Finish], EndCause::Cancelled);
        assert!(!steps.is_over);

        let steps =
            check([CommandEvent::SupervisorGone], &[CommandEffect::Finish], EndCause::ItsOwn);
        assert_eq!((steps.exit, steps.is_over), (None, false));
    }

    #[test]
    fn p8_a_report_says_no_more_than_it_can() {
        let gone = |leftovers| CommandEvent::Reported(Report::Gone { leftovers });
        let not_started = || {
            let failure = StartFailure { step: LaunchStep::Execute, errno: 2, place: None };
            CommandEvent::Reported(Report::NotStarted(failure))
        };
        let again = CommandEvent::Reported(Report::Ended {
            exit: Exit::Code(7),
            moved: FinalDirectory::Nowhere,
        });
        let effects =
            [CommandEffect::Wait(OUTPUT_DRAIN), CommandEffect::Nothing, CommandEffect::Finish];
        let steps = check([ENDED(), again, gone(usize::MAX)], &effects, EndCause::ItsOwn);
        assert_eq!((steps.exit, steps.moved), (Some(Exit::Code(0)), FinalDirectory::Not));
        assert_eq!(steps.leftovers, MAX_PROCESSES);

        let effects = [CommandEffect::Wait(OUTPUT_DRAIN), CommandEffect::Finish];
        let steps = check([ENDED(), not_started()], &effects, EndCause::ItsOwn);
        assert_eq!((steps.not_started, steps.is_over), (None, false));
    }

    #[test]
    fn what_came_first_is_the_cause() {
        let steps = check(
            [ENDED(), CANCELLED(), CommandEvent::TooMuchOutput],
            &[CommandEffect::Wait(OUTPUT_DRAIN), CANCEL, CommandEffect::Nothing],
            EndCause::ItsOwn,
        );
        assert_eq!(steps.exit, Some(Exit::Code(0)));
    }
}
