//! Tests a server in the foreground of a terminal: what Ctrl-C and the terminal's end do to it and
//! to what it has started.
#![expect(clippy::disallowed_methods, reason = "each test awaits the tasks that it starts")]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::chunks::{calls, says};
use crate::support::client::{Client, ask};
use crate::support::processes::{family, group, wait_for_end};
use crate::support::pseudo_terminal::PseudoTerminal;
use crate::support::server::{Builder, KEY, Server};
use crate::support::upstream::Upstream;
use crate::support::watch;

const CTRL_C: &str = "\u{3}";
const CTRL_BACKSLASH: &str = "\u{1c}";

/// Tells that it runs, waits for a word, and ends by itself.
const WAITING: &str = "echo >started; read -r word <gate; echo it heard $word";

/// A server that was started on a terminal.
struct Foreground {
    terminal: PseudoTerminal,
    address: SocketAddr,
    home: TempDir,
}

impl Foreground {
    async fn start(builder: Builder) -> Self {
        for pipe in ["started", "gate"] {
            mkfifoat(CWD, builder.workspace().join(pipe), Mode::RWXU).expect("a pipe");
        }
        let (command, home) = builder.config("turns.shutdown_grace", r#""60s""#).into_command();
        let mut terminal = PseudoTerminal::start(&command);
        terminal.written("listening on http://").await;
        terminal.written("\n").await;
        let screen = terminal.screen();
        let line = screen.split("listening on http://").nth(1).expect("its line");
        let address = line.lines().next().and_then(|line| line.trim().parse().ok());
        Self { terminal, address: address.expect("an address"), home }
    }

    fn client(&self) -> Client {
        Client::new(self.address, KEY)
    }

    fn pipe(&self, name: &str) -> PathBuf {
        self.home.path().join("workspace").join(name)
    }

    /// Waits until the command runs.
    async fn command_runs(&self) {
        let path = self.pipe("started");
        let opened = tokio::task::spawn_blocking(move || {
            let mut byte = [0];
            File::open(path).and_then(|mut pipe| pipe.read_exact(&mut byte))
        });
        watch("the command to run", opened).await.expect("no panic").expect("a line");
    }

    /// Gives the command its word.
    async fn let_go(&self) {
        let path = self.pipe("gate");
        let written = tokio::task::spawn_blocking(move || {
            File::options().write(true).open(path).and_then(|mut pipe| pipe.write_all(b"you\n"))
        });
        watch("the command to listen", written).await.expect("no panic").expect("it lives");
    }

    /// The processes that the server has started.
    fn started(&self) -> Vec<Pid> {
        let server = self.terminal.pid();
        let mut family = family(server, self.home.path());
        family.retain(|process| *process != server);
        family
    }

    /// Waits until nothing runs of what the server has started.
    async fn nothing_is_left(home: TempDir, started: Vec<Pid>) {
        let ended = tokio::task::spawn_blocking(move || {
            let nobody = Pid::from_raw(i32::MAX).expect("a number");
            started.into_iter().chain(family(nobody, home.path())).for_each(wait_for_end);
        });
        watch("all that it started to end", ended).await.expect("no panic");
    }
}

/// Commands at each level of the sandbox.
fn at_level(upstream: &Upstream, level: &str) -> Builder {
    let builder = Server::builder(upstream).argument("--permission-mode=bypassPermissions");
    match level {
        "off" => builder.argument("--sandbox=off"),
        level => builder.config("sandbox.use", &json!([level]).to_string()),
    }
}

/// Whether commands of this server run at the level.
async fn runs_at(server: &Foreground, level: &str) -> bool {
    let status = server.client().get("/toolhand/v1/status").await.json();
    level == "off" || status["sandbox"]["level"] == level
}

fn bash(command: &str) -> Value {
    json!({ "command": command })
}

/// The word that the last request to upstream tells of its call.
fn answer(upstream: &Upstream) -> String {
    let body = upstream.requests().pop().expect("a request").json();
    let last = body["messages"].as_array().and_then(|messages| messages.last()).cloned();
    last.expect("a message")["content"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn p20_the_first_ctrl_c_leaves_commands_their_grace() {
    for level in ["bwrap", "landlock", "off"] {
        let upstream = Upstream::start();
        let mut server = Foreground::start(at_level(&upstream, level)).await;
        if !runs_at(&server, level).await {
            server.terminal.press(CTRL_C);
            server.terminal.end().await;
            continue;
        }
        upstream.round(calls(&[("c1", "Bash", bash(WAITING))]));
        upstream.round(says("Done."));
        let client = server.client();
        let turn = tokio::spawn(async move { client.chat(&ask("Wait.")).await });
        server.command_runs().await;

        server.terminal.press(CTRL_C);
        server.terminal.written("waiting up to").await;
        server.let_go().await;

        let answered = watch("the answer", turn).await.expect("no panic");
        assert_eq!(answered.text(), "Done.", "{level}");
        assert_eq!(answer(&upstream), "it heard you", "{level}");
        let (code, screen) = server.terminal.end().await;
        assert_eq!(code, Some(0), "{level}: {screen}");
        Foreground::nothing_is_left(server.home, Vec::new()).await;
    }
}

#[tokio::test]
async fn p20_the_second_ctrl_c_ends_commands_and_server_at_once() {
    for level in ["bwrap", "landlock", "off"] {
        let upstream = Upstream::start();
        let mut server = Foreground::start(at_level(&upstream, level)).await;
        upstream.round(calls(&[("c1", "Bash", bash(WAITING))]));
        let client = server.client();
        let turn = tokio::spawn(async move { client.try_chat(&ask("Wait.")).await });
        server.command_runs().await;
        let started = server.started();

        server.terminal.press(CTRL_C);
        server.terminal.written("waiting up to").await;
        server.terminal.press(CTRL_C);

        let (code, screen) = server.terminal.end().await;
        assert_eq!(code, Some(130), "{level}: {screen}");
        turn.abort();
        Foreground::nothing_is_left(server.home, started).await;
    }
}

/// Whatever a terminal sends, it sends to the process group in its foreground.
#[tokio::test]
async fn p20_nothing_that_a_server_starts_is_in_its_process_group() {
    for level in ["bwrap", "landlock", "off"] {
        let upstream = Upstream::start();
        let script = json!({ "tools": [{
            "name": "do", "description": "Does it.", "inputSchema": { "type": "object" },
        }] });
        let hook = "\n[[hooks]]\nevent = \"PreToolUse\"\nmatcher = \"Bash\"\n\
                    command = \"echo >hooked; read -r word <hook-gate\"\n";
        let arguments = json!(["server.py", script.to_string()]);
        let servers =
            format!("[mcp.servers.s]\ncommand = \"/usr/bin/python3\"\nargs = {arguments}\n{hook}");
        let builder = at_level(&upstream, level)
            .config("mcp.first_turn_wait", r#""60s""#)
            .file("server.py", include_str!("../mcp/server.py"))
            .tables(&servers);
        for pipe in ["hooked", "hook-gate"] {
            mkfifoat(CWD, builder.workspace().join(pipe), Mode::RWXU).expect("a pipe");
        }
        let mut server = Foreground::start(builder).await;
        upstream.round(calls(&[("c1", "Bash", bash(WAITING))]));
        upstream.round(says("Done."));
        let client = server.client();
        let turn = tokio::spawn(async move { client.chat(&ask("Wait.")).await });
        let hooked = server.pipe("hooked");
        let hooked = tokio::task::spawn_blocking(move || fs::read(hooked));
        watch("the hook", hooked).await.expect("no panic").expect("a pipe");
        outside_of_its_group(&server, level);
        let gate = server.pipe("hook-gate");
        let opened = tokio::task::spawn_blocking(move || fs::write(gate, "go\n"));
        watch("the hook to listen", opened).await.expect("no panic").expect("a pipe");
        server.command_runs().await;
        outside_of_its_group(&server, level);
        server.let_go().await;
        watch("the answer", turn).await.expect("no panic");
        server.terminal.press(CTRL_C);
        assert_eq!(server.terminal.end().await.0, Some(0), "{level}");
    }
}

#[track_caller]
fn outside_of_its_group(server: &Foreground, level: &str) {
    let own = group(server.terminal.pid());
    let started = server.started();
    // An MCP server and a command or a hook, each below a supervisor.
    assert!(started.len() >= 4, "{level}: {started:?}");
    for process in started {
        let line = fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero()));
        let line = String::from_utf8_lossy(&line.unwrap_or_default()).replace('\0', " ");
        assert_ne!(group(process), own, "{level}: {line}");
    }
}

#[tokio::test]
async fn p20_ctrl_backslash_kills_the_server_and_leaves_nothing() {
    let upstream = Upstream::start();
    let mut server = Foreground::start(at_level(&upstream, "bwrap")).await;
    upstream.round(calls(&[("c1", "Bash", bash(WAITING))]));
    let client = server.client();
    let turn = tokio::spawn(async move { client.try_chat(&ask("Wait.")).await });
    server.command_runs().await;
    let started = server.started();

    server.terminal.press(CTRL_BACKSLASH);

    let (code, screen) = server.terminal.end().await;
    assert_eq!(code, None, "{screen}");
    turn.abort();
    Foreground::nothing_is_left(server.home, started).await;
}

#[tokio::test]
async fn a_terminal_that_closes_stops_a_server_like_ctrl_c() {
    let upstream = Upstream::start();
    let mut server =
        Server::builder(&upstream).free().config("turns.shutdown_grace", r#""60s""#).start().await;
    for pipe in ["started", "gate"] {
        mkfifoat(CWD, server.workspace().join(pipe), Mode::RWXU).expect("a pipe");
    }
    upstream.round(calls(&[("c1", "Bash", bash(WAITING))]));
    upstream.round(says("Done."));
    let client = server.client();
    let turn = tokio::spawn(async move { client.chat(&ask("Wait.")).await });
    let started = server.workspace().join("started");
    let started = tokio::task::spawn_blocking(move || fs::read(started));
    watch("the command to run", started).await.expect("no panic").expect("a pipe");

    server.hang_up();
    server.logged("waiting up to", 1).await;
    fs::write(server.workspace().join("gate"), "you\n").expect("a pipe");

    assert_eq!(watch("the answer", turn).await.expect("no panic").text(), "Done.");
    assert_eq!(answer(&upstream), "it heard you");
    assert!(server.stop().expect("a status").success());
}

#[tokio::test]
async fn a_server_that_nohup_started_outlives_its_terminal() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream);
    let starter = builder.home().join("starter");
    let program = env!("CARGO_BIN_EXE_toolhand");
    make_script(&starter, &format!("trap '' HUP; exec {program} \"$@\""));
    let server = builder.program(&starter).start().await;

    kill_process(server.pid(), Signal::HUP).expect("our child");

    upstream.round(says("Still here."));
    assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Still here.");
}

fn make_script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("a new file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own");
}
