//! Reads the records of turns that are over from the store.

use std::sync::Arc;

use super::retold::retold;
use crate::agent::events::TurnEvent;
use crate::agent::record::Entry;
use crate::ids::{Scope, TurnId};
use crate::sessions::record::{TurnBody, TurnRecord};
use crate::store::rows::{EntryRow, TurnRow};
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
        Ok(Some(record(row, entries.iter())))
    }

    /// The events of a turn that is over; `None` if there is no record that can be read.
    pub(crate) async fn retold(&self, scope: Scope, turn: TurnId) -> Option<Vec<TurnEvent>> {
        let record = self.newest(scope, TurnKey::Id(turn)).await.ok()??;
        Some(retold(&record))
    }
}

/// Reads a record. An entry that cannot be read is left out, and logged.
pub(crate) fn record<'a>(row: TurnRow, entries: impl Iterator<Item = &'a EntryRow>) -> TurnRecord {
    let unreadable = |error: serde_json::Error| {
        tracing::error!(turn = %row.id, %error, "a record in the store cannot be read");
    };
    let body: TurnBody = serde_json::from_slice(&row.body).map_err(unreadable).unwrap_or_default();
    let entries: Vec<Entry> = entries
        .filter_map(|row| serde_json::from_slice(&row.body).map_err(unreadable).ok())
        .collect();
    TurnRecord { row, body, entries }
}
