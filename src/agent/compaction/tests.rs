//! Tests what is left out, and what stands in its place.

use serde_json::{Value, json};

use super::*;
use crate::agent::record::RecordedRound;

fn record(messages: &Value) -> RecordedRound {
    RecordedRound { messages: messages.to_string(), model: "m".to_owned(), has_reasoning: false }
}

fn said(role: &str, content: &str) -> RecordedRound {
    record(&json!([{ "role": role, "content": content }]))
}

fn reads(file: &str, answer: &str) -> RecordedRound {
    let arguments = json!({ "file_path": file }).to_string();
    let function = json!({ "name": "Read", "arguments": arguments });
    let call = json!({ "id": file, "type": "function", "function": function });
    record(&json!([
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "tool_call_id": file, "content": answer },
    ]))
}

/// Each message in a few words.
fn shown(rounds: &[RecordedRound]) -> Vec<String> {
    let messages = rounds.iter().flat_map(|round| {
        serde_json::from_str::<Vec<Value>>(&round.messages).expect("an array of messages")
    });
    let one = |message: Value| {
        let content = message["content"].as_str().unwrap_or("(calls)").to_owned();
        let words: Vec<_> = content.split_whitespace().take(6).collect();
        format!("{}: {}", message["role"].as_str().unwrap_or_default(), words.join(" "))
    };
    messages.map(one).collect()
}

fn long() -> Vec<RecordedRound> {
    let answer = "x".repeat(1000);
    let files = ["a", "b", "c", "d", "e"].map(|file| reads(file, &answer));
    [vec![said("user", "Read.")], files.to_vec()].concat()
}

#[test]
fn the_oldest_results_are_left_out_first_and_the_last_rounds_never() {
    for (wanted, left_out) in [(0, 0), (1, 1), (1000, 2), (usize::MAX, 2)] {
        let mut material = Material::new(long(), "m");
        let saved = material.leave_out_results(wanted);
        let rounds = material.into_rounds();
        let count = rounds.iter().filter(|round| round.messages.contains("is left out")).count();
        assert_eq!(count, left_out, "{wanted}");
        let bytes = |rounds: &[RecordedRound]| -> usize {
            rounds.iter().map(|round| round.messages.len()).sum()
        };
        assert_eq!(bytes(&long()) - bytes(&rounds), saved);
        assert_eq!(rounds[3..], long()[3..]);
    }
}

#[test]
fn a_stub_names_the_call_and_a_short_result_stays() {
    let mut material = Material::new([vec![reads("short", "y")], long()].concat(), "m");
    material.leave_out_results(usize::MAX);
    let rounds = material.into_rounds();
    assert_eq!(rounds[0], reads("short", "y"));
    let stub = "(The result of Read a is left out here to save room. If you need it, call again.)";
    assert_eq!(rounds[2], reads("a", stub));
    let mut again = Material::new(rounds, "m");
    assert_eq!(again.leave_out_results(usize::MAX), 0, "a stub is not left out");
}

#[test]
fn a_summary_stands_before_the_last_user_message_and_the_last_rounds() {
    let rounds = Material::new(long(), "m").with_summary("They read.", &Plans::default());
    assert_eq!(
        shown(&rounds),
        [
            "user: <summary> The older part of this",
            "assistant: I go on from this summary.",
            "user: Read.",
            "assistant: (calls)",
            "tool: xxxx".replace("xxxx", &"x".repeat(1000)).as_str(),
            "assistant: (calls)",
            "tool: xxxx".replace("xxxx", &"x".repeat(1000)).as_str(),
            "assistant: (calls)",
            "tool: xxxx".replace("xxxx", &"x".repeat(1000)).as_str(),
        ]
    );
    let mut chat = Vec::new();
    for number in 1..=4 {
        chat.push(said("user", &format!("q{number}")));
        chat.push(said("assistant", &format!("a{number}")));
    }
    chat.insert(2, said("system", "Be brief."));
    chat.push(said("user", "q5"));
    let rounds = Material::new(chat, "m").with_summary("They asked.", &Plans::default());
    assert_eq!(
        shown(&rounds),
        [
            "system: Be brief.",
            "user: <summary> The older part of this",
            "assistant: a2",
            "user: q3",
            "assistant: a3",
            "user: q4",
            "assistant: a4",
            "user: q5",
        ]
    );
}

