//! Runs `make soak`: measurements that take minutes, as one table with limits.
//!
//! These are the only tests whose result depends on measured times, so they run alone and
//! in release mode. `SOAK_ONLY=sixty` runs one part.

mod cancels;
mod commands;
mod faulty;
mod hostile;
mod kills;
mod memory;
mod proven;
mod searches;
mod sessions;
mod table;

use table::Table;

/// Measures the whole table. A line over its limit fails the run.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make soak"]
async fn soak() {
    let mut table = Table::default();
    table.measure("idle", memory::idle()).await;
    table.measure("large", memory::a_large_request()).await;
    table.measure("streams", memory::ordinary_streams()).await;
    table.measure("hostile", hostile::streams()).await;
    table.measure("sixty", hostile::sixty_of_a_kind()).await;
    table.measure("quiet", hostile::memory_after_a_minute()).await;
    table.measure("ignore files", searches::ignore_files()).await;
    table.measure("cancels", cancels::cancels()).await;
    table.measure("commands", commands::commands()).await;
    table.measure("proven", proven::proven()).await;
    let (landlock, bwrap) = ("commands in landlock (R6)", "commands in bwrap (R6)");
    table.measure("landlock", commands::commands_in(landlock, "landlock")).await;
    table.measure("bwrap", commands::commands_in(bwrap, "bwrap")).await;
    table.measure("sessions", sessions::many_sessions()).await;
    table.measure("faults", faulty::conversations()).await;
    table.measure("agents", faulty::conversations_with_agents()).await;
    table.measure("mcp", faulty::conversations_with_mcp_servers()).await;
    table.measure("storms", kills::storms()).await;
    table.measure("kills", kills::kills()).await;
    table.measure("repeats", kills::repeats()).await;
    table.finish();
}
