//! Keeps rows in memory, for tests.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};

use super::rows::{
    ApprovalRow, Change, Digest, EntryRow, SessionRow, SessionSummary, TurnRow, TurnStatus,
};
use super::{
    ApprovalKey, SessionKey, SessionPage, SizeOf, Store, StoreError, TurnKey, code_member,
};
use crate::ids::{ApprovalId, Scope, SessionId, TurnId};
use crate::sync;

#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    rows: Mutex<Rows>,
}

#[derive(Clone, Debug, Default)]
struct Rows {
    /// The session used last stands last.
    sessions: Vec<SessionRow>,
    /// In the order in which they were inserted.
    turns: Vec<TurnRow>,
    entries: Vec<EntryRow>,
    approvals: Vec<ApprovalRow>,
    /// Every access fails.
    is_broken: bool,
}

impl MemoryStore {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From now on every access fails, or none does.
    pub(crate) fn set_broken(&self, is_broken: bool) {
        sync::lock(&self.rows).is_broken = is_broken;
    }

    /// What the next process finds in a store that a killed one has left.
    pub(crate) fn reopened(&self) -> Arc<Self> {
        let mut rows = sync::lock(&self.rows).clone();
        for turn in &mut rows.turns {
            if turn.status == TurnStatus::Running {
                turn.status = TurnStatus::Crashed;
            }
        }
        Arc::new(Self { rows: Mutex::new(rows) })
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Rows) -> T,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let rows = sync::lock(&self.rows);
        let found = if rows.is_broken { Err(StoreError::Unavailable) } else { Ok(read(&rows)) };
        drop(rows);
        ready(found).boxed()
    }
}

impl Store for MemoryStore {
    fn commit_together(
        &self,
        changes: Vec<Change>,
        _: usize,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let mut rows = sync::lock(&self.rows);
        let mut next = rows.clone();
        let applied = changes.into_iter().try_for_each(|change| next.apply(change));
        let committed = if rows.is_broken { Err(StoreError::Unavailable) } else { applied };
        if committed.is_ok() {
            *rows = next;
        }
        drop(rows);
        ready(committed).boxed()
    }

