//! Tests rounds that stay open: for the client's answers, and for a person.

use super::*;

/// A turn that ended with calls of both.
fn mixed() -> Bench {
    let mut bench = Bench::with("m", &["theirs"], |start| start.include_messages = true);
    bench.delta(&json!({ "reasoning_content": "hm" })).text("Both:");
    bench.call(0, "Look", A).call(1, "theirs", r#"{"x":1}"#).call(2, "Change", B);
    bench.finish("tool_calls").done();
    bench.started(0).answer(0, "seen").started(2).answer(2, "changed");
    bench
}

#[test]
fn a_mixed_turn_ends_when_the_servers_calls_are_answered() {
    let bench = mixed();
    let end = bench.end();
    let open = end.open.as_ref().unwrap();
    assert_eq!(open.message["tool_calls"].as_array().unwrap().len(), 3);
    assert_eq!(open.message["reasoning_content"], "hm");
    assert!(open.has_reasoning && open.asked.is_empty());
    let expected = [
        OpenCall::Answered { answer: "seen".to_owned(), pictures: Vec::new() },
        OpenCall::Clients { id: "id1".to_owned() },
        OpenCall::Answered { answer: "changed".to_owned(), pictures: Vec::new() },
    ];
    assert_eq!(open.calls, expected);
    assert_eq!(end.client_calls[0]["function"]["arguments"], r#"{"x":1}"#);
    assert_eq!((end.client_calls.len(), end.last.is_none()), (1, true));
    assert!(bench.rounds().is_empty(), "the round is not closed");
    assert_eq!(bench.finished.unwrap().messages.unwrap().len(), 3);
}

#[test]
fn the_clients_answers_are_joined_in_the_models_order() {
    let open = mixed().end().open.clone().unwrap();
    let theirs = RawValue::from_string(
        r#"{"tool_call_id": "id1",  "role": "tool", "content": "ok"}"#.to_owned(),
    );
    let theirs = theirs.unwrap();
    let mut bench = resuming(open.clone(), vec![None, Some(theirs.clone()), None], vec![], vec![]);
    bench.expect("reserve reserve reserve withdraw:0,1,2 round1 ask");
    let messages = bench.messages();
    assert_eq!(messages[0], open.message);
    let contents: Vec<_> = (1..4).map(|at| messages[at]["content"].clone()).collect();
    assert_eq!(contents, ["seen", "ok", "changed"]);
    let round = bench.rounds()[0];
    assert!(round.messages.contains(theirs.get()), "the client's bytes stay");
    assert!(round.messages.starts_with(&format!("[{}", open.message)));
    bench.text("Done.").finish("stop").done();
    assert_eq!(bench.state.stats.rounds, 1);
    let messages = bench.finished.unwrap().messages.unwrap();
    assert_eq!(messages.len(), 1, "the rest was told by the turn before");
}

#[test]
fn a_client_call_without_an_answer_was_interrupted() {
    let open = mixed().end().open.clone().unwrap();
    let bench = resuming(open, vec![None; 3], vec![], vec![]);
    assert_eq!(bench.messages()[2]["content"], "Error: interrupted");
}

#[test]
fn a_record_that_does_not_fit_fails_the_turn() {
    let mut open = mixed().end().open.clone().unwrap();
    open.calls.pop();
    resuming(open, vec![], vec![], vec![]).expect("FAILED:internal STOP");
}

#[test]
fn the_words_behind_a_round_that_was_decided_stand_behind_a_message_of_ours() {
    let open = mixed().end().open.clone().unwrap();
    let then = closing::raw(&json!({ "role": "user", "content": "And now?" }));
    let bench = resuming(open, vec![], vec![], vec![HistoryPiece::Client(then)]);
    let messages = bench.messages().as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["assistant", "tool", "tool", "tool", "assistant", "user"]);
    let recorded = messages_of(bench.rounds()[0]);
    assert_eq!(recorded.as_array().unwrap()[..], messages[..5], "the user's words are not ours");
}

#[test]
fn a_call_that_asks_waits_and_its_shared_neighbours_run() {
    let mut bench = Bench::with("m", &[], conversation_asks);
    bench.text("So:").call(0, "Look", A).call(1, "Look", B).call(2, "Change", A);
    bench.finish("tool_calls").done();
    bench.asks(0, effect(1)).started(1).settle().log();
    bench.answer(1, "seen").expect("ended:id1");
    bench.settle().expect("ahead:[2]");
    bench.settle().expect("");
    bench
        .on(Event::JudgedAhead { position: 2, ask: Some(Box::new(effect(2))), notices: vec![] })
        .settle();
    let log = bench.log();
    assert!(log.starts_with("asked:[0, 2] text") && log.ends_with("FINISHED:stop STOP"), "{log}");
    let end = bench.end();
    assert!(end.said.contains("`rm a`") && end.said.starts_with("So:\n\n"), "{}", end.said);
    let open = end.open.as_ref().unwrap();
    let expected = [
        OpenCall::Waiting,
        OpenCall::Answered { answer: "seen".to_owned(), pictures: Vec::new() },
        OpenCall::Waiting,
    ];
    assert_eq!(open.calls, expected);
    let codes: Vec<_> = open.asked.iter().map(|asked| asked.code.as_str()).collect();
    assert!(codes[0] != codes[1] && codes.iter().all(|code| code.len() == 4), "{codes:?}");
    assert_eq!(open.asked[0].created_ms, 1000);
    assert!(matches!(bench.records[0], Entry::Asked { .. }));
}

#[test]
fn a_question_comes_alone_and_after_the_approvals() {
    let mut bench = Bench::with("m", &[], conversation_asks);
    bench.call(0, "Look", A).call(1, "Look", B).call(2, "Look", A).finish("tool_calls").done();
    bench.asks(0, question()).asks(1, effect(1)).asks(2, question()).log();
    bench.settle();
    let open = bench.end().open.clone().unwrap();
    assert_eq!(open.asked.iter().map(|asked| asked.slot).collect::<Vec<_>>(), [1]);

    let mut bench = resuming(open.clone(), vec![], vec![allow(&open.asked[0])], vec![]);
    bench.asks(0, question()).started(1).asks(2, question()).answer(1, "done").log();
    bench.settle();
    let open = bench.end().open.clone().unwrap();
    assert_eq!(open.asked.iter().map(|asked| asked.slot).collect::<Vec<_>>(), [0]);
    assert_eq!(
        open.calls[1],
        OpenCall::Answered { answer: "done".to_owned(), pictures: Vec::new() }
    );
}

#[test]
fn where_nobody_can_be_asked_asking_is_denying() {
    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Change", A).call(1, "Look", A).finish("tool_calls").done().log();
    bench.asks(0, effect(1)).asks(1, question());
    let log = bench.log();
    assert!(log.starts_with("release:0 ") && log.ends_with("round2 ask"), "{log}");
    let answer = bench.messages()[1]["content"].as_str().unwrap();
    assert!(answer.starts_with("Error: not permitted: ") && answer.contains("a rule would allow"));
}

#[test]
fn the_clients_calls_come_before_the_asks() {
    let mut bench = Bench::with("m", &["theirs"], conversation_asks);
    bench.call(0, "Look", A).call(1, "theirs", "{}").finish("tool_calls").done();
    bench.asks(0, effect(1)).log();
    bench.settle().expect("FINISHED:tool_calls STOP");
    let open = bench.end().open.clone().unwrap();
    assert_eq!(open.calls[0], OpenCall::Waiting);
    assert!(open.asked.is_empty() && bench.asked.is_empty());

    let answers = vec![None, Some(tool_message("id1", "ok"))];
    let mut bench = resuming(open, answers, vec![], vec![]);
    bench.expect("reserve reserve withdraw:1 ready:0");
    bench.asks(0, effect(1)).settle();
    let open = bench.end().open.clone().unwrap();
    assert_eq!(open.asked.len(), 1);
    assert!(matches!(&open.calls[1], OpenCall::Given { message } if message.contains("ok")));

    let mut bench = resuming(open.clone(), vec![], vec![deny(&open.asked[0], None)], vec![]);
    let log = bench.log();
    assert!(log.ends_with("round1 ask"), "{log}");
    assert_eq!(bench.messages()[2]["content"], "ok");
    bench.text("Done.").finish("stop").done();
    let told = bench.finished.unwrap().messages.unwrap();
    assert_eq!(told.len(), 3, "without the client's own call: {told:?}");
}

#[test]
fn a_clients_tool_asks_where_it_can() {
    for (channel, tool) in [
        (AskingChannel::AskUser, "ask_user"),
        (AskingChannel::ToolhandApproval, "toolhand_approval"),
    ] {
        let mut bench = Bench::with("m", &["ask_user", "toolhand_approval"], |start| {
            start.asking.channel = channel;
        });
        bench.call(0, "Look", A).finish("tool_calls").done().asks(0, effect(1)).log();
        bench.settle();
        let log = bench.log();
        assert!(log.contains("client0:") && log.ends_with("FINISHED:tool_calls STOP"), "{log}");
        let end = bench.end();
        let [asking] = &end.open.as_ref().unwrap().asked_by[..] else { panic!("{end:?}") };
        assert_eq!((asking.tool.as_str(), &asking.asks[..]), (tool, &[0][..]));
        assert_eq!(end.client_calls[0]["id"], asking.id.as_str());
        assert_eq!(end.client_calls[0]["function"]["name"], tool);
        assert!(end.said.contains("`rm a`"), "the effect stands before the dialog");
    }
}
