//! Tests how the server starts, and how it explains why it does not.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;

use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::mount::Mount;
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;

const NOWHERE: &str = "http://127.0.0.1:1/v1";

/// Checks that a start is refused with one line that contains `named`.
fn check_refused(builder: Builder, named: &[&str]) {
    let (status, stdout, stderr) = builder.run();
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert_eq!(stdout, "");
    // Root gets warnings before it.
    let told: Vec<&str> = stderr.lines().filter(|line| !line.contains(" WARN ")).collect();
    assert_eq!(told.len(), 1, "one line: {stderr}");
    for named in named {
        assert!(told[0].contains(named), "{stderr} names {named}");
    }
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one() {
    let builder = Builder::new(NOWHERE).config("turns.max_round", "5");
    check_refused(builder, &["max_round", "max_rounds"]);
}

#[test]
fn a_value_of_the_wrong_type_is_named() {
    check_refused(Builder::new(NOWHERE).config("turns.max_rounds", "\"many\""), &["max_rounds"]);
    check_refused(Builder::new(NOWHERE).config("turns.keep_alive", "10"), &["keep_alive"]);
    check_refused(Builder::new(NOWHERE).config("upstream.url", "\"no url\""), &["upstream.url"]);
}

#[test]
fn a_rule_that_is_not_understood_is_an_error() {
    let rule = Builder::new(NOWHERE).config("permissions.deny", "[\"Read(../x)\"]");
    check_refused(rule, &["Read(../x)"]);
    let nobody = Builder::new(NOWHERE).config("permissions.deny", "[\"Bahs\"]");
    check_refused(nobody, &["Bahs"]);
}

#[test]
fn a_workspace_is_a_directory() {
    let builder = Builder::new(NOWHERE).argument("--workspace=/nowhere/at/all");
    check_refused(builder, &["/nowhere/at/all"]);
    let builder = Builder::new(NOWHERE).argument("--workspace=/etc/passwd");
    check_refused(builder, &["/etc/passwd"]);
}

#[test]
fn a_configuration_that_others_may_write_is_refused() {
    let builder = Builder::new(NOWHERE);
    let shared = builder.home().join("shared.toml");
    fs::write(&shared, "").expect("a file");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o666)).expect("our own");
    let argument = format!("--config={}", shared.display());
    check_refused(builder.argument(&argument), &["shared.toml"]);
}

/// Paths that are no regular files, each with the word that the error contains.
fn no_files(home: &Path) -> Vec<(&'static str, &'static str)> {
    mkfifoat(CWD, home.join("pipe"), Mode::RUSR | Mode::WUSR).expect("a pipe");
    fs::create_dir(home.join("directory")).expect("a directory");
    let _kept_by_its_name = UnixListener::bind(home.join("socket")).expect("a socket");
    symlink("/dev/zero", home.join("device")).expect("a link");
    symlink("pipe", home.join("link")).expect("a link");
    let large = fs::File::create(home.join("large")).expect("a file");
    large.set_len(64 << 30).expect("a hole");
    fs::set_permissions(home.join("large"), fs::Permissions::from_mode(0o600)).expect("our own");
    vec![
        ("pipe", "is not a regular file"),
        ("directory", "is not a regular file"),
        ("socket", "is not a regular file"),
        ("device", "is not a regular file"),
        ("link", "is not a regular file"),
        ("large", "is larger than"),
    ]
}

/// Makes the state directory before the server does.
fn state_dir(builder: &Builder) -> PathBuf {
    let state = builder.home().join("state");
    fs::create_dir(&state).expect("a directory");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("our own");
    state
}

#[test]
fn d5_a_state_directory_that_is_read_only_is_refused() {
    let builder = Builder::new(NOWHERE);
    let state = state_dir(&builder);
    let Some(_mount) = Mount::read_only(&state) else { return };

    check_refused(builder, &["/state", "cannot be written", "Read-only"]);
}

