//! Commits what a turn leaves behind: its session, its row, its entries and its approvals.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;

use super::record::{Facts, SessionBody, TurnBody};
use crate::agent::record::{Asked, End, Entry, Outcome, Recorder};
use crate::clock;
use crate::errors::ApiError;
use crate::store::Store;
use crate::store::rows::{
    ApprovalRow, Change, EntryRow, LinkDigests, SessionRow, TurnRow, TurnStatus,
};
use crate::sync;
use crate::tools::tool::SessionContext;

/// The digests of the turn's answer, and the depth of its link, once it is known what the
/// client was sent: the text, and the ids of the calls.
pub(super) type Address = dyn Fn(&str, &[String]) -> (u32, Option<LinkDigests>) + Send + Sync;

/// Records one turn in the store.
pub(super) struct TurnRecorder {
    store: Arc<dyn Store>,
    address: Box<Address>,
    present: Present,
    rows: Mutex<Rows>,
    /// Whether the session and the turn are in the store. Until a commit has succeeded, each
    /// brings them along.
    is_written: Arc<AtomicBool>,
}

/// Tells what holds at this moment.
pub(super) struct Present {
    pub(super) context: Arc<SessionContext>,
    /// What held when the turn began.
    pub(super) before: Option<Facts>,
    /// The session's prompt.
    pub(super) prompt: Option<String>,
}

/// The rows as they will be, or are, in the store.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) session: SessionRow,
    pub(super) turn: TurnRow,
    pub(super) body: TurnBody,
    /// Committed together with the rows, for the first time: decisions that the turn acts on.
    pub(super) first: Vec<Change>,
    pub(super) has_ended: bool,
}

impl Present {
    /// The facts of this moment, if they are not what held before.
    fn facts(&self) -> Option<Facts> {
        let working_dir = self.context.working_dir();
        let is_root = working_dir == self.context.workspace.root();
        let now = Facts {
            working_dir: (!is_root).then_some(working_dir),
            read_state: self.context.read_state.save(),
        };
        let before = self.before.as_ref();
        let is_same = before.map_or_else(|| now == Facts::of_empty(), |before| now == *before);
        (!is_same).then_some(now)
    }

    /// The body of the session.
    fn session(&self) -> Vec<u8> {
        json(&SessionBody { prompt: self.prompt.clone(), grants: self.context.grants.save() })
    }
}

/// A turn that was aborted is not left as running.
impl Drop for TurnRecorder {
    fn drop(&mut self) {
        let mut rows = sync::lock(&self.rows);
        if self.is_written.load(Ordering::Relaxed) && !rows.has_ended {
            rows.turn.status = TurnStatus::Crashed;
            // The store applies it even though nobody waits.
            drop(self.store.commit(rows.put(&self.present)));
        }
    }
}

impl TurnRecorder {
    pub(super) fn new(
        store: Arc<dyn Store>,
        rows: Rows,
        address: Box<Address>,
        present: Present,
    ) -> Self {
        let rows = Mutex::new(rows);
        Self { store, address, present, rows, is_written: Arc::default() }
    }

    /// Commits the rows before the turn begins: it acts on decisions, or is to be found.
    pub(super) async fn begin(&self) -> Result<(), crate::store::StoreError> {
        let changes = {
            let mut rows = sync::lock(&self.rows);
            let mut changes = rows.put(&self.present);
            changes.append(&mut rows.first);
            changes
        };
        self.store.commit(changes).await?;
        self.is_written.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn changes(&self, entry: &Entry) -> Vec<Change> {
        let mut rows = sync::lock(&self.rows);
        let mut changes = Vec::new();
        if let Entry::End(end) = entry {
            self.end(&mut rows, end);
            changes = rows.put(&self.present);
        } else if !self.is_written.load(Ordering::Relaxed) {
            changes = rows.put(&self.present);
        }
        if let Entry::Asked { asked } = entry {
            changes.extend(asked.iter().map(|asked| Change::Approval(approval(&rows, asked))));
        }
        let body = json(entry);
        changes.push(Change::Entry(EntryRow { turn: rows.turn.id.clone(), body }));
        changes
    }

    /// Writes into the rows how the turn ended.
    fn end(&self, rows: &mut Rows, end: &End) {
        let ids = end.client_calls.iter().filter_map(|call| call["id"].as_str());
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        (rows.turn.depth, rows.turn.digests) = (self.address)(&end.said, &ids);
        rows.turn.status = status(end);
        rows.body.facts = self.present.facts();
        rows.session.updated_ms = clock::now_ms();
        rows.has_ended = true;
    }
}

impl Recorder for TurnRecorder {
    fn commit(&self, entry: Entry) -> BoxFuture<'static, Result<(), ApiError>> {
        let committed = self.store.commit(self.changes(&entry));
        let is_written = Arc::clone(&self.is_written);
        Box::pin(async move {
            committed.await?;
            is_written.store(true, Ordering::Relaxed);
            Ok(())
        })
    }
}

impl Rows {
    fn put(&self, present: &Present) -> Vec<Change> {
        let mut turn = self.turn.clone();
        turn.body = json(&self.body);
        let mut session = self.session.clone();
        session.body = present.session();
        vec![Change::Session(session), Change::Turn(turn)]
    }
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

fn approval(rows: &Rows, asked: &Asked) -> ApprovalRow {
    ApprovalRow {
        id: asked.id.clone(),
        scope: rows.session.scope,
        session: rows.session.id.clone(),
        turn: rows.turn.id.clone(),
        created_ms: asked.created_ms,
        expires_ms: asked.expires_ms,
        body: json(asked),
        decision: None,
    }
}

pub(super) fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("writing to memory does not fail")
}

impl fmt::Debug for TurnRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnRecorder").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// Records nothing: a background call leaves no trace.
#[derive(Debug)]
pub(super) struct NoRecorder;

impl Recorder for NoRecorder {
    fn commit(&self, _entry: Entry) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
