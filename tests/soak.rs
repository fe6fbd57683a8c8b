//! `make soak`: what takes minutes, as one table with its limits.
//!
//! Times are measured here, so this is the one place where they decide; it is run by
//! itself, in release.

mod cancels;
mod commands;
mod faulty;
mod hostile;
mod memory;
mod table;

use table::Table;

/// The whole table; a line over its limit fails the run.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make soak"]
async fn soak() {
    let mut table = Table::default();
    table.add(memory::idle().await);
    table.add(memory::a_large_message().await);
    table.add(memory::ordinary_streams().await);
    table.add(hostile::streams().await);
    table.add(cancels::cancels().await);
    table.add(commands::commands().await);
    table.add(faulty::conversations().await);
    table.finish();
}
