//! Tests commands that attack the processes that look after them.

use std::fs;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::processes::Shell;
use crate::sessions::leaving::started;
use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::resources::zombies;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::support::watch;

/// A script that finds the supervisor of its command: `$reaper`, which started it, and
/// `$monitor` above. The server's own process is not among them.
const FIND: &str = "reaper=$PPID; read -r _ name _ monitor _ </proc/$reaper/stat; \
                    read -r _ above _ </proc/$monitor/stat; \
                    [ $name$above = '(toolhand-run)(toolhand-run)' ] || exit 77\n";

/// Processes that must end before the answer: in sessions of their own, orphaned,
/// ignoring TERM.
const SURVIVORS: &str = "setsid -f sh -c 'sleep 1e6; : MARK'\n\
    (setsid sh -c \"trap '' TERM HUP INT; sleep 1e6; sleep 1e6; : MARK\" &)\n\
    sh -c 'sleep 1e6; : MARK' &\n\
    until [ $(grep -alz 'sleep 1e6' /proc/[0-9]*/cmdline 2>/dev/null | wc -l) -ge 3 ]; do :; done\n";

/// What the model reads of a command whose supervisor was killed.
const KILLED: &str = "The process that looks after the command was killed";

fn marker() -> String {
    format!("mark-{}", uuid::Uuid::new_v4().simple())
}

/// The command lines of living processes that contain `mark`.
fn living(mark: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("procfs").flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(mark)).collect()
}

impl Shell {
    /// Runs a command that starts survivors, and looks for them after its answer.
    async fn check_ended(&mut self, what: &str, command: &str, time: u32) -> String {
        let mark = marker();
        let command = format!("{FIND}{SURVIVORS}{command}").replace("MARK", &mark);
        let call = json!({ "command": command, "timeout": time });
        let answer = watch(what, self.call(&[call])).await.remove(0);
        assert!(!answer.contains("Exit code 77"), "{what}: {answer}");
        assert_eq!(living(&mark), Vec::<String>::new(), "{what}: {answer}");
        assert!(!answer.contains("may still run"), "{what}: {answer}");
        self.server.no_children().await;
        assert_eq!(self.run("echo another").await, "another", "{what}");
        answer
    }
}

#[tokio::test]
async fn p8_nothing_outlives_a_supervisor_that_its_command_killed() {
    let mut shell = Shell::start().await;
    for kill in [
        "kill -9 $monitor $reaper; sleep 1e6",
        "kill -9 $reaper $monitor; sleep 1e6",
        "kill -9 $reaper; sleep 1e6",
        "kill -9 $monitor; sleep 1e6",
        "kill -STOP $monitor; kill -9 $reaper; sleep 1e6",
        "kill -STOP $reaper; kill -9 $monitor; sleep 1e6",
        "exec setsid sh -c 'kill -9 '$reaper' '$monitor'; sleep 1e6'",
    ] {
        let answer = shell.check_ended(kill, kill, 5_000).await;
        // With `setsid` the command's own process ends at once. That may be reported before
        // the supervisor is killed.
        let may_have_ended = kill.starts_with("exec setsid");
        assert!(may_have_ended || answer.starts_with("Error: "), "{kill}: {answer}");
    }
}

#[tokio::test]
async fn p8_a_supervisor_that_is_stopped_delays_the_answer_and_saves_nobody() {
    let mut shell = Shell::start().await;
    for (stop, told) in [
        ("kill -STOP $monitor $reaper; sleep 1e6", "timed out after 0.3 s"),
        ("kill -STOP $reaper $monitor; sleep 1e6", "timed out after 0.3 s"),
        ("while :; do kill -STOP $monitor $reaper; done", "timed out after 0.3 s"),
        ("kill -STOP $monitor; echo done", "done"),
    ] {
        let answer = shell.check_ended(stop, stop, 300).await;
        assert!(answer.contains(told), "{stop}: {answer}");
    }
}

/// Takes the socket from the supervisor, as only root can, and writes into it.
fn forge(report: &str) -> String {
    format!(
        "python3 - $reaper <<'END'\n\
         import ctypes, os, sys\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         handle = libc.syscall(434, int(sys.argv[1]), 0)\n\
         for fd in os.listdir('/proc/%s/fd' % sys.argv[1]):\n\
         \x20   if os.readlink('/proc/%s/fd/%s' % (sys.argv[1], fd)).startswith('socket:'):\n\
         \x20       socket = libc.syscall(438, handle, int(fd), 0)\n\
         \x20       {report}\n\
         END\nsleep 1e6"
    )
}

