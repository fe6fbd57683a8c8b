//! Tests how `ask` finds the server and its key, and who gets the key.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Ask, asked};
use crate::support::chunks::says;
use crate::support::server::{KEY, Server};
use crate::support::upstream::Upstream;

/// The header of the last request to this upstream.
async fn authorization(upstream: &Upstream) -> Option<String> {
    let request = upstream.request(upstream.requests().len() - 1).await;
    request.head.header("authorization").map(str::to_owned)
}

/// A state directory without a server, with a key.
struct State(TempDir);

impl State {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let state = Self(home);
        fs::create_dir(state.path()).expect("a new directory");
        fs::set_permissions(state.path(), fs::Permissions::from_mode(0o700)).expect("our own");
        state.write("api-key", "th-key-of-the-state\n");
        state
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn file(&self) -> PathBuf {
        self.path().join("server.json")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our own");
    }
}

#[tokio::test]
async fn the_running_server_is_found_with_its_key_and_its_first_model() {
    let upstream = Upstream::start();
    // Without a key in the environment the server makes one.
    let server = Server::builder(&upstream).environment("TOOLHAND_API_KEY", "").start().await;
    let file = server.state_dir().join("server.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let written: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(written["address"], server.address().to_string());
    assert_eq!(written["process"]["pid"], server.pid().as_raw_nonzero().get());
    assert_eq!(written["started_by"], "serve");
    let key = fs::read_to_string(server.state_dir().join("api-key")).unwrap();
    assert!(!written.to_string().contains(key.trim()), "{written}");

    for named in [
        None,
        Some(server.address().to_string()),
        Some(format!("localhost:{}", server.address().port())),
    ] {
        upstream.round(says("Found."));
        let url = named.map(|address| format!("http://{address}"));
        let arguments = url.iter().flat_map(|url| ["--server", url]).chain(["Go."]);
        let ended = Ask::on(&server.state_dir(), &arguments.collect::<Vec<_>>()).run().await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Found."), "{ended:?}");
        let request = upstream.request(upstream.requests().len() - 1).await;
        assert_eq!(request.json()["model"], "scripted");
    }
}

#[tokio::test]
async fn the_configuration_file_tells_where_to_look() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let file = server.state_dir().with_file_name("client.toml");
    fs::write(
        &file,
        format!("[server]\nstate_dir = {:?}\nworkspace = \"/nowhere\"\n", server.state_dir()),
    )
    .unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    upstream.round(says("Found."));

    let mut ask = Ask::of(&server, &["Go."]);
    ask.0.env_remove("TOOLHAND_STATE_DIR").env("TOOLHAND_CONFIG", &file);
    let ended = ask.run().await;

    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Found."), "{ended:?}");
    assert_eq!(asked(&upstream).await, "Go.");
}

#[tokio::test]
async fn server_json_goes_with_the_server() {
    let upstream = Upstream::start();
    let mut server = Server::start(&upstream).await;
    let file = server.state_dir().join("server.json");
    let state = server.state_dir();
    assert!(file.exists());

    assert!(server.stop().unwrap().success());

    assert!(!file.exists());
    Ask::on(&state, &["Go."]).run().await.check_failed(6, "`toolhand up`");
}

#[tokio::test]
async fn a_killed_servers_file_leads_nowhere_and_is_replaced() {
    let upstream = Upstream::start();
    let mut server = Server::start(&upstream).await;
    let state = server.state_dir();
    kill_process(server.pid(), Signal::KILL).unwrap();
    assert!(!server.stop().unwrap().success());
    assert!(state.join("server.json").exists());
    Ask::on(&state, &["Go."]).run().await.check_failed(6, "which has ended");

    let next = Server::builder(&upstream).argument(&format!("--state-dir={}", state.display()));
    let next = next.start().await;
    upstream.round(says("Found."));
    let ended = Ask::on(&state, &["Go."]).variable("TOOLHAND_API_KEY", KEY).run().await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Found."), "{ended:?}");
    drop(next);
}

#[tokio::test]
async fn another_server_gets_no_key_from_the_state_directory() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).environment("TOOLHAND_API_KEY", "").start().await;
    let other = Upstream::start();
    let state = server.state_dir();
    let key_file = state.with_file_name("other-key");
    fs::write(&key_file, "th-key-of-the-other\n").unwrap();
    fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).unwrap();
    let ask = |arguments: &[&str]| {
        other.round(says("Other."));
        let url = other.url();
        Ask::on(&state, &[&["--server", &url, "-m", "m", "Go."], arguments].concat())
    };

    assert_eq!(ask(&[]).run().await.code, Some(0));
    assert_eq!(authorization(&other).await, None);

    let file = key_file.to_str().unwrap();
    assert_eq!(ask(&["--key-file", file]).run().await.code, Some(0));
    assert_eq!(authorization(&other).await.as_deref(), Some("Bearer th-key-of-the-other"));

    let with_variable = ask(&[]).variable("TOOLHAND_API_KEY", "th-key-of-the-user");
    assert_eq!(with_variable.run().await.code, Some(0));
    assert_eq!(authorization(&other).await.as_deref(), Some("Bearer th-key-of-the-user"));

    fs::set_permissions(&key_file, fs::Permissions::from_mode(0o644)).unwrap();
    let url = other.url();
    let ended = Ask::on(&state, &["--server", &url, "--key-file", file, "Go."]).run().await;
    ended.check_failed(1, "others may read it (mode 644)");
}

