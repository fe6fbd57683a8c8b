//! Measures what a long transcript costs, and what stored sessions cost.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::client::{Client, ask};
use super::process::{self, Process};
use super::report::{Bound, Report, median};
use super::upstream::{self, CHUNKS, FIRST_WORD, PLAIN, STEPS, Upstream};

/// The visible messages of the transcripts; each answer has one hidden call and its answer.
const LONG: usize = 2000;
const SHORT: usize = 500;
/// How often each transcript is sent.
const REPEATS: usize = 31;
const STORED: usize = 10_000;
/// Connections that fill the store.
const CONNECTIONS: usize = 16;

pub(crate) async fn measure(upstream: &Upstream, report: &mut Report) {
    transcripts(upstream, report).await;
    stored(upstream, report).await;
}

/// What a transcript with hidden steps adds to a request, beside a relay that copies bytes.
async fn transcripts(upstream: &Upstream, report: &mut Report) {
    let server = process::server(&upstream.url(), "").await;
    let relay = process::relay(&upstream.url()).await;
    let mut messages = vec![question(0)];
    let mut added = Vec::new();
    for length in [SHORT, LONG] {
        while messages.len() < length {
            Client::connect(server.address, &request(&messages)).await.ask().await;
            messages.push(json!({ "role": "assistant", "content": upstream::text() }));
            messages.push(question(messages.len()));
        }
        added.push(time(&server, &messages).await - time(&relay, &messages).await);
    }
    let [short, long] = added[..] else { return };
    let detail = format!("{SHORT} messages add {short:.3} ms");
    report.milliseconds("added by 2,000 messages", long, Bound::AtMost(5.0), detail);
    let detail = format!("{long:.3} ms, {short:.3} ms");
    report.ratio("2,000 messages to 500", long / short, Bound::AtMost(6.0), detail);
}

fn question(number: usize) -> Value {
    json!({ "role": "user", "content": format!("Question {number}: say twenty words.") })
}

fn request(messages: &[Value]) -> Value {
    let mut request = ask(STEPS, true, "none");
    request["messages"] = messages.into();
    request
}

/// The time to the first word of an answer without a call, in milliseconds.
async fn time(process: &Process, messages: &[Value]) -> f64 {
    let mut request = request(messages);
    let last = messages.len() - 1;
    request["messages"][last]["content"] = json!(format!("{PLAIN}say twenty words."));
    let mut client = Client::connect(process.address, &request).await;
    median(client.times_until(FIRST_WORD, REPEATS).await)
}

/// What sessions on disk cost a server that does not use them.
async fn stored(upstream: &Upstream, report: &mut Report) {
    let empty = process::server(&upstream.url(), "").await;
    let mut clients = JoinSet::new();
    let filled = process::server(&upstream.url(), "").await;
    for _ in 0..CONNECTIONS {
        let mut client = Client::connect(filled.address, &ask(CHUNKS, true, "none")).await;
        clients.spawn(async move {
            for _ in 0..STORED / CONNECTIONS {
                client.ask().await;
            }
        });
    }
    clients.join_all().await;
    let filled = process::restarted(filled, &upstream.url(), "").await;
    for server in [&empty, &filled] {
        Client::connect(server.address, &ask(CHUNKS, true, "none")).await.ask().await;
    }
    let (filled, empty) = (filled.resident_megabytes(), empty.resident_megabytes());
    let detail = format!("{filled:.1} MB, {empty:.1} MB without");
    let what = "memory, 10,000 stored sessions";
    report.megabytes(what, filled - empty, Bound::AtMost(2.0), detail);
}
