//! Tests the store through its trait.

mod faults;
mod files;
mod kills;
mod model;
mod retained;
mod steps;

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;

use super::super::rows::{
    ApprovalRow, Change, EntryRow, LinkDigests, SessionName, SessionRow, TurnRow, TurnStatus,
};
use super::super::settings::StoreSettings;
use super::super::{ApprovalKey, MAX_OF_DIGEST, SessionKey, Store, StoreError, TurnKey};
use super::file::DatabaseFile;
use super::{SqliteStore, schema};
use crate::clock::now_ms;
use crate::ids::{ApprovalId, KeyId, Scope, SessionId, TurnId};

fn settings() -> StoreSettings {
    StoreSettings { retention: Duration::from_secs(3600 * 24 * 30), max_bytes: 1 << 30 }
}

fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(directory, settings()).unwrap().0
}

fn scope(name: &str) -> Scope {
    Scope::new(&KeyId::new(name), None)
}

fn session(scope: Scope) -> SessionRow {
    SessionRow {
        id: SessionId::random(),
        scope,
        key: KeyId::new("key"),
        name: None,
        model: "demo".into(),
        created_ms: now_ms(),
        updated_ms: now_ms(),
        prompt: None,
        body: b"{}".to_vec(),
    }
}

fn turn(session: &SessionRow) -> TurnRow {
    TurnRow {
        id: TurnId::random(),
        session: session.id.clone(),
        parent: None,
        status: TurnStatus::Running,
        started_ms: now_ms(),
        depth: 1,
        digests: None,
        request: None,
        idempotency: None,
        body: b"{}".to_vec(),
    }
}

fn entry(turn: &TurnRow, body: &str) -> Change {
    Change::Entry(EntryRow { turn: turn.id.clone(), body: body.as_bytes().to_vec() })
}

fn approval(session: &SessionRow, turn: &TurnRow) -> ApprovalRow {
    ApprovalRow {
        id: ApprovalId::random(),
        scope: session.scope,
        session: session.id.clone(),
        turn: turn.id.clone(),
        created_ms: 1,
        expires_ms: i64::MAX,
        body: b"{}".to_vec(),
        decision: None,
    }
}

/// A session with one turn that has one entry.
fn conversation(scope: Scope, body: &str) -> (SessionRow, TurnRow, Vec<Change>) {
    let session = session(scope);
    let turn = turn(&session);
    let changes =
        vec![Change::Session(session.clone()), Change::Turn(turn.clone()), entry(&turn, body)];
    (session, turn, changes)
}

async fn bodies(store: &SqliteStore, scope: Scope, turn: &TurnRow) -> Vec<String> {
    let entries = store.entries(scope, vec![turn.id.clone()]).await.unwrap();
    entries.into_iter().map(|entry| String::from_utf8(entry.body).unwrap()).collect()
}

#[tokio::test]
async fn what_is_committed_is_found_again_by_its_scope_only() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let (ours, theirs) = (scope("ours"), scope("theirs"));
    let (session, turn, mut changes) = conversation(ours, "one");
    let approval = approval(&session, &turn);
    changes.extend([entry(&turn, "two"), Change::Approval(approval.clone())]);
    store.commit(changes).await.unwrap();
    let key = SessionKey::Id(session.id.clone());

    assert_eq!(store.session(ours, key.clone()).await.unwrap(), Some(session));
    assert_eq!(bodies(&store, ours, &turn).await, ["one", "two"]);
    let open = store.approvals(ours, ApprovalKey::Open).await.unwrap();
    assert_eq!(open, std::slice::from_ref(&approval));

    assert_eq!(store.session(theirs, key).await.unwrap(), None);
    assert!(bodies(&store, theirs, &turn).await.is_empty());
    assert!(store.sessions(theirs, None, 10).await.unwrap().sessions.is_empty());
    let turns = store.turns(theirs, TurnKey::Id(turn.id)).await.unwrap();
    assert!(turns.is_empty());
    for by in [ApprovalKey::Open, ApprovalKey::Id(approval.id)] {
        assert!(store.approvals(theirs, by).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn of_very_many_turns_with_one_digest_the_newest_are_found() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let (session, _, mut changes) = conversation(scope("key"), "one");
    let digests = LinkDigests { chain: [1; 32], link: [2; 32], head: Some([3; 32]) };
    let turns: Vec<_> = (0..MAX_OF_DIGEST + 5)
        .map(|_| TurnRow { digests: Some(digests), ..turn(&session) })
        .collect();
    changes.extend(turns.iter().cloned().map(Change::Turn));
    store.commit(changes).await.unwrap();

    for by in [TurnKey::Chain(vec![[1; 32]]), TurnKey::Head([3; 32])] {
        let found = store.turns(scope("key"), by).await.unwrap();
        assert_eq!(found.len(), MAX_OF_DIGEST);
        assert_eq!(found.first(), turns.last());
    }
}

#[tokio::test]
async fn only_the_turns_behind_one_are_read_and_none_behind_one_that_is_gone() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let (session, first, changes) = conversation(scope("key"), "one");
    store.commit(changes).await.unwrap();
    let newer: Vec<_> = (0..2).map(|_| turn(&session)).collect();
    store.commit(newer.iter().cloned().map(Change::Turn).collect()).await.unwrap();
    let (other, _, changes) = conversation(scope("key"), "other");
    store.commit(changes).await.unwrap();

    let after = async |session: &SessionRow, turn: &TurnRow| {
        let key = TurnKey::After(session.id.clone(), turn.id.clone());
        store.turns(scope("key"), key).await.unwrap()
    };
    assert_eq!(after(&session, &first).await, [newer[1].clone(), newer[0].clone()]);
    assert!(after(&session, &newer[1]).await.is_empty());
    assert!(after(&session, &turn(&session)).await.is_empty());
    assert!(after(&other, &newer[1]).await.is_empty());
}