    fn session(
        &self,
        scope: Scope,
        by: SessionKey,
    ) -> BoxFuture<'static, Result<Option<SessionRow>, StoreError>> {
        self.read(move |rows| {
            let is_asked = |row: &&SessionRow| match &by {
                SessionKey::Id(id) => row.id == *id,
                SessionKey::Name(name) => row.name.as_ref() == Some(name),
                SessionKey::NameText(text) => {
                    row.name.as_ref().is_some_and(|name| name.text == *text)
                }
            };
            rows.sessions_of(scope).rev().find(is_asked).cloned()
        })
    }

    fn sessions(
        &self,
        scope: Scope,
        after: Option<SessionId>,
        limit: usize,
    ) -> BoxFuture<'static, Result<SessionPage, StoreError>> {
        self.read(move |rows| {
            let mut found: Vec<_> = rows.sessions_of(scope).rev().collect();
            if let Some(after) = after {
                let place = found.iter().position(|row| row.id == after);
                found.drain(..place.map_or(found.len(), |place| place + 1));
            }
            let has_more = found.len() > limit;
            let summary = |session: &SessionRow| SessionSummary {
                turns: rows.turns_of(&session.id).count() as u64,
                session: session.clone(),
            };
            SessionPage { sessions: found.into_iter().take(limit).map(summary).collect(), has_more }
        })
    }

    fn turns(
        &self,
        scope: Scope,
        by: TurnKey,
    ) -> BoxFuture<'static, Result<Vec<TurnRow>, StoreError>> {
        self.read(move |rows| {
            let newest_first = rows.turns.iter().rev();
            let is_agent = matches!(by, TurnKey::Agent(_) | TurnKey::Agents(..));
            let is_asked_kind =
                move |turn: &&TurnRow| (turn.status == TurnStatus::Agent) == is_agent;
            let found = newest_first.filter(|turn| rows.is_of(scope, &turn.session));
            let found = found.filter(is_asked_kind);
            let is_known = |chain: &&Digest| {
                let mut own = found.clone().filter_map(|turn| turn.digests);
                own.any(|digests| digests.chain == **chain)
            };
            let by = match by {
                TurnKey::Chain(chains) => {
                    TurnKey::Chain(chains.iter().find(is_known).copied().into_iter().collect())
                }
                by => by,
            };
            let found = found.filter(|turn| is_asked(turn, &by)).cloned();
            match &by {
                TurnKey::After(_, oldest) if rows.turns.iter().all(|turn| turn.id != *oldest) => {
                    Vec::new()
                }
                TurnKey::After(_, oldest) => found.take_while(|turn| turn.id != *oldest).collect(),
                TurnKey::Agents(_, most) => found.take(*most).collect(),
                _ => found.collect(),
            }
        })
    }

    fn entries(
        &self,
        scope: Scope,
        turns: Vec<TurnId>,
    ) -> BoxFuture<'static, Result<Vec<EntryRow>, StoreError>> {
        self.read(move |rows| {
            let own = rows.turns.iter().filter(|turn| rows.is_of(scope, &turn.session));
            let own: HashSet<_> =
                own.map(|turn| &turn.id).filter(|id| turns.contains(id)).collect();
            rows.entries.iter().filter(|entry| own.contains(&entry.turn)).cloned().collect()
        })
    }

    fn size(&self, scope: Scope, of: SizeOf) -> BoxFuture<'static, Result<usize, StoreError>> {
        self.read(move |rows| {
            let own = rows.turns.iter().filter(|turn| rows.is_of(scope, &turn.session));
            match &of {
                SizeOf::Turns(session) | SizeOf::Agents(session, _) => {
                    let is_agent = matches!(of, SizeOf::Agents(..));
                    let asked = own.filter(|turn| {
                        turn.session == *session && (turn.status == TurnStatus::Agent) == is_agent
                    });
                    let most = if let SizeOf::Agents(_, most) = of { most } else { usize::MAX };
                    asked.rev().take(most).map(|turn| turn.body.len()).sum()
                }
                SizeOf::Entries(turns) => {
                    let own: HashSet<_> =
                        own.map(|turn| &turn.id).filter(|id| turns.contains(id)).collect();
                    let entries = rows.entries.iter().filter(|entry| own.contains(&entry.turn));
                    entries.map(|entry| entry.body.len()).sum()
                }
            }
        })
    }

    fn approvals(
        &self,
        scope: Scope,
        by: ApprovalKey,
    ) -> BoxFuture<'static, Result<Vec<ApprovalRow>, StoreError>> {
        self.read(move |rows| {
            let is_asked = |row: &&ApprovalRow| match &by {
                ApprovalKey::Id(id) => row.id == *id,
                ApprovalKey::Turn(turn) => row.turn == *turn,
                ApprovalKey::Open => row.decision.is_none(),
                ApprovalKey::Code(code) => {
                    String::from_utf8_lossy(&row.body).contains(&code_member(code))
                }
            };
            let own = rows.approvals.iter().filter(|row| row.scope == scope);
            own.filter(is_asked).cloned().collect()
        })
    }
}

fn is_asked(turn: &TurnRow, by: &TurnKey) -> bool {
    match by {
        TurnKey::Id(id) => turn.id == *id,
        TurnKey::Session(session) | TurnKey::After(session, _) | TurnKey::Agents(session, _) => {
            turn.session == *session
        }
        TurnKey::Chain(chains) => {
            turn.digests.is_some_and(|digests| chains.first() == Some(&digests.chain))
        }
        TurnKey::Head(head) => turn.digests.is_some_and(|digests| digests.head == Some(*head)),
        TurnKey::Idempotency(digest) => turn.idempotency == Some(*digest),
        TurnKey::Request(digest) => turn.request == Some(*digest),
        TurnKey::Agent(agent) => turn.id == TurnId::of_agent(agent),
    }
}

impl Rows {
    fn sessions_of(&self, scope: Scope) -> impl DoubleEndedIterator<Item = &SessionRow> {
        self.sessions.iter().filter(move |row| row.scope == scope)
    }

    fn turns_of(&self, session: &SessionId) -> impl Iterator<Item = &TurnRow> {
        let turns = self.turns.iter().filter(move |turn| turn.session == *session);
        turns.filter(|turn| turn.status != TurnStatus::Agent)
    }

    fn is_of(&self, scope: Scope, session: &SessionId) -> bool {
        self.sessions_of(scope).any(|row| row.id == *session)
    }

