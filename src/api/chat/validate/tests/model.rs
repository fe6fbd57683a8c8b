//! States the rules of a request a second time, simply and slowly, over a JSON value.
//! Random bodies compare it with the real validation.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

use super::{taken, tool};

/// The fields at fault, as an error may name them.
fn wrong(body: &Value) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    let mut blame = |is_wrong: bool, param: &str| {
        if is_wrong {
            wrong.insert(param.to_owned());
        }
    };
    let field = |name: &str| body.get(name).filter(|value| !value.is_null());
    let is = |name: &str, test: fn(&Value) -> bool| field(name).is_none_or(test);
    let is_whole = |value: &Value| value.as_f64().is_some_and(|number| number.fract() == 0.0);
    for name in ["temperature", "top_p"] {
        blame(!is(name, Value::is_number), name);
    }
    for name in ["max_tokens", "seed"] {
        blame(!is(name, is_whole), name);
    }
    for name in ["stream", "logprobs", "parallel_tool_calls"] {
        blame(!is(name, Value::is_boolean), name);
    }
    for name in ["metadata", "response_format", "stream_options", "toolhand"] {
        blame(!is(name, Value::is_object), name);
    }
    for name in ["user", "service_tier"] {
        blame(!is(name, Value::is_string), name);
    }
    let is_text_or_texts = |value: &Value| match value {
        Value::Array(items) => items.iter().all(Value::is_string),
        other => other.is_string(),
    };
    blame(!is("stop", is_text_or_texts), "stop");
    blame(!is("n", |n| n.as_f64() == Some(1.0)), "n");
    blame(!is("model", is_model) || field("model").is_none(), "model");
    blame(body.get("api_key").is_some(), "api_key");
    let is_streamed = field("stream") == Some(&json!(true));
    blame(field("stream_options").is_some() && !is_streamed, "stream_options");
    let usage = field("stream_options").and_then(|options| options.get("include_usage"));
    let is_usage = usage.is_none_or(|usage| usage.is_boolean() || usage.is_null());
    blame(!is_usage, "stream_options.include_usage");
    blame(field("metadata").is_some_and(|data| data.get("api_key").is_some()), "metadata.api_key");
    let rounds = field("toolhand").and_then(|toolhand| toolhand.get("max_rounds"));
    let is_rounds = rounds.is_none_or(|rounds| rounds.is_null() || rounds.as_u64() > Some(0));
    blame(!is_rounds, "toolhand.max_rounds");
    wrong.extend(wrong_tools(field("tools"), field("tool_choice")));
    wrong.extend(wrong_messages(field("messages")));
    wrong
}

fn is_model(model: &Value) -> bool {
    model.as_str().is_some_and(|model| !model.trim().is_empty() && !model.contains('\n'))
}

fn wrong_tools(tools: Option<&Value>, choice: Option<&Value>) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    let Some(tools) = tools.map_or(Some(&[][..]), |tools| tools.as_array().map(Vec::as_slice))
    else {
        return BTreeSet::from(["tools".to_owned()]);
    };
    let mut names: Vec<&str> = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        let name = tool["function"]["name"].as_str().unwrap_or_default();
        if tool["type"] != "function" {
            wrong.insert(if tool.is_object() {
                format!("tools[{at}].type")
            } else {
                format!("tools[{at}]")
            });
        } else if name.is_empty() || name.contains(' ') {
            wrong.insert(format!("tools[{at}].function.name"));
        } else if names.contains(&name) || name == "Bash" {
            wrong.insert(format!("tools[{at}]"));
        }
        names.push(name);
    }
    let is_there = |name: &str| names.contains(&name) || ["Bash", "Read"].contains(&name);
    match choice {
        None => {}
        Some(Value::String(word)) if ["auto", "none", "required"].contains(&word.as_str()) => {}
        Some(Value::Object(choice)) => {
            let name = choice["function"]["name"].as_str().expect("as generated");
            if !is_there(name) {
                wrong.insert("tool_choice.function.name".to_owned());
            }
        }
        Some(_) => {
            wrong.insert("tool_choice".to_owned());
        }
    }
    wrong
}

fn wrong_messages(messages: Option<&Value>) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    let Some(messages) = messages.and_then(Value::as_array).filter(|list| !list.is_empty()) else {
        return BTreeSet::from(["messages".to_owned()]);
    };
    for (at, message) in messages.iter().enumerate() {
        let at = format!("messages[{at}]");
        if message.is_object() {
            wrong.extend(wrong_message(message).iter().map(|member| at.clone() + member));
        } else {
            wrong.insert(at);
        }
    }
    wrong.extend(wrong_pairs(messages));
    wrong
}

