//! Tests which requests are valid, and the errors for the others.

#![expect(clippy::needless_pass_by_value, reason = "json!(…) reads best where it is needed")]

mod model;

use serde_json::{Value, json};

use super::*;
use crate::agent::beginning::HistoryPiece;
use crate::openai::request::ToolChoice;
use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::sessions::id_sources::ExplicitId;
use crate::sessions::message::CallOf;
use crate::sessions::pairs;
use crate::sessions::request::Progress;
use crate::sessions::test_support::CARD;
use crate::tools::settings::{ClientTools, NameConflict};
use crate::tools::tool::{CallContext, Tool, ToolError, ToolOutput, erase};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

macro_rules! tools {
    ($($tool:ident = $name:literal, $aliases:expr;)*) => {$(
        struct $tool;

        impl Tool for $tool {
            type Input = Nothing;

            const NAME: &'static str = $name;
            const ALIASES: &'static [&'static str] = $aliases;
            const ACCESS: AccessKind = AccessKind::None;
            const DESCRIPTION: &'static str = "Does nothing.";

            fn access_request(&self, _: &Nothing, _: &CallContext) -> AccessRequest {
                AccessRequest::Nothing
            }

            fn headline(&self, _: &Nothing) -> String {
                String::new()
            }

            async fn execute(
                &self,
                _: Nothing,
                _: Permit,
                _: CallContext,
            ) -> Result<ToolOutput, ToolError> {
                Ok(ToolOutput::text(""))
            }
        }
    )*};
}

tools! {
    Bash = "Bash", &["shell"];
    Read = "Read", &["read_file"];
}

fn snapshot() -> ToolSnapshot {
    Toolset::new(vec![erase(Bash), erase(Read)]).into()
}

fn context() -> Context {
    Context {
        catalogue: ToolCatalogue::default(),
        tools: ToolSettings::default(),
        limits: Limits::default(),
        unknown_fields: UnknownFields::Forward,
        mode: Mode::Default,
        workspaces: BTreeMap::from([("docs".to_owned(), workspace())]),
        max_rounds: 100,
        background_models: vec!["titles".to_owned()],
        id_sources: Arc::default(),
        key: KeyBounds::default(),
    }
}

fn workspace() -> Arc<Workspace> {
    Arc::new(Workspace::open(vec![std::env::temp_dir()]).unwrap())
}

/// A valid request with `fields` set in it. A `null` removes the field.
fn request(fields: Value) -> Value {
    let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body.as_object_mut().unwrap().retain(|_, value| *value != json!("TAKEN OUT"));
    body
}

fn run(fields: Value) -> Result<ChatRequest, ApiError> {
    taken(request(fields).to_string().as_bytes())
}

/// The request, if its calls and answers can be paired, too.
fn taken(body: &[u8]) -> Result<ChatRequest, ApiError> {
    let request = validate(body, &HeaderMap::new(), &context(), &snapshot())?;
    pairs::without_records(request.messages.clone())?;
    Ok(request)
}

#[track_caller]
fn accept(fields: Value) -> ChatRequest {
    run(fields.clone()).unwrap_or_else(|error| panic!("{fields}: {}", error.message))
}

#[track_caller]
fn refuse(fields: Value, code: ErrorCode, param: &str) -> ApiError {
    let error = run(fields.clone()).expect_err(&fields.to_string());
    let found = (error.code, error.param.as_deref());
    assert_eq!(found, (code, Some(param)), "{fields}: {}", error.message);
    error
}

fn messages(list: Value) -> Value {
    json!({ "messages": list })
}

#[track_caller]
fn refuse_messages(list: Value, param: &str) {
    refuse(messages(list), ErrorCode::InvalidValue, param);
}

fn fingerprint(request: &ChatRequest) -> Vec<Value> {
    sent(request).iter().map(|json| serde_json::from_str(json).unwrap()).collect()
}

/// The messages as they go upstream where nothing is recorded.
fn sent(request: &ChatRequest) -> Vec<String> {
    let pieces = pairs::without_records(request.messages.clone()).unwrap();
    let json = |piece| match piece {
        HistoryPiece::Client(json) => json.get().to_owned(),
        HistoryPiece::Recorded(round) => panic!("nothing is recorded: {round:?}"),
    };
    pieces.into_iter().map(json).collect()
}

#[test]
fn v1_v2_v3_v4_the_body_is_one_json_object() {
    let refused = |body: &str| {
        let error =
            validate(body.as_bytes(), &HeaderMap::new(), &context(), &snapshot()).unwrap_err();
        (error.code, error.message)
    };
    assert_eq!(refused("{\"a\":1} x").0, ErrorCode::InvalidJson);
    assert!(refused("{\"model\": \"a\", \"model\": \"b\"}").1.contains("\"model\""));
    for body in ["[]", "\"x\"", "null", "1"] {
        assert_eq!(refused(body).0, ErrorCode::InvalidValue, "{body}");
    }
}

