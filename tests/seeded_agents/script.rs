//! Answers as upstream does in each round of each agent, and notes what it has counted, which
//! commands it has called, and what it was told of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::plan::{self, Actor, Fault, PlannedCall};
use crate::agents::task;
use crate::support::chunks;
use crate::support::faults::{Asked, Faults, Step, answer, framed, head};
use crate::support::seeded::SeededRandom;
use crate::support::sync;
use crate::support::upstream;
use crate::support::wire_rules::unpaired;

/// What the main agent says at last.
pub(super) const DONE: &str = "All is done here.";

/// The header by which a request of upstream's is known to be of a turn: it is passed on.
pub(super) const TURN: &str = "tracestate";

/// The conversations of all seeds.
#[derive(Debug, Default)]
pub(super) struct Script(Mutex<HashMap<u64, Arc<Seen>>>);

/// One conversation, as upstream sees it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) told: Mutex<Told>,
    /// Set when something goes on until the client leaves.
    pub(super) is_stuck: watch::Sender<bool>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// By the turn's mark.
    pub(super) turns: HashMap<String, TurnSeen>,
    /// Requests for each round of each agent.
    attempts: HashMap<(Actor, usize), u32>,
    /// The commands that were called, each with whether it asks.
    pub(super) called: BTreeMap<String, bool>,
    /// What the model was told of the commands.
    pub(super) answers: BTreeMap<String, String>,
    /// What it was told of agents that have ended, by their numbers.
    pub(super) agents: BTreeMap<u64, String>,
    pub(super) problems: Vec<String>,
}

/// What upstream has answered in one turn.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnSeen {
    pub(super) requests: usize,
    /// Tokens of the prompts and of the answers.
    pub(super) usage: (u64, u64),
    /// All tokens, by the agent.
    pub(super) tokens: BTreeMap<Actor, u64>,
    /// Commands that were called in it.
    pub(super) called: Vec<String>,
    /// Whether upstream has made the main agent fail.
    pub(super) has_failed: bool,
}

pub(super) fn model(seed: u64) -> String {
    format!("seed-{seed}")
}

fn prompt(agent: u64) -> String {
    format!("You are agent {agent}.")
}

/// The agent that a prompt is for.
fn agent_of(prompt: &str) -> Option<u64> {
    prompt.strip_prefix("You are agent ")?.strip_suffix('.')?.parse().ok()
}

impl Script {
    pub(super) fn seen(&self, seed: u64) -> Arc<Seen> {
        Arc::clone(sync::lock(&self.0).entry(seed).or_default())
    }
}

impl Faults for Script {
    fn asked(&self, request: &Asked) -> Vec<Step> {
        let body = request.json();
        let model = body["model"].as_str().expect("a model");
        let seed = model.strip_prefix("seed-").and_then(|seed| seed.parse().ok()).expect("a seed");
        let conversation = self.seen(seed);
        let mark = request.head.header(TURN).expect("the turn's mark").to_owned();
        let mut told = sync::lock(&conversation.told);
        told.problems.extend(unpaired(&body));
        let messages = body["messages"].as_array().expect("messages");
        let (actor, round) = told.read(messages);
        let answer = told.answer(seed, actor, round, mark);
        if answer.sticks {
            conversation.is_stuck.send_replace(true);
        }
        answer.steps
    }
}

/// An answer of upstream's.
struct Answer {
    steps: Vec<Step>,
    /// Whether something goes on until the client leaves.
    sticks: bool,
}

impl Told {
    /// Notes what a transcript tells. Returns whose it is, and the round that is asked for.
    fn read(&mut self, messages: &[Value]) -> (Actor, usize) {
        let mut round = 0;
        for (place, message) in messages.iter().enumerate() {
            let Some(calls) = message["tool_calls"].as_array() else { continue };
            round += 1;
            // Behind a round stand its answers, in the order of the calls. Ids are used again.
            for (call, answer) in calls.iter().zip(&messages[place + 1..]) {
                let answer = answer["content"].as_str().unwrap_or_default().to_owned();
                let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
                let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
                if let Some(label) = arguments["command"].as_str().and_then(label_of) {
                    self.answers.insert(label.to_owned(), answer);
                } else if let Some(agent) = arguments["prompt"].as_str().and_then(agent_of) {
                    self.agents.insert(agent, answer);
                }
            }
        }
        let user = messages.iter().find(|message| message["role"] == "user");
        let agent = user.and_then(|message| agent_of(message["content"].as_str()?));
        (agent.map_or(Actor::Main, Actor::Agent), round)
    }