#[test]
fn x12_d5_a_file_that_is_none_is_named_and_nobody_waits_for_it() {
    for number in 0..6 {
        let path = |builder: &Builder| {
            let (name, reason) = no_files(builder.home())[number];
            (builder.home().join(name).display().to_string(), name, reason)
        };
        let builder = Builder::new(NOWHERE);
        let (file, name, reason) = path(&builder);
        check_refused(builder.argument(&format!("--config={file}")), &[name, reason]);

        for key in ["upstream.api_key_file", "upstream.ca_file"] {
            let builder = Builder::new(NOWHERE);
            let (file, name, reason) = path(&builder);
            check_refused(builder.config(key, &format!("{file:?}")), &[name, reason]);
        }
        let builder = Builder::new(NOWHERE);
        let (file, name, reason) = path(&builder);
        fs::rename(&file, state_dir(&builder).join("api-key")).expect("the same place");
        let builder = builder.environment("TOOLHAND_API_KEY", "");
        let named: &[&str] = match name {
            "device" | "link" | "socket" => &["api-key"],
            _ => &["api-key", reason],
        };
        check_refused(builder, named);
    }
}

#[test]
fn x12_a_client_key_has_eight_characters_or_more() {
    let builder = Builder::new(NOWHERE).environment("TOOLHAND_API_KEY", "sk-1234");
    check_refused(builder, &["TOOLHAND_API_KEY", "at least 8 characters"]);

    let builder = Builder::new(NOWHERE).environment("TOOLHAND_API_KEY", "");
    let state = state_dir(&builder);
    fs::write(state.join("api-key"), "sk-1234\n").expect("a file");
    fs::set_permissions(state.join("api-key"), fs::Permissions::from_mode(0o600)).expect("ours");
    check_refused(builder, &["api-key", "at least 8 characters"]);
}

#[test]
fn a_state_directory_is_ours_alone() {
    let builder = Builder::new(NOWHERE);
    let open = builder.home().join("open");
    fs::create_dir(&open).expect("a directory");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("our own");
    let argument = format!("--state-dir={}", open.display());
    check_refused(builder.argument(&argument), &["open"]);

    let builder = Builder::new(NOWHERE);
    let (real, link) = (builder.home().join("real"), builder.home().join("link"));
    fs::create_dir(&real).expect("a directory");
    symlink(&real, &link).expect("a link");
    let argument = format!("--state-dir={}", link.display());
    check_refused(builder.argument(&argument), &["link"]);
}

#[test]
fn no_key_is_for_loopback_only() {
    let builder = Builder::new(NOWHERE).argument("--no-auth").argument("--listen=0.0.0.0:0");
    check_refused(builder, &["loopback"]);
}

#[tokio::test]
async fn a_second_server_on_the_same_state_directory_names_the_first() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let argument = format!("--state-dir={}", server.state_dir().display());

    check_refused(Builder::new(NOWHERE).argument(&argument), &[&server.pid().to_string()]);
}

/// The log lines of this level at the server's start.
async fn said(builder: impl Fn() -> Builder, level: &str) -> Vec<String> {
    let mut server = builder().start().await;
    assert!(server.stop().expect("a status").success());
    let mark = format!(" {level} ");
    let log = server.log();
    log.lines().filter(|line| line.contains(&mark)).map(str::to_owned).collect()
}

#[tokio::test]
async fn what_is_dangerous_is_said_at_each_start() {
    let is_root = rustix::process::geteuid().is_root();
    let upstream = Upstream::start();
    let usual = || Server::builder(&upstream);
    let off = || usual().config("sandbox.mode", "\"off\"");

    let warnings = said(usual, "WARN").await;
    assert_eq!(warnings.len(), usize::from(is_root), "{warnings:?}");
    assert!(said(usual, "ERROR").await.is_empty());

    // Root gets an error instead of a warning, because nothing confines a command.
    let level = if is_root { "ERROR" } else { "WARN" };
    for builder in [&off as &dyn Fn() -> Builder, &|| usual().argument("--sandbox=off")] {
        let warnings = said(builder, level).await;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("the sandbox is off"), "{warnings:?}");
        assert_eq!(warnings[0].contains("root"), is_root, "{warnings:?}");
    }

    let open = said(|| usual().argument("--no-auth"), "WARN").await;
    assert!(open.iter().any(|line| line.contains("no client key")), "{open:?}");
    let within = || {
        let builder = usual();
        let home = format!("--workspace={}", builder.home().display());
        builder.argument(&home)
    };
    let within = said(within, "WARN").await;
    assert!(within.iter().any(|line| line.contains("toolhand.toml")), "{within:?}");
}

