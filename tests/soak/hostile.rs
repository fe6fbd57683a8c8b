//! Measures many simultaneous streams whose peers try to exhaust the memory.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::memory::large_requests;
use super::table::Line;
use crate::support::chunks::{call_head, call_piece, flood, raw, reasoning, says, text};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::http::{Framing, Reader};
use crate::support::resources;
use crate::support::server::Server;
use crate::support::upstream::{Step, Upstream};

const STREAMS: usize = 200;
const SIXTY: usize = 60;
const MAX_MIB: u64 = 512;
/// Freed memory is back with the system within this time.
const QUIET: Duration = Duration::from_secs(60);
/// What a server may keep of an attack: bounded caches, and pages that are partly in use.
const MAX_KEPT_MIB: u64 = 24;
/// `limits.slow_client` of this server.
const SLOW_CLIENT: Duration = Duration::from_secs(3);

/// What upstream sends without end for a model with this name.
fn kinds() -> Vec<(&'static str, Vec<Step>)> {
    let words = "All work and no play makes Jack a dull boy. ".repeat(20);
    vec![
        ("line", vec![raw("data: "), flood(raw("x".repeat(1 << 16)))]),
        ("whole", vec![raw("{\"choices\": \""), flood(raw("x".repeat(1 << 16)))]),
        ("long-deltas", vec![flood(text(&words.repeat(1000)))]),
        ("deltas", vec![flood(text(&words))]),
        ("reasoning", vec![flood(reasoning(&words))]),
        ("calls", vec![call_head(0, "c", "Read"), flood(call_head(1, "", "Read"))]),
        ("comments", vec![flood(raw(": nothing\n\n".repeat(1000)))]),
        ("nulls", vec![flood(raw(format!("data: {}\n\n", json!({ "choices": [] }))))]),
    ]
}

/// How the client reads meanwhile.
#[derive(Clone, Copy, Debug)]
enum Reading {
    Streamed,
    /// In one piece.
    Whole,
    /// Nothing until the server has given up, and then the rest.
    Late,
    /// A little at a time.
    Slowly,
    /// As much as comes, then nothing for a while.
    WithPauses,
}

