//! Opens files that are damaged, foreign, newer or not ours.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use super::*;

fn database(home: &tempfile::TempDir) -> PathBuf {
    home.path().join("toolhand.db")
}

/// The files that were set aside.
fn set_aside(home: &tempfile::TempDir) -> Vec<String> {
    let entries = fs::read_dir(home.path()).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("toolhand.db.corrupt-")).collect()
}

/// A closed database with some conversations, and the scope they are in.
async fn filled() -> (tempfile::TempDir, Scope) {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    for _ in 0..40 {
        store.commit(conversation(scope("key"), &"x".repeat(500)).2).await.unwrap();
    }
    store.close().await;
    (home, scope("key"))
}

async fn count(store: &SqliteStore, scope: Scope) -> usize {
    store.sessions(scope, None, 100).await.unwrap().sessions.len()
}

#[tokio::test]
async fn the_files_are_ours_alone() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    store.commit(conversation(scope("key"), "x").2).await.unwrap();
    for name in ["toolhand.db", "toolhand.db-wal", "toolhand.db-shm"] {
        let mode = fs::metadata(home.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn d6_what_is_no_database_of_ours_is_set_aside() {
    let foreign = tempfile::tempdir().unwrap();
    let path = foreign.path().join("other.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE t (a); PRAGMA user_version = 99").unwrap();
    drop(other);
    for content in [Vec::new(), b"SQLite".to_vec(), vec![0xff; 9000], fs::read(&path).unwrap()] {
        let home = tempfile::tempdir().unwrap();
        fs::write(database(&home), &content).unwrap();
        fs::set_permissions(database(&home), fs::Permissions::from_mode(0o600)).unwrap();
        let store = open(home.path());
        store.commit(conversation(scope("key"), "x").2).await.unwrap();
        let kept = set_aside(&home);
        assert_eq!(kept.len(), 1);
        assert_eq!(fs::read(home.path().join(&kept[0])).unwrap(), content);
        // The new one is used from now on.
        store.close().await;
        assert_eq!(count(&open(home.path()), scope("key")).await, 1);
        assert_eq!(set_aside(&home).len(), 1);
    }
}

#[tokio::test]
async fn d2_d6_a_database_that_is_cut_anywhere_is_set_aside() {
    let (whole, key) = filled().await;
    let bytes = fs::read(database(&whole)).unwrap();
    for length in [1, 99, 100, 1000, 4096, 5000, bytes.len() / 2, bytes.len() - 1] {
        let home = tempfile::tempdir().unwrap();
        fs::write(database(&home), &bytes[..length]).unwrap();
        fs::set_permissions(database(&home), fs::Permissions::from_mode(0o600)).unwrap();
        let store = open(home.path());
        let outcome = (count(&store, key).await, set_aside(&home).len());
        // SQLite reads what is missing of the last page as zeros, which it may be.
        let is_whole = length == bytes.len() - 1 && outcome == (40, 0);
        assert!(is_whole || outcome == (0, 1), "{length} bytes: {outcome:?}");
    }
}

#[tokio::test]
async fn d6_a_flipped_bit_is_harmless_or_the_database_is_set_aside() {
    let (whole, key) = filled().await;
    let bytes = fs::read(database(&whole)).unwrap();
    let mut damaged = 0;
    for place in (0..bytes.len()).step_by(997).chain(0..100) {
        let home = tempfile::tempdir().unwrap();
        let mut bytes = bytes.clone();
        bytes[place] ^= 1 << (place % 8);
        fs::write(database(&home), &bytes).unwrap();
        fs::set_permissions(database(&home), fs::Permissions::from_mode(0o600)).unwrap();
        match SqliteStore::open(home.path(), settings()) {
            Ok((store, _)) => {
                // It serves, whatever of the old rows can be read.
                _ = store.sessions(key, None, 100).await;
                store.commit(conversation(key, "x").2).await.unwrap();
                damaged += set_aside(&home).len();
            }
            // A bit of the version makes it newer.
            Err(error) => assert!(error.to_string().contains("newer"), "{place}: {error}"),
        }
    }
    assert!(5 < damaged);
}

/// A log without its database belongs to none that comes later.
#[tokio::test]
async fn d2_a_torn_log_loses_its_torn_end_and_a_stray_one_is_set_aside() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let (_, turn, changes) = conversation(scope("key"), "kept");
    store.commit(changes).await.unwrap();
    store.commit(vec![entry(&turn, "torn")]).await.unwrap();
    let (cut, stray) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = fs::read(home.path().join("toolhand.db-wal")).unwrap();
    for (to, name, bytes) in [
        (&cut, "toolhand.db", fs::read(database(&home)).unwrap()),
        (&cut, "toolhand.db-wal", log[..log.len() - 5].to_vec()),
        (&stray, "toolhand.db-wal", log.clone()),
    ] {
        fs::write(to.path().join(name), bytes).unwrap();
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(to.path().join(name), mode).unwrap();
    }

    assert_eq!(bodies(&open(cut.path()), scope("key"), &turn).await, ["kept"]);
    assert_eq!(count(&open(stray.path()), scope("key")).await, 0);
    assert_eq!(set_aside(&stray).len(), 1);
}

#[tokio::test]
async fn an_older_database_gets_what_is_new() {
    let (home, key) = filled().await;
    let older = rusqlite::Connection::open(database(&home)).unwrap();
    older
        .execute_batch(
            "DROP INDEX sessions_by_prompt; ALTER TABLE sessions DROP COLUMN prompt;
             DROP TABLE prompts; PRAGMA user_version = 1;",
        )
        .unwrap();
    older.close().unwrap();

    let store = open(home.path());
    let row = SessionRow { prompt: Some("be brief".into()), ..session(key) };
    store.commit(vec![Change::Session(row.clone())]).await.unwrap();

    assert_eq!(count(&store, key).await, 41);
    let found = store.session(key, SessionKey::Id(row.id.clone())).await;
    assert_eq!(found.unwrap(), Some(row));
    assert!(set_aside(&home).is_empty());
}

#[tokio::test]
async fn d7_a_newer_database_is_refused_and_not_touched() {
    let (home, _) = filled().await;
    let other = rusqlite::Connection::open(database(&home)).unwrap();
    other.pragma_update(None, "user_version", schema::VERSION + 1).unwrap();
    other.close().unwrap();
    let before = fs::read(database(&home)).unwrap();

    let error = SqliteStore::open(home.path(), settings()).unwrap_err().to_string();

    let told = format!("was written by a newer toolhand (version {}", schema::VERSION + 1);
    assert!(error.contains(&told), "{error}");
    assert_eq!(error.lines().count(), 1);
    assert!(fs::read(database(&home)).unwrap() == before);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn d7_a_newer_version_that_only_the_log_holds_is_refused_as_well() {
    let (home, _) = filled().await;
    let other = rusqlite::Connection::open(database(&home)).unwrap();
    other.pragma_update(None, "user_version", schema::VERSION + 1).unwrap();
    // As if it was killed: the log is not copied.
    let killed = tempfile::tempdir().unwrap();
    for name in ["toolhand.db", "toolhand.db-wal"] {
        fs::copy(home.path().join(name), killed.path().join(name)).unwrap();
    }
    let log = fs::read(killed.path().join("toolhand.db-wal")).unwrap();

    let error = SqliteStore::open(killed.path(), settings()).unwrap_err().to_string();

    assert!(error.contains("newer"), "{error}");
    assert!(fs::read(killed.path().join("toolhand.db-wal")).unwrap() == log);
}

#[tokio::test]
async fn d7_a_database_whose_making_was_killed_half_way_is_made_again() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(".toolhand.db.new"), "half").unwrap();
    fs::write(home.path().join(".toolhand.db.new-journal"), "half").unwrap();

    let store = open(home.path());

    store.commit(conversation(scope("key"), "x").2).await.unwrap();
    assert!(!home.path().join(".toolhand.db.new").exists() && set_aside(&home).is_empty());
}