    fn apply(&mut self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::Session(row) => {
                self.sessions.retain(|known| known.id != row.id);
                self.sessions.push(row);
            }
            Change::Turn(row) => match self.turns.iter_mut().find(|known| known.id == row.id) {
                Some(known) => *known = row,
                None => self.turns.push(row),
            },
            Change::Entry(row) => self.entries.push(row),
            Change::Approval(row) => {
                match self.approvals.iter_mut().find(|known| known.id == row.id) {
                    Some(known) => (known.expires_ms, known.body) = (row.expires_ms, row.body),
                    None => self.approvals.push(row),
                }
            }
            Change::Decide { approval, decision } => self.decide(&approval, decision)?,
            Change::Forget(session) => self.forget(&session),
        }
        Ok(())
    }

    fn decide(&mut self, approval: &ApprovalId, decision: Vec<u8>) -> Result<(), StoreError> {
        let open = self.approvals.iter_mut().find(|row| row.id == *approval);
        let open = open.filter(|row| row.decision.is_none()).ok_or(StoreError::Conflict)?;
        open.decision = Some(decision);
        Ok(())
    }

    fn forget(&mut self, session: &SessionId) {
        let turns: HashSet<TurnId> =
            self.turns.extract_if(.., |row| row.session == *session).map(|row| row.id).collect();
        self.sessions.retain(|row| row.id != *session);
        self.entries.retain(|row| !turns.contains(&row.turn));
        self.approvals.retain(|row| row.session != *session);
    }
}

/// Rows for tests.
#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use crate::ids::KeyId;

    pub(crate) fn scope(key: &str) -> Scope {
        Scope::new(&KeyId::new(key), None)
    }

    pub(crate) fn session(key: &str) -> SessionRow {
        SessionRow {
            id: SessionId::random(),
            scope: scope(key),
            key: KeyId::new(key),
            name: None,
            model: "model".to_owned(),
            created_ms: 1_000,
            updated_ms: 2_000,
            prompt: None,
            body: b"{}".to_vec(),
        }
    }

    pub(crate) fn turn(session: &SessionRow, parent: Option<&TurnRow>) -> TurnRow {
        TurnRow {
            id: TurnId::random(),
            session: session.id.clone(),
            parent: parent.map(|parent| parent.id.clone()),
            status: TurnStatus::Running,
            started_ms: 1_000,
            depth: parent.map_or(1, |parent| parent.depth + 1),
            digests: None,
            request: None,
            idempotency: None,
            body: br#"{"model":"model"}"#.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{scope, session, turn};
    use super::*;

    #[tokio::test]
    async fn another_scope_finds_nothing() {
        let store = MemoryStore::new();
        let (session, other) = (session("a"), scope("b"));
        let row = turn(&session, None);
        let entry = EntryRow { turn: row.id.clone(), body: b"{}".to_vec() };
        let changes = vec![
            Change::Session(session.clone()),
            Change::Turn(row.clone()),
            Change::Entry(entry.clone()),
        ];
        store.commit(changes).await.unwrap();

        for (scope, found) in [(session.scope, 1), (other, 0)] {
            let by = SessionKey::Id(session.id.clone());
            assert_eq!(store.session(scope, by).await.unwrap().is_some(), found == 1);
            assert_eq!(store.sessions(scope, None, 20).await.unwrap().sessions.len(), found);
            assert_eq!(store.turns(scope, TurnKey::Id(row.id.clone())).await.unwrap().len(), found);
            assert_eq!(store.entries(scope, vec![row.id.clone()]).await.unwrap().len(), found);
        }
    }

    #[tokio::test]
    async fn changes_are_applied_together_or_not_at_all() {
        let store = MemoryStore::new();
        let session = session("a");
        let decide = Change::Decide { approval: ApprovalId::random(), decision: b"{}".to_vec() };

        let refused = store.commit(vec![Change::Session(session.clone()), decide]).await;

        assert_eq!(refused, Err(StoreError::Conflict));
        assert!(store.sessions(session.scope, None, 20).await.unwrap().sessions.is_empty());
    }

    #[tokio::test]
    async fn the_session_used_last_stands_first_and_pages_follow_each_other() {
        let store = MemoryStore::new();
        let sessions: Vec<_> = (0..3).map(|_| session("a")).collect();
        let uses = [0, 1, 2, 0].map(|place: usize| Change::Session(sessions[place].clone()));
        store.commit(uses.to_vec()).await.unwrap();
        let scope = sessions[0].scope;

        let first = store.sessions(scope, None, 2).await.unwrap();
        let after = first.sessions[1].session.id.clone();
        let second = store.sessions(scope, Some(after), 2).await.unwrap();

        let ids = |page: &SessionPage| -> Vec<SessionId> {
            page.sessions.iter().map(|found| found.session.id.clone()).collect()
        };
        assert_eq!(ids(&first), [sessions[0].id.clone(), sessions[2].id.clone()]);
        assert_eq!(ids(&second), [sessions[1].id.clone()]);
        assert_eq!((first.has_more, second.has_more), (true, false));
    }
}
