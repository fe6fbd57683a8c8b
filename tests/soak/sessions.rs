//! Measures what stored sessions cost a start.

use std::time::Duration;

use rusqlite::Connection;
use tokio::time::Instant;

use super::table::Line;
use crate::sessions::after;
use crate::support::chunks::says;
use crate::support::client::ask_streamed;
use crate::support::resources;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

const SESSIONS: u32 = 100_000;
const MOST: Duration = Duration::from_secs(2);
const MIB: u64 = 1 << 20;

/// Copies the one session of a database, with its turn and its entries, under new ids.
const MULTIPLY: &str = "
BEGIN;
CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
    WHERE i < (SELECT sessions FROM wanted)) SELECT i FROM n;
INSERT INTO sessions SELECT s.seq + n.i, 'sess_' || lower(hex(randomblob(16))), s.scope, s.key,
    s.name, s.name_model, s.model, s.created_ms, s.updated_ms, s.used + n.i, s.body, s.prompt
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
    multiply(&first, SESSIONS);
    let again = after(&upstream, &first);

    let began = Instant::now();
    let server = again.start().await;
    let took = began.elapsed();

    server.client().streamed(&ask_streamed("Hi")).await;
    let grown = resources::memory(&server).now.saturating_sub(empty);
    line.runs = usize::try_from(SESSIONS).expect("a number");
    line.note(format!("a start in {} ms, {} MiB more", took.as_millis(), grown.div_ceil(MIB)));
    line.must(took <= MOST, || format!("a start in {took:?}"));
    line
}

/// Makes so many sessions of the one that the ended server has.
fn multiply(ended: &Server, sessions: u32) {
    let database = ended.state_dir().join("toolhand.db");
    let connection = Connection::open(database).expect("the server's database");
    let wanted = format!("CREATE TEMP TABLE wanted AS SELECT {} AS sessions;", sessions - 1);
    connection.execute_batch(&wanted).expect("a table");
    connection.execute_batch(MULTIPLY).expect("copies");
    let count = "SELECT count(*) FROM sessions";
    let made: u32 = connection.query_row(count, [], |row| row.get(0)).expect("a number");
    assert_eq!(made, sessions);
}

/// The copies name the columns by their order, so they follow every change of the tables.
#[tokio::test]
async fn a_server_starts_over_copies_of_a_session_and_knows_them_all() {
    let upstream = Upstream::start();
    upstream.round(says("Hello."));
    let mut first = Server::start(&upstream).await;
    first.client().streamed(&ask_streamed("Hi")).await;
    first.stop();
    multiply(&first, 5);

    let server = after(&upstream, &first).start().await;

    let list = server.client().get("/toolhand/v1/sessions").await.json();
    let listed = list["data"].as_array().expect("sessions");
    assert_eq!(listed.len(), 5, "{list}");
    for session in listed {
        let path = format!("/toolhand/v1/sessions/{}", session["id"].as_str().expect("an id"));
        let messages = server.client().get(&path).await.json()["messages"].clone();
        assert_eq!(messages[1]["content"], "Hello.", "{session}");
    }
}
