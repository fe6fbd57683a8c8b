//! Runs the conversations of many seeds: with faults of upstream, with subagents, and with MCP
//! servers that fail.

use super::table::Line;
use crate::{seeded_agents, seeded_faults, seeded_mcp};

/// As many seeds as the project promises.
const SEEDS: u64 = 10_000;

/// Conversations with agents, of two turns or so each.
const AGENT_SEEDS: u64 = 1_000;

/// As many turns with agents as the project promises.
const AGENT_TURNS: usize = 2_000;

/// Conversations with MCP servers, of about five calls each.
const MCP_SEEDS: u64 = 450;

/// As many calls of MCP servers as the project promises.
const MCP_CALLS: usize = 2_000;

const MAX_MIB: u64 = 200;

/// Beside lines of 100 MB.
const MCP_MAX_MIB: u64 = 512;

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

pub(super) async fn conversations_with_mcp_servers() -> Line {
    let mut line = Line::new("failing MCP servers (R4, R6, R7)");
    let played = seeded_mcp::run(0..MCP_SEEDS).await;
    line.count(&played.tally);
    let seeded_mcp::Played { calls, sent, answered, restarts, .. } = played;
    line.note(format!("{calls} calls, {sent} sent, {answered} answered, {restarts} restarts"));
    line.must(MCP_CALLS <= calls, || format!("{calls} calls alone"));
    line.must(played.is_fair(), || "too few calls met a server".to_owned());
    line.leaves(played.tally.remains, MCP_MAX_MIB);
    line
}
