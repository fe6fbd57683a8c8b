//! Tests what follows from a person's decisions. No order of them runs what was not approved, or
//! anything twice.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::execution::schedule::Schedule;
use crate::processes::sandbox::{Sandbox, SandboxSettings};
use crate::processes::test_support::runner;

fn suspended(asks: &[u8]) -> OpenRound {
    let mut bench = Bench::with("m", &[], conversation_asks);
    for index in 0..asks.len() {
        bench.call(u64::try_from(index).unwrap(), "Look", A);
    }
    bench.finish("tool_calls").done();
    for (slot, digest) in asks.iter().enumerate() {
        bench.asks(slot, effect(*digest));
    }
    bench.settle();
    bench.end().open.clone().unwrap()
}

#[test]
fn what_was_allowed_runs_and_its_intent_names_the_approval() {
    let open = suspended(&[1]);
    let mut bench = resuming(open.clone(), vec![], vec![allow(&open.asked[0])], vec![]);
    bench.shows_records = true;
    bench.expect("decide:0 reserve ready:0");
    bench.on(Event::Started(0)).permit(0, false).expect("started:id0 intent>run:0");
    let Entry::Intent(intent) = &bench.records[0] else { panic!("{:?}", bench.records) };
    assert_eq!(intent.approval.as_ref(), Some(&open.asked[0].id));
    bench.answer(0, "done").expect("ended:id0 ran round round1 ask");
}

#[test]
fn what_was_denied_says_so_and_the_feedback_once() {
    let open = suspended(&[1, 2, 3]);
    let mut decisions: Vec<_> = open.asked.iter().map(|asked| deny(asked, Some("use b"))).collect();
    decisions.reverse();
    let bench = resuming(open, vec![], decisions, vec![]);
    let answers: Vec<_> =
        (1..4).map(|at| bench.messages()[at]["content"].as_str().unwrap()).collect();
    assert!(answers[0].starts_with("Error: ") && answers[0].contains("use b"), "{answers:?}");
    for answer in &answers[1..] {
        assert!(answer.starts_with("Error: ") && !answer.contains("use b"), "{answers:?}");
    }
}

/// What is judged after it must not wait for the same answer once more.
#[test]
fn a_denial_answers_about_finds_before_another_call_can_start() {
    let mut bench = Bench::with("m", &[], |start| {
        conversation_asks(start);
        start.asking.wait = Duration::from_secs(60);
        let sandbox = Sandbox::new(runner(), SandboxSettings::default());
        let permissions = start.pipeline.permissions.clone();
        start.pipeline.permissions = permissions.with_sandbox(sandbox, true);
    });
    bench.call(0, "Change", A).call(1, "Change", B).finish("tool_calls").done();
    bench.asks(0, effect(1)).asks(1, effect(2)).settle().log();
    let asked = bench.asked.clone();
    bench.on(Event::Decided(deny(&asked[0], None)));
    let log = bench.log();
    assert!(log.starts_with("answer-finds:id0 release:0 "), "{log}");
}

#[test]
fn an_approval_that_does_not_fit_any_more_asks_anew() {
    let open = suspended(&[1]);
    let mut bench = resuming(open.clone(), vec![], vec![allow(&open.asked[0])], vec![]);
    bench.asks(0, effect(9)).log();
    bench.settle();
    let again = bench.end().open.clone().unwrap();
    assert_eq!(again.asked.len(), 1);
    assert_ne!(again.asked[0].id, open.asked[0].id);
}

#[test]
fn what_was_not_decided_is_asked_again() {
    let open = suspended(&[1, 2]);
    let mut bench = resuming(open.clone(), vec![], vec![allow(&open.asked[0])], vec![]);
    bench.started(0).asks(1, effect(2)).answer(0, "done").log();
    bench.settle();
    let again = bench.end().open.clone().unwrap();
    assert_eq!(again.asked.iter().map(|asked| asked.slot).collect::<Vec<_>>(), [1]);
    assert_eq!(
        again.calls[0],
        OpenCall::Answered { answer: "done".to_owned(), pictures: Vec::new() }
    );
    assert!(bench.rounds().is_empty());
}

