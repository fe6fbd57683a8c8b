//! Measures the look at known files, for `make bench` alone.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outside_changes::Current;
use super::read_state::{ReadState, Suspect};
use super::watcher::Watcher;
use crate::workspace::Workspace;

/// How long each of `runs` looks at `count` files takes that nothing has changed. The files are
/// made in `directory`. `None` if they cannot be.
#[expect(clippy::disallowed_methods, reason = "measures what runs no async code")]
pub fn looks_at_known_files(directory: &Path, count: usize, runs: usize) -> Option<Vec<Duration>> {
    let workspace = Workspace::open(vec![directory.to_owned()]).ok()?;
    let known = ReadState::default().watched_by(Arc::new(Watcher::default()));
    for number in 0..count {
        let below = workspace.root().join(format!("src/part{}/module", number % 50));
        fs::create_dir_all(&below).ok()?;
        let path = below.join(format!("file{number}.rs"));
        fs::write(&path, format!("fn number{number}() {{}}\n")).ok()?;
        let target = workspace.resolve(&path).ok()?;
        Current::read(&target).ok()?.seen_by(&known, target.real_path());
    }
    // The watcher may still tell of the files that were made.
    known.observed(known.suspects().iter().map(Suspect::nothing_new).collect());
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let start = Instant::now();
        let suspects = known.suspects();
        times.push(start.elapsed());
        drop(suspects);
    }
    Some(times)
}
