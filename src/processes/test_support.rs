//! Runs real commands in tests, and checks that none is left.

use std::env;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::sync::Mutex;
use tokio::task;

use super::{Environment, Runner};

/// Held by a test that sets off a fork bomb. One of root's may take all process numbers of the
/// machine for a moment, and another one's command then ends by itself.
pub(crate) static FORK_BOMB: Mutex<()> = Mutex::const_new(());

/// A runner whose supervisor is the program that cargo built beside the tests.
pub(crate) fn runner() -> Runner {
    let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
    Runner::new(program(), Environment::allowed([path]), None)
}

/// The test binary is not the program, which lies one directory up.
pub(crate) fn program() -> PathBuf {
    let tests = env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("toolhand");
    assert!(program.exists(), "{} is missing: run `cargo build` first", program.display());
    program
}

/// Runs the tests that the arguments name once more, as a user without any rights. All must pass.
/// Returns what was printed; `None` where this user cannot become another one.
pub(crate) fn again_unprivileged(arguments: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let mut again = std::process::Command::new("setpriv");
    again.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    again.arg(env::current_exe().unwrap()).args(arguments);
    let output = again.env_remove("HOME").env("TMPDIR", "/tmp").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Some(said)
}

/// A text that no other process has in its command line.
pub(crate) fn marker() -> String {
    format!("marker-{}", uuid::Uuid::new_v4().simple())
}

/// The command lines of the processes that contain `marker`.
pub(crate) fn processes_with(marker: &str) -> Vec<String> {
    let line = |process: &Path| fs::read(process.join("cmdline")).ok();
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes
        .filter_map(|process| line(&process))
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(marker))
        .collect()
}

/// A named pipe. A command opens it to show that it has come to some point; it closes
/// when every process that holds it has ended.
pub(crate) struct Gate {
    directory: tempfile::TempDir,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let gate = Self { directory: tempfile::tempdir().unwrap() };
        let path = CString::new(gate.path().to_str().unwrap()).unwrap();
        mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        gate
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("gate")
    }

    /// Waits until a process has opened the gate for writing.
    pub(crate) async fn opened(&self) -> OpenGate {
        let path = self.path();
        OpenGate(task::spawn_blocking(|| File::open(path)).await.unwrap().unwrap())
    }
}

pub(crate) struct OpenGate(File);

impl OpenGate {
    /// Waits until no process holds the gate any more.
    pub(crate) async fn closed(mut self) -> String {
        let read = move || {
            let mut text = String::new();
            self.0.read_to_string(&mut text).map(|_| text)
        };
        task::spawn_blocking(read).await.unwrap().unwrap()
    }
}
