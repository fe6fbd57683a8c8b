//! Defines the tables, and brings a database to the newest version of them.

use rusqlite::Connection;

/// Marks a database as ours. ASCII for `tool`.
pub(super) const APPLICATION_ID: i32 = 0x746f_6f6c;

/// The version that this program reads and writes: `PRAGMA user_version`.
pub(super) const VERSION: i32 = 3;

/// The statements that lead from each version to the next.
const MIGRATIONS: [&str; VERSION as usize] = [TABLES, PROMPTS, AGENTS];

/// The entries of a turn have the turn's `seq`, shifted by this, as the upper part of their own:
/// so they lie together and need no index.
const ENTRY_BITS: u32 = 24;

/// The first and the last number that an entry of the turn with this `seq` can have.
pub(super) fn entry_seqs(turn: i64) -> [i64; 2] {
    let first = turn << ENTRY_BITS;
    [first, first | ((1 << ENTRY_BITS) - 1)]
}

/// Every index costs a page of the log for each turn, so there are only those that a look-up
/// needs, over the first 8 bytes of a digest.
///
/// A forgotten session keeps its row, without id and scope, until `retention` has removed all
/// that belongs to it. Its turns and approvals keep their ids, so a look-up by one of those asks
/// for the session's as well.
const TABLES: &str = "
CREATE TABLE sessions (
    seq INTEGER PRIMARY KEY,
    id TEXT UNIQUE,
    scope BLOB,
    key TEXT NOT NULL,
    name TEXT,
    name_model TEXT,
    model TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    used INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX sessions_by_use ON sessions (used, scope) WHERE id IS NOT NULL;
CREATE INDEX sessions_by_name ON sessions (scope, name) WHERE name IS NOT NULL;
CREATE INDEX sessions_forgotten ON sessions (seq) WHERE id IS NULL;

CREATE TABLE turns (
    seq INTEGER PRIMARY KEY,
    id TEXT UNIQUE,
    session INTEGER NOT NULL REFERENCES sessions (seq),
    parent TEXT,
    status INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    chain BLOB,
    link BLOB,
    head BLOB,
    request BLOB,
    idempotency BLOB,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX turns_by_session ON turns (session);
CREATE INDEX turns_by_chain ON turns (substr(chain, 1, 8)) WHERE chain IS NOT NULL;
CREATE INDEX turns_by_head ON turns (substr(head, 1, 8)) WHERE head IS NOT NULL;
CREATE INDEX turns_by_request ON turns (substr(request, 1, 8)) WHERE request IS NOT NULL;
CREATE INDEX turns_by_idempotency ON turns (substr(idempotency, 1, 8))
    WHERE idempotency IS NOT NULL;
CREATE INDEX turns_running ON turns (status) WHERE status = 0;

CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE approvals (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL REFERENCES sessions (seq) ON DELETE CASCADE,
    turn INTEGER NOT NULL REFERENCES turns (seq) ON DELETE CASCADE,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    body BLOB NOT NULL,
    decision BLOB
) STRICT;
CREATE INDEX approvals_by_session ON approvals (session);
CREATE INDEX approvals_by_turn ON approvals (turn);
CREATE INDEX approvals_open ON approvals (session) WHERE decision IS NULL;
";

/// A prompt is kept once, however many sessions have it: by the BLAKE3 hash of its text.
const PROMPTS: &str = "
CREATE TABLE prompts (
    seq INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    text TEXT NOT NULL
) STRICT;
ALTER TABLE sessions ADD COLUMN prompt INTEGER REFERENCES prompts (seq);
CREATE INDEX sessions_by_prompt ON sessions (prompt) WHERE prompt IS NOT NULL;
";

/// The rows of subagents have a status that earlier versions do not know. The tables are the same.
const AGENTS: &str = "";

/// Runs the migrations that are missing, each in a transaction with its version: one that was
/// killed half-way has not happened.
pub(super) fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    let version = version(connection)?;
    let missing = MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or_default());
    for (next, statements) in (version + 1..).zip(missing) {
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {statements} PRAGMA user_version = {next}; COMMIT;"
        ))?;
    }
    Ok(())
}

pub(super) fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
