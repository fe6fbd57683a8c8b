//! Measures how long the server takes to listen, and how much memory it uses: idle, and with
//! many open streams.

use tokio::time::Instant;

use super::client::{Client, ask};
use super::process::{self, Process};
use super::report::{Bound, Report, percentile};
use super::upstream::{CHUNKS, FIRST_WORD, OPEN, Upstream};

const STARTS: usize = 15;
const STREAMS: usize = 1000;

/// The server's own limit of turns for one key is lower.
const MANY_TURNS: &str = "limits.runs_per_key = 1024\n";

pub(crate) async fn measure(upstream: &Upstream, report: &mut Report) {
    start(upstream, report).await;
    let server = process::server(&upstream.url(), MANY_TURNS).await;
    Client::connect(server.address, &ask(CHUNKS, true, "reasoning")).await.ask().await;
    let idle = server.resident_megabytes();
    report.megabytes("memory, idle", idle, Bound::AtMost(30.0), "after one answer".to_owned());
    open_streams(&server, report).await;
}

/// From the start of the process to the line that tells its address.
async fn start(upstream: &Upstream, report: &mut Report) {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let start = Instant::now();
        let server = process::server(&upstream.url(), "").await;
        times.push(start.elapsed().as_secs_f64() * 1000.0);
        drop(server);
    }
    let slowest = percentile(&mut times, 1.0);
    let detail = format!("of {STARTS} starts, the slowest {slowest:.1} ms");
    let what = "from start to listening, p50";
    report.milliseconds(what, percentile(&mut times, 0.5), Bound::AtMost(50.0), detail);
}

async fn open_streams(server: &Process, report: &mut Report) {
    let body = ask(OPEN, true, "reasoning");
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        let mut client = Client::connect(server.address, &body).await;
        client.begin(FIRST_WORD).await;
        open.push(client);
    }
    let detail = "each has had its first word".to_owned();
    let megabytes = server.resident_megabytes();
    report.megabytes("memory, 1,000 open streams", megabytes, Bound::AtMost(110.0), detail);
}