#[test]
fn v5_messages_are_a_list_of_a_sensible_length() {
    refuse(messages(json!("TAKEN OUT")), ErrorCode::MissingField, "messages");
    refuse(messages(Value::Null), ErrorCode::MissingField, "messages");
    refuse_messages(json!([]), "messages");
    refuse_messages(json!("hi"), "messages");
    refuse_messages(json!([1]), "messages[0]");
    let hi = json!({ "role": "user", "content": "hi" });
    refuse_messages(json!(vec![hi.clone(); 10_001]), "messages");
    assert_eq!(accept(messages(json!(vec![hi; 10_000]))).messages.len(), 10_000);
}

#[test]
fn v6_each_message_has_its_roles_shape() {
    for (message, param) in [
        (json!({ "role": "robot", "content": "" }), "messages[0].role"),
        (json!({ "role": 1, "content": "" }), "messages[0].role"),
        (json!({ "role": "user", "content": 1 }), "messages[0].content"),
        (json!({ "role": "user", "content": [1] }), "messages[0].content[0]"),
        (json!({ "role": "user", "content": "", "name": 1 }), "messages[0].name"),
        (json!({ "role": "tool", "content": "", "tool_call_id": 1 }), "messages[0].tool_call_id"),
        (json!({ "role": "assistant", "content": "", "tool_calls": {} }), "messages[0].tool_calls"),
    ] {
        refuse_messages(json!([message]), param);
    }
    for (message, param) in [
        (json!({ "content": "" }), "messages[0].role"),
        (json!({ "role": "user" }), "messages[0].content"),
        (json!({ "role": "user", "content": null }), "messages[0].content"),
        (json!({ "role": "tool", "content": "" }), "messages[0].tool_call_id"),
        (json!({ "role": "function", "content": "" }), "messages[0].name"),
        (json!({ "role": "user", "content": [{ "text": "" }] }), "messages[0].content[0].type"),
        (json!({ "role": "user", "content": [{ "type": "text" }] }), "messages[0].content[0].text"),
    ] {
        refuse(messages(json!([message])), ErrorCode::MissingField, param);
    }
}

#[test]
fn v7_parts_of_unknown_kinds_pass() {
    let list = json!([
        { "role": "developer", "content": [{ "type": "text", "text": "be kind" }] },
        { "role": "user", "content": [{ "type": "video", "x": 1 }, { "type": "input_audio" }] },
        { "role": "assistant", "content": null, "refusal": "no" },
        { "role": "function", "name": "f", "content": null },
    ]);
    let mut expected = list.clone();
    expected[2]["content"] = json!("");
    assert_eq!(json!(fingerprint(&accept(messages(list)))), expected);
}

#[test]
fn v8_an_image_is_remote_or_inline() {
    let image = |url: Value| {
        messages(
            json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": url }] }]),
        )
    };
    for url in ["http://a/b.png", "HTTPS://a/b.png", "data:image/png;base64,AA"] {
        accept(image(json!({ "url": url })));
        accept(image(json!(url)));
    }
    let at = "messages[0].content[0].image_url";
    for url in ["file:///etc/passwd", "/etc/passwd", "x.png", "", "gs://a/b"] {
        refuse(image(json!({ "url": url })), ErrorCode::InvalidValue, &format!("{at}.url"));
        refuse(image(json!(url)), ErrorCode::InvalidValue, at);
    }
    refuse(image(json!({})), ErrorCode::MissingField, &format!("{at}.url"));
}

#[test]
fn v9_a_model_is_a_name() {
    for model in [json!(""), json!(" "), json!("x".repeat(4096)), json!("a\nb"), json!(1)] {
        refuse(json!({ "model": model }), ErrorCode::InvalidValue, "model");
    }
    refuse(json!({ "model": "TAKEN OUT" }), ErrorCode::MissingField, "model");
    assert_eq!(accept(json!({ "model": "openai/gpt-4o" })).model, "openai/gpt-4o");
}

#[test]
fn v10_fields_that_steer_are_refused() {
    for field in ["api_base", "base_url", "api_key", "extra_body", "fallbacks", "mock_response"] {
        refuse(json!({ field: "x" }), ErrorCode::RefusedField, field);
        let param = format!("metadata.{field}");
        refuse(json!({ "metadata": { field: "x" } }), ErrorCode::RefusedField, &param);
    }
    refuse(json!({ "litellm_metadata": {} }), ErrorCode::RefusedField, "litellm_metadata");
}

#[test]
fn v11_one_answer_a_request() {
    for n in [json!(0), json!(2), json!("1"), json!(1.5), json!([])] {
        refuse(json!({ "n": n }), ErrorCode::UnsupportedValue, "n");
    }
    accept(json!({ "n": 1 }));
    accept(json!({ "n": null }));
}

