//! Lists, shows and deletes sessions.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::time::sleep;

use super::tasks::{self, TaskItem};
use super::{Page, Rest, not_found, seconds};
use crate::agent::agent_event::RunCounts;
use crate::agent::subagents::records::{AgentRecord, RunStatus};
use crate::errors::ApiError;
use crate::ids::{AgentId, ApprovalId, Scope, SessionId};
use crate::permissions::Mode;
use crate::sessions::ancestry::path_to;
use crate::sessions::export::messages;
use crate::sessions::loading::Loading;
use crate::sessions::open_approvals::asks_of_agents;
use crate::sessions::record::{TurnRecord, entries_by_turn};
use crate::sessions::running::{SessionSlot, SharedTurn, TurnIdentity};
use crate::store::rows::{Change, SessionName, SessionRow, SessionSummary, TurnRow};
use crate::store::{SessionKey, SizeOf, StoreError, TurnKey};
use crate::tools::todos::Todo;

/// How long a session may take to end when it is deleted.
const DELETE_LIMIT: Duration = Duration::from_secs(5);

/// The agents that a session shows, the newest of them. A record may have a hundred kilobytes.
const SHOWN_AGENTS: usize = 100;

/// How often it is looked meanwhile whether a request that waited has begun a turn.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A session in a list.
#[derive(Debug, Serialize)]
pub(crate) struct SessionItem {
    id: SessionId,
    name: Option<String>,
    model: String,
    created: i64,
    updated: i64,
    turns: u64,
}

/// A session with the messages of its newest branch.
#[derive(Debug, Serialize)]
pub(crate) struct SessionExport {
    #[serde(flatten)]
    session: SessionItem,
    messages: Vec<Value>,
    #[serde(flatten)]
    left: LeftState,
    /// The newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<AgentItem>,
    /// Its background tasks, the one started last first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<TaskItem>,
}

/// What the newest turn has left.
#[derive(Debug, Serialize)]
struct LeftState {
    /// The mode of a request that names none.
    mode: Mode,
    /// The plan that was written in plan mode.
    plan: Option<String>,
    todos: Vec<Todo>,
}

/// A subagent of the session.
#[derive(Debug, Serialize)]
struct AgentItem {
    id: AgentId,
    #[serde(rename = "type")]
    agent_type: String,
    description: String,
    model: String,
    background: bool,
    /// When its last run began or ended.
    updated: i64,
    /// Of its last run, as the counts.
    status: &'static str,
    #[serde(flatten)]
    counts: RunCounts,
}

#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "a name of the wire")]
pub(crate) struct Deleted {
    id: SessionId,
    object: &'static str,
    deleted: bool,
}

