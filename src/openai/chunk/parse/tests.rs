//! Tests chunks as real providers write them.

use serde_json::json;

use super::*;

fn read(payload: &str) -> Chunk {
    Chunk::parse(payload).expect(payload)
}

fn delta(delta: &str) -> Delta {
    read(&format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)).delta
}

fn call(call: &str) -> CallDelta {
    delta(&format!(r#"{{"tool_calls":[{call}]}}"#)).tool_calls.remove(0)
}

fn fault(payload: &str) -> BadChunk {
    Chunk::parse(payload).expect_err(payload)
}

#[test]
fn a_call_of_a_custom_tool_holds_text() {
    for entry in [
        r#"{"type":"custom","custom":{"name":"note","input":"{a"}}"#,
        r#"{"custom":{"name":"note","input":"{a"},"function":null}"#,
    ] {
        let call = call(entry);
        assert_eq!(call.kind, CallKind::Custom);
        assert_eq!(call.name.as_deref(), Some("note"));
        assert_eq!(call.arguments.as_deref(), Some("{a"));
    }
    let call = call(r#"{"custom":null,"function":{"name":"f","arguments":"{}"}}"#);
    assert_eq!((call.kind, call.name.as_deref()), (CallKind::Function, Some("f")));
}

#[test]
fn reads_an_ordinary_chunk() {
    let chunk = read(
        r#"{"id":"x","object":"chat.completion.chunk","created":1,"model":"m",
            "choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},
            "logprobs":{"content":[]},"finish_reason":"stop"}]}"#,
    );
    assert_eq!(chunk.model.as_deref(), Some("m"));
    assert_eq!(chunk.delta.content.as_deref(), Some("hi"));
    assert_eq!(chunk.finish_reason, Some(FinishReason::Stop));
    assert_eq!(chunk.logprobs.unwrap().get(), r#"{"content":[]}"#);
    assert!(chunk.usage.is_none());
    assert!(chunk.delta.members.is_empty());
}

#[test]
fn keeps_members_it_does_not_know_as_the_bytes_they_came_as() {
    let delta = delta(
        r#"{"content":null,"reasoning_content":"a\u00e4","thinking_blocks":[ {"n":1.10} ],
            "refusal":null,"function_call":{"name":"old"}}"#,
    );
    let members: Vec<_> = delta.members.iter().map(|(k, v)| (k.as_str(), v.get())).collect();
    assert_eq!(
        members,
        [("reasoning_content", r#""a\u00e4""#), ("thinking_blocks", r#"[ {"n":1.10} ]"#)]
    );
    assert_eq!(delta.content, None);
}

#[test]
fn reads_a_call_and_what_stands_beside_it() {
    let call = call(
        r#"{"index":2,"id":"c","type":"function","extra_content":{"signature":"s"},
            "function":{"name":"Read","arguments":"{\"a\"","provider_specific_fields":{"t":1}}}"#,
    );
    assert_eq!(call.index, Some(2));
    assert_eq!(call.id.as_deref(), Some("c"));
    assert_eq!(call.name.as_deref(), Some("Read"));
    assert_eq!(call.arguments.as_deref(), Some(r#"{"a""#));
    assert_eq!(call.members["extra_content"], json!({"signature": "s"}));
    assert_eq!(call.function_members["provider_specific_fields"], json!({"t": 1}));
}

#[test]
fn forgives_whatever_is_missing_in_a_call() {
    for empty in [
        "{}",
        r#"{"index":null,"id":null,"function":null}"#,
        r#"{"index":-1,"id":"","function":{"name":"","arguments":null}}"#,
        r#"{"index":"0","id":7,"function":{"name":[],"arguments":7}}"#,
        r#"{"index":1e30}"#,
    ] {
        assert_eq!(call(empty), CallDelta::default(), "{empty}");
    }
}

#[test]
fn arguments_that_came_as_an_object_are_serialised() {
    let call = call(r#"{"function":{"arguments":{"b":1.10, "a":[]}}}"#);
    assert_eq!(call.arguments.as_deref(), Some(r#"{"b":1.10, "a":[]}"#));
}

#[test]
fn usage_counts_without_choices_and_beside_an_empty_delta() {
    let bare = read(r#"{"choices":[],"usage":{"prompt_tokens":3}}"#);
    assert_eq!(bare.usage.unwrap().prompt_tokens(), 3);
    let missing = read(r#"{"usage":{"prompt_tokens":3}}"#);
    assert_eq!(missing.usage.unwrap().prompt_tokens(), 3);
    let litellm =
        read(r#"{"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":3,"cost":0.1}}"#);
    assert_eq!(litellm.usage.unwrap().prompt_tokens(), 3);
    assert_eq!(litellm.finish_reason, None);
}

#[test]
fn weird_usage_is_never_an_error() {
    for usage in [
        "null",
        "7",
        r#""12""#,
        "[]",
        r#"{"prompt_tokens":-1}"#,
        r#"{"prompt_tokens":"12"}"#,
        r#"{"prompt_tokens":1e999}"#,
    ] {
        let chunk = read(&format!(r#"{{"choices":[],"usage":{usage}}}"#));
        assert!(chunk.usage.is_none(), "{usage}");
    }
}

#[test]
fn other_choices_than_the_first_are_ignored() {
    let chunk =
        read(r#"{"choices":[{"index":1,"delta":{"content":"no"}},{"delta":{"content":"yes"}}]}"#);
    assert_eq!(chunk.delta.content.as_deref(), Some("yes"));
    let chunk = read(r#"{"choices":[{"index":1,"delta":{"content":"no"}}]}"#);
    assert_eq!(chunk.delta.content, None);
}

#[test]
fn an_error_member_wins_over_everything() {
    let BadChunk::Error(error) = fault(
        r#"{"choices":[{"index":0,"delta":{"content":"x"}}],
            "error":{"message":"gone","type":null,"code":"None"}}"#,
    ) else {
        panic!("an error")
    };
    assert_eq!((error.message.as_str(), error.code.as_deref()), ("gone", Some("None")));
    read(r#"{"choices":[],"error":null}"#);
}

#[test]
fn what_is_no_chunk_is_malformed() {
    for payload in [
        "",
        "{",
        "nonsense",
        "[]",
        r#"{"choices":7}"#,
        r#"{"choices":[7]}"#,
        r#"{"choices":[{"delta":{"tool_calls":7}}]}"#,
        r#"{"choices":[]} x"#,
    ] {
        assert!(matches!(fault(payload), BadChunk::Malformed(_)), "{payload}");
    }
}

#[test]
fn what_brings_neither_choices_nor_usage_is_nothing() {
    for payload in [
        "{}",
        r#"{"type":"ping"}"#,
        r#"{"choices":null}"#,
        r#"{"choices":null,"usage":null,"error":null,"citations":["u"]}"#,
        r#"{"usage":"none"}"#,
        r#"{"type":"heartbeat","message":"still here"}"#,
    ] {
        assert_eq!(fault(payload), BadChunk::Nothing, "{payload}");
    }
    for payload in
        [r#"{"choices":[]}"#, r#"{"choices":[null]}"#, r#"{"choices":[{"index":1,"delta":{}}]}"#]
    {
        assert!(!read(payload).is_progress(), "{payload}");
    }
    for payload in [r#"{"choices":[null,{}]}"#, r#"{"choices":[],"usage":{"prompt_tokens":1}}"#] {
        assert!(read(payload).is_progress(), "{payload}");
    }
}

#[test]
fn words_outside_of_an_answer_are_a_remark() {
    let BadChunk::Remark(remark) = fault(r#"{"message":"Internal Server Error"}"#) else {
        panic!("a remark")
    };
    assert_eq!((remark.message.as_str(), remark.is_inferred), ("Internal Server Error", true));
}

#[test]
fn wire_15_a_reason_that_is_no_word_of_a_good_end_is_an_error() {
    let of = |word: &str| {
        Chunk::parse(&format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{word}"}}]}}"#))
    };
    for word in [
        "error",
        "ERROR",
        "Network_Error",
        "malformed_function_call",
        "x_failed",
        "Failure",
        "OTHER",
        "malformed",
        "abort",
        "insufficient_system_resource",
    ] {
        assert!(matches!(of(word), Err(BadChunk::Error(_))), "{word}");
    }
    for word in ["stop", "length", "eos", "content_filter", "End_Turn", "None"] {
        assert!(of(word).is_ok(), "{word}");
    }
}

#[test]
fn a_content_that_is_a_list_is_kept_in_parts() {
    let delta = delta(r#"{"content":[{"type":"text","text":"a"}, null, "b", 1.10]}"#);
    assert_eq!(delta.content, None);
    let parts: Vec<_> = delta.parts.iter().map(|part| part.get()).collect();
    assert_eq!(parts, [r#"{"type":"text","text":"a"}"#, r#""b""#, "1.10"]);
}

#[test]
fn members_beside_the_choices_are_kept_unless_they_are_ours() {
    let chunk = read(
        r#"{"id":"x","object":"o","created":1,"model":"m","toolhand":{},"obfuscation":"r",
            "choices":[],"usage":null,"error":null,"service_tier":null,"citations":[ 1 ]}"#,
    );
    let unknown = chunk.unknown.unwrap();
    let unknown: Vec<_> = unknown.iter().map(|(name, raw)| (name.as_str(), raw.get())).collect();
    assert_eq!(unknown, [("citations", "[ 1 ]")]);
}

#[test]
fn progress_that_upstream_makes_up_is_not_passed_on() {
    let delta = delta(r#"{"toolhand":{"type":"approval"},"x":1}"#);
    assert_eq!(delta.members.keys().collect::<Vec<_>>(), ["x"]);
}

#[test]
fn a_lone_surrogate_is_read_as_a_replacement_character() {
    let delta = delta(r#"{"content":"a\ud83d","reasoning_content":"\ude00"}"#);
    assert_eq!(delta.content.as_deref(), Some("a\u{fffd}"));
    assert_eq!(delta.members["reasoning_content"].get(), r#""\ufffd""#);
}

#[test]
fn a_whole_completion_is_one_chunk_and_its_calls_stand_by_position() {
    let chunk = read(
        r#"{"object":"chat.completion","model":"m","choices":[{"index":0,
            "finish_reason":"tool_calls","message":{"role":"assistant","content":"so",
            "tool_calls":[{"index":0,"id":"a","function":{"name":"A","arguments":"{}"}},
            {"index":0,"id":"b","function":{"name":"B","arguments":"{}"}}]}}],
            "usage":{"prompt_tokens":1}}"#,
    );
    assert_eq!(chunk.delta.content.as_deref(), Some("so"));
    let indexes: Vec<_> = chunk.delta.tool_calls.iter().map(|call| call.index).collect();
    assert_eq!(indexes, [Some(0), Some(1)]);
    assert_eq!(chunk.finish_reason, Some(FinishReason::ToolCalls));
}

#[test]
fn a_refusal_is_found_where_litellm_puts_it() {
    let refusal = |message: &str| {
        let body = format!(r#"{{"choices":[{{"message":{message},"finish_reason":"stop"}}]}}"#);
        let members = read(&body).delta.members;
        members.get("refusal").map(|refusal| refusal.get().to_owned())
    };
    let theirs = r#""provider_specific_fields":{"refusal":"no","x":1}"#;
    for content in [r#""content":null,"#, r#""content":"","#, "", r#""refusal":"","#] {
        let found = refusal(&format!("{{{content}{theirs}}}"));
        assert_eq!(found.as_deref(), Some(r#""no""#), "{content}");
    }
    for (message, expected) in [
        (format!(r#"{{"content":"yes",{theirs}}}"#), None),
        (format!(r#"{{"content":[{{"type":"text","text":"yes"}}],{theirs}}}"#), None),
        (format!(r#"{{"refusal":"never",{theirs}}}"#), Some(r#""never""#)),
        (r#"{"provider_specific_fields":{"refusal":""}}"#.to_owned(), None),
        (r#"{"provider_specific_fields":{"refusal":["no"]}}"#.to_owned(), None),
        (r#"{"provider_specific_fields":"refusal"}"#.to_owned(), None),
    ] {
        assert_eq!(refusal(&message).as_deref(), expected, "{message}");
    }
}

#[test]
fn lists_and_objects_without_end_are_not_kept() {
    let many = |entry: &str| [entry].repeat(members::MAX_MEMBERS + 1).join(",");
    let choices = format!(r#"{{"choices":[{},{{"index":1}},{}]}}"#, many("{}"), many("null"));
    assert!(read(&choices).has_choice);
    let calls = format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{}]}}}}]}}"#, many("{}"));
    let members: Vec<_> = (0..=members::MAX_MEMBERS).map(|at| format!(r#""m{at}":0"#)).collect();
    let members = format!(r#"{{"choices":[{{"delta":{{{}}}}}]}}"#, members.join(","));
    for payload in [calls, members] {
        assert!(matches!(Chunk::parse(&payload), Err(BadChunk::Malformed(_))));
    }
    let usage = format!(r#"{{"usage":{{"a":1{}}},"choices":[]}}"#, " ".repeat(MAX_USAGE));
    assert!(matches!(Chunk::parse(&usage), Ok(Chunk { usage: None, .. })));
}

#[test]
fn empty_and_null_finish_reasons_are_none() {
    for reason in ["null", r#""""#, "7"] {
        let payload = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":{reason}}}]}}"#);
        assert_eq!(read(&payload).finish_reason, None);
    }
}

#[test]
fn reads_every_recorded_payload() {
    let streams = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/streams");
    for file in std::fs::read_dir(streams).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for payload in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            match Chunk::parse(payload) {
                Ok(_) | Err(BadChunk::Error(_)) => {}
                Err(BadChunk::Nothing | BadChunk::Remark(_)) => panic!("{path:?}: {payload}"),
                Err(BadChunk::Malformed(_)) => assert_eq!(payload, "[DONE]", "{path:?}"),
            }
        }
    }
}