#[test]
fn what_tools_replaced_is_not_lost_in_silence() {
    let old = json!([{ "name": "f", "parameters": {} }]);
    let error = refuse(json!({ "functions": old }), ErrorCode::UnsupportedValue, "functions");
    assert!(error.message.contains("give tools"), "{}", error.message);
    refuse(json!({ "function_call": "auto" }), ErrorCode::UnsupportedValue, "function_call");
    accept(json!({ "functions": null, "function_call": null }));
}

#[test]
fn v12_streaming_is_said_plainly() {
    refuse(json!({ "stream": "true" }), ErrorCode::InvalidValue, "stream");
    let options = json!({ "include_usage": true });
    refuse(json!({ "stream_options": options }), ErrorCode::InvalidValue, "stream_options");
    let bad = json!({ "stream": true, "stream_options": { "include_usage": 1 } });
    refuse(bad, ErrorCode::InvalidValue, "stream_options.include_usage");
    let request = accept(json!({ "stream": true, "stream_options": options }));
    assert!(request.stream && request.include_usage);
    assert!(!accept(json!({ "stream": null })).stream);
}

#[test]
fn v13_wrong_types_are_refused_and_ranges_are_not() {
    for (field, value) in [
        ("temperature", json!("hot")),
        ("top_p", json!([])),
        ("max_tokens", json!("1")),
        ("max_tokens", json!(1.5)),
        ("seed", json!(true)),
        ("user", json!(1)),
        ("logprobs", json!(1)),
        ("stop", json!(1)),
        ("stop", json!(["a", 1])),
        ("metadata", json!([])),
        ("response_format", json!("json")),
        ("parallel_tool_calls", json!("no")),
        ("tools", json!({})),
    ] {
        refuse(json!({ field: value }), ErrorCode::InvalidValue, field);
    }
    accept(json!({ "max_tokens": -1, "temperature": 99, "stop": ["a", "b", "c", "d", "e"] }));
    accept(json!({ "temperature": null, "stop": null, "max_tokens": 1e30 }));
}

#[test]
fn v14_every_other_field_goes_upstream_as_it_came() {
    let body = r#"{"zebra": {"b": 1.10, "a": 1e2}, "model": "m", "stream": true, "logprobs": true,
        "messages": [{"role": "user",  "content": "hi", "new": 123456789012345678901234567890}],
        "modalities": ["text"], "top_k": 5, "tools": [], "toolhand": {"progress": "none"}}"#;
    let request = validate(body.as_bytes(), &HeaderMap::new(), &context(), &snapshot()).unwrap();

    let fields: Vec<_> =
        request.fields.iter().map(|(name, value)| format!("{name}={}", value.get())).collect();
    assert_eq!(
        fields,
        [
            r#"zebra={"b": 1.10, "a": 1e2}"#,
            r#"model="m""#,
            "logprobs=true",
            r#"modalities=["text"]"#,
            "top_k=5"
        ]
    );
    assert_eq!(
        sent(&request)[0],
        r#"{"role": "user",  "content": "hi", "new": 123456789012345678901234567890}"#
    );
    let strict = Context { unknown_fields: UnknownFields::Refuse, ..context() };
    let error = validate(body.as_bytes(), &HeaderMap::new(), &strict, &snapshot()).unwrap_err();
    assert_eq!((error.code, error.param.as_deref()), (ErrorCode::UnsupportedValue, Some("zebra")));
}

fn tool(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name, "parameters": { "type": "object" } } })
}

