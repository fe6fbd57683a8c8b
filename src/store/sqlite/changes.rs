//! Applies changes within the writer's transaction.

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, ToSql, params};

use super::super::rows::{
    ApprovalRow, Change, EntryRow, ForgottenSession, SessionRow, TurnRow, TurnStatus,
};
use super::columns::number_of;
use super::schema::entry_seqs;
use crate::free_memory;
use crate::ids::{ApprovalId, SessionId, TurnId};

/// SQLite copies a body twice. Before it does so with one of this size, freed memory is returned.
const LARGE_BODY: usize = 1 << 20;

/// Why a change was not applied.
#[derive(Debug)]
pub(super) enum ChangeError {
    /// It does not fit what is there.
    Conflict,
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for ChangeError {
    fn from(error: rusqlite::Error) -> Self {
        if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) {
            Self::Conflict
        } else {
            Self::Sqlite(error)
        }
    }
}

/// Applies changes within one transaction. Remembers the numbers of the last session and turn, to
/// which most of the next changes belong.
pub(super) struct Applier<'a> {
    connection: &'a Connection,
    session: Option<(SessionId, i64)>,
    turn: Option<LastTurn>,
    /// The sessions that changes have removed.
    pub(super) forgotten: Vec<ForgottenSession>,
}

struct LastTurn {
    id: TurnId,
    seq: i64,
    /// The number of its next entry, if it is known.
    next_entry: Option<i64>,
}

