//! Lets one turn at a time run in a session, and one request at a time take up an open round.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::errors::{ApiError, ErrorCode};
use crate::ids::{SessionId, TurnId};
use crate::sync;

/// The ids of which somebody holds the slot, or waits for it. Clones share them.
#[derive(Debug)]
pub(crate) struct Slots<K: Eq + Hash>(Arc<Mutex<HashMap<K, Arc<Semaphore>>>>);

/// The sessions in which a turn runs, or for which a request waits.
pub(crate) type SessionSlots = Slots<SessionId>;

/// The right to run a turn in a session.
pub(crate) type SessionSlot = Slot<SessionId>;

/// The turns whose open round a request takes up.
pub(crate) type ResumeSlots = Slots<TurnId>;

/// The right to take up the open round of a turn.
pub(crate) type ResumeSlot = Slot<TurnId>;

/// Dropping it lets the next one have it.
#[derive(Debug)]
pub(crate) struct Slot<K: Eq + Hash> {
    /// Given back before `interest` is dropped.
    _permit: OwnedSemaphorePermit,
    interest: Interest<K>,
}

/// A holder or waiter. Dropping the last one of an id forgets the id.
#[derive(Debug)]
struct Interest<K: Eq + Hash> {
    slots: Slots<K>,
    id: K,
    semaphore: Arc<Semaphore>,
}

impl<K: Eq + Hash> Clone for Slots<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Eq + Hash> Default for Slots<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Eq + Hash> Slot<K> {
    pub(crate) fn id(&self) -> &K {
        &self.interest.id
    }
}

impl<K: Clone + Eq + Hash> Slots<K> {
    /// Takes the slot, unless somebody holds it.
    pub(crate) fn try_take(&self, id: &K) -> Option<Slot<K>> {
        let interest = self.interest(id);
        let permit = Arc::clone(&interest.semaphore).try_acquire_owned().ok()?;
        Some(Slot { _permit: permit, interest })
    }

    /// Waits for the slot. Requests get it in the order in which they came.
    pub(crate) async fn take(&self, id: &K, wait: Duration) -> Result<Slot<K>, ApiError> {
        let interest = self.interest(id);
        let permit = timeout(wait, Arc::clone(&interest.semaphore).acquire_owned()).await;
        match permit {
            Ok(Ok(permit)) => Ok(Slot { _permit: permit, interest }),
            _ => Err(busy()),
        }
    }

    fn interest(&self, id: &K) -> Interest<K> {
        let mut slots = sync::lock(&self.0);
        let semaphore = slots.entry(id.clone()).or_insert_with(|| Arc::new(Semaphore::new(1)));
        let semaphore = Arc::clone(semaphore);
        Interest { slots: self.clone(), id: id.clone(), semaphore }
    }
}

impl<K: Eq + Hash> Drop for Interest<K> {
    fn drop(&mut self) {
        /// The map's own, and this one's.
        const LAST: usize = 2;
        let mut slots = sync::lock(&self.slots.0);
        if Arc::strong_count(&self.semaphore) == LAST {
            slots.remove(&self.id);
        }
    }
}

fn busy() -> ApiError {
    let message = "Another turn of this session is running. Ask again when it has ended, or \
                   stop it with POST /toolhand/v1/turns/{id}/cancel.";
    ApiError::new(ErrorCode::SessionBusy, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_runs_one_turn_and_another_session_another() {
        let slots = SessionSlots::default();
        let (one, other) = (SessionId::random(), SessionId::random());

        let slot = slots.try_take(&one).expect("a free session");

        assert!(slots.try_take(&one).is_none());
        assert!(slots.try_take(&other).is_some());
        drop(slot);
        assert!(slots.try_take(&one).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_the_slot_or_learns_that_the_session_is_busy() {
        let slots = SessionSlots::default();
        let session = SessionId::random();
        let slot = slots.try_take(&session).expect("a free session");
        let wait = Duration::from_secs(10);

        let refused = slots.take(&session, wait).await.expect_err("a busy session");
        assert_eq!(refused.code, ErrorCode::SessionBusy);
        let ends = async {
            tokio::task::yield_now().await;
            drop(slot);
        };
        let (taken, ()) = tokio::join!(slots.take(&session, wait), ends);

        assert!(taken.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_left_of_who_came_and_went() {
        let slots = SessionSlots::default();
        let session = SessionId::random();
        let slot = slots.try_take(&session).expect("a free session");
        assert!(slots.try_take(&session).is_none());
        assert!(slots.take(&session, Duration::ZERO).await.is_err());
        assert_eq!(slots.0.lock().unwrap().len(), 1);

        drop(slot);

        assert!(slots.0.lock().unwrap().is_empty());
    }
}
