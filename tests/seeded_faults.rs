//! Tests random conversations with an upstream that fails in many ways. Each must end exactly
//! once, in time and with a true outcome, and nothing in it may run twice.
//!
//! A seed decides what upstream does to each request of a conversation ([`attempt`]). A second,
//! simple implementation of the rules ([`turn`]) computes how the conversation must end, what
//! must have run, and what upstream must be sent.

mod answer;
mod attempt;
mod refusals;
mod turn;

use std::collections::HashMap;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::support::client::{Client, Reply, ask, with};
use crate::support::faults::{Asked, FaultUpstream, Faults, Step};
use crate::support::resources;
use crate::support::seeded::{SeededRandom, Tally, panic_text, seeds, times_run};
use crate::support::server::{Builder, Server};
use crate::support::sync;
use crate::support::wire_rules::unpaired;
use attempt::Attempt;
use turn::{Turn, Verdict};

/// How many conversations run at once. Many, since most wait for a timeout at some point.
const AT_ONCE: usize = 128;

/// Runs the conversation of every seed, many at once. Conversations that only a timeout ends
/// run separately and with a server of their own. In the others no timeout is part of the test,
/// and a slow machine must not cause one.
pub(crate) async fn run(seeds: Range<u64>) -> Tally {
    let script = Arc::new(Script::default());
    let upstream = FaultUpstream::start(Arc::clone(&script));
    let mut run = Run::default();
    let (waiting, going): (Vec<u64>, Vec<u64>) = seeds.partition(|seed| waits(*seed));
    run.play(going, server(&upstream, "10m", "30m").start().await, &script).await;
    run.play(waiting, server(&upstream, "4s", "50s").start().await, &script).await;
    let Run { mut tally, mut unheard } = run;
    if unheard.len() > 1 + tally.runs / 500 {
        tally.wrong.append(&mut unheard);
    }
    tally
}

/// Whether upstream falls silent in the seed's conversation.
fn waits(seed: u64) -> bool {
    let mut turn = Turn::default();
    let mut waits = false;
    while turn.verdict.is_none() {
        let attempt = Attempt::new(seed, turn.attempts());
        let is_silence = |step: &Step| matches!(step, Step::Hang | Step::Forever(..));
        waits |= attempt.steps.iter().any(is_silence);
        turn.heard(&attempt);
    }
    waits
}

