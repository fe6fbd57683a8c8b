//! Computes the deadlines of a stream: silence, comments alone, and the end after
//! `finish_reason`. Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::settings::UpstreamSettings;

/// The deadline that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// No byte came for this time.
    Idle(Duration),
    /// Bytes came, but no data for this time.
    Comment(Duration),
    /// The answer had ended, and nothing followed. This is not a failure.
    End,
}

/// When the last bytes and data came, and how long may pass after them.
#[derive(Debug)]
pub(crate) struct Deadlines {
    idle: Duration,
    comment: Duration,
    end: Duration,
    last_bytes: Instant,
    last_data: Instant,
    /// Whether a `finish_reason` came.
    is_finished: bool,
}

impl Deadlines {
    pub(crate) fn new(settings: &UpstreamSettings, now: Instant) -> Self {
        Self {
            idle: settings.idle_timeout,
            comment: settings.comment_timeout,
            end: settings.end_timeout,
            last_bytes: now,
            last_data: now,
            is_finished: false,
        }
    }

    pub(crate) fn bytes_came(&mut self, now: Instant) {
        self.last_bytes = now;
    }

    pub(crate) fn data_came(&mut self, now: Instant) {
        self.last_data = now;
    }

    /// Notes that the last data had a `finish_reason`. Data that follows still counts and
    /// starts the wait for the end anew.
    pub(crate) fn finished(&mut self) {
        self.is_finished = true;
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// The time of the next deadline.
    pub(crate) fn next(&self) -> Instant {
        let silence = (self.last_bytes + self.idle).min(self.last_data + self.comment);
        if self.is_finished { silence.min(self.last_data + self.end) } else { silence }
    }

    /// The deadline that has passed, if any.
    pub(crate) fn expired(&self, now: Instant) -> Option<Expired> {
        if now < self.next() {
            None
        } else if self.is_finished() {
            Some(Expired::End)
        } else if now >= self.last_bytes + self.idle {
            Some(Expired::Idle(self.idle))
        } else {
            Some(Expired::Comment(self.comment))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn deadlines() -> (Deadlines, Instant) {
        let settings = UpstreamSettings {
            idle_timeout: 10 * SECOND,
            comment_timeout: 15 * SECOND,
            end_timeout: 2 * SECOND,
            ..UpstreamSettings::default()
        };
        let start = Instant::now();
        (Deadlines::new(&settings, start), start)
    }

    #[test]
    fn silence_expires_as_idle() {
        let (deadlines, start) = deadlines();
        assert_eq!(deadlines.next(), start + 10 * SECOND);
        assert_eq!(deadlines.expired(start + 9 * SECOND), None);
        assert_eq!(deadlines.expired(start + 10 * SECOND), Some(Expired::Idle(10 * SECOND)));
    }

    #[test]
    fn comments_are_bytes_but_no_progress() {
        let (mut deadlines, start) = deadlines();
        deadlines.bytes_came(start + 9 * SECOND);
        assert_eq!(deadlines.expired(start + 14 * SECOND), None);
        assert_eq!(deadlines.expired(start + 15 * SECOND), Some(Expired::Comment(15 * SECOND)));
        deadlines.data_came(start + 9 * SECOND);
        assert_eq!(deadlines.next(), start + 19 * SECOND);
    }

    #[test]
    fn after_the_end_only_the_done_is_waited_for() {
        let (mut deadlines, start) = deadlines();
        deadlines.data_came(start + SECOND);
        deadlines.finished();
        assert_eq!(deadlines.next(), start + 3 * SECOND);
        assert_eq!(deadlines.expired(start + 3 * SECOND), Some(Expired::End));
    }

    #[test]
    fn u19_what_comes_behind_the_end_starts_the_wait_anew() {
        let (mut deadlines, start) = deadlines();
        deadlines.finished();
        for second in 1..30 {
            let now = start + second * SECOND;
            deadlines.bytes_came(now);
            deadlines.data_came(now);
            assert_eq!(deadlines.next(), now + 2 * SECOND);
            assert_eq!(deadlines.expired(now + SECOND), None);
        }
        deadlines.bytes_came(start + 30 * SECOND);
        assert_eq!(deadlines.expired(start + 31 * SECOND), Some(Expired::End));
    }
}