/// The members at fault, relative to the message.
fn wrong_message(message: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let role = message["role"].as_str().unwrap_or_default();
    let roles = ["user", "assistant", "tool", "system", "developer", "function"];
    if !roles.contains(&role) {
        wrong.push(".role".to_owned());
    }
    if !(message["name"].is_string() || (message["name"].is_null() && role != "function")) {
        wrong.push(".name".to_owned());
    }
    match &message["content"] {
        Value::String(_) => {}
        Value::Array(parts) => {
            let parts = parts.iter().enumerate();
            let members = parts.filter_map(|(at, part)| {
                wrong_part(part).map(|end| format!(".content[{at}]{end}"))
            });
            wrong.extend(members);
        }
        Value::Null if ["assistant", "tool", "function"].contains(&role) => {}
        _ => wrong.push(".content".to_owned()),
    }
    let id = &message["tool_call_id"];
    if role == "tool" && !(id.is_string() || id.is_null()) {
        wrong.push(".tool_call_id".to_owned());
    }
    if role == "assistant" {
        wrong.extend(wrong_calls(&message["tool_calls"]));
    }
    wrong
}

fn wrong_part(part: &Value) -> Option<&'static str> {
    let Some(part) = part.as_object() else { return Some("") };
    let is_url = |url: Option<&Value>| {
        url.and_then(Value::as_str).is_some_and(|url| url.starts_with("data:"))
    };
    match part.get("type").and_then(Value::as_str) {
        None => Some(".type"),
        Some("text") => (!part.get("text").is_some_and(Value::is_string)).then_some(".text"),
        Some("image_url") => match part.get("image_url") {
            Some(Value::Object(image)) => (!is_url(image.get("url"))).then_some(".image_url.url"),
            image => (!is_url(image)).then_some(".image_url"),
        },
        Some(_) => None,
    }
}

fn wrong_calls(calls: &Value) -> Vec<String> {
    if calls.is_null() {
        return Vec::new();
    }
    let Some(calls) = calls.as_array() else { return vec![".tool_calls".to_owned()] };
    let mut wrong = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        let at = |member: &str| format!(".tool_calls[{at}]{member}");
        if !call.is_object() {
            wrong.push(at(""));
            continue;
        }
        if !(call["id"].is_string() || call["id"].is_null()) {
            wrong.push(at(".id"));
        }
        if !call["function"]["name"].is_string() {
            let is_object = call["function"].is_object();
            wrong.push(at(if is_object { ".function.name" } else { ".function" }));
        }
    }
    wrong
}

fn ids(message: &Value) -> Vec<&str> {
    let calls = message["tool_calls"].as_array().filter(|_| message["role"] == "assistant");
    calls.into_iter().flatten().map(|call| call["id"].as_str().unwrap_or_default()).collect()
}

/// Whether a content has no word.
fn is_blank(content: &Value) -> bool {
    let is_blank_text = |text: &Value| text.as_str().is_some_and(|text| text.trim().is_empty());
    let is_blank_part = |part: &Value| part["type"] == "text" && is_blank_text(&part["text"]);
    let parts = content.as_array();
    is_blank_text(content) || parts.is_some_and(|parts| parts.iter().all(is_blank_part))
}

/// Whether an assistant message is left out because it says nothing.
fn is_empty(message: &Value) -> bool {
    let is_nothing = |(name, value): (&String, &Value)| {
        let is_known = matches!(name.as_str(), "role" | "name");
        let is_absent = value.is_null() || (name == "tool_calls" && *value == json!([]));
        is_known || is_absent || (name == "content" && is_blank(value))
    };
    let is_silent = message.as_object().is_some_and(|members| members.iter().all(is_nothing));
    message["role"] == "assistant" && is_silent
}

/// Answers without a call, and calls without an answer at the end.
fn wrong_pairs(messages: &[Value]) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    let answers = |message: &Value| message["role"] == "tool";
    let id_of = |message: &Value| message["tool_call_id"].as_str().unwrap_or_default().to_owned();
    for (at, message) in messages.iter().enumerate().filter(|(_, message)| answers(message)) {
        let id = id_of(message);
        if !messages[..at].iter().any(|earlier| ids(earlier).contains(&id.as_str())) {
            wrong.insert(format!("messages[{at}].tool_call_id"));
        }
    }
    let said: Vec<&Value> = messages.iter().filter(|message| !is_empty(message)).collect();
    let last = said.iter().rposition(|message| !answers(message));
    if let Some(last) = last.filter(|last| last + 1 < said.len()) {
        let asked = ids(said[last]);
        let count = |id: &str| asked.iter().filter(|other| **other == id).count();
        let told = |id: &str| said[last..].iter().filter(|m| answers(m) && id_of(m) == id).count();
        if asked.iter().any(|id| count(id) > told(id)) {
            wrong.insert("messages".to_owned());
        }
    }
    if said.is_empty() {
        wrong.insert("messages".to_owned());
    }
    wrong
}

