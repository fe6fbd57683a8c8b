//! Tests the next answer for whole conversations.

use super::*;

const ALL: [&str; 7] = ["Read", "Grep", "Glob", "Bash", "Write", "Edit", "get_weather"];

fn say(messages: Value, offered: &[&str], asked: Asked<'_>) -> Reply {
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } },
        "required": ["city"] });
    let tools = offered.iter().map(|name| OfferedTool { name, parameters: &parameters }).collect();
    next(&Asked { messages: &messages, tools, ..asked })
}

fn text(messages: Value) -> String {
    match say(messages, &ALL, Asked::default()) {
        Reply::Text(text) => text,
        Reply::Calls { calls, .. } => panic!("calls: {calls:?}"),
    }
}

fn tools(messages: Value) -> Vec<String> {
    match say(messages, &ALL, Asked::default()) {
        Reply::Text(text) => panic!("text: {text}"),
        Reply::Calls { calls, .. } => calls.into_iter().map(|call| call.tool).collect(),
    }
}

fn user(content: &str) -> Value {
    json!({ "role": "user", "content": content })
}

/// An assistant message with one call.
fn call(id: &str, name: &str, arguments: &str) -> Value {
    let function = json!({ "name": name, "arguments": arguments });
    json!({ "role": "assistant", "content": null,
        "tool_calls": [{ "id": id, "type": "function", "function": function }] })
}

fn answer(id: &str, content: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": content })
}

