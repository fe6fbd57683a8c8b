//! Keeps in memory what was read of sessions, as far as it cannot change any more: a request
//! that goes on from a long conversation then loads its last turn alone.
//!
//! What is kept is no proof that it still exists. The store is asked first for the turn or the
//! session that a request goes on from.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use super::matching::{Tree, Turn};
use super::record::{TurnBody, TurnRecord};
use crate::ids::{Scope, SessionId, TurnId};
use crate::store::rows::TurnStatus;
use crate::sync;

/// About how many bytes are kept for all sessions together. Those unused longest give way.
const MAX_BYTES: usize = 32 << 20;

/// What a turn takes beside the texts in it.
const TURN_SIZE: usize = 1024;

/// More of one session is not kept, so that it does not drive out all others.
const MAX_BYTES_OF_ONE: usize = MAX_BYTES / 2;

#[derive(Debug, Default)]
pub(crate) struct KnownTurns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<Key, Known>,
    /// Sessions by the number of their last use.
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    bytes: usize,
}

type Key = (Scope, SessionId);

/// The turns of a session up to the first that still runs, and their records.
#[derive(Debug, Default)]
struct Known {
    tree: Arc<Tree>,
    records: HashMap<TurnId, Arc<TurnRecord>>,
    bytes: usize,
    used: u64,
}

impl KnownTurns {
    /// The newest turn that is known of a session.
    pub(super) fn newest(&self, scope: Scope, session: &SessionId) -> Option<TurnId> {
        let state = sync::lock(&self.0);
        let known = state.sessions.get(&(scope, session.clone()))?;
        known.tree.newest().map(|turn| turn.row.id.clone())
    }

    /// The tree with turns that were loaded behind a known one, newest first; `None` if it is
    /// not known any more.
    pub(super) fn extended(
        &self,
        scope: Scope,
        session: &SessionId,
        newer: Vec<Arc<Turn>>,
    ) -> Option<Arc<Tree>> {
        let mut state = sync::lock(&self.0);
        let key = (scope, session.clone());
        state.sessions.contains_key(&key).then(|| state.add(key, newer))
    }

    /// The tree of a session of which all turns were loaded, newest first.
    pub(super) fn loaded(
        &self,
        scope: Scope,
        session: &SessionId,
        turns: Vec<Arc<Turn>>,
    ) -> Arc<Tree> {
        let mut state = sync::lock(&self.0);
        let key = (scope, session.clone());
        state.forget(&key);
        state.add(key, turns)
    }

    /// The records of these turns, as far as they are known.
    pub(super) fn records(
        &self,
        scope: Scope,
        turns: &[Arc<Turn>],
    ) -> Vec<Option<Arc<TurnRecord>>> {
        let state = sync::lock(&self.0);
        let (mut key, mut known) = (None, None);
        let record = |turn: &Arc<Turn>| {
            // Nearly all are of one session.
            if key.as_ref().is_none_or(|(_, session)| *session != turn.row.session) {
                let new = (scope, turn.row.session.clone());
                known = state.sessions.get(&new);
                key = Some(new);
            }
            known?.records.get(&turn.row.id).map(Arc::clone)
        };
        turns.iter().map(record).collect()
    }

    /// Keeps the record of a turn that is over, if its session is known. `size` is that of its
    /// entries.
    pub(super) fn add_record(&self, scope: Scope, record: &Arc<TurnRecord>, size: usize) {
        let mut state = sync::lock(&self.0);
        let Some(known) = state.sessions.get_mut(&(scope, record.row.session.clone())) else {
            return;
        };
        // The tree has those alone that cannot change.
        if known.tree.get(&record.row.id).is_none() {
            return;
        }
        let size = size + body_size(&record.body);
        if MAX_BYTES_OF_ONE < known.bytes + size {
            return;
        }
        if known.records.insert(record.row.id.clone(), Arc::clone(record)).is_none() {
            known.bytes += size;
            state.bytes += size;
            state.make_room();
        }
    }

    /// Forgets all of them. What is asked for next is loaded from the store.
    pub(super) fn forget_all(&self) {
        *sync::lock(&self.0) = State::default();
    }

    pub(super) fn forget(&self, scope: Scope, session: &SessionId) {
        sync::lock(&self.0).forget(&(scope, session.clone()));
    }
}

