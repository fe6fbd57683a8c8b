//! Reads rows. Every look-up for a request is by scope.

use std::collections::HashSet;

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Params, params};

use super::super::rows::{
    ApprovalRow, Digest, EntryRow, SessionRow, SessionSummary, TurnRow, TurnStatus,
};
use super::super::{
    ApprovalKey, MAX_OF_DIGEST, SessionKey, SessionPage, SizeOf, TurnKey, code_member,
};
use super::columns::{self, APPROVAL, SESSION, TURN, number_of};
use super::schema::entry_seqs;
use crate::ids::{Scope, SessionId, TurnId};

pub(super) fn session(
    connection: &Connection,
    scope: Scope,
    by: &SessionKey,
) -> rusqlite::Result<Option<SessionRow>> {
    let scope = scope.as_bytes();
    let select = |condition| {
        let sql = format!("SELECT {SESSION} FROM sessions s WHERE s.scope = ?1 AND {condition}");
        connection.prepare_cached(&sql)
    };
    let found = match by {
        SessionKey::Id(id) => {
            select("s.id = ?2")?.query_row(params![scope, id.as_str()], columns::session)
        }
        SessionKey::Name(name) => {
            select("s.name = ?2 AND s.name_model IS ?3 ORDER BY s.used DESC LIMIT 1")?
                .query_row(params![scope, name.text, name.model], columns::session)
        }
        SessionKey::NameText(text) => select("s.name = ?2 ORDER BY s.used DESC LIMIT 1")?
            .query_row(params![scope, text], columns::session),
    };
    found.optional()
}

/// The ids of all sessions of all scopes.
pub(super) fn session_ids(connection: &Connection) -> rusqlite::Result<HashSet<SessionId>> {
    let mut select = connection.prepare("SELECT id FROM sessions WHERE id IS NOT NULL")?;
    let ids = select.query_map([], |row| row.get::<_, String>(0))?;
    ids.filter_map(|id| id.map(|id| SessionId::parse(&id)).transpose()).collect()
}

pub(super) fn sessions(
    connection: &Connection,
    scope: Scope,
    after: Option<&SessionId>,
    limit: usize,
) -> rusqlite::Result<SessionPage> {
    let snapshot = connection.unchecked_transaction()?;
    let scope = scope.as_bytes();
    let before: Option<i64> = match after {
        None => Some(i64::MAX),
        Some(id) => snapshot
            .prepare_cached("SELECT used FROM sessions WHERE id = ?1 AND scope = ?2")?
            .query_row(params![id.as_str(), scope], |row| row.get(0))
            .optional()?,
    };
    let sql = format!(
        "SELECT {SESSION}, (SELECT count(*) FROM turns t WHERE t.session = s.seq AND \
         t.status <> {}) \
         FROM sessions s WHERE s.id IS NOT NULL AND s.scope = ?1 AND s.used < ?2 \
         ORDER BY s.used DESC LIMIT ?3",
        agent_status()
    );
    // One more shows whether there are more.
    let rows = i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX);
    let summary = |row: &rusqlite::Row<'_>| {
        let turns: i64 = row.get(10)?;
        Ok(SessionSummary { session: columns::session(row)?, turns: turns.unsigned_abs() })
    };
    let mut statement = snapshot.prepare_cached(&sql)?;
    // Behind a session that is not there, nothing is.
    let found = statement.query_map(params![scope, before.unwrap_or(i64::MIN), rows], summary)?;
    let mut sessions = found.collect::<rusqlite::Result<Vec<_>>>()?;
    let has_more = limit < sessions.len();
    sessions.truncate(limit);
    Ok(SessionPage { sessions, has_more })
}

pub(super) fn turns(
    connection: &Connection,
    scope: Scope,
    by: &TurnKey,
) -> rusqlite::Result<Vec<TurnRow>> {
    let is_agent = matches!(by, TurnKey::Agent(_) | TurnKey::Agents(..));
    let most = if let TurnKey::Agents(_, most) = by { Some(*most) } else { None };
    let select = |condition: &str| {
        let is_asked = if is_agent { "=" } else { "<>" };
        let condition = format!("{condition} AND t.status {is_asked} {}", agent_status());
        select_turns(connection, &condition, most)
    };
    let scope = scope.as_bytes();
    match by {
        TurnKey::Id(id) => collect(select("t.id = ?2")?, params![scope, id.as_str()]),
        TurnKey::Session(id) | TurnKey::Agents(id, _) => {
            collect(select("s.id = ?2")?, params![scope, id.as_str()])
        }
        TurnKey::After(id, turn) => {
            let condition = "s.id = ?2 AND (SELECT n.seq FROM turns n WHERE n.id = ?3 AND \
                             n.session = s.seq) < t.seq";
            collect(select(condition)?, params![scope, id.as_str(), turn.as_str()])
        }
        TurnKey::Chain(chains) => by_chain(connection, scope, chains),
        TurnKey::Head(head) => by_digest(connection, "head", scope, head),
        TurnKey::Idempotency(key) => by_digest(connection, "idempotency", scope, key),
        TurnKey::Request(request) => by_digest(connection, "request", scope, request),
        TurnKey::Agent(agent) => {
            let id = TurnId::of_agent(agent);
            collect(select("t.id = ?2")?, params![scope, id.as_str()])
        }
    }
}

