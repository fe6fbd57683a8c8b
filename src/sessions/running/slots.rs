//! Lets one turn at a time run in a session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::errors::{ApiError, ErrorCode};
use crate::ids::SessionId;
use crate::sync;

/// The sessions in which a turn runs, or for which a request waits. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionSlots(Arc<Mutex<HashMap<SessionId, Arc<Semaphore>>>>);

/// The right to run a turn in a session. Dropping it lets the next one run.
#[derive(Debug)]
pub(crate) struct SessionSlot {
    /// Given back before `_interest` is dropped.
    _permit: OwnedSemaphorePermit,
    _interest: Interest,
}

/// A holder or waiter. Dropping the last one of a session forgets the session.
#[derive(Debug)]
struct Interest {
    slots: SessionSlots,
    session: SessionId,
    semaphore: Arc<Semaphore>,
}

impl SessionSlots {
    /// Takes the session's slot, unless a turn runs in it.
    pub(crate) fn try_take(&self, session: &SessionId) -> Option<SessionSlot> {
        let interest = self.interest(session);
        let permit = Arc::clone(&interest.semaphore).try_acquire_owned().ok()?;
        Some(SessionSlot { _permit: permit, _interest: interest })
    }

    /// Waits for the session's slot. Requests get it in the order in which they came.
    pub(crate) async fn take(
        &self,
        session: &SessionId,
        wait: Duration,
    ) -> Result<SessionSlot, ApiError> {
        let interest = self.interest(session);
        let permit = timeout(wait, Arc::clone(&interest.semaphore).acquire_owned()).await;
        match permit {
            Ok(Ok(permit)) => Ok(SessionSlot { _permit: permit, _interest: interest }),
            _ => Err(busy()),
        }
    }

    fn interest(&self, session: &SessionId) -> Interest {
        let mut slots = sync::lock(&self.0);
        let semaphore = slots.entry(session.clone()).or_insert_with(|| Arc::new(Semaphore::new(1)));
        let semaphore = Arc::clone(semaphore);
        Interest { slots: self.clone(), session: session.clone(), semaphore }
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        /// The map's own, and this one's.
        const LAST: usize = 2;
        let mut slots = sync::lock(&self.slots.0);
        if Arc::strong_count(&self.semaphore) == LAST {
            slots.remove(&self.session);
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
