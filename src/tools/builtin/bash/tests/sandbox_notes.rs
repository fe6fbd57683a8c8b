//! Tells what real commands lose or cannot do in a real sandbox.

use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::processes::Environment;
use crate::processes::confinement::Network;
use crate::processes::test_support::program;

/// A home outside the workspace, and what the operator sets.
pub(super) struct Home {
    directory: TempDir,
    level: Level,
    network: Network,
    writable: Vec<PathBuf>,
    escape: bool,
}

impl Home {
    pub(super) fn new(level: Level) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, level, network: Network::None, writable: Vec::new(), escape: false }
    }

    /// At each level that holds here.
    async fn each() -> Vec<Self> {
        let mut homes = Vec::new();
        for level in [Level::Bwrap, Level::Landlock] {
            let home = Self::new(level);
            if home.holds().await {
                homes.push(home);
            }
        }
        assert!(!homes.is_empty(), "this machine offers no level");
        homes
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    fn runner(&self) -> Runner {
        let variables = [
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), self.path().into()),
        ];
        Runner::new(program(), Environment::allowed(variables), None)
    }

    fn sandbox(&self) -> Sandbox {
        let settings = SandboxSettings {
            levels: vec![self.level],
            network: self.network,
            writable: self.writable.clone(),
            ..SandboxSettings::default()
        };
        Sandbox::new(self.runner(), settings)
    }

    pub(super) async fn holds(&self) -> bool {
        self.sandbox().level().await.is_some()
    }

    pub(super) fn bash(&self) -> Bash {
        let bash = Bash::new(self.runner(), self.sandbox(), BashSettings::default(), None);
        bash.with_escape(self.escape)
    }

    /// The answer, with `HOME` for the home.
    async fn answer(&self, fixture: &Fixture, command: &str) -> String {
        let answer = fixture.call(self.bash(), json!({ "command": command })).await;
        answer.replace(&self.path().display().to_string(), "HOME")
    }
}

#[tokio::test]
async fn a_file_in_home_is_dropped_or_refused_and_the_setting_is_named() {
    let fixture = Fixture::new(&[]);
    for mut home in Home::each().await {
        let answer = home.answer(&fixture, "touch ~/note.txt && ls ~").await;
        match home.level {
            Level::Bwrap => assert_snapshot!(answer, @r"
            note.txt
            (the sandbox has dropped HOME/note.txt: what is written outside of the workspace and $TMPDIR is gone when the command ends. Only the operator can allow it, with `sandbox.writable`)
            "),
            Level::Landlock => assert_snapshot!(answer, @r"
            Error: touch: cannot touch 'HOME/note.txt': Permission denied
            Exit code 1
            (in the sandbox a command can write only in the workspace and $TMPDIR, and so not HOME/note.txt. Only the operator can allow it, with `sandbox.writable`, and for reading with `sandbox.readable`)
            "),
        }
        assert!(!home.path().join("note.txt").exists());
        home.escape = true;
        let answer = home.answer(&fixture, "touch ~/note.txt").await;
        assert!(answer.contains("`dangerouslyDisableSandbox` asks a person"), "{answer}");
        home.writable = vec![home.path()];
        assert_eq!(home.answer(&fixture, "touch ~/note.txt && ls ~").await, "note.txt");
        assert!(home.path().join("note.txt").exists());
    }
}

#[tokio::test]
async fn what_stays_and_what_fails_for_its_own_reasons_gets_no_line() {
    let fixture = Fixture::new(&[("run.sh", "echo x")]);
    for home in Home::each().await {
        for (command, answer) in [
            ("touch own; touch $TMPDIR/own; mkdir -p sub", ""),
            ("ls missing 2> /dev/null; exit 3", "Error: Exit code 3"),
            ("mkdir -p $TMPDIR/a && false", "Error: Exit code 1"),
            ("grep -c needle run.sh", "0\nExit code 1"),
            ("echo Could not resolve host: x", "Could not resolve host: x"),
            ("echo /etc/x: Permission denied", "/etc/x: Permission denied"),
        ] {
            assert_eq!(home.answer(&fixture, command).await, answer, "{}: {command}", home.level);
        }
        let answer = home.answer(&fixture, "./run.sh").await;
        assert!(!answer.contains("sandbox"), "{}: {answer}", home.level);
        if home.level == Level::Bwrap {
            let command = "mkdir -p ~/.cache/pip && touch ~/.cache/pip/x";
            assert_eq!(home.answer(&fixture, command).await, "");
        }
    }
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_is_told_once_where_there_is_no_network() {
    let fixture = Fixture::new(&[]);
    let connecting = [
        "/usr/bin/python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 1))'",
        "/usr/bin/python3 -c 'import socket; socket.getaddrinfo(\"example.invalid\", 1)'",
        "exec 3<>/dev/tcp/127.0.0.1/1",
        // The pipe hides that it fails.
        "curl -sS http://127.0.0.1:1/ 2>&1 | tail -1; getent hosts example.invalid; \
         /usr/bin/python3 -c 'import socket; socket.getaddrinfo(\"example.invalid\", 1)' 2>&1 | \
         tail -1",
    ];
    for mut home in Home::each().await {
        for command in connecting {
            let answer = home.answer(&fixture, command).await;
            let told = answer.matches("(the sandbox has no network").count();
            assert_eq!(told, 1, "{}: {command}: {answer}", home.level);
            assert!(answer.contains("`sandbox.network = \"full\"`"), "{answer}");
            assert!(!answer.contains("dangerouslyDisableSandbox"), "{answer}");
        }
        home.network = Network::Full;
        if !home.holds().await {
            continue;
        }
        for command in connecting {
            let answer = home.answer(&fixture, command).await;
            assert!(!answer.contains("sandbox"), "{}: {command}: {answer}", home.level);
        }
    }
}