fn names(request: &ChatRequest) -> Vec<&str> {
    request.client_tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// Names of the server's tools that the request may use.
fn ours(request: &ChatRequest) -> Vec<&str> {
    request.tools.names().collect()
}

#[test]
fn v15_a_tool_that_both_sides_have_is_a_conflict() {
    let both = json!({ "tools": [tool("mine"), tool("Bash")] });
    refuse(both.clone(), ErrorCode::ToolNameConflict, "tools[1]");

    let tools = ToolSettings { name_conflict: NameConflict::Client, ..ToolSettings::default() };
    let context = Context { tools, ..context() };
    let body = request(both).to_string();
    let request = validate(body.as_bytes(), &HeaderMap::new(), &context, &snapshot()).unwrap();
    assert_eq!(names(&request), ["mine", "Bash"]);
    assert_eq!(ours(&request), ["Read"]);
}

#[test]
fn an_alias_of_ours_gives_way_to_a_tool_of_the_client() {
    let request = accept(json!({ "tools": [tool("shell")] }));

    assert!(request.tools.get("shell").is_none());
    assert_eq!(ours(&request), ["Bash", "Read"]);
}

#[test]
fn a_tool_that_the_request_denies_is_no_conflict() {
    let fields = json!({ "tools": [tool("Bash")], "toolhand": { "tools": { "deny": ["shell"] } } });

    assert_eq!(ours(&accept(fields)), ["Read"]);
}

#[test]
fn v16_tools_are_few_well_named_and_small() {
    let many: Vec<_> = (0..1000).map(|n| tool(&format!("t{n}"))).collect();
    refuse(json!({ "tools": many }), ErrorCode::InvalidValue, "tools");
    for name in ["", "a/b", "a b", "größe", &"x".repeat(65)] {
        let fields = json!({ "tools": [tool(name)] });
        refuse(fields, ErrorCode::InvalidValue, "tools[0].function.name");
    }
    accept(json!({ "tools": [tool(&"x".repeat(64)), tool("a-b_C1")] }));
    refuse(json!({ "tools": [tool("a"), tool("a")] }), ErrorCode::InvalidValue, "tools[1]");
    let mut large = tool("a");
    large["function"]["parameters"]["x"] = json!("x".repeat(1 << 20));
    refuse(json!({ "tools": [large] }), ErrorCode::InvalidValue, "tools[0].function.parameters");
    let mut typed = tool("a");
    typed["function"]["parameters"] = json!("none");
    refuse(json!({ "tools": [typed] }), ErrorCode::InvalidValue, "tools[0].function.parameters");
    let mcp = json!({ "type": "mcp", "server_url": "http://x" });
    refuse(json!({ "tools": [mcp] }), ErrorCode::UnsupportedValue, "tools[0].type");
    accept(json!({ "tools": [{ "type": "custom", "custom": { "name": "a" } }] }));
}

#[test]
fn the_operator_says_which_tools_of_the_client_count() {
    let with = |client_tools: ClientTools| {
        let tools = ToolSettings { client_tools, ..ToolSettings::default() };
        let body = request(json!({ "tools": [tool("a"), tool("b"), tool("Bash")] })).to_string();
        let context = Context { tools, ..context() };
        validate(body.as_bytes(), &HeaderMap::new(), &context, &snapshot())
            .map_err(|error| error.code)
    };
    assert_eq!(names(&with(ClientTools::None).unwrap()), [] as [&str; 0]);
    assert_eq!(names(&with(ClientTools::Named(vec!["b".to_owned()])).unwrap()), ["b"]);
    assert_eq!(with(ClientTools::All).unwrap_err(), ErrorCode::ToolNameConflict);
}

#[test]
fn v17_a_chosen_tool_exists() {
    let function = |name: &str| json!({ "type": "function", "function": { "name": name } });
    for (choice, param) in [
        (json!("any"), "tool_choice"),
        (json!(1), "tool_choice"),
        (function("nobody"), "tool_choice.function.name"),
        (function("shell"), "tool_choice.function.name"),
    ] {
        refuse(json!({ "tool_choice": choice }), ErrorCode::InvalidValue, param);
    }
    let mcp = json!({ "tool_choice": { "type": "mcp", "mcp": { "name": "Bash" } } });
    refuse(mcp, ErrorCode::UnsupportedValue, "tool_choice.type");
    let none = json!({ "tool_choice": "required", "toolhand": { "tools": { "allow": [] } } });
    refuse(none, ErrorCode::InvalidValue, "tool_choice");

    let chosen = accept(json!({ "tool_choice": function("Bash") }));
    assert!(matches!(&chosen.tool_choice, ToolChoice::Named { name, .. } if name == "Bash"));
    let chosen = accept(json!({ "tool_choice": function("a"), "tools": [tool("a")] }));
    assert!(matches!(&chosen.tool_choice, ToolChoice::Named { name, .. } if name == "a"));
    assert!(matches!(accept(json!({ "tool_choice": "none" })).tool_choice, ToolChoice::None));
    for word in ["auto", "none", "required"] {
        let of =
            |choice: Value| format!("{:?}", accept(json!({ "tool_choice": choice })).tool_choice);
        assert_eq!(of(json!({ "type": word })), of(json!(word)), "w32");
    }
    for flat in ["function", "tool"] {
        let choice = json!({ "type": flat, "name": "Bash" });
        let chosen = accept(json!({ "tool_choice": choice })).tool_choice;
        let ToolChoice::Named { name, object } = chosen else { panic!("{chosen:?}") };
        assert_eq!((name.as_str(), object.get()), ("Bash", function("Bash").to_string().as_str()));
        let choice = json!({ "type": flat, "name": "nobody" });
        let param = "tool_choice.function.name";
        refuse(json!({ "tool_choice": choice }), ErrorCode::InvalidValue, param);
    }
    let required = accept(json!({ "tool_choice": "required" }));
    assert!(matches!(required.tool_choice, ToolChoice::Required));
}

#[test]
fn allowed_tools_narrow_the_request() {
    let function = |name: &str| json!({ "type": "function", "function": { "name": name } });
    let allowed = |names: &[&str]| {
        let tools: Vec<_> = names.iter().map(|name| function(name)).collect();
        json!({
            "tools": [tool("a"), tool("b")],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": { "mode": "required", "tools": tools },
            },
        })
    };

    let request = accept(allowed(&["a", "Read"]));

    assert_eq!(names(&request), ["a"]);
    assert_eq!(ours(&request), ["Read"]);
    let mut own = allowed(&["read_file"]);
    own["tools"] = json!([tool("read_file")]);
    assert!(ours(&accept(own)).is_empty(), "an alias that the client has taken is none of ours");
    assert!(matches!(request.tool_choice, ToolChoice::Required));
    let param = "tool_choice.allowed_tools.tools[0].function.name";
    refuse(allowed(&["nobody"]), ErrorCode::InvalidValue, param);
    refuse(allowed(&[]), ErrorCode::InvalidValue, "tool_choice.allowed_tools.tools");
}

