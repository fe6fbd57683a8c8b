//! Writes, reads and removes the files of sessions in a temporary state directory.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::test_support::session_files;
use super::*;

const PLENTY: u64 = 1 << 20;

fn written(files: &Arc<SessionFiles>, stem: &str, bytes: usize, age: u64) -> PathBuf {
    let mut made = files.create(stem, bytes as u64).unwrap();
    made.file.write_all(&vec![b'x'; bytes]).unwrap();
    made.file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    made.path.clone()
}

#[test]
fn a_file_is_for_nobody_else_and_read_again_by_its_path() {
    let home = TempDir::new().unwrap();
    let files = session_files(home.path(), PLENTY);
    let mut made = files.create("bash_1", 0).unwrap();
    made.file.write_all(b"text").unwrap();

    let mode_of = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode_of(&made.path), 0o600);
    for directory in made.path.ancestors().skip(1).take(3) {
        assert_eq!(mode_of(directory), 0o700, "{}", directory.display());
    }
    let mut text = String::new();
    files.open(&made.path).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");
    assert_eq!(files.create("bash_1", 0).unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[test]
fn only_names_that_the_server_gives_in_this_session_are_its_own() {
    let home = TempDir::new().unwrap();
    let files = session_files(home.path(), PLENTY);
    let other = session_files(home.path(), PLENTY);
    let directory = outputs_path(&files.state_dir, &files.session);

    assert!(files.is_own(&directory.join("bash_1.txt")));
    assert!(!other.is_own(&directory.join("bash_1.txt")));
    for name in ["", ".txt", "a", "../plan.txt", "a/b.txt", "./../output/a.txt", "ü.txt"] {
        assert!(!files.is_own(&directory.join(name)), "{name}");
    }
    assert!(files.create("../a", 0).is_err());
}

#[test]
fn the_oldest_goes_first_and_reading_it_says_so() {
    let home = TempDir::new().unwrap();
    let files = session_files(home.path(), 100);
    let (newer, oldest) = (written(&files, "newer", 40, 10), written(&files, "oldest", 40, 20));
    let growing = files.create("growing", 0).unwrap();
    (&growing.file).write_all(&[b'x'; 20]).unwrap();
    growing.file.set_modified(SystemTime::now() - Duration::from_secs(30)).unwrap();

    let newest = written(&files, "newest", 40, 0);

    let error = files.open(&oldest).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("is no longer kept"), "{error}");
    for path in [&newer, &growing.path, &newest] {
        assert!(files.open(path).is_ok(), "{}", path.display());
    }
    // One that is larger than all may be is kept while it is the newest.
    let large = written(&files, "large", 200, 0);
    assert!(files.open(&large).is_ok() && files.open(&newest).is_err());
    assert!(files.open(&growing.path).is_ok());
}

#[test]
fn life_6c_files_count_while_they_grow_and_the_others_make_room() {
    let home = TempDir::new().unwrap();
    let files = session_files(home.path(), 100);
    let old = written(&files, "old", 30, 10);
    let (one, two) = (files.create("one", 0).unwrap(), files.create("two", 0).unwrap());
    assert_eq!(one.make_room(60).unwrap(), 60);
    assert!(files.open(&old).is_ok());
    // Nothing of it is written yet, and it counts.
    assert_eq!(two.make_room(40).unwrap(), 40);
    assert!(files.open(&old).is_err());
    assert_eq!((one.make_room(1).unwrap(), two.make_room(1).unwrap()), (0, 0));
    (&one.file).write_all(&[b'x'; 60]).unwrap();
    let path = one.path.clone();
    drop(one);
    assert_eq!(two.make_room(50).unwrap(), 50);
    assert!(files.open(&path).is_err(), "it grows no more");
}

#[test]
fn p18_what_takes_a_files_place_is_not_read() {
    let home = TempDir::new().unwrap();
    let files = session_files(home.path(), PLENTY);
    let secret = home.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let path = written(&files, "bash_1", 4, 0);

    fs::remove_file(&path).unwrap();
    symlink(&secret, &path).unwrap();
    assert!(files.open(&path).is_err());
    fs::remove_file(&path).unwrap();
    fs::hard_link(&secret, &path).unwrap();
    let error = files.open(&path).unwrap_err();
    assert!(error.to_string().contains("is not the file that the server wrote"), "{error}");
    fs::remove_file(&path).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    assert!(files.open(&path).is_err());
}

