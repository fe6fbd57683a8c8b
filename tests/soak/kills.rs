//! Kills servers more often than `make test` does, and repeats more turns.

use super::table::Line;
use crate::commands::storms::kill_while_commands_start;
use crate::sessions::kills::{at_each_write, at_random};
use crate::sessions::repeats;
use crate::sessions::scenario::Kind;

/// Kills of each of the kinds.
const KILLS: usize = 1000;

/// Seeded turns with faults, clients that leave, retries and kills.
const TURNS: u64 = 5000;

/// Kills of servers that start commands in bubblewrap.
const STORMS: usize = 300;

/// Panics if a process is left after a start (P20).
pub(super) async fn storms() -> Line {
    let mut line = Line::new("kills while commands start (P20)");
    kill_while_commands_start(STORMS, 20).await;
    line.runs = STORMS;
    line
}

/// Each run panics with what it has found.
pub(super) async fn kills() -> Line {
    let mut line = Line::new("kills (R8)");
    for kind in [Kind::Commands, Kind::Mixed, Kind::Suspended] {
        at_random(kind, KILLS).await;
    }
    for kind in [Kind::Plain, Kind::Commands, Kind::Detached, Kind::Mixed, Kind::Asking] {
        at_each_write(kind, 1).await;
    }
    at_each_write(Kind::Suspended, 1).await;
    line.runs = 3 * KILLS;
    line
}

pub(super) async fn repeats() -> Line {
    let mut line = Line::new("repeats (R4)");
    let tally = repeats::run(0..TURNS).await;
    line.count(&tally);
    line
}
