//! Runs the ripgrep that `scripts/test-env.sh` installs in the target directory.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What ripgrep answers.
pub(crate) enum Output {
    Text(Vec<u8>),
    /// It does not compile the pattern, the glob or the type.
    Refused,
}

/// Runs ripgrep in a directory.
pub(crate) fn run(directory: &Path, arguments: &[impl AsRef<OsStr>]) -> Output {
    let output = Command::new(program().expect("it is installed"))
        .args(["--no-config", "--hidden", "--color=never", "--no-heading", "--with-filename"])
        // In mapped files, ripgrep looks for NUL at the beginning only.
        .args(["--no-mmap", "--no-ignore-global", "--no-messages", "--max-columns=500"])
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    match output.status.code() {
        Some(0 | 1) => Output::Text(output.stdout),
        _ => Output::Refused,
    }
}

fn program() -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let programs = test.ancestors().map(|place| place.join("test-env/ripgrep/bin/rg"));
    programs.into_iter().find(|program| program.exists())
}

#[expect(clippy::print_stderr, reason = "a test that proves nothing says so")]
pub(crate) fn is_installed() -> bool {
    let found = program().is_some();
    if !found {
        eprintln!("skipped: there is no rg to compare with; run scripts/test-env.sh");
    }
    found
}
