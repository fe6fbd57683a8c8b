//! Plays seeded turns with an upstream that fails, clients that leave, SDKs that send their
//! request again, and servers that are killed meanwhile. A call runs at most once, and each
//! answer ends once and truly.

use std::ops::Range;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::after;
use crate::support::chunks::{call, calls, says, status, text};
use crate::support::client::{Answer, Client, ask, with};
use crate::support::seeded::{SeededRandom, Tally, times_run};
use crate::support::server::{KEY, Server};
use crate::support::upstream::{Step, Upstream};

/// Turns that are played at once on one server. Then the next server starts.
const BATCH: u64 = 100;

/// An SDK sends a request so often.
const SENDS: usize = 3;

/// The only text of an upstream that has not failed.
const DONE: &str = "All is done here.";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_a_call_runs_at_most_once_whatever_upstream_client_and_server_do() {
    let tally = run(0..1000).await;
    tally.check("it depends on the others of its hundred");
}

pub(crate) async fn run(seeds: Range<u64>) -> Tally {
    let upstream = Upstream::start();
    let mut home = Server::builder(&upstream).free().start().await;
    home.stop();
    let mut tally = Tally::default();
    let end = seeds.end;
    for first in seeds.step_by(usize::try_from(BATCH).expect("small")) {
        batch(&mut tally, first..end.min(first + BATCH), &upstream, &home).await;
    }
    // Turns that were cut off have not asked for all of it.
    upstream.forget_script();
    let ran = times_run(&home.workspace().join("ran"));
    assert!(tally.runs / 2 < ran.len(), "only {} calls ran", ran.len());
    tally.count_repeats(&ran);
    tally
}

/// The label of a call: its seed, and its place in the script.
fn label(seed: u64, place: usize) -> String {
    format!("{seed}/{place}")
}

/// Scripts what upstream does to the requests of a turn and of those that repeat it.
fn script(seed: u64, upstream: &Upstream) {
    let random = &mut SeededRandom::new(seed, 40);
    let model = model(seed);
    for place in 0..8 {
        let count =
            |place: usize| json!({ "command": format!("echo {} >> ran", label(seed, place)) });
        let steps = match random.below(10) {
            0 => status(500, &json!({ "error": { "message": "no" } })),
            1 => vec![Step::Close],
            2 => vec![text("All is "), Step::Close],
            3 => call(0, "c", "Bash", &count(place)).into_iter().chain([Step::Close]).collect(),
            4 => says(DONE),
            5 => {
                let (one, two) = (count(place), count(place + 10));
                calls(&[("c", "Bash", one), ("d", "Bash", two)])
            }
            _ => calls(&[("c", "Bash", count(place))]),
        };
        upstream.round_of(&model, steps);
    }
}

fn model(seed: u64) -> String {
    format!("m-{seed}")
}

async fn batch(tally: &mut Tally, seeds: Range<u64>, upstream: &Upstream, home: &Server) {
    upstream.forget_script();
    upstream.otherwise(says(DONE));
    let mut server = after(upstream, home).free().start().await;
    let random = &mut SeededRandom::new(seeds.start, 41);
    let (tell, address) = tokio::sync::watch::channel(server.address());
    let mut turns = JoinSet::new();
    for seed in seeds {
        tally.runs += 1;
        script(seed, upstream);
        turns.spawn(play(seed, address.clone()));
    }
    if random.happens(60) {
        // The moment is random on purpose.
        sleep(Duration::from_millis(20 + random.below(300) as u64)).await;
        kill_process(server.pid(), Signal::KILL).expect("our child is there");
        server.stop();
        server = after(upstream, home).free().start().await;
        tell.send_replace(server.address());
    }
    while let Some(played) = turns.join_next().await {
        match played.expect("no panic") {
            Ok(()) => tally.terminal_events += 1,
            Err(Wrong::FalseStop(told)) => {
                tally.false_stops += 1;
                tally.wrong.push(told);
            }
            Err(Wrong::Other(told)) => tally.wrong.push(told),
        }
    }
    if server.log().contains("panicked") {
        tally.wrong.push(server.log());
    }
}

enum Wrong {
    FalseStop(String),
    Other(String),
}

/// Sends a request until its answer is there whole, as an SDK does.
async fn play(
    seed: u64,
    mut address: tokio::sync::watch::Receiver<std::net::SocketAddr>,
) -> Result<(), Wrong> {
    let random = &mut SeededRandom::new(seed, 42);
    let body = with(
        ask(&format!("Count {seed}.")),
        json!({ "model": model(seed), "stream": random.happens(50) }),
    );
    let named = random.happens(30);
    let mut sent = 0;
    loop {
        let mut client = Client::new(*address.borrow_and_update(), KEY);
        if named {
            client = client.header("idempotency-key", &format!("k-{seed}"));
        }
        if 0 < sent {
            client = client.header("x-stainless-retry-count", &sent.to_string());
        }
        sent += 1;
        let leaves = sent < SENDS && random.happens(40);
        let patience =
            Duration::from_millis(if leaves { random.below(150) as u64 } else { 60_000 });
        match timeout(patience, client.try_post(&body)).await {
            Ok(Some(answer)) if sent < SENDS && may_retry(&answer) => {}
            Ok(Some(answer)) => return check(seed, &answer),
            // The client has left.
            Err(_) if leaves => {}
            Err(_) => return Err(Wrong::Other(format!("seed {seed}: no answer"))),
            // The server was killed.
            Ok(None) => {
                if timeout(Duration::from_secs(60), address.changed()).await.is_err() {
                    return Err(Wrong::Other(format!("seed {seed}: cut off, and no new server")));
                }
                sent = sent.min(SENDS - 1);
            }
        }
    }
}

/// What an SDK sends again.
fn may_retry(answer: &Answer) -> bool {
    answer.status() >= 500 && answer.header("x-should-retry") != Some("false")
}

/// Checks that the answer ends once, and with success only if upstream has said all.
fn check(seed: u64, answer: &Answer) -> Result<(), Wrong> {
    let body = String::from_utf8_lossy(&answer.body);
    let wrong =
        |what: &str| Wrong::Other(format!("seed {seed}: {what}: {} {body}", answer.status()));
    if answer.status() != 200 {
        let code = answer.refusal().1;
        let codes =
            ["upstream_error", "stream_died", "cancelled", "empty_response", "tool_round_limit"];
        return if codes.contains(&&*code) { Ok(()) } else { Err(wrong("an odd refusal")) };
    }
    if answer.ends() != 1 {
        return Err(wrong("not one end"));
    }
    let events = answer.events();
    let said: String = events
        .iter()
        .map(|event| {
            let choice = &event["choices"][0];
            let content = choice["delta"]["content"].as_str();
            content.or(choice["message"]["content"].as_str()).unwrap_or_default().to_owned()
        })
        .collect();
    let has_stopped = events.iter().all(|event| event.get("error").is_none());
    if has_stopped && !said.ends_with(DONE) {
        return Err(Wrong::FalseStop(format!("seed {seed}: a stop after {said:?}")));
    }
    Ok(())
}
