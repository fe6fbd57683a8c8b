//! A bubblewrap that is none: it counts as no level, and no command runs in it.

use super::*;

/// Writes a program in the place of bubblewrap.
fn fake(directory: &TempDir, script: &str) -> PathBuf {
    let path = directory.path().join("bwrap");
    fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

async fn outcome(script: &str, mode: u32) -> Outcome {
    let directory = TempDir::new().unwrap();
    let path = fake(&directory, script);
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    let levels = vec![Level::Bwrap];
    let settings = SandboxSettings { levels, ..SandboxSettings::default() };
    Sandbox::new(runner().with_bwrap(path), settings).outcome().await.clone()
}

/// Only one that belongs to root is run at all.
#[tokio::test]
async fn a_lie_about_the_trial_is_not_believed() {
    if !is_root() {
        return not_run(Level::Bwrap, "a program of root's is needed");
    }
    let attempts = Probe::ALL.map(|probe| Attempt { probe, held: true });
    let attempts = serde_json::to_string(&attempts).unwrap();
    let forged = format!("echo '{attempts}'; echo works; exit 0");
    let reported = format!(
        "echo '{attempts}'; echo works; echo '\"Taken\"' >&0; \
         echo '{{\"Ended\":{{\"exit\":{{\"Code\":0}},\"moved\":\"Not\"}}}}' >&0; \
         echo '{{\"Gone\":{{\"leftovers\":0}}}}' >&0; exit 0"
    );
    for (script, why) in [
        ("exit 0", ""),
        ("exit 1", ""),
        ("echo 'bwrap: Creating new namespace failed' >&2; exit 1", "Creating new namespace"),
        (&forged, ""),
        // It does what it is told, outside of every namespace.
        ("while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"", "could not be put in force"),
    ] {
        let outcome = outcome(script, 0o755).await;
        assert_eq!(outcome.level, None, "{script}");
        assert!(outcome.sentence().contains(why), "{script}: {}", outcome.sentence());
    }
    // Who speaks for the supervisor too can say what it wants: it belongs to root.
    assert_eq!(outcome(&reported, 0o755).await.level, Some(Level::Bwrap));
}

#[tokio::test]
async fn one_that_hangs_is_ended_and_counts_as_none() {
    if !is_root() {
        return not_run(Level::Bwrap, "a program of root's is needed");
    }
    let marker = marker();
    let outcome = outcome(&format!("exec -a {marker} sleep 1000"), 0o755).await;
    assert_eq!(outcome.level, None);
    // The one that was started ahead of the next command is killed with the sandbox, and dies when
    // the system gets to it.
    while !processes_with(&marker).is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn one_that_is_setuid_or_can_be_written_by_others_is_not_run() {
    for mode in [0o4755, 0o2755, 0o777, 0o775] {
        let outcome = outcome("touch /tmp/toolhand-it-ran", mode).await;
        assert_eq!(outcome.level, None);
        assert!(!Path::new("/tmp/toolhand-it-ran").exists());
    }
}
