//! Finds approvals: those of a round, and what a person can decide now.

use super::decisions::asked;
use super::matching;
use super::running::Running;
use crate::agent::record::OpenRound;
use crate::clock;
use crate::ids::{ApprovalId, Scope, TurnId};
use crate::store::rows::{ApprovalRow, TurnStatus};
use crate::store::{ApprovalKey, Store, StoreError, TurnKey};

/// The approvals that are valid and not decided, and whose turn waits for a decision.
pub(super) async fn open_approvals(
    store: &dyn Store,
    running: &Running,
    scope: Scope,
) -> Result<Vec<ApprovalRow>, StoreError> {
    let mut open = Vec::new();
    for row in store.approvals(scope, ApprovalKey::Open).await? {
        if is_open(store, running, &row).await? {
            open.push(row);
        }
    }
    Ok(open)
}

/// What agents have asked their parents for, of the approvals that are open.
pub(super) async fn asks_of_agents(
    store: &dyn Store,
    running: &Running,
    scope: Scope,
) -> Result<Vec<ApprovalId>, StoreError> {
    let open = open_approvals(store, running, scope).await?;
    Ok(open.iter().filter_map(|row| asked(row)?.of_agent).collect())
}

/// Whether a decision about it still counts: a turn that was stopped, or that ended with the
/// process, acts on none.
pub(super) async fn is_open(
    store: &dyn Store,
    running: &Running,
    row: &ApprovalRow,
) -> Result<bool, StoreError> {
    if row.decision.is_some() || row.expires_ms <= clock::now_ms() {
        return Ok(false);
    }
    if running.hears_of(row) {
        return Ok(true);
    }
    let turns = store.turns(row.scope, TurnKey::Id(row.turn.clone())).await?;
    if turns.iter().all(|turn| turn.status != TurnStatus::Suspended) {
        return Ok(false);
    }
    // A conversation that went on without an answer does not come back to the question.
    let behind = TurnKey::After(row.session.clone(), row.turn.clone());
    let behind = matching::turns(store.turns(row.scope, behind).await?);
    let mut passed_by = behind.iter().filter(|turn| !turn.body.resumes);
    Ok(passed_by.all(|turn| turn.row.parent.as_ref() != Some(&row.turn)))
}

/// The approvals of a round that a turn left open. What is asked again keeps the approvals of the
/// turn that asked first.
pub(super) async fn approvals_of(
    store: &dyn Store,
    scope: Scope,
    turn: &TurnId,
    open: Option<&OpenRound>,
) -> Result<Vec<ApprovalRow>, StoreError> {
    let mut rows = store.approvals(scope, ApprovalKey::Turn(turn.clone())).await?;
    for asked in open.into_iter().flat_map(|open| &open.asked) {
        if rows.iter().all(|row| row.id != asked.id) {
            rows.extend(store.approvals(scope, ApprovalKey::Id(asked.id.clone())).await?);
        }
    }
    Ok(rows)
}
