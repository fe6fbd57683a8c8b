//! Defines what a turn is told, and what it asks its driver to do.

use std::time::Duration;

use crate::agent::agent_event::AgentEvent;
use crate::agent::beginning::Decided;
use crate::agent::delegation::Resumption;
use crate::agent::events::TurnEvent;
use crate::agent::record::{Entry, SuspendedAgent};
use crate::errors::ApiError;
use crate::execution::ask::{Ask, Decision};
use crate::execution::pipeline::{AdmittedCall, ToolResult};
use crate::execution::schedule::Position;
use crate::files::{RoundDigest, ShownLines};
use crate::hooks::HookOutcome;
use crate::openai::chunk::Chunk;
use crate::openai::usage::Usage;
use crate::tools::answer::AnswerText;
use crate::tools::call_progress::ProgressText;
use crate::upstream::{Fault, Lesson, RequestBody};

/// An event that the turn must react to.
#[derive(Debug)]
pub(crate) enum Event {
    Chunk(Box<Chunk>),
    /// The stream ended in order: with `[DONE]`, or after a `finish_reason`.
    StreamEnded {
        /// As in `Faulted`: a call that is half open makes this a fault.
        jitter: f64,
    },
    Faulted {
        fault: Fault,
        /// A random number between 0 and 1, which spreads the waits before retries.
        jitter: f64,
    },
    /// The turn of this call has come: it is judged.
    Started(Position),
    Judged {
        position: Position,
        judgement: Judgement,
    },
    /// A call was judged without being started; it asks this, or nothing.
    JudgedAhead {
        position: Position,
        ask: Option<Box<Ask>>,
        /// What hooks tell the person of it.
        notices: Vec<String>,
    },
    Answered {
        position: Position,
        result: ToolResult,
        duration: Duration,
        /// Of the agents that it has started.
        usage: Option<Usage>,
    },
    /// A running call tells how far it is.
    Progress {
        position: Position,
        told: ProgressText,
    },
    /// A subagent of a call does something.
    Agent {
        position: Position,
        event: AgentEvent,
    },
    /// A call has started an agent that needs a person. It holds its position.
    AgentSuspended {
        position: Position,
        agent: SuspendedAgent,
        duration: Duration,
        usage: Option<Usage>,
    },
    /// What [`TurnEffect::FinishRound`] has prepared.
    RoundFinished(FinishedRound),
    /// A person decided over REST.
    Decided(Decided),
    /// `approval.wait` is over.
    WaitIsOver,
    /// What the hooks say that are asked before the turn ends.
    Stopping(HookOutcome),
    /// The entry that the turn waits for is committed.
    Committed,
    /// An entry could not be committed.
    NotCommitted(ApiError),
    /// The intent to run a call could not be committed, so the call has not run.
    NotRun(ApiError),
    /// The client left, or somebody cancelled the turn.
    Stopped,
    /// `turns.max_duration` is over.
    TimeIsUp,
    ShuttingDown,
    /// The turn needs more memory than the server has left (`limits.buffers`).
    Overloaded,
}

/// What the pipeline says of a call that it does not answer itself.
#[derive(Debug)]
pub(crate) enum Judgement {
    Permitted {
        /// Whether it may change anything.
        has_effect: bool,
    },
    Asked {
        ask: Box<Ask>,
        /// What hooks tell the person of the call.
        notices: Vec<String>,
    },
}

/// What a round is closed with besides the answers that it has.
#[derive(Debug, Default)]
pub(crate) struct FinishedRound {
    /// The answers that were cut.
    pub(crate) answers: Vec<(Position, AnswerText)>,
    /// Text for the end of the last answer.
    pub(crate) reminder: Option<String>,
}

/// An action that the driver carries out for the turn.
#[derive(Debug)]
pub(crate) enum TurnEffect {
    Emit(TurnEvent),
    /// Sends a request upstream after a wait. Closes the stream that is open, drops the running
    /// calls, and counts positions from 0 again.
    Ask {
        body: RequestBody,
        wait: Duration,
    },
    /// Closes the stream that is open.
    CloseStream,
    /// Gives the next call its position in the schedule.
    Reserve,
    Ready(Position, Box<AdmittedCall>),
    /// Judges these calls without starting them.
    JudgeAhead(Vec<Position>),
    /// Judges the call with this decision: now if it asks, otherwise when its turn comes.
    Decide(Position, Decision),
    /// A person has denied the call with this id, which is not judged again. What earlier commands
    /// have left is answered with it, before a call is judged by a later effect.
    AnswerFinds {
        call_id: String,
    },
    /// Runs a call once more, whose agent goes on with these decisions.
    ResumeAgent(Position, Resumption),
    /// Runs a call that was permitted, when this entry is committed.
    Run(Position, Option<Entry>),
    /// Ends a call that was judged and will not run.
    Release(Position),
    /// Asks the hooks whether the turn may end. `is_held`: they have said no before.
    AskStopHooks {
        is_held: bool,
    },
    /// Cuts the bodies of these answers to `max_body` characters, and looks for what the model
    /// is to be reminded of. The round is closed then.
    FinishRound {
        answers: Vec<(Position, AnswerText)>,
        max_body: usize,
    },
    /// The answers of a closed round show these lines of files.
    Shown {
        lines: Vec<ShownLines>,
        round: RoundDigest,
    },
    /// Takes decisions over REST for this long.
    AwaitDecisions(Duration),
    /// The model no longer has all that it was shown of files.
    ForgetShown,
    /// Commits an entry behind all before it.
    Record(Entry),
    /// The same, and tells the turn of it.
    Commit(Entry),
    /// Closes the stream, and ends the calls that run.
    Abort,
    /// Frees these positions, all of them before the scheduler starts a call.
    Withdraw(Vec<Position>),
    /// Keeps what a request that succeeded has proven of its model.
    Learn(Lesson),
    /// Ends the turn.
    Stop,
}

impl TurnEffect {
    /// Whether it still counts when the turn fails: it tells or keeps what has happened.
    pub(crate) fn holds_after_failure(&self) -> bool {
        matches!(self, Self::Emit(_) | Self::Record(_) | Self::AnswerFinds { .. })
    }
}
