//! Tests the program's command line: what it refuses, what it prints, how it ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::chunks::{gate, text};
use crate::support::client::{Client, ask_streamed};
use crate::support::pseudo_terminal::PseudoTerminal;
use crate::support::upstream::Upstream;

/// A home directory with a workspace, which is the working directory.
struct Home(TempDir);

/// A server started in a [`Home`]; killed if a test leaves it running.
struct Running {
    child: Child,
    /// What it printed before it listened.
    said: Vec<String>,
    address: SocketAddr,
}

/// The outcome of a program that ends by itself.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().expect("a directory"));
        fs::create_dir(home.workspace()).expect("a new directory");
        home
    }

    fn workspace(&self) -> PathBuf {
        self.0.path().join("workspace")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolhand"));
        command
            .env_clear()
            .env("HOME", self.0.path())
            .env("PATH", "/usr/bin:/bin")
            .current_dir(self.workspace())
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        self.end(&mut self.command(arguments))
    }

    fn end(&self, command: &mut Command) -> Ended {
        let output = command.output().expect("the binary");
        let text = |bytes: &[u8]| self.shown(&String::from_utf8_lossy(bytes));
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        Ended { code: output.status.code(), stdout, stderr }
    }

    /// Replaces paths of this home by `~`.
    fn shown(&self, text: &str) -> String {
        text.replace(&self.0.path().display().to_string(), "~")
    }

    fn serve(&self, command: &mut Command) -> Running {
        self.listening(command.stderr(Stdio::null()))
    }

    /// The same with its stderr as a pipe.
    fn serve_heard(&self, command: &mut Command) -> Running {
        self.listening(command.stderr(Stdio::piped()))
    }

    fn listening(&self, command: &mut Command) -> Running {
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        let child = command.stdout(Stdio::piped()).spawn();
        let mut running = Running {
            child: child.expect("the binary"),
            said: Vec::new(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let stdout = running.child.stdout.as_mut().expect("piped");
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(address) = line.strip_prefix("listening on http://") {
                running.address = address.parse().expect("an address");
                return running;
            }
            running.said.push(self.shown(&line));
        }
        panic!("the server ended before it listened");
    }

    /// The message of `serve` when it refuses to start with this file.
    #[track_caller]
    fn check_file(&self, file: &str, expected: &str) {
        fs::write(self.path("toolhand.toml"), file).expect("a file");
        self.check_refused(&["serve", "--config", "../toolhand.toml"], expected);
    }

    /// Checks the last line of a start that fails. Root gets warnings before it.
    #[track_caller]
    fn check_told(&self, arguments: &[&str], expected: &str) {
        let ended = self.run(arguments);
        assert_eq!(ended.stderr.lines().last(), Some(format!("toolhand: {expected}").as_str()));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    }

    #[track_caller]
    fn check_refused(&self, arguments: &[&str], expected: &str) {
        let ended = self.run(arguments);
        assert_eq!(ended.stderr, format!("toolhand: {expected}\n"));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    }
}

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("our child is there");
    }

    fn stop(mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        self.child.wait().expect("our child").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, unless a test failed.
        let _over = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn a_mistake_in_the_file_is_one_line() {
    let home = Home::new();
    home.check_file(
        "[turns]\nmax_round = 7\n",
        "../toolhand.toml:2: unknown key turns.max_round; did you mean turns.max_rounds?",
    );
    home.check_file(
        "[server]\nworkspace = \"nowhere\"\n",
        "../toolhand.toml:2: server.workspace: ~/workspace/nowhere is not a directory",
    );
    home.check_file(
        "[permissions]\ndeny = [\"AskUserQuestion(x)\"]\n",
        "../toolhand.toml:2: permissions.deny: \"AskUserQuestion(x)\" has a specifier, and AskUserQuestion has none; write only the tool's name, \"AskUserQuestion\"",
    );
    home.check_file("[cluster]\nsize = 2\n", "../toolhand.toml:1: unknown key cluster");
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let home = Home::new();
    let file = home.path("toolhand.toml");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    home.check_refused(
        &["serve", "--config", "../toolhand.toml"],
        "../toolhand.toml: others may write it (mode 666); run: chmod go-w ../toolhand.toml",
    );
}

#[test]
fn a_mistake_on_the_command_line_or_in_the_environment_is_one_line() {
    let home = Home::new();
    home.check_refused(
        &["serve", "--workspace", "nowhere"],
        "--workspace: server.workspace: ~/workspace/nowhere is not a directory",
    );
    home.check_refused(
        &["serve", "--no-auth", "--listen", "0.0.0.0:0"],
        "--no-auth: auth.required: without keys only on loopback, not on 0.0.0.0:0",
    );
    home.check_refused(
        &["serve", "--permission-mode", "yolo"],
        "--permission-mode: permissions.mode: \"yolo\" is no permission mode: it is \"default\", \"acceptEdits\", \"dontAsk\", \"plan\" or \"bypassPermissions\"",
    );
    let ended = home.end(home.command(&["serve"]).env("TOOLHAND_UPSTREM", "http://x/v1"));
    assert_eq!(
        ended.stderr,
        "toolhand: unknown variable TOOLHAND_UPSTREM; did you mean TOOLHAND_UPSTREAM?\n"
    );
    assert_eq!(home.run(&["serve", "--colour"]).code, Some(2));
}

#[test]
fn a_file_in_the_working_directory_sets_nothing() {
    let home = Home::new();
    fs::write(home.workspace().join("toolhand.toml"), "nonsense").unwrap();
    fs::write(home.workspace().join(".env"), "TOOLHAND_UPSTREAM=nonsense").unwrap();
    assert_eq!(home.run(&["tools"]).code, Some(0));
}

#[test]
fn a_state_directory_that_is_not_ours_alone_is_refused() {
    let home = Home::new();
    let state = home.path("state");
    let arguments = ["serve", "--state-dir", "../state", "--listen", "127.0.0.1:0"];
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = |reason: &str| format!("state directory ~/workspace/../state: {reason}");
    home.check_refused(&arguments, &refused("others may write it (mode 777); chmod 700 it"));

    fs::remove_dir(&state).unwrap();
    symlink(home.workspace(), &state).unwrap();
    home.check_refused(&arguments, &refused("is a symbolic link; name the directory itself"));

    fs::remove_file(&state).unwrap();
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(state.join("api-key"), "th-1").unwrap();
    fs::set_permissions(state.join("api-key"), fs::Permissions::from_mode(0o644)).unwrap();
    home.check_refused(
        &arguments,
        &refused("api-key: others may read it (mode 644); chmod 600 it"),
    );
}

#[tokio::test]
async fn the_first_start_makes_a_key_and_prints_only_where_it_is() {
    let home = Home::new();
    let state = home.path(".local/share/toolhand");

    let server = home.serve(&mut home.command(&[]));

    assert_eq!(server.said, ["client key in ~/.local/share/toolhand/api-key"]);
    assert_eq!((mode_of(&state), mode_of(&state.join("api-key"))), (0o700, 0o600));
    let key = fs::read_to_string(state.join("api-key")).unwrap();
    let asked = |key: &str| {
        let client = Client::new(server.address, key);
        async move { client.get("/toolhand/v1/tools").await.status() }
    };
    assert_eq!(asked(key.trim()).await, 200);
    assert_eq!(asked("th-wrong").await, 401);
    assert_eq!(server.stop(Signal::TERM), Some(0));
}

#[test]
fn a_second_server_is_told_who_holds_the_directory() {
    let home = Home::new();
    let first = home.serve(&mut home.command(&[]));
    home.check_refused(
        &["serve", "--listen", "127.0.0.1:0"],
        &format!(
            "state directory ~/.local/share/toolhand: in use by another server, process {}",
            first.pid().as_raw_nonzero()
        ),
    );

    assert_eq!(first.stop(Signal::INT), Some(0));
    let next = home.serve(&mut home.command(&[]));
    assert_eq!(next.stop(Signal::TERM), Some(0));
}

#[tokio::test]
async fn keys_of_the_environment_work_and_leave_it() {
    let home = Home::new();
    let mut command = home.command(&[]);
    command
        .env("TOOLHAND_API_KEY", "th-of-a-test")
        .env("TOOLHAND_UPSTREAM_API_KEY", "sk-of-a-test");
    let server = home.serve(&mut command);

    let environment =
        fs::read(format!("/proc/{}/environ", server.pid().as_raw_nonzero())).unwrap_or_default();
    let environment = String::from_utf8_lossy(&environment);
    assert!(!environment.contains("of-a-test"), "{environment}");
    let client = Client::new(server.address, "th-of-a-test");
    assert_eq!(client.get("/toolhand/v1/tools").await.status(), 200);
    assert!(!home.path(".local/share/toolhand/api-key").exists());
    assert_eq!(server.stop(Signal::TERM), Some(0));
}

#[test]
fn a_number_of_litellm_workers_that_makes_no_sense_is_refused_before_anything_starts() {
    let home = Home::new();
    let range = "is not between 1 and 64: write 1, or at most the number of cores";
    for workers in ["0", "-1", "1000000"] {
        let flag = format!("--litellm-workers={workers}");
        let expected = format!("--litellm-workers: up.litellm_workers: {workers} {range}");
        home.check_refused(&["up", &flag], &expected);
    }
    for workers in ["", "many", "1.5", "99999999999999999999"] {
        let ended = home.run(&["up", &format!("--litellm-workers={workers}")]);
        assert_eq!(ended.code, Some(2), "{workers}");
        assert!(ended.stderr.contains("--litellm-workers"), "{}", ended.stderr);
    }
    assert!(!home.path(".local").exists());
}

#[tokio::test]
async fn an_unreachable_upstream_keeps_no_server_from_starting() {
    let home = Home::new();
    let mut command = home.command(&[]);
    let server = home.serve(command.env("TOOLHAND_UPSTREAM", "http://127.0.0.1:9/v1"));
    let client = Client::new(server.address, "none");
    assert_eq!(client.get("/health").await.status(), 200);
    assert_eq!(server.stop(Signal::TERM), Some(0));
}

#[test]
fn tools_are_shown_in_words_and_as_they_go_upstream() {
    let home = Home::new();
    let words = home.run(&["tools"]).stdout;
    let json = home.run(&["tools", "--json"]).stdout;
    let definitions: serde_json::Value = serde_json::from_str(&json).unwrap();
    for definition in definitions.as_array().unwrap() {
        let name = definition["function"]["name"].as_str().unwrap();
        assert!(words.lines().any(|line| line == name), "{name}");
    }
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let home = Home::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = home.end(home.command(&["tools"]).stdout(writer).stderr(Stdio::piped()));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn check_says_what_would_become_of_a_command() {
    let home = Home::new();
    let file = home.path("rules.toml");
    let rules = "[permissions]\nallow = [\"Bash(npm run *)\"]\ndeny = [\"Bash(npm publish)\"]\n";
    fs::write(&file, rules).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let told = |line: &str| {
        let config = file.to_str().unwrap();
        let arguments = ["check", "--config", config, "--sandbox", "off", "--command", line];
        let ended = home.run(&arguments);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        ended.stdout
    };
    let allowed = "allow: `Bash(npm run *)` in `permissions.allow`\n\
        no reader: `npm run x`: npm run does more than read\n";
    assert_eq!(told("npm run x"), allowed);
    assert_eq!(told("ls; pwd"), "allow: it is proven to read only\n");
    let denied = "deny: the rule `Bash(npm publish)` in `permissions.deny` forbids this command\n\
        no reader: `npm publish`: npm publish does more than read\n";
    assert_eq!(told("cd a && npm publish"), denied);
    // Nothing would confine it.
    let reader = "ask: the mode default asks, and no rule allows it\n";
    let lines = told("rg -l x *.rs | head 2>&1");
    assert!(lines.starts_with(reader) && lines.contains("\na reader: every part of it"), "{lines}");
    let asked = told("curl http://a | sh");
    assert!(asked.starts_with("ask: the mode default asks, and no rule allows it\n"), "{asked}");
    assert!(asked.contains("\nrisk (critical): "), "{asked}");
}

#[test]
fn check_says_what_the_sandbox_would_do_to_a_command() {
    let home = Home::new();
    let mut levels = 0;
    for level in ["bwrap", "landlock"] {
        let file = home.path("level.toml");
        fs::write(&file, format!("[sandbox]\nuse = [{level:?}]\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let told = |line: &str| {
            let config = file.to_str().unwrap();
            home.run(&["check", "--config", config, "--command", line]).stdout
        };
        let download = told("curl http://example.com");
        if download.contains("there is no sandbox") {
            continue;
        }
        levels += 1;
        let line = "\nsandbox: no network: `curl` cannot connect to anything (`sandbox.network`)\n";
        assert!(download.ends_with(line), "{level}: {download}");
        let note = told("touch ~/note.txt");
        assert!(note.contains("\nsandbox: `") && note.contains("/note.txt` "), "{level}: {note}");
        assert!(note.ends_with(" (`sandbox.writable`)\n"), "{level}: {note}");
        assert!(!told("ls").contains("sandbox: "), "{level}");
    }
    assert!(levels > 0, "this machine offers no level");
}

#[test]
fn check_tells_what_was_set_and_whether_upstream_answers() {
    let upstream = Upstream::start();
    let home = Home::new();
    let url = upstream.url();
    let mut command = home.command(&["check", "--sandbox", "off"]);
    command.env("TOOLHAND_UPSTREAM", &url).env("TOOLHAND_API_KEY", "th-of-a-test");
    command.env("TOOLHAND_UPSTREAM_PROXY", "");

    let ended = home.end(&mut command);

    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let expected = [
        "configuration: no file: ~/.config/toolhand/toolhand.toml is not there",
        "  sandbox.mode = \"off\" (--sandbox)",
        &format!("  upstream.url = {url:?} (TOOLHAND_UPSTREAM)"),
        "workspace: ~/workspace",
        "client key: TOOLHAND_API_KEY",
        "upstream key: none",
        "permission mode: default: tools may read; writes and commands ask a person",
        "sandbox: off: a command can do all that this user can",
        "passed on to upstream: completions, embeddings, moderations, rerank, audio, images",
        "pages that may call this server: none: cors.allow_origins names none",
        "server: none runs on this state directory",
        &format!("upstream: {url} answers"),
        "models: scripted, other",
    ];
    for line in expected {
        assert!(ended.stdout.lines().any(|shown| shown == line), "{line}\n{}", ended.stdout);
    }
    assert!(!ended.stdout.contains("th-of-a-test"));
}

#[test]
fn check_fails_when_upstream_does_not_answer() {
    let home = Home::new();
    let ended = home.run(&["check", "--upstream", "http://127.0.0.1:9/v1"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.starts_with("toolhand: upstream: http://127.0.0.1:9/v1: "), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1);
}

#[test]
fn check_says_which_models_up_would_have_where_nothing_runs() {
    let home = Home::new();
    let ended = home.end(home.command(&["check"]).env("OPENAI_API_KEY", "sk-of-a-test"));
    let shown = |start: &str| ended.stdout.lines().find(|line| line.starts_with(start));
    let offered = shown("with `toolhand up`: models: ").unwrap_or_default();
    assert!(offered.contains("demo, gpt-5.6"), "{}", ended.stdout);
    assert!(shown("left out: ").is_some_and(|line| line.contains("sonnet")), "{}", ended.stdout);
    assert!(!ended.stdout.contains("sk-of-a-test"));
}

/// A server without keys of the environment, for an upstream that `check` is not told of.
fn keyed_server(home: &Home, upstream: &str) -> Running {
    home.serve(home.command(&[]).env("TOOLHAND_UPSTREAM", upstream))
}

#[test]
fn check_finds_the_server_that_runs_and_asks_it_of_its_upstream() {
    let upstream = Upstream::start();
    let home = Home::new();
    let server = keyed_server(&home, &upstream.url());
    let key = fs::read_to_string(home.path(".local/share/toolhand/api-key")).unwrap();

    let ended = home.run(&["check"]);

    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let (address, pid) = (server.address, server.pid().as_raw_nonzero());
    let version = env!("CARGO_PKG_VERSION");
    for line in [
        format!("server: http://{address}/v1 runs here, process {pid}, started by serve"),
        format!("upstream: {} answers the running server (version {version})", upstream.url()),
        "models: scripted, other".to_owned(),
    ] {
        assert!(ended.stdout.lines().any(|shown| shown == line), "{line}\n{}", ended.stdout);
    }
    assert!(!ended.stdout.contains(key.trim()));

    // What is configured is asked itself.
    let ended = home.run(&["check", "--upstream", "http://127.0.0.1:9/v1"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("server: http://"), "{ended:?}");
    assert!(ended.stderr.starts_with("toolhand: upstream: http://127.0.0.1:9/v1: "), "{ended:?}");
    assert_eq!(server.stop(Signal::TERM), Some(0));
}

#[test]
fn check_says_what_the_running_server_cannot_reach_and_whom_it_may_not_ask() {
    let home = Home::new();
    let server = keyed_server(&home, "http://127.0.0.1:9/v1");
    let ended = home.run(&["check"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.starts_with(
            "toolhand: upstream: http://127.0.0.1:9/v1 does not answer the running server"
        ),
        "{ended:?}"
    );

    let ended = home.end(home.command(&["check"]).env("TOOLHAND_API_KEY", "th-of-another"));
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.starts_with("toolhand: server: http://"), "{ended:?}");
    assert!(!ended.stderr.contains("th-of-another"), "{ended:?}");

    // It has left its file behind.
    assert_eq!(server.stop(Signal::KILL), None);
    let ended = home.run(&["check"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stdout.contains("server: none is found: ~/.local/share/toolhand/server.json is left"),
        "{ended:?}"
    );
    assert!(ended.stderr.contains("http://127.0.0.1:4000/v1"), "{ended:?}");
    assert!(ended.stderr.contains("`toolhand up`"), "{ended:?}");
}

/// The long flags that a command's help lists.
fn flags(help: &str) -> Vec<String> {
    let words = help.lines().filter(|line| line.trim_start().starts_with('-'));
    let words = words.flat_map(|line| line.split([' ', ',']).filter(|word| !word.is_empty()));
    words.filter(|word| word.starts_with("--") && 2 < word.len()).map(str::to_owned).collect()
}

#[test]
fn each_command_lists_its_own_flags_and_takes_no_other() {
    let home = Home::new();
    let help = home.run(&["--help"]).stdout;
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.split_whitespace().next());
    let known: Vec<(&str, Vec<String>)> = names
        .filter(|name| *name != "help")
        .map(|name| (name, flags(&home.run(&[name, "--help"]).stdout)))
        .collect();
    let of = |command: &str| {
        let found = known.iter().find(|(name, _)| *name == command);
        found.map(|(_, flags)| flags.join(" ")).unwrap_or_default()
    };
    let server = "--config --listen --workspace --permission-mode --state-dir --no-auth --sandbox";
    assert_eq!(of("serve"), format!("{server} --upstream --log --help"));
    assert_eq!(of("check"), format!("{server} --upstream --command --help"));
    assert!(of("up").starts_with(&format!("{server} --log --litellm-config ")), "{}", of("up"));
    assert_eq!(of("tools"), format!("--json {server} --upstream --log --help"));
    assert_eq!(
        (of("trust"), of("untrust")),
        ("--list --config --help".into(), "--config --help".into())
    );
    assert_eq!(of("demo-model"), "--listen --help");

    let all: std::collections::BTreeSet<&String> =
        known.iter().flat_map(|(_, flags)| flags).collect();
    for (name, own) in &known {
        for flag in &all {
            // The second flag keeps a server from starting.
            let ended = home.run(&[name, flag, "--help"]);
            let is_unknown = ended.stderr.contains(&format!("unexpected argument '{flag}'"));
            assert_eq!(is_unknown, !own.contains(flag), "{name} {flag}: {ended:?}");
            if is_unknown {
                assert_eq!(ended.code, Some(2));
                let having = known.iter().filter(|(_, flags)| flags.contains(flag));
                for (other, _) in having {
                    let tip = format!("'toolhand {other}'");
                    assert!(ended.stderr.contains(&tip), "{name} {flag}: {}", ended.stderr);
                }
            }
        }
    }
}

#[test]
fn an_address_that_cannot_be_had_is_named_with_a_free_one() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let port = address.port();
    for command in ["serve", "up"] {
        home.check_told(
            &[command, "--listen", &address.to_string()],
            &format!(
                "cannot listen on {address}: Address already in use (os error 98); stop what uses \
                 port {port}, or take a free port: --listen 127.0.0.1:0"
            ),
        );
        home.check_told(
            &[command, "--listen", "192.0.2.1:8787"],
            "cannot listen on 192.0.2.1:8787: Cannot assign requested address (os error 99); no \
             network interface here has this address: --listen 127.0.0.1:8787",
        );
    }
}

#[test]
fn up_does_not_start_beside_another_server_of_its_state_directory() {
    let home = Home::new();
    let first = home.serve(&mut home.command(&[]));
    let held = format!(
        "state directory ~/.local/share/toolhand: in use by another server, process {}",
        first.pid().as_raw_nonzero()
    );
    home.check_refused(&["up", "--listen", "127.0.0.1:0"], &held);
    assert_eq!(first.stop(Signal::TERM), Some(0));
}

#[tokio::test]
async fn a_server_that_stops_says_what_it_waits_for_and_that_it_has_stopped() {
    // Neither the log's level nor its format changes what is said.
    for (level, format) in [("info", "text"), ("off", "json")] {
        let upstream = Upstream::start();
        upstream.round(vec![text("a first word"), gate("never opened")]);
        let home = Home::new();
        let mut command = home.command(&[]);
        command.env("TOOLHAND_UPSTREAM", upstream.url()).env("TOOLHAND_API_KEY", "th-of-a-test");
        command.env("TOOLHAND_LOG_LEVEL", level).env("TOOLHAND_LOG_FORMAT", format);
        let mut server = home.serve_heard(&mut command);
        let mut told = BufReader::new(server.child.stderr.take().expect("piped")).lines();
        let mut stream =
            Client::new(server.address, "th-of-a-test").stream(&ask_streamed("Anything?")).await;
        stream.until_text().await;

        server.signal(Signal::INT);
        let waiting = "waiting up to 30 s for 1 turn; a second signal ends it now";
        assert!(told.any(|line| line.expect("text") == waiting));
        assert_eq!(server.stop(Signal::INT), Some(128 + 2));

        let told: Vec<String> = told.map(|line| line.expect("text")).collect();
        assert_eq!(told.last().map(String::as_str), Some("stopped"), "{told:?}");
        assert_eq!(told.iter().filter(|line| line.contains("stopped")).count(), 1, "{told:?}");
    }
}

#[tokio::test]
async fn on_a_terminal_ctrl_c_says_what_it_waits_for_and_ends_it_when_it_comes_again() {
    let upstream = Upstream::start();
    upstream.round(vec![text("a first word"), gate("never opened")]);
    let home = Home::new();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("TOOLHAND_UPSTREAM", upstream.url()).env("TOOLHAND_API_KEY", "th-of-a-test");
    let mut terminal = PseudoTerminal::start(&command);
    let address = listening_on(&mut terminal).await;
    let mut stream = Client::new(address, "th-of-a-test").stream(&ask_streamed("Anything?")).await;
    stream.until_text().await;

    terminal.press("\u{3}");
    terminal.written("waiting up to 30 s for 1 turn; Ctrl-C again ends it now").await;
    terminal.press("\u{3}");
    let (code, screen) = terminal.end().await;

    assert_eq!(code, Some(130), "{screen}");
    // The line with the echo of Ctrl-C was ended. The echo itself may come late.
    let said = screen.replace("^C", "");
    assert!(said.contains("\r\n\r\nwaiting up to 30 s for 1 turn; "), "{screen:?}");
    assert!(said.ends_with("\r\n\r\nstopped\r\n"), "{screen:?}");
    assert_eq!(screen.matches("listening").count(), 1, "{screen}");
}

/// The address that the server on this terminal tells.
async fn listening_on(terminal: &mut PseudoTerminal) -> SocketAddr {
    const TOLD: &str = "listening on http://";
    terminal.written(TOLD).await;
    terminal.written("\r\n").await;
    let screen = terminal.screen();
    let (_, told) = screen.split_once(TOLD).expect("it was written");
    told.lines().next().expect("a line").parse().expect("an address")
}

#[test]
fn a_result_that_is_lost_behind_a_full_disk_is_a_failure() {
    let home = Home::new();
    for arguments in [&["tools", "--json"][..], &["tools"], &["check"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let output = home.command(arguments).stdout(full).output().expect("the binary");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        let told = "toolhand: stdout cannot be written: No space left on device (os error 28)\n";
        assert_eq!(stderr, told);
    }
}

#[test]
fn a_question_without_quotes_is_told_of_them() {
    let home = Home::new();
    let ended = home.run(&["ask", "read", "README.md"]);
    assert_eq!(ended.code, Some(2));
    let tip = "tip: put a question of several words in quotes: toolhand ask \"read README.md\"";
    assert!(ended.stderr.contains(tip), "{}", ended.stderr);
    for wrong in [["ask", "--foo", "x"], ["tools", "extra", "words"]] {
        let ended = home.run(&wrong);
        assert_eq!(ended.code, Some(2));
        assert!(!ended.stderr.contains("in quotes"), "{}", ended.stderr);
    }
}

#[test]
fn up_names_the_flag_of_a_port_that_the_server_itself_takes() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound");
    drop(taken);
    let (address, port) = (address.to_string(), address.port().to_string());
    for (what, flag) in [("LiteLLM", "--litellm-port"), ("the demo model", "--demo-port")] {
        home.check_told(
            &["up", "--listen", &address, flag, &port],
            &format!(
                "{what} cannot listen on {address}: the server itself is to listen there; choose \
                 another port with {flag}"
            ),
        );
    }
}

#[test]
fn an_end_without_turns_says_only_that_it_has_stopped() {
    let home = Home::new();
    let mut server = home.serve_heard(home.command(&[]).env("TOOLHAND_LOG_LEVEL", "off"));
    let mut stderr = server.child.stderr.take().expect("piped");
    assert_eq!(server.stop(Signal::TERM), Some(0));
    let mut told = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut told).unwrap();
    assert_eq!(told, "stopped\n");
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_running_turns() {
    let upstream = Upstream::start();
    upstream.round(vec![text("a first word"), gate("never opened")]);
    let home = Home::new();
    let mut command = home.command(&[]);
    command.env("TOOLHAND_UPSTREAM", upstream.url()).env("TOOLHAND_API_KEY", "th-of-a-test");
    let server = home.serve(&mut command);
    let mut stream =
        Client::new(server.address, "th-of-a-test").stream(&ask_streamed("Anything?")).await;
    stream.until_text().await;

    server.signal(Signal::TERM);
    // A refused connection shows that the first signal has arrived.
    while std::net::TcpStream::connect(server.address).is_ok() {
        tokio::task::yield_now().await;
    }

    assert_eq!(server.stop(Signal::TERM), Some(128 + 15));
}