#[test]
fn a_decision_over_rest_runs_the_call_while_the_stream_waits() {
    let mut bench = Bench::with("m", &[], |start| {
        conversation_asks(start);
        start.asking.wait = Duration::from_secs(60);
    });
    bench.call(0, "Look", A).call(1, "Look", B).finish("tool_calls").done();
    bench.asks(0, effect(1)).asks(1, effect(2)).log();
    bench.settle().expect("asked:[0, 1] wait:60");
    bench.settle().expect("");
    let asked = bench.asked.clone();
    bench.on(Event::Decided(allow(&asked[0]))).expect("decide:0");
    bench.on(Event::Decided(allow(&asked[0]))).expect("");
    bench.on(Event::Started(0)).permit(0, true).expect("started:id0");
    bench.on(Event::WaitIsOver).settle().expect("");
    bench.answer(0, "done").expect("ended:id0");
    bench.on(Event::Decided(deny(&asked[1], None)));
    let log = bench.log();
    assert!(log.starts_with("release:1 ") && log.ends_with("round2 ask"), "{log}");
}

#[test]
fn a_wait_that_ends_suspends_with_what_is_still_open() {
    let mut bench = Bench::with("m", &[], |start| {
        conversation_asks(start);
        start.asking.wait = Duration::from_secs(60);
    });
    bench.call(0, "Look", A).call(1, "Look", B).finish("tool_calls").done();
    bench.asks(0, effect(1)).asks(1, effect(2)).settle();
    let first = bench.asked[0].clone();
    let minutes = |asked: &Asked| (asked.expires_ms - asked.created_ms) / 60_000;
    assert_eq!(minutes(&first), 10);
    bench.on(Event::Decided(deny(&first, None))).log();
    bench.on(Event::WaitIsOver).settle();
    let told = bench.log();
    assert!(told.contains("asked:[1]"), "the client is told what is left: {told}");
    let open = bench.end().open.clone().unwrap();
    assert_eq!(open.asked.iter().map(|asked| asked.slot).collect::<Vec<_>>(), [1]);
    assert_eq!(minutes(&open.asked[0]), 24 * 60);
}

/// As an agent in the background waits: there is no conversation to go on in.
#[test]
fn what_nobody_decides_in_time_is_denied_and_the_turn_goes_on() {
    let mut bench = Bench::with("m", &[], |start| {
        start.asking.channel = AskingChannel::WaitingRest;
        start.asking.wait = Duration::from_secs(60);
    });
    bench.call(0, "Look", A).call(1, "Look", B).finish("tool_calls").done();
    bench.asks(0, effect(1)).asks(1, effect(2)).log();
    bench.settle().expect("asked:[0, 1] wait:60");
    let asked = bench.asked.clone();
    assert_eq!(asked[0].expires_ms - asked[0].created_ms, 60_000, "no longer than it waits");
    bench.on(Event::Decided(allow(&asked[0]))).log();
    bench.on(Event::Started(0)).permit(0, true).answer(0, "done").log();
    bench.on(Event::WaitIsOver).settle();
    let log = bench.log();
    assert!(log.starts_with("release:1 failed:id1("), "{log}");
    assert!(log.contains("nobody has decided in time") && log.ends_with("round2 ask"), "{log}");
}

/// It was asked ahead of its turn, and is judged again when that comes.
#[test]
fn a_decision_counts_while_its_call_is_judged() {
    for is_allowed in [false, true] {
        let mut bench = Bench::with("m", &[], |start| {
            conversation_asks(start);
            start.asking.wait = Duration::from_secs(60);
        });
        bench.call(0, "Look", A).call(1, "Change", B).finish("tool_calls").done();
        bench.asks(0, effect(1)).settle();
        let ask = Some(Box::new(effect(2)));
        bench.on(Event::JudgedAhead { position: 1, ask, notices: vec![] }).settle();
        let asked = bench.asked.clone();
        bench.on(Event::Decided(allow(&asked[0]))).started(0).answer(0, "done");
        bench.on(Event::Started(1)).log();
        let decided = if is_allowed { allow(&asked[1]) } else { deny(&asked[1], None) };
        bench.on(Event::Decided(decided));
        let declined =
            "release:1 failed:id1(the user declined this call; nothing was done) round2 ask";
        bench.expect(if is_allowed { "decide:1" } else { declined });
    }
}

#[test]
fn each_ask_has_a_wait_of_its_own() {
    let mut bench = Bench::with("m", &[], |start| {
        conversation_asks(start);
        start.asking.wait = Duration::from_secs(60);
    });
    bench.call(0, "Look", A).finish("tool_calls").done().asks(0, effect(1)).settle();
    let first = bench.asked[0].clone();
    bench.on(Event::Decided(deny(&first, None))).on(Event::WaitIsOver);
    bench.call(0, "Look", B).finish("tool_calls").done().asks(0, effect(2)).log();
    bench.settle().expect("asked:[0] wait:60");
}

