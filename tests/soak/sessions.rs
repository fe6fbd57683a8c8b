//! Measures what stored sessions cost a start.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::table::Line;
use crate::sessions::after;
use crate::support::chunks::says;
use crate::support::client::ask_streamed;
use crate::support::resources;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

const SESSIONS: usize = 100_000;
const MOST: Duration = Duration::from_secs(2);
const MIB: u64 = 1 << 20;

/// Copies the one session of a database, with its turn and its entries, under new ids.
const MULTIPLY: &str = "
BEGIN;
CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
    WHERE i < (SELECT sessions FROM wanted)) SELECT i FROM n;
INSERT INTO sessions SELECT s.seq + n.i, 'sess_' || lower(hex(randomblob(16))), s.scope, s.key,
    s.name, s.name_model, s.model, s.created_ms, s.updated_ms, s.used + n.i, s.body
    FROM n CROSS JOIN (SELECT * FROM sessions) s;
INSERT INTO turns SELECT t.seq + n.i, 'turn_' || lower(hex(randomblob(16))), t.session + n.i,
    t.parent, t.status, t.started_ms, t.depth, randomblob(32), randomblob(32), randomblob(32),
    randomblob(32), t.idempotency, t.body FROM n CROSS JOIN (SELECT * FROM turns) t;
INSERT INTO entries SELECT e.seq + (n.i << 24), e.body
    FROM n CROSS JOIN (SELECT * FROM entries) e;
COMMIT;
";

/// A start over many stored sessions, one of which goes on.
pub(super) async fn many_sessions() -> Line {
    let mut line = Line::new("stored sessions");
    let upstream = Upstream::start();
    upstream.otherwise(says("An answer that is long enough to be found by."));
    let mut first = Server::start(&upstream).await;
    first.client().streamed(&ask_streamed("Hi")).await;
    let empty = resources::memory(&first).now;
    first.stop();
    multiply(&first.state_dir().join("toolhand.db"));
    let again = after(&upstream, &first);

    let began = Instant::now();
    let server = again.start().await;
    let took = began.elapsed();

    server.client().streamed(&ask_streamed("Hi")).await;
    let grown = resources::memory(&server).now.saturating_sub(empty);
    line.runs = SESSIONS;
    line.note(format!("a start in {} ms, {} MiB more", took.as_millis(), grown.div_ceil(MIB)));
    line.must(took <= MOST, || format!("a start in {took:?}"));
    line
}

fn multiply(database: &std::path::Path) {
    let connection = Connection::open(database).expect("the server's database");
    let wanted = format!("CREATE TEMP TABLE wanted AS SELECT {} AS sessions;", SESSIONS - 1);
    connection.execute_batch(&wanted).expect("a table");
    connection.execute_batch(MULTIPLY).expect("copies");
    let count = "SELECT count(*) FROM sessions";
    let sessions: u32 = connection.query_row(count, [], |row| row.get(0)).expect("a number");
    assert_eq!(usize::try_from(sessions), Ok(SESSIONS));
}
