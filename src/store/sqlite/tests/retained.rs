//! Lets the store forget.

use super::super::{Forgotten, ForgottenSession};
use super::*;

/// Forgets so quickly that no test waits.
fn open_with(directory: &Path, retention_ms: u64, max_bytes: u64) -> (SqliteStore, Forgotten) {
    let settings = StoreSettings { retention: Duration::from_millis(retention_ms), max_bytes };
    SqliteStore::open(directory, settings).unwrap()
}

const HOUR_MS: i64 = 3_600_000;

#[tokio::test]
async fn d11_old_sessions_are_forgotten_with_all_they_hold_but_none_that_runs_or_is_asked() {
    let home = tempfile::tempdir().unwrap();
    let key = scope("key");
    let (first, _) = open_with(home.path(), 1 << 40, 1 << 30);
    let mut kept = Vec::new();
    let mut old = Vec::new();
    for index in 0..20 {
        let (mut row, mut turn, _) = conversation(key, "");
        // The clock is set back a day and ahead again meanwhile.
        row.updated_ms -= if index == 7 { 24 * HOUR_MS } else { 2 * HOUR_MS };
        turn.status = [TurnStatus::Finished, TurnStatus::Suspended][usize::from(index % 5 == 0)];
        let mut changes = vec![Change::Session(row.clone()), Change::Turn(turn.clone())];
        changes.extend((0..50).map(|_| entry(&turn, &"x".repeat(100))));
        if turn.status == TurnStatus::Suspended {
            changes.push(Change::Approval(approval(&row, &turn)));
        }
        let list = if turn.status == TurnStatus::Suspended { &mut kept } else { &mut old };
        list.push(row.id.clone());
        first.commit(changes).await.unwrap();
    }
    let (fresh, turn, changes) = conversation(key, "fresh");
    first.commit(changes).await.unwrap();
    first.close().await;

    let (store, mut forgotten) = open_with(home.path(), 3_600_000, 1 << 30);
    let mut gone = Vec::new();
    for _ in &old {
        gone.push(forgotten.recv().await.unwrap().id);
    }
    assert_eq!(gone, old);
    kept.push(fresh.id);
    let left = store.sessions(key, None, 100).await.unwrap().sessions;
    assert_eq!(left.iter().rev().map(|row| row.session.id.clone()).collect::<Vec<_>>(), kept);
    assert_eq!(bodies(&store, key, &turn).await, ["fresh"]);
    store.close().await;
    // After the sweep nothing of them is left, in no table.
    let (store, _) = open_with(home.path(), 1 << 40, 1 << 30);
    swept(&home).await;
    drop(store);
    let connection = rusqlite::Connection::open(home.path().join("toolhand.db")).unwrap();
    for (table, rows) in [("sessions", 5), ("turns", 5), ("entries", 4 * 50 + 1), ("approvals", 4)]
    {
        let sql = format!("SELECT count(*) FROM {table}");
        let found: i64 = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(found, rows, "{table}");
    }
}

/// Waits until no row is left without a session.
async fn swept(home: &tempfile::TempDir) {
    let connection = rusqlite::Connection::open(home.path().join("toolhand.db")).unwrap();
    let sql = "SELECT count(*) FROM sessions WHERE id IS NULL";
    while connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() != 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn d11_those_unused_longest_go_when_all_together_are_too_large() {
    let home = tempfile::tempdir().unwrap();
    let key = scope("key");
    let max = 2 << 20;
    let (store, mut forgotten) = open_with(home.path(), 1 << 40, max);
    let body = "x".repeat(64 << 10);
    let (mut all, mut gone, mut pages) = (Vec::new(), Vec::new(), Vec::new());
    for sessions in [200, 400] {
        while all.len() < sessions {
            let (row, mut turn, _) = conversation(key, "");
            turn.status = TurnStatus::Finished;
            let changes =
                vec![Change::Session(row.clone()), Change::Turn(turn.clone()), entry(&turn, &body)];
            store.commit(changes).await.unwrap();
            all.push(row.id);
            // As many stay as there is room for.
            while gone.len() + 50 < all.len() {
                gone.push(forgotten.recv().await.unwrap().id);
            }
        }
        swept(&home).await;
        let connection = rusqlite::Connection::open(home.path().join("toolhand.db")).unwrap();
        pages.push(
            connection.query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0)).unwrap(),
        );
    }
    assert_eq!(gone, all[..350]);
    let newest = store.sessions(key, None, 1).await.unwrap().sessions;
    assert_eq!(newest[0].session.id, all[399]);
    // Pages are used again: 13 MB were written each time.
    assert!(pages[1] < 2 * pages[0], "{pages:?}");
}

#[tokio::test]
async fn a_forgotten_session_is_gone_at_once_with_all_that_belongs_to_it() {
    let home = tempfile::tempdir().unwrap();
    let (store, mut forgotten) = open_with(home.path(), 1 << 40, 1 << 30);
    let key = scope("key");
    let (row, turn, changes) = conversation(key, "one");
    let approval = approval(&row, &turn);
    store.commit([changes, vec![Change::Approval(approval.clone())]].concat()).await.unwrap();

    store.commit(vec![Change::Forget(row.id.clone())]).await.unwrap();

    assert_eq!(store.session(key, SessionKey::Id(row.id.clone())).await.unwrap(), None);
    assert!(store.turns(key, TurnKey::Session(row.id.clone())).await.unwrap().is_empty());
    assert!(bodies(&store, key, &turn).await.is_empty());
    assert!(store.approvals(key, ApprovalKey::Id(approval.id)).await.unwrap().is_empty());
    // What still comes for it has no place.
    assert_eq!(store.commit(vec![entry(&turn, "late")]).await, Err(StoreError::Conflict));
    assert_eq!(store.commit(vec![Change::Turn(turn)]).await, Err(StoreError::Conflict));
    swept(&home).await;
    // Forgetting what is not there is no error.
    store.commit(vec![Change::Forget(row.id.clone())]).await.unwrap();
    drop(store);
    assert_eq!(forgotten.recv().await.unwrap(), ForgottenSession { id: row.id, body: row.body });
    assert_eq!(forgotten.recv().await, None, "it is told once");
}

/// A disk that is full takes little more, and this makes room.
#[tokio::test]
async fn a_large_session_is_forgotten_without_writing_it_again() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let (row, _, _) = conversation(scope("key"), "");
    store.commit(vec![Change::Session(row.clone())]).await.unwrap();
    for _ in 0..64 {
        let body = vec![b'x'; 256 << 10];
        let large = TurnRow { status: TurnStatus::Finished, body, ..turn(&row) };
        store.commit(vec![Change::Turn(large)]).await.unwrap();
    }
    store.close().await;
    let store = open(home.path());

    store.commit(vec![Change::Forget(row.id)]).await.unwrap();

    swept(&home).await;
    // Of 16 MB.
    let log = std::fs::metadata(home.path().join("toolhand.db-wal")).unwrap().len();
    assert!(log < 2 << 20, "{log} bytes were written");
}
