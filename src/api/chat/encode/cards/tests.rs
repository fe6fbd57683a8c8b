//! Tests the rules of cards for any order of events.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::agent::events::{Attachments, Headline, Structured};

fn began(slot: usize) -> TurnEvent {
    TurnEvent::CallBegan(Box::new(CallBegan { slot, tool: "Bash".to_owned() }))
}

fn started(slot: usize, arguments: Option<&str>) -> TurnEvent {
    TurnEvent::ToolStarted(Box::new(ToolStart {
        // Models repeat their ids.
        call_id: "call_0".to_owned(),
        slot,
        tool: "Bash".to_owned(),
        headline: Headline::new("make".to_owned()),
        arguments: arguments.map(str::to_owned),
    }))
}

fn ended(slot: usize, text: Option<&str>, error: Option<&str>) -> TurnEvent {
    TurnEvent::ToolEnded(Box::new(ToolEnd {
        call_id: "call_0".to_owned(),
        slot,
        tool: "Bash".to_owned(),
        headline: Headline::default(),
        text: text.map(str::to_owned),
        duration: Duration::ZERO,
        chars: text.map_or(0, |text| text.chars().count()),
        error: error.map(str::to_owned),
        structured: Structured::default(),
        attachments: Attachments::default(),
    }))
}

/// One word for each item.
fn words(items: &[Item]) -> Vec<String> {
    let word = |Item { item, .. }: &Item| match item["type"].as_str().unwrap() {
        "function_call" => format!("call {} {}", item["arguments"], item["status"]),
        _ => format!("output {} {}", item["output"][0]["text"], item["status"]),
    };
    items.iter().map(word).map(|word| word.replace(['"', '\\'], "")).collect()
}

#[track_caller]
fn check(events: &[TurnEvent], closing: Closing, expected: &[&str]) {
    let mut cards = Cards::new(TurnId::random());
    let mut items: Vec<Item> = events.iter().flat_map(|event| cards.on(event)).collect();
    items.extend(cards.close(closing));
    assert_eq!(words(&items), expected);
}

