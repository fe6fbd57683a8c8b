//! Tests what a turn tells a client that is shown cards.

use super::*;

fn bench(client_tools: &[&str]) -> Bench {
    Bench::with("gpt", client_tools, |start| start.cards = true)
}

/// The words of the log that are about cards and calls.
fn told(bench: &Bench) -> Vec<&str> {
    let is_about = |word: &&str| {
        ["card", "complete", "started", "ended", "failed"].iter().any(|kind| word.starts_with(kind))
    };
    bench.log.split_whitespace().filter(is_about).collect()
}

#[test]
fn a_call_is_announced_when_its_name_is_known_and_all_are_by_the_end() {
    let mut bench = bench(&["weather"]);
    let piece = |name: &str| json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": name } }] });
    bench.delta(&piece("Ch"));
    assert_eq!(told(&bench), Vec::<&str>::new(), "the name may grow");
    bench.delta(&piece("ange"));
    assert_eq!(told(&bench), ["card0:Change"]);
    bench.call(1, "weather", "{}").call(2, "Look", "{}").call(3, "Lok", "{}");
    bench.finish("tool_calls").done();

    let told = told(&bench);
    let end = told.iter().position(|word| *word == "complete").expect("all calls are announced");
    let announced: Vec<&&str> =
        told[..end].iter().filter(|word| word.starts_with("card")).collect();
    assert!(announced.contains(&&"card2:Look"), "{told:?}");
    assert!(told.iter().all(|word| !word.starts_with("card1")), "the client's own call: {told:?}");
    assert!(!told[end..].iter().any(|word| word.starts_with("card")), "{told:?}");
}

#[test]
fn nothing_is_announced_where_no_cards_are_shown() {
    let mut bench = Bench::new("gpt", &[]);
    bench.call(0, "Change", "{}").finish("tool_calls").done();

    assert!(!bench.log.contains("card") && !bench.log.contains("complete"), "{}", bench.log);
}
