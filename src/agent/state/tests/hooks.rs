//! Tests what hooks do to a turn: they keep it from ending, end it, and tell the person.

use super::*;
use crate::hooks::{HookDecision, HookOutcome, HookPrograms};

/// A hook is asked before the turn ends. The test says what it answers.
fn asking_before_the_end(start: &mut TurnStart) {
    let hook = toml::from_str("event = \"Stop\"\ncommand = \"unused\"").unwrap();
    start.pipeline.hooks = Hooks::new(vec![hook], HookPrograms::samples());
}

fn one_text(start: &mut TurnStart) {
    asking_before_the_end(start);
    start.content = ContentRule::LastRound;
}

fn holds() -> Event {
    let decision = HookDecision::Deny("more".to_owned());
    Event::Stopping(HookOutcome { decision, ..HookOutcome::default() })
}

fn ends(text: &str) -> HookOutcome {
    HookOutcome { ends_turn: Some(text.to_owned()), ..HookOutcome::default() }
}

fn result_that_ends(text: &str) -> ToolResult {
    ToolResult { text: "seen".into(), ends_turn: Some(text.into()), ..ToolResult::default() }
}

impl Bench {
    fn answer_that_ends(&mut self, position: usize) -> &mut Self {
        let result = result_that_ends("Enough.");
        self.on(Event::Answered { position, result, duration: Duration::ZERO, usage: None })
    }
}

