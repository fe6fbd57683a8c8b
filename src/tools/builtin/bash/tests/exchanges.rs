//! Starts commands under which a file of the workspace is exchanged, just before they run.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::processes::Environment;
use crate::processes::test_support::program;

/// What the supervisor does before it begins: each time, or at the first start alone.
const EACH_TIME: &str = "exchange";
const ONCE: &str = "test -e exchanged || { exchange; : >exchanged; }";

/// A supervisor that first exchanges a control file of the workspace, after the server has looked
/// at it. It runs inside of the sandbox, as ours does.
fn exchanging(fixture: &Fixture, when: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let root = fixture.path("").display().to_string();
    let script = format!(
        "#!/bin/sh\nPATH=/usr/bin:/bin\nexchange() {{ echo start >>starts; cp .envrc new; mv new .envrc; }}\n\
         (cd {root} && {when})\nexec {} \"$@\"\n",
        program().display()
    );
    let path = place.path().join("supervisor");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    place
}

/// The answer, and how often the file was exchanged; `None` without bubblewrap.
async fn run_while_exchanging(when: &str) -> Option<(String, usize)> {
    let fixture = Fixture::new(&[(".envrc", "use nix\n")]);
    let supervisor = exchanging(&fixture, when);
    let shown = program().parent().unwrap().to_owned();
    let settings = SandboxSettings {
        levels: vec![Level::Bwrap],
        readable: vec![shown, supervisor.path().to_owned()],
        ..SandboxSettings::default()
    };
    let sandbox = Sandbox::new(runner(), settings);
    sandbox.level().await?;
    let path = ("PATH".into(), "/usr/bin:/bin".into());
    let exchanging =
        Runner::new(supervisor.path().join("supervisor"), Environment::allowed([path]), None);
    // One that is started ahead would exchange the file before the server looks.
    let exchanging = exchanging.with_spare_patience(Duration::ZERO);
    let bash = Bash::new(exchanging, sandbox, BashSettings::default(), None);
    let answer = fixture.call(bash, json!({ "command": "echo ran; echo x >>runs" })).await;
    let count =
        |name: &str| fs::read_to_string(fixture.path(name)).map_or(0, |text| text.lines().count());
    assert_eq!(count("runs"), usize::from(answer.starts_with("ran")), "{answer}");
    Some((answer, count("starts")))
}

#[tokio::test]
async fn g8_a_command_is_started_again_when_a_file_was_exchanged_under_it() {
    let Some((answer, starts)) = run_while_exchanging(ONCE).await else { return };
    assert!(answer.starts_with("ran"), "{answer}");
    assert_eq!(starts, 1);
}

#[tokio::test]
async fn g8_a_command_is_refused_when_files_are_exchanged_under_it_each_time() {
    let Some((answer, starts)) = run_while_exchanging(EACH_TIME).await else { return };
    assert_snapshot!(answer, @"Error: files of the workspace were exchanged while the sandbox was put in force, so nothing ran; run the command again when no other one changes these directories");
    assert_eq!(starts, 5);
}