#[test]
fn a_call_is_prepared_executed_and_shown_with_its_output() {
    let events = [
        began(0),
        started(0, Some(r#"{"command":"make"}"#)),
        TurnEvent::CallsComplete,
        ended(0, Some("built"), None),
    ];
    check(
        &events,
        Closing::Round,
        &[
            "call {} in_progress",
            "call {command:make} completed",
            "call {command:make} completed",
            "output built completed",
        ],
    );
}

#[test]
fn an_output_waits_until_all_calls_are_announced() {
    let events = [
        began(0),
        started(0, Some("{}")),
        ended(0, Some("one"), None),
        TurnEvent::Text("and".to_owned()),
        began(1),
        TurnEvent::CallsComplete,
        started(1, Some("{}")),
        ended(1, None, Some("no such file")),
    ];
    check(
        &events,
        Closing::Round,
        &[
            "call {} in_progress",
            "call {} completed",
            "call {} in_progress",
            "call {} completed",
            "output one completed",
            "call {} completed",
            "call {} failed",
            "output no such file failed",
        ],
    );
}

#[test]
fn what_is_open_at_the_end_is_closed_with_the_reason() {
    let events = [began(0), began(1), started(0, Some("{}"))];
    let begun = ["call {} in_progress", "call {} in_progress", "call {} completed"];
    let with = |closed: [&'static str; 4]| [&begun[..], &closed[..]].concat();
    check(
        &events,
        Closing::Failure,
        &with([
            "call {} failed",
            "output interrupted failed",
            "call {} failed",
            "output This call did not run. failed",
        ]),
    );
    check(
        &events,
        Closing::Waiting,
        &with([
            "call {} failed",
            "output This call waits for an answer. failed",
            "call {} failed",
            "output This call waits for an answer. failed",
        ]),
    );
}

#[test]
fn a_call_that_is_refused_at_once_is_announced_first() {
    let events = [TurnEvent::CallsComplete, ended(0, None, Some("no tool named Bsh"))];
    let shown = ["call {} in_progress", "call {} failed", "output no tool named Bsh failed"];
    check(&events, Closing::Round, &shown);
}

#[test]
fn a_second_attempt_goes_on_with_the_card_of_the_first() {
    let mut cards = Cards::new(TurnId::random());
    let ids: HashSet<String> = [began(0), began(0), started(0, None)]
        .iter()
        .flat_map(|event| cards.on(event))
        .map(|item| item.item["call_id"].to_string())
        .collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(words(&cards.close(Closing::Round))[0], "call {argument:make} failed");
}

#[test]
fn an_output_is_cut_with_a_note() {
    let shown = |text: &str| {
        let event = ended(0, Some(text), None);
        let TurnEvent::ToolEnded(end) = event else { unreachable!() };
        output(&end)
    };
    let fits = "é".repeat(MAX_OUTPUT);
    assert_eq!(shown(&fits), fits);
    let cut = shown(&"é".repeat(MAX_OUTPUT + 1));
    assert_eq!(cut.chars().count(), MAX_OUTPUT);
    assert!(cut.contains("\n… (10001 characters in all;"), "{}", &cut[cut.len() - 100..]);

    // The event holds the beginning alone.
    let TurnEvent::ToolEnded(mut end) = ended(0, Some(&fits), None) else { unreachable!() };
    end.chars = 123_456;
    assert!(output(&end).contains("(123456 characters in all;"));
    (end.text, end.error) = (None, None);
    assert_eq!(output(&end), NOT_KEPT);
}

/// The events of a turn, in orders that may and may not occur.
fn any_events() -> impl Strategy<Value = Vec<TurnEvent>> {
    let slot = || 0..4_usize;
    let event = prop_oneof![
        slot().prop_map(began),
        slot().prop_map(|slot| started(slot, Some("{}"))),
        slot().prop_map(|slot| ended(slot, Some("x"), None)),
        slot().prop_map(|slot| ended(slot, None, Some("interrupted"))),
        Just(TurnEvent::CallsComplete),
        Just(TurnEvent::Text("t".to_owned())),
        (1..9_u32).prop_map(TurnEvent::RoundStarted),
    ];
    prop::collection::vec(event, 0..40)
}

/// The events of a turn as the agent sends them: each round announces its calls in order, and
/// they start and end in any order, while the model speaks or later.
fn real_turn() -> impl Strategy<Value = Vec<TurnEvent>> {
    let round = (1..5_usize, any::<u64>(), any::<bool>()).prop_map(|(calls, mut dice, waits)| {
        let mut events = vec![TurnEvent::RoundStarted(1), TurnEvent::Text("t".to_owned())];
        let (mut announced, mut running, mut is_complete) = (0, Vec::new(), false);
        let mut fresh = Vec::new();
        loop {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            match (dice >> 33) % 5 {
                0 if announced < calls => {
                    events.push(began(announced));
                    fresh.push(announced);
                    announced += 1;
                }
                1 if !is_complete => events.push(TurnEvent::Text("t".to_owned())),
                2 if announced == calls && !is_complete => {
                    is_complete = true;
                    events.push(TurnEvent::CallsComplete);
                }
                3 if !fresh.is_empty() => {
                    let slot = fresh.remove(0);
                    events.push(started(slot, Some("{}")));
                    running.push(slot);
                }
                4 if !running.is_empty() => {
                    events.push(ended(running.remove(0), Some("x"), None));
                }
                _ => {}
            }
            let has_ended = is_complete && (waits || fresh.is_empty() && running.is_empty());
            if has_ended {
                return events;
            }
        }
    });
    prop::collection::vec(round, 1..4).prop_map(|rounds| rounds.concat())
}

fn call_id(item: &Item) -> String {
    item.item["call_id"].as_str().unwrap().to_owned()
}

fn is_output(item: &Item) -> bool {
    item.item["type"] == "function_call_output"
}

proptest! {
    #[test]
    fn every_card_is_announced_and_closed_once(
        events in any_events(),
        why in prop_oneof![
            Just(Closing::Round), Just(Closing::Failure), Just(Closing::Waiting)
        ],
    ) {
        let mut cards = Cards::new(TurnId::random());
        let mut items: Vec<Item> = events.iter().flat_map(|event| cards.on(event)).collect();
        items.extend(cards.close(why));

        let mut outputs = HashMap::new();
        let mut places = HashMap::new();
        for item in &items {
            let id = call_id(item);
            let item_id = item.item["id"].as_str().unwrap().to_owned();
            let place = *places.entry(item_id).or_insert(item.output_index);
            prop_assert_eq!(place, item.output_index, "an update keeps its place");
            if is_output(item) {
                *outputs.get_mut(&id).expect("announced before") += 1;
            } else {
                prop_assert_eq!(*outputs.entry(id).or_insert(0), 0, "a call after its output");
            }
        }
        prop_assert!(outputs.values().all(|count| *count == 1), "{outputs:?}");
        let distinct: HashSet<u64> = places.values().copied().collect();
        prop_assert_eq!(distinct.len(), places.len());
    }

    #[test]
    fn no_output_comes_before_a_call_of_its_round_or_within_a_text(events in real_turn()) {
        let mut cards = Cards::new(TurnId::random());
        let (mut announced, mut has_output, mut speaks) = (HashSet::new(), false, false);
        for event in &events {
            if matches!(event, TurnEvent::RoundStarted(_)) {
                (has_output, speaks) = (false, false);
            }
            speaks &= !matches!(event, TurnEvent::CallsComplete);
            for item in cards.on(event) {
                if is_output(&item) {
                    prop_assert!(!speaks, "within a text");
                    has_output |= !matches!(event, TurnEvent::RoundStarted(_));
                } else if announced.insert(call_id(&item)) {
                    prop_assert!(!has_output, "a new call after an output of its round");
                }
            }
            speaks |= matches!(event, TurnEvent::Text(_));
        }
    }
}
