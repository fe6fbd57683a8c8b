//! Commits what a turn leaves behind: its session, its row, its entries and its approvals.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt as _, Shared, join};

use super::client_calls::call_digest;
use super::record::{SessionBody, SessionState, TurnBody};
use super::running::Audience;
use crate::agent::record::{Asked, End, Entry, Outcome, Recorder};
use crate::blocking::FILES;
use crate::clock;
use crate::errors::ApiError;
use crate::ids::{Scope, SessionId, TurnId};
use crate::store::rows::{
    ApprovalRow, Change, EntryRow, LinkDigests, SessionRow, TurnRow, TurnStatus,
};
use crate::store::{Store, StoreError};
use crate::sync;
use crate::tools::agent_context::AgentContext;
use crate::tools::session_context::SessionContext;

/// The digests of the turn's answer, and the depth of its link, once it is known what the
/// client was sent: the text, and the ids of the calls.
pub(super) type Address = dyn Fn(&str, &[String]) -> (u32, Option<LinkDigests>) + Send + Sync;

/// Records one turn in the store.
pub(super) struct TurnRecorder {
    store: Arc<dyn Store>,
    address: Box<Address>,
    current: CurrentState,
    rows: Mutex<Rows>,
    written: Arc<Written>,
    /// The last commit. Each waits for those before it, and fails with them: the record has no
    /// gap.
    last: Mutex<Option<Committing>>,
    recorders: Recorders,
}

/// Counts the turns that are recorded now: each recorder has a clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorders(Arc<()>);

impl Recorders {
    /// Of so many turns, one or the other is about to end as well.
    const MANY: usize = 4;

    /// For how many other commits the end of a turn may wait.
    fn others(&self) -> usize {
        // One clone is not a recorder's.
        let turns = Arc::strong_count(&self.0) - 1;
        // If all waited for each other, nothing else would be done meanwhile.
        if Self::MANY < turns { turns / 2 } else { 0 }
    }
}

type Committing = Shared<BoxFuture<'static, Result<(), StoreError>>>;

/// What of the turn is in the store.
#[derive(Debug, Default)]
struct Written {
    /// The session and the turn. Until a commit has succeeded, each brings them along.
    rows: AtomicBool,
    /// They may be, since nobody has heard how the first commit went.
    maybe_rows: AtomicBool,
    end: AtomicBool,
}

/// What a commit reads of the running session: the directory, the read files, the grants.
pub(super) struct CurrentState {
    pub(super) context: Arc<SessionContext>,
    pub(super) agent: Arc<AgentContext>,
    /// What held when the turn began.
    pub(super) before: Option<SessionState>,
    pub(super) turn: TurnId,
    /// Who listens to the turn.
    pub(super) audience: Audience,
}

/// The rows as they will be, or are, in the store.
#[derive(Debug)]
pub(super) struct Rows {
    /// Its body is written anew with each commit.
    pub(super) session: SessionRow,
    pub(super) turn: TurnRow,
    pub(super) body: TurnBody,
    /// Committed together with the rows, for the first time: decisions that the turn acts on.
    pub(super) first: Vec<Change>,
}

impl CurrentState {
    /// The state at this moment, if it is not what held before.
    fn changed_state(&self) -> Option<SessionState> {
        let working_dir = self.agent.working_dir();
        let is_root = working_dir == self.context.workspace.root();
        let known_tasks = self.agent.saved_tasks(&self.context);
        let has_files = !self.agent.read_state.is_empty();
        let readable = self.context.readable.save();
        let todos = self.agent.todos.save();
        let planned_tasks = self.context.planned_tasks.save();
        let (mode, plan) = (self.context.mode.save(), self.context.plan.text());
        let plan = plan.map(|plan| plan.to_string());
        let has_plans = todos.is_some() || planned_tasks.is_some() || plan.is_some();
        let has_none = !has_files && known_tasks.is_none() && readable.is_empty() && !has_plans;
        if self.before.is_none() && is_root && has_none && mode.is_none() {
            return None;
        }
        let now = SessionState {
            working_dir: (!is_root).then_some(working_dir),
            read_state: self.agent.read_state.save(),
            known_tasks: known_tasks.unwrap_or_default(),
            readable,
            todos,
            planned_tasks,
            mode,
            plan,
        };
        (self.before.as_ref() != Some(&now)).then_some(now)
    }

