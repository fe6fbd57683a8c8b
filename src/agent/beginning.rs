//! Defines how a turn begins: with a question to the model, with a round that an earlier turn
//! left open, or with an answer to go on with.

use std::time::Duration;

use serde_json::value::RawValue;

use super::record::{OpenRound, RecordedRound};
use crate::execution::ask::Decision;
use crate::ids::ApprovalId;

/// One piece of the transcript before the turn, in order.
#[derive(Clone, Debug)]
pub(crate) enum HistoryPiece {
    /// A message as the client sent it, or with small repairs.
    Client(Box<RawValue>),
    /// What really happened in an earlier turn.
    Recorded(RecordedRound),
}

#[derive(Debug, Default)]
pub(crate) enum Beginning {
    /// Asks the model.
    #[default]
    Ask,
    /// Closes an open round, then asks the model.
    Resume(Box<Resume>),
    /// Goes on with an answer of ours that stands last in the transcript. Upstream, a note of
    /// ours follows it; the answer is then `said` and the new text together.
    Continue { said: String },
}

/// An open round, and what is known of its calls now.
#[derive(Debug)]
pub(crate) struct Resume {
    pub(crate) open: OpenRound,
    /// For each call of the round the client's own `role: tool` message, if it sent one.
    pub(crate) client_answers: Vec<Option<Box<RawValue>>>,
    /// What a person decided. An ask without a decision is asked again.
    pub(crate) decisions: Vec<Decided>,
    /// User messages that follow the closed round, behind an assistant message of ours.
    pub(crate) then: Vec<HistoryPiece>,
}

#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) approval: ApprovalId,
    /// The call's place in the round.
    pub(crate) slot: usize,
    pub(crate) decision: Decision,
}

/// How a person can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asking {
    pub(crate) channel: AskingChannel,
    /// How long the stream waits for a decision over REST before the turn suspends.
    pub(crate) wait: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskingChannel {
    /// As the assistant's message.
    Conversation,
    /// By the client's own tool `ask_user`, or in the conversation where that does not fit.
    AskUser,
    /// By the client's own tool `toolhand_approval`.
    ToolhandApproval,
    /// Only over REST; the message says where.
    Rest,
    /// Only over REST, and only for the time of the wait: a call that is not decided by then is
    /// denied.
    WaitingRest,
    /// By the agent that started this one.
    Parent,
    /// Asking is denying.
    Nobody,
}
