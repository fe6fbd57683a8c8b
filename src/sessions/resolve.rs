//! Finds the session in which a request goes on, and takes the right to run a turn in it.

use std::sync::Arc;
use std::time::Duration;

use super::Sessions;
use super::address::Chain;
use super::assemble::names_code_of;
use super::id_sources::ExplicitId;
use super::loading::Loading;
use super::pending_names::NameGuard;
use super::record::SessionState;
use super::request::ChatRequest;
use super::running::{SessionSlot, SharedTurn};
use super::search::{Found, Search};
use crate::errors::ApiError;
use crate::ids::{Scope, SessionId};
use crate::permissions::SavedMode;
use crate::store::rows::{SessionName, SessionRow};
use crate::store::{SessionKey, StoreError};

/// How long a request waits for the turn that runs in its session, or for one that takes up the
/// same round.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(10);

/// The session in which a request goes on, and the turn that it goes on from.
#[derive(Debug)]
pub(super) struct ResolvedSession {
    pub(super) session: SessionId,
    /// `None`: the session is new.
    pub(super) row: Option<SessionRow>,
    /// The name that a new session gets.
    pub(super) name: Option<SessionName>,
    /// The session whose prompt a new one takes over, since its transcript goes on there.
    pub(super) origin: Option<SessionRow>,
    pub(super) found: Found,
    pub(super) slot: SessionSlot,
    pub(super) guard: Option<NameGuard>,
}

impl ResolvedSession {
    /// Whether the request can answer what the turn that was found asks a person: an approval is
    /// bound to its session. A chat and its forks are one.
    pub(super) fn may_reply(&self, named: Option<&ExplicitId>) -> bool {
        let (Some(asking), Some(named)) = (self.found.path.last(), named) else { return true };
        asking.row.session == self.session
            || asking.body.session_name.as_deref() == Some(named.text())
    }

    /// What held after the turns that were found. A fresh session finds nothing.
    pub(super) fn recall(&self) -> Option<SessionState> {
        self.found.session.as_ref()?;
        let mut path = self.found.path.iter().rev();
        let (turn, mut state) = path.find_map(|turn| Some((turn, turn.body.state.clone()?)))?;
        if turn.row.session != self.session {
            state.mode = state.mode.map(SavedMode::for_fork);
        }
        Some(state)
    }
}

impl Sessions {
    /// `loading` counts what it loads.
    pub(super) async fn resolve(
        &self,
        scope: Scope,
        request: &ChatRequest,
        chain: &Chain,
        loading: &Loading,
    ) -> Result<ResolvedSession, ApiError> {
        let (store, known) = (&*self.store, &self.running.known);
        let unattended = &self.running.unattended(scope);
        let search = Search { store, known, loading, unattended, scope, chain };
        match &request.named {
            Some(named) => self.resolve_named(search, named, &request.model).await,
            None => self.resolve_by_content(search).await,
        }
    }

    async fn resolve_named(
        &self,
        search: Search<'_>,
        named: &ExplicitId,
        model: &str,
    ) -> Result<ResolvedSession, ApiError> {
        let known = self.session_named(search.scope, named, model).await?;
        let name = known.as_ref().map_or_else(
            || named.name(model),
            |row| row.name.clone().unwrap_or_else(|| named.name(model)),
        );
        let (id, guard) = if let Some(row) = known {
            (row.id, None)
        } else {
            let guard = self.names.take(search.scope, name.clone());
            (guard.session.clone(), Some(guard))
        };
        let slot = match named {
            ExplicitId::Own(_) => Some(self.running.slots.take(&id, MAX_WAIT).await?),
            ExplicitId::Frontend(_) => {
                self.running.stopped(search.scope, Some(&id)).await;
                self.running.slots.try_take(&id)
            }
        };
        // The turn that ran until now may have made the session, or been granted something.
        let row = self.session(search.scope, &id).await?;
        let found = match &row {
            Some(row) => self.in_named_session(search, named, &row.id).await?,
            None => self.elsewhere(search, named).await?,
        };
        let Some(slot) = slot else { return self.fork(search.scope, row, found).await };
        let origin = match &row {
            Some(_) => None,
            None => self.origin(search.scope, &found).await?,
        };
        // What is ambiguous stays so under a new name.
        let is_known = row.is_some() || found.session.is_some();
        let found = Found { session: is_known.then(|| id.clone()), ..found };
        Ok(ResolvedSession { session: id, row, name: Some(name), origin, found, slot, guard })
    }

    /// A frontend's chat also goes on from answers that other sessions gave: that of another
    /// model, or one that forked from it while a turn ran.
    async fn in_named_session(
        &self,
        search: Search<'_>,
        named: &ExplicitId,
        id: &SessionId,
    ) -> Result<Found, StoreError> {
        let found = search.in_session(id).await?;
        if let Some(asking) = self.by_question_in(search, named, id, &found).await? {
            return Ok(asking);
        }
        let is_whole = found.links == search.chain.links.len() && found.agrees;
        if matches!(named, ExplicitId::Own(_)) || is_whole {
            return Ok(found);
        }
        let elsewhere = self.elsewhere(search, named).await?;
        let fits_better = found.links < elsewhere.links
            || (found.links == elsewhere.links && elsewhere.agrees && !found.agrees);
        Ok(if elsewhere.session.is_some() && fits_better { elsewhere } else { found })
    }