#[test]
fn what_was_approved_behind_a_question_stays_approved() {
    let mut bench = Bench::with("m", &[], conversation_asks);
    bench.call(0, "Change", A).call(1, "Change", B).finish("tool_calls").done();
    bench.asks(0, question()).settle();
    bench
        .on(Event::JudgedAhead { position: 1, ask: Some(Box::new(effect(2))), notices: vec![] })
        .settle();
    let open = bench.end().open.clone().unwrap();
    assert_eq!(open.asked.iter().map(|asked| asked.slot).collect::<Vec<_>>(), [1]);

    let approved = open.asked[0].clone();
    let mut bench = resuming(open, vec![], vec![allow(&approved)], vec![]);
    bench.asks(0, question()).settle();
    bench
        .on(Event::JudgedAhead { position: 1, ask: Some(Box::new(effect(2))), notices: vec![] })
        .settle();
    let open = bench.end().open.clone().unwrap();
    assert_eq!(open.asked.iter().map(|asked| asked.slot).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(open.asked[1], approved);
}

#[test]
fn a_turn_that_is_stopped_while_it_asks_closes_the_round() {
    let mut bench = Bench::with("m", &[], |start| {
        conversation_asks(start);
        start.asking.wait = Duration::from_secs(60);
    });
    bench.call(0, "Look", A).finish("tool_calls").done().asks(0, effect(1)).settle().log();
    bench.on(Event::Stopped).expect("FAILED:cancelled STOP");
    assert_eq!(messages_of(bench.rounds()[0])[1]["content"], "Error: interrupted");
    assert!(bench.end().open.is_none());
}

/// What a call is, and what a person says of it when asked: nothing, yes or no.
#[derive(Clone, Copy, Debug)]
struct Plan {
    is_exclusive: bool,
    asks: bool,
    decision: Option<bool>,
}

/// Plays the driver: starts calls as the real schedule does, and judges them as planned.
struct World {
    plans: Vec<Plan>,
    schedule: Schedule,
    /// The decisions that calls were given.
    allowed: BTreeMap<usize, bool>,
    /// How often each call ran, over all turns.
    runs: BTreeMap<usize, u32>,
}

impl World {
    /// Plays a turn until it ends or asks upstream for the next round. Returns whether it asked.
    fn play(&mut self, bench: &mut Bench, mut effects: Vec<TurnEffect>) -> bool {
        self.schedule = Schedule::new(10);
        self.allowed.clear();
        let mut events = Vec::new();
        loop {
            for effect in effects {
                match effect {
                    TurnEffect::Reserve => {
                        self.schedule.reserve();
                    }
                    TurnEffect::Ready(at, call) => self.schedule.ready(at, call.concurrency()),
                    TurnEffect::Withdraw(all) => {
                        for at in all {
                            self.schedule.withdraw(at);
                        }
                    }
                    TurnEffect::Release(at) => self.schedule.withdraw(at),
                    TurnEffect::Decide(at, _) => {
                        self.allowed.insert(at, true);
                        self.schedule.resume(at);
                    }
                    TurnEffect::Run(at, entry) => {
                        assert!(entry.is_some(), "each of these calls has an effect");
                        let plan = self.plans[at];
                        assert!(!plan.asks || self.allowed.contains_key(&at), "unapproved");
                        *self.runs.entry(at).or_default() += 1;
                        self.schedule.finish(at);
                        let text = format!("ran {at}").into();
                        let result = ToolResult { text, ..ToolResult::default() };
                        let (position, duration) = (at, Duration::ZERO);
                        events.push(Event::Answered { position, result, duration, usage: None });
                    }
                    TurnEffect::JudgeAhead(all) => events.extend(all.into_iter().map(|at| {
                        let ask = self.plans[at].asks.then(|| Box::new(effect_of(at)));
                        Event::JudgedAhead { position: at, ask, notices: vec![] }
                    })),
                    TurnEffect::FinishRound { .. } => {
                        events.push(Event::RoundFinished(FinishedRound::default()));
                    }
                    TurnEffect::Ask { .. } => return true,
                    TurnEffect::Stop => return false,
                    TurnEffect::Commit(entry) => {
                        bench.keep(entry);
                        events.push(Event::Committed);
                    }
                    TurnEffect::Record(entry) => {
                        bench.keep(entry);
                    }
                    _ => {}
                }
            }
            effects = Vec::new();
            for at in self.schedule.start() {
                effects.extend(bench.state.on(Event::Started(at), Duration::ZERO));
                events.push(self.judge(at));
            }
            if effects.is_empty() && events.is_empty() {
                effects = bench.state.settle(Duration::ZERO);
                assert!(!effects.is_empty(), "the turn hangs");
                continue;
            }
            for event in std::mem::take(&mut events) {
                effects.extend(bench.state.on(event, Duration::ZERO));
            }
        }
    }

    fn judge(&mut self, position: usize) -> Event {
        let asks = self.plans[position].asks && !self.allowed.contains_key(&position);
        let judgement = if asks {
            self.schedule.hold(position);
            Judgement::Asked { ask: Box::new(effect_of(position)), notices: vec![] }
        } else {
            Judgement::Permitted { has_effect: true }
        };
        Event::Judged { position, judgement }
    }
}

fn effect_of(position: usize) -> Ask {
    effect(u8::try_from(position).unwrap())
}

fn plan() -> impl Strategy<Value = Plan> {
    (any::<bool>(), any::<bool>(), any::<Option<bool>>())
        .prop_map(|(is_exclusive, asks, decision)| Plan { is_exclusive, asks, decision })
}

proptest! {
    #[test]
    fn no_order_of_decisions_runs_what_was_not_approved_or_anything_twice(
        plans in prop::collection::vec(plan(), 1..7),
    ) {
        let mut bench = Bench::with("m", &[], conversation_asks);
        let mut world = World {
            plans: plans.clone(),
            schedule: Schedule::new(10),
            allowed: BTreeMap::new(),
            runs: BTreeMap::new(),
        };
        let calls: Vec<Value> = plans.iter().enumerate().map(|(at, plan)| {
            let name = if plan.is_exclusive { "Change" } else { "Look" };
            json!({"id": format!("id{at}"), "type": "function",
                "function": {"name": name, "arguments": A}})
        }).collect();
        // The round as a turn leaves it that could start nothing yet.
        let mut open = OpenRound {
            message: json!({"role": "assistant", "content": null, "tool_calls": calls}),
            model: "m".to_owned(),
            has_reasoning: false,
            calls: vec![OpenCall::Waiting; plans.len()],
            asked: Vec::new(),
            asked_by: Vec::new(),
            ends_with: None,
            question: None,
        };
        let mut decisions = Vec::new();
        for _ in 0..20 {
            let resume = Resume {
                open: open.clone(),
                client_answers: Vec::new(),
                decisions: std::mem::take(&mut decisions),
                then: Vec::new(),
            };
            bench = Bench::with("m", &[], |start| {
                conversation_asks(start);
                start.settings.max_rounds = 0;
            });
            bench.state.start.settings.max_rounds = 9;
            bench.state.start.beginning = Beginning::Resume(Box::new(resume));
            bench.state.phase = Phase::Streaming;
            bench.records.clear();
            let effects = bench.state.begin();
            if world.play(&mut bench, effects) {
                break;
            }
            open = bench.end().open.clone().unwrap();
            prop_assert!(!open.asked.is_empty());
            for asked in &open.asked {
                // Who says nothing is asked again, until the last moment.
                match world.plans[asked.slot].decision.take() {
                    Some(true) => decisions.push(allow(asked)),
                    Some(false) => decisions.push(deny(asked, None)),
                    None => world.plans[asked.slot].decision = Some(true),
                }
            }
        }
        let rounds = bench.rounds();
        prop_assert_eq!(rounds.len(), 1, "the round is closed once");
        let messages = messages_of(rounds[0]);
        prop_assert_eq!(messages.as_array().unwrap().len(), plans.len() + 1);
        for (at, plan) in plans.iter().enumerate() {
            let runs = world.runs.get(&at).copied().unwrap_or(0);
            let is_denied = plan.asks && plan.decision == Some(false);
            prop_assert_eq!(runs, u32::from(!is_denied), "call {}", at);
            let answer = messages[at + 1]["content"].as_str().unwrap();
            prop_assert_eq!(answer == format!("ran {at}"), !is_denied, "{}", answer);
        }
    }
}
