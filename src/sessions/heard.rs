//! Tells how much of a turn its client can have heard.

use super::record::TurnBody;
use crate::store::rows::TurnStatus;

/// How a turn ended for those who listened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) status: TurnStatus,
    /// Nobody listened any more when it ended.
    unheard: bool,
}

impl Heard {
    pub(crate) fn of(status: TurnStatus, body: &TurnBody) -> Self {
        Self { status, unheard: body.unheard }
    }

    /// Whether the client may show a part of the answer, or nothing of it: the turn ended before
    /// its time, or went on when its client had left.
    pub(crate) fn may_be_cut(self) -> bool {
        self.unheard || is_interrupted(self.status)
    }
}

/// Whether a turn ended before its time.
pub(crate) fn is_interrupted(status: TurnStatus) -> bool {
    matches!(status, TurnStatus::Cancelled | TurnStatus::Crashed | TurnStatus::Failed)
}
