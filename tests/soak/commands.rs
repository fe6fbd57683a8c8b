//! Runs many commands, some of which try everything to outlive their call.

use serde_json::{Value, json};

use super::table::Line;
use crate::support::chunks::{calls, says};
use crate::support::client::ask;
use crate::support::resources;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

const RUNS: usize = 1000;
/// Calls in one round.
const CALLS: usize = 25;

/// One kind holds the output open, which costs half a second each time. Each process that
/// stays has the workspace's path in its command line, so that a survivor would be found.
const KINDS: [&str; 8] = [
    "echo quick",
    "ls / | wc -l; false",
    "sh -c 'sleep 1000' \"$PWD\" & echo plain",
    "setsid sh -c 'sleep 1000; :' \"$PWD\" >/dev/null 2>&1 & echo session",
    "nohup sh -c 'sleep 1000; :' \"$PWD\" >/dev/null 2>&1 & echo nohup",
    "(setsid sh -c 'sleep 1000; :' \"$PWD\" >/dev/null 2>&1 &) ; echo double",
    "env -i setsid sh -c 'cd /; sleep 1000; :' \"$PWD\" >/dev/null 2>&1 & echo clean",
    "python3 -c 'import os, time\nfor step in range(2):\n  if os.fork(): os._exit(0)\n  os.setsid()\nos.chdir(\"/\")\nfor fd in range(3): os.close(fd)\ntime.sleep(1000)' \"$PWD\"; echo daemon",
];

pub(super) async fn commands() -> Line {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    run_all(Line::new("commands (R6)"), &upstream, server).await
}

/// The same at one level of the sandbox. Where it does not hold, nothing is answered.
pub(super) async fn commands_in(what: &'static str, level: &'static str) -> Line {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .argument("--sandbox=required")
        .argument("--permission-mode=bypassPermissions")
        .config("sandbox.use", &format!("[\"{level}\"]"))
        .start()
        .await;
    run_all(Line::new(what), &upstream, server).await
}

async fn run_all(mut line: Line, upstream: &Upstream, server: Server) -> Line {
    round(upstream, &server, 0).await;
    let before = resources::open_files(&server);
    let mut answered = 0;
    for turn in 0..RUNS / CALLS {
        answered += round(upstream, &server, turn).await;
    }
    line.runs = RUNS;
    line.note(format!("{answered} answered, of {} kinds", KINDS.len()));
    line.must(answered == RUNS, || format!("{answered} answers"));
    line.leaves(resources::remains(&server, before).await, 100);
    line
}

/// Runs a turn with one round of calls. Returns how many were answered.
async fn round(upstream: &Upstream, server: &Server, turn: usize) -> usize {
    let ids: Vec<String> = (0..CALLS).map(|call| format!("c{turn}-{call}")).collect();
    let round: Vec<(&str, &str, Value)> = ids
        .iter()
        .enumerate()
        .map(|(call, id)| {
            let command = KINDS[(turn + call) % KINDS.len()];
            (id.as_str(), "Bash", json!({ "command": command }))
        })
        .collect();
    let asked = upstream.requests().len();
    upstream.round(calls(&round));
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
    crate::turn::answers(upstream, asked + 1).await.len()
}
