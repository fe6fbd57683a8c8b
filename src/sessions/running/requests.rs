//! Finds the turn of a request that is sent again, so that its tools do not run twice.
//! Such a request is an SDK's retry after a time-out, or has an `Idempotency-Key`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fingerprint::{Identity, RequestFingerprint};
use super::shared_turn::{Outcome, SharedTurn};
use crate::errors::{ApiError, ErrorCode};
use crate::ids::Scope;
use crate::store::rows::Digest;
use crate::sync;

/// How long an ended turn is remembered here. Later ones are looked up in the store.
const MAX_AGE: Duration = Duration::from_secs(600);

/// How many ended turns are remembered.
const MAX_ENDED_TURNS: usize = 1024;

/// How often expired turns are removed.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(1);

/// The turns that run or ended recently, by scope and request. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    requests: HashMap<Name, Entry>,
    last_reservation: u64,
    looked: Option<Instant>,
}

type Name = (Scope, Identity);

#[derive(Debug)]
struct Entry {
    content: Digest,
    turn: EntryTurn,
}

#[derive(Debug)]
enum EntryTurn {
    /// A request of this name is about to start a turn.
    Reserved {
        number: u64,
        settled: CancellationToken,
    },
    Started(Arc<SharedTurn>),
}

/// What a request finds.
#[derive(Debug)]
pub(super) enum Seen {
    /// The name is free: start a turn.
    New(Reservation),
    /// Its turn runs, or has an outcome.
    Turn(Arc<SharedTurn>),
    /// Wait for this, and look again.
    Wait(CancellationToken),
}

/// The right to start the turn of a request. Dropping it without a turn frees the name.
#[derive(Debug)]
pub(super) struct Reservation {
    requests: Requests,
    name: Name,
    number: u64,
    settled: CancellationToken,
}

impl Requests {
    /// Looks for the turn of this request, and reserves its name if there is none.
    pub(super) fn look(
        &self,
        scope: Scope,
        fingerprint: RequestFingerprint,
    ) -> Result<Seen, ApiError> {
        let name = (scope, fingerprint.name);
        let mut known = self.known();
        // A request that is no retry is new whatever was sent before.
        if fingerprint.is_retry || fingerprint.is_named() {
            match known.find(&name, fingerprint.content)? {
                Some(EntryTurn::Reserved { settled, .. }) => {
                    return Ok(Seen::Wait(settled.clone()));
                }
                Some(EntryTurn::Started(turn)) => match turn.outcome(fingerprint.is_named()) {
                    Outcome::Stands => return Ok(Seen::Turn(Arc::clone(turn))),
                    Outcome::Stopping => return Ok(Seen::Wait(turn.over.clone())),
                    Outcome::Stopped => return Err(super::shared_turn::cancelled()),
                    Outcome::None => {}
                },
                None => {}
            }
        }
        known.last_reservation += 1;
        let (number, settled) = (known.last_reservation, CancellationToken::new());
        let turn = EntryTurn::Reserved { number, settled: settled.clone() };
        known.requests.insert(name, Entry { content: fingerprint.content, turn });
        Ok(Seen::New(Reservation { requests: self.clone(), name, number, settled }))
    }

    /// Forgets the turns for which `is_gone` holds.
    pub(super) fn forget(&self, is_gone: impl Fn(&SharedTurn) -> bool) {
        let is_gone =
            |entry: &Entry| matches!(&entry.turn, EntryTurn::Started(turn) if is_gone(turn));
        self.known().requests.retain(|_, entry| !is_gone(entry));
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        sync::lock(&self.0)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known().requests.len()
    }
}

impl Reservation {
    /// Makes the turn known to those who wait, unless nothing of it is kept.
    pub(super) fn publish(self, turn: &Arc<SharedTurn>) {
        let mut known = self.requests.known();
        if turn.is_kept()
            && let Some(entry) = known.reserved(&self.name, self.number)
        {
            entry.turn = EntryTurn::Started(Arc::clone(turn));
        }
        known.forget_expired();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut known = self.requests.known();
        if known.reserved(&self.name, self.number).is_some() {
            known.requests.remove(&self.name);
        }
        drop(known);
        self.settled.cancel();
    }
}

impl Known {
    fn find(&self, name: &Name, content: Digest) -> Result<Option<&EntryTurn>, ApiError> {
        let Some(entry) = self.requests.get(name) else { return Ok(None) };
        if entry.content == content { Ok(Some(&entry.turn)) } else { Err(mismatch()) }
    }

    /// The entry, if it still is this reservation: a later request of the same bytes replaces
    /// an earlier one, since a retry means the latest.
    fn reserved(&mut self, name: &Name, number: u64) -> Option<&mut Entry> {
        self.requests.get_mut(name).filter(|entry| match entry.turn {
            EntryTurn::Reserved { number: reserved, .. } => reserved == number,
            EntryTurn::Started(_) => false,
        })
    }

    /// Removes turns that are too old, too many, or of no use to a retry.
    fn forget_expired(&mut self) {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now < looked + CLEANUP_INTERVAL) {
            return;
        }
        self.looked = Some(now);
        let mut ended: Vec<Instant> = Vec::new();
        self.retain(|name, turn| {
            let since = turn.ended();
            ended.extend(since);
            let is_of_use = !matches!(turn.outcome(name.is_given()), Outcome::None);
            is_of_use && since.is_none_or(|since| now < since + MAX_AGE)
        });
        if let Some(excess) = ended.len().checked_sub(MAX_ENDED_TURNS).filter(|excess| *excess > 0)
        {
            ended.sort_unstable();
            let oldest_kept = ended[excess];
            self.retain(|_, turn| turn.ended().is_none_or(|since| since >= oldest_kept));
        }
    }

    fn retain(&mut self, mut stays: impl FnMut(Identity, &SharedTurn) -> bool) {
        self.requests.retain(|(_, name), entry| match &entry.turn {
            EntryTurn::Reserved { .. } => true,
            EntryTurn::Started(turn) => stays(*name, turn),
        });
    }
}

/// One `Idempotency-Key` came with two requests.
pub(super) fn mismatch() -> ApiError {
    let message = "This Idempotency-Key was used for another request. Give each request a key \
                   of its own.";
    ApiError::new(ErrorCode::IdempotencyMismatch, message)
}
