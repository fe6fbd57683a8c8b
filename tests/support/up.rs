//! Runs `toolhand up` with the real LiteLLM as a process.
//!
//! LiteLLM is installed once and kept under `target/`. Tests that run at the same time
//! share one chain, which ends with the last of them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::ops::Deref;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::client::Client;
use super::kept;
use super::processes::{children, family, is_supervisor, wait_for_end};
use super::pseudo_terminal::PseudoTerminal;

use crate::support::sync;

/// Enough for a new installation over a slow line on a busy machine.
const PATIENCE: Duration = Duration::from_secs(1_200);

/// A running chain. Dropping it stops it and checks that nothing is left.
#[derive(Debug)]
pub(crate) struct Up {
    child: Option<Child>,
    pub(crate) address: SocketAddr,
    pub(crate) litellm_port: u16,
    /// Everything that it printed before it listened.
    pub(crate) greeting: String,
    pub(crate) key: String,
    state: PathBuf,
    home: TempDir,
    log: Arc<Mutex<String>>,
}

/// The settings of a start.
#[derive(Debug)]
pub(crate) struct Builder {
    home: TempDir,
    state: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

/// A reference to the chain that tests share.
#[derive(Debug)]
pub(crate) struct Shared(Option<Arc<Up>>);

/// The shared chain and how many tests hold it. Locked while it starts and ends, because
/// the next one needs the same state directory.
static SHARED: Mutex<(usize, Option<Arc<Up>>)> = Mutex::new((0, None));

impl Shared {
    fn get() -> Self {
        let mut shared = sync::lock(&SHARED);
        let (holders, up) = &mut *shared;
        let up = up.get_or_insert_with(|| Arc::new(Builder::kept().free().start_telling()));
        *holders += 1;
        Self(Some(Arc::clone(up)))
    }
}

impl Deref for Shared {
    type Target = Up;

    fn deref(&self) -> &Up {
        self.0.as_ref().expect("it is held until the end")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut shared = sync::lock(&SHARED);
        let (holders, up) = &mut *shared;
        self.0 = None;
        *holders -= 1;
        if *holders == 0 {
            *up = None;
        }
    }
}

impl Up {
    /// The chain that tests share. Every tool may run in it.
    pub(crate) async fn shared() -> Shared {
        tokio::task::spawn_blocking(Shared::get).await.expect("up starts")
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.address, &self.key)
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.home.path().join("workspace")
    }

    /// The file with the key.
    pub(crate) fn key_path(&self) -> PathBuf {
        self.state.join("api-key")
    }

    /// Creates a file in the workspace.
    pub(crate) fn write(&self, name: &str, content: &str) {
        fs::write(self.workspace().join(name), content).expect("a new file");
    }

    pub(crate) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.workspace().join(name)).expect("a file of the workspace")
    }

    /// Its stderr so far.
    pub(crate) fn log(&self) -> String {
        sync::lock(&self.log).clone()
    }

    /// Sends `signal`, and waits until the chain and all its processes have ended.
    pub(crate) fn end(&mut self, signal: Signal) -> Option<ExitStatus> {
        let pid = Pid::from_child(self.child.as_ref()?);
        self.end_by(pid, signal)
    }

    /// Kills LiteLLM's first process, and waits until the chain and all its processes have
    /// ended.
    pub(crate) fn end_litellm(&mut self) -> Option<ExitStatus> {
        let up = Pid::from_child(self.child.as_ref()?);
        let [litellm] = started_by(up)[..] else { panic!("LiteLLM is the one child") };
        self.end_by(litellm, Signal::KILL)
    }

    fn end_by(&mut self, process: Pid, signal: Signal) -> Option<ExitStatus> {
        let litellm = self.litellm();
        let mut child = self.child.take()?;
        assert!(!litellm.is_empty(), "LiteLLM is a child");
        kill_process(process, signal).expect("our own process is there");
        let status = child.wait().expect("our child");
        litellm.into_iter().for_each(wait_for_end);
        Some(status)
    }

    /// Waits for a chain that has ended because LiteLLM did. `false`: it has not.
    pub(crate) fn has_lost_litellm(&mut self) -> bool {
        let has_lost = self.log().contains("LiteLLM ended");
        if has_lost && let Some(mut child) = self.child.take() {
            child.wait().expect("our child");
        }
        has_lost
    }

    /// The processes of LiteLLM: the child of `up`, and its workers.
    pub(crate) fn litellm(&self) -> Vec<Pid> {
        let Some(up) = self.child.as_ref().map(Pid::from_child) else { return Vec::new() };
        let own = started_by(up);
        let workers = own.iter().flat_map(|process| children(*process)).collect::<Vec<_>>();
        own.into_iter().chain(workers).collect()
    }
}