fn select_turns<'a>(
    connection: &'a Connection,
    condition: &str,
    limit: Option<usize>,
) -> rusqlite::Result<CachedStatement<'a>> {
    // CROSS JOIN keeps the order of the tables: the turns are found by an index.
    let tables = if condition.starts_with("s.") {
        "sessions s CROSS JOIN turns t"
    } else {
        "turns t CROSS JOIN sessions s"
    };
    let limit = limit.map(|limit| format!("LIMIT {limit}")).unwrap_or_default();
    connection.prepare_cached(&format!(
        "SELECT {TURN} FROM {tables} ON s.seq = t.session \
         WHERE s.scope = ?1 AND {condition} ORDER BY t.seq DESC {limit}"
    ))
}

fn by_digest(
    connection: &Connection,
    column: &str,
    scope: &[u8; 32],
    digest: &Digest,
) -> rusqlite::Result<Vec<TurnRow>> {
    collect(select_by_digest(connection, column)?, params![scope, digest])
}

fn select_by_digest<'a>(
    connection: &'a Connection,
    column: &str,
) -> rusqlite::Result<CachedStatement<'a>> {
    let condition = format!("substr(t.{column}, 1, 8) = substr(?2, 1, 8) AND t.{column} = ?2");
    select_turns(connection, &condition, Some(MAX_OF_DIGEST))
}

/// The status of the rows that are no turns.
fn agent_status() -> i64 {
    number_of(TurnStatus::Agent)
}

fn by_chain(
    connection: &Connection,
    scope: &[u8; 32],
    chains: &[Digest],
) -> rusqlite::Result<Vec<TurnRow>> {
    let snapshot = connection.unchecked_transaction()?;
    let mut statement = select_by_digest(&snapshot, "chain")?;
    let mut found = Vec::new();
    for chain in chains {
        for turn in statement.query_map(params![scope, chain], columns::turn)? {
            found.push(turn?.1);
        }
        if !found.is_empty() {
            break;
        }
    }
    Ok(found)
}

fn collect(
    mut statement: CachedStatement<'_>,
    params: impl Params,
) -> rusqlite::Result<Vec<TurnRow>> {
    let rows = statement.query_map(params, columns::turn)?;
    rows.map(|row| row.map(|(_, turn)| turn)).collect()
}

pub(super) fn entries(
    connection: &Connection,
    scope: Scope,
    turns: &[TurnId],
) -> rusqlite::Result<Vec<EntryRow>> {
    let snapshot = connection.unchecked_transaction()?;
    let mut select = snapshot
        .prepare_cached("SELECT body FROM entries WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq")?;
    let mut entries = Vec::new();
    for turn in turns {
        let Some(places) = entry_places(&snapshot, scope, turn)? else { continue };
        for body in select.query_map(places, |row| row.get(0))? {
            entries.push(EntryRow { turn: turn.clone(), body: body? });
        }
    }
    Ok(entries)
}

/// The first and the last number that an entry of the turn can have.
fn entry_places(
    connection: &Connection,
    scope: Scope,
    turn: &TurnId,
) -> rusqlite::Result<Option<[i64; 2]>> {
    let mut find = connection.prepare_cached(
        "SELECT t.seq FROM turns t JOIN sessions s ON s.seq = t.session \
         WHERE t.id = ?1 AND s.scope = ?2",
    )?;
    let found = find.query_row(params![turn.as_str(), scope.as_bytes()], |row| row.get(0));
    let seq: Option<i64> = found.optional()?;
    Ok(seq.map(entry_seqs))
}

/// Lengths are read without the bodies.
pub(super) fn size(connection: &Connection, scope: Scope, of: &SizeOf) -> rusqlite::Result<usize> {
    let bytes: i64 = match of {
        SizeOf::Turns(session) | SizeOf::Agents(session, _) => {
            let (is_asked, limit) = match of {
                SizeOf::Agents(_, most) => ("=", format!("ORDER BY t.seq DESC LIMIT {most}")),
                _ => ("<>", String::new()),
            };
            let sum = format!(
                "SELECT coalesce(sum(bytes), 0) FROM (SELECT length(t.body) AS bytes \
                 FROM sessions s CROSS JOIN turns t ON t.session = s.seq \
                 WHERE s.scope = ?1 AND s.id = ?2 AND t.status {is_asked} {} {limit})",
                agent_status()
            );
            let params = params![scope.as_bytes(), session.as_str()];
            connection.prepare_cached(&sum)?.query_row(params, |row| row.get(0))?
        }
        SizeOf::Entries(turns) => {
            let mut select = connection.prepare_cached(
                "SELECT coalesce(sum(length(body)), 0) FROM entries WHERE seq BETWEEN ?1 AND ?2",
            )?;
            let mut sum = 0;
            for turn in turns {
                let Some(places) = entry_places(connection, scope, turn)? else { continue };
                sum += select.query_row(places, |row| row.get::<_, i64>(0))?;
            }
            sum
        }
    };
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

pub(super) fn approvals(
    connection: &Connection,
    scope: Scope,
    by: &ApprovalKey,
) -> rusqlite::Result<Vec<ApprovalRow>> {
    let (condition, id) = match by {
        ApprovalKey::Id(id) => ("a.id = ?2", Some(id.to_string())),
        ApprovalKey::Turn(turn) => ("t.id = ?2", Some(turn.to_string())),
        ApprovalKey::Open => ("a.decision IS NULL AND ?2 IS NULL", None),
        ApprovalKey::Code(code) => ("instr(a.body, CAST(?2 AS BLOB)) > 0", Some(code_member(code))),
    };
    let sql = format!(
        "SELECT {APPROVAL} FROM approvals a JOIN sessions s ON s.seq = a.session \
         JOIN turns t ON t.seq = a.turn WHERE s.scope = ?1 AND {condition} ORDER BY a.seq"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![scope.as_bytes(), id], columns::approval)?;
    rows.collect()
}
