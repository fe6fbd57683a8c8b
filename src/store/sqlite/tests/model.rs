//! Compares the store with a simple model, over random changes and restarts.

use std::cmp::Reverse;

use proptest::prelude::*;

use super::*;
use crate::store::rows::SessionSummary;

#[derive(Clone, Debug, Default)]
struct Model {
    /// The one used last is the last.
    sessions: Vec<SessionRow>,
    turns: Vec<TurnRow>,
    entries: Vec<EntryRow>,
    approvals: Vec<ApprovalRow>,
}

impl Model {
    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let mut next = self.clone();
        changes.iter().try_for_each(|change| next.apply(change))?;
        *self = next;
        Ok(())
    }

    fn apply(&mut self, change: &Change) -> Result<(), StoreError> {
        let expect = |holds: bool| if holds { Ok(()) } else { Err(StoreError::Conflict) };
        match change {
            Change::Session(row) => {
                self.sessions.retain(|session| session.id != row.id);
                self.sessions.push(row.clone());
            }
            Change::Turn(row) => {
                expect(self.sessions.iter().any(|session| session.id == row.session))?;
                match self.turns.iter_mut().find(|turn| turn.id == row.id) {
                    Some(turn) => *turn = row.clone(),
                    None => self.turns.push(row.clone()),
                }
            }
            Change::Entry(row) => {
                expect(self.turns.iter().any(|turn| turn.id == row.turn))?;
                self.entries.push(row.clone());
            }
            Change::Approval(row) => {
                expect(self.turns.iter().any(|turn| turn.id == row.turn))?;
                match self.approvals.iter_mut().find(|approval| approval.id == row.id) {
                    Some(known) => {
                        (known.expires_ms, known.body) = (row.expires_ms, row.body.clone());
                    }
                    None => self.approvals.push(row.clone()),
                }
            }
            Change::Decide { approval, decision } => {
                let open = |row: &&mut ApprovalRow| row.id == *approval && row.decision.is_none();
                let row = self.approvals.iter_mut().find(open).ok_or(StoreError::Conflict)?;
                row.decision = Some(decision.clone());
            }
            Change::Forget(id) => {
                self.sessions.retain(|session| session.id != *id);
                let gone: Vec<_> = self.turns.iter().filter(|turn| turn.session == *id).collect();
                self.entries.retain(|entry| gone.iter().all(|turn| turn.id != entry.turn));
                self.turns.retain(|turn| turn.session != *id);
                self.approvals.retain(|approval| approval.session != *id);
            }
        }
        Ok(())
    }

    fn restart(&mut self) {
        for turn in self.turns.iter_mut().filter(|turn| turn.status == TurnStatus::Running) {
            turn.status = TurnStatus::Crashed;
        }
    }

    /// Turns of the scope, the newest first.
    fn turns(&self, scope: Scope, fits: impl Fn(&TurnRow) -> bool) -> Vec<TurnRow> {
        let mine = |turn: &&TurnRow| {
            self.sessions.iter().any(|row| row.id == turn.session && row.scope == scope)
        };
        self.turns.iter().rev().filter(mine).filter(|turn| fits(turn)).cloned().collect()
    }
}

/// The names of all things that a case is about.
#[derive(Debug)]
struct World {
    sessions: Vec<SessionRow>,
    /// Some of each session.
    turns: Vec<TurnRow>,
    approvals: Vec<ApprovalRow>,
}

impl World {
    fn new() -> Self {
        let sessions: Vec<_> = ["a", "a", "a", "b"].map(|key| session(scope(key))).into();
        let turns: Vec<_> = (0..8).map(|index| turn(&sessions[index % 4])).collect();
        let approvals = (0..8).map(|index| approval(&sessions[index % 4], &turns[index])).collect();
        Self { sessions, turns, approvals }
    }

    fn change(&self, (kind, which, detail): (u8, u8, u8)) -> Change {
        let (session, thing) = (usize::from(which % 4), usize::from(which % 8));
        let body = vec![detail; usize::from(detail) * 40];
        match kind % 10 {
            0 | 1 => {
                let model = (detail % 2 == 0).then(|| "m".to_owned());
                let name = SessionName { text: format!("n{}", detail % 3), model };
                let name = (detail % 4 != 0).then_some(name);
                let prompt = (detail % 3 != 0).then(|| format!("p{}", detail % 5).into());
                Change::Session(SessionRow { name, prompt, body, ..self.sessions[session].clone() })
            }
            2..=4 => {
                let statuses = [TurnStatus::Running, TurnStatus::Finished, TurnStatus::Suspended];
                let status = statuses[usize::from(detail % 3)];
                let some = |one: u8| (detail % one != 0).then(|| digest(detail % 5));
                let digests = (detail % 3 != 0).then(|| digests(detail % 4, Some(detail % 6)));
                let parent = (detail % 2 == 0).then(|| self.turns[(thing + 4) % 8].id.clone());
                let turn = self.turns[thing].clone();
                let (request, idempotency) = (some(2), some(5));
                Change::Turn(TurnRow {
                    parent,
                    status,
                    digests,
                    request,
                    idempotency,
                    body,
                    ..turn
                })
            }
            5 | 6 => Change::Entry(EntryRow { turn: self.turns[thing].id.clone(), body }),
            7 => Change::Approval(ApprovalRow {
                expires_ms: i64::from(detail),
                body,
                ..self.approvals[thing].clone()
            }),
            8 => Change::Decide { approval: self.approvals[thing].id.clone(), decision: body },
            _ => Change::Forget(self.sessions[session].id.clone()),
        }
    }
}