fn any_value() -> impl Strategy<Value = Value> {
    select(vec![
        Value::Null,
        json!(true),
        json!(false),
        json!(1),
        json!(1.0),
        json!(1.5),
        json!(-1),
        json!(1e30),
        json!(""),
        json!("x"),
        json!([]),
        json!(["a", "b"]),
        json!(["a", 1]),
        json!({}),
        json!({ "a": 1 }),
        json!({ "api_key": "x" }),
        json!({ "include_usage": true }),
        json!({ "include_usage": "yes" }),
    ])
}

fn fields() -> impl Strategy<Value = Map<String, Value>> {
    let names = vec![
        "temperature",
        "top_p",
        "max_tokens",
        "seed",
        "stream",
        "logprobs",
        "parallel_tool_calls",
        "metadata",
        "response_format",
        "stream_options",
        "user",
        "service_tier",
        "stop",
        "n",
        "zebra",
        "stream",
        "stream",
    ];
    let odd = vec((select(names), any_value()), 0..2);
    let refused = prop::option::weighted(0.05, Just(("api_key", json!("x"))));
    let rounds = select(vec![json!(1), json!(0), json!("5"), json!(7), Value::Null]);
    let rounds = prop::option::weighted(
        0.1,
        rounds.prop_map(|rounds| ("toolhand", json!({ "max_rounds": rounds }))),
    );
    (odd, refused, rounds).prop_map(|(odd, refused, rounds)| {
        let all = odd.into_iter().chain(refused).chain(rounds);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    })
}

fn call() -> impl Strategy<Value = Value> {
    let id =
        prop_oneof![19 => select(vec!["a", "b", "c", ""]).prop_map(Value::from), 1 => any_value()];
    let function = prop_oneof![
        9 => select(vec!["{}", "{", "", "null", "[1]"])
            .prop_map(|arguments| json!({ "name": "Read", "arguments": arguments })),
        1 => select(vec![json!({}), json!(1), Value::Null]),
    ];
    prop_oneof![
        20 => (id, function)
            .prop_map(|(id, function)| json!({ "id": id, "type": "function", "function": function })),
        1 => Just(json!(7)),
    ]
}

fn content() -> impl Strategy<Value = Value> {
    let part = select(vec![
        json!({ "type": "text", "text": "t" }),
        json!({ "type": "text", "text": "t" }),
        json!({ "type": "text", "text": " \n" }),
        json!({ "type": "video" }),
        json!({ "type": "image_url", "image_url": "data:image/png;base64,AA" }),
        json!({ "type": "image_url", "image_url": { "url": "data:x" } }),
        json!({ "type": "image_url", "image_url": { "url": "file:///etc/passwd" } }),
        json!({ "type": "image_url", "image_url": "/etc/passwd" }),
        json!({ "type": "text" }),
        json!({ "text": "t" }),
        json!(1),
    ]);
    prop_oneof![
        8 => Just(json!("hi")),
        1 => select(vec![json!(""), json!("\n \u{a0}")]),
        3 => vec(part, 0..3).prop_map(Value::from),
        1 => any_value().prop_filter("no object list", |value| !value.is_array()),
    ]
}

fn message() -> impl Strategy<Value = Value> {
    let name = prop::option::weighted(0.1, select(vec![json!("n"), json!(1)]));
    let odd = select(vec!["robot", "developer", "system", "function", "User"]);
    prop_oneof![
        4 => (content(), name).prop_map(|(content, name)| {
            let mut message = json!({ "role": "user", "content": content });
            if let Some(name) = name {
                message["name"] = name;
            }
            message
        }),
        6 => (prop::option::of(content()), vec(call(), 0..3)).prop_map(|(content, calls)| {
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }),
        6 => prop_oneof![9 => select(vec!["a", "b", "c", ""]).prop_map(Value::from), 1 => any_value()]
            .prop_map(|id| json!({ "role": "tool", "tool_call_id": id, "content": "x" })),
        1 => (odd, content()).prop_map(|(role, content)| json!({ "role": role, "content": content })),
        1 => any_value().prop_filter("no object", |value| !value.is_object()),
    ]
}