fn asked(ids: &[&str]) -> Value {
    let calls: Vec<_> = ids
        .iter()
        .map(|id| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "{}" } }))
        .collect();
    json!({ "role": "assistant", "content": null, "tool_calls": calls })
}

fn answer(id: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": "done" })
}

fn interrupted(id: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": "Error: interrupted" })
}

fn user() -> Value {
    json!({ "role": "user", "content": "go on" })
}

#[track_caller]
fn repaired(list: Value, expected: Value) {
    assert_eq!(json!(fingerprint(&accept(messages(list)))), expected);
}

#[test]
fn v18_answers_belong_to_calls() {
    let unknown = messages(json!([user(), answer("x"), answer("y")]));
    let error = refuse(unknown, ErrorCode::UnknownToolCall, "messages[1].tool_call_id");
    assert!(error.message.contains("\"x\", \"y\""), "{}", error.message);
    let early = messages(json!([answer("a"), asked(&["a"])]));
    refuse(early, ErrorCode::UnknownToolCall, "messages[0].tool_call_id");
    let partly = messages(json!([asked(&["a", "b", "c"]), answer("b")]));
    let error = refuse(partly, ErrorCode::MissingToolResults, "messages");
    assert!(error.message.contains("\"a\", \"c\""), "{}", error.message);
    let many: Vec<_> = (0..100).map(|n| answer(&format!("id{n}"))).collect();
    let error = run(messages(json!(many))).unwrap_err();
    assert!(error.message.contains("\"id19\" and 80 more"), "{}", error.message);
}

#[test]
fn v18_where_the_conversation_went_on_what_is_missing_was_interrupted() {
    repaired(
        json!([asked(&["a", "b"]), answer("b"), user()]),
        json!([asked(&["a", "b"]), interrupted("a"), answer("b"), user()]),
    );
    repaired(
        json!([asked(&["a"]), user(), asked(&["b"]), answer("b")]),
        json!([asked(&["a"]), interrupted("a"), user(), asked(&["b"]), answer("b")]),
    );
}

#[test]
fn answers_stand_behind_their_call_in_its_order() {
    repaired(
        json!([asked(&["a", "b"]), answer("b"), user(), answer("a"), user()]),
        json!([asked(&["a", "b"]), answer("a"), answer("b"), user(), user()]),
    );
}

fn said(id: &str, content: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": content })
}

#[test]
fn v28_of_several_answers_the_first_counts() {
    repaired(
        json!([asked(&["a", "b"]), said("a", "1"), said("a", "2"), said("b", "3"), user()]),
        json!([asked(&["a", "b"]), said("a", "1"), said("b", "3"), user()]),
    );
}

