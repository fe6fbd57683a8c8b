//! Tells how much of a turn its client can have heard.

use crate::store::rows::TurnStatus;

/// How a turn ended for those who listened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliveryState {
    pub(crate) status: TurnStatus,
    unheard: bool,
}

impl DeliveryState {
    /// `unheard`: nobody listened any more when the turn ended, or nobody listens while it runs.
    pub(crate) fn new(status: TurnStatus, unheard: bool) -> Self {
        Self { status, unheard }
    }

    /// Whether the client may show a part of the answer, or nothing of it: the turn ended before
    /// its time, or went on when its client had left.
    pub(crate) fn may_be_cut(self) -> bool {
        self.unheard || is_interrupted(self.status)
    }

    /// Whether the turn goes on without its client: what it does from now on is not known yet.
    pub(crate) fn goes_on(self) -> bool {
        self.unheard && self.status == TurnStatus::Running
    }
}

/// Whether a turn ended before its time.
pub(crate) fn is_interrupted(status: TurnStatus) -> bool {
    matches!(status, TurnStatus::Cancelled | TurnStatus::Crashed | TurnStatus::Failed)
}
