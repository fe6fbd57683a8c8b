//! Reads our types from columns.

use std::sync::Arc;

use rusqlite::Row;
use rusqlite::types::Type;

use super::super::rows::{
    ApprovalRow, Digest, LinkDigests, SessionName, SessionRow, TurnRow, TurnStatus,
};
use crate::ids::{ApprovalId, KeyId, Scope, SessionId, TurnId};

pub(super) const SESSION: &str = "s.id, s.scope, s.key, s.name, s.name_model, s.model, s.created_ms, s.updated_ms, s.body, \
     (SELECT p.text FROM prompts p WHERE p.seq = s.prompt)";

pub(super) fn session(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    let model = row.get(4)?;
    let name: Option<String> = row.get(3)?;
    Ok(SessionRow {
        id: id(row, 0, SessionId::parse)?,
        scope: Scope::from_bytes(row.get(1)?),
        key: KeyId::new(&row.get::<_, Arc<str>>(2)?),
        name: name.map(|text| SessionName { text, model }),
        model: row.get(5)?,
        created_ms: row.get(6)?,
        updated_ms: row.get(7)?,
        body: row.get(8)?,
        prompt: row.get(9)?,
    })
}

pub(super) const TURN: &str = "t.id, s.id, t.parent, t.status, t.started_ms, t.depth, t.chain, \
                               t.link, t.head, t.request, t.idempotency, t.body, t.seq";

/// The turn, with its sequence number.
pub(super) fn turn(row: &Row<'_>) -> rusqlite::Result<(i64, TurnRow)> {
    let chain: Option<Digest> = row.get(6)?;
    let link: Option<Digest> = row.get(7)?;
    let head = row.get(8)?;
    let parent: Option<String> = row.get(2)?;
    let turn = TurnRow {
        id: id(row, 0, TurnId::parse)?,
        session: id(row, 1, SessionId::parse)?,
        parent: parent.map(|_| id(row, 2, TurnId::parse)).transpose()?,
        status: status(row, 3)?,
        started_ms: row.get(4)?,
        depth: row.get(5)?,
        digests: chain.zip(link).map(|(chain, link)| LinkDigests { chain, link, head }),
        request: row.get(9)?,
        idempotency: row.get(10)?,
        body: row.get(11)?,
    };
    Ok((row.get(12)?, turn))
}

pub(super) const APPROVAL: &str =
    "a.id, s.scope, s.id, t.id, a.created_ms, a.expires_ms, a.body, a.decision";

pub(super) fn approval(row: &Row<'_>) -> rusqlite::Result<ApprovalRow> {
    Ok(ApprovalRow {
        id: id(row, 0, ApprovalId::parse)?,
        scope: Scope::from_bytes(row.get(1)?),
        session: id(row, 2, SessionId::parse)?,
        turn: id(row, 3, TurnId::parse)?,
        created_ms: row.get(4)?,
        expires_ms: row.get(5)?,
        body: row.get(6)?,
        decision: row.get(7)?,
    })
}

pub(super) fn id<T>(
    row: &Row<'_>,
    column: usize,
    parse: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    parse(row.get_ref(column)?.as_str()?).ok_or_else(|| unreadable(column, "is no id of ours"))
}

fn status(row: &Row<'_>, column: usize) -> rusqlite::Result<TurnStatus> {
    let number: i64 = row.get(column)?;
    let known = STATUSES.iter().find(|status| number_of(**status) == number);
    known.copied().ok_or_else(|| unreadable(column, "is no status of a turn"))
}

const STATUSES: [TurnStatus; 8] = [
    TurnStatus::Running,
    TurnStatus::AwaitsClient,
    TurnStatus::Suspended,
    TurnStatus::Finished,
    TurnStatus::Failed,
    TurnStatus::Cancelled,
    TurnStatus::Crashed,
    TurnStatus::Agent,
];

/// The schema and databases out there know these numbers.
pub(super) fn number_of(status: TurnStatus) -> i64 {
    match status {
        TurnStatus::Running => 0,
        TurnStatus::AwaitsClient => 1,
        TurnStatus::Suspended => 2,
        TurnStatus::Finished => 3,
        TurnStatus::Failed => 4,
        TurnStatus::Cancelled => 5,
        TurnStatus::Crashed => 6,
        TurnStatus::Agent => 7,
    }
}

fn unreadable(column: usize, reason: &'static str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Null, reason.into())
}