    /// The question of the session that the list ends with, or whose code the reply names, where
    /// the list does not lead to it.
    async fn by_question_in(
        &self,
        search: Search<'_>,
        named: &ExplicitId,
        id: &SessionId,
        found: &Found,
    ) -> Result<Option<Found>, StoreError> {
        let asks = found.path.last().is_some_and(|last| last.has_asked());
        if search.chain.links.is_empty() {
            let is_of_newest =
                found.path.last().is_some_and(|last| names_code_of(search.chain, last));
            return if is_of_newest { Ok(None) } else { search.by_decided_code(id).await };
        }
        if found.links == search.chain.links.len() && asks {
            return Ok(None);
        }
        let asking = search.by_question().await?;
        let is_own = |found: &Found| {
            let last = found.path.last();
            last.is_some_and(|asking| {
                let name = asking.body.session_name.as_deref();
                asking.row.session == *id || name == Some(named.text())
            })
        };
        Ok(asking.filter(is_own))
    }

    /// By content address. Where that is off, a frontend's chat still finds its own turns.
    async fn elsewhere(&self, search: Search<'_>, named: &ExplicitId) -> Result<Found, StoreError> {
        if self.content_address || matches!(named, ExplicitId::Own(_)) {
            return self.by_content(search).await;
        }
        let found = search.by_content().await?;
        let last = found.path.last().and_then(|turn| turn.body.session_name.as_deref());
        Ok(if last == Some(named.text()) { found } else { Found::default() })
    }

    async fn resolve_by_content(&self, search: Search<'_>) -> Result<ResolvedSession, ApiError> {
        // Looked for before the search: what is over by now is in the store.
        let stopping = if search.chain.links.is_empty() && search.chain.named.is_empty() {
            Vec::new()
        } else {
            self.running.stopping(search.scope)
        };
        let mut found = self.by_content(search).await?;
        // An answer that nobody gave may be that of a turn that is being stopped.
        let names_unknown = found.session.is_none() && !search.chain.named.is_empty();
        let is_unknown = found.links < search.chain.links.len() || names_unknown;
        let may_tell_more = |turn: &&Arc<SharedTurn>| {
            is_unknown || found.session.as_ref() == Some(&turn.identity.session)
        };
        let awaited: Vec<_> = stopping.iter().filter(may_tell_more).collect();
        for turn in &awaited {
            turn.over().await;
        }
        if !awaited.is_empty() {
            found = self.by_content(search).await?;
        }
        let slot = found.session.as_ref().and_then(|id| self.running.slots.try_take(id));
        let row = match &found.session {
            Some(session) => self.session(search.scope, session).await?,
            None => None,
        };
        match (row, slot) {
            (Some(row), Some(slot)) => Ok(ResolvedSession {
                session: row.id.clone(),
                row: Some(row),
                name: None,
                origin: None,
                found,
                slot,
                guard: None,
            }),
            (row, _) => self.fork(search.scope, row, found).await,
        }
    }

    /// A session of its own that goes on from what was found.
    async fn fork(
        &self,
        scope: Scope,
        origin: Option<SessionRow>,
        found: Found,
    ) -> Result<ResolvedSession, ApiError> {
        let session = SessionId::random();
        let slot = self.running.slots.take(&session, MAX_WAIT).await?;
        let origin = match origin {
            Some(origin) => Some(origin),
            None => self.origin(scope, &found).await?,
        };
        Ok(ResolvedSession { session, row: None, name: None, origin, found, slot, guard: None })
    }

    /// The session of the turn that was found.
    async fn origin(&self, scope: Scope, found: &Found) -> Result<Option<SessionRow>, StoreError> {
        match found.path.last() {
            Some(turn) => self.session(scope, &turn.row.session).await,
            None => Ok(None),
        }
    }

    async fn by_content(&self, search: Search<'_>) -> Result<Found, StoreError> {
        if !self.content_address {
            return Ok(Found::default());
        }
        let found = search.by_content().await?;
        let is_whole = found.links == search.chain.links.len() && found.session.is_some();
        if is_whole {
            return Ok(found);
        }
        // A list that begins later than the conversation.
        Ok(search.by_question().await?.unwrap_or(found))
    }

    pub(super) async fn session_named(
        &self,
        scope: Scope,
        named: &ExplicitId,
        model: &str,
    ) -> Result<Option<SessionRow>, StoreError> {
        for key in named.keys(model) {
            if let Some(row) = self.store.session(scope, key).await? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    async fn session(
        &self,
        scope: Scope,
        id: &SessionId,
    ) -> Result<Option<SessionRow>, StoreError> {
        self.store.session(scope, SessionKey::Id(id.clone())).await
    }
}
