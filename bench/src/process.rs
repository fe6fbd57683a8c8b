//! Starts the parts that run as processes of their own: the server and the relay.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The client key of the server under test.
pub(crate) const KEY: &str = "sk-bench";

/// A running process; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) address: SocketAddr,
    child: Child,
    home: TempDir,
}

impl Process {
    /// The memory in use, in millions of bytes.
    pub(crate) fn resident_megabytes(&self) -> f64 {
        self.megabytes("VmRSS:")
    }

    /// The most memory that was in use since [`Self::forget_peak`], in millions of bytes.
    pub(crate) fn peak_megabytes(&self) -> f64 {
        self.megabytes("VmHWM:")
    }

    pub(crate) fn forget_peak(&self) {
        let id = self.child.id().expect("it runs");
        fs::write(format!("/proc/{id}/clear_refs"), "5").expect("the kernel lets us");
    }

    fn megabytes(&self, name: &str) -> f64 {
        let id = self.child.id().expect("it runs");
        let status = fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
        kibibytes.expect("the kernel tells it") * 1024.0 / 1e6
    }
}

/// Ends the server, and starts another one over what it has stored.
pub(crate) async fn restarted(server: Process, upstream: &str, settings: &str) -> Process {
    let Process { mut child, home, .. } = server;
    let id = child.id().and_then(|id| rustix::process::Pid::from_raw(id.try_into().ok()?));
    let id = id.expect("it runs");
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("our own child");
    child.wait().await.expect("our own child");
    let workspace = home.path().join("workspace");
    start_server(&this_path(), upstream, settings, &workspace, home).await
}

/// Starts the server with settings in TOML beside upstream's address. Its stderr
/// is discarded, so that the table alone is visible.
pub(crate) async fn server(upstream: &str, settings: &str) -> Process {
    let home = home();
    let workspace = home.path().join("workspace");
    start_server(&this_path(), upstream, settings, &workspace, home).await
}

/// Starts the server of this program or another one, in an existing workspace.
pub(crate) async fn server_in(
    program: &Path,
    upstream: &str,
    settings: &str,
    workspace: &Path,
) -> Process {
    start_server(program, upstream, settings, workspace, home()).await
}

async fn start_server(
    program: &Path,
    upstream: &str,
    settings: &str,
    workspace: &Path,
    home: TempDir,
) -> Process {
    let config = home.path().join("toolhand.toml");
    fs::write(&config, format!("upstream.url = \"{upstream}\"\n{settings}")).expect("a file");
    let mut command = part(program.to_owned());
    command
        .args(["serve", "--listen", "127.0.0.1:0"])
        .arg("--config")
        .arg(config)
        .arg("--workspace")
        .arg(workspace)
        .arg("--state-dir")
        .arg(home.path().join("state"))
        .env("TOOLHAND_API_KEY", KEY);
    start(command, home).await
}

pub(crate) async fn relay(upstream: &str) -> Process {
    let relay = this_path().with_file_name("toolhand-bench-relay");
    let mut command = part(relay);
    command.arg(upstream);
    start(command, home()).await
}

fn home() -> TempDir {
    let home = tempfile::tempdir().expect("a directory");
    fs::create_dir(home.path().join("workspace")).expect("a directory");
    home
}

pub(crate) fn this_path() -> PathBuf {
    std::env::current_exe().expect("our own path")
}

/// A virtual environment that `scripts/test-env.sh` has made.
pub(crate) fn test_environment(name: &str) -> PathBuf {
    let program = this_path();
    let target = program.ancestors().nth(2).expect("target/PROFILE/PROGRAM");
    target.join("test-env").join(name)
}

fn part(program: PathBuf) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    command
}

async fn start(mut command: Command, home: TempDir) -> Process {
    let mut child = command.env("HOME", home.path()).spawn().expect("our own program");
    let stdout = child.stdout.take().expect("piped");
    let mut lines = BufReader::new(stdout).lines();
    let line = lines.next_line().await.expect("text").expect("the line that tells the address");
    let address = line.rsplit('/').next().and_then(|address| address.parse().ok());
    let address = address.unwrap_or_else(|| panic!("no address: {line}"));
    Process { address, child, home }
}
