//! Tests harmful commands through the whole server.

use std::fs;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::resources::{open_files, zombies};
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::support::watch;

pub(super) struct Shell {
    upstream: Upstream,
    pub(super) server: Server,
    /// How many requests upstream has had.
    asked: usize,
}

impl Shell {
    pub(super) async fn start() -> Self {
        Self::start_with("tools.bash.background_tasks", "8").await
    }

    async fn start_with(key: &str, value: &str) -> Self {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream).free().config(key, value).start().await;
        Self { upstream, server, asked: 0 }
    }

    /// Calls Bash with each of these arguments, and returns what the model reads.
    pub(super) async fn call(&mut self, arguments: &[Value]) -> Vec<String> {
        let ids: Vec<String> = (0..arguments.len()).map(|number| format!("c{number}")).collect();
        let round: Vec<(&str, &str, Value)> = ids
            .iter()
            .zip(arguments)
            .map(|(id, arguments)| (id.as_str(), "Bash", arguments.clone()))
            .collect();
        self.upstream.round(calls(&round));
        self.upstream.round(says("Done."));
        assert_eq!(self.server.client().chat(&ask("Go.")).await.text(), "Done.");
        self.asked += 2;
        crate::turn::answers(&self.upstream, self.asked - 1).await
    }

    pub(super) async fn run(&mut self, command: &str) -> String {
        self.call(&[json!({ "command": command })]).await.remove(0)
    }
}

/// A named pipe that all processes of a command hold open. It ends when the last of them
/// has ended.
fn pipe_in(server: &Server) -> PathBuf {
    let path = server.workspace().join("alive");
    let _of_an_earlier_command = fs::remove_file(&path);
    mkfifoat(CWD, &path, Mode::RWXU).expect("a pipe");
    path
}

