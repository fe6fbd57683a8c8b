//! Starts servers over databases that are damaged, foreign, newer or no files at all, and with
//! clocks that were set.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;

use super::{after, assistant, conversation, told, user};
use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::disk::Disk;
use crate::support::seeded::SeededRandom;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::support::watch;

const DAY: i64 = 24 * 3600;

/// Bits that are flipped, one for each start.
const FLIPS: u64 = 30;

/// An ended server that knows one conversation.
async fn ended(upstream: &Upstream) -> Server {
    let mut server = Server::builder(upstream).file("notes.txt", "needle\n").start().await;
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(says("It says needle."));
    let client = server.client().header("x-toolhand-session", "mine");
    client.chat(&ask("Read.")).await;
    assert!(server.stop().expect("a status").success());
    server
}

fn database(server: &Server) -> PathBuf {
    server.state_dir().join("toolhand.db")
}

fn set_aside(server: &Server) -> Vec<PathBuf> {
    let entries = fs::read_dir(server.state_dir()).expect("our own").flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.to_string_lossy().contains(".corrupt-")).collect()
}

fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("our own directory");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("our own file");
}

async fn remembers(server: &Server) -> bool {
    match server.client().get("/toolhand/v1/sessions/mine").await.status() {
        200 => true,
        404 => false,
        status => panic!("{status}"),
    }
}

#[tokio::test]
async fn d6_a_database_that_is_none_is_set_aside_and_the_log_says_where() {
    let upstream = Upstream::start();
    let gone = ended(&upstream).await;
    let whole = fs::read(database(&gone)).expect("a database");
    let mut foreign = whole.clone();
    foreign[68..72].copy_from_slice(&[1, 2, 3, 4]);
    let mut torn = whole.clone();
    torn.truncate(whole.len() / 2);
    let zeros = vec![0; whole.len()];
    let text = b"not a database, but the notes of somebody".to_vec();
    for bytes in [Vec::new(), zeros, text, foreign, torn] {
        put(&database(&gone), &bytes);
        let mut server = after(&upstream, &gone).start().await;
        let kept = set_aside(&gone);
        assert_eq!(kept.len(), 1, "{} bytes", bytes.len());
        assert!(server.log().contains(&kept[0].display().to_string()), "{}", server.log());
        assert!(fs::read(&kept[0]).expect("the old one") == bytes, "it is kept as it was");
        assert!(!remembers(&server).await);
        upstream.round(says("Hello."));
        assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Hello.");
        assert!(server.stop().expect("a status").success());
        // The next start finds a good one.
        drop(after(&upstream, &gone).start().await);
        assert_eq!(set_aside(&gone).len(), 1);
        fs::remove_file(&kept[0]).expect("the old one");
    }
    put(&database(&gone), &whole);
    assert!(remembers(&after(&upstream, &gone).start().await).await);
}

#[tokio::test]
async fn d6_a_flipped_bit_never_keeps_the_server_from_serving() {
    let upstream = Upstream::start();
    let gone = ended(&upstream).await;
    let whole = fs::read(database(&gone)).expect("a database");
    upstream.otherwise(says("Hello."));
    let (mut remembered, mut fresh, mut refused) = (0, 0, 0);
    for seed in 0..FLIPS {
        let random = &mut SeededRandom::new(23, seed);
        let mut bytes = whole.clone();
        // The header decides most, and would be hit by one in a thousand.
        let is_header = random.happens(30);
        let place = random.below(if is_header { 100 } else { bytes.len() });
        bytes[place] ^= 1 << random.below(8);
        for path in set_aside(&gone) {
            fs::remove_file(path).expect("an old one");
        }
        for end in ["-wal", "-shm", ".suspect"] {
            _ = fs::remove_file(gone.state_dir().join(format!("toolhand.db{end}")));
        }
        put(&database(&gone), &bytes);
        if is_newer(&bytes) {
            let (status, _, stderr) = after(&upstream, &gone).run();
            assert_eq!(status.code(), Some(1), "{place}: {stderr}");
            assert!(stderr.contains("newer toolhand"), "{place}: {stderr}");
            refused += 1;
            continue;
        }
        let server = after(&upstream, &gone).start().await;
        let session = server.client().get("/toolhand/v1/sessions/mine").await.status();
        assert!([200, 404, 503].contains(&session), "{place}: {session}");
        assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Hello.", "{place}");
        let is_fresh = !set_aside(&gone).is_empty();
        (remembered, fresh) = (remembered + u64::from(!is_fresh), fresh + u64::from(is_fresh));
        assert!(!server.log().contains("panicked"), "{place}: {}", server.log());
    }
    assert!(0 < remembered && 0 < fresh, "{remembered} {fresh} {refused}");
    upstream.forget_script();
}

