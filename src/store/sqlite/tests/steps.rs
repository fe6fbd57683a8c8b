//! Forgets without the writer's thread, so that a test sees what is there between two steps.

use std::sync::Arc;

use rusqlite::{Connection, StatementStatus};

use super::super::changes::{self, ChangeError};
use super::super::queries;
use super::super::retention::{
    self, ClockReading, IS_NEEDED, Progress, RetentionStep, Step, is_needed, needed_parameters,
};
use super::*;
use crate::store::{SessionHold, SessionsInUse};

struct Database {
    connection: Connection,
    uses: i64,
    in_use: Option<Arc<dyn SessionsInUse>>,
}

/// One session that is used.
#[derive(Debug)]
struct Used(SessionId);

#[derive(Debug)]
struct Hold;

impl SessionHold for Hold {}

impl SessionsInUse for Used {
    fn try_hold(&self, session: &SessionId) -> Option<Box<dyn SessionHold>> {
        (*session != self.0).then(|| Box::new(Hold) as Box<dyn SessionHold>)
    }
}

impl Database {
    fn new() -> Self {
        let connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        schema::migrate(&connection).unwrap();
        Self { connection, uses: 0, in_use: None }
    }

    fn try_apply(&mut self, change: &Change) -> Result<(), ChangeError> {
        self.uses += 1;
        changes::Applier::new(&self.connection).apply(change, self.uses)
    }

    fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            self.try_apply(change).unwrap();
        }
    }

    /// Adds a session whose only turn has this status.
    fn add(&mut self, status: TurnStatus) -> (SessionRow, TurnRow) {
        let row = session(scope("key"));
        let turn = TurnRow { status, ..turn(&row) };
        self.apply(&[Change::Session(row.clone()), Change::Turn(turn.clone())]);
        (row, turn)
    }

    /// What one search from end to end forgets, when everything together is too large.
    fn forget_all(&self, progress: &mut Progress) -> Vec<SessionId> {
        let settings = StoreSettings { max_bytes: 0, ..settings() };
        let mut retention_step = RetentionStep::new(self.in_use.clone());
        let now = ClockReading { trusted_ms: None, expiry_ms: now_ms() };
        let mut step =
            || retention::step(&self.connection, &settings, now, progress, &mut retention_step);
        while step().unwrap() == Step::More {}
        retention_step.forgotten.into_iter().map(|session| session.id).collect()
    }
}

#[test]
fn however_many_sessions_wait_for_a_person_those_behind_them_are_forgotten() {
    let mut database = Database::new();
    let (first, turn) = database.add(TurnStatus::Suspended);
    for _ in 0..1100 {
        database.add(TurnStatus::Suspended);
    }
    let [second, third] = [(); 2].map(|()| database.add(TurnStatus::Finished).0);
    let mut progress = Progress::default();

    assert_eq!(database.forget_all(&mut progress), [second.id, third.id]);

    // The next search begins with the first again.
    let finished = TurnRow { status: TurnStatus::Finished, ..turn };
    database.apply(&[Change::Turn(finished)]);
    assert_eq!(database.forget_all(&mut progress), [first.id]);
}

#[test]
fn a_session_that_is_used_is_not_forgotten_until_it_is_not() {
    let mut database = Database::new();
    let [first, second] = [(); 2].map(|()| database.add(TurnStatus::Finished).0);
    database.in_use = Some(Arc::new(Used(first.id.clone())));
    let mut progress = Progress::default();

    assert_eq!(database.forget_all(&mut progress), [second.id]);
    database.in_use = None;
    assert_eq!(database.forget_all(&mut progress), [first.id]);
}

#[test]
fn a_session_is_kept_while_it_runs_or_a_person_can_decide() {
    const NOW: i64 = 1_000;
    let open = (None, NOW + 1);
    let expired = (None, NOW);
    let decided = (Some(b"{}".to_vec()), NOW + 1);
    let (running, suspended) = (TurnStatus::Running, TurnStatus::Suspended);
    let awaits_client = TurnStatus::AwaitsClient;
    for (status, approvals, has_next, expected) in [
        (TurnStatus::Finished, vec![], false, false),
        (TurnStatus::Finished, vec![open.clone()], false, false),
        (running, vec![], false, true),
        (running, vec![], true, true),
        (suspended, vec![], false, true),
        (suspended, vec![open.clone()], false, true),
        (suspended, vec![expired.clone()], false, false),
        // No turn has taken it up yet.
        (suspended, vec![decided.clone()], false, true),
        (suspended, vec![decided.clone()], true, false),
        (suspended, vec![decided.clone(), expired.clone()], false, true),
        (suspended, vec![expired.clone(), expired], false, false),
        (suspended, vec![decided, open.clone()], false, true),
        (suspended, vec![], true, false),
        // Another branch does not answer it.
        (suspended, vec![open], true, true),
        (awaits_client, vec![], false, true),
        (awaits_client, vec![], true, false),
    ] {
        let mut database = Database::new();
        let (row, asked) = database.add(status);
        for (decision, expires_ms) in &approvals {
            let (decision, expires_ms) = (decision.clone(), *expires_ms);
            let approval = ApprovalRow { expires_ms, decision, ..approval(&row, &asked) };
            database.apply(&[Change::Approval(approval)]);
        }
        if has_next {
            let parent = Some(asked.id.clone());
            let next = TurnRow { parent, status: TurnStatus::Finished, ..turn(&row) };
            database.apply(&[Change::Turn(next)]);
        }
        let found = is_needed(&database.connection, 1, NOW).unwrap();
        assert_eq!(found, expected, "{status:?} {approvals:?} {has_next}");
    }
}

