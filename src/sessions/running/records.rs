//! Reads the records of turns that are over from the store.

use std::sync::Arc;

use super::retold::retold;
use crate::agent::events::TurnEvent;
use crate::ids::{Scope, TurnId};
use crate::sessions::record::{TurnRecord, entries_by_turn};
use crate::store::{Store, StoreError, TurnKey};

/// Clones share one store.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    store: Arc<dyn Store>,
}

impl Records {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The newest turn that matches.
    pub(crate) async fn newest(
        &self,
        scope: Scope,
        by: TurnKey,
    ) -> Result<Option<TurnRecord>, StoreError> {
        let Some(row) = self.store.turns(scope, by).await?.into_iter().next() else {
            return Ok(None);
        };
        let entries = self.store.entries(scope, vec![row.id.clone()]).await?;
        let entries = entries_by_turn(entries).remove(&row.id).unwrap_or_default();
        Ok(Some(TurnRecord::new(row, entries)))
    }

    /// The events of a turn that is over; `None` if there is no record that can be read.
    pub(crate) async fn retold(&self, scope: Scope, turn: TurnId) -> Option<Vec<TurnEvent>> {
        let record = self.newest(scope, TurnKey::Id(turn)).await.ok()??;
        Some(retold(&record))
    }
}