/// A valid conversation in which one message may then be removed, repeated or replaced.
fn conversation() -> impl Strategy<Value = Vec<Value>> {
    let ids = prop::sample::subsequence(vec!["a", "b", "c"], 0..3);
    let exchange = ids.prop_map(|ids| {
        let calls = ids.iter().map(|id| {
            json!({ "id": id, "type": "function", "function": { "name": "Read", "arguments": "{}" } })
        });
        let calls: Vec<Value> = calls.collect();
        let asked = json!({ "role": "assistant", "content": "t", "tool_calls": calls });
        let answers =
            ids.iter().map(|id| json!({ "role": "tool", "tool_call_id": id, "content": "x" }));
        std::iter::once(asked).chain(answers).collect::<Vec<_>>()
    });
    let user = Just(vec![json!({ "role": "user", "content": "hi" })]);
    let parts = vec(prop_oneof![1 => user, 2 => exchange], 1..4);
    let changes = vec((any::<Index>(), 0..3_u8, message()), 0..3);
    (parts, changes).prop_map(|(parts, changes)| {
        let mut messages = parts.concat();
        for (at, change, other) in changes {
            let at = at.index(messages.len());
            match change {
                0 if messages.len() > 1 => drop(messages.remove(at)),
                1 => messages.insert(at, messages[at].clone()),
                _ => messages[at] = other,
            }
        }
        messages
    })
}

fn bodies() -> impl Strategy<Value = Value> {
    let model = prop_oneof![
        19 => Just(json!("m")),
        1 => select(vec![json!(""), json!(" "), json!("a\nb"), json!(1), Value::Null]),
    ];
    let messages = prop_oneof![
        19 => conversation().prop_map(Value::from),
        1 => any_value(),
    ];
    let tools = select(vec![
        Value::Null,
        Value::Null,
        json!([]),
        json!([tool("mine")]),
        json!([tool("a"), tool("b")]),
        json!([tool("a"), tool("a")]),
        json!([tool("Bash")]),
        json!([tool("a b")]),
        json!(7),
        json!([{ "type": "mcp" }]),
        json!([1]),
    ]);
    let named = |name: &str| json!({ "type": "function", "function": { "name": name } });
    let choice = select(vec![
        Value::Null,
        Value::Null,
        json!("auto"),
        json!("none"),
        json!("required"),
        json!("any"),
        named("Bash"),
        named("mine"),
        named("nobody"),
        json!(1),
    ]);
    (fields(), model, messages, tools, choice).prop_map(
        |(mut fields, model, messages, tools, choice)| {
            let ours = [
                ("model", model),
                ("messages", messages),
                ("tools", tools),
                ("tool_choice", choice),
            ];
            fields.extend(ours.map(|(name, value)| (name.to_owned(), value)));
            Value::Object(fields)
        },
    )
}

fn edited(text: &str, edits: &[(Index, u8, u8)]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for (at, kind, byte) in edits {
        let at = at.index(bytes.len());
        match kind % 4 {
            0 => bytes[at] = *byte,
            1 => bytes.insert(at, *byte),
            2 => bytes.truncate(at.max(1)),
            _ => bytes.extend_from_within(at..),
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2000), ..ProptestConfig::default() })]

    #[test]
    fn a_request_is_taken_just_when_nothing_in_it_is_wrong(body in bodies()) {
        let wrong = wrong(&body);
        match taken(body.to_string().as_bytes()) {
            Ok(_) => prop_assert!(wrong.is_empty(), "it was taken: {wrong:?}"),
            Err(error) => {
                let param = error.param.clone().unwrap_or_default();
                prop_assert!(wrong.contains(&param), "{param:?} of {wrong:?}: {}", error.message);
            }
        }
    }

    #[test]
    fn what_goes_upstream_is_paired_and_its_arguments_are_json(body in bodies()) {
        let Ok(request) = taken(body.to_string().as_bytes()) else {
            return Ok(());
        };
        let messages = super::fingerprint(&request);
        let mut owed: Vec<&str> = Vec::new();
        for message in &messages {
            if message["role"] == "tool" {
                prop_assert_eq!(Some(owed.remove(0)), message["tool_call_id"].as_str());
                continue;
            }
            prop_assert!(owed.is_empty());
            owed = ids(message);
            let unique: BTreeSet<_> = owed.iter().filter(|id| !id.is_empty()).collect();
            prop_assert_eq!(unique.len(), owed.len());
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let arguments = call["function"]["arguments"].as_str().expect("text");
                prop_assert!(serde_json::from_str::<Value>(arguments).is_ok(), "{}", arguments);
            }
        }
        prop_assert!(owed.is_empty());
    }

    #[test]
    fn bytes_of_every_kind_are_judged_and_nothing_panics(
        body in bodies(),
        edits in vec((any::<Index>(), any::<u8>(), select(b"\"\\{}[],:0eE+-.ux \n\0\xff\xc3".to_vec())), 1..4),
    ) {
        let bytes = edited(&body.to_string(), &edits);
        let taken = taken(&bytes);
        if taken.is_ok() {
            let value: Value = serde_json::from_slice(&bytes).expect("what is taken is JSON");
            prop_assert!(wrong(&value).is_empty(), "{:?}", wrong(&value));
        }
    }
}
