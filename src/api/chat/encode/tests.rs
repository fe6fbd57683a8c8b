//! Tests that what the client was shown the beginning of has an end, on every exit.

use super::*;
use crate::agent::asking::test_support::shown_effect;
use crate::agent::events::{Headline, Summary};
use crate::agent::record::Asked;
use crate::errors::{ApiError, ErrorCode};
use crate::execution::ask::{About, Ask, Question, ShownEffect};
use crate::ids::{ApprovalId, TurnId};
use crate::openai::chunk::{FinishReason, RawMembers};
use crate::tools::question::QuestionOption;

fn encoder(progress: Progress) -> Encoder {
    let envelope =
        Envelope { id: "id".to_owned(), turn: TurnId::random(), created: 1, model: "m".to_owned() };
    Encoder::new(&envelope, progress, false)
}

fn start(id: &str) -> ToolStart {
    let (tool, headline) = ("Read".to_owned(), Headline::new("a.rs".to_owned()));
    ToolStart { call_id: id.to_owned(), slot: 0, tool, headline, arguments: None }
}

fn finished(messages: Option<Vec<Box<RawValue>>>) -> TurnEvent {
    TurnEvent::Finished(Box::new(Finished {
        reason: FinishReason::Stop,
        usage: None,
        summary: Summary {
            session: "mine".to_owned(),
            turn: TurnId::random(),
            rounds: 1,
            tool_calls: 0,
            duration: Duration::ZERO,
            rounds_without_usage: 0,
            context_tokens: None,
        },
        messages,
        unknown: RawMembers::new(),
        whole: None,
    }))
}

