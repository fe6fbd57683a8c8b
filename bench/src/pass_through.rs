//! Measures what the server adds to an answer without tool calls.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{Client, ask};
use super::process;
use super::report::{Bound, Report, median, percentile};
use super::upstream::{CHUNKS, FIRST_WORD, Upstream};

const CONNECTIONS: usize = 16;
/// How often both sides are measured, in turn, so that load on the machine affects both.
const WINDOWS: usize = 7;
const WINDOW: Duration = Duration::from_secs(1);
/// Sequential requests, to measure the time to the first token.
const SINGLES: usize = 1000;

/// How fast an answer without tool calls must pass, compared with the relay, which keeps nothing of
/// it: the server has committed each before its last chunk.
const PASS_THROUGH: Bound = Bound::AtLeast(0.8);

pub(crate) async fn measure(upstream: &Upstream, report: &mut Report) {
    let server = process::server(&upstream.url(), "").await;
    let relay = process::relay(&upstream.url()).await;
    let mut without_tools = ask(CHUNKS, false, "reasoning");
    without_tools["tool_choice"] = json!("none");
    for (what, body, bound) in [
        ("pass-through, streamed", ask(CHUNKS, true, "reasoning"), PASS_THROUGH),
        ("pass-through, unstreamed", ask(CHUNKS, false, "reasoning"), PASS_THROUGH),
        ("pass-through, unstreamed, no tools", without_tools, Bound::Free),
    ] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for window in 0..=WINDOWS {
            let bare = rate(relay.address, &body).await;
            let through = rate(server.address, &body).await;
            // The first window is a warm-up.
            if window > 0 {
                theirs.push(bare);
                ours.push(through);
            }
        }
        let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
        let detail = format!("{:.0}/s, relay {:.0}/s", median(ours), median(theirs));
        report.ratio(what, median(ratios), bound, detail);
    }
    first_token(upstream.address(), server.address, report).await;
}

/// Requests per second over all connections.
async fn rate(address: SocketAddr, body: &Value) -> f64 {
    let mut clients = JoinSet::new();
    let start = Instant::now();
    for _ in 0..CONNECTIONS {
        let mut client = Client::connect(address, body).await;
        clients.spawn(async move {
            let mut answers = 0_u32;
            while start.elapsed() < WINDOW {
                client.ask().await;
                answers += 1;
            }
            answers
        });
    }
    let answers: u32 = clients.join_all().await.into_iter().sum();
    f64::from(answers) / start.elapsed().as_secs_f64()
}

async fn first_token(upstream: SocketAddr, server: SocketAddr, report: &mut Report) {
    let body = ask(CHUNKS, true, "reasoning");
    let mut direct = Client::connect(upstream, &body).await;
    let mut through = Client::connect(server, &body).await;
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..SINGLES {
        theirs.push(direct.time_until(FIRST_WORD).await);
        ours.push(through.time_until(FIRST_WORD).await);
    }
    for (what, rank, most) in
        [("added to the first token, p50", 0.5, 1.0), ("added to the first token, p99", 0.99, 1.0)]
    {
        let (theirs, ours) = (percentile(&mut theirs, rank), percentile(&mut ours, rank));
        let detail = format!("{ours:.3} ms, without us {theirs:.3} ms");
        report.milliseconds(what, ours - theirs, Bound::AtMost(most), detail);
    }
}