#[test]
fn v28_an_id_of_ours_is_no_other_calls() {
    let first = |list: Value| {
        let fingerprint = fingerprint(&accept(messages(list)));
        fingerprint[0]["tool_calls"].as_array().unwrap().last().unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let ours = first(json!([asked(&["a", "a"])]));
    assert_eq!(ours.len(), 9);
    assert_eq!(first(json!([asked(&["a", "a"]), user()])), ours, "the same each time");
    // The client has made the same id, by chance or on purpose.
    assert_ne!(first(json!([asked(&["a", "a"]), asked(&[&ours])])), ours);
    assert_ne!(first(json!([asked(&[&ours, &ours])])), ours);
}

#[test]
fn v28_a_message_of_nothing_is_left_out_before_calls_and_answers_are_paired() {
    let nothing = json!({ "role": "assistant", "content": null, "name": "a", "refusal": null });
    repaired(
        json!([asked(&["a", "b"]), answer("a"), nothing, answer("b")]),
        json!([asked(&["a", "b"]), answer("a"), answer("b")]),
    );
    refuse(
        messages(json!([asked(&["a", "b"]), answer("a"), nothing])),
        ErrorCode::MissingToolResults,
        "messages",
    );
    refuse_messages(json!([nothing, nothing]), "messages");
    // A legacy `function_call` counts as a call, and any other member as content.
    for member in ["function_call", "audio", "thinking_blocks"] {
        let mut message = json!({ "role": "assistant", "content": null });
        message[member] = json!({ "a": 1 });
        let fingerprint = fingerprint(&accept(messages(json!([message]))));
        let content = if member == "function_call" { Value::Null } else { json!("") };
        assert_eq!((fingerprint.len(), &fingerprint[0]["content"]), (1, &content), "{member}");
    }
}

#[test]
fn an_id_that_comes_again_is_the_nearest_calls() {
    let list = json!([asked(&["a"]), answer("a"), user(), asked(&["a"]), answer("a"), user()]);
    repaired(list.clone(), list);
}

#[test]
fn v19_an_unanswered_call_at_the_end_is_never_run() {
    repaired(json!([user(), asked(&["a"])]), json!([user(), asked(&["a"]), interrupted("a")]));
}

#[test]
fn v20_arguments_that_are_no_json_become_json() {
    for (arguments, expected) in [
        (json!(""), "{}"),
        (json!(" "), "{}"),
        (json!("null"), "{}"),
        (Value::Null, "{}"),
        (json!({ "a": 1 }), r#"{"a":1}"#),
        (json!("rm -rf"), r#"{"text":"rm -rf"}"#),
        (json!("{\"a\": "), r#"{"text":"{\"a\": "}"#),
        (json!(r#"{"a":"\ud83d"}"#), r#"{"a":"\ufffd"}"#),
    ] {
        let mut call = asked(&["a"]);
        call["tool_calls"][0]["function"]["arguments"] = arguments;
        call["tool_calls"][0]["extra"] = json!("kept");
        let request = accept(messages(json!([call, answer("a")])));
        let mended = &fingerprint(&request)[0]["tool_calls"][0];
        assert_eq!(mended["function"]["arguments"], json!(expected));
        assert_eq!(mended["extra"], json!("kept"));
    }
    let raw = r#"{"messages": [{"role": "assistant", "content": "",  "tool_calls": [{"id": "a",
        "type": "function", "function": {"name": "f", "arguments": " { \"a\": 1.0 } "}}]},
        {"role": "tool", "tool_call_id": "a", "content": ""}], "model": "m"}"#;
    let request = validate(raw.as_bytes(), &HeaderMap::new(), &context(), &snapshot()).unwrap();
    assert!(raw.contains(&sent(&request)[0]), "{}", sent(&request)[0]);
}

#[test]
fn wire_09_names_that_no_provider_takes_are_mended_unless_they_are_the_clients() {
    let mended = |name: &str, tools: Value| {
        let mut call = asked(&["a"]);
        call["tool_calls"][0]["function"]["name"] = json!(name);
        let mut body = messages(json!([call, answer("a")]));
        body["tools"] = tools;
        fingerprint(&accept(body))[0]["tool_calls"][0]["function"]["name"].clone()
    };
    assert_eq!(mended("functions.f", json!([])), "functions_f");
    assert_eq!(mended("Read<|channel|>commentary", json!([])), "Read__channel__commentary");
    assert_eq!(mended("f", json!([])), "f");
    let mut custom = asked(&["a"]);
    custom["tool_calls"] = json!([{ "id": "a", "type": "custom", "custom": { "name": "a b" } }]);
    let list = accept(messages(json!([custom, answer("a")])));
    assert_eq!(fingerprint(&list)[0]["tool_calls"][0]["custom"]["name"], "a_b");
}

#[test]
fn wire_28_white_space_alone_is_left_out_of_the_history() {
    let blank = |content: Value| json!({ "role": "assistant", "content": content });
    for content in [json!("\n \n"), json!([{ "type": "text", "text": " " }]), json!("")] {
        repaired(json!([user(), blank(content), user()]), json!([user(), user()]));
    }
    let mut call = asked(&["a"]);
    call["content"] = json!("\n\n");
    repaired(json!([call, answer("a")]), json!([asked(&["a"]), answer("a")]));
    let mut thought = blank(json!(" "));
    thought["reasoning_content"] = json!("Hm.");
    let mut kept = thought.clone();
    kept["content"] = json!("");
    repaired(json!([user(), thought, user()]), json!([user(), kept, user()]));
}

#[test]
fn our_own_progress_lines_do_not_go_back_to_the_model() {
    let reasoning = |text: &str| {
        let list = json!([{ "role": "assistant", "content": "hi", "reasoning_content": text }]);
        fingerprint(&accept(messages(list))).remove(0)["reasoning_content"].take()
    };
    assert_eq!(reasoning("I think.\n→ Read a.txt\nSo."), json!("I think.\nSo."));
    assert_eq!(reasoning("→ Read a.txt\n"), Value::Null);
    assert_eq!(reasoning("→ so be it\n"), json!("→ so be it\n"));
    assert_eq!(reasoning("plain"), json!("plain"));
}

fn toolhand(extension: Value) -> Value {
    json!({ "toolhand": extension })
}

#[test]
fn the_extension_is_read_and_what_is_not_there_yet_is_named() {
    let request = accept(toolhand(json!({
        "progress": "events",
        "mode": "plan",
        "tools": { "allow": ["shell", "Read"], "deny": ["Read"] },
        "workspace": "docs",
        "max_rounds": 500,
    })));
    assert_eq!(request.progress, Some(Progress::Events));
    assert_eq!(request.mode, Some(Mode::Plan));
    assert_eq!(ours(&request), ["Bash"]);
    assert_eq!(request.workspace.unwrap().root(), workspace().root());
    assert_eq!(request.max_rounds, Some(100));

    refuse(toolhand(json!({ "colour": "x" })), ErrorCode::UnsupportedValue, "toolhand.colour");
    for (extension, code, param) in [
        (json!({ "progress": "dots" }), ErrorCode::UnsupportedValue, "toolhand.progress"),
        (json!({ "session": "" }), ErrorCode::InvalidValue, "toolhand.session"),
        (json!({ "session": "x".repeat(129) }), ErrorCode::InvalidValue, "toolhand.session"),
        (json!({ "session": "x".repeat(10_000) }), ErrorCode::InvalidValue, "toolhand.session"),
        (json!({ "session": "a\u{0}b" }), ErrorCode::InvalidValue, "toolhand.session"),
        (json!({ "session": "é" }), ErrorCode::InvalidValue, "toolhand.session"),
        (json!({ "session": 1 }), ErrorCode::InvalidValue, "toolhand.session"),
        (json!({ "history": "server" }), ErrorCode::InvalidValue, "toolhand.history"),
        (json!({ "history": "mine" }), ErrorCode::UnsupportedValue, "toolhand.history"),
        (json!({ "history": true }), ErrorCode::InvalidValue, "toolhand.history"),
        (json!({ "include": ["thoughts"] }), ErrorCode::UnsupportedValue, "toolhand.include"),
        (json!({ "include": "messages" }), ErrorCode::InvalidValue, "toolhand.include"),
        (json!({ "include": [1] }), ErrorCode::InvalidValue, "toolhand.include"),
        (json!({ "detach": "yes" }), ErrorCode::InvalidValue, "toolhand.detach"),
        (json!({ "progress": 1 }), ErrorCode::InvalidValue, "toolhand.progress"),
        (json!({ "mode": "yolo" }), ErrorCode::InvalidValue, "toolhand.mode"),
        (json!({ "mode": "bypassPermissions" }), ErrorCode::ModeNotAllowed, "toolhand.mode"),
        (json!({ "workspace": "/etc" }), ErrorCode::InvalidValue, "toolhand.workspace"),
        (json!({ "max_rounds": 0 }), ErrorCode::InvalidValue, "toolhand.max_rounds"),
        (json!({ "max_rounds": "5" }), ErrorCode::InvalidValue, "toolhand.max_rounds"),
        (
            json!({ "tools": { "allow": ["Nope"] } }),
            ErrorCode::InvalidValue,
            "toolhand.tools.allow[0]",
        ),
        (json!({ "tools": { "ask": [] } }), ErrorCode::UnsupportedValue, "toolhand.tools.ask"),
        (json!({ "tools": [] }), ErrorCode::InvalidValue, "toolhand.tools"),
    ] {
        refuse(toolhand(extension), code, param);
    }
    refuse(toolhand(json!([])), ErrorCode::InvalidValue, "toolhand");
}

fn with_headers(headers: &[(&str, &str)], fields: Value) -> Result<ChatRequest, ApiError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(
            axum::http::HeaderName::try_from(*name).unwrap(),
            axum::http::HeaderValue::from_str(value).unwrap(),
        );
    }
    validate(request(fields).to_string().as_bytes(), &map, &context(), &snapshot())
}

