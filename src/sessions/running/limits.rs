//! Limits how many turns run at the same time, in all and for each key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::errors::{ApiError, ErrorCode};
use crate::ids::KeyId;
use crate::limits::Limits;
use crate::sync;

/// `Retry-After` of a refused turn. Nobody knows when a turn ends, and asking again is
/// cheap.
const WAIT: Duration = Duration::from_secs(1);

/// Counts running turns against `limits.runs` and `limits.runs_per_key`. Clones share the
/// counts.
#[derive(Clone, Debug)]
pub(crate) struct RunLimits {
    runs: usize,
    runs_per_key: usize,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    of_key: HashMap<KeyId, usize>,
}

/// Permits one turn to run. Dropping it releases its place.
#[derive(Debug)]
pub(crate) struct RunPermit {
    limits: RunLimits,
    key: KeyId,
}

impl RunLimits {
    pub(crate) fn new(limits: &Limits) -> Self {
        let &Limits { runs, runs_per_key, .. } = limits;
        Self { runs, runs_per_key, counts: Arc::default() }
    }

    /// Returns a permit for one more turn of `key`, unless a limit is reached.
    pub(crate) fn permit(&self, key: &KeyId) -> Result<RunPermit, ApiError> {
        let mut counts = self.counts();
        let own = counts.of_key.get(key).copied().unwrap_or(0);
        if own >= self.runs_per_key {
            return Err(too_many("of this key", "limits.runs_per_key", own));
        }
        if counts.all >= self.runs {
            return Err(too_many("on this server", "limits.runs", counts.all));
        }
        counts.all += 1;
        counts.of_key.insert(key.clone(), own + 1);
        Ok(RunPermit { limits: self.clone(), key: key.clone() })
    }

    /// How many turns run now.
    pub(crate) fn running(&self) -> usize {
        self.counts().all
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        sync::lock(&self.counts)
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        let mut counts = self.limits.counts();
        counts.all -= 1;
        let left = counts.of_key.get(&self.key).map_or(0, |own| own - 1);
        if left == 0 {
            counts.of_key.remove(&self.key);
        } else {
            counts.of_key.insert(self.key.clone(), left);
        }
    }
}

fn too_many(whose: &str, limit: &str, running: usize) -> ApiError {
    let message = format!(
        "{running} turns {whose} are running, as many as {limit} allows. Ask again when one of \
         them has ended."
    );
    ApiError::new(ErrorCode::TooManyRuns, message).retry_after(Some(WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(runs: usize, runs_per_key: usize) -> RunLimits {
        RunLimits::new(&Limits { runs, runs_per_key, ..Limits::default() })
    }

    #[test]
    fn a_key_at_its_limit_keeps_no_other_key_out() {
        let limits = limits(10, 2);
        let _permits: Vec<RunPermit> =
            (0..2).map(|_| limits.permit(&KeyId::new("a")).expect("a permit")).collect();

        let refused = limits.permit(&KeyId::new("a")).expect_err("no permit");

        assert_eq!((refused.code, refused.retry_after), (ErrorCode::TooManyRuns, Some(WAIT)));
        assert!(refused.message.contains("limits.runs_per_key"), "{}", refused.message);
        assert!(limits.permit(&KeyId::new("b")).is_ok());
    }

    #[test]
    fn all_keys_together_have_a_limit_too() {
        let limits = limits(2, 2);
        let _permits: Vec<RunPermit> = ["a", "b"]
            .into_iter()
            .map(|name| limits.permit(&KeyId::new(name)).expect("a permit"))
            .collect();

        let refused = limits.permit(&KeyId::new("c")).expect_err("no permit");

        assert!(refused.message.contains("limits.runs "), "{}", refused.message);
    }

    #[test]
    fn a_place_is_free_again_and_its_key_forgotten() {
        let limits = limits(1, 1);
        for _ in 0..3 {
            limits.permit(&KeyId::new("a")).expect("a permit");
        }
        let counts = limits.counts();
        assert_eq!((counts.all, counts.of_key.len()), (0, 0));
    }
}