#[test]
fn of_an_answer_that_was_held_the_client_gets_the_last_text_alone_where_it_wants_one() {
    let mut bench = Bench::with("m", &[], one_text);
    bench.text("{\"a\":1}").finish("stop").done().expect("round1 ask hang stopping:false");
    bench.on(holds()).expect(r#"before"{\"a\":1}" round2 ask"#);
    let messages = bench.messages();
    assert_eq!(messages[0]["content"], "{\"a\":1}");
    assert!(messages[1]["content"].as_str().unwrap().contains("asks you to go on:\nmore"));
    bench.text("{\"a\":2}").finish("stop").done().expect("hang stopping:true");
    bench.on(Event::Stopping(HookOutcome::default()));
    bench.expect(r#"text"{\"a\":2}" FINISHED:stop STOP"#);
    assert_eq!(bench.end().said, "{\"a\":2}");
}

#[test]
fn a_hook_that_ends_the_turn_adds_nothing_to_the_one_text() {
    let mut bench = Bench::with("m", &[], one_text);
    bench.text("{}").finish("stop").done().log();
    bench.on(Event::Stopping(ends("Enough.")));
    bench.expect(r#"hook"Enough." text"{}" FINISHED:stop STOP"#);

    let mut bench = Bench::with("m", &[], asking_before_the_end);
    bench.text("Hi.").finish("stop").done().log();
    bench.on(Event::Stopping(ends("Enough."))).expect(r#"text"\n\nEnough." FINISHED:stop STOP"#);
}

#[test]
fn a_continuation_that_was_held_keeps_both_notes() {
    let mut bench = Bench::with("m", &[], |start| {
        asking_before_the_end(start);
        start.beginning = Beginning::Continue { said: "Once upon".to_owned() };
        start.conversation.push_pieces(vec![HistoryPiece::Recorded(RecordedRound {
            messages: r#"[{"role":"assistant","content":"Once upon"}]"#.to_owned(),
            model: "m".to_owned(),
            has_reasoning: false,
        })]);
    });
    bench.text(" a time").finish("stop").done().on(holds());
    let sent = bench.messages().as_array().unwrap().clone();
    let contents: Vec<_> = sent.iter().map(|message| message["role"].clone()).collect();
    assert_eq!(contents, ["assistant", "user", "assistant", "user"]);
    assert_eq!(sent[2]["content"], " a time", "it stands behind the old text");
    assert_eq!(messages_of(bench.rounds()[0]).as_array().unwrap()[..], sent[1..]);
    bench.text("The end.").finish("stop").done().on(Event::Stopping(HookOutcome::default()));
    let end = bench.end();
    assert_eq!(end.said, " a time\n\nThe end.");
    let last = end.last.as_ref().unwrap();
    assert_eq!(last.messages, r#"[{"role":"assistant","content":"The end."}]"#);
}

#[test]
fn hooks_hold_a_turn_eight_times() {
    let mut bench = Bench::with("m", &[], asking_before_the_end);
    for hold in 0..8 {
        bench.text("Hi.").finish("stop").done();
        assert!(bench.log().ends_with(&format!("stopping:{}", hold > 0)), "{hold}");
        bench.on(holds());
    }
    bench.text("Hi.").finish("stop").done();
    assert!(bench.log().ends_with("FINISHED:stop STOP"));
}

#[test]
fn a_turn_that_a_hook_ended_ends_when_the_client_has_answered_its_calls() {
    let mut bench = Bench::new("m", &["theirs"]);
    bench.call(0, "Look", A).call(1, "theirs", "{}").finish("tool_calls").done();
    bench.started(0).answer_that_ends(0);
    let open = bench.end().open.clone().unwrap();
    assert_eq!(open.ends_with.as_deref(), Some("Enough."));
    let open: OpenRound = serde_json::from_str(&serde_json::to_string(&open).unwrap()).unwrap();

    let theirs = closing::raw(&json!({ "role": "tool", "tool_call_id": "id1", "content": "ok" }));
    let mut bench = resuming(open.clone(), vec![None, Some(theirs.clone())], vec![], vec![]);
    bench.expect(r#"reserve reserve withdraw:0,1 text"Enough." FINISHED:stop STOP"#);
    assert_eq!((bench.rounds().len(), bench.bodies.len()), (1, 0), "the model is not asked");
    assert!(bench.end().last.as_ref().unwrap().messages.contains("Enough."));

    // A note of ours, on what an interrupted attempt has done, is no reason to go on.
    let note = closing::raw(&json!({ "role": "user", "content": "note" }));
    let then = vec![HistoryPiece::Client(note)];
    let mut bench = resuming(open, vec![None, Some(theirs)], vec![], then);
    bench.expect(r#"reserve reserve withdraw:0,1 text"Enough." FINISHED:stop STOP"#);
}

#[test]
fn a_turn_that_a_hook_ended_ends_when_all_is_decided() {
    let mut bench = Bench::with("m", &[], conversation_asks);
    bench.call(0, "Look", A).call(1, "Look", B).call(2, "Look", A).finish("tool_calls").done();
    bench.started(0).answer_that_ends(0).asks(1, effect(1)).asks(2, effect(2)).settle();
    let open = bench.end().open.clone().unwrap();

    // One is asked about again: that turn leaves the round open too.
    let mut bench = resuming(open.clone(), vec![], vec![allow(&open.asked[0])], vec![]);
    bench.started(1).answer(1, "seen").asks(2, effect(2)).settle();
    let open = bench.end().open.clone().unwrap();
    let mut bench = resuming(open.clone(), vec![], vec![deny(&open.asked[0], None)], vec![]);
    bench.settle();
    let log = bench.log();
    assert!(log.ends_with(r#"text"Enough." FINISHED:stop STOP"#), "{log}");
    assert!(bench.bodies.is_empty(), "the model is not asked");
}

#[test]
fn what_hooks_say_of_a_call_that_asks_is_told_before_the_question() {
    let mut bench = Bench::with("m", &[], conversation_asks);
    bench.call(0, "Look", A).call(1, "Change", B).finish("tool_calls").done();
    let judged = |notice: &str| Judgement::Asked {
        ask: Box::new(effect(1)),
        notices: vec![notice.to_owned()],
    };
    bench.on(Event::Started(0)).log();
    bench.on(Event::Judged { position: 0, judgement: judged("one") }).expect(r#"hook"one""#);
    bench.settle().log();
    let ask = Some(Box::new(effect(2)));
    bench.on(Event::JudgedAhead { position: 1, ask, notices: vec!["two".to_owned()] });
    bench.expect(r#"hook"two""#);
    bench.settle();
    assert!(bench.log().starts_with("asked:[0, 1] text"));
}
