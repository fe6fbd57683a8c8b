//! Plays random conversations with subagents: upstream fails in the parent's and in the agents'
//! streams, clients leave, and people decide about what agents want to run. Each turn must end
//! exactly once and truly, no call may run twice or without consent, and each turn must count
//! every token that upstream has counted for it.
//!
//! A seed decides what the models do and how upstream fails ([`plan`]). Upstream notes what it has
//! counted and called ([`script`]), the client what it was told and has decided
//! ([`conversation`]), and the commands leave a line each time they run.

mod conversation;
mod plan;
mod script;

use std::collections::HashMap;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::conversation::{Conversation, Played};
use self::plan::{Actor, Consent};
use self::script::{Script, Told};
use crate::support::client::Client;
use crate::support::faults::FaultUpstream;
use crate::support::resources;
use crate::support::seeded::{Tally, panic_text, seeds, times_run};
use crate::support::server::{Builder, Server};
use crate::support::sync;
use crate::support::watch;

/// How many conversations go on at once.
const AT_ONCE: usize = 24;

/// Runs the conversation of every seed.
pub(crate) async fn run(seeds: Range<u64>) -> Tally {
    let script = Arc::new(Script::default());
    let upstream = FaultUpstream::start(Arc::clone(&script));
    let mut tally = Tally::default();
    let waits = |seed: &u64| plan::consent(*seed) == Consent::Meanwhile;
    let (waiting, ending): (Vec<u64>, Vec<u64>) = seeds.partition(waits);
    for (seeds, wait) in [(ending, "0s"), (waiting, "10m")] {
        let server = server(&upstream).config("approval.wait", &format!("{wait:?}")).start().await;
        play(&mut tally, seeds, server, &script).await;
    }
    tally
}

/// Commands run without asking, except where `env` is in front.
fn server(upstream: &FaultUpstream) -> Builder {
    Builder::new(&upstream.url())
        .argument("--sandbox=off")
        .config("permissions.allow", r#"["Bash"]"#)
        .config("permissions.ask", r#"["Bash(env *)"]"#)
        .config("subagents.max_depth", "2")
        .config("limits.runs_per_key", "100")
        // A client that is to leave learns of its turn before upstream says anything.
        .config("turns.head_hold", r#""50ms""#)
        // On a slow machine the usage may come long after the end.
        .config("upstream.end_timeout", r#""30s""#)
}

/// Runs the conversations of some seeds on one server.
async fn play(tally: &mut Tally, seeds: Vec<u64>, mut server: Server, script: &Script) {
    let files = resources::open_files(&server);
    let mut conversations = JoinSet::new();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    for seed in &seeds {
        let (seed, client, upstream) = (*seed, server.client(), script.seen(*seed));
        let places = Arc::clone(&places);
        conversations.spawn(async move {
            let _place = places.acquire().await.expect("never closed");
            let playing = AssertUnwindSafe(Conversation::new(&client, seed, upstream).play());
            (seed, playing.catch_unwind().await)
        });
    }
    let mut played = HashMap::new();
    while let Some(ended) = conversations.join_next().await {
        match ended.expect("panics are caught") {
            (seed, Ok(one)) => _ = played.insert(seed, one),
            (seed, Err(panic)) => {
                tally.wrong.push(format!("seed {seed}: no proper end: {}", panic_text(&*panic)));
            }
        }
    }
    none_runs(&server.client()).await;
    server.no_children().await;
    tally.remains = tally.remains.and(resources::remains(&server, files).await);
    let ran = times_run(&server.workspace().join("ran"));
    for (seed, played) in played {
        let told = sync::lock(&script.seen(seed).told).clone();
        tally.runs += played.turns;
        tally.terminal_events += played.terminal_events;
        for turn in &played.left {
            let path = format!("/toolhand/v1/turns/{turn}/stream");
            match server.client().get(&path).await.ends() {
                1 => tally.terminal_events += 1,
                ends => {
                    let wrong = format!("seed {seed}: {turn} was left, and ends {ends} times");
                    tally.wrong.push(wrong);
                }
            }
        }
        tally.false_stops += played.false_stops;
        let wrong = [&played.wrong[..], &told.problems, &effects(&played, &told, &ran)].concat();
        if !wrong.is_empty() {
            tally.wrong.push(format!("seed {seed}: {}", wrong.join("; ")));
        }
    }
    tally.count_repeats(&ran);
    server.stop();
    if server.log().contains("panicked") {
        tally.wrong.push(format!("the server panicked:\n{}", server.log()));
    }
}

/// Waits until no turn runs any more.
pub(crate) async fn none_runs(client: &Client) {
    let is_running = |turn: &Value| turn["state"] == "running";
    let ended = async {
        while let Some(turns) = client.get("/toolhand/v1/turns").await.json()["data"].as_array()
            && turns.iter().any(is_running)
        {}
    };
    watch("the turns to end", ended).await;
}

/// What is wrong with the effects of a conversation.
fn effects(played: &Played, told: &Told, ran: &HashMap<String, usize>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (label, asks) in &told.called {
        let has_run = ran.contains_key(label);
        let decided = played.decided.get(label).copied();
        let may_run = !asks || decided == Some(true);
        let answer = told.answers.get(label);
        let says_so = answer.is_some_and(|answer| answer.starts_with(label));
        if has_run && !may_run {
            wrong.push(format!("{label} ran without consent"));
        }
        if says_so && !has_run {
            wrong.push(format!("{label} did not run: {answer:?}"));
        }
        // A turn that is stopped forgets nothing, but does not always tell a model.
        if !played.is_cut && has_run != says_so {
            wrong.push(format!("{label} has run: {has_run}, and the model knows: {answer:?}"));
        }
        if !played.is_cut && answer.is_some() && !has_run && may_run {
            wrong.push(format!("{label} was allowed, and did not run: {answer:?}"));
        }
    }
    for (left, again) in &played.repeated {
        let turn = |mark: &String| told.turns.get(mark).cloned().unwrap_or_default();
        let has_run = turn(left).called.iter().any(|label| ran.contains_key(label));
        if has_run && 0 < turn(again).requests {
            wrong.push(format!("{left} had run commands, and was begun anew as {again}"));
        }
    }
    if !played.is_cut {
        wrong.extend(tokens(told));
    }
    wrong
}

/// What is wrong with the tokens that the answers of ended agents tell.
fn tokens(told: &Told) -> Vec<String> {
    let ended = told.agents.iter().filter_map(|(agent, answer)| {
        let (_, tokens) = answer.strip_suffix(" tokens")?.rsplit_once(' ')?;
        Some((*agent, tokens.parse::<u64>().ok()?))
    });
    let wrong = ended.filter_map(|(agent, tokens)| {
        // With those of the agent that it has started.
        let both = [Actor::Agent(agent), Actor::Agent(10 + agent)];
        let turns = told.turns.values();
        let counted = turns.flat_map(|turn| both.map(|actor| turn.tokens.get(&actor)));
        let counted: u64 = counted.flatten().sum();
        (counted != tokens).then(|| format!("agent {agent} tells {tokens} tokens, not {counted}"))
    });
    wrong.collect()
}

/// Some seconds of commands. `make soak` plays many more.
const SEEDS: u64 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversations_with_agents_end_once_count_all_tokens_and_run_nothing_twice() {
    let tally = run(seeds("AGENT_SEEDS", 0..SEEDS)).await;
    tally.check("AGENT_SEEDS=7..8 cargo test --test suite seeded_agents::");
}
