//! Runs the real server as a process, with directories, a configuration and a key for one
//! test. Checks on drop that nothing of it is left.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::sync::{oneshot, watch as notice};

use super::client::Client;
use super::processes::{
    children, family, is_of_command, is_spare_supervisor, is_sweeper, wait_for_end,
    wait_for_end_or_spare,
};
use super::upstream::Upstream;
use super::watch;

use crate::support::sync;

/// The client key of every test server.
pub(crate) const KEY: &str = "sk-test-of-the-door";

/// How long a server may take to stop. After that it is killed and the test fails.
const STOPPING: Duration = Duration::from_secs(40);

/// The settings of a start.
#[derive(Debug)]
pub(crate) struct Builder {
    home: TempDir,
    settings: Vec<(String, String)>,
    tables: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    open_files: Option<u32>,
    /// A program that is started instead of the server, and starts it.
    starter: Option<PathBuf>,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    home: TempDir,
    child: Option<Child>,
    /// Whether a signal was sent that stops it: a second one would end the server at once.
    told_to_stop: AtomicBool,
    address: SocketAddr,
    log: Arc<Log>,
    reading: Option<JoinHandle<()>>,
}

/// What the server writes to stderr.
#[derive(Debug)]
struct Log {
    text: Mutex<String>,
    grown: notice::Sender<()>,
}

impl Server {
    /// Starts a server with the default settings of [`Builder`].
    pub(crate) async fn start(upstream: &Upstream) -> Self {
        Self::builder(upstream).start().await
    }

    pub(crate) fn builder(upstream: &Upstream) -> Builder {
        Builder::new(&upstream.url())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client with the right key.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.address, KEY)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        workspace(&self.home)
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// The contents of a file in the workspace.
    pub(crate) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.workspace().join(name)).expect("a file of the workspace")
    }

    pub(crate) fn pid(&self) -> Pid {
        pid(self.child.as_ref().expect("a running server"))
    }

    /// Its stderr so far.
    pub(crate) fn log(&self) -> String {
        sync::lock(&self.log.text).clone()
    }

    /// Waits until the log contains `words` this many times.
    pub(crate) async fn logged(&self, words: &str, times: usize) {
        let mut grown = self.log.grown.subscribe();
        let told = async {
            while self.log().matches(words).count() < times {
                grown.changed().await.expect("the log lives as long as we");
            }
        };
        watch(&format!("the log to say {words}"), told).await;
    }

    /// Sends SIGTERM. The second one ends the server at once.
    pub(crate) fn terminate(&self) {
        self.told_to_stop.store(true, Ordering::Relaxed);
        kill_process(self.pid(), Signal::TERM).expect("our child is there");
    }

    /// Sends what a terminal sends when it closes. A later SIGTERM would end the server at once.
    pub(crate) fn hang_up(&self) {
        self.told_to_stop.store(true, Ordering::Relaxed);
        kill_process(self.pid(), Signal::HUP).expect("our child is there");
    }

    /// Waits until the server has no child processes, but for the one that waits for its end, and
    /// for the supervisors that wait for the next command: one at the most in and outside of
    /// bubblewrap.
    pub(crate) async fn no_children(&self) {
        let marks = (self.pid(), self.home.path().to_owned());
        let ended = tokio::task::spawn_blocking(move || {
            let others = family(marks.0, &marks.1).into_iter().filter(|it| *it != marks.0);
            let others: Vec<Pid> = others.filter(|process| !is_sweeper(*process)).collect();
            others.iter().copied().for_each(wait_for_end_or_spare);
            let own = children(marks.0);
            let spares = own.into_iter().filter(|process| is_spare_supervisor(*process));
            assert!(spares.count() <= 2, "more supervisors wait than are ever of use");
        });
        watch("the tools' processes to end", ended).await.expect("no panic");
    }

    /// The supervisors of the commands that run, the outer ones first.
    pub(crate) fn command_supervisors(&self) -> Vec<Pid> {
        let mut found = family(self.pid(), self.home.path());
        found.retain(|process| is_of_command(*process));
        found.sort_unstable_by_key(|process| process.as_raw_nonzero());
        found
    }

    /// Waits until the server has started a supervisor for the next command.
    pub(crate) async fn spare_supervisor(&self) -> Pid {
        let server = self.pid();
        let find = move || children(server).into_iter().find(|it| is_spare_supervisor(*it));
        let started = async {
            loop {
                if let Some(spare) = find() {
                    return spare;
                }
                tokio::task::yield_now().await;
            }
        };
        watch("a spare supervisor", started).await
    }

    /// Stops the server and returns its exit status. The log is complete then.
    pub(crate) fn stop(&mut self) -> Option<ExitStatus> {
        let mut child = self.child.take()?;
        let left = family(pid(&child), self.home.path());
        let process = pid(&child);
        if !self.told_to_stop.load(Ordering::Relaxed) {
            let _gone_already = kill_process(process, Signal::TERM);
        }
        let (ended, end) = mpsc::channel();
        let waiting = std::thread::spawn(move || ended.send(child.wait()));
        let status = end.recv_timeout(STOPPING);
        if status.is_err() {
            let _gone = kill_process(process, Signal::KILL);
        }
        let _sent = waiting.join();
        self.reading.take().map(JoinHandle::join);
        for process in left.into_iter().chain(family(process, self.home.path())) {
            wait_for_end(process);
        }
        status.expect("the server ends when it is told to").ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.abandon();
            return;
        }
        if let Some(status) = self.stop() {
            assert!(status.success(), "the server ended with {status}:\n{}", self.log());
        }
    }
}