impl<'a> Applier<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, session: None, turn: None, forgotten: Vec::new() }
    }

    /// `used` is the sequence number that a session gets with this change.
    pub(super) fn apply(&mut self, change: &Change, used: i64) -> Result<(), ChangeError> {
        match change {
            Change::Session(row) => self.put_session(row, used),
            Change::Turn(row) => self.put_turn(row),
            Change::Entry(row) => self.add_entry(row),
            Change::Approval(row) => self.add_approval(row),
            Change::Decide { approval, decision } => decide(self.connection, approval, decision),
            Change::Forget(id) => {
                (self.session, self.turn) = (None, None);
                self.forgotten.extend(forget(self.connection, id)?);
                Ok(())
            }
        }
    }

    fn put_session(&mut self, row: &SessionRow, used: i64) -> Result<(), ChangeError> {
        let prompt = row.prompt.as_deref().map(|text| prompt_seq(self.connection, text));
        let (prompt, name) = (prompt.transpose()?, row.name.as_ref());
        let params = params![
            row.id.as_str(),
            row.scope.as_bytes(),
            row.key.as_str(),
            name.map(|name| &name.text),
            name.and_then(|name| name.model.as_ref()),
            row.model,
            row.created_ms,
            row.updated_ms,
            used,
            prompt,
            row.body,
        ];
        let inserted = self.insert_new(
            "INSERT INTO sessions (id, scope, key, name, name_model, model, created_ms, \
             updated_ms, used, prompt, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
             ON CONFLICT (id) DO NOTHING",
            params,
        )?;
        if let Some(seq) = inserted {
            self.session = Some((row.id.clone(), seq));
            return Ok(());
        }
        let update = "UPDATE sessions SET scope = ?2, key = ?3, name = ?4, name_model = ?5, \
                      model = ?6, created_ms = ?7, updated_ms = ?8, used = ?9, prompt = ?10, \
                      body = ?11 WHERE id = ?1";
        self.connection.prepare_cached(update)?.execute(params)?;
        Ok(())
    }

    fn put_turn(&mut self, row: &TurnRow) -> Result<(), ChangeError> {
        if LARGE_BODY <= row.body.len() {
            free_memory::return_now();
        }
        let digests = row.digests.as_ref();
        let params = params![
            row.id.as_str(),
            self.session_seq(&row.session)?,
            row.parent.as_ref().map(TurnId::as_str),
            number_of(row.status),
            row.started_ms,
            row.depth,
            digests.map(|digests| digests.chain),
            digests.map(|digests| digests.link),
            digests.and_then(|digests| digests.head),
            row.request,
            row.idempotency,
            row.body,
        ];
        let insert = "INSERT INTO turns (id, session, parent, status, started_ms, depth, chain, \
                      link, head, request, idempotency, body) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
                      ON CONFLICT (id) DO NOTHING";
        let mut inserted = self.insert_new(insert, params)?;
        if inserted.is_none() && self.free_turn(&row.id)? {
            inserted = self.insert_new(insert, params)?;
        }
        if let Some(seq) = inserted {
            let next_entry = Some(entry_seqs(seq)[0]);
            self.turn = Some(LastTurn { id: row.id.clone(), seq, next_entry });
            return Ok(());
        }
        let update = "UPDATE turns SET session = ?2, parent = ?3, status = ?4, started_ms = ?5, \
                      depth = ?6, chain = ?7, link = ?8, head = ?9, request = ?10, \
                      idempotency = ?11, body = ?12 WHERE id = ?1";
        self.connection.prepare_cached(update)?.execute(params)?;
        Ok(())
    }

    /// The number of the new row, or `None` if there is one with this id.
    fn insert_new(&self, sql: &str, params: &[&dyn ToSql]) -> rusqlite::Result<Option<i64>> {
        let inserted = self.connection.prepare_cached(sql)?.execute(params)?;
        Ok((0 < inserted).then(|| self.connection.last_insert_rowid()))
    }

    /// What a forgotten session has left must not become this turn. Returns whether it was there.
    fn free_turn(&self, id: &TurnId) -> rusqlite::Result<bool> {
        let free = "UPDATE turns SET id = NULL WHERE id = ?1 AND \
                    (SELECT s.id FROM sessions s WHERE s.seq = turns.session) IS NULL";
        Ok(0 < self.connection.prepare_cached(free)?.execute([id.as_str()])?)
    }

    fn add_entry(&mut self, row: &EntryRow) -> Result<(), ChangeError> {
        let seq = self.turn_seq(&row.turn)?;
        let known = self.turn.as_ref().and_then(|turn| turn.next_entry);
        let next = known.map_or_else(|| self.next_entry(seq), Ok)?;
        self.connection
            .prepare_cached("INSERT INTO entries (seq, body) VALUES (?1, ?2)")?
            .execute(params![next, row.body])?;
        if let Some(turn) = &mut self.turn {
            turn.next_entry = Some(next + 1);
        }
        Ok(())
    }

    fn next_entry(&self, turn: i64) -> rusqlite::Result<i64> {
        let max = "SELECT coalesce(max(seq) + 1, ?1) FROM entries WHERE seq BETWEEN ?1 AND ?2";
        self.connection.prepare_cached(max)?.query_row(entry_seqs(turn), |row| row.get(0))
    }

    fn session_seq(&mut self, id: &SessionId) -> Result<i64, ChangeError> {
        if let Some((known, seq)) = &self.session
            && known == id
        {
            return Ok(*seq);
        }
        let mut find = self.connection.prepare_cached("SELECT seq FROM sessions WHERE id = ?1")?;
        let seq = one(find.query_row([id.as_str()], |row| row.get(0)))?;
        self.session = Some((id.clone(), seq));
        Ok(seq)
    }

    /// The number of a turn whose session is not forgotten.
    fn turn_seq(&mut self, id: &TurnId) -> Result<i64, ChangeError> {
        if let Some(turn) = &self.turn
            && turn.id == *id
        {
            return Ok(turn.seq);
        }
        let mut find = self.connection.prepare_cached(
            "SELECT t.seq FROM turns t JOIN sessions s ON s.seq = t.session \
             WHERE t.id = ?1 AND s.id IS NOT NULL",
        )?;
        let seq = one(find.query_row([id.as_str()], |row| row.get(0)))?;
        self.turn = Some(LastTurn { id: id.clone(), seq, next_entry: None });
        Ok(seq)
    }

    fn add_approval(&mut self, row: &ApprovalRow) -> Result<(), ChangeError> {
        let turn = self.turn_seq(&row.turn)?;
        let free = "DELETE FROM approvals WHERE id = ?1 AND \
                    (SELECT s.id FROM sessions s WHERE s.seq = approvals.session) IS NULL";
        self.connection.prepare_cached(free)?.execute([row.id.as_str()])?;
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO approvals (id, session, turn, created_ms, expires_ms, body, decision) \
             VALUES (?1, (SELECT seq FROM sessions WHERE id = ?2 AND scope = ?3), ?4, ?5, ?6, ?7, \
             ?8) ON CONFLICT (id) DO UPDATE SET expires_ms = excluded.expires_ms, \
             body = excluded.body",
        )?;
        statement.execute(params![
            row.id.as_str(),
            row.session.as_str(),
            row.scope.as_bytes(),
            turn,
            row.created_ms,
            row.expires_ms,
            row.body,
            row.decision,
        ])?;
        Ok(())
    }
}