#[tokio::test]
async fn of_two_decisions_one_counts_and_the_other_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let (session, turn, changes) = conversation(scope("key"), "one");
    let approval = approval(&session, &turn);
    store.commit([changes, vec![Change::Approval(approval.clone())]].concat()).await.unwrap();
    let decide = |by: &str| {
        let decision = by.as_bytes().to_vec();
        vec![entry(&turn, by), Change::Decide { approval: approval.id.clone(), decision }]
    };

    // They wait together, so they are committed together, and so is what fits between them.
    let commits = [decide("first"), decide("second"), vec![entry(&turn, "other")]];
    let outcomes = futures::future::join_all(commits.map(|changes| store.commit(changes))).await;

    assert_eq!(outcomes, [Ok(()), Err(StoreError::Conflict), Ok(())]);
    assert_eq!(bodies(&store, scope("key"), &turn).await, ["one", "first", "other"]);
    let decided = store.approvals(scope("key"), ApprovalKey::Id(approval.id)).await.unwrap();
    assert_eq!(decided[0].decision.as_deref(), Some(&b"first"[..]));
}

#[tokio::test]
async fn a_commit_that_may_wait_for_others_needs_none() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let (_, turn, changes) = conversation(scope("key"), "0");
    store.commit_together(changes, 1000).await.unwrap();
    let few = (1..4).map(|number| vec![entry(&turn, &number.to_string())]);
    let many = few.map(|changes| store.commit_together(changes, 2));
    assert_eq!(futures::future::join_all(many).await, [Ok(()); 3]);
    drop(store.commit_together(vec![entry(&turn, "4")], 1000));
    store.commit(vec![entry(&turn, "5")]).await.unwrap();

    assert_eq!(bodies(&store, scope("key"), &turn).await, ["0", "1", "2", "3", "4", "5"]);
}

#[tokio::test]
async fn a_commit_counts_though_nobody_waits_for_it_and_in_its_order() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let (_, turn, changes) = conversation(scope("key"), "0");
    drop(store.commit(changes));
    for number in 1..200 {
        drop(store.commit(vec![entry(&turn, &number.to_string())]));
    }
    store.close().await;

    assert_eq!(store.commit(Vec::new()).await, Err(StoreError::Unavailable));
    assert_eq!(
        store.session(scope("key"), SessionKey::Id(SessionId::random())).await,
        Err(StoreError::Unavailable)
    );
    let expected: Vec<_> = (0..200).map(|number: i32| number.to_string()).collect();
    assert_eq!(bodies(&open(home.path()), scope("key"), &turn).await, expected);
}

#[tokio::test]
async fn sessions_are_listed_by_their_last_use_in_pages() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let rows: Vec<_> = (0..5).map(|_| session(scope("key"))).collect();
    for index in [0, 1, 2, 3, 4, 1] {
        store.commit(vec![Change::Session(rows[index].clone())]).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = store.sessions(scope("key"), after, 2).await.unwrap();
        seen.extend(page.sessions.iter().map(|summary| summary.session.id.clone()));
        after = seen.last().cloned();
        if !page.has_more {
            break;
        }
    }
    assert_eq!(seen, [1, 4, 3, 2, 0].map(|index: usize| rows[index].id.clone()));
    // Behind a session of another scope there is nothing.
    let foreign = store.sessions(scope("key"), Some(SessionId::random()), 2).await.unwrap();
    assert!(foreign.sessions.is_empty() && !foreign.has_more);
}