#[test]
fn goes_on_with_the_round_that_is_next() {
    let asked =
        json!({ "role": "user", "content": [{ "type": "text", "text": "read a then run b" }] });
    let first = call("1", "Read", r#"{"file_path":"a"}"#);
    let read = answer("1", "     1\tone");
    let second = call("2", "Bash", r#"{"command":"b"}"#);
    let failed = answer("2", "Error: no such command");

    assert_eq!(tools(json!([asked])), ["Read"]);
    assert_eq!(tools(json!([asked, first, read])), ["Bash"]);
    insta::assert_snapshot!(text(json!([asked, first, read, second, failed])), @r"
    Demo model: here is what the tools answered.

    Read (a) answered:

    ```text
         1	one
    ```

    Bash (b) failed:

    ```text
    Error: no such command
    ```
    ");
    assert_eq!(tools(json!([asked, first, read, asked])), ["Read"]);
}

#[test]
fn outside_small_a_directory_that_was_read_is_to_be_listed() {
    for (path, sentence) in [
        ("src", "list src"),
        ("my src", "list \"my src\""),
        (".github", "list .github"),
        ("docs/v1.2", "list files in docs/v1.2"),
    ] {
        let asked = user(&format!("read \"{path}\""));
        let arguments = json!({ "file_path": path }).to_string();
        let read = call("1", "Read", &arguments);
        let refused = "Error: /w/x is not a regular file but a directory; list it with Glob";
        let said = text(json!([asked, read, answer("1", refused)]));
        assert!(said.ends_with(&format!("Say: {sentence}")), "{said}");
        let Reply::Calls { calls, .. } = say(json!([user(sentence)]), &ALL, Asked::default())
        else {
            panic!("no call for {sentence}");
        };
        assert_eq!((calls[0].tool.as_str(), &calls[0].arguments["path"]), ("Glob", &json!(path)));
    }
}

#[test]
fn a_clients_tool_beside_ours_is_called_once_and_ours_is_not_lost() {
    let asked = user(r#"read a and call get_weather with {"city": "Oslo"}"#);
    let weather = call("1", "get_weather", r#"{"city":"Oslo"}"#);
    let rain = answer("1", "rain");

    assert_eq!(tools(json!([asked])), ["Read", "get_weather"]);
    // The client's list has its own call alone.
    assert_eq!(tools(json!([asked, weather, rain])), ["Read"]);
    let read = call("2", "Read", r#"{"file_path":"a"}"#);
    let told = text(json!([asked, weather, rain, read, answer("2", "one")]));
    assert!(told.contains("rain") && told.contains("one"), "{told}");
}

#[test]
fn what_ran_before_the_clients_tool_is_not_run_again() {
    let asked = user(r#"run b then call get_weather with {"city": "Oslo"}"#);
    let weather = call("1", "get_weather", r#"{"city":"Oslo"}"#);

    let told = text(json!([asked, weather, answer("1", "rain")]));

    assert!(told.contains("Bash (b) was called earlier"), "{told}");
    assert!(told.contains("rain"), "{told}");
}

#[test]
fn calls_nothing_that_was_not_offered() {
    let said = "Demo model: the tool Bash is not available in this request.";
    let reply = say(json!([user("run ls")]), &["Read"], Asked::default());
    assert_eq!(reply, Reply::Text(said.to_owned()));

    // The others of its round are called, and it is told at the end.
    let asked = user("run ls and read a then read b");
    let reply = say(json!([asked]), &["Read"], Asked::default());
    assert!(matches!(reply, Reply::Calls { calls, .. } if calls.len() == 1));
    let read = call("1", "Read", r#"{"file_path":"a"}"#);
    let reply = say(json!([asked, read, answer("1", "one")]), &["Read"], Asked::default());
    assert!(matches!(reply, Reply::Text(text) if text.contains("one") && text.ends_with(said)));
}

#[test]
fn says_what_it_can_do() {
    let help = text(json!([user("who are you?")]));
    assert!(help.starts_with("I did not understand \"who are you?\"."), "{help}");
    assert!(help.contains("replace A with B in FILE"), "{help}");

    assert_eq!(text(json!([user("What can you do?")])), ABILITIES);
    assert_eq!(text(json!([])), ABILITIES);
    assert_eq!(text(json!([{ "role": "user", "content": [{ "type": "image_url" }] }])), ABILITIES);
}

#[test]
fn reads_the_words_of_a_wrapped_message() {
    let wrapped = "### Task:\nRespond.\n<context>\nrun x\n</context>\n\nread notes.txt";
    assert_eq!(tools(json!([user(wrapped)])), ["Read"]);
    assert_eq!(tools(json!([user("New task:\nread notes.txt")])), ["Read"]);
}

#[test]
fn a_background_prompt_gets_its_json() {
    let prompt = "### Task:\nGenerate a title.\n### Output:\nJSON format: { \"title\": \"x\" }\n\
                  ### Chat History:\n<chat_history>\nUSER: hello\n</chat_history>";
    assert_eq!(text(json!([user(prompt)])), r#"{"title":"Demo: hello"}"#);
}

#[test]
fn json_comes_in_its_format_after_the_tools() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let format = || Asked { format: TextFormat::Schema(&schema), ..Asked::default() };
    let asked = user("read a");
    let read = call("1", "Read", r#"{"file_path":"a"}"#);

    assert!(matches!(say(json!([asked]), &ALL, format()), Reply::Calls { .. }));
    let done = json!([asked, read, answer("1", "one")]);
    assert_eq!(say(done.clone(), &ALL, format()), Reply::Text(r#"{"n":0}"#.into()));
    assert_eq!(say(json!([user("hi")]), &ALL, format()), Reply::Text(r#"{"n":0}"#.into()));
    let object = Asked { format: TextFormat::Object, ..Asked::default() };
    let Reply::Text(told) = say(done, &ALL, object) else { panic!("calls") };
    let told: Value = serde_json::from_str(&told).unwrap();
    assert!(told["answer"].as_str().unwrap().starts_with("Demo model: "), "{told}");
}

#[test]
fn a_forced_tool_is_called_once() {
    let forced = || Asked { forced: Some("get_weather"), ..Asked::default() };
    let arguments = |reply: Reply| match reply {
        Reply::Calls { calls, .. } if calls.len() == 1 => calls[0].arguments.to_string(),
        other => panic!("{other:?}"),
    };
    let planned = user(r#"read a and call get_weather with {"city": "Oslo"}"#);

    assert_eq!(arguments(say(json!([planned]), &ALL, forced())), r#"{"city":"Oslo"}"#);
    assert_eq!(arguments(say(json!([user("hi")]), &ALL, forced())), r#"{"city":"demo"}"#);
    let weather = call("1", "get_weather", r#"{"city":"demo"}"#);
    let again = say(json!([user("hi"), weather, answer("1", "rain")]), &ALL, forced());
    assert!(matches!(again, Reply::Text(_)), "{again:?}");
}

#[test]
fn a_final_answer_goes_through_the_tool_for_it() {
    let messages: Vec<Message> = serde_json::from_value(json!([user("New task:\nhelp")])).unwrap();
    let parameters = json!({ "properties": { "answer": { "type": "any" } } });
    let tools = vec![OfferedTool { name: "final_answer", parameters: &parameters }];

    let reply = next(&Asked { messages: &messages, tools, ..Asked::default() });

    let Reply::Calls { calls, .. } = reply else { panic!("{reply:?}") };
    assert_eq!(calls[0].arguments, json!({ "answer": ABILITIES }));
}

#[test]
fn hostile_conversations_have_an_answer() {
    for content in
        ["{\"a\":".repeat(50_000), "\u{0}\u{202e}\u{1b}[31m".into(), "read ".repeat(400_000)]
    {
        let told = text(json!([user(&content)]));
        assert!(told.len() < 2_000, "{}", told.len());
    }
    let many = "read a and ".repeat(501) + "read a";
    assert!(text(json!([user(&many)])).contains("at most 500 calls"));
    let mut messages = vec![user("read a")];
    for _ in 0..20_000 {
        messages.push(call("same", "other", "{"));
        messages.push(answer("same", "x"));
    }
    assert_eq!(tools(Value::Array(messages)), ["Read"]);
}

#[test]
fn a_note_of_the_server_is_no_command() {
    let said = json!({ "role": "assistant", "content": "The file" });
    let note = user("(Your last answer above is not finished. Go on, and read nothing.)");

    assert_eq!(text(json!([user("read a"), said, note])), report::NOTHING_TO_ADD);
}

#[test]
fn recalls_what_the_tools_answered_before() {
    let first = call("1", "Read", r#"{"file_path":"a"}"#);
    let read = answer("1", "     1\tone");
    let said = json!({ "role": "assistant", "content": "The file says one." });

    let recalled = text(json!([user("read a"), first, read, said, user("Recall.")]));
    assert!(recalled.contains("Read (a) answered:\n\n```text\n     1\tone\n"), "{recalled}");
    let nothing = text(json!([user("read a"), said, user("what did the tools answer?")]));
    assert_eq!(nothing, "Demo model: this conversation shows no earlier tool calls.");
}
