//! Plays random conversations with MCP servers that fail in many ways, programs and over HTTP.
//! No call may be sent twice, each must be answered to the model once and truly, each turn must
//! end once, and no process may be left.
//!
//! A seed decides what the model calls, and what the server does then ([`plan`]): the argument
//! `do` of a call says it. Each call has a number, which its server notes when the call arrives.
//! Upstream notes what the model was told of it ([`script`]).

mod over_http;
mod plan;
mod script;

use std::collections::HashMap;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::over_http::OverHttp;
use self::plan::{OVER_HTTP, PROGRAMS};
use self::script::Script;
use crate::seeded_agents::none_runs;
use crate::support::client::{Client, Reply, ask, with};
use crate::support::faults::FaultUpstream;
use crate::support::resources::{self, processes_of};
use crate::support::seeded::{SeededRandom, Tally, panic_text, seeds, times_run};
use crate::support::server::{Builder, Server};
use crate::support::{sync, watch};

/// How many conversations go on at once.
const AT_ONCE: usize = 8;

/// Enough that no server is ever off: how that is told has a test of its own.
const RESTARTS: usize = 5_000;

const PROGRAM: &str = include_str!("seeded_mcp/server.py");

/// What became of many calls.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) tally: Tally,
    /// Calls of the model.
    pub(crate) calls: usize,
    /// Those that have come to a server.
    pub(crate) sent: usize,
    /// Those of which the model was told the server's own words.
    pub(crate) answered: usize,
    /// How often programs were started again.
    pub(crate) restarts: usize,
}

impl Played {
    /// Fails if most of the calls met no server, or were never answered: nothing would be proven.
    pub(crate) fn is_fair(&self) -> bool {
        self.calls <= 2 * self.sent && self.sent <= 2 * self.answered
    }
}

/// How a conversation ended for its client.
enum Ended {
    Whole,
    /// The client has left this turn.
    Left(String),
    Wrong(String),
}

/// Runs the conversation of every seed, some at once.
pub(crate) async fn run(seeds: Range<u64>) -> Played {
    let script = Arc::new(Script::default());
    let upstream = FaultUpstream::start(Arc::clone(&script));
    let over_http = OVER_HTTP.map(|name| (name, Arc::new(OverHttp::new(name == "sea"))));
    let sites = over_http.clone().map(|(name, server)| (name, FaultUpstream::start(server)));
    let mut server = server(&upstream, &sites).start().await;
    all_ready(&server.client()).await;
    let files = resources::open_files(&server);
    let running = || processes_of(&server.workspace()).len();
    let processes = running();

    let ended = converse_all(&server, seeds).await;

    none_runs(&server.client()).await;
    all_ready(&server.client()).await;
    let over = async {
        while processes < running() {
            tokio::task::yield_now().await;
        }
    };
    watch("the processes of servers that were restarted to end", over).await;
    let mut sent = times_run(&server.workspace().join("calls"));
    for (_, server) in &over_http {
        sent.extend(sync::lock(&server.calls).clone());
    }
    let mut played = Played { sent: sent.len(), ..Played::default() };
    played.tally.count_repeats(&sent);
    let starts = times_run(&server.workspace().join("starts"));
    played.restarts = starts.values().sum::<usize>() - PROGRAMS.len();
    for (seed, ended) in ended {
        let told = script.told(seed);
        played.calls += told.called.len();
        played.answered += told.answered();
        let mut wrong = told.faults(&sent, matches!(ended, Ended::Left(_)));
        played.tally.runs += 1;
        match end_fault(&server.client(), ended).await {
            None => played.tally.terminal_events += 1,
            Some(fault) => wrong.push(fault),
        }
        if !wrong.is_empty() {
            played.tally.wrong.push(format!("seed {seed}: {}", wrong.join("; ")));
        }
    }
    played.tally.remains = resources::remains(&server, files).await;
    server.stop();
    played.tally.remains.survivors = processes_of(&server.workspace()).len();
    if server.log().contains("panicked") {
        played.tally.wrong.push(format!("the server panicked:\n{}", server.log()));
    }
    played
}

