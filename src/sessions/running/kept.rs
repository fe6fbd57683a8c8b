//! Bounds the memory of the logs that retries are told from. All turns share it; the
//! turns that ended first give theirs up.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use crate::memory_budget::{Exhausted, MemoryBudget, Reservation};
use crate::sync;

/// An ended turn whose log may be dropped.
pub(super) trait Forgettable: Send + Sync {
    /// Drops the log and releases its memory.
    fn forget(&self);

    /// Whether a client still reads it.
    fn is_read(&self) -> bool;
}

/// Clones share one memory.
#[derive(Clone)]
pub(super) struct KeptMemory {
    budget: MemoryBudget,
    /// Turns in the order in which they ended.
    ended: Arc<Mutex<VecDeque<Weak<dyn Forgettable>>>>,
}

/// Dead entries are removed when the queue has grown to this length.
const PLACES: usize = 4096;

impl KeptMemory {
    pub(super) fn new(most: usize) -> Self {
        Self { budget: MemoryBudget::new(most), ended: Arc::default() }
    }

    pub(super) fn reservation(&self) -> Reservation {
        self.budget.reservation()
    }

    /// Grows `reservation` to this many bytes. Ended turns are forgotten to make room,
    /// the oldest first. If that does not suffice, `reservation` is unchanged.
    pub(super) fn hold(
        &self,
        reservation: &mut Reservation,
        bytes: usize,
    ) -> Result<(), Exhausted> {
        loop {
            let held = reservation.hold_rounded_up(bytes);
            if held.is_ok() {
                return held;
            }
            // Release the lock before calling the turn, which takes its own.
            let oldest = sync::lock(&self.ended).pop_front();
            let Some(oldest) = oldest else { return held };
            if let Some(turn) = oldest.upgrade() {
                turn.forget();
            }
        }
    }

    /// Forgets all ended turns that nobody reads.
    pub(super) fn forget_unread(&self) {
        let ended = std::mem::take(&mut *sync::lock(&self.ended));
        // As in `hold`, the lock is released before a turn takes its own.
        let (read, unread): (Vec<_>, Vec<_>) =
            ended.into_iter().filter_map(|turn| turn.upgrade()).partition(|turn| turn.is_read());
        for turn in unread {
            turn.forget();
        }
        let mut ended = sync::lock(&self.ended);
        for turn in read.iter().rev() {
            ended.push_front(Arc::downgrade(turn));
        }
    }

    /// From now on the turn may be forgotten.
    pub(super) fn ended(&self, turn: Weak<dyn Forgettable>) {
        let mut ended = sync::lock(&self.ended);
        if ended.len() >= PLACES {
            ended.retain(|turn| turn.strong_count() > 0);
        }
        ended.push_back(turn);
    }
}

impl fmt::Debug for KeptMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptMemory").field("budget", &self.budget).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const MAX_BYTES: usize = 32 << 20;

    /// The kept memory of one turn.
    struct Turn {
        kept: Mutex<Option<Reservation>>,
        readers: AtomicUsize,
    }

    impl Forgettable for Turn {
        fn forget(&self) {
            self.kept.lock().unwrap().take();
        }

        fn is_read(&self) -> bool {
            self.readers.load(Ordering::Relaxed) > 0
        }
    }

    impl Turn {
        fn is_kept(&self) -> bool {
            self.kept.lock().unwrap().is_some()
        }
    }

    fn turn(memory: &KeptMemory, bytes: usize) -> Option<Arc<Turn>> {
        let mut reservation = memory.reservation();
        let held = memory.hold(&mut reservation, bytes);
        let kept = Mutex::new(Some(reservation));
        held.is_ok().then(|| Arc::new(Turn { kept, readers: AtomicUsize::new(0) }))
    }

    fn ended(memory: &KeptMemory, bytes: usize) -> Arc<Turn> {
        let turn = turn(memory, bytes).expect("room");
        let weak: Weak<Turn> = Arc::downgrade(&turn);
        memory.ended(weak);
        turn
    }

    #[test]
    fn the_turns_that_ended_first_give_way() {
        let memory = KeptMemory::new(MAX_BYTES);
        let turns: Vec<_> = (0..100).map(|_| ended(&memory, 1 << 20)).collect();

        let kept: Vec<bool> = turns.iter().map(|turn| turn.is_kept()).collect();

        assert_eq!(kept, [vec![false; 68], vec![true; 32]].concat());
        let large = ended(&memory, 30 << 20);
        assert!(large.is_kept());
        assert_eq!(turns.iter().filter(|turn| turn.is_kept()).count(), 2);
    }

    #[test]
    fn in_quiet_only_what_is_read_stays() {
        let memory = KeptMemory::new(MAX_BYTES);
        let turns: Vec<_> = (0..3).map(|_| ended(&memory, 1 << 20)).collect();
        turns[1].readers.store(1, Ordering::Relaxed);
        let kept = || turns.iter().map(|turn| turn.is_kept()).collect::<Vec<_>>();

        memory.forget_unread();
        assert_eq!(kept(), [false, true, false]);

        turns[1].readers.store(0, Ordering::Relaxed);
        memory.forget_unread();
        assert_eq!(kept(), [false; 3]);
        assert!(ended(&memory, MAX_BYTES).is_kept());
    }

    #[test]
    fn a_turn_that_runs_does_not_give_way() {
        let memory = KeptMemory::new(MAX_BYTES);
        let running: Vec<_> = (0..32).map(|_| turn(&memory, 1 << 20).expect("room")).collect();

        assert!(turn(&memory, 1).is_none());

        assert!(running.iter().all(|turn| turn.is_kept()));
    }

    #[test]
    fn small_ones_count_too_and_those_that_are_gone_leave_no_trace() {
        let memory = KeptMemory::new(MAX_BYTES);
        let small: Vec<_> = (0..3000).map(|_| ended(&memory, 1)).collect();
        assert_eq!(small.iter().filter(|turn| turn.is_kept()).count(), 2048);
        drop(small);
        for _ in 0..3 * PLACES {
            ended(&memory, 1);
        }
        assert!(memory.ended.lock().unwrap().len() <= PLACES);
    }
}