const DAEMON: &str = "python3 -c '
import os, signal, time
for step in range(2):
    if os.fork(): os._exit(0)
    os.setsid()
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
os.chdir(\"/\")
for fd in range(3): os.close(fd)
time.sleep(1000)
'";

/// A process that adopts orphans below it, as a service manager does.
const ADOPTER: &str = "python3 -c '
import ctypes, os, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
if os.fork(): os._exit(0)
os.setsid()
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
if not os.fork():
    if os.fork(): os._exit(0)
    os.setsid()
time.sleep(1000)
' &";

#[tokio::test]
async fn p2_nothing_that_a_command_starts_outlives_it() {
    let mut shell = Shell::start().await;
    for leaves in [
        "sleep 1e6 &",
        "nohup sleep 1e6 >/dev/null 2>&1 &",
        "setsid sleep 1e6 &",
        "setsid -f sleep 1e6",
        "(setsid sleep 1e6 &) & disown -a",
        "coproc sleep 1e6",
        "(trap '' TERM INT HUP; while :; do sleep 1e6; done) &",
        "env -i setsid sh -c 'cd /; exec sleep 1e6' &",
        "(sh -c 'kill -STOP $$; sleep 1e6') &",
        DAEMON,
        ADOPTER,
        "for i in 1 2 3 4 5 6 7 8 9; do setsid sh -c 'sleep 1e6 & sleep 1e6 & wait' & done",
    ] {
        let alive = pipe_in(&shell.server);
        let gone = tokio::task::spawn_blocking(move || fs::read_to_string(alive));
        let answer =
            shell.run(&format!("exec 9>alive\n{leaves}\necho started >&9; echo done")).await;

        assert!(answer.starts_with("done"), "{leaves}: {answer}");
        let gone = watch(&format!("the end of what was left by {leaves}"), gone).await;
        assert_eq!(gone.expect("no panic").expect("a pipe"), "started\n", "{leaves}");
    }
    shell.server.no_children().await;
}

#[tokio::test]
async fn p3_what_keeps_the_output_open_is_not_waited_for() {
    let mut shell = Shell::start().await;
    for command in [
        "setsid sh -c \"trap '' TERM; while :; do sleep 1e6; done\" & echo done",
        "(trap '' TERM HUP; exec sleep 1e6) 2>&1 & disown; echo done",
        "sleep 1e6 | cat & echo done",
    ] {
        let answer = shell.run(command).await;
        assert!(answer.starts_with("done\n("), "{command}: {answer}");
        shell.server.no_children().await;
    }
}

#[tokio::test]
async fn p4_p17_endless_output_is_cut_to_what_a_model_can_read() {
    let mut shell = Shell::start().await;
    // `processes` has more of this kind, with a lower limit.
    for command in ["yes >&2", "yes '€uro' | tr -d '\\n'"] {
        let answer = shell.run(command).await;
        assert!(answer.starts_with("Error: "), "{command}: {answer}");
        assert!(answer.chars().count() <= 31_000, "{command}: {}", answer.chars().count());
        assert!(answer.contains("wrote more than 16 MiB"), "{command}: {answer}");
        assert!(answer.contains("characters left out"), "{command}");
        shell.server.no_children().await;
    }
}

#[tokio::test]
async fn p5_nothing_asks_for_input() {
    let mut shell = Shell::start().await;
    shell.run("git init -q . && git config user.name n && git config user.email e@e").await;
    for command in [
        "cat",
        "read x; echo \"[$x]\"",
        "python3",
        "bash -i",
        "git commit --allow-empty",
        "git rebase -i --root",
        "sudo true",
        "ssh -o BatchMode=no nobody@127.0.0.1 true",
        "passwd",
        "less /etc/passwd >/dev/null",
        "select x in a b; do break; done",
        "stty",
        "cat </dev/tty",
    ] {
        // Each of them ends by itself, well before the time-out.
        let answer = shell.run(command).await;
        assert!(!answer.contains("timed out"), "{command}: {answer}");
    }
    assert_eq!(
        shell
            .run("tty; readlink /proc/$$/fd/0; echo $EDITOR $MANPAGER; git var GIT_PAGER")
            .await
            .lines()
            .collect::<Vec<_>>(),
        ["not a tty", "/dev/null", "true cat", "cat"]
    );
}

#[tokio::test]
async fn p6_a_time_out_ends_whatever_resists_it() {
    let mut shell = Shell::start_with("tools.bash.background_tasks", "0").await;
    for command in [
        "echo begun; sleep 1000",
        "trap '' TERM INT HUP; echo begun; sleep 1000; sleep 1000",
        "echo begun; kill -STOP $$; echo never",
        "echo begun; setsid sh -c \"trap '' TERM; sleep 1000; sleep 1000\" & wait",
        "echo begun; while :; do :; done",
    ] {
        let answer = shell.call(&[json!({ "command": command, "timeout": 300 })]).await.remove(0);
        assert!(answer.starts_with("Error: begun\n"), "{command}: {answer}");
        assert!(answer.contains("timed out after 0.3 s"), "{command}: {answer}");
        shell.server.no_children().await;
    }
}

/// As many as one model may call. `make soak` runs a thousand.
#[tokio::test]
async fn p11_many_commands_leave_nothing_open() {
    let mut shell = Shell::start().await;
    let round = |number| -> Vec<Value> {
        (0..32).map(|call| json!({ "command": format!("echo {number}.{call} & wait") })).collect()
    };
    shell.call(&round(0)).await;
    let before = open_files(&shell.server);
    for number in 1..4 {
        let answers = shell.call(&round(number)).await;
        let expected: Vec<String> = (0..32).map(|call| format!("{number}.{call}")).collect();
        assert_eq!(answers, expected);
    }

    shell.server.no_children().await;
    assert_eq!(zombies(&shell.server), 0);
    let after = open_files(&shell.server);
    // A pooled connection more or less does not belong to the commands.
    assert!(after <= before + 4, "{before} before, {after} after");
}

#[tokio::test]
async fn p12_a_command_has_three_descriptors() {
    let mut shell = Shell::start().await;
    let answer = shell.run("ls /proc/$$/fd; ls -l /proc/self/fd | wc -l").await;
    // `ls` has one more for the directory that it reads; `ls -l` prints one line for the
    // sum.
    assert_eq!(answer.lines().map(str::trim).collect::<Vec<_>>(), ["0", "1", "2", "5"]);
}

#[tokio::test]
async fn p14_what_cannot_be_run_is_an_answer() {
    let mut shell = Shell::start().await;
    let gone = shell
        .call(&[
            json!({ "command": "mkdir sub; cd sub" }),
            json!({ "command": "python3 -c 'import os; os.rmdir(\"../sub\")'" }),
            json!({ "command": "pwd" }),
        ])
        .await;
    assert!(gone[1].contains("the working directory is"), "{gone:?}");
    assert_eq!(gone[2], shell.server.workspace().display().to_string());

    let long = "x".repeat(900_000);
    for (command, expected) in [
        (format!("/bin/true {long}"), "Argument list too long"),
        ("echo a\0b".to_owned(), "NUL"),
        ("/no/such/program".to_owned(), "Exit code 127"),
        ("./alive.txt".to_owned(), "Exit code 127"),
        ("cd /; exec /proc".to_owned(), "Exit code 126"),
    ] {
        let answer = shell.run(&command).await;
        assert!(answer.starts_with("Error: ") && answer.contains(expected), "{answer}");
    }
}

/// The process that becomes the command is large for a while. It must not be taken for one that
/// the command left behind.
#[tokio::test]
async fn p14_a_command_that_is_long_leaves_no_orphan() {
    let mut shell = Shell::start().await;
    let long = format!(": {}", "x".repeat(900_000));
    for _ in 0..20 {
        let answer = shell.run(&long).await;
        assert_eq!(answer, "(Bash completed with no output)");
    }
}

#[tokio::test]
async fn p15_how_a_command_ended_is_told() {
    let mut shell = Shell::start().await;
    for (command, expected) in [
        ("exit 0", "(Bash completed with no output)"),
        ("exit 256", "(Bash completed with no output)"),
        ("exit 257", "Error: Exit code 1"),
        ("exit -1", "Error: Exit code 255"),
        ("kill -9 $$", "Error: Killed by signal 9 (SIGKILL)"),
        ("kill -SEGV $$", "Error: Killed by signal 11 (SIGSEGV)"),
        ("kill -34 $$", "Error: Killed by signal 34"),
        ("sh -c 'kill -9 $$'; exit $?", "Exit code 137"),
    ] {
        let answer = shell.run(command).await;
        assert!(answer.ends_with(expected), "{command}: {answer}");
    }
}

#[tokio::test]
async fn p17_bytes_that_are_no_text_are_shown_as_such() {
    const NOTE: &str = "(bytes that are not UTF-8 are shown as \u{fffd})";
    let mut shell = Shell::start().await;
    for command in [
        "printf '\\377\\376\\200'",
        // A character cut off at the end, and one in two writes.
        "printf 'a\\342\\202'",
        "head -c 100000 /dev/urandom",
        "head -c 100001 /dev/zero | tr '\\0' '\\351'",
    ] {
        let answer = shell.run(command).await;
        assert!(answer.contains(NOTE), "{command}: {answer}");
    }
    let whole = shell.run("printf '\\342'; sleep 0.05; printf '\\202\\254'").await;
    assert_eq!(whole, "€");
    let cut = shell.run("yes '€' | head -c 400000 | tr -d '\\n'").await;
    assert!(cut.contains("characters left out"), "{cut}");
}
