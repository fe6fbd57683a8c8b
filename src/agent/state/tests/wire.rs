//! Tests what providers and gateways were reported to send.

use super::*;

/// What upstream says when it fails within its stream.
fn reports_failure(bench: &mut Bench) -> &mut Bench {
    let error = ErrorObject {
        message: "finish_reason is \"abort\"".to_owned(),
        is_inferred: true,
        ..ErrorObject::default()
    };
    bench.on(Event::Faulted { fault: Fault::Frame(error), jitter: 0.5 })
}

#[test]
fn wire_01_a_call_that_comes_once_more_runs_once() {
    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Change", A).call(0, "Change", A).finish("tool_calls").done();
    bench.expect("round1 ask reserve begun reserve begun withdraw:1 hang ready:0");
    bench.started(0).answer(0, "done");
    assert_eq!(bench.messages()[0]["tool_calls"].as_array().unwrap().len(), 1);
}

#[test]
fn wire_01_a_clients_call_that_comes_once_more_is_passed_on_once() {
    for behind in [0, 1] {
        let mut bench = Bench::new("m", &["theirs"]);
        let function = json!({ "name": "theirs", "arguments": A });
        let call = |index: u64| json!([{ "index": index, "id": "a", "function": function }]);
        bench
            .delta(&json!({ "tool_calls": call(0) }))
            .delta(&json!({ "tool_calls": call(behind) }));
        bench.finish("tool_calls").done();
        assert_eq!(bench.log.matches("client").count(), 1, "{}", bench.log);
        assert_eq!(bench.log.matches("FINISHED:tool_calls").count(), 1, "{}", bench.log);
    }
}

#[test]
fn wire_16_a_whole_call_before_a_failure_does_not_run() {
    let mut bench = Bench::new("m", &[]);
    reports_failure(bench.call(0, "Change", A));
    bench.expect("round1 ask reserve begun hang ask+500ms");
}

#[test]
fn wire_16_of_sealed_calls_before_a_failure_those_without_effect_are_kept() {
    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Look", A).started(0).call(1, "Change", A).call(2, "Change", B);
    bench.log();
    reports_failure(&mut bench);
    bench.expect("hang withdraw:1 withdraw:2");
    bench.answer(0, "seen");
    let calls = bench.messages()[0]["tool_calls"].clone();
    assert_eq!(calls.as_array().unwrap().len(), 1, "{calls}");
}

#[test]
fn wire_16_a_call_that_is_judged_when_the_failure_comes_does_not_run() {
    // Of such a model a sealed call starts at once.
    let mut bench = Bench::new("claude-m", &[]);
    bench.call(0, "Change", A).call(1, "Look", B).on(Event::Started(0));
    reports_failure(&mut bench);
    bench.permit(0, true);
    assert!(!bench.log.contains("started:id0"), "{}", bench.log);
    assert!(bench.log.contains("failed:id0"), "{}", bench.log);
}

#[test]
fn wire_28_white_space_alone_is_no_text() {
    let mut bench = Bench::new("m", &[]);
    bench.text("\n\n").call(0, "Look", A).finish("tool_calls").started(0).done().answer(0, "x");
    assert_eq!(bench.messages()[0]["content"], Value::Null);

    let mut bench = Bench::new("m", &[]);
    bench.text("\n \n").finish("stop").done();
    bench.expect(r#"round1 ask text"\n \n" hang ask"#);
    bench.text(" ").finish("stop").done();
    bench.expect(r#"text" " hang FAILED:empty_response STOP"#);
}

#[test]
fn wire_28_a_stream_that_dies_behind_white_space_is_asked_again() {
    let mut bench = Bench::new("m", &[]);
    bench.text("\n\n").die().expect(r#"round1 ask text"\n\n" hang ask+500ms"#);
}

#[test]
fn half_a_surrogate_pair_in_arguments_is_told_behind_the_answer() {
    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Change", r#"{"at":"\ud83d"}"#).finish("tool_calls").done().started(0);
    bench.answer(0, "done");
    let messages = bench.messages();
    assert_eq!(messages[0]["tool_calls"][0]["function"]["arguments"], r#"{"at":"\ufffd"}"#);
    let answer = messages[1]["content"].as_str().unwrap();
    assert!(answer.starts_with("done\nNote: the arguments had half"), "{answer}");
}
