//! Measures how much of a turn's time its tools cost.

use std::net::SocketAddr;
use std::time::Duration;

use super::client::{Client, ask};
use super::process::{self, Process};
use super::report::{Bound, Report, median};
use super::upstream::{BRACE, CHUNKS, INTENT, Script, TIMED, Upstream};

/// One second of the script, scaled down to keep the bench short.
const SECOND: Duration = Duration::from_millis(300);
const RUNS: usize = 3;
const BRACES: usize = 200;

/// A call with an effect runs without asking.
const ALLOWED: &str = "permissions.allow = [\"Act\"]\n";
const ONE_AFTER_THE_OTHER: &str = "turns.max_parallel_tools = 1\n";
const AFTER_STREAM: &str = "[[models]]\nmatch = \"*\"\nstart = \"after_stream\"\n";

pub(crate) async fn measure(upstream: &Upstream, report: &mut Report) {
    let server = process::server(&upstream.url(), ALLOWED).await;
    let waiting = process::server(&upstream.url(), AFTER_STREAM).await;
    let settings = format!("{ONE_AFTER_THE_OTHER}{AFTER_STREAM}");
    let one_by_one = process::server(&upstream.url(), &settings).await;
    let script = script();
    upstream.script(script.clone());

    let ours = turn(&server).await;
    let parallel = turn(&waiting).await;
    let serial = turn(&one_by_one).await;
    let next_round = plain(upstream.address()).await;
    let last = script.closes.iter().max().expect("some calls");
    let streamed = (*last + script.waits).max(script.ends).as_secs_f64() * 1000.0;
    let bound = streamed + next_round;

    let detail = format!("{ours:.0} ms, bound {bound:.0} ms");
    report.ratio("overlap: turn to physical bound", ours / bound, Bound::AtMost(1.02), detail);
    let detail = format!("{ours:.0} ms, waiting {serial:.0} ms");
    let what = "against waiting, one call at a time";
    report.ratio(what, ours / serial, Bound::AtMost(0.6), detail);
    let detail = format!("{ours:.0} ms, waiting {parallel:.0} ms");
    report.ratio("against waiting, parallel calls", ours / parallel, Bound::Free, detail);
    start_latency(upstream, &server, report).await;
}

/// Five calls of two seconds each, which close while the model speaks for eight.
fn script() -> Script {
    let closes = [1.0, 2.5, 4.0, 5.5, 7.0];
    Script {
        closes: closes.into_iter().map(|second| SECOND.mul_f64(second)).collect(),
        waits: SECOND * 2,
        ends: SECOND * 8,
    }
}

/// The duration of the scripted turn, in milliseconds.
async fn turn(server: &Process) -> f64 {
    let mut client = Client::connect(server.address, &ask(TIMED, true, "reasoning")).await;
    median(client.times(RUNS).await)
}

/// The duration of an answer without tools straight from upstream, in milliseconds: the least
/// that a further round takes.
async fn plain(upstream: SocketAddr) -> f64 {
    let mut client = Client::connect(upstream, &ask(CHUNKS, true, "reasoning")).await;
    client.ask().await;
    median(client.times(RUNS).await)
}

/// Measures the time from the last brace leaving upstream to the tool's start. It
/// includes a hop over loopback.
async fn start_latency(upstream: &Upstream, server: &Process, report: &mut Report) {
    let looks = start_p50(upstream, server, BRACE).await;
    let acts = start_p50(upstream, server, INTENT).await;
    let detail = "with a hop over loopback".to_owned();
    let what = "last brace to tool start, p50";
    report.milliseconds(what, looks, Bound::AtMost(0.2), detail);
    let detail = format!("{acts:.3} ms to the start, {looks:.3} ms without");
    report.milliseconds("an intent is committed, p50", acts - looks, Bound::AtMost(1.0), detail);
}

/// The time from the last brace to the start of the tool of this answer.
async fn start_p50(upstream: &Upstream, server: &Process, model: &str) -> f64 {
    let mut client = Client::connect(server.address, &ask(model, true, "events")).await;
    for _ in 0..BRACES {
        client.ask().await;
    }
    let latencies = upstream.start_latencies();
    median(latencies.iter().map(|latency| latency.as_secs_f64() * 1000.0).collect())
}
