//! Tests the bodies of upstream requests, byte by byte.

use serde_json::json;
use serde_json::value::to_raw_value;

use super::*;
use crate::agent::settings::{ImageRule, ReasoningRule};
use crate::upstream::TraitSet;

fn opening() -> Opening {
    let raw = |value: Value| to_raw_value(&value).unwrap();
    Opening {
        fields: serde_json::from_str(r#"{"model":"m","seed":1.10,"user":"u"}"#).unwrap(),
        pieces: vec![HistoryPiece::Client(raw(json!({"role": "user", "content": "hi"})))],
        server_tools: Bytes::from_static(br#"{"type":"function"}"#),
        client_tools: Vec::new(),
        tool_choice: ToolChoice::Required,
        parallel_tool_calls: Some(false),
    }
}

fn model(name: &str) -> AskedModel {
    AskedModel {
        name: name.to_owned(),
        reasoning: ReasoningRule::Echo,
        images: ImageRule::UserMessage,
        learnt: TraitSet::default(),
    }
}

/// A model that takes no reasoning.
fn refusing_reasoning(name: &str) -> AskedModel {
    learnt(name, UpstreamTrait::RefusesReasoning)
}

/// A model with a trait that its errors have told.
fn learnt(name: &str, of: UpstreamTrait) -> AskedModel {
    let mut model = model(name);
    model.learnt.insert(of);
    model
}

fn exchange(model: &str) -> Exchange {
    Exchange {
        pictures: None,
        assistant: json!({
            "role": "assistant",
            "content": null,
            "reasoning_content": "because",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "Read"}}],
        }),
        answers: vec![to_raw_value(&answer_message("c1", "text")).unwrap()],
        model: model.to_owned(),
        has_reasoning: true,
    }
}

fn text(conversation: &mut Conversation, model: &AskedModel) -> String {
    String::from_utf8(conversation.request(model, Delivery::Streamed).to_vec()).unwrap()
}