/// The children of `up` but the supervisors of its commands.
fn started_by(up: Pid) -> Vec<Pid> {
    children(up).into_iter().filter(|process| !is_supervisor(*process)).collect()
}

#[expect(clippy::print_stderr, reason = "the test harness captures it and shows it on failure")]
impl Drop for Up {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what up said ---\n{}", self.log());
            if let Some(child) = &mut self.child {
                let _killed = child.kill().and_then(|()| child.wait());
            }
            return;
        }
        if let Some(status) = self.end(Signal::TERM) {
            assert!(status.success(), "up ended with {status}:\n{}", self.log());
        }
    }
}

impl Builder {
    /// Uses the kept state directory, in which LiteLLM is installed.
    pub(crate) fn kept() -> Self {
        Self::with_state(kept("state"))
    }

    /// Uses a new state directory with the installation of the kept one.
    pub(crate) fn borrowing() -> Self {
        Self::borrowing_in("state")
    }

    /// The same with this name of the state directory.
    pub(crate) fn borrowing_in(name: &str) -> Self {
        let mut builder = Self::fresh();
        builder.state = builder.home.path().join(name);
        fs::create_dir_all(builder.state.join("litellm")).expect("a directory");
        fs::set_permissions(&builder.state, fs::Permissions::from_mode(0o700)).expect("our own");
        let venv = kept("state").join("litellm/venv");
        symlink(venv, builder.state.join("litellm/venv")).expect("a new link");
        builder
    }

    /// Uses an empty home directory.
    pub(crate) fn fresh() -> Self {
        let mut builder = Self::with_state(PathBuf::new());
        builder.state = builder.home.path().join("state");
        builder
    }

    fn with_state(state: PathBuf) -> Self {
        let home = tempfile::Builder::new().prefix("toolhand-up-").tempdir().expect("a directory");
        let workspace = home.path().join("workspace");
        fs::create_dir(&workspace).expect("a new directory");
        fs::write(workspace.join("README.md"), "# The quince project\n").expect("a new file");
        fs::write(workspace.join("notes.txt"), "the quince is ripe\n").expect("a new file");
        Self { home, state, arguments: Vec::new(), environment: Vec::new() }
    }

    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Uses this configuration.
    pub(crate) fn configured(self, toml: &str) -> Self {
        let path = self.home.path().join("toolhand.toml");
        fs::write(&path, toml).expect("a new file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our own");
        self.argument(&format!("--config={}", path.display()))
    }

    /// Uses this configuration of LiteLLM.
    pub(crate) fn with_litellm(self, yaml: &str) -> Self {
        let path = self.home.path().join("models.yaml");
        fs::write(&path, yaml).expect("a new file");
        self.argument(&format!("--litellm-config={}", path.display()))
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.home.path().join("workspace")
    }

