//! Decides when a server that has ended is started again: (how it went, now) → wait or give up.
//! Pure.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Restarts older than this count no more.
const WINDOW: Duration = Duration::from_secs(10 * 60);

/// The restarts of one server.
#[derive(Debug)]
pub(super) struct Restarts {
    waits: Vec<Duration>,
    recent: VecDeque<Instant>,
}

impl Restarts {
    /// `waits`: before the first restart, the second, …; there are no more than these.
    pub(super) fn new(waits: Vec<Duration>) -> Self {
        Self { waits, recent: VecDeque::new() }
    }

    /// The wait before the next start. `None`: the server stays off.
    pub(super) fn next(&mut self, now: Instant) -> Option<Duration> {
        while self.recent.front().is_some_and(|past| WINDOW <= now.duration_since(*past)) {
            self.recent.pop_front();
        }
        let wait = *self.waits.get(self.recent.len())?;
        self.recent.push_back(now);
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m7_a_server_that_dies_at_each_start_is_restarted_three_times_in_ten_minutes() {
        let seconds = Duration::from_secs;
        let mut restarts = Restarts::new([1, 5, 25].map(seconds).to_vec());
        let start = Instant::now();
        let mut at = |after| restarts.next(start + seconds(after)).map(|wait| wait.as_secs());

        assert_eq!((at(0), at(1), at(6), at(31)), (Some(1), Some(5), Some(25), None));
        assert_eq!((at(599), at(600), at(600)), (None, Some(25), None));
        assert_eq!(at(3_600), Some(1));
    }
}
