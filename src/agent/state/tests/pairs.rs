//! Tests on random turns that each `tool_start` has exactly one `tool_end` before the one
//! terminal event, and that the client's calls arrive whole.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Checks the events of a turn as they arrive.
#[derive(Default)]
pub(super) struct Pairs {
    running: BTreeSet<String>,
    /// The calls of the current round that have ended. Another round may use the same ids.
    ended: BTreeSet<String>,
    /// Client's calls that have begun.
    client_calls: usize,
    is_over: bool,
}

impl Pairs {
    pub(super) fn note(&mut self, event: &TurnEvent) {
        assert!(!self.is_over, "{event:?} after the end");
        match event {
            TurnEvent::RoundStarted(_) => {
                assert!(self.running.is_empty(), "{:?} ran on into a new round", self.running);
                self.ended.clear();
            }
            TurnEvent::ToolStarted(start) => {
                let id = start.call_id.clone();
                assert!(!self.ended.contains(&id), "{id} starts after its end");
                assert!(self.running.insert(id), "{start:?} started twice");
            }
            TurnEvent::ToolEnded(end) => {
                let id = end.call_id.clone();
                self.running.remove(&id);
                assert!(self.ended.insert(id), "{end:?} ended twice");
            }
            TurnEvent::ClientCall(call) if call.head.is_some() => {
                assert_eq!(call.index, self.client_calls, "indexes count from 0");
                self.client_calls += 1;
            }
            TurnEvent::ClientCall(call) => {
                assert!(call.index < self.client_calls, "{call:?} comes before its head");
            }
            TurnEvent::Finished(_) | TurnEvent::Failed(_) => {
                assert!(self.running.is_empty(), "{:?} never ended", self.running);
                self.is_over = true;
            }
            _ => {}
        }
    }
}

#[derive(Clone, Debug)]
enum Happening {
    Text,
    Delta { index: u64, id: Option<u64>, name: Option<&'static str>, piece: &'static str },
    Finish(&'static str),
    Done,
    Death,
    Refusal,
    Started(usize),
    Answered(usize),
    TimeIsUp,
    Overloaded,
}

fn happening() -> impl Strategy<Value = Happening> {
    let names = vec![Some("Look"), Some("Change"), Some("theirs"), Some("Lok"), None];
    let pieces = vec![A, A, r#"{"at""#, r#":"a"}"#, "", "{}", "x"];
    let delta = (
        0..3_u64,
        prop::option::of(0..3_u64),
        prop::sample::select(names),
        prop::sample::select(pieces),
    );
    let reasons = vec!["tool_calls", "stop", "length", "content_filter"];
    prop_oneof![
        1 => Just(Happening::Text),
        12 => delta.prop_map(|(index, id, name, piece)| Happening::Delta { index, id, name, piece }),
        2 => prop::sample::select(reasons).prop_map(Happening::Finish),
        4 => Just(Happening::Done),
        2 => Just(Happening::Death),
        1 => Just(Happening::Refusal),
        10 => (0..4_usize).prop_map(Happening::Started),
        6 => (0..4_usize).prop_map(Happening::Answered),
        1 => Just(Happening::TimeIsUp),
        1 => Just(Happening::Overloaded),
    ]
}

fn play(bench: &mut Bench, happening: &Happening) {
    match happening {
        Happening::Text => bench.text("Hi"),
        Happening::Delta { index, id, name, piece } => {
            let id = id.map(|number| format!("id{number}"));
            let function = json!({ "name": name, "arguments": piece });
            bench.delta(
                &json!({ "tool_calls": [{ "index": index, "id": id, "function": function }] }),
            )
        }
        Happening::Finish(reason) => bench.finish(reason),
        Happening::Done => bench.done(),
        Happening::Death => bench.die(),
        Happening::Refusal => bench.refuse_reasoning(),
        Happening::Started(position) => bench.started(*position),
        Happening::Answered(position) => bench.answer(*position, "done"),
        Happening::TimeIsUp => bench.on(Event::TimeIsUp),
        Happening::Overloaded => bench.on(Event::Overloaded),
    };
}

proptest! {
    #[test]
    fn every_tool_that_started_ends_once_before_the_turn_does(
        model in prop::sample::select(vec!["m", "claude-x"]),
        client_tools in prop::sample::select(vec![&[] as &[&str], &["theirs"]]),
        happenings in prop::collection::vec(happening(), 0..60),
    ) {
        let mut bench = Bench::with(model, client_tools, |start| start.settings.max_rounds = 4);
        for happening in &happenings {
            play(&mut bench, happening);
        }
        bench.on(Event::ShuttingDown);
        prop_assert!(bench.pairs.is_over, "no terminal event: {}", bench.log());
    }
}
