//! Tests that commands leave nothing behind, however the server ends.

mod foreground;
pub(crate) mod storms;

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::chunks::{calls, says};
use crate::support::client::{ask, ask_streamed};
use crate::support::processes::living_parent;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::support::watch;

/// Enough to exceed every limit on open files if each round leaked a few.
const ROUNDS: usize = 8;
const CALLS: usize = 8;

#[tokio::test]
async fn many_commands_cost_the_server_nothing() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let command = "(setsid sleep 1000 >/dev/null 2>&1 &); echo done";
    turn(&upstream, &server, &bash_calls(1, command)).await;
    server.spare_supervisor().await;
    let before = Descriptors::from_process(server.pid());

    for _ in 0..ROUNDS {
        turn(&upstream, &server, &bash_calls(CALLS, command)).await;
    }

    server.no_children().await;
    server.spare_supervisor().await;
    assert_eq!(zombies_of(server.pid()), Vec::<String>::new());
    let after = Descriptors::from_process(server.pid());
    assert_eq!((after.pipes, after.processes), (before.pipes, before.processes));
    // A connection of the test may still be open, or have closed since.
    assert!(after.sockets < before.sockets + CALLS, "{before:?} {after:?}");
}

#[tokio::test]
async fn a_server_that_is_killed_takes_its_commands_with_it() {
    let upstream = Upstream::start();
    let mut server = Server::builder(&upstream).free().start().await;
    let gate = server.workspace().join("gate");
    mkfifoat(CWD, &gate, Mode::RWXU).unwrap();
    let command =
        "trap '' TERM; exec 3>gate; setsid bash -c 'trap \"\" TERM; sleep 1000; :' & wait";
    upstream.round(calls(&[("c1", "Bash", json!({ "command": command }))]));
    let client = server.client();
    let _stream = watch("the head of the turn", client.stream(&ask_streamed("Run it"))).await;
    let open = watch("the command", tokio::task::spawn_blocking(|| File::open(gate))).await;

    kill_process(server.pid(), Signal::KILL).unwrap();

    // Every process of the command holds the gate open.
    let mut open = open.unwrap().unwrap();
    let closed = tokio::task::spawn_blocking(move || open.read_to_end(&mut Vec::new()));
    watch("the end of the command", closed).await.unwrap().unwrap();
    assert!(!server.stop().unwrap().success());
}

#[tokio::test]
async fn p20_a_spare_supervisor_ends_with_its_server() {
    for signal in [Signal::KILL, Signal::TERM] {
        let upstream = Upstream::start();
        let mut server = Server::builder(&upstream).free().start().await;
        turn(&upstream, &server, &bash_calls(1, "echo done")).await;
        let spare = server.spare_supervisor().await;
        assert_eq!(living_parent(spare), Some(server.pid().as_raw_nonzero().get()));

        if signal == Signal::KILL {
            kill_process(server.pid(), signal).unwrap();
        } else {
            server.terminate();
        }

        // It waits for the end of the spare, too.
        assert_eq!(server.stop().unwrap().success(), signal == Signal::TERM);
        assert_eq!(living_parent(spare), None);
    }
}

fn bash_calls(count: usize, command: &str) -> Vec<(String, Value)> {
    (0..count).map(|number| (format!("c{number}"), json!({ "command": command }))).collect()
}

async fn turn(upstream: &Upstream, server: &Server, bash: &[(String, Value)]) {
    let round: Vec<(&str, &str, Value)> =
        bash.iter().map(|(id, input)| (id.as_str(), "Bash", input.clone())).collect();
    upstream.round(calls(&round));
    upstream.round(says("Done."));
    let answer = server.client().chat(&ask("Run them")).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

#[derive(Debug)]
struct Descriptors {
    pipes: usize,
    processes: usize,
    sockets: usize,
}

impl Descriptors {
    fn from_process(process: Pid) -> Self {
        let directory = format!("/proc/{}/fd", process.as_raw_nonzero());
        let entries = fs::read_dir(directory).expect("our server").flatten();
        let targets: Vec<_> =
            entries.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
        let count = |kind: &str| {
            targets.iter().filter(|target| target.to_string_lossy().contains(kind)).count()
        };
        Self { pipes: count("pipe:"), processes: count("pidfd"), sockets: count("socket:") }
    }
}

/// The status lines of children that have ended and were not reaped.
fn zombies_of(parent: Pid) -> Vec<String> {
    let parent = format!(") Z {} ", parent.as_raw_nonzero());
    let stat = |process: &Path| fs::read_to_string(process.join("stat")).ok();
    let processes = fs::read_dir("/proc").expect("procfs").flatten();
    let lines = processes.filter_map(|process| stat(&process.path()));
    lines.filter(|line| line.contains(&parent)).collect()
}
