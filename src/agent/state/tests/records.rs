//! Tests what a turn commits, and in which order.

use super::*;

fn stored() -> ApiError {
    ApiError::new(ErrorCode::StoreUnavailable, "the disk is full")
}

#[test]
fn a_turn_without_tools_commits_once_and_before_its_last_event() {
    let mut bench = Bench::new("m", &[]).showing_records();
    bench.delta(&json!({ "reasoning_content": "hm" })).text("Hi").text(" you").finish("stop");
    bench.expect(r#"reasoning_content"hm" text"Hi" text" you""#);
    bench.done().expect("hang commit:end FINISHED:stop STOP");
    let end = bench.end();
    assert_eq!((end.said.as_str(), end.tools_ran, end.open.is_none()), ("Hi you", false, true));
    assert_eq!(end.outcome, Outcome::Finished { reason: "stop".to_owned() });
    let last = end.last.as_ref().unwrap();
    assert_eq!(
        (last.messages.as_str(), last.model.as_str(), last.has_reasoning),
        (r#"[{"role":"assistant","content":"Hi you","reasoning_content":"hm"}]"#, "m", true)
    );
}

#[test]
fn an_intent_comes_before_its_call_and_its_answer_before_the_round() {
    let mut bench = Bench::new("m", &[]).showing_records();
    bench.text("So:").call(0, "Change", A).call(1, "Look", B).finish("tool_calls").done().log();
    bench.on(Event::Started(0)).expect("");
    bench.permit(0, true).expect("started:id0 intent>run:0");
    bench.answer(0, "done").expect("ended:id0 ran");
    bench.started(1).answer(1, "seen").expect("started:id1 run:1 ended:id1 round round2 ask");
    let [Entry::Intent(intent), Entry::Ran(ran), Entry::Round(round)] = &bench.records[..] else {
        panic!("{:?}", bench.records)
    };
    assert_eq!((intent.round, intent.slot, &*intent.model), (1, 0, "m"));
    assert_eq!(intent.entry["function"]["arguments"], A);
    assert_eq!((ran.round, ran.slot, ran.answer.as_str()), (1, 0, "done"));
    assert_eq!(&messages_of(round), bench.messages());
    bench.text("Done.").finish("stop").done();
    assert_eq!(bench.end().said, "So:\n\nDone.");
}

#[test]
fn a_call_whose_intent_is_not_kept_fails_the_turn() {
    let mut bench = Bench::new("m", &[]).showing_records();
    bench.call(0, "Change", A).finish("tool_calls").done().on(Event::Started(0));
    bench.permit(0, true).log();
    bench
        .on(Event::NotCommitted(stored()))
        .expect("abort failed:id0(interrupted) round commit:end FAILED:store_unavailable STOP");
}

#[test]
fn an_end_that_is_not_kept_is_no_success() {
    let mut bench = Bench::new("m", &[]);
    bench.commits = false;
    bench.text("Hi").finish("stop").done().text("late").on(Event::Stopped);
    bench.expect(r#"round1 ask text"Hi" hang"#);
    bench.on(Event::NotCommitted(stored())).expect("FAILED:store_unavailable STOP");

    let mut bench = Bench::new("m", &[]);
    bench.commits = false;
    bench.text("Hi").die().log();
    bench.on(Event::NotCommitted(stored())).expect("FAILED:stream_died STOP");

    let mut bench = Bench::new("m", &[]);
    bench.commits = false;
    bench.text("Hi").finish("stop").done().log();
    bench.on(Event::ShuttingDown).expect("FAILED:store_unavailable STOP");
    bench.on(Event::Committed).expect("");
}

#[test]
fn a_stopped_turn_keeps_its_text_without_half_a_thought() {
    let mut bench = Bench::new("m", &[]).showing_records();
    bench.delta(&json!({ "reasoning_content": "hm" })).text("Half an ans").log();
    bench.on(Event::Stopped).expect("abort commit:end FAILED:cancelled STOP");
    let end = bench.end();
    assert_eq!((&end.outcome, end.said.as_str()), (&Outcome::Stopped, "Half an ans"));
    let last = end.last.as_ref().unwrap();
    assert_eq!(last.messages, r#"[{"role":"assistant","content":"Half an ans"}]"#);
    assert!(!last.has_reasoning);

    let mut bench = Bench::new("m", &[]);
    bench.on(Event::Stopped);
    assert!(bench.end().last.is_none() && bench.rounds().is_empty());
}

#[test]
fn a_stopped_turn_keeps_the_calls_that_were_answered() {
    let mut bench = Bench::new("m", &["theirs"]);
    bench.text("Two:").call(0, "Look", A).call(1, "Look", B).call(2, "Change", A);
    bench.call(3, "theirs", A).call(4, "Change", r#"{"at"#);
    bench.started(0).started(1).answer(1, "seen").log();
    bench.on(Event::Stopped).expect("failed:id0(interrupted) FAILED:cancelled STOP");
    let messages = messages_of(bench.rounds()[0]);
    assert_eq!(messages[0]["content"], "Two:");
    assert_eq!(messages[0]["tool_calls"].as_array().unwrap().len(), 4, "half a call is none");
    let answers: Vec<_> =
        messages.as_array().unwrap()[1..].iter().map(|answer| answer["content"].clone()).collect();
    let interrupted = "Error: interrupted";
    assert_eq!(answers, [interrupted, "seen", interrupted, interrupted]);
    let last = bench.end().last.as_ref().unwrap();
    assert_eq!(last.messages, r#"[{"role":"assistant","content":"Interrupted here."}]"#);
}

#[test]
fn a_failed_turn_and_one_at_its_round_limit_are_kept_too() {
    let mut bench = Bench::new("m", &[]);
    bench.text("Hal").die();
    let end = bench.end();
    assert!(matches!(&end.outcome, Outcome::Failed { code, .. } if code == "stream_died"));
    assert!(end.last.as_ref().unwrap().messages.contains("Hal"));

    let mut bench = Bench::with("m", &[], |start| start.settings.max_rounds = 1);
    bench.call(0, "Look", A).started(0).finish("tool_calls").done().answer(0, "x");
    let end = bench.end();
    assert!(end.last.as_ref().unwrap().messages.contains("Interrupted"), "no answers stand last");
    assert_eq!(bench.rounds().len(), 1);
}

#[test]
fn what_a_turn_recorded_is_what_it_sent() {
    let mut bench = Bench::new("m", &[]);
    for round in 0..3 {
        bench.delta(&json!({ "reasoning_content": format!("thought {round}") }));
        bench.text("Look:").call(0, "Look", A).started(0).finish("tool_calls").done();
        bench.answer(0, "same");
    }
    let sent = bench.messages().to_string();
    bench.text("Done.").finish("stop").done();
    let rounds: Vec<_> = bench.rounds().into_iter().cloned().collect();
    let pieces = rounds.into_iter().chain(bench.end().last.clone()).map(HistoryPiece::Recorded);
    let pieces: Vec<_> = pieces.collect();
    let mut next = Bench::with("m", &[], |start| {
        start.conversation = Conversation::new(Opening {
            fields: serde_json::from_str(r#"{"model":"m"}"#).unwrap(),
            pieces,
            server_tools: bytes::Bytes::new(),
            client_tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: None,
        });
    });
    let messages = next.messages().to_string();
    assert!(messages.starts_with(sent.trim_end_matches(']')), "{messages}\n{sent}");
    assert!(messages.ends_with(r#"{"role":"assistant","content":"Done."}]"#));
    next.log();
}

#[test]
fn what_the_turn_added_is_told_to_a_client_that_asks() {
    let mut bench = Bench::with("m", &[], |start| start.include_messages = true);
    bench.call(0, "Look", A).started(0).finish("tool_calls").done().answer(0, "seen");
    bench.text("Done.").finish("stop").done();
    let messages = bench.finished.unwrap().messages.unwrap();
    let roles: Vec<Value> = messages
        .iter()
        .map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap()["role"].clone())
        .collect();
    assert_eq!(roles, ["assistant", "tool", "assistant"]);

    let mut bench = Bench::new("m", &[]);
    bench.text("Hi").finish("stop").done();
    assert!(bench.finished.unwrap().messages.is_none());
}