#[test]
fn p18_a_directory_that_is_a_link_is_not_written_to_and_one_that_is_gone_is_made() {
    let home = TempDir::new().unwrap();
    let files = session_files(home.path(), PLENTY);
    let path = written(&files, "one", 4, 0);
    let directory = path.parent().unwrap();
    let elsewhere = home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();

    fs::rename(directory, elsewhere.join("moved")).unwrap();
    symlink(&elsewhere, directory).unwrap();
    assert!(files.create("two", 0).is_err() && files.open(&path).is_err());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);

    fs::remove_file(directory).unwrap();
    assert_eq!(files.open(&path).unwrap_err().kind(), ErrorKind::NotFound);
    written(&files, "two", 4, 0);
    fs::remove_dir_all(directory.parent().unwrap()).unwrap();
    written(&files, "three", 4, 0);
}

#[test]
fn all_turns_of_a_session_share_its_files() {
    let home = TempDir::new().unwrap();
    let directories = SessionDirectories::new(home.path(), PLENTY);
    let session = SessionId::random();

    let files = directories.files_of(&session);
    assert!(Arc::ptr_eq(&files, &directories.files_of(&session)));
    assert!(!Arc::ptr_eq(&files, &directories.files_of(&SessionId::random())));
}

#[test]
fn directories_of_unknown_sessions_are_removed() {
    let home = TempDir::new().unwrap();
    remove_orphans(home.path(), &HashSet::new()).unwrap();
    let (known, unknown) = (SessionId::random(), SessionId::random());
    let sessions = home.path().join("sessions");
    for name in [known.as_str(), unknown.as_str(), "notes"] {
        fs::create_dir_all(sessions.join(name).join("output")).unwrap();
    }

    remove_orphans(home.path(), &HashSet::from([known.clone()])).unwrap();

    let mut left: Vec<_> =
        fs::read_dir(&sessions).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["notes", known.as_str()]);
}

#[test]
fn a_text_is_kept_once_and_whole() {
    let state_dir = tempfile::tempdir().unwrap();
    let files = session_files(state_dir.path(), 100);
    let path = files.keep("one", &"x".repeat(40)).unwrap();
    files.keep("two", &"y".repeat(40)).unwrap();
    for (stem, age) in [("one", 100), ("two", 50)] {
        let file = files.open(&files.path_of_name(&format!("{stem}.txt"))).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }
    assert_eq!(files.keep("one", &"x".repeat(40)).unwrap(), path, "it needs no more room");
    assert!(files.open(&files.path_of_name("two.txt")).is_ok());
    files.keep("three", &"z".repeat(40)).unwrap();
    assert!(files.open(&files.path_of_name("two.txt")).is_err(), "kept longest ago");

    // What a killed server has left is written anew.
    fs::write(&path, "xx").unwrap();
    assert_eq!(files.keep("one", &"x".repeat(40)).unwrap(), path);
    assert_eq!(fs::read_to_string(&path).unwrap(), "x".repeat(40));
    let too_long = files.keep("four", &"x".repeat(101)).unwrap_err();
    assert_eq!(too_long.to_string(), "it is longer than tools.spill_bytes");
}

#[test]
fn the_same_text_can_be_kept_by_many_at_once() {
    let state_dir = tempfile::tempdir().unwrap();
    let files = session_files(state_dir.path(), 100 << 20);
    let text = "x".repeat(4 << 20);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| files.keep("same", &text).unwrap());
        }
    });
    assert_eq!(fs::metadata(files.path_of_name("same.txt")).unwrap().len(), 4 << 20);
}

#[test]
fn what_is_no_text_is_kept_once_beside_the_texts() {
    let home = TempDir::new().unwrap();
    let files = session_files(home.path(), PLENTY);
    let path = files.keep_bytes("one", &[0, 255, 7]).unwrap();
    assert_eq!(files.keep_bytes("one", &[0, 255, 7]).unwrap(), path);
    assert_ne!(files.keep("one", "text").unwrap(), path);
    let mut bytes = Vec::new();
    files.open(&path).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [0, 255, 7]);
    assert!(files.is_own(&path) && !files.is_own(&path.with_extension("wav")));
}
