//! Random clients: whatever a frontend does to a conversation, the model keeps what it saw.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::play::{Played, Script, World, answer, calls, said, user};
use crate::store::rows::TurnStatus;

/// What a client does with the newest answer, before its next message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Habit {
    Plain,
    /// The answer comes back as two messages.
    Split,
    /// The user message was wrapped when it was new.
    Wrapped,
    /// The user stopped the answer; the client shows so many characters of it.
    Stopped(usize),
    /// The model called a tool of the client's.
    ClientTool,
    /// The user asked for a continuation of the answer.
    Continued,
    /// A first attempt was stopped, and regenerated.
    Regenerated,
}

fn habits() -> impl Strategy<Value = Vec<Habit>> {
    let habit = select(vec![
        Habit::Plain,
        Habit::Split,
        Habit::Wrapped,
        Habit::Stopped(0),
        Habit::Stopped(7),
        Habit::Stopped(100),
        Habit::ClientTool,
        Habit::Continued,
        Habit::Regenerated,
    ]);
    proptest::collection::vec(habit, 1..7)
}

/// Each call has exactly one answer, right behind its message.
fn is_paired(played: &Played) -> bool {
    let mut owed: Vec<Value> = Vec::new();
    for message in played.pieces().as_array().expect("a list") {
        if message["role"] == "tool" {
            if owed.is_empty() || owed.remove(0) != message["tool_call_id"] {
                return false;
            }
            continue;
        }
        if !owed.is_empty() {
            return false;
        }
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        owed = calls.map(|call| call["id"].clone()).collect();
    }
    owed.is_empty()
}

/// Plays one exchange. Returns the turns whose upstream bytes continue each other.
fn exchange(world: &World, list: &mut Vec<Value>, number: usize, habit: Habit) -> Vec<Played> {
    let text = format!("Answer {number} of the model, in words.");
    let words = format!("question {number}");
    let script = || Script::of(&text).calling(&format!("c{number}"));
    let wrapped = format!("### Task:\n<context>file {number}</context>\n\n{words}");
    list.push(user(if habit == Habit::Wrapped { &wrapped } else { &words }));
    let mut turns = Vec::new();
    match habit {
        Habit::Plain | Habit::Wrapped | Habit::Split => {
            turns.push(world.turn(&json!(list), script()));
        }
        Habit::Stopped(_) => {
            turns.push(world.turn(&json!(list), script().ending(TurnStatus::Cancelled)));
        }
        Habit::Regenerated => {
            world.turn(&json!(list), script().ending(TurnStatus::Cancelled));
            turns.push(world.turn(&json!(list), script()));
        }
        Habit::ClientTool => {
            let id = format!("client{number}");
            let server = format!("kept{number}");
            let open = Script::of("").mixed(&[&id], &server);
            turns.push(world.turn(&json!(list), open));
            list.extend([calls("", &[&id]), answer(&id, "theirs")]);
            turns.push(world.turn(&json!(list), script()));
        }
        Habit::Continued => {
            world.turn(&json!(list), script());
            list.push(said(&text));
            turns.push(world.turn(&json!(list), Script::of(" And more.")));
            list.pop();
        }
    }
    if habit == Habit::Wrapped {
        *list.last_mut().expect("the question") = user(&words);
    }
    match habit {
        Habit::Split => list.extend([said("Answer"), said(&text["Answer".len()..])]),
        Habit::Stopped(0) => {}
        Habit::Stopped(shown) => list.push(said(&text[..shown.min(text.len())])),
        Habit::Continued => list.push(said(&format!("{text} And more."))),
        _ => list.push(said(&text)),
    }
    turns
}

proptest! {
    #[test]
    fn each_turn_begins_with_the_bytes_of_the_one_before(
        habits in habits(),
        is_named in any::<bool>(),
    ) {
        let world = if is_named { World::new().named() } else { World::new() };
        // A stopped first turn is known by an id alone.
        let first = if is_named { None } else { Some(Habit::Plain) };
        let mut list = Vec::new();
        let mut last: Option<Played> = None;
        for (number, habit) in first.into_iter().chain(habits).enumerate() {
            for played in exchange(&world, &mut list, number, habit) {
                prop_assert!(is_paired(&played), "{}", played.before);
                if let Some(last) = &last {
                    let continues = habit == Habit::Continued || played.begins_with(last);
                    prop_assert!(continues, "{habit:?}\n{}\n\n{}", played.before, last.after);
                    prop_assert_eq!(&played.session, &last.session);
                }
                last = Some(played);
            }
        }
        list.push(user("and of another key"));
        prop_assert_eq!(world.with_key("other").named().search(&json!(list)).path.len(), 0);
        // Who drops the oldest messages of a named session keeps the steps behind the others.
        let found = world.search(&json!(list[list.len() / 2..]));
        prop_assert!(!is_named || !found.path.is_empty());
    }
}