#[test]
fn d5_a_database_that_is_a_link_or_that_others_may_read_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let elsewhere = home.path().join("elsewhere");
    fs::write(&elsewhere, "precious").unwrap();
    symlink(&elsewhere, database(&home)).unwrap();
    let refused = || {
        let error = SqliteStore::open(home.path(), settings()).unwrap_err().to_string();
        error.rsplit_once("toolhand.db: ").unwrap().1.to_owned()
    };
    assert_eq!(refused(), "is a symbolic link; move it away");
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious");

    fs::remove_file(database(&home)).unwrap();
    fs::create_dir(database(&home)).unwrap();
    assert_eq!(refused(), "is not a regular file; move it away");

    fs::remove_dir(database(&home)).unwrap();
    fs::write(database(&home), "").unwrap();
    fs::set_permissions(database(&home), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(refused(), "others may read it (mode 644); chmod 600 it");
}

#[tokio::test]
async fn turns_that_ran_are_crashed_after_the_next_start_and_others_are_as_they_were() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let row = session(scope("key"));
    let statuses = [
        (TurnStatus::Running, TurnStatus::Crashed),
        (TurnStatus::AwaitsClient, TurnStatus::AwaitsClient),
        (TurnStatus::Suspended, TurnStatus::Suspended),
        (TurnStatus::Finished, TurnStatus::Finished),
        (TurnStatus::Failed, TurnStatus::Failed),
        (TurnStatus::Cancelled, TurnStatus::Cancelled),
    ];
    let turns = statuses.map(|(before, _)| TurnRow { status: before, ..turn(&row) });
    let changes = turns.iter().cloned().map(Change::Turn);
    store
        .commit([Change::Session(row.clone())].into_iter().chain(changes).collect())
        .await
        .unwrap();
    store.close().await;

    let found = open(home.path()).turns(scope("key"), TurnKey::Session(row.id)).await.unwrap();
    let found: Vec<_> = found.iter().rev().map(|turn| turn.status).collect();
    assert_eq!(found, statuses.map(|(_, after)| after));
}
