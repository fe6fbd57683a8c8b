//! Tests turns that go on with an answer of ours.

use super::*;

fn continuing() -> Bench {
    Bench::with("m", &[], |start| {
        start.beginning = Beginning::Continue { said: "Once upon".to_owned() };
        start.conversation.push_pieces(vec![HistoryPiece::Recorded(RecordedRound {
            messages: r#"[{"role":"assistant","content":"Once upon"}]"#.to_owned(),
            model: "m".to_owned(),
            has_reasoning: false,
        })]);
    })
}

#[test]
fn only_the_new_text_is_sent_and_both_are_kept_as_one_answer() {
    let mut bench = continuing();
    let messages = bench.messages().as_array().unwrap();
    assert_eq!(messages[0]["content"], "Once upon");
    assert_eq!(messages[1]["role"], "user");
    bench.delta(&json!({ "reasoning_content": "hm" })).text(" a time").finish("stop").done();
    bench.expect(r#"round1 ask reasoning_content"hm" text" a time" hang FINISHED:stop STOP"#);
    let end = bench.end();
    assert_eq!(end.said, " a time");
    let last = end.last.as_ref().unwrap();
    assert_eq!(last.messages, r#"[{"role":"assistant","content":"Once upon a time"}]"#);
    assert!(!last.has_reasoning);
}

#[test]
fn a_continuation_that_was_stopped_is_kept_too() {
    let mut bench = continuing();
    bench.text(" a").on(Event::Stopped);
    assert_eq!(bench.end().said, " a");
    assert!(bench.end().last.as_ref().unwrap().messages.contains("Once upon a"));

    let mut bench = continuing();
    bench.on(Event::Stopped);
    assert!(bench.end().last.as_ref().unwrap().messages.contains("Once upon"));
}

#[test]
fn a_continuation_that_calls_tools_keeps_the_note_before_them() {
    let mut bench = continuing();
    bench.call(0, "Look", A).started(0).finish("tool_calls").done().answer(0, "seen");
    let sent = bench.messages().as_array().unwrap()[1..].to_vec();
    assert_eq!(messages_of(bench.rounds()[0]).as_array().unwrap()[..], sent[..]);
    bench.text("the end").finish("stop").done();
    let last = bench.end().last.as_ref().unwrap();
    assert_eq!(last.messages, r#"[{"role":"assistant","content":"the end"}]"#);
}
