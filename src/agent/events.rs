//! What a turn tells whoever listens, in the order it happens.

use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::ids::{SessionId, TurnId};
use crate::openai::chunk::{CallKind, FinishReason, RawMembers};
use crate::openai::error::{ApiError, ErrorCode};
use crate::openai::usage::Usage;

#[derive(Clone, Debug)]
pub(crate) enum TurnEvent {
    /// The model has begun a call. Nothing to show, but the turn is under way.
    Begun,
    Text(String),
    /// A further text member of the model's deltas: `reasoning_content`, `refusal`.
    Member {
        name: String,
        text: String,
    },
    /// A member that is no text, or a text with its log-probabilities: passed on
    /// alone and as it came.
    Raw(Box<RawDelta>),
    ToolStarted(Box<ToolStart>),
    ToolEnded(Box<ToolEnd>),
    /// Upstream is asked for the round of this number, from 1.
    RoundStarted(u32),
    ClientCall(Box<ClientCallDelta>),
    Finished(Box<Finished>),
    Failed(Box<Failure>),
}

#[derive(Clone, Debug)]
pub(crate) struct RawDelta {
    pub(crate) text: Option<String>,
    pub(crate) members: Vec<(String, Box<RawValue>)>,
    pub(crate) logprobs: Option<Box<RawValue>>,
}

#[derive(Clone, Debug)]
pub(crate) struct ToolStart {
    pub(crate) call_id: String,
    pub(crate) tool: String,
    /// The main argument, in a few words.
    pub(crate) headline: String,
}

#[derive(Clone, Debug)]
pub(crate) struct ToolEnd {
    pub(crate) call_id: String,
    pub(crate) tool: String,
    pub(crate) headline: String,
    pub(crate) duration: Duration,
    /// Characters of the answer.
    pub(crate) chars: usize,
    /// The first line of the answer, when it is a failure.
    pub(crate) error: Option<String>,
    pub(crate) structured: Value,
}

/// A piece of a call to one of the client's own tools, numbered from 0.
#[derive(Clone, Debug)]
pub(crate) struct ClientCallDelta {
    pub(crate) index: usize,
    pub(crate) kind: CallKind,
    /// Id and name, in the first piece only.
    pub(crate) head: Option<(String, String)>,
    pub(crate) arguments: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub(crate) reason: FinishReason,
    /// Summed over all rounds; `None` when none of them had figures.
    pub(crate) usage: Option<Usage>,
    pub(crate) summary: Summary,
    /// What stood beside the choices of the last round and nobody here knows.
    pub(crate) unknown: RawMembers,
}

/// The `toolhand` member of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) rounds: u32,
    pub(crate) tool_calls: usize,
    pub(crate) duration: Duration,
    pub(crate) rounds_without_usage: u32,
    /// The last round's prompt tokens: the size of the context.
    pub(crate) context_tokens: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: ApiError,
    /// A tool has run, so the client must not simply try again.
    pub(crate) tools_ran: bool,
}

impl Failure {
    /// For a turn that ended without saying how.
    pub(crate) fn crash() -> Self {
        let error = ApiError::new(ErrorCode::Internal, "The server failed within this turn.");
        Self { error, tools_ran: true }
    }
}

impl TurnEvent {
    /// Whether this ends the turn; exactly one such event comes, as the last.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Self::Finished(_) | Self::Failed(_))
    }

    /// Whether this lets the response head go out.
    pub(crate) fn releases_head(&self) -> bool {
        !matches!(self, Self::RoundStarted(_))
    }

    /// The piece of the answer's text in this event.
    pub(super) fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Raw(delta) => delta.text.as_mut(),
            _ => None,
        }
    }

    /// Joins `next` to this event where the two are pieces of one text; false where
    /// they are not.
    pub(crate) fn absorb(&mut self, next: &TurnEvent) -> bool {
        match (self, next) {
            (Self::Text(text), Self::Text(more)) => text.push_str(more),
            (Self::Member { name, text }, Self::Member { name: other, text: more })
                if name == other =>
            {
                text.push_str(more);
            }
            (Self::ClientCall(call), Self::ClientCall(more))
                if call.index == more.index && more.head.is_none() =>
            {
                call.arguments.push_str(&more.arguments);
            }
            _ => return false,
        }
        true
    }

    /// Roughly what waiting costs in memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Text(text) | Self::Member { text, .. } => text.len(),
            Self::Raw(delta) => {
                let members: usize = delta.members.iter().map(|(_, raw)| raw.get().len()).sum();
                members + delta.logprobs.as_ref().map_or(0, |raw| raw.get().len())
            }
            Self::ClientCall(call) => call.arguments.len(),
            Self::Finished(finished) => {
                finished.unknown.iter().map(|(name, raw)| name.len() + raw.get().len()).sum()
            }
            _ => 0,
        }
    }
}
