//! Measures what subagents cost: several beside one, the time until one asks upstream, and what
//! running ones cost their parent.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::client::{Client, ask};
use super::process::{self, Process};
use super::report::{Bound, Report, median};
use super::upstream::{AGENTS, CHUNKS, FIRST_WORD, Upstream};

const RUNS: usize = 5;
/// Starts of agents whose latency is measured.
const STARTS: usize = 101;
/// Requests whose first word is waited for.
const REPEATS: usize = 101;
/// Agents that run meanwhile.
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

    let alone = first_word(&server).await;
    let mut running = Client::connect(server.address, &start(RUNNING, "hanging")).await;
    let mut hanging = JoinSet::new();
    hanging.spawn(async move { running.ask().await });
    upstream.agents_hang(RUNNING).await;
    let beside = first_word(&server).await;
    hanging.abort_all();
    let detail = format!("{beside:.3} ms, {alone:.3} ms without");
    let what = "first word beside four running agents";
    report.ratio(what, beside / alone, Bound::AtMost(1.05), detail);
}

/// A request whose model starts so many agents, which behave so.
fn start(agents: usize, behaviour: &str) -> serde_json::Value {
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

/// The time to the first word of an answer without tools, in milliseconds.
async fn first_word(server: &Process) -> f64 {
    let mut client = Client::connect(server.address, &ask(CHUNKS, true, "none")).await;
    median(client.times_until(FIRST_WORD, REPEATS).await)
}

/// What one round of a paced agent takes upstream.
pub(crate) const PACE: Duration = Duration::from_millis(100);
