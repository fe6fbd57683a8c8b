//! Makes a newcomer's machine: an empty home directory in which LiteLLM is installed, and
//! terminals.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::exceptions::PROGRAMS;
use super::network::Network;
use crate::support::kept;

/// A home directory and a network.
#[derive(Debug)]
pub(super) struct Machine {
    home: TempDir,
    path: OsString,
    network: Network,
}

/// A shell that remembers its directory and its variables from one block to the next.
#[derive(Debug)]
pub(super) struct Terminal<'m> {
    machine: &'m Machine,
    state: PathBuf,
}

/// What ran, and what it printed.
#[derive(Debug)]
pub(super) struct Printed {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) is_success: bool,
}

/// Restores the variables and the directory of the block before, runs the commands, and saves
/// both for the next block. Takes the file for them and the commands.
const SHELL: &str = r#"
state="$1"; [ -e "$state" ] && . "$state"
trap '{ export -p; printf "cd %q\n" "$PWD"; } > "$state"' EXIT
set -e
eval "$2"
"#;

impl Machine {
    /// Looks for programs in `programs` before the search path.
    pub(super) fn new(programs: &Path) -> Self {
        let home =
            tempfile::Builder::new().prefix("toolhand-home-").tempdir().expect("a directory");
        let stand_ins = home.path().join("bin");
        let search = std::env::var_os("PATH").unwrap_or_default();
        let mut paths = vec![stand_ins.clone(), programs.to_owned()];
        paths.extend(std::env::split_paths(&search));
        let path = std::env::join_paths(paths).expect("no colon");
        install_programs(&stand_ins);
        install_litellm(home.path());
        copy_repository(&home.path().join("repository"));
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/node_modules");
        symlink(modules, home.path().join("node_modules")).expect("a new link");
        link_python(home.path());
        Self { home, path, network: Network::new() }
    }

    pub(super) fn terminal(&self, name: &str) -> Terminal<'_> {
        Terminal { machine: self, state: self.home.path().join(format!(".{name}")) }
    }
}

impl Terminal<'_> {
    /// Writes a file into the directory that a program is started in.
    pub(super) fn write(&self, name: &str, text: &str) -> String {
        // Next to the links of the home directory, where Node looks for packages.
        let path = self.machine.home.path().join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our own");
        path.display().to_string()
    }

    /// Goes to the directory of another terminal.
    pub(super) fn enter(&self, other: &Self) {
        let place = other.run("printf '%q' \"$PWD\"").stdout;
        let entered = self.run(&format!("cd {place}"));
        assert!(entered.is_success, "{place}: {entered:?}");
    }

    /// Runs commands as they were typed.
    pub(super) fn run(&self, commands: &str) -> Printed {
        let output = self.command(commands).output().expect("bash");
        Printed {
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            is_success: output.status.success(),
        }
    }

    /// The shell that will run `commands`, as a process group of its own.
    pub(super) fn command(&self, commands: &str) -> Command {
        let mut command = self.machine.network.command("bash");
        command
            .args(["-c", SHELL, "bash"])
            .arg(&self.state)
            .arg(commands)
            .env_clear()
            .env("HOME", self.machine.home.path())
            .env("PATH", &self.machine.path)
            .env("LANG", "C.UTF-8")
            // Programs in Python say at once that they listen.
            .env("PYTHONUNBUFFERED", "1")
            .envs(rust())
            .current_dir(self.machine.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }
}

fn install_programs(directory: &Path) {
    fs::create_dir(directory).expect("a new directory");
    for (name, script) in PROGRAMS {
        let script = script.replace("PROGRAM", env!("CARGO_BIN_EXE_toolhand"));
        let script = ["MCP", "SDK"].iter().fold(script, |script, name| {
            script.replace(name, &kept(&name.to_lowercase()).display().to_string())
        });
        let file = directory.join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a new file");
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("our own");
    }
}

/// Where rustup keeps Rust, which is not in the new home.
fn rust() -> Vec<(&'static str, PathBuf)> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let places = [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")].into_iter();
    let place = |(name, usual): (&'static str, &str)| {
        let place = std::env::var_os(name).map_or_else(|| home.join(usual), PathBuf::from);
        place.is_dir().then_some((name, place))
    };
    places.filter_map(place).collect()
}

/// Links the place where pyenv keeps Python: the sandbox shows that of the home directory.
fn link_python(home: &Path) {
    let kept = PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".pyenv");
    if kept.is_dir() {
        symlink(kept, home.join(".pyenv")).expect("a new link");
    }
}

/// Links the installation that the tests keep to where the first start would make it.
fn install_litellm(home: &Path) {
    let state = home.join(".local/share/toolhand");
    fs::create_dir_all(state.join("litellm")).expect("a directory");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("our own");
    symlink(kept("state/litellm/venv"), state.join("litellm/venv")).expect("a new link");
}

/// Copies what `make up` and the documents need of the repository.
fn copy_repository(to: &Path) {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    for directory in ["", "scripts", "docs", "src"] {
        fs::create_dir_all(to.join(directory)).expect("a new directory");
        for entry in fs::read_dir(repository.join(directory)).expect("the repository").flatten() {
            if entry.file_type().expect("a type").is_file() {
                fs::copy(entry.path(), to.join(directory).join(entry.file_name())).expect("a file");
            }
        }
    }
}