/// The chunks that these events become.
fn told(progress: Progress, events: Vec<TurnEvent>) -> Vec<Value> {
    let (mut encoder, mut out) = (encoder(progress), Vec::new());
    for event in events {
        encoder.encode(event, &mut out);
    }
    let text = String::from_utf8(out).unwrap();
    let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn asked() -> Vec<Asked> {
    let ask = |code: &str, tool: &str, about| Asked {
        of_agent: None,
        id: ApprovalId::random(),
        code: code.to_owned(),
        slot: 0,
        ask: Ask { tool: tool.to_owned(), headline: "cargo test".to_owned(), about },
        answered: Vec::new(),
        repeated: None,
        created_ms: 1_000,
        expires_ms: 601_000,
    };
    let option =
        |label: &str| QuestionOption { label: label.to_owned(), description: String::new() };
    let question = |question: &str| Question {
        question: question.to_owned(),
        header: "Base".to_owned(),
        options: vec![option("SQLite"), option("None")],
        multi_select: false,
    };
    let effect = ShownEffect { grant: Some([0; 32]), ..shown_effect("Runs `cargo test`.", 0) };
    let single = ShownEffect { grant: None, ..effect.clone() };
    vec![
        ask("ABCD", "Bash", About::Effect(effect)),
        ask("BCDE", "Bash", About::Effect(single)),
        ask("CDEF", "AskUserQuestion", About::Questions { questions: vec![question("Which?")] }),
    ]
}

#[test]
fn a_failure_of_any_kind_ends_the_tools_that_were_told_to_have_started() {
    let mut encoder = encoder(Progress::Events);
    let started = |id: &str| TurnEvent::ToolStarted(Box::new(start(id)));
    let ended = |id: &str| TurnEvent::ToolEnded(Box::new(interrupted(start(id))));
    let mut out = Vec::new();
    encoder.encode(started("c1"), &mut out);
    encoder.encode(started("c2"), &mut out);
    encoder.encode(ended("c1"), &mut out);
    let running = encoder.running();
    encoder.encode(ended("c2"), &mut Vec::new());
    encoder.take_back(running);

    let error = ApiError::new(ErrorCode::Overloaded, "full");
    let failure = Failure { error, tools_ran: true };
    encoder.encode(TurnEvent::Failed(Box::new(failure)), &mut out);

    let told = String::from_utf8(out).unwrap();
    assert_eq!(told.matches("tool_start").count(), 2);
    assert_eq!(told.matches("tool_end").count(), 2, "{told}");
    let (last, rest) = told.split_once(r#""tool_end","id":"c2""#).unwrap();
    assert!(!last.contains(r#""error":{"#) && rest.contains(r#""error":{"#), "{told}");
}

#[test]
fn chunks_that_are_not_sent_leave_the_cards_open() {
    let mut encoder = encoder(Progress::Cards);
    let mut out = Vec::new();
    encoder.encode(TurnEvent::ToolStarted(Box::new(start("c1"))), &mut out);
    let running = encoder.running();
    let mut lost = Vec::new();
    encoder.encode(TurnEvent::CallsComplete, &mut lost);
    encoder.encode(TurnEvent::ToolEnded(Box::new(interrupted(start("c1")))), &mut lost);
    assert!(String::from_utf8(lost).unwrap().contains("function_call_output"));
    encoder.take_back(running);

    let error = ApiError::new(ErrorCode::Overloaded, "full");
    let failure = Failure { error, tools_ran: true };
    encoder.encode(TurnEvent::Failed(Box::new(failure)), &mut out);

    let told = String::from_utf8(out).unwrap();
    let (before, _) = told.split_once(r#"{"error":"#).unwrap();
    assert_eq!(before.matches(r#""type":"function_call_output""#).count(), 1, "{told}");
}

#[test]
fn an_item_of_a_card_is_beside_an_empty_delta() {
    let told = told(Progress::Cards, vec![TurnEvent::ToolStarted(Box::new(start("c1")))]);
    let [role, item] = &told[..] else { panic!("{told:#?}") };

    assert_eq!(role["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(item["choices"], json!([{ "index": 0, "delta": {}, "finish_reason": null }]));
    assert_eq!(item["type"], "response.output_item.added");
    assert!(item["output_index"].as_u64() > Some(100_000));
    let call = &item["item"];
    assert_eq!(call["type"], "function_call");
    assert_eq!((&call["name"], &call["status"]), (&json!("Read a.rs"), &json!("completed")));
    assert!(call["call_id"].as_str().unwrap().starts_with("card_"), "{call}");
    assert!(item.get("event").is_none());
}

#[test]
fn a_question_is_an_event_for_programs_and_a_line_for_people() {
    let events = told(Progress::Events, vec![TurnEvent::Asked(asked())]);
    let shown: Vec<&Value> =
        events.iter().map(|chunk| &chunk["choices"][0]["delta"]["toolhand"]).skip(1).collect();
    let [first, second, question] = shown[..] else { panic!("{events:#?}") };
    assert_eq!((&first["type"], &first["code"]), (&json!("approval"), &json!("ABCD")));
    assert_eq!(first["effect"], "Runs `cargo test`.");
    assert_eq!(first["choices"], json!(["allow", "always", "deny"]));
    assert_eq!(second["choices"], json!(["allow", "deny"]));
    assert_eq!((&first["created"], &first["expires"]), (&json!(1), &json!(601)));
    assert_eq!(question["type"], "question");
    assert_eq!(question["questions"][0]["options"][1]["label"], "None");
    // The SDK's stream helper needs an index in each entry of a list of objects.
    assert_eq!(question["questions"][0]["index"], 0);

    let lines = told(Progress::Reasoning, vec![TurnEvent::Asked(asked())]);
    let line = |chunk: &Value| chunk["choices"][0]["delta"][REASONING].clone();
    assert_eq!(line(&lines[1]), "? Bash cargo test waits for an answer\n");
    for silent in [Progress::Cards, Progress::None] {
        assert_eq!(told(silent, vec![TurnEvent::Asked(asked())]), Vec::<Value>::new());
    }
}

#[test]
fn the_last_chunk_tells_what_is_asked_and_what_was_added() {
    let message = RawValue::from_string("{\"role\":\n\"assistant\"}".to_owned()).unwrap();
    let events = vec![TurnEvent::Asked(asked()), finished(Some(vec![message]))];
    let last = told(Progress::None, events).pop().unwrap();

    assert_eq!(last["toolhand"]["session"], "mine");
    assert_eq!(last["toolhand"]["messages"], json!([{ "role": "assistant" }]));
    assert_eq!(last["toolhand"]["asked"].as_array().map(Vec::len), Some(3));

    // What was decided while the stream waited is not asked any more.
    let events = vec![TurnEvent::Asked(asked()), TurnEvent::RoundStarted(2), finished(None)];
    let last = told(Progress::None, events).pop().unwrap();
    assert_eq!((last["toolhand"].get("asked"), last["toolhand"].get("messages")), (None, None));
}