    fn answer(&mut self, seed: u64, actor: Actor, round: usize, mark: String) -> Answer {
        let calls = plan::calls(seed, actor, round);
        let attempt = self.attempts.entry((actor, round)).or_default();
        let number = *attempt;
        *attempt += 1;
        let is_leaver = plan::leaves_after(seed).is_some();
        let fault = plan::fault(seed, actor, round, calls.len()).filter(|fault| match fault {
            Fault::Refuses(times) | Fault::Resets(times) => number < *times,
            Fault::DiesAfterText | Fault::RefusesKey => true,
            Fault::Hangs => is_leaver && number == 0,
            Fault::DiesSilently | Fault::IsEmpty | Fault::DiesAfterCalls => number == 0,
        });
        let mut turn = self.turns.remove(&mark).unwrap_or_default();
        turn.requests += 1;
        turn.has_failed |= actor == Actor::Main && fault.is_some_and(Fault::is_fatal);
        let mut random =
            SeededRandom::new(seed, 1000 * (1 + round as u64) + u64::from(number) + of(actor));
        let usage = (1 + random.below(500) as u64, 1 + random.below(50) as u64);
        let mut sticks = fault == Some(Fault::Hangs);
        let sends_calls = matches!(fault, None | Some(Fault::DiesAfterCalls | Fault::Hangs));
        let mut sent = Vec::new();
        for (index, call) in calls.iter().enumerate().filter(|_| sends_calls) {
            // Only at the first time, so that the conversation can go on.
            let stays = is_leaver && number == 0;
            let (name, arguments) = match call {
                PlannedCall::Task(agent) => {
                    ("Task", task("general-purpose", &prompt(*agent), json!({})))
                }
                PlannedCall::Command { asks, stays: will } => {
                    let label = format!("s{seed}.{}", self.called.len());
                    self.called.insert(label.clone(), *asks);
                    turn.called.push(label.clone());
                    sticks |= *will && stays;
                    ("Bash", json!({ "command": command(&label, *asks, *will && stays) }))
                }
            };
            sent.extend(chunks::call(index as u64, &format!("c{index}"), name, &arguments));
        }
        let steps = steps(&mut random, fault, sent, usage, actor);
        if counts(fault) {
            turn.usage = (turn.usage.0 + usage.0, turn.usage.1 + usage.1);
            *turn.tokens.entry(actor).or_default() += usage.0 + usage.1;
        }
        self.turns.insert(mark, turn);
        Answer { steps, sticks }
    }
}

fn of(actor: Actor) -> u64 {
    match actor {
        Actor::Main => 0,
        Actor::Agent(number) => 100_000 * number,
    }
}

/// Leaves a line each time it runs, and prints it.
fn command(label: &str, asks: bool, stays: bool) -> String {
    let (env, rest) = (if asks { "env " } else { "" }, if stays { "; sleep 1000; :" } else { "" });
    format!("{env}echo {label} | tee -a ran{rest}")
}

pub(super) fn label_of(command: &str) -> Option<&str> {
    let (_, rest) = command.split_once("echo s")?;
    let length = rest.find(' ')?;
    let start = command.len() - rest.len() - 1;
    command.get(start..=start + length)
}

/// Whether an answer with this fault tells its usage.
fn counts(fault: Option<Fault>) -> bool {
    matches!(fault, None | Some(Fault::DiesSilently | Fault::IsEmpty))
}

/// The bytes of an answer with these calls; without any it is text.
fn steps(
    random: &mut SeededRandom,
    fault: Option<Fault>,
    calls: Vec<upstream::Step>,
    (prompt, completion): (u64, u64),
    actor: Actor,
) -> Vec<Step> {
    let usage = || chunks::usage(prompt, completion);
    let end = |reason| vec![chunks::finish(reason), usage(), chunks::done()];
    match fault {
        None if calls.is_empty() => {
            let text = if actor == Actor::Main { DONE } else { "My part is done." };
            whole(random, [vec![chunks::text(text)], end("stop")].concat())
        }
        None => {
            let mut all = calls;
            if random.happens(30) {
                all.insert(0, chunks::text("Working. "));
            }
            all.extend(end("tool_calls"));
            whole(random, all)
        }
        Some(Fault::Refuses(_)) => {
            let status = *random.pick(&["500 No", "503 No", "429 No"]);
            vec![Step::Bytes(answer(status, &["content-type: application/json"], b"{}"))]
        }
        Some(Fault::RefusesKey) => {
            vec![Step::Bytes(answer("401 No", &["content-type: application/json"], b"{}"))]
        }
        Some(Fault::Resets(_)) => vec![Step::Reset],
        Some(Fault::DiesSilently) => cut(vec![usage()], Step::Fin),
        Some(Fault::IsEmpty) => whole(random, end("stop")),
        Some(Fault::DiesAfterCalls) => cut(calls, Step::Fin),
        Some(Fault::DiesAfterText) => cut(vec![chunks::text("Half of a ")], Step::Fin),
        Some(Fault::Hangs) => cut(calls, Step::Hang),
    }
}

const STREAM: &str = "content-type: text/event-stream";

/// An answer that ends in order, in some writes.
fn whole(random: &mut SeededRandom, events: Vec<upstream::Step>) -> Vec<Step> {
    let mut steps = vec![Step::Bytes(head("200 OK", &[STREAM, "transfer-encoding: chunked"]))];
    for event in events {
        steps.push(Step::Bytes(framed(&bytes(event))));
        if random.happens(10) {
            // What was called may run meanwhile.
            steps.push(Step::Sleep(Duration::from_millis(2)));
        }
    }
    steps.push(Step::Bytes(framed(b"")));
    steps
}

/// An answer that does not end in order.
fn cut(events: Vec<upstream::Step>, end: Step) -> Vec<Step> {
    let head = head("200 OK", &[STREAM, "transfer-encoding: chunked"]);
    let body = events.into_iter().flat_map(|event| framed(&bytes(event)));
    vec![Step::Bytes(head), Step::Bytes(body.collect()), end]
}

fn bytes(event: upstream::Step) -> Vec<u8> {
    let upstream::Step::Send(bytes) = event else { panic!("an event of a stream") };
    bytes
}
