//! Implements the memory budget that all streams share.
//!
//! Code that holds bytes from a peer, or bytes that a peer has not taken yet, reserves their
//! number. A holder that needs more than is left ends with an error; the others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::errors::{ApiError, ErrorCode};

/// The budget. Clones share one budget.
#[derive(Clone, Debug)]
pub(crate) struct MemoryBudget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The bytes that may be reserved.
    most: usize,
    /// The bytes that are reserved.
    taken: AtomicUsize,
}

/// The bytes that one holder has reserved. They are given back on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    memory_budget: MemoryBudget,
    taken: usize,
}

/// The budget has not enough bytes left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// The unit of reservations, in bytes. Less than one unit is free: an ordinary stream never
/// holds more, and so never touches the counter that all streams share.
const STEP: usize = 16 << 10;

impl MemoryBudget {
    /// `most` is `limits.buffers`, in bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Inner { most, taken: AtomicUsize::new(0) }))
    }

    pub(crate) fn reservation(&self) -> Reservation {
        Reservation { memory_budget: self.clone(), taken: 0 }
    }

    fn take(&self, more: usize) -> Result<(), Exhausted> {
        let Inner { most, taken } = &*self.0;
        let grown = |taken: usize| taken.checked_add(more).filter(|sum| sum <= most);
        taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown)
            .map(drop)
            .map_err(|_| Exhausted)
    }

    fn give_back(&self, bytes: usize) {
        self.0.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Reservation {
    /// Sets how many bytes the holder has. If the budget has not enough left, the reservation
    /// stays as it was.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Exhausted> {
        // Rounds down, which makes less than one step free.
        let wanted = bytes / STEP * STEP;
        if wanted > self.taken {
            self.memory_budget.take(wanted - self.taken)?;
        } else if wanted < self.taken {
            self.memory_budget.give_back(self.taken - wanted);
        }
        self.taken = wanted;
        Ok(())
    }

    /// Like [`Self::hold`], but rounds up. For holders that keep little but for long.
    pub(crate) fn hold_rounded_up(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.hold(bytes.checked_next_multiple_of(STEP).ok_or(Exhausted)?)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory_budget.give_back(self.taken);
    }
}

impl From<Exhausted> for ApiError {
    fn from(_: Exhausted) -> Self {
        let message = "the server's memory for running requests is used up (limits.buffers); \
                       try again later";
        Self::new(ErrorCode::Overloaded, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shares_together_hold_no_more_than_the_budget() {
        let memory_budget = MemoryBudget::new(10 * STEP);
        let (mut one, mut other) = (memory_budget.reservation(), memory_budget.reservation());

        assert_eq!(one.hold(6 * STEP), Ok(()));
        assert_eq!(other.hold(5 * STEP), Err(Exhausted));
        assert_eq!(other.hold(4 * STEP), Ok(()));
        assert_eq!(one.hold(7 * STEP), Err(Exhausted));
        assert_eq!(one.hold(STEP), Ok(()));
        assert_eq!(other.hold(9 * STEP), Ok(()));
        assert_eq!(other.hold(usize::MAX), Err(Exhausted));
    }

    #[test]
    fn what_is_dropped_is_given_back() {
        let memory_budget = MemoryBudget::new(10 * STEP);
        for _ in 0..3 {
            let mut reservation = memory_budget.reservation();
            assert_eq!(reservation.hold(10 * STEP), Ok(()));
            assert_eq!(reservation.hold(11 * STEP), Err(Exhausted));
        }
        assert_eq!(memory_budget.0.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn small_holders_are_free() {
        let memory_budget = MemoryBudget::new(0);

        assert_eq!(memory_budget.reservation().hold(STEP - 1), Ok(()));
        assert_eq!(memory_budget.reservation().hold(STEP), Err(Exhausted));
    }
}