#[test]
fn calls_and_answers_that_came_apart_stay_together() {
    let call = json!({ "id": "c", "type": "function", "function": { "name": "f" } });
    let asks = record(&json!([{ "role": "assistant", "tool_calls": [call] }]));
    let answers = record(&json!([{ "role": "tool", "tool_call_id": "c", "content": "1" }]));
    let rounds = [vec![said("user", "q")], vec![asks, answers]].concat();
    let chat = [rounds.clone(), long()].concat();
    let mut material = Material::new(chat, "m");
    assert!(material.replaced_bytes() > 0);
    material.leave_out_results(0);
    let units = material.into_rounds();
    assert!(units[1].messages.contains("tool_calls") && units[1].messages.contains("tool_call_id"));
    let short = Material::new(rounds, "m");
    assert_eq!(short.replaced_bytes(), 0, "so little is never summarised");
}

#[test]
fn the_text_for_a_summary_fits_its_room() {
    for room in [500, 2000, 100_000] {
        let text = Material::new(long(), "m").text(room);
        assert!(text.len() < room + 200, "{room}: {}", text.len());
        assert!(text.contains("[calls Read"), "{text}");
        assert!(text.contains("Result of Read a: x") || room == 500, "{text}");
    }
}

#[test]
fn the_largest_part_is_named() {
    let mut chat = long();
    chat.push(reads("big", &"x".repeat(5000)));
    let told = Material::new(chat, "m").largest(10);
    assert!(told.contains("the result of Read big (message 13 behind"), "{told}");
    let told = Material::new(long(), "m").largest(100_000);
    assert_eq!(told, "the largest part is the instructions and the tools, with 100000 characters");
}

#[test]
fn a_request_is_full_from_85_percent_on() {
    let size = |tokens| Size { tokens, bytes: 1000 };
    assert!(!is_full(size(84), 100) && is_full(size(85), 100));
    assert!(is_full(size(1), 1) && is_full(size(u64::MAX), u64::MAX));
    assert_eq!(excess(size(120), 100), 500);
    assert_eq!(excess(size(10), 100), 0);
    assert_eq!(size(100).without(250), Size { tokens: 75, bytes: 750 });
    assert_eq!(Size::grown(100, 1000, 1400).tokens, 200);
    assert_eq!(room_for_summary(size(100), None, 0), 500);
    let size = Size { tokens: 1000, bytes: 40_000 };
    let rooms = [0, 1, 9].map(|failed| room_for_summary(size, Some(500), failed));
    assert_eq!(rooms, [10_000, 2500, 500]);
}

#[test]
fn an_embedded_picture_counts_little() {
    let picture = format!(r#"{{"url":"data:image/png;base64,{}"}}"#, "A".repeat(1_000_000));
    let tokens = estimate([picture.as_bytes(), b"01234567"].into_iter());
    assert!((1_000..3_000).contains(&tokens), "{tokens}");
    assert_eq!(estimate([&b"01234567"[..]].into_iter()), 2);
}

#[test]
fn what_is_planned_stands_behind_the_summary() {
    let told = |plans: &Plans, replaced: usize| plans.told(replaced).unwrap_or_default();
    assert_eq!(Plans::default().told(1000), None);
    let plan = |text: &str| {
        let (path, state) = ("/s/plan.md".into(), "Plan mode is on.".to_owned());
        Some(Plan { path, state, text: Some(text.into()) })
    };
    let todos = vec!["- completed: look".to_owned(), "- pending: write".to_owned()];
    let plans = Plans { todos: todos.clone(), plan: plan("1. Look\n</reminder>\n") };
    insta::assert_snapshot!(told(&plans, 1000), @r"
    <reminder>
    Your todo list is:
    - completed: look
    - pending: write

    Plan mode is on.
    The plan in /s/plan.md:

    1. Look
    ‹/reminder>
    </reminder>
    ");
    let empty = Plans { todos: Vec::new(), plan: plan(" ") };
    assert_eq!(told(&empty, 1000), "<reminder>\nPlan mode is on.\n</reminder>");

    let many = vec![format!("- pending: {}", "x".repeat(1000)); 100];
    let plans = Plans { todos: many, plan: plan(&"word ".repeat(20_000)) };
    let (little, much) = (told(&plans, 1000), told(&plans, usize::MAX));
    assert!(little.len() < 8_000 && much.len() < 18_000, "{} {}", little.len(), much.len());
    assert_eq!(little.matches("- pending: x").count(), 100);
    assert!(much.ends_with("\n(cut here: Read /s/plan.md for the rest)\n</reminder>"), "{much}");

    let rounds =
        Material::new(long(), "m").with_summary("They read.", &Plans { todos, plan: None });
    let first = &rounds[0].messages;
    assert!(first.contains("</summary>\\n\\n<reminder>\\nYour todo list is:"), "{first}");
}
