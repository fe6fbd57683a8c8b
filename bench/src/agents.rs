//! Measures what subagents cost: several beside one, the time until one asks upstream, and what
//! running ones cost their parent.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::client::{Client, ask};
use super::process::{self, Process};
use super::report::{Bound, Report, median};
use super::upstream::{AGENTS, CHUNKS, FIRST_WORD, KNOWN, Upstream};

const RUNS: usize = 5;
/// Starts of agents whose latency is measured.
const STARTS: usize = 101;
/// How often one of the two servers is the one with the agents.
const TURNS: usize = 8;
/// Requests of each server in a turn, whose first word is waited for.
const REPEATS: usize = 101;
/// Requests before that, which are not counted.
const WARM_UP: usize = 100;
/// Agents of a session that have ended.
const ENDED: usize = 100;
/// As much as Read shows at once.
const LINES: usize = 2000;
/// Agents that run at once.
const RUNNING: usize = 4;

pub(crate) async fn measure(upstream: &Upstream, report: &mut Report) {
    let server = process::server(&upstream.url(), "").await;
    let one = turn(&server, 1).await;
    let four = turn(&server, 4).await;
    let detail = format!("{four:.0} ms, one {one:.0} ms");
    report.ratio("four subagents to one", four / one, Bound::AtMost(1.15), detail);

    upstream.start_latencies();
    let mut client = Client::connect(server.address, &start(1, "quick")).await;
    for _ in 0..STARTS {
        client.ask().await;
    }
    let latencies = upstream.start_latencies();
    let p50 = median(latencies.iter().map(|it| it.as_secs_f64() * 1000.0).collect());
    let detail = "with a hop over loopback each way".to_owned();
    let what = "sealed Task to the agent's request, p50";
    report.milliseconds(what, p50, Bound::AtMost(1.0), detail);

    first_words(upstream, report).await;
    ended(upstream, report).await;
}

/// What running agents cost the first word of another answer. Two servers take turns, request by
/// request, so that load on the machine affects both; each is the one with the agents for a while,
/// so that what tells one process from another affects both sides.
async fn first_words(upstream: &Upstream, report: &mut Report) {
    let servers =
        [process::server(&upstream.url(), "").await, process::server(&upstream.url(), "").await];
    let mut clients = Vec::new();
    for server in &servers {
        let mut client = Client::connect(server.address, &ask(CHUNKS, true, "none")).await;
        client.times_until(FIRST_WORD, WARM_UP).await;
        clients.push(client);
    }
    let (mut beside, mut alone) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        let busy = turn % servers.len();
        let mut running = Client::connect(servers[busy].address, &start(RUNNING, "hanging")).await;
        let mut hanging = JoinSet::new();
        hanging.spawn(async move { running.ask().await });
        upstream.agents_hang(RUNNING * (turn + 1)).await;
        for _ in 0..REPEATS {
            for (at, client) in clients.iter_mut().enumerate() {
                let times = if at == busy { &mut beside } else { &mut alone };
                times.push(client.time_until(FIRST_WORD).await);
            }
        }
        // Without its client the turn ends, and its agents with it.
        hanging.abort_all();
    }
    let (beside, alone) = (median(beside), median(alone));
    let detail = format!("{beside:.3} ms, {alone:.3} ms without");
    let what = "first word beside four running agents";
    report.ratio(what, beside / alone, Bound::AtMost(1.05), detail);
}

/// What agents that have ended cost a session that goes on: they are in the store. A restart in
/// between, because the allocator keeps pages of what ran before.
async fn ended(upstream: &Upstream, report: &mut Report) {
    let workspace = tempfile::tempdir().expect("a directory");
    let text = "A line that an agent knows.\n".repeat(LINES);
    fs::write(workspace.path().join(KNOWN), text).expect("a file");
    let mut megabytes = Vec::new();
    for agents in [RUNNING, ENDED] {
        let program = process::this_path();
        let server = process::server_in(&program, &upstream.url(), "", workspace.path()).await;
        let in_session = |mut body: Value| {
            body["toolhand"] = json!({ "session": "work", "history": "server" });
            body
        };
        let reading = in_session(start(RUNNING, "reading"));
        Client::connect(server.address, &reading).await.times(agents / RUNNING).await;
        let server = process::restarted(server, &upstream.url(), "").await;
        let going_on = in_session(ask(CHUNKS, true, "none"));
        Client::connect(server.address, &going_on).await.ask().await;
        megabytes.push(server.resident_megabytes());
    }
    let (few, many) = (megabytes[0], megabytes[1]);
    let detail = format!("{many:.1} MB, {few:.1} MB with {RUNNING}");
    let what = format!("memory, {ENDED} ended subagents of a session");
    report.megabytes(what, many - few, Bound::AtMost(2.0), detail);
}

/// A request whose model starts so many agents, which behave so.
fn start(agents: usize, behaviour: &str) -> Value {
    let mut body = ask(AGENTS, true, "none");
    let text = format!("Start {agents} agents: {behaviour}");
    body["messages"] = json!([{ "role": "user", "content": text }]);
    body
}

/// The duration of a turn with so many agents of three rounds each, in milliseconds.
async fn turn(server: &Process, agents: usize) -> f64 {
    let mut client = Client::connect(server.address, &start(agents, "paced")).await;
    median(client.times(RUNS).await)
}

/// What one round of a paced agent takes upstream.
pub(crate) const PACE: Duration = Duration::from_millis(100);