/// How many steps SQLite takes to see that a session of so many turns may be forgotten.
fn steps_for(turns: usize, is_asked: bool) -> i32 {
    let mut database = Database::new();
    let row = session(scope("key"));
    database.apply(&[Change::Session(row.clone())]);
    let mut parent = None;
    for _ in 0..turns {
        let next = TurnRow { parent, status: TurnStatus::Suspended, ..turn(&row) };
        database.apply(&[Change::Turn(next.clone())]);
        if is_asked {
            let decision = Some(b"{}".to_vec());
            let decided = ApprovalRow { decision, ..approval(&row, &next) };
            database.apply(&[Change::Approval(decided)]);
        }
        parent = Some(next.id);
    }
    let end = TurnRow { parent, status: TurnStatus::Finished, ..turn(&row) };
    database.apply(&[Change::Turn(end)]);
    let mut statement = database.connection.prepare(IS_NEEDED).unwrap();
    let parameters = needed_parameters(1, now_ms());
    assert!(!statement.query_row(parameters, |row| row.get::<_, bool>(0)).unwrap());
    statement.get_status(StatementStatus::VmStep)
}

#[test]
fn whether_a_session_is_needed_takes_no_longer_for_each_of_its_turns() {
    for is_asked in [true, false] {
        let (few, many) = (steps_for(100, is_asked), steps_for(400, is_asked));
        assert!(many < 5 * few, "100 turns took {few} steps, and 400 took {many}");
    }
}

#[test]
fn nothing_finds_what_a_forgotten_session_has_left() {
    let key = scope("key");
    let mut database = Database::new();
    let (row, mut asked, changes) = conversation(key, "old");
    let approval = approval(&row, &asked);
    database.apply(&changes);
    (asked.digests, asked.request) = (Some(digests(1, Some(2))), Some(digest(3)));
    asked.idempotency = Some(digest(4));
    database.apply(&[Change::Turn(asked.clone()), Change::Approval(approval.clone())]);

    database.apply(&[Change::Forget(row.id.clone())]);

    let found = |by: TurnKey| queries::turns(&database.connection, key, &by).unwrap().len();
    for by in [
        TurnKey::Id(asked.id.clone()),
        TurnKey::Session(row.id.clone()),
        TurnKey::Chain(vec![digest(1)]),
        TurnKey::Head(digest(2)),
        TurnKey::Request(digest(3)),
        TurnKey::Idempotency(digest(4)),
    ] {
        assert_eq!(found(by.clone()), 0, "{by:?}");
    }
    let (id, turn) = (approval.id.clone(), asked.id.clone());
    for by in [ApprovalKey::Id(id.clone()), ApprovalKey::Turn(turn.clone()), ApprovalKey::Open] {
        assert_eq!(queries::approvals(&database.connection, key, &by).unwrap(), [], "{by:?}");
    }
    assert_eq!(queries::entries(&database.connection, key, &[turn]).unwrap(), []);
    // What still comes for it has no place.
    let late = [
        entry(&asked, "late"),
        Change::Turn(asked.clone()),
        Change::Approval(approval.clone()),
        Change::Decide { approval: id, decision: b"{}".to_vec() },
    ];
    for change in late {
        assert!(matches!(database.try_apply(&change), Err(ChangeError::Conflict)), "{change:?}");
    }
}

#[test]
fn the_ids_of_a_forgotten_session_begin_anew() {
    let key = scope("key");
    let mut database = Database::new();
    let (row, asked, changes) = conversation(key, "old");
    let approval = approval(&row, &asked);
    let decided = Change::Decide { approval: approval.id.clone(), decision: b"{}".to_vec() };
    database.apply(&changes);
    database.apply(&[Change::Approval(approval.clone()), decided, Change::Forget(row.id.clone())]);

    let again = [Change::Session(row), Change::Turn(asked.clone())];
    database.apply(&again);
    database.apply(&[Change::Approval(approval.clone())]);

    let open = || queries::approvals(&database.connection, key, &ApprovalKey::Open).unwrap();
    let turns = [asked.id];
    let entries = || queries::entries(&database.connection, key, &turns).unwrap();
    let expected = (vec![approval], vec![]);
    assert_eq!((open(), entries()), expected);
    // Nor does the sweep take what is new for what is old.
    let settings = settings();
    let mut progress = Progress::default();
    let now = ClockReading { trusted_ms: None, expiry_ms: now_ms() };
    let mut retention_step = RetentionStep::default();
    let mut step = || {
        retention::step(&database.connection, &settings, now, &mut progress, &mut retention_step)
    };
    while step().unwrap() == Step::More {}
    assert_eq!((open(), entries()), expected);
    let sessions = "SELECT count(*) FROM sessions";
    let left: i64 = database.connection.query_row(sessions, [], |row| row.get(0)).unwrap();
    assert_eq!(left, 1);
}
