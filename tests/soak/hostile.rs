//! Two hundred streams at once, of peers that do all to fill the memory.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::table::Line;
use crate::support::chunks::{call_head, flood, raw, reasoning, text};
use crate::support::client::{ask, with};
use crate::support::gauge;
use crate::support::http::{Framing, Reader};
use crate::support::server::Server;
use crate::support::upstream::{Step, Upstream};

const STREAMS: usize = 200;
const MOST_MIB: u64 = 512;
/// `limits.slow_client` of this server.
const SLOW_CLIENT: Duration = Duration::from_secs(3);

/// What upstream does to a model of this name, without end.
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

/// What its client does meanwhile.
#[derive(Clone, Copy, Debug)]
enum Reading {
    Streamed,
    /// In one piece.
    Whole,
    /// Nothing until it has been given up, and then on.
    Late,
    /// A little at a time.
    Slowly,
}

pub(super) async fn streams() -> Line {
    let mut line = Line::new("hostile streams (R7)");
    let upstream = Upstream::start();
    let slow_client = format!("\"{}s\"", SLOW_CLIENT.as_secs());
    let server = Server::builder(&upstream)
        .config("limits.slow_client", &slow_client)
        .config("upstream.retries", "0")
        .config("turns.max_duration", r#""60s""#)
        .start()
        .await;
    let before = gauge::open_files(&server);
    let kinds = kinds();
    let readings = [Reading::Streamed, Reading::Whole, Reading::Late, Reading::Slowly];
    let mut streams = JoinSet::new();
    for number in 0..STREAMS {
        let (model, steps) = &kinds[number % kinds.len()];
        let reading = readings[number / kinds.len() % readings.len()];
        upstream.round_of(model, steps.clone());
        let is_streamed = !matches!(reading, Reading::Whole);
        let body = with(ask("Hi"), json!({ "model": model, "stream": is_streamed }));
        let client = server.client();
        streams.spawn(async move { ending(client.start(&body).await, reading).await });
    }
    let (mut terminal_events, mut false_stops) = (0, 0);
    while let Some(ending) = streams.join_next().await {
        let ending = ending.expect("no panic");
        terminal_events += usize::from(ending.errors == 1);
        false_stops += ending.stops;
    }
    line.runs = STREAMS;
    line.terminal_events = Some(terminal_events);
    line.false_stops = Some(false_stops);
    line.note(format!("{} MiB sent by upstream", upstream.flooded() >> 20));
    line.leaves(gauge::remains(&server, before).await, MOST_MIB);
    line
}

/// What a client has seen.
#[derive(Debug, Default)]
struct Ending {
    errors: usize,
    stops: usize,
}

async fn ending(mut answer: Reader<TcpStream>, reading: Reading) -> Ending {
    let pause = match reading {
        Reading::Slowly => Duration::from_millis(1),
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
        // The last event, whole, is all that is looked at.
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