    /// Allows every tool, commands included.
    pub(crate) fn free(self) -> Self {
        self.argument("--sandbox=off").argument("--permission-mode=bypassPermissions")
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    pub(crate) fn start(self) -> Up {
        let litellm_port = free_port();
        let port = litellm_port.to_string();
        let mut command = self.command();
        let mut child =
            command.args(["--litellm-port", &port]).spawn().expect("the server's binary");
        let log = Arc::new(Mutex::new(String::new()));
        collect(child.stderr.take().expect("piped"), Arc::clone(&log));
        let Some((greeting, address)) = listening(&mut child) else {
            let _killed = child.kill();
            let status = child.wait();
            panic!("up did not start: {status:?}\n{}", sync::lock(&log));
        };
        let key = fs::read_to_string(self.state.join("api-key")).expect("the first key");
        let key = key.trim().to_owned();
        let Self { home, state, .. } = self;
        Up { child: Some(child), address, litellm_port, greeting, key, state, home, log }
    }

    /// The same where other tasks go on meanwhile.
    pub(crate) async fn start_aside(self) -> Up {
        tokio::task::spawn_blocking(move || self.start()).await.expect("up starts")
    }

    /// Prints the progress of an installation of LiteLLM.
    fn start_telling(self) -> Up {
        let is_there = self.state.join("litellm/venv/.toolhand-installed").exists();
        let up = self.start();
        let log = up.log();
        for told in
            ["Installing LiteLLM", "fetching packages: 50 of", "  unpacking", "is installed."]
        {
            assert!(is_there || log.contains(told), "{told}: {log}");
        }
        up
    }

    /// Starts a chain on a terminal.
    pub(crate) fn start_on_terminal(&self) -> PseudoTerminal {
        PseudoTerminal::start(&self.command())
    }

    /// Runs a start that should fail: its status and stderr.
    pub(crate) fn run(&self) -> (ExitStatus, String) {
        let output = self.command().output().expect("the server's binary");
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Starts a chain and sends `signal` as soon as it prints `told`. Returns its status
    /// and stderr once it and all its processes have ended.
    pub(crate) fn interrupt(&self, signal: Signal, told: &str) -> (ExitStatus, String) {
        let mut child = self.command().spawn().expect("the server's binary");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut said = String::new();
        while !said.contains(told) {
            let read = stderr.read_line(&mut said).expect("text");
            assert!(read > 0, "it ended without saying {told:?}: {said}");
        }
        let pid = Pid::from_child(&child);
        let descendants = family(pid, self.home.path());
        assert!(descendants.len() > 1, "what installs is a child");
        kill_process(pid, signal).expect("our child is there");
        let status = child.wait().expect("our child");
        descendants.into_iter().for_each(wait_for_end);
        stderr.read_to_string(&mut said).expect("text");
        (status, said)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolhand"));
        command
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| is_ours(&name.to_string_lossy())))
            .env("XDG_CONFIG_HOME", self.home.path())
            .env("PIP_CACHE_DIR", kept("cache/pip"))
            .envs(self.environment.iter().cloned())
            .args(["up", "--listen", "127.0.0.1:0", "--workspace"])
            .arg(self.home.path().join("workspace"))
            .arg("--state-dir")
            .arg(&self.state)
            .args(&self.arguments)
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// The variables that an installation needs; provider keys are not among them.
fn is_ours(name: &str) -> bool {
    ["PATH", "HOME", "TMPDIR", "SSL_CERT_FILE"].contains(&name) || name.starts_with("PIP_")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

/// Reads up to the line with the address. Returns what was printed, and the address.
fn listening(child: &mut Child) -> Option<(String, SocketAddr)> {
    let stdout = child.stdout.take().expect("piped");
    let (told, telling) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let mut greeting = String::new();
        for line in lines.by_ref() {
            if let Some(address) = line.strip_prefix("listening on http://") {
                let _test_is_over = told.send((greeting, address.parse().expect("an address")));
                break;
            }
            greeting.push_str(&line);
            greeting.push('\n');
        }
        // Reads on, so that the server never writes into a closed pipe.
        lines.for_each(drop);
    });
    telling.recv_timeout(PATIENCE).ok()
}

fn collect(mut stderr: impl Read + Send + 'static, log: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = stderr.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..read]);
            sync::lock(&log).push_str(&text);
        }
    });
}