impl Rest {
    /// The sessions used last, from behind `after`, which is an id or a name.
    pub(crate) async fn sessions(
        &self,
        scope: Scope,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<SessionItem>, ApiError> {
        let after = match after {
            Some(after) => {
                let session = self.stored(scope, after).await?;
                Some(session.ok_or_else(|| not_found("session"))?.id)
            }
            None => None,
        };
        let page = self.store.sessions(scope, after, limit).await?;
        let data = page.sessions.into_iter().map(item).collect();
        Ok(Page::new(data, page.has_more))
    }

    /// `mode` is that of the key, if it is stricter than the server's.
    pub(crate) async fn export(
        &self,
        scope: Scope,
        mode: Option<Mode>,
        id: &str,
    ) -> Result<SessionExport, ApiError> {
        let mode = mode.map_or(self.mode, |mode| mode.min(self.mode));
        let Some(session) = self.stored(scope, id).await? else {
            let session = not_kept_yet(&*self.first_turn(scope, id)?);
            let left = LeftState { mode, plan: None, todos: Vec::new() };
            return Ok(SessionExport {
                session,
                messages: Vec::new(),
                left,
                agents: Vec::new(),
                tasks: Vec::new(),
            });
        };
        let loading = Loading::new(&self.memory_budget);
        loading.add(self.store.size(scope, SizeOf::Turns(session.id.clone())).await?)?;
        let turns = self.store.turns(scope, TurnKey::Session(session.id.clone())).await?;
        let count = turns.len() as u64;
        let branch = self.branch(scope, turns, &loading).await?;
        let (messages, left) = (messages(&branch), left(&branch, &session.id, mode));
        let size = SizeOf::Agents(session.id.clone(), SHOWN_AGENTS);
        loading.add(self.store.size(scope, size).await?)?;
        let newest = TurnKey::Agents(session.id.clone(), SHOWN_AGENTS);
        let agents = self.store.turns(scope, newest).await?;
        let asked = if agents.is_empty() {
            Vec::new()
        } else {
            asks_of_agents(&*self.store, &self.running, scope).await?
        };
        let known = self.tasks.known(&session.id);
        let runs = |agent: &AgentId| known.as_ref().is_some_and(|it| it.agents.is_running(agent));
        let agents = agents.iter().filter_map(|row| agent_item(row, runs, &asked)).collect();
        let tasks = known.as_ref().map(|known| known.all()).unwrap_or_default();
        let tasks = tasks.iter().rev().map(|task| tasks::item(session.id.clone(), task)).collect();
        let session = item(SessionSummary { session, turns: count });
        Ok(SessionExport { session, messages, left, agents, tasks })
    }

    /// Stops what runs in the session, its background tasks too, and removes it.
    pub(crate) async fn delete(&self, scope: Scope, id: &str) -> Result<Deleted, ApiError> {
        let session = match self.stored(scope, id).await? {
            Some(session) => session.id,
            None => self.first_turn(scope, id)?.identity.session.clone(),
        };
        let slot = self.stopped(scope, &session).await?;
        self.tasks.end_session(&session).await;
        self.store.commit(vec![Change::Forget(session.clone())]).await?;
        self.running.forget_session(scope, &session);
        drop(slot);
        Ok(Deleted { id: session, object: "session.deleted", deleted: true })
    }

    /// Takes the session when what runs in it has stopped, with the requests that waited before.
    async fn stopped(&self, scope: Scope, session: &SessionId) -> Result<SessionSlot, ApiError> {
        let mut slot = pin!(self.running.slots.take(session, DELETE_LIMIT));
        loop {
            let stop = async {
                self.running.stop_session(scope, session).await;
                sleep(LOOK_AGAIN).await;
            };
            tokio::select! {
                slot = &mut slot => return slot,
                () = stop => {}
            }
        }
    }

    /// The first turn of a session that is not in the store yet.
    fn first_turn(&self, scope: Scope, id: &str) -> Result<Arc<SharedTurn>, ApiError> {
        let is_it = |turn: &Arc<SharedTurn>| {
            turn.identity.session_name == id || turn.identity.session.to_string() == id
        };
        let turn = self.running.of_scope(scope).into_iter().find(is_it);
        turn.ok_or_else(|| not_found("session"))
    }

    /// The records of the newest branch, the oldest first. `turns` are all of a session, the
    /// newest first.
    async fn branch(
        &self,
        scope: Scope,
        turns: Vec<TurnRow>,
        loading: &Loading,
    ) -> Result<Vec<TurnRecord>, StoreError> {
        let newest = turns.first().map(|turn| turn.id.clone());
        let path = path_to(&*self.store, scope, newest, turns).await?;
        let ids: Vec<_> = path.iter().map(|turn| turn.id.clone()).collect();
        loading.add(self.store.size(scope, SizeOf::Entries(ids.clone())).await?)?;
        let mut entries = entries_by_turn(self.store.entries(scope, ids).await?);
        let read = |turn: TurnRow| {
            let entries = entries.remove(&turn.id).unwrap_or_default();
            TurnRecord::new(turn, entries)
        };
        Ok(path.into_iter().map(read).collect())
    }

    /// The session with this id, or the client's own name for it, or the chat id of a frontend,
    /// which may name a session for each model: then the one used last.
    async fn stored(&self, scope: Scope, id: &str) -> Result<Option<SessionRow>, StoreError> {
        let by_id = SessionId::parse(id).map(SessionKey::Id);
        let by_name = SessionKey::Name(SessionName { text: id.to_owned(), model: None });
        let by_chat = SessionKey::NameText(id.to_owned());
        for key in by_id.into_iter().chain([by_name, by_chat]) {
            if let Some(found) = self.store.session(scope, key).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// What the last turn of the branch leaves to a request of this session.
fn left(branch: &[TurnRecord], session: &SessionId, mode: Mode) -> LeftState {
    let mut path = branch.iter().rev();
    let last = path.find_map(|turn| Some((&turn.row.session, turn.body.state.clone()?)));
    let Some((of, state)) = last else {
        return LeftState { mode, plan: None, todos: Vec::new() };
    };
    let saved = state.mode.unwrap_or_default();
    let saved = if of == session { saved } else { saved.for_fork() };
    let todos = state.todos.map(|saved| saved.todos).unwrap_or_default();
    LeftState { mode: saved.effective_mode(mode), plan: state.plan, todos }
}

fn not_kept_yet(turn: &SharedTurn) -> SessionItem {
    let TurnIdentity { session, session_name, started_ms, .. } = turn.identity.clone();
    let started = seconds(started_ms);
    SessionItem {
        name: Some(session_name).filter(|name| *name != session.to_string()),
        id: session,
        model: turn.shape.envelope.model.clone(),
        created: started,
        updated: started,
        turns: 1,
    }
}

/// `asked`: what agents have asked, and a person can still decide about.
fn agent_item(
    row: &TurnRow,
    runs: impl Fn(&AgentId) -> bool,
    asked: &[ApprovalId],
) -> Option<AgentItem> {
    let record: AgentRecord = serde_json::from_slice(&row.body).ok()?;
    let can_be_decided = record.waits_for.iter().any(|ask| asked.contains(ask));
    let AgentRecord { agent_type, description, model, in_background, status, counts, .. } = record;
    let id = AgentId::of_row(&row.id);
    let status = match status {
        // Taken up, it is not kept as running at once.
        _ if runs(&id) => "running",
        RunStatus::Waiting if can_be_decided => "waiting",
        RunStatus::Running | RunStatus::Waiting => "interrupted",
        RunStatus::Completed => "completed",
        RunStatus::Failed => "failed",
    };
    Some(AgentItem {
        id,
        agent_type: agent_type.name,
        description,
        model,
        background: in_background,
        updated: seconds(row.started_ms),
        status,
        counts,
    })
}

fn item(SessionSummary { session, turns }: SessionSummary) -> SessionItem {
    SessionItem {
        id: session.id,
        name: session.name.map(|name| name.text),
        model: session.model,
        created: seconds(session.created_ms),
        updated: seconds(session.updated_ms),
        turns,
    }
}