    /// Puts what the agent knows of files on the disk, where a later turn finds it.
    fn keep_contents(&self) -> impl Future<Output = ()> + use<> {
        let agent = Arc::clone(&self.agent);
        async move {
            if agent.read_state.content_bytes() > 0 {
                // Without it, changes are named and not shown.
                _ = FILES.run(move || agent.read_state.keep_contents()).await;
            }
        }
    }

    /// The body of the session.
    fn session(&self) -> Vec<u8> {
        // JSON has no form for a path that is not UTF-8.
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let (root, working_dir) = (self.context.workspace.root(), self.agent.working_dir());
        json(&SessionBody {
            grants: self.context.grants.save(),
            workspace: text(root),
            working_dir: text(&working_dir).filter(|_| working_dir != root),
            plan_of: self.context.plan.text().map(|_| self.turn.clone()),
            preferences: self.context.preferences.save(),
        })
    }
}

/// A turn that was aborted, or whose end could not be committed, is not left as running.
impl Drop for TurnRecorder {
    fn drop(&mut self) {
        let mut rows = sync::lock(&self.rows);
        let written = &self.written;
        let may_be_there = written.maybe_rows.load(Ordering::Relaxed);
        if may_be_there && !written.end.load(Ordering::Relaxed) {
            rows.turn.status = TurnStatus::Crashed;
            // The store applies it even though nobody waits.
            drop(self.store.commit(rows.put(&self.current)));
        }
    }
}

impl TurnRecorder {
    pub(super) fn new(
        store: Arc<dyn Store>,
        rows: Rows,
        address: Box<Address>,
        current: CurrentState,
        recorders: Recorders,
    ) -> Self {
        Self {
            store,
            address,
            current,
            rows: Mutex::new(rows),
            written: Arc::default(),
            last: Mutex::default(),
            recorders,
        }
    }

    /// Commits the rows before the turn begins: it acts on decisions, or is to be found.
    pub(super) async fn begin(&self) -> Result<(), StoreError> {
        let changes = {
            let mut rows = sync::lock(&self.rows);
            let mut changes = rows.put(&self.current);
            changes.append(&mut rows.first);
            changes
        };
        self.send(changes).await
    }

    /// Commits behind all that was committed before; not at all if something of that has failed.
    fn send(&self, changes: Vec<Change>) -> Committing {
        let mut last = sync::lock(&self.last);
        if let Some(failed) = last.as_ref().filter(|last| has_failed(last)) {
            return failed.clone();
        }
        let committing = self.sent(last.take(), changes, false).shared();
        *last = Some(committing.clone());
        committing
    }