/// A hostile stream: what upstream sends, and how its client reads.
type Hostile = (&'static str, Vec<Step>, Reading);

/// Two hundred streams of every kind, each kind with every way of reading.
pub(super) async fn streams() -> Line {
    let mut line = Line::new("hostile streams (R7)");
    attack(&mut line, "", all_kinds()).await;
    line
}

fn all_kinds() -> impl Iterator<Item = Hostile> {
    let kinds = kinds();
    let readings = [Reading::Streamed, Reading::Whole, Reading::Late, Reading::Slowly];
    (0..STREAMS).map(move |number| {
        let (model, steps) = kinds[number % kinds.len()].clone();
        (model, steps, readings[number / kinds.len() % readings.len()])
    })
}

/// Sixty streams of each kind at a server of its own, so that each kind has its own peak.
pub(super) async fn sixty_of_a_kind() -> Line {
    let mut line = Line::new("sixty of a kind (R7)");
    for hostile in worst() {
        attack(&mut line, hostile.0, std::iter::repeat_n(hostile.clone(), SIXTY)).await;
    }
    let mixed = worst().into_iter().cycle().take(SIXTY);
    attack(&mut line, "mixed", mixed).await;
    line
}

/// The kinds that came closest to the limit.
fn worst() -> Vec<Hostile> {
    let words = "All work and no play makes Jack a dull boy. ".repeat(20);
    let long = flood(text(&words.repeat(20)));
    let pieces = flood(call_piece(0, &"x".repeat(30_000)));
    let arguments = call_piece(0, r#"{"file_path": "a", "content": ""#);
    vec![
        ("line", vec![raw("data: "), flood(raw("x".repeat(1 << 16)))], Reading::Streamed),
        ("paused", vec![long.clone()], Reading::WithPauses),
        ("unread", vec![long], Reading::Late),
        ("arguments", vec![call_head(0, "c", "Write"), arguments, pieces], Reading::Streamed),
    ]
}

/// What the server has grown by when it was attacked with everything and has been quiet for a
/// minute.
pub(super) async fn memory_after_a_minute() -> Line {
    let mut line = Line::new("memory after a minute of quiet");
    let upstream = Upstream::start();
    let server = endured(&upstream).await;
    // The first turn loads what every turn needs.
    upstream.round(says("Hello."));
    server.client().streamed(&ask_streamed("Hi")).await;
    sleep(QUIET).await;
    let before = resources::memory(&server).now;
    attack_on(&mut line, "hostile", (&upstream, &server), all_kinds()).await;
    for (_, members) in large_requests() {
        upstream.round(says("Read."));
        server.client().streamed(&with(ask_streamed("Hi"), members)).await;
    }
    let busy = resources::memory(&server).now;
    sleep(QUIET).await;
    let after = resources::memory(&server).now;
    line.note(format!(
        "{} MiB, {} behind the last turn, then {}",
        before >> 20,
        busy >> 20,
        after >> 20
    ));
    let grown = after.saturating_sub(before) >> 20;
    line.must(grown <= MAX_KEPT_MIB, || format!("{grown} MiB of {MAX_KEPT_MIB} MiB are kept"));
    line
}

async fn attack(line: &mut Line, name: &str, streams: impl Iterator<Item = Hostile>) {
    let upstream = Upstream::start();
    let server = endured(&upstream).await;
    attack_on(line, name, (&upstream, &server), streams).await;
}

/// A server that is attacked.
async fn endured(upstream: &Upstream) -> Server {
    let slow_client = format!("\"{}s\"", SLOW_CLIENT.as_secs());
    Server::builder(upstream)
        .config("limits.slow_client", &slow_client)
        .config("upstream.retries", "0")
        .config("turns.max_duration", r#""60s""#)
        .start()
        .await
}

async fn attack_on(
    line: &mut Line,
    name: &str,
    (upstream, server): (&Upstream, &Server),
    streams: impl Iterator<Item = Hostile>,
) {
    // A call whose arguments are too long is answered, and the model asked again.
    upstream.otherwise(vec![raw("data: nonsense\n\n")]);
    let before = resources::open_files(server);
    let mut running = JoinSet::new();
    for (model, steps, reading) in streams {
        upstream.round_of(model, steps);
        let is_streamed = !matches!(reading, Reading::Whole);
        let body = with(ask("Hi"), json!({ "model": model, "stream": is_streamed }));
        let client = server.client();
        running.spawn(async move { ending(client.start(&body).await, reading).await });
    }
    line.runs += running.len();
    while let Some(ending) = running.join_next().await {
        let ending = ending.expect("no panic");
        *line.terminal_events.get_or_insert_default() += usize::from(ending.errors == 1);
        *line.false_stops.get_or_insert_default() += ending.stops;
    }
    let remains = resources::remains(server, before).await;
    let (sent, peak) = (upstream.flooded() >> 20, remains.peak >> 20);
    line.note(format!("{name} {peak} MiB of {sent} MiB sent by upstream").trim().to_owned());
    line.leaves(remains, MAX_MIB);
}

/// What a client has received.
#[derive(Debug, Default)]
struct Ending {
    errors: usize,
    stops: usize,
}

async fn ending(mut answer: Reader<TcpStream>, reading: Reading) -> Ending {
    let pause = match reading {
        Reading::Slowly => Duration::from_millis(1),
        Reading::WithPauses => Duration::from_millis(100),
        Reading::Late => {
            sleep(2 * SLOW_CLIENT).await;
            Duration::ZERO
        }
        _ => Duration::ZERO,
    };
    let Ok(Some(head)) = answer.head().await else { return Ending::default() };
    let mut framing = head.framing(Framing::ToEnd);
    let mut ending = Ending::default();
    let mut tail = Vec::new();
    while let Ok(Some(piece)) = answer.piece(&mut framing).await {
        // Keeps only the last event, whole.
        tail.extend_from_slice(&piece);
        tail.drain(..tail.len().saturating_sub(4096));
        sleep(pause).await;
    }
    let text = String::from_utf8_lossy(&tail);
    if head.status() == 200 {
        ending.errors = text.matches("data: {\"error\":").count();
        ending.stops = text.matches("\"finish_reason\":\"stop\"").count();
    } else {
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        ending.errors = usize::from(body["error"]["code"].is_string());
    }
    ending
}