#[tokio::test]
async fn a_file_of_a_dead_process_sends_the_key_to_nobody() {
    let other = Upstream::start();
    let state = State::new();
    let process = |pid: u32, started: u64| json!({ "pid": pid, "started": started, "boot": "x" });
    // Our own number lives, but it is not the process that the file names.
    for process in [process(std::process::id(), 1), process(1, 1), process(4_000_000, 1)] {
        let server = json!({
            "address": other.address(), "process": process, "started_by": "serve",
        });
        state.write("server.json", &server.to_string());
        Ask::on(&state.path(), &["Go."]).run().await.check_failed(6, "which has ended");

        other.round(says("Other."));
        let ended =
            Ask::on(&state.path(), &["--server", &other.url(), "-m", "m", "Go."]).run().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(authorization(&other).await, None);
    }
}

/// Says that this test's own process is the server at `address`.
fn announced_by_us(address: SocketAddr, started_by: &Value) -> Value {
    let stat = fs::read_to_string("/proc/self/stat").expect("procfs");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let started = fields.split_whitespace().nth(19).and_then(|field| field.parse::<u64>().ok());
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("procfs");
    let process = json!({ "pid": std::process::id(), "started": started, "boot": boot.trim() });
    json!({ "address": address, "process": process, "started_by": started_by })
}

#[tokio::test]
async fn the_first_model_of_up_is_asked_with_the_key_of_the_state_directory() {
    let server = Upstream::start();
    let state = State::new();
    let up = json!({ "up": { "model": "first-of-up", "litellm": "http://127.0.0.1:1/v1" } });
    state.write("server.json", &announced_by_us(server.address(), &up).to_string());
    for (arguments, model) in [(&["Go."][..], "first-of-up"), (&["-m", "mine", "Go."], "mine")] {
        server.round(says("Found."));
        let ended = Ask::on(&state.path(), arguments).run().await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Found."), "{ended:?}");
        let request = server.request(server.requests().len() - 1).await;
        assert_eq!(request.json()["model"], model);
        assert_eq!(authorization(&server).await.as_deref(), Some("Bearer th-key-of-the-state"));
    }

    // The key must be ours alone, too.
    fs::set_permissions(state.path().join("api-key"), fs::Permissions::from_mode(0o644)).unwrap();
    Ask::on(&state.path(), &["Go."]).run().await.check_failed(1, "api-key: others may read it");
}

#[tokio::test]
async fn a_server_that_lives_and_does_not_answer_is_none() {
    let state = State::new();
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    state.write("server.json", &announced_by_us(address, &json!("serve")).to_string());
    Ask::on(&state.path(), &["Go."]).run().await.check_failed(6, "`toolhand up`");
}

#[tokio::test]
async fn a_file_that_is_none_of_ours_is_refused_and_waits_for_nobody() {
    let state = State::new();
    let check = async |reason: &str| {
        Ask::on(&state.path(), &["Go."]).run().await.check_failed(1, reason);
    };
    state.write("server.json", "\u{1b}[2J nonsense");
    check("server.json is damaged").await;
    state.write("server.json", &"[".repeat(1 << 20));
    check("is larger than 65536 bytes").await;
    state.write("server.json", &"[".repeat(60_000));
    check("server.json is damaged").await;
    fs::set_permissions(state.file(), fs::Permissions::from_mode(0o666)).unwrap();
    check("others may write it (mode 666)").await;
    // Only root can give a file away.
    if rustix::process::geteuid().is_root() {
        chown(state.file(), Some(65_534), None).unwrap();
        check("belongs to user 65534").await;
    }

    fs::remove_file(state.file()).unwrap();
    symlink("/etc/hostname", state.file()).unwrap();
    check("is a symbolic link").await;

    fs::remove_file(state.file()).unwrap();
    mkfifoat(CWD, state.file(), Mode::RWXU).unwrap();
    check("is not a regular file").await;

    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o777)).unwrap();
    check("others may write it (mode 777)").await;
}

#[tokio::test]
async fn without_a_server_up_is_named() {
    let state = State::new();
    Ask::on(&state.path(), &["Go."]).run().await.check_failed(6, "`toolhand up`");
    let nowhere = state.0.path().join("nowhere");
    Ask::on(&nowhere, &["Go."]).run().await.check_failed(6, "`toolhand up`");
    assert!(!nowhere.exists());
}