/// `patience` is how long the server waits for a silent upstream, and `deadline` how long a
/// conversation may take.
fn server(upstream: &FaultUpstream, patience: &str, deadline: &str) -> Builder {
    let patience = format!("{patience:?}");
    Builder::new(&upstream.url())
        .free()
        .file("notes.txt", &"a line\n".repeat(60))
        .config("upstream.first_byte_timeout", &patience)
        .config("upstream.idle_timeout", &patience)
        .config("upstream.comment_timeout", &patience)
        .config("upstream.end_timeout", r#""3s""#)
        .config("turns.head_hold", r#""50ms""#)
        .config("turns.max_duration", &format!("{deadline:?}"))
        .config("limits.line", r#""64KiB""#)
}

/// What became of the conversations so far.
#[derive(Debug, Default)]
struct Run {
    tally: Tally,
    /// Conversations in which a request failed that upstream never received. It was written to
    /// a kept connection that upstream was closing, or on which bytes that belong to no answer
    /// still arrived.
    unheard: Vec<String>,
}

/// How a conversation ended for the client.
#[derive(Debug)]
struct Outcome {
    /// The `finish_reason`, or the error's code.
    end: Result<String, String>,
    text: Option<String>,
    /// Whether the client was told not to try again.
    is_final: bool,
    /// The status of a response that is not a stream.
    status: Option<u16>,
    /// Calls whose start the client was told.
    starts: Vec<Value>,
}

impl Outcome {
    /// Whether it ended because upstream said nothing, twice.
    fn is_empty_answer(&self) -> bool {
        match &self.end {
            Ok(reason) => reason == "stop",
            Err(code) => code == "empty_response",
        }
    }

    fn is_failed_request(&self) -> bool {
        let codes = ["upstream_error", "upstream_unavailable", "upstream_invalid"];
        matches!(&self.end, Err(code) if codes.contains(&code.as_str()))
    }
}

async fn converse(client: &Client, seed: u64) -> Outcome {
    let mut dice = SeededRandom::new(seed, u64::MAX);
    let progress = *dice.pick(&["reasoning", "events", "cards", "none"]);
    let body = with(
        ask("Go on."),
        json!({ "model": attempt::model(seed), "stream": dice.happens(60),
                "toolhand": { "progress": progress } }),
    );
    match client.ask(&body).await {
        Reply::Stream(stream) => {
            let told = stream.finish().await;
            let starts = told.progress("tool_start").into_iter().cloned().collect();
            let text = Some(told.text().to_owned());
            let code = |error: &Value| error["code"].as_str().expect("a code").to_owned();
            let end = match told.error.as_ref().map(code) {
                Some(code) => Err(code),
                None => Ok(told.finish_reason.expect("checked by the client")),
            };
            Outcome { end, text, is_final: false, status: None, starts }
        }
        Reply::Answer(answer) if answer.status() == 200 => {
            let choice = answer.json()["choices"][0].clone();
            let reason = choice["finish_reason"].as_str().expect("a reason").to_owned();
            let text = choice["message"]["content"].as_str().unwrap_or_default().to_owned();
            Outcome {
                end: Ok(reason),
                text: Some(text),
                is_final: false,
                status: Some(200),
                starts: Vec::new(),
            }
        }
        Reply::Answer(answer) => {
            let (status, code) = answer.refusal();
            let is_final = answer.header("x-should-retry") == Some("false");
            let status = Some(status);
            Outcome { end: Err(code), text: None, is_final, status, starts: Vec::new() }
        }
    }
}

impl Run {
    /// Runs the conversations of some seeds on one server.
    async fn play(&mut self, seeds: Vec<u64>, mut server: Server, script: &Script) {
        let files = resources::open_files(&server);
        let mut conversations = JoinSet::new();
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        for seed in seeds {
            self.tally.runs += 1;
            let (client, turns) = (server.client(), Arc::clone(&turns));
            conversations.spawn(async move {
                let _turn = turns.acquire().await.expect("never closed");
                let asking = AssertUnwindSafe(converse(&client, seed)).catch_unwind();
                (seed, asking.await.map_err(|panic| panic_text(&*panic)))
            });
        }
        while let Some(ended) = conversations.join_next().await {
            let (seed, outcome) = ended.expect("panics are caught");
            self.tally.terminal_events += usize::from(outcome.is_ok());
            let turn = script.take(seed);
            self.note(seed, &turn, outcome);
        }
        self.tally.remains = self.tally.remains.and(resources::remains(&server, files).await);
        self.count_executions(script, &server);
        server.stop();
        if server.log().contains("panicked") {
            self.tally.wrong.push(format!("the server panicked:\n{}", server.log()));
        }
    }

    fn note(&mut self, seed: u64, turn: &Turn, outcome: Result<Outcome, String>) {
        let mut wrong = turn.problems.clone();
        match (outcome, &turn.verdict) {
            (Err(panic), _) => wrong.push(format!("no proper end: {panic}")),
            (Ok(outcome), _) if turn.may_be_empty && outcome.is_empty_answer() => {}
            (Ok(outcome), None) if outcome.is_failed_request() => {
                self.unheard.push(format!("seed {seed}: unheard: {outcome:?}"));
            }
            (Ok(outcome), None) => wrong.push(format!("upstream is still owed: {outcome:?}")),
            (Ok(outcome), Some(verdict)) => {
                self.tally.false_stops +=
                    usize::from(outcome.end.is_ok() && matches!(verdict, Verdict::Failure(_)));
                wrong.extend(compare(&outcome, verdict, turn));
            }
        }
        if !wrong.is_empty() {
            self.tally.wrong.push(format!(
                "seed {seed}: {}\n  {:?}",
                wrong.join("; "),
                turn.history
            ));
        }
    }

    /// Compares what has run with what had to.
    fn count_executions(&mut self, script: &Script, server: &Server) {
        let times = times_run(&server.workspace().join("ran.txt"));
        self.tally.count_repeats(&times);
        let wrong = &mut self.tally.wrong;
        let owed = std::mem::take(&mut *sync::lock(&script.owed));
        let surplus = times.keys().filter(|label| !owed.contains_key(*label));
        wrong.extend(surplus.map(|label| format!("{label} ran and must not")));
        let missing = owed.iter().filter(|(label, must)| **must && !times.contains_key(*label));
        wrong.extend(missing.map(|(label, _)| format!("{label} did not run")));
    }
}

/// The differences between the outcome and the expectation.
fn compare(outcome: &Outcome, verdict: &Verdict, turn: &Turn) -> Vec<String> {
    let mut wrong = Vec::new();
    let is_right = match (&outcome.end, verdict) {
        (Ok(reason), Verdict::Success(expected)) => reason == expected,
        // What a 404 says decides which of the two it is.
        (Err(code), Verdict::Failure("upstream_rejected")) => {
            ["upstream_rejected", "model_not_found"].contains(&code.as_str())
        }
        (Err(code), Verdict::Failure(expected)) => code == expected,
        _ => false,
    };
    if !is_right {
        wrong.push(format!("it must end as {verdict:?}: {outcome:?}"));
    }
    if outcome.text.as_ref().is_some_and(|text| *text != turn.text) {
        wrong.push(format!("the text is {:?}, not {:?}", outcome.text, turn.text));
    }
    if let (Some(status), Err(code)) = (outcome.status, &outcome.end)
        && refusals::status_of(code) != status
        && !(outcome.is_final && status == 400)
    {
        wrong.push(format!("{code} came with status {status}"));
    }
    if turn.tools_ran && outcome.status.is_some_and(|status| status != 200) && !outcome.is_final {
        wrong.push("a tool has run, and the client may try again".to_owned());
    }
    let mut starts: Vec<_> = outcome.starts.iter().map(|start| start["id"].to_string()).collect();
    starts.sort();
    if starts.windows(2).any(|pair| pair[0] == pair[1]) {
        wrong.push(format!("a call started twice: {starts:?}"));
    }
    wrong
}

/// The state of every conversation, and what upstream does next in each.
#[derive(Debug, Default)]
struct Script {
    turns: Mutex<HashMap<u64, Turn>>,
    /// Labels of commands that may have run, and whether they must have.
    owed: Mutex<HashMap<String, bool>>,
}

impl Faults for Script {
    fn asked(&self, request: &Asked) -> Vec<Step> {
        let body = request.json();
        let model = body["model"].as_str().expect("a model").to_owned();
        let seed = attempt::seed_of(&model);
        let mut turns = sync::lock(&self.turns);
        let turn = turns.entry(seed).or_default();
        turn.problems.extend(unpaired(&body));
        turn.check_history(&body);
        let attempt = Attempt::new(seed, turn.attempts());
        turn.heard(&attempt);
        attempt.steps
    }
}

impl Script {
    fn take(&self, seed: u64) -> Turn {
        let turn = sync::lock(&self.turns).remove(&seed).unwrap_or_default();
        sync::lock(&self.owed).extend(turn.owed.clone());
        turn
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_failing_upstreams_end_once_and_truly_and_run_nothing_twice() {
    let tally = run(seeds("FAULT_SEEDS", 0..2000)).await;
    tally.check("FAULT_SEEDS=7..8 cargo test --test suite seeded_faults::");
}
