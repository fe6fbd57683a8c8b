//! Lets writes and syncs fail at every place, and checks what is there afterwards.

use super::super::SqliteStore;
use super::super::faulty_vfs::{self, Fault, Faults};
use super::*;

/// Fills more than one page.
fn body(number: u32) -> String {
    format!("{number} {}", "x".repeat(3000))
}

/// Commits while the fault lasts, then without it. Returns how many commits have failed.
async fn check(faults: &Faults, fault: Fault, after: u32) -> u32 {
    let home = tempfile::tempdir().unwrap();
    let file = with_vfs(home.path(), faulty_vfs::NAME);
    let store = SqliteStore::open_file(file, settings()).unwrap().0;
    let key = scope("key");
    let (_, turn, changes) = conversation(key, "begin");
    store.commit(changes).await.unwrap();
    let mut expected = vec!["begin".to_owned()];
    let mut failed = 0;
    faults.plan(fault, after);
    for number in 0..6 {
        match store.commit(vec![entry(&turn, &body(number))]).await {
            Ok(()) => expected.push(body(number)),
            Err(StoreError::Unavailable) => failed += 1,
            Err(error) => panic!("{error}"),
        }
        // What failed is not there, and what is there can be read.
        assert_eq!(bodies(&store, key, &turn).await, expected, "{fault:?} {after}");
    }
    faults.clear();
    // The same store goes on when the disk does.
    store.commit(vec![entry(&turn, "end")]).await.unwrap();
    expected.push("end".to_owned());
    assert_eq!(bodies(&store, key, &turn).await, expected, "{fault:?} {after}");
    store.close().await;
    assert_eq!(bodies(&open(home.path()), key, &turn).await, expected, "{fault:?} {after}");
    failed
}

#[tokio::test]
async fn d3_a_write_that_fails_anywhere_fails_its_caller_and_no_later_one() {
    let faults = Faults::install();
    for fault in [Fault::NoSpace, Fault::WriteError] {
        let mut failed = 0;
        for after in 0..40 {
            failed += check(&faults, fault, after).await;
        }
        assert!(40 < failed, "{fault:?} failed {failed} commits");
    }
}

#[tokio::test]
async fn d3_a_turn_whose_end_could_not_be_written_does_not_seem_to_run_on() {
    let faults = Faults::install();
    let home = tempfile::tempdir().unwrap();
    let file = with_vfs(home.path(), faulty_vfs::NAME);
    let store = SqliteStore::open_file(file, settings()).unwrap().0;
    let key = scope("key");
    let (_, turn, changes) = conversation(key, "begin");
    store.commit(changes).await.unwrap();
    let status = async || store.turns(key, TurnKey::Id(turn.id.clone())).await.unwrap()[0].status;

    faults.plan(Fault::NoSpace, 0);
    let ended = TurnRow { status: TurnStatus::Finished, ..turn.clone() };
    let refused = store.commit(vec![Change::Turn(ended)]).await;
    assert_eq!(refused, Err(StoreError::Unavailable));
    // At once, and when the disk is back also there.
    assert_eq!(status().await, TurnStatus::Crashed);
    faults.clear();
    store.commit(conversation(key, "another").2).await.unwrap();

    let sql = "SELECT status FROM turns WHERE id = ?1";
    let connection = rusqlite::Connection::open(home.path().join("toolhand.db")).unwrap();
    let written: i64 = connection.query_row(sql, [turn.id.as_str()], |row| row.get(0)).unwrap();
    assert_eq!(written, 6);
}

#[tokio::test]
async fn d4_after_a_failed_sync_all_is_written_and_synced_again_before_the_next_commit() {
    let faults = Faults::install();
    let home = tempfile::tempdir().unwrap();
    let file = with_vfs(home.path(), faulty_vfs::NAME);
    let store = SqliteStore::open_file(file, settings()).unwrap().0;
    let key = scope("key");
    let (_, turn, changes) = conversation(key, "begin");
    store.commit(changes).await.unwrap();
    let log = home.path().join("toolhand.db-wal");

    // So much that the log is copied into the database, and the copy synced.
    faults.plan(Fault::SyncError, 0);
    let large = "x".repeat(5 << 20);
    store.commit(vec![entry(&turn, &large)]).await.unwrap();
    let refused = store.commit(vec![entry(&turn, "not kept")]).await;
    assert_eq!(refused, Err(StoreError::Unavailable));
    assert!(0 < std::fs::metadata(&log).unwrap().len(), "the log is the only whole copy");

    faults.clear();
    store.commit(vec![entry(&turn, "end")]).await.unwrap();
    let found = bodies(&store, key, &turn).await;
    assert_eq!(found.iter().map(String::len).collect::<Vec<_>>(), [5, 5 << 20, 3]);
    // Reading the database without its log shows that it was copied before.
    drop(store);
    let alone = tempfile::tempdir().unwrap();
    let to = alone.path().join("toolhand.db");
    std::fs::copy(home.path().join("toolhand.db"), &to).unwrap();
    let found = bodies(&open(alone.path()), key, &turn).await;
    assert!(found.iter().any(|body| body.len() == 5 << 20));
}