#[test]
fn headers_say_the_same_and_the_body_beats_them() {
    let headers = [
        ("X-Toolhand-Progress", "none"),
        ("X-Toolhand-Mode", "plan"),
        ("X-Toolhand-Max-Rounds", "3"),
        ("X-Toolhand-Tools", r#"{"deny": ["Bash"]}"#),
    ];
    let request = with_headers(&headers, json!({})).unwrap();
    assert_eq!(request.progress, Some(Progress::None));
    assert_eq!(request.mode, Some(Mode::Plan));
    assert_eq!(request.max_rounds, Some(3));
    assert_eq!(ours(&request), ["Read"]);

    let both = with_headers(&headers, toolhand(json!({ "progress": "events" }))).unwrap();
    assert_eq!(both.progress, Some(Progress::Events));

    let error = with_headers(&[("X-Toolhand-Colour", "x")], json!({})).unwrap_err();
    assert_eq!(error.code, ErrorCode::UnsupportedValue);
    assert_eq!(error.param.unwrap(), "x-toolhand-colour");
    let error = with_headers(&[("X-Toolhand-Session", &"x".repeat(129))], json!({})).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidValue);
    assert_eq!(error.param.unwrap(), "x-toolhand-session");
    let error = with_headers(&[("X-Toolhand-Tools", "{")], json!({})).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidValue);
}