/// Whether the header has a version that could be a later one of ours.
fn is_newer(database: &[u8]) -> bool {
    let number = |at: usize| i32::from_be_bytes(database[at..at + 4].try_into().expect("four"));
    let is_ours = database.starts_with(b"SQLite format 3\0") && database[18..20] == [2, 2];
    is_ours && number(68) != 0 && (4..=1000).contains(&number(60))
}

#[tokio::test]
async fn d7_a_newer_database_is_refused_with_one_line_and_not_touched() {
    let upstream = Upstream::start();
    let gone = ended(&upstream).await;
    let mut newer = fs::read(database(&gone)).expect("a database");
    newer[60..64].copy_from_slice(&999_i32.to_be_bytes());
    put(&database(&gone), &newer);

    let (status, _, stderr) = after(&upstream, &gone).run();

    assert_eq!(status.code(), Some(1));
    let told: Vec<&str> = stderr.lines().filter(|line| !line.contains(" WARN ")).collect();
    assert_eq!(told.len(), 1, "{stderr}");
    assert!(told[0].contains("newer toolhand"), "{stderr}");
    assert!(fs::read(database(&gone)).expect("a database") == newer);
    assert!(set_aside(&gone).is_empty());
}

#[tokio::test]
async fn d5_what_stands_for_the_database_and_is_no_file_of_ours_is_refused_with_one_line() {
    let upstream = Upstream::start();
    let gone = ended(&upstream).await;
    let precious = gone.state_dir().with_file_name("precious.db");
    fs::rename(database(&gone), &precious).expect("our own");
    let before = fs::read(&precious).expect("a database");
    for name in ["toolhand.db", "toolhand.db-wal", "toolhand.db-shm"] {
        let path = gone.state_dir().join(name);
        let plants: [&dyn Fn(); 4] = [
            &|| symlink(&precious, &path).expect("a link"),
            &|| fs::create_dir(&path).expect("a directory"),
            &|| mkfifoat(CWD, &path, Mode::RWXU).expect("a pipe"),
            &|| {
                put(&path, b"");
                fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("our own");
            },
        ];
        for plant in plants {
            plant();
            let (status, _, stderr) = after(&upstream, &gone).run();
            assert_eq!(status.code(), Some(1), "{name}: {stderr}");
            let told: Vec<&str> = stderr.lines().filter(|line| !line.contains(" WARN ")).collect();
            assert!(told.len() == 1 && told[0].contains(name), "{stderr}");
            match fs::remove_file(&path) {
                Ok(()) => {}
                Err(_) => fs::remove_dir(&path).expect("a directory"),
            }
        }
    }
    assert!(fs::read(&precious).expect("a database") == before);
}

#[tokio::test]
async fn d2_logs_that_are_missing_torn_or_of_another_database_keep_nobody_from_serving() {
    let upstream = Upstream::start();
    let gone = ended(&upstream).await;
    let other = ended(&upstream).await;
    let whole = fs::read(database(&gone)).expect("a database");
    // What a killed server leaves: a log that is not copied.
    let mut killed = after(&upstream, &other).start().await;
    upstream.round(says("More."));
    killed.client().chat(&ask("More?")).await;
    rustix::process::kill_process(killed.pid(), rustix::process::Signal::KILL).expect("ours");
    killed.stop();
    let log = fs::read(other.state_dir().join("toolhand.db-wal")).expect("a log");
    let index = fs::read(other.state_dir().join("toolhand.db-shm")).expect("an index");
    upstream.otherwise(says("Hello."));
    let noise = vec![0xa5; 40_000];
    for (wal, shm) in [
        (None, Some(&noise)),
        (None, Some(&index)),
        (Some(&noise), None),
        (Some(&noise), Some(&noise)),
        (Some(&log), None),
        (Some(&log), Some(&index)),
    ] {
        put(&database(&gone), &whole);
        for (end, bytes) in [("-wal", wal), ("-shm", shm)] {
            let path = gone.state_dir().join(format!("toolhand.db{end}"));
            _ = fs::remove_file(&path);
            if let Some(bytes) = bytes {
                put(&path, bytes);
            }
        }
        let server = after(&upstream, &gone).start().await;
        let is_foreign_log = wal == Some(&log);
        assert!(is_foreign_log || remembers(&server).await, "{}", server.log());
        assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Hello.");
    }
    // Without its index a log is read all the same.
    fs::remove_file(other.state_dir().join("toolhand.db-shm")).expect("an index");
    let server = after(&upstream, &other).start().await;
    assert!(remembers(&server).await);
    upstream.forget_script();
}