fn server(upstream: &FaultUpstream, sites: &[(&str, FaultUpstream)]) -> Builder {
    let mut builder = Builder::new(&upstream.url())
        .free()
        .file("server.py", PROGRAM)
        .config("limits.runs_per_key", "100")
        .config("turns.disconnect_grace", r#""0s""#)
        // A client that is to leave learns of its turn before upstream says anything.
        .config("turns.head_hold", r#""50ms""#)
        .config("mcp.first_turn_wait", r#""60s""#)
        .config("mcp.backoff", &json!(vec!["1ms"; RESTARTS]).to_string());
    let directory = builder.workspace();
    let common = "shared = [\"see\"]\ntimeout = \"500ms\"";
    for name in PROGRAMS {
        let arguments = json!([directory.join("server.py"), directory, name]);
        builder = builder.tables(&format!(
            "[mcp.servers.{name}]\ncommand = \"/usr/bin/python3\"\nargs = {arguments}\n{common}\n"
        ));
    }
    for (name, site) in sites {
        let url = site.url();
        builder = builder.tables(&format!("[mcp.servers.{name}]\nurl = {url:?}\n{common}\n"));
    }
    builder
}

/// Waits until every server is ready.
async fn all_ready(client: &Client) {
    let is_ready = |server: &Value| server["state"] == "ready";
    let all = async {
        while let Some(servers) = client.get("/toolhand/v1/status").await.json()["mcp"].as_array()
            && !servers.iter().all(is_ready)
        {}
    };
    watch("all MCP servers to be ready", all).await;
}

async fn converse_all(server: &Server, seeds: Range<u64>) -> HashMap<u64, Ended> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut conversations = JoinSet::new();
    for seed in seeds {
        let (client, places) = (server.client(), Arc::clone(&places));
        conversations.spawn(async move {
            let _place = places.acquire().await.expect("never closed");
            // Else the calls would meet servers that are being restarted, and test nothing.
            all_ready(&client).await;
            let ended = AssertUnwindSafe(converse(&client, seed)).catch_unwind().await;
            (seed, ended.unwrap_or_else(|panic| Ended::Wrong(panic_text(&*panic))))
        });
    }
    let mut ended = HashMap::new();
    while let Some(one) = conversations.join_next().await {
        ended.extend([one.expect("panics are caught")]);
    }
    ended
}

async fn converse(client: &Client, seed: u64) -> Ended {
    let leaves = plan::leaves_after(seed);
    let mut random = SeededRandom::new(seed, 3);
    let streams = leaves.is_some() || random.happens(60);
    let progress = *random.pick(&["reasoning", "events", "cards", "none"]);
    let progress = if leaves.is_some() { "events" } else { progress };
    let body = with(
        ask("Go on."),
        json!({ "model": script::model(seed), "stream": streams,
                "toolhand": { "progress": progress } }),
    );
    let (end, text) = match client.ask(&body).await {
        Reply::Stream(mut stream) => {
            for _ in 0..leaves.unwrap_or_default() {
                if stream.next().await.is_none() {
                    break;
                }
            }
            if leaves.is_some() {
                let turn = stream.head.header("x-toolhand-turn").unwrap_or_default();
                return Ended::Left(turn.to_owned());
            }
            let told = stream.finish().await;
            (told.finish_reason.clone(), told.text().to_owned())
        }
        Reply::Answer(answer) if answer.status() == 200 => {
            let end = answer.json()["choices"][0]["finish_reason"].as_str().map(str::to_owned);
            (end, answer.text())
        }
        Reply::Answer(answer) => return Ended::Wrong(format!("refused: {}", answer.json())),
    };
    if end.as_deref() == Some("stop") && text.ends_with(script::DONE) {
        Ended::Whole
    } else {
        Ended::Wrong(format!("it ends with {end:?}, after {text:?}"))
    }
}

/// What is wrong with the end of a turn. Of one that was left, its record is looked at.
async fn end_fault(client: &Client, ended: Ended) -> Option<String> {
    match ended {
        Ended::Whole => None,
        Ended::Wrong(why) => Some(why),
        Ended::Left(turn) => {
            let path = format!("/toolhand/v1/turns/{turn}/stream");
            let ends = client.get(&path).await.ends();
            (ends != 1).then(|| format!("{turn} was left, and ends {ends} times"))
        }
    }
}

/// Some seconds of servers that fail. `make soak` plays many more.
const SEEDS: u64 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_failing_mcp_servers_are_sent_once_and_answered_and_leave_no_process() {
    let played = run(seeds("MCP_SEEDS", 0..SEEDS)).await;
    played.tally.check("MCP_SEEDS=7..8 cargo test --test suite seeded_mcp::");
}
