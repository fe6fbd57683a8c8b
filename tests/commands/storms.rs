//! Kills servers while their commands start, and looks for what is left after the next start.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::pipe;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::chunks::calls;
use crate::support::client::ask_streamed;
use crate::support::processes::{children, living_parent, wait_for_end};
use crate::support::resources::processes_of;
use crate::support::seeded::SeededRandom;
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::support::watch;

/// Commands that start at the same time.
const CALLS: usize = 6;

/// How often the processes are looked at before a kill, at most: some tenths of a second.
const LOOKS: usize = 400;

/// A server in the directories of another one.
fn over(upstream: &Upstream, files: &Server) -> Builder {
    Server::builder(upstream)
        .argument("--permission-mode=bypassPermissions")
        .argument(&format!("--state-dir={}", files.state_dir().display()))
        .argument(&format!("--workspace={}", files.workspace().display()))
}

/// Kills a server at random moments in which it starts commands. Panics if anything of it is
/// left when the next one has started.
pub(crate) async fn kill_while_commands_start(kills: usize, seed: u64) {
    let mut random = SeededRandom::new(seed, 0);
    let upstream = Upstream::start();
    let ids: Vec<String> = (0..CALLS).map(|number| format!("c{number}")).collect();
    let quick = json!({ "command": "ls" });
    let round: Vec<(&str, &str, Value)> =
        ids.iter().map(|id| (id.as_str(), "Bash", quick.clone())).collect();
    upstream.otherwise(calls(&round));
    let mut files = Server::start(&upstream).await;
    assert!(files.stop().expect("a status").success());
    for _ in 0..kills {
        let mut server = over(&upstream, &files).start().await;
        let _stream = watch("the turn", server.client().stream(&ask_streamed("Run."))).await;
        let process = server.pid();
        let looks = random.below(LOOKS);
        let looking = tokio::task::spawn_blocking(move || {
            while children(process).is_empty() {}
            (0..looks).filter(|_| children(process).is_empty()).count()
        });
        watch("its commands to start", looking).await.expect("no panic");
        kill_process(process, Signal::KILL).expect("our child");
        server.stop();
        drop(over(&upstream, &files).start().await);
        for left in processes_of(&files.workspace()) {
            wait_for_end(left);
        }
    }
}

#[tokio::test]
async fn p20_a_killed_server_leaves_no_command_that_was_about_to_start() {
    kill_while_commands_start(8, 34).await;
}

/// What stands for missing files while a command runs goes with the server, and not only at the
/// next start.
#[tokio::test]
async fn p21_a_killed_server_leaves_no_placeholder_in_the_workspace() {
    let mut bubblewrap = Command::new("bwrap");
    bubblewrap.args(["--unshare-all", "--ro-bind", "/", "/", "true"]);
    if !bubblewrap.status().is_ok_and(|status| status.success()) {
        return;
    }
    let upstream = Upstream::start();
    upstream.otherwise(calls(&[("c", "Bash", json!({ "command": "sleep 1000" }))]));
    let mut files = Server::start(&upstream).await;
    assert!(files.stop().expect("a status").success());
    let mut server = over(&upstream, &files).start().await;
    let _stream = watch("the turn", server.client().stream(&ask_streamed("Run."))).await;
    let placeholder = files.workspace().join(".claude");
    let is_there = async |wanted: bool| {
        while placeholder.exists() != wanted {
            tokio::task::yield_now().await;
        }
    };
    watch("the command to start", is_there(true)).await;
    kill_process(server.pid(), Signal::KILL).expect("our child");
    server.stop();
    watch("the placeholder to go", is_there(false)).await;
    let left = std::fs::read_dir(files.workspace()).expect("a workspace").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name == ".mcp.json"), "{left:?}");
}

/// A bubblewrap that waits halfway through its start, until its outer half is killed.
struct HalfStarted {
    outer: Child,
    inner: Pid,
    /// Keeps the inner half waiting.
    _gate: OwnedFd,
}

impl HalfStarted {
    /// `None`: it does not work on this machine.
    fn new(last_arguments: &[&str]) -> Option<Self> {
        let (waiting, gate) = pipe().expect("a pipe");
        fcntl_setfd(&gate, FdFlags::CLOEXEC).expect("our own");
        let outer = Command::new("/usr/bin/bwrap")
            .args(["--unshare-all", "--as-pid-1", "--ro-bind", "/", "/", "--block-fd"])
            .arg(waiting.as_raw_fd().to_string())
            .args(["--", "/proc/self/fd/9"])
            .args(last_arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let mut outer = outer.ok()?;
        let process = Pid::from_child(&outer);
        let inner = loop {
            if let Some(inner) = children(process).pop() {
                break inner;
            }
            if outer.try_wait().expect("our child").is_some() {
                return None;
            }
        };
        Some(Self { outer, inner, _gate: gate })
    }

    fn lose_outer(&mut self) {
        self.outer.kill().expect("our child");
        self.outer.wait().expect("our child");
    }

    fn lives(&self) -> bool {
        living_parent(self.inner).is_some()
    }
}

impl Drop for HalfStarted {
    fn drop(&mut self) {
        let _gone = self.outer.kill();
        let _reaped = self.outer.wait();
        let _gone = kill_process(self.inner, Signal::KILL);
    }
}

#[tokio::test]
async fn p20_a_start_ends_what_was_half_started_and_no_foreign_process() {
    let ours = ["__supervise", "8"];
    let Some(mut orphan) = HalfStarted::new(&ours) else { return };
    let mut foreign = HalfStarted::new(&["supervise"]).expect("it works");
    let starting = HalfStarted::new(&ours).expect("it works");
    orphan.lose_outer();
    foreign.lose_outer();
    assert!(orphan.lives() && foreign.lives() && starting.lives());
    let upstream = Upstream::start();

    let server = Server::start(&upstream).await;

    wait_for_end(orphan.inner);
    assert!(foreign.lives(), "somebody else's");
    assert!(starting.lives(), "another server's, whose commands start right now");
    drop(server);
}
