//! Tests the bodies of upstream requests, byte by byte.

use serde_json::json;
use serde_json::value::to_raw_value;

use super::*;

fn opening() -> Opening {
    let raw = |value: Value| to_raw_value(&value).unwrap();
    Opening {
        fields: serde_json::from_str(r#"{"model":"m","seed":1.10,"user":"u"}"#).unwrap(),
        messages: vec![raw(json!({"role": "user", "content": "hi"}))],
        server_tools: Bytes::from_static(br#"{"type":"function"}"#),
        client_tools: Vec::new(),
        tool_choice: ToolChoice::Required,
        parallel_tool_calls: Some(false),
    }
}

fn model(name: &str) -> AskedModel {
    AskedModel { name: name.to_owned(), takes_reasoning: true, takes_eager_input: true }
}

/// A model that takes no reasoning.
fn refusing_reasoning(name: &str) -> AskedModel {
    AskedModel { takes_reasoning: false, ..model(name) }
}

fn exchange(model: &str) -> Exchange {
    let mut message = AssistantMessage::default();
    message.push_member(
        "reasoning_content",
        &RawValue::from_string(r#""because""#.to_owned()).unwrap(),
    );
    Exchange {
        message,
        calls: vec![AnsweredCall {
            id: "c1".to_owned(),
            entry: json!({"id": "c1", "type": "function", "function": {"name": "Read"}}),
            answer: "text".to_owned(),
        }],
        model: model.to_owned(),
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
    conversation.push(exchange("m"));

    let body = text(&mut conversation, &model("m"));

    insta::assert_snapshot!(body, @r#"{"model":"m","seed":1.10,"user":"u","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"reasoning_content":"because","tool_calls":[{"id":"c1","type":"function","function":{"name":"Read"}}]},{"role":"tool","tool_call_id":"c1","content":"text"}],"tools":[{"type":"function"}],"parallel_tool_calls":false,"stream":true,"stream_options":{"include_usage":true}}"#);
}

/// Counts the bytes of each request that no earlier request shares.
#[test]
fn a_round_writes_what_is_new_and_nothing_again() {
    for model in [model("m"), refusing_reasoning("m")] {
        let long = "x".repeat(100_000);
        let raw = to_raw_value(&json!({ "role": "user", "content": long })).unwrap();
        let mut conversation = Conversation::new(Opening { messages: vec![raw], ..opening() });
        let mut before = conversation.request(&model, Delivery::Streamed);
        for number in 0..50 {
            let mut exchange = exchange("m");
            exchange.calls[0].answer = "y".repeat(10_000);
            conversation.push(exchange);

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
    let mut conversation = Conversation::new(Opening { messages: Vec::new(), ..opening() });
    conversation.push(exchange("m"));
    conversation.push(exchange("m"));

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
        exchange.calls[0].id = id.to_owned();
        exchange.calls[0].entry["id"] = json!(id);
        exchange.calls[0].entry["provider_specific_fields"] = json!({"thought_signature": "S"});
        conversation.push(exchange);
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
    let mut conversation = Conversation::new(Opening { messages: vec![client], ..opening() });

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
    conversation.push(exchange("m"));
    assert!(text(&mut conversation, &model("m")).contains("because"));
    assert!(conversation.sends_reasoning());

    assert!(!text(&mut conversation, &refusing_reasoning("m")).contains("because"));

    assert!(!conversation.sends_reasoning());
}