    /// [`Self::send`] of what nothing follows.
    fn send_end(&self, changes: Vec<Change>) -> BoxFuture<'static, Result<(), StoreError>> {
        match sync::lock(&self.last).take() {
            Some(failed) if has_failed(&failed) => failed.boxed(),
            before => self.sent(before, changes, true),
        }
    }

    fn sent(
        &self,
        before: Option<Committing>,
        changes: Vec<Change>,
        is_end: bool,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        self.written.maybe_rows.store(true, Ordering::Relaxed);
        // Nothing but the client waits for the end of a turn.
        let others = if is_end { self.recorders.others() } else { 0 };
        let committed = self.store.commit_together(changes, others);
        let written = Arc::clone(&self.written);
        Box::pin(async move {
            if let Some(before) = before {
                before.await?;
            }
            let outcome = committed.await;
            let is_ok = outcome.is_ok();
            if is_ok {
                written.rows.store(true, Ordering::Relaxed);
                written.end.store(is_end, Ordering::Relaxed);
            } else if !written.rows.load(Ordering::Relaxed) {
                written.maybe_rows.store(false, Ordering::Relaxed);
            }
            outcome
        })
    }

    fn changes(&self, entry: &Entry) -> Vec<Change> {
        let rows = sync::lock(&self.rows);
        let mut changes = Vec::new();
        if let Entry::End(end) = entry {
            changes = self.ended(&rows, end);
        } else if !self.written.rows.load(Ordering::Relaxed) {
            changes = rows.put(&self.current);
        }
        // A turn that suspends may be answered for longer than one that waits.
        let asked = match entry {
            Entry::Asked { asked } => asked.as_slice(),
            Entry::End(end) => end.open.as_ref().map_or(&[][..], |open| &open.asked),
            _ => &[],
        };
        let of = (rows.session.scope, &rows.session.id, &rows.turn.id);
        changes.extend(asked.iter().map(|asked| Change::Approval(approval_row(of, asked))));
        let body = json(entry);
        changes.push(Change::Entry(EntryRow { turn: rows.turn.id.clone(), body }));
        changes
    }

    /// The rows with how the turn ended.
    fn ended(&self, rows: &Rows, end: &End) -> Vec<Change> {
        let ids = end.client_calls.iter().filter_map(|call| call["id"].as_str());
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        let (depth, digests) = (self.address)(&end.said, &ids);
        let calls: Vec<_> = end.client_calls.iter().map(call_digest).collect();
        let state = self.current.changed_state();
        let unheard = self.current.audience.has_left();
        let body = if calls.is_empty() && state.is_none() && !unheard {
            body_json(&rows.body)
        } else {
            body_json(&TurnBody { calls, unheard, state, ..rows.body.clone() })
        };
        let updated_ms = clock::now_ms();
        let session =
            SessionRow { updated_ms, body: self.current.session(), ..rows.session.clone() };
        let turn = TurnRow { depth, digests, status: status(end), body, ..rows.turn.clone() };
        vec![Change::Session(session), Change::Turn(turn)]
    }
}

impl Recorder for TurnRecorder {
    fn commit(&self, entry: Entry) -> BoxFuture<'static, Result<(), ApiError>> {
        let changes = self.changes(&entry);
        if !matches!(entry, Entry::End(_)) {
            let committing = self.send(changes);
            return Box::pin(async move { Ok(committing.await?) });
        }
        let (committing, keeping) = (self.send_end(changes), self.current.keep_contents());
        Box::pin(async move { Ok(join(committing, keeping).await.0?) })
    }
}

impl Rows {
    fn put(&self, present: &CurrentState) -> Vec<Change> {
        let session = SessionRow { body: present.session(), ..self.session.clone() };
        let turn = TurnRow { body: body_json(&self.body), ..self.turn.clone() };
        vec![Change::Session(session), Change::Turn(turn)]
    }
}

fn has_failed(committing: &Committing) -> bool {
    matches!(committing.peek(), Some(Err(_)))
}

fn status(end: &End) -> TurnStatus {
    match (&end.outcome, &end.open) {
        (Outcome::Failed { .. }, _) => TurnStatus::Failed,
        (Outcome::Stopped, _) => TurnStatus::Cancelled,
        (Outcome::Finished { .. }, None) => TurnStatus::Finished,
        (Outcome::Finished { .. }, Some(open)) if open.asked.is_empty() => TurnStatus::AwaitsClient,
        (Outcome::Finished { .. }, Some(_)) => TurnStatus::Suspended,
    }
}

/// `turn` waits for the decision.
pub(super) fn approval_row(
    (scope, session, turn): (Scope, &SessionId, &TurnId),
    asked: &Asked,
) -> ApprovalRow {
    ApprovalRow {
        id: asked.id.clone(),
        scope,
        session: session.clone(),
        turn: turn.clone(),
        created_ms: asked.created_ms,
        expires_ms: asked.expires_ms,
        body: json(asked),
        decision: None,
    }
}

/// The body of a turn's row. It may be large, and is given its room at once: a list that grows
/// by doubling would take twice as much.
fn body_json(body: &TurnBody) -> Vec<u8> {
    let mut written = Vec::with_capacity(body.stored_size());
    serde_json::to_writer(&mut written, body).expect("writing to memory does not fail");
    written
}

pub(super) fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("writing to memory does not fail")
}

impl fmt::Debug for TurnRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnRecorder").field("rows", &self.rows).finish_non_exhaustive()
    }
}
