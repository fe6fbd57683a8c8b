//! Answers as upstream does in each round of a conversation, and notes what it was told of calls.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use serde_json::{Value, json};

use super::plan::{self, Expected, OVER_HTTP, PROGRAMS, PlannedCall, TOOLS};
use crate::support::chunks;
use crate::support::faults::{Asked, Faults, Step, answer};
use crate::support::sync;
use crate::support::upstream;
use crate::support::wire_rules::unpaired;

/// What the model says at last.
pub(super) const DONE: &str = "All is done here.";

/// What is said of a call that was sent and has no answer.
const NO_ANSWER: [&str; 3] =
    ["did not answer in time", "did not answer this", "ended while this call ran"];

/// What is said of a call that was not sent.
const NOT_SENT: &str = "is not running";

/// The conversations of all seeds.
#[derive(Debug, Default)]
pub(super) struct Script(Mutex<HashMap<u64, Told>>);

/// One conversation, as upstream sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// What the model has called.
    pub(super) called: Vec<PlannedCall>,
    /// What it was told of the calls, by their numbers.
    answers: BTreeMap<u64, String>,
    is_done: bool,
    problems: Vec<String>,
}

pub(super) fn model(seed: u64) -> String {
    format!("seed-{seed}")
}

impl Script {
    pub(super) fn told(&self, seed: u64) -> Told {
        sync::lock(&self.0).get(&seed).cloned().unwrap_or_default()
    }
}

impl Faults for Script {
    fn asked(&self, request: &Asked) -> Vec<Step> {
        let body = request.json();
        let model = body["model"].as_str().expect("a model");
        let seed = model.strip_prefix("seed-").and_then(|seed| seed.parse().ok()).expect("a seed");
        let mut all = sync::lock(&self.0);
        let told = all.entry(seed).or_default();
        told.problems.extend(unpaired(&body));
        told.check_tools(&body["tools"]);
        let round = told.read(body["messages"].as_array().expect("messages"));
        let events = told.next(seed, round);
        let lines = ["content-type: text/event-stream"];
        vec![Step::Bytes(answer("200 OK", &lines, &events))]
    }
}

impl Told {
    /// A server that is restarted keeps its tools.
    fn check_tools(&mut self, tools: &Value) {
        let name = |tool: &Value| tool["function"]["name"].as_str().unwrap_or_default().to_owned();
        let names: Vec<String> = tools.as_array().into_iter().flatten().map(name).collect();
        for server in PROGRAMS.iter().chain(&OVER_HTTP) {
            for tool in TOOLS.map(|tool| format!("mcp__{server}__{tool}")) {
                if !names.contains(&tool) {
                    self.problems.push(format!("{tool} is not offered"));
                }
            }
        }
    }

    /// Notes what a transcript tells of calls. Returns the number of the round that is asked for.
    fn read(&mut self, messages: &[Value]) -> usize {
        let mut round = 0;
        for (place, message) in messages.iter().enumerate() {
            let Some(calls) = message["tool_calls"].as_array() else { continue };
            round += 1;
            // Behind a round stand its answers, in the order of the calls.
            for (call, answer) in calls.iter().zip(&messages[place + 1..]) {
                let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
                let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
                let n = arguments["n"].as_u64().expect("a call of ours");
                let answer = answer["content"].as_str().unwrap_or_default();
                let known = self.answers.entry(n).or_insert_with(|| answer.to_owned());
                if known != answer {
                    self.problems.push(format!("call {n}: {known:?}, then {answer:?}"));
                }
            }
        }
        round
    }

    /// The events of the next answer.
    fn next(&mut self, seed: u64, round: usize) -> Vec<u8> {
        let calls = plan::rounds(seed).into_iter().nth(round).unwrap_or_default();
        self.is_done = calls.is_empty();
        self.called.extend(&calls);
        let calls: Vec<_> = calls
            .iter()
            .map(|call| (format!("c{}", call.n), call.name(), call))
            .map(|(id, name, call)| (id, name, json!({ "n": call.n, "do": call.behaviour })))
            .collect();
        let calls: Vec<_> = calls
            .iter()
            .map(|(id, name, arguments)| (id.as_str(), name.as_str(), arguments.clone()))
            .collect();
        let steps = if self.is_done { chunks::says(DONE) } else { chunks::calls(&calls) };
        steps.into_iter().flat_map(bytes).collect()
    }

    /// What is wrong with what the model was told, where these calls were sent. A turn that was
    /// left may have ended anywhere.
    pub(super) fn faults(&self, sent: &HashMap<String, usize>, is_left: bool) -> Vec<String> {
        let mut wrong = self.problems.clone();
        if !self.is_done && !is_left {
            wrong.push("not all rounds were asked for".to_owned());
        }
        for call in &self.called {
            let is_sent = sent.contains_key(&call.n.to_string());
            let fault = match self.answers.get(&call.n) {
                Some(answer) => fault(call, answer, is_sent),
                None if is_left => None,
                None => Some("was not answered".to_owned()),
            };
            wrong.extend(fault.map(|fault| format!("{call:?} {fault}")));
        }
        wrong
    }

    /// The calls that the model was told the servers' own words of.
    pub(super) fn answered(&self) -> usize {
        let is_answered = |call: &&PlannedCall| {
            self.answers.get(&call.n).is_some_and(|answer| is_own_answer(call, answer))
        };
        self.called.iter().filter(is_answered).count()
    }
}

fn is_own_answer(call: &PlannedCall, answer: &str) -> bool {
    match call.expected() {
        Expected::Word(word) => answer.contains(&format!("{word} {}.", call.n)),
        Expected::NoAnswer | Expected::Anything => false,
    }
}

/// What is wrong with the answer to a call.
fn fault(call: &PlannedCall, answer: &str, is_sent: bool) -> Option<String> {
    let shown = || answer.chars().take(200).collect::<String>();
    let is_error = answer.starts_with("Error: ");
    if is_own_answer(call, answer) {
        return (!is_sent).then(|| "was answered and not sent".to_owned());
    }
    if is_error && answer.contains(NOT_SENT) {
        return is_sent.then(|| format!("was sent, and the model is told: {}", shown()));
    }
    if is_error && NO_ANSWER.iter().any(|words| answer.contains(words)) {
        return None;
    }
    let is_right = call.expected() == Expected::Anything && !answer.contains("foreign");
    (!is_right).then(|| format!("was answered: {}", shown()))
}

fn bytes(event: upstream::Step) -> Vec<u8> {
    let upstream::Step::Send(bytes) = event else { panic!("an event of a stream") };
    bytes
}