#[tokio::test]
async fn p8_a_forged_report_is_no_more_than_a_claim() {
    if !rustix::process::geteuid().is_root() {
        // Only root can get the socket: see the test of tracing.
        return;
    }
    let mut shell = Shell::start().await;
    for report in [
        r#"os.write(socket, b'{"Gone":{"leftovers":0}}\n')"#,
        r#"os.write(socket, b'{"Gone":{"leftovers":18446744073709551615}}\n')"#,
        r#"os.write(socket, b'{"Ended":{"exit":{"Code":0},"moved":"Not"}}\n{"Gone":{"leftovers":0}}\n')"#,
        r#"os.write(socket, b'{"Ended":{"exit":{"Code":0},"moved":"Not"}}\n' * 900)"#,
        r#"os.write(socket, b'{"Stuck":{"processes":0}}\n')"#,
        r#"os.write(socket, b'{"NotStarted":{"step":"Execute","errno":2}}\n')"#,
        r#"os.write(socket, b'"Lost"\n')"#,
        r"os.write(socket, b'\xff\x00 no report\n')",
        r"os.write(socket, b'\n')",
        // An endless line: only as much is kept as a report may have.
        "exec('while 1: os.write(socket, bytes([32]) * 60000)')",
        "libc.shutdown(socket, 2)",
        "libc.shutdown(socket, 1)",
    ] {
        let answer = shell.check_ended(report, &forge(report), 3_000).await;
        assert!(!answer.contains("nothing was run"), "{report}: {answer}");
        assert!(!answer.contains("cannot be run"), "{report}: {answer}");
    }
    assert_eq!(zombies(&shell.server), 0);
}

/// Other commands continue while one kills its own supervisor.
#[tokio::test]
async fn p8_only_the_command_that_kills_its_supervisor_is_ended() {
    let mut shell = Shell::start().await;
    let round: Vec<Value> = (0..6)
        .map(|number| match number % 2 {
            0 => json!({ "command": format!("{FIND}setsid -f sleep 1e6; kill -9 $monitor $reaper; sleep 1e6") }),
            _ => json!({ "command": format!("setsid -w sh -c 'sleep 0.2; echo {number}'") }),
        })
        .collect();

    let answers = shell.call(&round).await;

    for (number, answer) in answers.iter().enumerate() {
        match number % 2 {
            0 => assert!(
                answer.contains(KILLED) && answer.contains("by their ids instead"),
                "{answer}"
            ),
            _ => assert_eq!(*answer, number.to_string()),
        }
    }
    shell.server.no_children().await;
    assert_eq!(zombies(&shell.server), 0);
}

/// Nobody can see who has killed a process, and in a sandbox it was not the command.
#[tokio::test]
async fn a_supervisor_that_is_killed_from_outside_is_not_blamed_on_the_command() {
    for (sandbox, from_outside) in [("off", false), ("bwrap", true), ("landlock", true)] {
        let upstream = Upstream::start();
        let builder = Server::builder(&upstream).argument("--permission-mode=bypassPermissions");
        let builder = match sandbox {
            "off" => builder.argument("--sandbox=off"),
            level => builder.config("sandbox.use", &format!("[\"{level}\"]")),
        };
        let server = builder.start().await;
        let status = server.client().get("/toolhand/v1/status").await.json();
        if from_outside && status["sandbox"]["level"] != sandbox {
            continue;
        }
        let command = json!({ "command": "echo x >started; sleep 1e6" });
        upstream.round(calls(&[("c", "Bash", command)]));
        upstream.round(says("Done."));
        let client = server.client();
        let body = ask("Go.");
        let kill = async {
            started(&server).await;
            for supervisor in server.command_supervisors() {
                // The others end with the first.
                _ = kill_process(supervisor, Signal::KILL);
            }
        };
        let (answer, ()) = tokio::join!(client.chat(&body), kill);
        assert_eq!(answer.text(), "Done.");
        let answer = crate::turn::answers(&upstream, 1).await.remove(0);
        assert!(answer.contains(KILLED), "{sandbox}: {answer}");
        assert_eq!(answer.contains("killed from outside of the sandbox"), from_outside, "{answer}");
        assert!(answer.contains("before you run it again"), "{sandbox}: {answer}");
        server.no_children().await;
    }
}
