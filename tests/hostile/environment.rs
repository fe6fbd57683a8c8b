//! Tests what a command can read of the environments that our processes were started
//! with.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::json;

use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;

/// Values that must not be found in a process. They are given to the server alone.
struct Secrets(String);

impl Secrets {
    fn new() -> Self {
        Self(format!("sk-{}", uuid::Uuid::new_v4().simple()))
    }

    fn given_to(&self, builder: Builder) -> Builder {
        builder
            .free()
            .environment("ANTHROPIC_API_KEY", &self.0)
            .environment("DATABASE_PASSWORD", &self.0)
            .environment("TOOLHAND_UPSTREAM_API_KEY", &self.0)
            // A setting that shows that settings in the environment still apply.
            .environment("TOOLHAND_TOOLS_ENABLE", "Bash")
    }

    /// Lets a command read the environments of all processes, and checks that the
    /// settings have arrived.
    async fn check_gone(&self, upstream: &Upstream, server: &Server) {
        let asked = upstream.requests().len();
        let look = format!(
            "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -ac {}; echo the end",
            self.0
        );
        upstream.round(calls(&[("c1", "Bash", json!({ "command": look }))]));
        upstream.round(says("Done."));
        assert_eq!(server.client().chat(&ask("Look.")).await.text(), "Done.");
        assert_eq!(crate::turn::answers(upstream, asked + 1).await, ["0\nthe end"]);
        let request = upstream.request(asked).await;
        let key = request.head.header("authorization");
        assert_eq!(key, Some(format!("Bearer {}", self.0).as_str()));
        assert_eq!(request.json()["tools"].as_array().map(Vec::len), Some(1), "tools.enable");
    }
}

fn entry(server: &Server, name: &str) -> String {
    let path = format!("/proc/{}/{name}", server.pid().as_raw_nonzero());
    String::from_utf8_lossy(&fs::read(path).expect("our own child")).into_owned()
}

#[tokio::test]
async fn p13_no_environment_holds_a_secret_not_even_for_root() {
    let upstream = Upstream::start();
    let secrets = Secrets::new();
    let server = secrets.given_to(Server::builder(&upstream)).start().await;

    secrets.check_gone(&upstream, &server).await;

    assert!(!entry(&server, "environ").contains("TOOLHAND_TOOLS"), "only what is listed stays");
    assert!(entry(&server, "cmdline").contains("serve\0"), "{}", entry(&server, "cmdline"));
    assert_eq!(entry(&server, "comm"), "toolhand\n");
}

/// Tests arbitrary values of the variable that names the handed-over memory.
#[tokio::test]
async fn p13_a_variable_that_is_set_by_hand_neither_stops_nor_skips_it() {
    let upstream = Upstream::start();
    for number in ["", "0", "1", "3", "999999", "-1", "x", "../fd/0"] {
        let secrets = Secrets::new();
        let builder = secrets.given_to(Server::builder(&upstream));
        let server = builder.environment("TOOLHAND_SECRETS_FD", number).start().await;
        secrets.check_gone(&upstream, &server).await;
    }
    let server = Server::builder(&upstream).environment("TOOLHAND_SECRETS_FD", "1").start().await;
    assert_eq!(server.client().get("/health").await.status(), 200);
}

/// Starts the server through another program.
fn through(builder: Builder, script: &str) -> Builder {
    let path = builder.home().join("start");
    fs::write(&path, script).expect("a new file");
    fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("our own");
    builder.program(&path)
}

#[tokio::test]
async fn p13_memory_that_somebody_else_hands_over_is_not_believed() {
    // Named and sealed like ours: once without our header; once with it, but beside an
    // environment that was not emptied.
    for header in ["ANTHROPIC_API_KEY=x", "toolhand environment 1\\0"] {
        let script = format!(
            "#!/usr/bin/env python3\n\
             import fcntl, os, sys\n\
             memory = os.memfd_create('toolhand-secrets', os.MFD_ALLOW_SEALING)\n\
             os.write(memory, b'{header}TOOLHAND_TOOLS_ENABLE=Read\\0')\n\
             fcntl.fcntl(memory, 1033, 15)\n\
             os.set_inheritable(memory, True)\n\
             os.environ['TOOLHAND_SECRETS_FD'] = str(memory)\n\
             os.execv('{}', ['toolhand', *sys.argv[1:]])\n",
            env!("CARGO_BIN_EXE_toolhand")
        );
        let upstream = Upstream::start();
        let secrets = Secrets::new();
        let builder = through(secrets.given_to(Server::builder(&upstream)), &script);
        secrets.check_gone(&upstream, &builder.start().await).await;
    }
}

/// A package manager may replace a program while it runs.
#[tokio::test]
async fn p13_a_program_whose_file_is_gone_starts_itself_all_the_same() {
    let upstream = Upstream::start();
    let secrets = Secrets::new();
    let builder = secrets.given_to(Server::builder(&upstream));
    let copy = builder.home().join("copy");
    fs::copy(env!("CARGO_BIN_EXE_toolhand"), &copy).expect("a copy");
    let script = format!(
        "#!/bin/bash\nexec 3<{copy} && rm {copy} && exec -a toolhand /proc/self/fd/3 \"$@\"\n",
        copy = Path::new(&copy).display()
    );
    let server = through(builder, &script).start().await;

    secrets.check_gone(&upstream, &server).await;
}

/// Blocked and ignored signals are the choice of whoever starts the server.
#[tokio::test]
async fn p13_signals_stay_as_they_were() {
    let upstream = Upstream::start();
    let script = format!(
        "#!/usr/bin/env python3\n\
         import os, signal, sys\n\
         signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])\n\
         signal.signal(signal.SIGHUP, signal.SIG_IGN)\n\
         os.execv('{}', ['toolhand', *sys.argv[1:]])\n",
        env!("CARGO_BIN_EXE_toolhand")
    );
    let builder = through(Secrets::new().given_to(Server::builder(&upstream)), &script);
    let server = builder.start().await;

    let status = entry(&server, "status");
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a set");
        u64::from_str_radix(line.trim(), 16).expect("bits")
    };
    let bit = |number: i32| 1_u64 << (number - 1);
    assert_ne!(set("SigBlk:") & bit(Signal::USR2.as_raw()), 0, "{status}");
    assert_ne!(set("SigIgn:") & bit(1), 0, "{status}");
}