#[tokio::test]
async fn a_workspace_that_holds_too_much_is_said_at_each_start() {
    let upstream = Upstream::start();
    let at = |path: String| {
        let upstream = &upstream;
        move || Server::builder(upstream).argument(&format!("--workspace={path}"))
    };
    let root = said(at("/".to_owned()), "WARN").await;
    assert!(root.iter().any(|line| line.contains("the workspace is / ")), "{root:?}");

    let home = || {
        let builder = Server::builder(&upstream);
        let home = builder.home().display().to_string();
        // The same directory under another name.
        symlink(&home, builder.home().join("me")).expect("a link");
        builder.argument(&format!("--workspace={home}/me"))
    };
    let home = said(home, "WARN").await;
    assert!(home.iter().any(|line| line.contains("your home directory")), "{home:?}");

    let around = || {
        let builder = Server::builder(&upstream);
        let state = builder.workspace().join("deep/state").display().to_string();
        builder.argument(&format!("--state-dir={state}"))
    };
    let around = said(around, "WARN").await;
    assert!(around.iter().any(|line| line.contains("the state directory")), "{around:?}");
}

#[tokio::test]
async fn without_auth_no_key_is_needed() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).argument("--no-auth").start().await;
    assert_eq!(server.client().key(None).get("/v1/models").await.status(), 200);
}

#[tokio::test]
async fn the_first_key_is_made_once_and_only_its_path_is_told() {
    let upstream = Upstream::start();
    let mut server = Server::builder(&upstream).environment("TOOLHAND_API_KEY", "").start().await;
    let path = server.state_dir().join("api-key");
    let key = fs::read_to_string(&path).expect("the first key").trim().to_owned();
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    let mode = fs::metadata(server.state_dir()).expect("a directory").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    assert_eq!(server.client().key(Some(&key)).get("/v1/models").await.status(), 200);
    assert!(server.stop().expect("a status").success());
    assert!(server.log().contains("api-key") && !server.log().contains(&key), "{}", server.log());
}

/// A bubblewrap that hangs stands in for the machine's own, in a mount namespace.
#[tokio::test]
async fn trying_the_sandbox_delays_nothing_but_commands() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).config("approval.channel", r#""none""#);
    let home = builder.home().to_owned();
    let path = |name: &str| home.join(name).to_str().expect("UTF-8").to_owned();
    let [tried, gate, hanging, starter] = ["tried", "gate", "bwrap", "starter"].map(path);
    for pipe in [&tried, &gate] {
        mkfifoat(CWD, pipe.as_str(), Mode::RWXU).expect("a pipe");
    }
    let script = |path: &str, text: String| {
        fs::write(path, format!("#!/bin/bash\n{text}\n")).expect("a new file");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own");
    };
    script(&hanging, format!("echo >{tried}; read -r _ <{gate}; exit 1"));
    let hide = format!("mount --bind {hanging} /usr/bin/bwrap");
    let user = if rustix::process::geteuid().is_root() { "" } else { "--user --map-root-user" };
    let unshare = format!("unshare --mount {user} /bin/bash -c '{hide} && exec \"$0\" \"$@\"'");
    let mut can = std::process::Command::new("/bin/bash");
    if !can.args(["-c", &format!("{unshare} true")]).status().expect("a shell").success() {
        return;
    }
    script(&starter, format!("exec {unshare} {} \"$@\"", env!("CARGO_BIN_EXE_toolhand")));
    let server = builder.file("a.txt", "needle\n").program(Path::new(&starter)).start().await;
    tokio::task::spawn_blocking(move || fs::read(tried).expect("a pipe")).await.expect("tried");

    // Its trial is under way, and the rest of the server works.
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "a.txt" }))]));
    upstream.round(says("Read."));
    assert_eq!(server.client().chat(&ask("Read it.")).await.text(), "Read.");
    upstream.round(calls(&[("c2", "Bash", json!({ "command": "echo run" }))]));
    upstream.round(says("Run."));
    // Opened for both, so that it does not wait for a trial that has run out of time.
    let mut gate = fs::File::options().read(true).write(true).open(gate).expect("a pipe");
    gate.write_all(b"\n").expect("a pipe");
    assert_eq!(server.client().chat(&ask("Run it.")).await.text(), "Run.");
    let status = server.client().get("/toolhand/v1/status").await.json();
    let trials = status["sandbox"]["trials"].as_array().expect("trials");
    assert_eq!(trials[0]["level"], "bwrap", "{status}");
    assert_ne!(status["sandbox"]["level"], "bwrap", "{status}");
}
