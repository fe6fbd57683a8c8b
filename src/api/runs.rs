//! How many turns may run at once: in all, and of each key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::auth::KeyId;
use crate::limits::Limits;
use crate::openai::error::{ApiError, ErrorCode};

/// What who is turned away should wait: nobody knows when a turn ends, and asking
/// costs little.
const WAIT: Duration = Duration::from_secs(1);

/// The turns that run now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    of_key: HashMap<KeyId, usize>,
}

/// A turn's place among them; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    runs: Runs,
    key: KeyId,
}

impl Runs {
    /// A place for one more turn of `key`, if there is one.
    pub(crate) fn enter(&self, key: &KeyId, limits: &Limits) -> Result<Place, ApiError> {
        let mut counts = self.counts();
        let own = counts.of_key.get(key).copied().unwrap_or(0);
        if own >= limits.runs_per_key {
            return Err(too_many("of this key", "limits.runs_per_key", own));
        }
        if counts.all >= limits.runs {
            return Err(too_many("on this server", "limits.runs", counts.all));
        }
        counts.all += 1;
        counts.of_key.insert(key.clone(), own + 1);
        Ok(Place { runs: self.clone(), key: key.clone() })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().expect("no holder panics")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.runs.counts();
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
    use crate::api::auth::Key;

    fn key(name: &str) -> KeyId {
        Key::of_secret(name, name).id
    }

    fn limits(runs: usize, runs_per_key: usize) -> Limits {
        Limits { runs, runs_per_key, ..Limits::default() }
    }

    #[test]
    fn a_key_at_its_limit_keeps_no_other_key_out() {
        let (runs, limits) = (Runs::default(), limits(10, 2));
        let _held: Vec<Place> =
            (0..2).map(|_| runs.enter(&key("a"), &limits).expect("a place")).collect();

        let refused = runs.enter(&key("a"), &limits).expect_err("no place");

        assert_eq!((refused.code, refused.retry_after), (ErrorCode::TooManyRuns, Some(WAIT)));
        assert!(refused.message.contains("limits.runs_per_key"), "{}", refused.message);
        assert!(runs.enter(&key("b"), &limits).is_ok());
    }

    #[test]
    fn all_keys_together_have_a_limit_too() {
        let (runs, limits) = (Runs::default(), limits(2, 2));
        let _held: Vec<Place> = ["a", "b"]
            .into_iter()
            .map(|name| runs.enter(&key(name), &limits).expect("a place"))
            .collect();

        let refused = runs.enter(&key("c"), &limits).expect_err("no place");

        assert!(refused.message.contains("limits.runs "), "{}", refused.message);
    }

    #[test]
    fn a_place_is_free_again_and_its_key_forgotten() {
        let (runs, limits) = (Runs::default(), limits(1, 1));
        for _ in 0..3 {
            runs.enter(&key("a"), &limits).expect("a place");
        }
        let counts = runs.counts();
        assert_eq!((counts.all, counts.of_key.len()), (0, 0));
    }
}
