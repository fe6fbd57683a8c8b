//! Defines how the answer of one turn is shown, so that it looks the same when it is told again.

use crate::ids::{CompletionId, TurnId};
use crate::sessions::record::TurnRecord;
use crate::sessions::request::Progress;

/// The members that every chunk of one answer shares.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub(crate) id: String,
    /// The turn, which its cards name.
    pub(crate) turn: TurnId,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) model: String,
}

impl Envelope {
    /// The envelope follows from what is recorded of a turn. So a turn that is told again after
    /// a restart has the same.
    pub(crate) fn of_turn(turn: &TurnId, started_ms: i64, model: String) -> Self {
        let created = u64::try_from(started_ms / 1000).unwrap_or(0);
        let id = CompletionId::of_turn(turn).to_string();
        Self { id, turn: turn.clone(), created, model }
    }
}

/// How a request wants its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerForm {
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) progress: Progress,
}

/// How the answer of a turn is encoded.
#[derive(Clone, Debug)]
pub(crate) struct AnswerShape {
    pub(crate) envelope: Envelope,
    pub(crate) form: AnswerForm,
}

impl AnswerShape {
    /// For a turn that is told again.
    pub(crate) fn of_record(record: &TurnRecord, form: AnswerForm) -> Self {
        let (turn, model) = (&record.row.id, record.body.model.clone());
        Self { envelope: Envelope::of_turn(turn, record.row.started_ms, model), form }
    }
}
