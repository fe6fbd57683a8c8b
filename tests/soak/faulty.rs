//! Runs the conversations of many fault seeds.

use super::table::Line;
use crate::seeded_faults;

/// As many seeds as the project promises.
const SEEDS: u64 = 10_000;

const MAX_MIB: u64 = 200;

pub(super) async fn conversations() -> Line {
    let mut line = Line::new("seeded faults");
    let tally = seeded_faults::run(0..SEEDS).await;
    line.runs = tally.runs;
    line.terminal_events = Some(tally.terminal_events);
    line.false_stops = Some(tally.false_stops);
    line.double_executions = Some(tally.double_executions);
    line.leaves(tally.remains, MAX_MIB);
    line.must(tally.wrong.is_empty(), || tally.wrong[0].clone());
    line
}
