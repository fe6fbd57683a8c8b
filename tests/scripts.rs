//! Tests what `make` says before it begins, where something is missing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A search path with the programs that the script itself uses, and no more.
fn search_path() -> TempDir {
    let place = tempfile::tempdir().expect("a directory");
    let search = std::env::var_os("PATH").unwrap_or_default();
    for name in ["bash", "dirname", "sed", "cut", "sort", "head", "env"] {
        let found = std::env::split_paths(&search).map(|directory| directory.join(name));
        let program = found.into_iter().find(|program| program.exists()).expect("every Debian's");
        symlink(program, place.path().join(name)).expect("a new link");
    }
    place
}

fn program(place: &Path, name: &str, text: &str) {
    let path = place.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a new file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our own");
}

/// The exit status and stderr of `scripts/require.sh` on this search path.
fn require(place: &Path, parts: &[&str]) -> (Option<i32>, String) {
    let mut script = Command::new("scripts/require.sh");
    let output = script.args(parts).env_clear().env("PATH", place).output().expect("the script");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn all_that_is_missing_is_named_at_once_with_its_packages() {
    let place = search_path();

    let (code, told) = require(place.path(), &["rust", "python", "node"]);

    assert_eq!(code, Some(1));
    insta::assert_snapshot!(told, @r"
    Not on the search path, and needed:
      cargo, 1.90 or newer: rustup install stable (Debian: apt install rustup, from Debian 13 on)
      rustc, 1.90 or newer: rustup install stable (Debian: apt install rustup, from Debian 13 on)
      cc, which Rust links with: apt install gcc libc6-dev
      python3, 3.11 or newer, with venv: apt install python3 python3-venv
      node: apt install nodejs
      npm: apt install npm
    ");
}

#[test]
fn what_is_too_old_or_incomplete_is_named_with_what_is_here() {
    let place = search_path();
    program(place.path(), "cargo", "echo 'cargo 1.100.0 (abc 2027-01-01)'");
    program(place.path(), "rustc", "echo 'rustc 1.63.0 (abc 2022-08-08)'");
    program(place.path(), "cc", "true");
    // Without its venv, as Debian has it by default.
    let python = r#"case "$2" in *platform*) echo 3.9.2 ;; *) exit 1 ;; esac"#;
    program(place.path(), "python3", python);

    let (code, told) = require(place.path(), &["rust", "python"]);

    assert_eq!(code, Some(1));
    insta::assert_snapshot!(told, @r"
    Not on the search path, and needed:
      rustc, 1.90 or newer: 1.63.0 is here; rustup install stable (Debian: apt install rustup, from Debian 13 on)
      python3, 3.11 or newer: 3.9.2 is here; Debian 12 or newer has one
      python3's venv: apt install python3-venv
    ");
    program(place.path(), "rustc", "echo 'rustc 1.90.0 (abc 2025-09-14)'");
    assert_eq!(require(place.path(), &["rust"]), (Some(0), String::new()));
}
