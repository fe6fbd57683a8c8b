//! Measures the server's memory and CPU time: idle, for large requests, for many ordinary
//! streams.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::table::Line;
use crate::support::chunks::{end, gate, says, text};
use crate::support::client::{ask_streamed, with};
use crate::support::resources;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

const IDLE_MIB: u64 = 40;
const STREAMS_MIB: u64 = 200;
const MIB: u64 = 1 << 20;

pub(super) async fn idle() -> Line {
    let mut line = Line::new("idle");
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(says("Hello."));
    let before = resources::open_files(&server);
    server.client().streamed(&ask_streamed("Hi")).await;
    line.runs = 1;
    line.leaves(resources::remains(&server, before).await, IDLE_MIB);
    line
}

/// V24: less than a second of CPU time, and memory below five times the request's size.
pub(super) async fn a_large_request() -> Line {
    let mut line = Line::new("a request of 20 MB (V24)");
    for (kind, members) in large_requests() {
        // A server for each, to measure its peak and its time.
        let upstream = Upstream::start();
        let server = Server::start(&upstream).await;
        upstream.round(says("Read."));
        let body = with(ask_streamed("Hi"), members);
        let size = body.to_string().len();
        let (rss, cpu) = (resources::memory(&server).now, resources::cpu_time(&server));
        server.client().streamed(&body).await;
        let grown = resources::memory(&server).peak - rss;
        let cpu = resources::cpu_time(&server).saturating_sub(cpu);
        #[expect(clippy::cast_precision_loss, reason = "a ratio to be read")]
        let ratio = grown as f64 / size as f64;
        line.runs += 1;
        line.note(format!("{kind}: {} ms, {ratio:.1} x its size", cpu.as_millis()));
        line.must(cpu < Duration::from_secs(1), || format!("{kind} took {cpu:?}"));
        line.must(ratio < 5.0, || format!("{kind} took {ratio:.1} times its size"));
    }
    line
}

/// One large text, and large numbers of small values.
pub(super) fn large_requests() -> Vec<(&'static str, Value)> {
    const SIZE: usize = 20 << 20;
    const CALLS: usize = 50_000;
    let content = |content: Value| json!({ "messages": [{ "role": "user", "content": content }] });
    let calls = |id: fn(usize) -> String| {
        let arguments = json!({ "text": "x".repeat(SIZE / CALLS - 100) }).to_string();
        let call = |number: usize| {
            let function = json!({ "name": "f", "arguments": arguments });
            json!({ "id": id(number), "type": "function", "function": function })
        };
        let calls: Vec<Value> = (0..CALLS).map(call).collect();
        let user = json!({ "role": "user", "content": "Go on." });
        json!({ "messages": [{ "role": "assistant", "tool_calls": calls }, user] })
    };
    let key = "k".repeat(SIZE / 120);
    let deep = (0..120).fold(json!({}), |inner, _| json!({ key.clone(): inner }));
    let keys: Map<String, Value> = (0..SIZE / 14).map(|n| (n.to_string(), json!(1))).collect();
    vec![
        ("plain", content("word ".repeat(SIZE / 5).into())),
        ("escapes", content("\"\n\\\t".repeat(SIZE / 8).into())),
        ("zero width", content("\u{200b}".repeat(SIZE / 3).into())),
        ("parts", content(vec![json!({ "type": "text", "text": "" }); SIZE / 26].into())),
        ("calls", calls(|number| format!("call_{number}"))),
        ("calls of one id", calls(|_| "call_0".to_owned())),
        ("deep metadata", json!({ "metadata": deep })),
        ("wide metadata", json!({ "metadata": keys })),
    ]
}

/// All streams are open and half sent before any continues.
pub(super) async fn ordinary_streams() -> Line {
    const STREAMS: usize = 1000;
    let mut line = Line::new("open streams");
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("limits.runs_per_key", "1000").start().await;
    let half = "Half of an answer of the usual length. ".repeat(10);
    let before = resources::open_files(&server);
    upstream.otherwise([vec![text(&half), gate("all"), text("The rest.")], end("stop")].concat());
    let mut streams = JoinSet::new();
    for _ in 0..STREAMS {
        let client = server.client();
        streams.spawn(async move {
            let mut stream = client.stream(&ask_streamed("Hi")).await;
            stream.until_text().await;
            stream
        });
    }
    let mut open = Vec::new();
    while let Some(stream) = streams.join_next().await {
        open.push(stream.expect("a stream"));
    }
    line.note(format!("{} MiB open", resources::memory(&server).now / MIB));
    upstream.open("all");
    let mut ended = 0;
    for stream in open {
        ended += usize::from(stream.finish().await.finish_reason.as_deref() == Some("stop"));
    }
    line.runs = STREAMS;
    line.terminal_events = Some(ended);
    line.leaves(resources::remains(&server, before).await, STREAMS_MIB);
    line
}