impl Server {
    /// After a failed test: skips further checks, and prints the log.
    fn abandon(&mut self) {
        if let Some(mut child) = self.child.take() {
            for process in family(pid(&child), self.home.path()) {
                let _gone = kill_process(process, Signal::KILL);
            }
            let _status = child.wait();
            let _read = self.reading.take().map(JoinHandle::join);
        }
        show(&format!("--- what the server said ---\n{}", self.log()));
    }
}

impl Builder {
    pub(crate) fn new(upstream: &str) -> Self {
        let home =
            tempfile::Builder::new().prefix("toolhand-test-").tempdir().expect("a directory");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).expect("our own");
        fs::create_dir(workspace(&home)).expect("a new directory");
        let builder = Self {
            home,
            settings: Vec::new(),
            tables: String::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            open_files: None,
            starter: None,
        };
        builder
            .config("upstream.url", &format!("{upstream:?}"))
            .config("upstream.backoff", r#"["1ms", "1ms"]"#)
            .config("upstream.end_timeout", r#""200ms""#)
            .config("turns.shutdown_grace", r#""2s""#)
            // What is installed here would show in what the model is offered.
            .config("lsp.enabled", r#""off""#)
    }

    /// Sets a key by its path, with its value as TOML.
    pub(crate) fn config(mut self, key: &str, value: &str) -> Self {
        self.settings.retain(|(known, _)| known != key);
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Adds whole tables after the settings.
    pub(crate) fn tables(mut self, toml: &str) -> Self {
        self.tables.push_str(toml);
        self
    }

    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Lowers the soft limit of open files, as shells do. The program may raise it.
    pub(crate) fn open_files(mut self, most: u32) -> Self {
        self.open_files = Some(most);
        self
    }

    /// Starts the server through a program that gets the server's arguments.
    pub(crate) fn program(mut self, starter: &Path) -> Self {
        self.starter = Some(starter.to_owned());
        self
    }

    /// Allows every tool, commands included.
    pub(crate) fn free(self) -> Self {
        self.argument("--sandbox=off").argument("--permission-mode=bypassPermissions")
    }

    /// Creates a file in the workspace.
    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        let path = self.workspace().join(name);
        fs::create_dir_all(path.parent().expect("inside")).expect("a directory");
        fs::write(path, content).expect("a new file");
        self
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        workspace(&self.home)
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) async fn start(self) -> Server {
        let log = Arc::new(Log { text: Mutex::default(), grown: notice::channel(()).0 });
        let mut child = self.command().spawn().expect("the server's binary");
        let reading = read_log(&mut child, Arc::clone(&log));
        let mut server = Server {
            home: self.home,
            child: Some(child),
            told_to_stop: AtomicBool::new(false),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            log,
            reading: Some(reading),
        };
        server.address = server.listening().await;
        server
    }

    /// The command that starts the server, for a start on a terminal, and the directory that the
    /// server needs as long as it runs.
    pub(crate) fn into_command(self) -> (Command, TempDir) {
        (self.command(), self.home)
    }

    /// Runs a start that should fail: its status, stdout and stderr. A server that starts
    /// all the same is ended.
    pub(crate) fn run(self) -> (ExitStatus, String, String) {
        let mut child = self.command().spawn().expect("the server's binary");
        let mut stderr = child.stderr.take().expect("piped");
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).expect("a pipe");
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let mut told = String::new();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        for line in stdout.lines() {
            told.push_str(&line.expect("text"));
            if told.contains("listening on") {
                child.kill().expect("our own child");
            }
        }
        let status = child.wait().expect("our own child");
        (status, told, errors.join().expect("no panic"))
    }

    fn command(&self) -> Command {
        let config = self.home.path().join("toolhand.toml");
        fs::write(&config, self.toml()).expect("a configuration");
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).expect("our own");
        let mut command = self.starting();
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.home.path())
            .env("TOOLHAND_API_KEY", KEY)
            .envs(self.environment.iter().cloned())
            .arg("serve")
            .args(self.paths())
            .args(&self.arguments)
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn starting(&self) -> Command {
        const PROGRAM: &str = env!("CARGO_BIN_EXE_toolhand");
        if let Some(starter) = &self.starter {
            return Command::new(starter);
        }
        let Some(most) = self.open_files else { return Command::new(PROGRAM) };
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(format!("ulimit -S -n {most}; exec \"$0\" \"$@\"")).arg(PROGRAM);
        command
    }

    /// The arguments of every test server, unless the test sets its own.
    fn paths(&self) -> Vec<String> {
        let home = self.home.path().display();
        let ours = [
            ("--listen=", "127.0.0.1:0".to_owned()),
            ("--config=", format!("{home}/toolhand.toml")),
            ("--workspace=", format!("{home}/workspace")),
            ("--state-dir=", format!("{home}/state")),
        ];
        let unset = |flag: &str| !self.arguments.iter().any(|argument| argument.starts_with(flag));
        ours.into_iter()
            .filter(|(flag, _)| unset(flag))
            .map(|(flag, to)| flag.to_owned() + &to)
            .collect()
    }

    fn toml(&self) -> String {
        let mut toml = String::new();
        for (key, value) in &self.settings {
            writeln!(toml, "{key} = {value}").expect("a string");
        }
        toml + &self.tables
    }
}

impl Server {
    /// Reads the line with the address.
    async fn listening(&mut self) -> SocketAddr {
        let stdout = self.child.as_mut().and_then(|child| child.stdout.take()).expect("piped");
        let (told, line) = oneshot::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            let mut lines = lines.filter_map(|line| address_of(&line));
            let _test_is_over = lines.next().map(|address| told.send(address));
            // Reads on, so that the server never writes into a closed pipe.
            lines.for_each(drop);
        });
        let Ok(line) = watch("the server to listen", line).await else {
            panic!("the server ended at its start");
        };
        line.parse().expect("an address")
    }
}

fn address_of(line: &str) -> Option<String> {
    line.strip_prefix("listening on http://").map(str::to_owned)
}

/// Collects stderr.
fn read_log(child: &mut Child, log: Arc<Log>) -> JoinHandle<()> {
    let mut stderr = child.stderr.take().expect("piped");
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = stderr.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..read]);
            sync::lock(&log.text).push_str(&text);
            log.grown.send_replace(());
        }
    })
}

fn workspace(home: &TempDir) -> PathBuf {
    home.path().join("workspace")
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

#[expect(clippy::print_stderr, reason = "the test harness captures it and shows it on failure")]
fn show(text: &str) {
    eprintln!("{text}");
}
