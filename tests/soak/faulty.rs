//! Runs the conversations of many seeds: with faults of upstream, and with subagents.

use super::table::Line;
use crate::{seeded_agents, seeded_faults};

/// As many seeds as the project promises.
const SEEDS: u64 = 10_000;

/// Conversations with agents, of two turns or so each.
const AGENT_SEEDS: u64 = 1_000;

/// As many turns with agents as the project promises.
const AGENT_TURNS: usize = 2_000;

const MAX_MIB: u64 = 200;

pub(super) async fn conversations() -> Line {
    let mut line = Line::new("seeded faults");
    let tally = seeded_faults::run(0..SEEDS).await;
    line.count(&tally);
    line.leaves(tally.remains, MAX_MIB);
    line
}

pub(super) async fn conversations_with_agents() -> Line {
    let mut line = Line::new("seeded agents");
    let tally = seeded_agents::run(0..AGENT_SEEDS).await;
    line.count(&tally);
    line.must(AGENT_TURNS <= tally.runs, || format!("{} turns alone", tally.runs));
    line.leaves(tally.remains, MAX_MIB);
    line
}