/// A row that is not there is a conflict.
fn one(found: rusqlite::Result<i64>) -> Result<i64, ChangeError> {
    match found {
        Err(rusqlite::Error::QueryReturnedNoRows) => Err(ChangeError::Conflict),
        found => Ok(found?),
    }
}

/// About how many bytes of the log the change takes, beside the pages of the indices.
pub(super) fn size(change: &Change) -> usize {
    match change {
        Change::Session(row) => row.body.len(),
        Change::Turn(row) => row.body.len(),
        Change::Entry(row) => row.body.len(),
        Change::Approval(row) => row.body.len(),
        Change::Decide { decision, .. } => decision.len(),
        Change::Forget(_) => 0,
    }
}

/// The number of this prompt, which is inserted if it is not there yet.
fn prompt_seq(connection: &Connection, text: &str) -> rusqlite::Result<i64> {
    let digest = blake3::hash(text.as_bytes());
    let mut find = connection.prepare_cached("SELECT seq FROM prompts WHERE digest = ?1")?;
    if let Some(seq) = find.query_row([digest.as_bytes()], |row| row.get(0)).optional()? {
        return Ok(seq);
    }
    connection
        .prepare_cached("INSERT INTO prompts (digest, text) VALUES (?1, ?2)")?
        .execute(params![digest.as_bytes(), text])?;
    Ok(connection.last_insert_rowid())
}

fn decide(
    connection: &Connection,
    approval: &ApprovalId,
    decision: &[u8],
) -> Result<(), ChangeError> {
    let mut statement = connection.prepare_cached(
        "UPDATE approvals SET decision = ?2 WHERE id = ?1 AND decision IS NULL AND \
         (SELECT s.id FROM sessions s WHERE s.seq = approvals.session) IS NOT NULL",
    )?;
    match statement.execute(params![approval.as_str(), decision])? {
        0 => Err(ChangeError::Conflict),
        _ => Ok(()),
    }
}

/// Marks those of these turns that are recorded as running: they no longer do.
pub(super) fn crash(connection: &Connection, turns: &[TurnId]) -> rusqlite::Result<()> {
    let [running, crashed] = [TurnStatus::Running, TurnStatus::Crashed].map(number_of);
    let mut mark =
        connection.prepare_cached("UPDATE turns SET status = ?2 WHERE id = ?1 AND status = ?3")?;
    turns
        .iter()
        .try_for_each(|turn| mark.execute(params![turn.as_str(), crashed, running]).map(drop))
}

/// Takes the session out of every look-up: each asks for a session that has an id. Writes this one
/// row, however large the session is, since a full disk takes no more. `retention` removes in
/// small steps what is left. `None`: there is no such session.
pub(super) fn forget(
    connection: &Connection,
    id: &SessionId,
) -> rusqlite::Result<Option<ForgottenSession>> {
    let mut held = connection.prepare_cached("SELECT body FROM sessions WHERE id = ?1")?;
    let held = held.query_row([id.as_str()], |row| row.get(0)).optional()?;
    let Some(body) = held else { return Ok(None) };
    let sql = "UPDATE sessions SET id = NULL, scope = NULL, name = NULL, prompt = NULL, \
               body = x'' WHERE id = ?1";
    connection.prepare_cached(sql)?.execute([id.as_str()])?;
    Ok(Some(ForgottenSession { id: id.clone(), body }))
}