impl State {
    /// Adds turns that are newer than what is known, and returns the tree of all.
    fn add(&mut self, key: Key, mut newer: Vec<Arc<Turn>>) -> Arc<Tree> {
        self.uses += 1;
        let known = self.sessions.entry(key.clone()).or_default();
        self.by_use.remove(&known.used);
        self.by_use.insert(self.uses, key);
        known.used = self.uses;
        // Another request may have added some already.
        newer.retain(|turn| known.tree.get(&turn.row.id).is_none());
        let is_running = |turn: &Arc<Turn>| turn.row.status == TurnStatus::Running;
        let settled = newer.iter().rposition(is_running).map_or(0, |oldest| oldest + 1);
        let settled = newer.split_off(settled);
        if !settled.is_empty() {
            let size: usize = settled.iter().map(|turn| body_size(&turn.body)).sum();
            known.bytes += size;
            self.bytes += size;
            Arc::make_mut(&mut known.tree).add_newer(settled);
        }
        let mut tree = Arc::clone(&known.tree);
        if !newer.is_empty() {
            Arc::make_mut(&mut tree).add_newer(newer);
        }
        self.make_room();
        tree
    }

    fn make_room(&mut self) {
        while MAX_BYTES < self.bytes
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, key: &Key) {
        if let Some(known) = self.sessions.remove(key) {
            self.by_use.remove(&known.used);
            self.bytes -= known.bytes;
        }
    }
}

fn body_size(body: &TurnBody) -> usize {
    let texts = body.user_messages.iter().map(|sent| sent.words.len() + sent.sent.len());
    let instructions = body.instructions.iter().flatten().map(String::len);
    TURN_SIZE + texts.chain(instructions).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::KeyId;
    use crate::store::memory::samples;
    use crate::store::rows::TurnRow;

    fn scope(key: &str) -> Scope {
        Scope::new(&KeyId::new(key), None)
    }

    fn turn(session: &SessionId, status: TurnStatus) -> Arc<Turn> {
        let row = samples::turn(&samples::session("a"), None);
        let row = TurnRow { session: session.clone(), status, ..row };
        Arc::new(Turn { row, body: TurnBody::default() })
    }

    fn record(turn: &Turn) -> Arc<TurnRecord> {
        let (row, body) = (turn.row.clone(), turn.body.clone());
        Arc::new(TurnRecord { row, body, entries: Vec::new() })
    }

    #[test]
    fn a_turn_that_runs_and_all_behind_it_are_loaded_again() {
        let (known, session) = (KnownTurns::default(), SessionId::random());
        let [old, runs, new] = [TurnStatus::Finished, TurnStatus::Running, TurnStatus::Finished]
            .map(|status| turn(&session, status));

        let turns = vec![Arc::clone(&new), Arc::clone(&runs), Arc::clone(&old)];
        let tree = known.loaded(scope("a"), &session, turns);

        assert_eq!(tree.newest().map(|turn| &turn.row.id), Some(&new.row.id));
        assert_eq!(known.newest(scope("a"), &session), Some(old.row.id.clone()));
        known.add_record(scope("a"), &record(&runs), 1);
        known.add_record(scope("a"), &record(&old), 1);
        let kept = known.records(scope("a"), &[runs, old]);
        assert_eq!(kept.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn nothing_is_known_in_another_scope_or_once_it_is_forgotten() {
        let (known, session) = (KnownTurns::default(), SessionId::random());
        let only = turn(&session, TurnStatus::Finished);
        known.loaded(scope("a"), &session, vec![Arc::clone(&only)]);
        known.add_record(scope("a"), &record(&only), 1);
        let records = |key| known.records(scope(key), &[Arc::clone(&only)])[0].is_some();

        assert_eq!(known.newest(scope("b"), &session), None);
        assert!(known.extended(scope("b"), &session, Vec::new()).is_none());
        assert!(records("a") && !records("b"));

        known.forget(scope("a"), &session);
        assert_eq!((known.newest(scope("a"), &session), records("a")), (None, false));
        assert!(known.extended(scope("a"), &session, Vec::new()).is_none());
        assert_eq!(known.0.lock().unwrap().bytes, 0);
    }

    #[test]
    fn the_session_unused_longest_gives_way() {
        let known = KnownTurns::default();
        let sessions: Vec<_> = (0..4).map(|_| SessionId::random()).collect();
        let big = |session: &SessionId| {
            let only = turn(session, TurnStatus::Finished);
            known.loaded(scope("a"), session, vec![Arc::clone(&only)]);
            known.add_record(scope("a"), &record(&only), MAX_BYTES * 3 / 10);
        };
        sessions[..3].iter().for_each(big);
        assert!(known.extended(scope("a"), &sessions[0], Vec::new()).is_some());
        big(&sessions[3]);

        let is_known = |session| known.newest(scope("a"), session).is_some();
        let kept: Vec<_> = sessions.iter().map(is_known).collect();
        assert_eq!(kept, [true, false, true, true]);
    }
}
