//! Applies changes within the writer's transaction.

use rusqlite::{Connection, ErrorCode, params};

use super::super::rows::{ApprovalRow, Change, EntryRow, SessionRow, TurnRow, TurnStatus};
use super::columns::number_of;
use super::schema::ENTRY_BITS;
use crate::ids::{ApprovalId, SessionId, TurnId};

/// Why a change was not applied.
#[derive(Debug)]
pub(super) enum ChangeError {
    /// It does not fit what is there. The transaction can go on without it.
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

/// `used` is the sequence number that a session gets with this change.
pub(super) fn apply(
    connection: &Connection,
    change: &Change,
    used: i64,
) -> Result<(), ChangeError> {
    match change {
        Change::Session(row) => session(connection, row, used),
        Change::Turn(row) => turn(connection, row),
        Change::Entry(row) => entry(connection, row),
        Change::Approval(row) => approval(connection, row),
        Change::Decide { approval, decision } => decide(connection, approval, decision),
        Change::Forget(id) => Ok(forget(connection, id)?),
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

fn session(connection: &Connection, row: &SessionRow, used: i64) -> Result<(), ChangeError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO sessions (id, scope, key, name, name_model, model, created_ms, updated_ms, \
         used, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) \
         ON CONFLICT (id) DO UPDATE SET scope = ?2, key = ?3, name = ?4, name_model = ?5, \
         model = ?6, created_ms = ?7, updated_ms = ?8, used = ?9, body = ?10",
    )?;
    let name = row.name.as_ref();
    statement.execute(params![
        row.id.as_str(),
        row.scope.as_bytes(),
        row.key.as_str(),
        name.map(|name| &name.text),
        name.and_then(|name| name.model.as_ref()),
        row.model,
        row.created_ms,
        row.updated_ms,
        used,
        row.body,
    ])?;
    Ok(())
}

fn turn(connection: &Connection, row: &TurnRow) -> Result<(), ChangeError> {
    // What a forgotten session has left must not become this turn.
    let free = "UPDATE turns SET id = NULL WHERE id = ?1 AND \
                (SELECT s.id FROM sessions s WHERE s.seq = turns.session) IS NULL";
    connection.prepare_cached(free)?.execute([row.id.as_str()])?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO turns (id, session, parent, status, started_ms, depth, chain, link, head, \
         request, idempotency, body) VALUES (?1, (SELECT seq FROM sessions WHERE id = ?2), ?3, \
         ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
         ON CONFLICT (id) DO UPDATE SET session = excluded.session, parent = ?3, status = ?4, \
         started_ms = ?5, depth = ?6, chain = ?7, link = ?8, head = ?9, request = ?10, \
         idempotency = ?11, body = ?12",
    )?;
    let digests = row.digests.as_ref();
    statement.execute(params![
        row.id.as_str(),
        row.session.as_str(),
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
    ])?;
    Ok(())
}

fn entry(connection: &Connection, row: &EntryRow) -> Result<(), ChangeError> {
    let first = turn_seq(connection, &row.turn)? << ENTRY_BITS;
    let mut statement = connection.prepare_cached(
        "INSERT INTO entries (seq, body) VALUES (1 + coalesce(\
         (SELECT max(seq) FROM entries WHERE seq BETWEEN ?1 AND ?2), ?1), ?3)",
    )?;
    statement.execute(params![first, first | ((1 << ENTRY_BITS) - 1), row.body])?;
    Ok(())
}

/// The number of a turn whose session is not forgotten.
fn turn_seq(connection: &Connection, id: &TurnId) -> Result<i64, ChangeError> {
    let mut find = connection.prepare_cached(
        "SELECT t.seq FROM turns t JOIN sessions s ON s.seq = t.session \
         WHERE t.id = ?1 AND s.id IS NOT NULL",
    )?;
    match find.query_row([id.as_str()], |row| row.get(0)) {
        Err(rusqlite::Error::QueryReturnedNoRows) => Err(ChangeError::Conflict),
        found => Ok(found?),
    }
}

fn approval(connection: &Connection, row: &ApprovalRow) -> Result<(), ChangeError> {
    let free = "DELETE FROM approvals WHERE id = ?1 AND \
                (SELECT s.id FROM sessions s WHERE s.seq = approvals.session) IS NULL";
    connection.prepare_cached(free)?.execute([row.id.as_str()])?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO approvals (id, session, turn, created_ms, expires_ms, body, decision) \
         VALUES (?1, (SELECT seq FROM sessions WHERE id = ?2 AND scope = ?3), ?4, ?5, ?6, ?7, ?8)",
    )?;
    statement.execute(params![
        row.id.as_str(),
        row.session.as_str(),
        row.scope.as_bytes(),
        turn_seq(connection, &row.turn)?,
        row.created_ms,
        row.expires_ms,
        row.body,
        row.decision,
    ])?;
    Ok(())
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
/// small steps what is left.
pub(super) fn forget(connection: &Connection, id: &SessionId) -> rusqlite::Result<()> {
    let sql = "UPDATE sessions SET id = NULL, scope = NULL, name = NULL, body = x'' WHERE id = ?1";
    connection.prepare_cached(sql)?.execute([id.as_str()]).map(drop)
}
