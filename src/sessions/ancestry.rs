//! Walks from a turn to the turns it goes on from, also where a session forked from another.

use std::collections::HashMap;

use crate::ids::{Scope, TurnId};
use crate::store::rows::TurnRow;
use crate::store::{Store, StoreError, TurnKey};

/// A session that goes on from another's turn goes on from so many sessions in all.
pub(crate) const MAX_FORKS: usize = 64;

/// The turn and those before it, the oldest first. `known` are turns that are loaded already.
pub(crate) async fn path_to(
    store: &dyn Store,
    scope: Scope,
    turn: Option<TurnId>,
    known: Vec<TurnRow>,
) -> Result<Vec<TurnRow>, StoreError> {
    let mut left = by_id(known);
    let mut path = Vec::new();
    let mut next = turn;
    for _ in 0..=MAX_FORKS {
        // A turn is taken out once, so a damaged tree cannot lead in circles.
        while let Some(turn) = next.as_ref().and_then(|id| left.remove(id)) {
            next.clone_from(&turn.parent);
            path.push(turn);
        }
        let Some(parent) = &next else { break };
        let rows = store.turns(scope, TurnKey::Id(parent.clone())).await?;
        let Some(row) = rows.into_iter().next() else { break };
        left = by_id(store.turns(scope, TurnKey::Session(row.session)).await?);
    }
    path.reverse();
    Ok(path)
}

fn by_id(turns: Vec<TurnRow>) -> HashMap<TurnId, TurnRow> {
    turns.into_iter().map(|turn| (turn.id.clone(), turn)).collect()
}