#[test]
fn the_first_request_keeps_the_clients_bytes() {
    let body = text(&mut Conversation::new(opening()), &model("m"));

    insta::assert_snapshot!(body, @r#"{"model":"m","seed":1.10,"user":"u","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function"}],"parallel_tool_calls":false,"tool_choice":"required","stream":true,"stream_options":{"include_usage":true}}"#);
}

#[test]
fn an_answer_in_one_piece_is_asked_for_without_options_of_streams() {
    let mut conversation = Conversation::new(opening());
    let body = conversation.request(&model("m"), Delivery::Whole).to_vec();

    let streamed = text(&mut conversation, &model("m"));
    let (same, _) = streamed.split_once(r#","stream":"#).unwrap();
    assert_eq!(String::from_utf8(body).unwrap(), format!(r#"{same},"stream":false}}"#));
}

#[test]
fn a_round_goes_back_with_all_its_members_and_frees_the_choice() {
    let mut conversation = Conversation::new(opening());
    conversation.push(&exchange("m").to_record());

    let body = text(&mut conversation, &model("m"));

    insta::assert_snapshot!(body, @r#"{"model":"m","seed":1.10,"user":"u","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"reasoning_content":"because","tool_calls":[{"id":"c1","type":"function","function":{"name":"Read"}}]},{"role":"tool","tool_call_id":"c1","content":"text"}],"tools":[{"type":"function"}],"parallel_tool_calls":false,"stream":true,"stream_options":{"include_usage":true}}"#);
}

/// Counts the bytes of each request that no earlier request shares.
#[test]
fn a_round_writes_what_is_new_and_nothing_again() {
    for model in [model("m"), refusing_reasoning("m")] {
        let long = "x".repeat(100_000);
        let raw = to_raw_value(&json!({ "role": "user", "content": long })).unwrap();
        let mut conversation =
            Conversation::new(Opening { pieces: vec![HistoryPiece::Client(raw)], ..opening() });
        let mut before = conversation.request(&model, Delivery::Streamed);
        for number in 0..50 {
            let mut exchange = exchange("m");
            exchange.answers =
                vec![to_raw_value(&answer_message("c1", &"y".repeat(10_000))).unwrap()];
            conversation.push(&exchange.to_record());

            let body = conversation.request(&model, Delivery::Streamed);

            let known: Vec<_> = before.pieces().map(|piece| piece.as_ptr()).collect();
            let new = body.pieces().filter(|piece| !known.contains(&piece.as_ptr()));
            let written: usize = new.map(Bytes::len).sum();
            assert!((10_000..11_000).contains(&written), "{written} bytes for round {number}");
            let messages = |body: &RequestBody| {
                let text = String::from_utf8(body.to_vec()).unwrap();
                text.split_once("],\"tools\"").unwrap().0.to_owned()
            };
            assert!(messages(&body).starts_with(&messages(&before)), "round {number}");
            before = body;
        }
        assert!(conversation.size() < 50 * 11_000 + 110_000, "{} bytes", conversation.size());
    }
}

#[test]
fn a_conversation_may_begin_with_the_turns_own_messages() {
    let mut conversation = Conversation::new(Opening { pieces: Vec::new(), ..opening() });
    conversation.push(&exchange("m").to_record());
    conversation.push(&exchange("m").to_record());

    for model in [model("m"), refusing_reasoning("m"), refusing_reasoning("n")] {
        let body: Value = serde_json::from_str(&text(&mut conversation, &model)).unwrap();
        assert_eq!(body["messages"].as_array().unwrap().len(), 4);
    }
}

#[test]
fn another_model_gets_neither_the_reasoning_nor_the_ids() {
    let mut conversation = Conversation::new(opening());
    for id in ["c1", "call_0__thought__AbC+/="] {
        let mut exchange = exchange("other");
        let call = &mut exchange.assistant["tool_calls"][0];
        call["id"] = json!(id);
        call["provider_specific_fields"] = json!({"thought_signature": "S"});
        exchange.answers = vec![to_raw_value(&answer_message(id, "text")).unwrap()];
        conversation.push(&exchange.to_record());
    }
    let own = text(&mut conversation, &model("other"));
    assert!(own.contains("because") && own.contains("__thought__") && own.contains("signature"));

    let body = text(&mut conversation, &model("m"));

    assert!(!body.contains("because"));
    let body: Value = serde_json::from_str(&body).unwrap();
    let ids: Vec<_> = [1, 3].map(|at| &body["messages"][at]["tool_calls"][0]).into();
    for (call, at) in ids.iter().zip([2, 4]) {
        let id = call["id"].as_str().unwrap();
        assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        assert_eq!(body["messages"][at]["tool_call_id"], id);
        assert_eq!(call["provider_specific_fields"], Value::Null);
        assert_eq!(call["function"]["name"], "Read");
    }
    assert_ne!(ids[0]["id"], ids[1]["id"]);
}

#[test]
fn what_a_client_sends_of_reasoning_goes_to_models_that_take_it() {
    let client = r#"{"role":"assistant","content":"yes","reasoning_content":"because"}"#;
    let client = RawValue::from_string(client.to_owned()).unwrap();
    let mut conversation =
        Conversation::new(Opening { pieces: vec![HistoryPiece::Client(client)], ..opening() });

    assert!(!text(&mut conversation, &refusing_reasoning("m")).contains("because"));
    assert!(!conversation.sends_reasoning());
    assert!(text(&mut conversation, &model("n")).contains("because"));
    assert!(conversation.sends_reasoning());
    assert!(!text(&mut conversation, &refusing_reasoning("n")).contains("because"));
}

#[test]
fn reasoning_that_was_refused_is_left_out() {
    let mut conversation = Conversation::new(opening());
    conversation.request(&model("m"), Delivery::Streamed);
    assert!(!conversation.sends_reasoning(), "there was none yet");
    conversation.push(&exchange("m").to_record());
    assert!(text(&mut conversation, &model("m")).contains("because"));
    assert!(conversation.sends_reasoning());

    assert!(!text(&mut conversation, &refusing_reasoning("m")).contains("because"));

    assert!(!conversation.sends_reasoning());
}

/// The body of the request of a later turn, whose history has these rounds.
fn later(recorded: Vec<RecordedRound>, model: &AskedModel) -> String {
    let mut pieces = opening().pieces;
    pieces.extend(recorded.into_iter().map(HistoryPiece::Recorded));
    text(&mut Conversation::new(Opening { pieces, ..opening() }), model)
}

fn messages_of(body: &str) -> &str {
    body.split_once("],\"tools\"").unwrap().0
}

#[test]
fn a_later_turn_sends_the_bytes_that_were_sent_before() {
    let missing = UpstreamTrait::MissesReasoning;
    for model in [
        model("m"),
        refusing_reasoning("m"),
        learnt("m", missing),
        model("n"),
        refusing_reasoning("n"),
        learnt("n", missing),
    ] {
        let mut conversation = Conversation::new(opening());
        let rounds = ["m", "other", "m"].map(|writer| exchange(writer).to_record());
        for round in &rounds {
            conversation.push(round);
        }
        let before = text(&mut conversation, &model);
        let mut recorded = rounds.to_vec();
        let last = r#"[{"role":"assistant","content":"So.","reasoning_content":"hm"}]"#;
        let last =
            RecordedRound { messages: last.to_owned(), model: "m".to_owned(), has_reasoning: true };
        recorded.push(last);

        let body = later(recorded, &model);

        assert!(body.starts_with(messages_of(&before)), "{body}\n{before}");
        let is_own = model.name == "m" && model.takes_reasoning();
        assert_eq!(body.contains(r#""reasoning_content":"hm""#), is_own);
        assert!(body.contains("So."));
    }
}

#[test]
fn rounds_behind_a_history_get_ids_of_their_own() {
    let mut pieces = opening().pieces;
    pieces.push(HistoryPiece::Recorded(exchange("other").to_record()));
    let mut conversation = Conversation::new(Opening { pieces, ..opening() });
    conversation.push(&exchange("other").to_record());

    let body: Value = serde_json::from_str(&text(&mut conversation, &model("m"))).unwrap();

    let ids = [1, 3].map(|at| body["messages"][at]["tool_calls"][0]["id"].clone());
    assert_ne!(ids[0], ids[1]);
    assert_eq!(body["messages"][4]["tool_call_id"], ids[1]);
}

#[test]
fn a_record_of_a_message_alone_and_an_empty_one_are_no_riddle() {
    let alone = |messages: &str| RecordedRound {
        messages: messages.to_owned(),
        model: "m".to_owned(),
        has_reasoning: false,
    };
    let recorded = vec![alone("[]"), alone(r#"[{"role":"assistant","content":"a"}]"#), alone("")];
    for model in [model("m"), model("n")] {
        let body: Value = serde_json::from_str(&later(recorded.clone(), &model)).unwrap();
        assert_eq!(body["messages"].as_array().unwrap().len(), 2);
    }
}

/// What each message of the assistant's says of its reasoning.
fn reasoning_of(body: &str) -> Vec<Value> {
    let body: Value = serde_json::from_str(body).unwrap();
    let messages = body["messages"].as_array().unwrap().iter();
    let assistants = messages.filter(|message| message["role"] == "assistant");
    assistants.map(|message| message["reasoning_content"].clone()).collect()
}

#[test]
fn wire_12_reasoning_that_is_missing_is_sent_empty() {
    let plain = || {
        let mut exchange = exchange("m");
        exchange.assistant.as_object_mut().unwrap().shift_remove("reasoning_content");
        exchange.has_reasoning = false;
        exchange.to_record()
    };
    let client = r#"{"role":"assistant","content":"yes"}"#;
    let client = HistoryPiece::Client(RawValue::from_string(client.to_owned()).unwrap());
    let pieces = vec![client, HistoryPiece::Recorded(plain())];
    let mut conversation = Conversation::new(Opening { pieces, ..opening() });
    conversation.push(&exchange("m").to_record());
    conversation.push(&plain());
    conversation.push(&exchange("other").to_record());

    assert!(conversation.would_heed(UpstreamTrait::MissesReasoning, Delivery::Streamed));
    let body = text(&mut conversation, &learnt("m", UpstreamTrait::MissesReasoning));
    assert_eq!(reasoning_of(&body), ["", "", "because", "", ""]);
    let body = text(&mut conversation, &learnt("m", UpstreamTrait::MissesReasoningText));
    assert_eq!(reasoning_of(&body), [" ", " ", "because", " ", " "]);
    assert!(conversation.sends_reasoning(), "what was filled in can be refused");
    let body = text(&mut conversation, &model("n"));
    assert_eq!(reasoning_of(&body), vec![Value::Null; 5], "a fallback gets none of it");
}

#[test]
fn wire_24_tools_that_a_model_refuses_are_left_out() {
    let mut opening = opening();
    opening.tool_choice = ToolChoice::Auto;
    let mut conversation = Conversation::new(opening);
    text(&mut conversation, &model("m"));
    assert!(conversation.would_heed(UpstreamTrait::RefusesTools, Delivery::Streamed));
    assert!(!conversation.would_heed(UpstreamTrait::RefusesToolsBesideFormat, Delivery::Streamed));

    let body = text(&mut conversation, &learnt("m", UpstreamTrait::RefusesTools));

    assert!(!body.contains("tool") && body.contains(r#""stream":true"#), "{body}");
    assert!(!conversation.would_heed(UpstreamTrait::RefusesTools, Delivery::Streamed));
}

#[test]
fn a_call_that_the_client_demands_keeps_the_tools() {
    let mut conversation = Conversation::new(opening());
    let body = text(&mut conversation, &learnt("m", UpstreamTrait::RefusesTools));
    assert!(body.contains(r#""tool_choice":"required""#), "{body}");
    assert!(!conversation.would_heed(UpstreamTrait::RefusesTools, Delivery::Streamed));
}

#[test]
fn wire_23_beside_a_format_only_the_servers_own_tools_are_left_out() {
    let fields = r#"{"model":"m","response_format":{"type":"json_object"}}"#;
    let with = |client_tools: Vec<Box<RawValue>>| {
        let fields = serde_json::from_str(fields).unwrap();
        let tool_choice = ToolChoice::Auto;
        Conversation::new(Opening { fields, client_tools, tool_choice, ..opening() })
    };
    let model = learnt("m", UpstreamTrait::RefusesToolsBesideFormat);
    let trait_ = UpstreamTrait::RefusesToolsBesideFormat;

    let mut conversation = with(Vec::new());
    conversation.request(&self::model("m"), Delivery::Streamed);
    assert!(conversation.would_heed(trait_, Delivery::Streamed));
    assert!(!text(&mut conversation, &model).contains("tools"));

    let mut conversation = with(vec![RawValue::from_string(r#"{"a":1}"#.to_owned()).unwrap()]);
    assert!(text(&mut conversation, &model).contains(r#"{"type":"function"},{"a":1}"#));
    assert!(!conversation.would_heed(trait_, Delivery::Streamed));
}

#[test]
fn options_of_streams_that_are_refused_are_left_out() {
    let mut conversation = Conversation::new(opening());
    let body = text(&mut conversation, &learnt("m", UpstreamTrait::RefusesStreamOptions));
    assert!(body.ends_with(r#","stream":true}"#), "{body}");
}

#[test]
fn with_the_choice_none_tools_go_along_with_a_history_of_calls() {
    let call = r#"{"role":"assistant","tool_calls":[{"id":"c"}]}"#;
    let client = |text: &str| HistoryPiece::Client(RawValue::from_string(text.to_owned()).unwrap());
    let recorded = HistoryPiece::Recorded(exchange("m").to_record());
    let none = || Opening { tool_choice: ToolChoice::None, ..opening() };
    for pieces in [vec![client(call)], vec![recorded]] {
        let mut conversation = Conversation::new(Opening { pieces, ..none() });
        for _ in 0..2 {
            let body = text(&mut conversation, &model("m"));
            assert!(body.contains(r#""tools":[{"type":"function"}]"#), "{body}");
            assert!(body.contains(r#""tool_choice":"none""#), "{body}");
            // It holds for every round.
            conversation.push(&exchange("m").to_record());
        }
    }
    for quiet in [r#"{"role":"user","content":"\"tool_calls\""}"#, r#"{"tool_calls":[]}"#] {
        let pieces = vec![client(quiet)];
        let body = text(&mut Conversation::new(Opening { pieces, ..none() }), &model("m"));
        assert!(!body.contains("tool_choice") && !body.contains(r#""tools""#), "{body}");
    }
}