#[test]
fn a_frontends_own_call_shows_all_three_signs() {
    let task = json!([{ "role": "user", "content": "### Task:\nGive the chat a title." }]);
    let is_background = |headers: &[(&str, &str)], fields: Value| {
        ours(&with_headers(headers, fields).unwrap()).is_empty()
    };
    let with_task = |more: Value| {
        let mut fields = json!({ "stream": false, "messages": task });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fields
    };
    assert!(is_background(&[], with_task(json!({}))));
    assert!(is_background(&[], with_task(json!({ "tools": [] }))));
    assert!(!is_background(&[], with_task(json!({ "stream": true }))));
    assert!(!is_background(&[], with_task(json!({ "tools": [tool("a")] }))));
    let header = [("X-OpenWebUI-Task", "title_generation")];
    assert!(is_background(&header, json!({ "stream": false })));
    assert!(!is_background(&header, json!({ "stream": true })));
    assert!(!is_background(&[("X-OpenWebUI-Task", "")], json!({ "stream": false })));
    assert!(!is_background(&[], json!({ "stream": false })));
    assert!(is_background(&[], json!({ "model": "titles", "stream": true })));
}

#[test]
fn what_a_session_needs_is_said_in_the_body_or_in_headers() {
    let in_body = accept(toolhand(json!({
        "session": "mine", "history": "server", "include": ["messages"], "detach": true,
        "progress": "cards",
    })));
    let headers = [
        ("X-Toolhand-Session", "mine"),
        ("X-Toolhand-History", "server"),
        ("X-Toolhand-Include", "messages"),
        ("X-Toolhand-Detach", "true"),
        ("X-Toolhand-Progress", "cards"),
    ];
    let in_headers = with_headers(&headers, json!({})).unwrap();
    for request in [in_body, in_headers] {
        assert_eq!(request.named, Some(ExplicitId::Own("mine".to_owned())));
        assert!(request.server_history && request.include_messages && request.detach);
        assert_eq!(request.progress, Some(Progress::Cards));
    }
    let listed = with_headers(&[("X-Toolhand-Include", r#"["messages"]"#)], json!({})).unwrap();
    assert!(listed.include_messages);
    let plain = accept(json!({}));
    assert!(!plain.server_history && !plain.include_messages && !plain.detach);
    assert_eq!((plain.named, plain.is_background), (None, false));
}

#[test]
fn a_frontends_chat_id_names_a_session_and_metadata_does() {
    let header = [("X-OpenWebUI-Chat-Id", "chat")];
    let metadata = json!({ "metadata": { "session_id": "meta", "chat_id": 1 } });
    let named = |headers: &[(&str, &str)], fields: &Value| {
        with_headers(headers, fields.clone()).unwrap().named
    };
    assert_eq!(named(&header, &metadata), Some(ExplicitId::Frontend("chat".to_owned())));
    assert_eq!(named(&[], &metadata), Some(ExplicitId::Frontend("meta".to_owned())));
    let mut both = metadata;
    both["toolhand"] = json!({ "session": "own" });
    assert_eq!(named(&header, &both), Some(ExplicitId::Own("own".to_owned())));
}

#[test]
fn history_of_the_server_is_for_a_named_session_and_new_messages() {
    let with = |list: Value| {
        let mut fields = toolhand(json!({ "session": "s", "history": "server" }));
        fields["messages"] = list;
        fields
    };
    accept(with(json!([{ "role": "system", "content": "be kind" }, user()])));
    let said = json!([user(), { "role": "assistant", "content": "hi" }, user()]);
    refuse(with(said), ErrorCode::InvalidValue, "toolhand.history");
}

#[test]
fn each_call_of_the_history_says_whose_it_is() {
    let call = |id: &str, name: &str| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "{}" } });
    let calls = [call("a", "mine"), call("b", "Bash"), call("c", "shell"), call(CARD, "Bash")];
    let list = json!([{ "role": "assistant", "content": null, "tool_calls": calls }, user()]);
    let whose = |fields: Value| -> Vec<CallOf> {
        accept(fields).messages[0].calls.iter().map(|call| call.of).collect()
    };
    let mut fields = messages(list);
    let (client, server, card) = (CallOf::Client, CallOf::Server, CallOf::Card);
    assert_eq!(whose(fields.clone()), [client, server, server, card]);
    fields["tools"] = json!([tool("shell")]);
    assert_eq!(whose(fields), [client, server, client, card]);
}