#[tokio::test]
async fn d8_a_second_server_is_refused_and_the_first_goes_on() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let (status, _, stderr) = after(&upstream, &server).run();
    assert_eq!(status.code(), Some(1));
    let told: Vec<&str> = stderr.lines().filter(|line| !line.contains(" WARN ")).collect();
    assert!(told.len() == 1 && told[0].contains("state directory"), "{stderr}");
    upstream.round(says("Still here."));
    assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Still here.");
}

#[tokio::test]
async fn d8_without_its_lock_file_a_running_server_lets_no_second_one_in() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let lock = server.state_dir().join("lock");
    let own = fs::read_to_string(&lock).expect("the lock");
    // Whoever is named there, and whether it is there at all.
    for left in [None, Some(""), Some("1\n"), Some("4194304\n"), Some(own.as_str())] {
        fs::remove_file(&lock).expect("the lock");
        if let Some(text) = left {
            fs::write(&lock, text).expect("another lock");
        }
        let (status, told, stderr) = after(&upstream, &server).run();
        assert_eq!((status.code(), told.as_str()), (Some(1), ""), "{left:?}");
        let lines: Vec<&str> = stderr.lines().filter(|line| !line.contains(" WARN ")).collect();
        assert!(lines.len() == 1 && lines[0].contains("in use by another server"), "{stderr}");
        fs::write(&lock, &own).expect("the lock");
    }
    upstream.round(says("Still here."));
    assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Still here.");
}

#[tokio::test]
async fn d9_a_clock_that_was_set_loses_no_session_and_changes_no_order() {
    let upstream = Upstream::start();
    let disk = Disk::new();
    let mut home = disk.under(Server::builder(&upstream)).start().await;
    let list = |server: &Server| {
        let client = server.client();
        async move {
            let page = client.get("/toolhand/v1/sessions").await.json();
            let sessions = page["data"].as_array().expect("sessions").iter();
            sessions.map(|session| session["name"].as_str().expect("a name").to_owned()).collect()
        }
    };
    let use_it = async |server: &Server, name: &str| {
        upstream.round(says("Hello."));
        let client = server.client().header("x-toolhand-session", name);
        assert_eq!(client.chat(&ask("Hi")).await.text(), "Hello.");
    };
    use_it(&home, "today").await;
    home.stop();
    let mut expected = vec!["today".to_owned()];
    for (name, ahead) in [("yesterday", -DAY), ("next-year", 365 * DAY), ("again", 0)] {
        disk.set_clock(ahead);
        let server = disk.under(after(&upstream, &home)).start().await;
        use_it(&server, name).await;
        expected.insert(0, name.to_owned());
        let listed: Vec<String> = list(&server).await;
        assert_eq!(listed, expected, "{ahead}");
    }
}