/// Every look-up takes an index, so that no request waits longer for many sessions.
#[test]
fn no_look_up_scans_a_table() {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
    schema::migrate(&connection).unwrap();
    let check = |sql: &str| {
        let plan = format!("EXPLAIN QUERY PLAN {sql}");
        let mut statement = connection.prepare(&plan).unwrap();
        let nulls = vec![rusqlite::types::Null; statement.parameter_count()];
        let rows = statement
            .query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>(3))
            .unwrap();
        for step in rows.map(Result::unwrap) {
            let is_index = step.contains("USING") || !step.starts_with("SCAN");
            assert!(is_index, "{step}\n{sql}");
        }
    };
    for column in ["chain", "head", "request", "idempotency"] {
        check(&format!(
            "SELECT t.id FROM turns t CROSS JOIN sessions s ON s.seq = t.session \
             WHERE s.scope = ?1 AND substr(t.{column}, 1, 8) = substr(?2, 1, 8) \
             AND t.{column} = ?2 ORDER BY t.seq DESC"
        ));
    }
    check("SELECT seq FROM sessions WHERE scope = ?1 AND name = ?2 AND name_model IS ?3");
    check("SELECT seq FROM sessions WHERE scope = ?1 AND name = ?2 ORDER BY used DESC LIMIT 1");
    check("SELECT seq FROM sessions WHERE id IS NULL LIMIT 1");
    check("SELECT 1 FROM sessions s WHERE s.prompt = ?1");
    check("UPDATE turns SET status = ?1 WHERE status = 0");
    check("SELECT seq FROM sessions WHERE id IS NOT NULL AND ?1 < used ORDER BY used");
    check(
        "SELECT seq FROM sessions WHERE id IS NOT NULL AND scope = ?1 AND used < ?2 \
         ORDER BY used DESC LIMIT ?3",
    );
}

/// A parameter's value decides nothing about a plan: otherwise SQLite would prepare statements
/// again and again.
#[test]
fn a_statement_is_prepared_once() {
    let home = tempfile::tempdir().unwrap();
    let file = DatabaseFile::in_directory(home.path()).unwrap();
    for connection in [file.open().unwrap(), file.connect_reader().unwrap()] {
        assert!(connection.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG).unwrap());
    }
}

#[tokio::test]
async fn sessions_with_one_prompt_share_it_and_the_last_one_takes_it_along() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let with = |prompt: &str| SessionRow { prompt: Some(prompt.into()), ..session(scope("key")) };
    let rows = [with("one"), with("one"), with("two"), session(scope("key"))];
    store.commit(rows.iter().cloned().map(Change::Session).collect()).await.unwrap();
    let prompts = || -> Vec<String> {
        let connection = rusqlite::Connection::open(home.path().join("toolhand.db")).unwrap();
        let mut select = connection.prepare("SELECT text FROM prompts ORDER BY seq").unwrap();
        let texts = select.query_map([], |row| row.get(0)).unwrap();
        texts.map(Result::unwrap).collect()
    };

    assert_eq!(prompts(), ["one", "two"]);
    for row in &rows {
        let found = store.session(scope("key"), SessionKey::Id(row.id.clone())).await;
        assert_eq!(found.unwrap().as_ref(), Some(row));
    }

    // What is forgotten is removed while nothing else is written, and before the end.
    for (row, left) in rows.iter().zip([&["one", "two"][..], &["two"], &[]]) {
        store.commit(vec![Change::Forget(row.id.clone())]).await.unwrap();
        while prompts() != left {
            tokio::task::yield_now().await;
        }
    }
}

#[test]
fn a_name_with_a_model_is_another_than_without() {
    let name =
        |model: Option<&str>| SessionName { text: "chat".into(), model: model.map(str::to_owned) };
    let home = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = open(home.path());
        let rows = [None, Some("a"), Some("b")]
            .map(|model| SessionRow { name: Some(name(model)), ..session(scope("key")) });
        store.commit(rows.iter().cloned().map(Change::Session).collect()).await.unwrap();
        for row in rows {
            let key = SessionKey::Name(row.name.clone().unwrap());
            assert_eq!(store.session(scope("key"), key).await.unwrap(), Some(row));
        }
        let last = SessionRow { name: Some(name(Some("a"))), ..session(scope("key")) };
        store.commit(vec![Change::Session(last.clone())]).await.unwrap();
        let by_text = |text: &str| SessionKey::NameText(text.to_owned());
        assert_eq!(store.session(scope("key"), by_text("chat")).await.unwrap(), Some(last));
        for (scope, text) in [(scope("key"), "cha"), (scope("other"), "chat")] {
            assert_eq!(store.session(scope, by_text(text)).await.unwrap(), None);
        }
        let missing = store.session(scope("key"), SessionKey::Name(name(Some("c")))).await;
        assert_eq!(missing.unwrap(), None);
    });
}

fn digests(chain: u8, head: Option<u8>) -> LinkDigests {
    LinkDigests { chain: digest(chain), link: digest(1), head: head.map(digest) }
}

/// Two digests of the same eighth are different, and share the part that is indexed.
fn digest(number: u8) -> [u8; 32] {
    let mut digest = [number / 2; 32];
    digest[31] = number;
    digest
}

fn with_vfs(directory: &Path, vfs: &str) -> DatabaseFile {
    DatabaseFile::in_directory(directory).unwrap().with_vfs(vfs)
}
