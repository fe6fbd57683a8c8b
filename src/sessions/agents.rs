//! Keeps what the subagents of a session have done, in the store.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::open_approvals::asks_of_agents;
use super::record::entries_by_turn;
use super::recorder::{approval_row, json};
use super::running::Running;
use crate::agent::record::{Asked, Entry, Recorder};
use crate::agent::subagents::records::{AgentRecord, AgentRecords, Decisions, KeptAgent, Whose};
use crate::clock;
use crate::errors::ApiError;
use crate::ids::{AgentId, ApprovalId, Scope, SessionId, TurnId};
use crate::store::rows::{Change, EntryRow, TurnRow, TurnStatus};
use crate::store::{Store, TurnKey};

/// The subagents of one session.
#[derive(Clone, Debug)]
pub(super) struct SessionAgents {
    pub(super) store: Arc<dyn Store>,
    pub(super) scope: Scope,
    pub(super) session: SessionId,
    pub(super) running: Arc<Running>,
}

impl AgentRecords for SessionAgents {
    fn put(
        &self,
        agent: &AgentId,
        record: &AgentRecord,
    ) -> BoxFuture<'static, Result<(), ApiError>> {
        let row = TurnRow {
            id: TurnId::of_agent(agent),
            session: self.session.clone(),
            parent: None,
            status: TurnStatus::Agent,
            started_ms: clock::now_ms(),
            depth: 0,
            digests: None,
            request: None,
            idempotency: None,
            body: json(record),
        };
        let committed = self.store.commit(vec![Change::Turn(row)]);
        Box::pin(async move { Ok(committed.await?) })
    }

    fn recorder(&self, agent: &AgentId) -> Arc<dyn Recorder> {
        Arc::new(AgentRecorder { store: Arc::clone(&self.store), row: TurnId::of_agent(agent) })
    }

    fn in_background(&self, agent: &AgentId, heading: String) -> (Arc<dyn Recorder>, Decisions) {
        let row = TurnId::of_agent(agent);
        let decisions = self.running.background_agents.listen(self.scope, row.clone());
        let recorder = AgentRecorder { store: Arc::clone(&self.store), row };
        let (scope, session) = (self.scope, self.session.clone());
        (Arc::new(AskingRecorder { recorder, scope, session, heading }), decisions)
    }

    fn can_be_decided(&self, asks: Vec<ApprovalId>) -> BoxFuture<'static, Result<bool, ApiError>> {
        let own = self.clone();
        Box::pin(async move {
            let open = asks_of_agents(&*own.store, &own.running, own.scope).await?;
            Ok(open.iter().any(|ask| asks.contains(ask)))
        })
    }

    fn load(
        &self,
        agent: &AgentId,
        whose: Whose,
    ) -> BoxFuture<'static, Result<Option<KeptAgent>, ApiError>> {
        let (own, agent) = (self.clone(), agent.clone());
        Box::pin(async move {
            let rows = own.store.turns(own.scope, TurnKey::Agent(agent)).await?;
            let is_own = |row: &TurnRow| whose == Whose::Client || row.session == own.session;
            let Some(row) = rows.into_iter().find(is_own) else { return Ok(None) };
            let Ok(record) = serde_json::from_slice(&row.body) else {
                tracing::error!(agent = %row.id, "what is kept of an agent cannot be read");
                return Ok(None);
            };
            let entries = own.store.entries(own.scope, vec![row.id.clone()]).await?;
            let entries = entries_by_turn(entries).remove(&row.id).unwrap_or_default();
            Ok(Some(KeptAgent { record, entries }))
        })
    }
}

/// Commits the entries of one subagent.
#[derive(Debug)]
struct AgentRecorder {
    store: Arc<dyn Store>,
    row: TurnId,
}

impl AgentRecorder {
    fn commit_with(
        &self,
        mut changes: Vec<Change>,
        entry: &Entry,
    ) -> BoxFuture<'static, Result<(), ApiError>> {
        changes.push(Change::Entry(EntryRow { turn: self.row.clone(), body: json(entry) }));
        // The store applies commits in their order.
        let committed = self.store.commit(changes);
        Box::pin(async move { Ok(committed.await?) })
    }
}

impl Recorder for AgentRecorder {
    fn commit(&self, entry: Entry) -> BoxFuture<'static, Result<(), ApiError>> {
        self.commit_with(Vec::new(), &entry)
    }
}

/// Commits the entries of a subagent in the background, with the approvals that it asks for.
#[derive(Debug)]
struct AskingRecorder {
    recorder: AgentRecorder,
    scope: Scope,
    session: SessionId,
    /// In front of what a call would do.
    heading: String,
}

impl AskingRecorder {
    fn approval(&self, asked: &Asked) -> Change {
        let mut asked = asked.clone();
        asked.ask.put_in_front(&self.heading);
        Change::Approval(approval_row((self.scope, &self.session, &self.recorder.row), &asked))
    }
}

impl Recorder for AskingRecorder {
    fn commit(&self, entry: Entry) -> BoxFuture<'static, Result<(), ApiError>> {
        let asked = match &entry {
            Entry::Asked { asked } => asked.as_slice(),
            _ => &[],
        };
        let approvals = asked.iter().map(|asked| self.approval(asked)).collect();
        self.recorder.commit_with(approvals, &entry)
    }
}