async fn compare(store: &SqliteStore, model: &Model, world: &World) {
    for scope in [scope("a"), scope("b")] {
        let mut listed: Vec<_> =
            model.sessions.iter().filter(|row| row.scope == scope).cloned().collect();
        listed.reverse();
        let page = store.sessions(scope, None, 100).await.unwrap().sessions;
        let expected = listed.iter().map(|row| SessionSummary {
            session: row.clone(),
            turns: model.turns(scope, |turn| turn.session == row.id).len() as u64,
        });
        assert_eq!(page, expected.collect::<Vec<_>>());
        for number in 0..3 {
            for name_model in [None, Some("m".to_owned())] {
                let name = SessionName { text: format!("n{number}"), model: name_model };
                let expected = listed.iter().find(|row| row.name.as_ref() == Some(&name)).cloned();
                let found = store.session(scope, SessionKey::Name(name)).await.unwrap();
                assert_eq!(found, expected);
            }
        }
        let check = async |by: TurnKey, expected: Vec<TurnRow>| {
            assert_eq!(store.turns(scope, by.clone()).await.unwrap(), expected, "{by:?}");
        };
        for row in &world.sessions {
            let all = model.turns(scope, |turn| turn.session == row.id);
            check(TurnKey::Session(row.id.clone()), all).await;
        }
        for number in 0..6 {
            let wanted = Some(digest(number));
            let by_head = |turn: &TurnRow| turn.digests.is_some_and(|it| it.head == wanted);
            check(TurnKey::Head(digest(number)), model.turns(scope, by_head)).await;
            let by_request = |turn: &TurnRow| turn.request == wanted;
            check(TurnKey::Request(digest(number)), model.turns(scope, by_request)).await;
            let by_key = |turn: &TurnRow| turn.idempotency == wanted;
            check(TurnKey::Idempotency(digest(number)), model.turns(scope, by_key)).await;
        }
        let chains = vec![digest(3), digest(0), digest(0), digest(9)];
        let mut by_chain = chains.iter().map(|chain| {
            model.turns(scope, |turn| turn.digests.is_some_and(|own| own.chain == *chain))
        });
        let first = by_chain.find(|turns| !turns.is_empty()).unwrap_or_default();
        check(TurnKey::Chain(chains.clone()), first).await;
        for turn in &world.turns {
            let mine = !model.turns(scope, |row| row.id == turn.id).is_empty();
            let expected = model.entries.iter().filter(|entry| mine && entry.turn == turn.id);
            let found = store.entries(scope, vec![turn.id.clone()]).await.unwrap();
            assert_eq!(found, expected.cloned().collect::<Vec<_>>());
        }
        let open = |row: &&ApprovalRow| row.scope == scope && row.decision.is_none();
        let mut expected: Vec<_> = model.approvals.iter().filter(open).cloned().collect();
        let mut found = store.approvals(scope, ApprovalKey::Open).await.unwrap();
        for rows in [&mut expected, &mut found] {
            rows.sort_by_key(|row| Reverse(row.id.to_string()));
        }
        assert_eq!(found, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn d1_the_store_holds_what_a_simple_model_holds(
        commits in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(any::<(u8, u8, u8)>(), 1..5)), 1..60),
        restart_after in 1_usize..30,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let home = tempfile::tempdir().unwrap();
            let (mut model, world) = (Model::default(), World::new());
            let mut store = open(home.path());
            let mut waiting = Vec::new();
            for (number, (waits, changes)) in commits.into_iter().enumerate() {
                let changes: Vec<_> =
                    changes.into_iter().map(|change| world.change(change)).collect();
                let others = waiting.len() % 3;
                waiting.push((model.commit(&changes), store.commit_together(changes, others)));
                // Those that nobody waits for yet are committed together.
                if waits {
                    for (expected, commit) in waiting.drain(..) {
                        assert_eq!(commit.await, expected);
                    }
                }
                if number % restart_after == restart_after - 1 {
                    store.close().await;
                    store = open(home.path());
                    model.restart();
                }
            }
            for (expected, commit) in waiting {
                assert_eq!(commit.await, expected);
            }
            compare(&store, &model, &world).await;
            store.close().await;
            model.restart();
            compare(&open(home.path()), &model, &world).await;
        });
    }
}
