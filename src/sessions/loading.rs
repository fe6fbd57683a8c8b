//! Counts what a request loads of the store against the memory that all requests share.

use std::sync::Mutex;

use crate::memory_budget::{MemoryBudget, Reservation};
use crate::store::StoreError;
use crate::sync;

/// A row is read, parsed, and copied into the transcript.
const COPIES: usize = 3;

/// What one request has loaded. Dropping it gives the memory back.
#[derive(Debug)]
pub(crate) struct Loading(Mutex<Loaded>);

#[derive(Debug)]
struct Loaded {
    reservation: Reservation,
    bytes: usize,
}

impl Loading {
    pub(crate) fn new(memory_budget: &MemoryBudget) -> Self {
        Self(Mutex::new(Loaded { reservation: memory_budget.reservation(), bytes: 0 }))
    }

    /// Called before rows of this size are read.
    pub(crate) fn add(&self, bytes: usize) -> Result<(), StoreError> {
        let mut loaded = sync::lock(&self.0);
        let sum = loaded.bytes.saturating_add(bytes.saturating_mul(COPIES));
        loaded.reservation.hold(sum).map_err(|_| StoreError::Exhausted)?;
        loaded.bytes = sum;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_would_load_more_than_is_left_is_refused_and_the_others_go_on() {
        let budget = MemoryBudget::new(1 << 20);
        let (one, other) = (Loading::new(&budget), Loading::new(&budget));
        assert_eq!(one.add(200_000), Ok(()));
        assert_eq!(other.add(200_000), Err(StoreError::Exhausted));
        assert_eq!(other.add(100_000), Ok(()));
        drop(one);
        assert_eq!(other.add(200_000), Ok(()));
        assert_eq!(other.add(usize::MAX), Err(StoreError::Exhausted));
    }
}