#[tokio::test]
async fn d9_names_of_requests_and_approvals_end_by_the_clock_and_never_early() {
    let upstream = Upstream::start();
    let disk = Disk::new();
    let builder = |builder| disk.under(builder).argument("--sandbox=off");
    let mut home = builder(Server::builder(&upstream)).start().await;
    upstream.round(says("Once."));
    let named = |server: &Server| server.client().header("idempotency-key", "k");
    assert_eq!(named(&home).chat(&ask("Hi")).await.text(), "Once.");
    upstream.round(calls(&[("c1", "Bash", json!({ "command": "echo ran >> ran" }))]));
    let asked = home.client().chat(&conversation(&[user("Run it.")])).await.text();
    home.stop();

    disk.set_clock(-DAY);
    let mut server = builder(after(&upstream, &home)).start().await;
    assert_eq!(named(&server).chat(&ask("Hi")).await.text(), "Once.");
    let open = server.client().get("/toolhand/v1/approvals").await.json();
    assert_eq!(open["data"].as_array().map(Vec::len), Some(1));
    server.stop();

    disk.set_clock(365 * DAY);
    let server = builder(after(&upstream, &home)).start().await;
    upstream.round(says("Anew."));
    assert_eq!(named(&server).chat(&ask("Hi")).await.text(), "Anew.");
    let id = open["data"][0]["id"].as_str().expect("an id");
    let path = format!("/toolhand/v1/approvals/{id}");
    let allow = json!({ "decision": "allow" });
    let refused = server.client().post(&path, &allow).await.refusal();
    assert_eq!(refused, (409, "approval_closed".to_owned()));
    assert_eq!(server.client().get("/toolhand/v1/approvals").await.json()["data"], json!([]));
    // Consent that comes too late runs nothing.
    upstream.otherwise(says("Too late."));
    let reply = [user("Run it."), assistant(&asked), user("1")];
    assert_eq!(server.client().chat(&conversation(&reply)).await.status(), 200);
    assert!(!home.workspace().join("ran").exists());
    upstream.forget_script();
}

#[tokio::test]
async fn d11_what_was_unused_longest_is_forgotten_at_the_limit_and_the_rest_is_known() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("sessions.max_bytes", r#""1MiB""#).start().await;
    for number in 0..8 {
        upstream.round(says(&format!("{number} {}", "x".repeat(300_000))));
        let client = server.client().header("x-toolhand-session", &format!("s{number}"));
        assert_eq!(client.chat(&ask("Write.")).await.status(), 200);
    }
    let status = async |name: &str| {
        server.client().get(&format!("/toolhand/v1/sessions/{name}")).await.status()
    };
    while status("s0").await == 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(status("s7").await, 200);
    // Its name begins a new one.
    upstream.round(says("New."));
    let client = server.client().header("x-toolhand-session", "s0");
    assert_eq!(client.chat(&ask("Who are you?")).await.text(), "New.");
    assert_eq!(status("s0").await, 200);
}

#[tokio::test]
async fn d11_a_session_is_forgotten_when_it_was_unused_too_long() {
    let upstream = Upstream::start();
    let disk = Disk::new();
    let builder =
        |builder| disk.under(builder).config("sessions.retention", &format!("\"{}s\"", 2 * DAY));
    let mut home = builder(Server::builder(&upstream)).file("notes.txt", "needle\n").start().await;
    let use_it = async |server: &Server, name: &str| {
        upstream.round(says("Hello."));
        let client = server.client().header("x-toolhand-session", name);
        assert_eq!(client.chat(&ask("Hi")).await.text(), "Hello.");
    };
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))]));
    use_it(&home, "old").await;
    use_it(&home, "kept").await;
    home.stop();
    disk.set_clock(DAY);
    let mut server = builder(after(&upstream, &home)).start().await;
    use_it(&server, "kept").await;
    use_it(&server, "young").await;
    let status = async |server: &Server, name: &str| {
        server.client().get(&format!("/toolhand/v1/sessions/{name}")).await.status()
    };
    assert_eq!(status(&server, "old").await, 200, "its time is not over");
    server.stop();

    disk.set_clock(2 * DAY + 3600);
    let server = builder(after(&upstream, &home)).start().await;
    let forgotten = async {
        while status(&server, "old").await == 200 {
            tokio::task::yield_now().await;
        }
    };
    watch("the old session to be forgotten", forgotten).await;

    for name in ["kept", "young"] {
        assert_eq!(status(&server, name).await, 200, "{name}");
    }
    // What it knew is gone as well.
    upstream.round(says("Who are you?"));
    let client = server.client().header("x-toolhand-session", "old");
    let list = [user("Hi"), assistant("Hello."), user("What did you read?")];
    assert_eq!(client.chat(&conversation(&list)).await.text(), "Who are you?");
    let told = told(upstream.requests().last().expect("a request"));
    assert_eq!(told.len(), 3, "{told:?}");
}
