//! Clients that ask a person by a tool of their own.

use serde_json::{Value, json};

use super::asking::{Talk, builder, decide, marks, open, server, times_run, tool_answers};
use super::{after, told, user};
use crate::support::chunks::{calls, says};
use crate::support::client::with;
use crate::support::upstream::Upstream;

fn declares(name: &str, parameter: &str) -> Value {
    let parameters = json!({ "type": "object", "properties": { parameter: { "type": "array" } } });
    let function = json!({ "name": name, "parameters": parameters });
    json!({ "tools": [{ "type": "function", "function": function }] })
}

fn ask_user() -> Value {
    declares("ask_user", "questions")
}

fn toolhand_approval() -> Value {
    declares("toolhand_approval", "choices")
}

fn runs(upstream: &Upstream, files: &[&str]) {
    let commands: Vec<_> = files.iter().map(|file| (*file, "Bash", marks(file))).collect();
    upstream.round(calls(&commands));
}

/// An answer of the dialog: the same label for all its questions.
fn chosen(arguments: &Value, label: &str) -> String {
    let questions = arguments["questions"].as_array().expect("questions").iter();
    let answers = questions.map(|question| {
        (question["id"].as_str().expect("an id").to_owned(), json!({ "label": label }))
    });
    json!({ "answers": answers.collect::<serde_json::Map<_, _>>() }).to_string()
}

#[tokio::test]
async fn open_webui_asks_in_its_dialog_and_the_call_never_goes_upstream() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client()).with(ask_user());
    runs(&upstream, &["a"]);
    let text = talk.say("Do it.").await;

    assert_eq!(talk.finish_reason(), "tool_calls");
    assert!(text.contains("echo ran >> a"), "the exact effect stands before the call: {text}");
    let [(id, name, arguments)] = &talk.calls()[..] else { panic!("one call: {}", talk.last) };
    assert_eq!(name, "ask_user");
    let question = &arguments["questions"][0];
    let labels = question["options"].as_array().expect("options").iter();
    let labels: Vec<_> = labels.map(|option| option["label"].clone()).collect();
    assert_eq!(labels, ["Deny", "Allow once", "Allow for this session"]);
    assert!(question["id"].is_string() && question["header"].is_string());
    talk.answer(id, &chosen(arguments, "Allow once"));
    upstream.round(says("Done."));

    assert_eq!(talk.send().await, "Done.");

    assert_eq!(times_run(&server, "a"), 1);
    let told_second = told(&upstream.request(1).await);
    assert_eq!(told_second.len(), 3, "{told_second:?}");
    upstream.round(says("Welcome."));
    talk.say("Thanks.").await;
    let third = upstream.request(2).await;
    assert_eq!(told(&third)[3..], ["assistant: Done.", "user: Thanks."], "{:?}", told(&third));
    let body = third.json();
    let calls = body["messages"].as_array().expect("messages").iter();
    assert!(calls.clone().all(|message| !message["tool_calls"].to_string().contains("ask_user")));
}

#[tokio::test]
async fn a_dialog_that_was_closed_or_failed_denies() {
    for answer in [
        "Error: tool call rejected by user.",
        "Error: timed out",
        "",
        "1",
        "Allow once",
        "yes",
        r#"{"answers": {}}"#,
        r#"{"answers": {"XXXX": {"label": "Allow once"}}}"#,
        r#"["Allow once"]"#,
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let mut talk = Talk::new(server.client()).with(ask_user());
        runs(&upstream, &["a"]);
        talk.say("Do it.").await;
        let (id, ..) = talk.calls().remove(0);
        talk.answer(&id, answer);
        upstream.round(says("Then not."));

        assert_eq!(talk.send().await, "Then not.", "{answer}");

        assert_eq!(times_run(&server, "a"), 0, "{answer}");
        assert!(tool_answers(&upstream.request(1).await)[0].starts_with("Error: "));
        assert!(open(&talk.client).await.is_empty());
    }
}

/// A cancelled dialog stays a denial, whatever the user says next.
#[tokio::test]
async fn words_behind_a_closed_dialog_approve_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client()).with(ask_user());
    runs(&upstream, &["a"]);
    talk.say("Do it.").await;
    let (id, ..) = talk.calls().remove(0);
    talk.answer(&id, "Error: tool call rejected by user.");
    upstream.round(says("Then not."));

    assert_eq!(talk.say("1").await, "Then not.");

    assert_eq!(times_run(&server, "a"), 0);
    assert_eq!(told(&upstream.request(1).await).last(), Some(&"user: 1".to_owned()));
}

#[tokio::test]
async fn what_does_not_fit_into_a_dialog_comes_in_a_further_one() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client()).with(ask_user());
    let files = ["a", "b", "c", "d"];
    runs(&upstream, &files);
    talk.say("Do it.").await;
    upstream.round(says("Done."));
    let mut dialogs = Vec::new();
    while talk.finish_reason() == "tool_calls" {
        let [(id, name, arguments)] = &talk.calls()[..] else { panic!("one: {}", talk.last) };
        assert_eq!(name, "ask_user");
        dialogs.push(arguments["questions"].as_array().expect("questions").len());
        talk.answer(id, &chosen(arguments, "Allow once"));
        talk.send().await;
    }

    assert_eq!(dialogs, [3, 1]);
    assert!(open(&server.client()).await.is_empty(), "nothing is left to decide");
    assert_eq!(files.map(|file| times_run(&server, file)), [1; 4]);
    assert_eq!(tool_answers(&upstream.request(1).await).len(), 4);
}

/// A round of four questions, and with `more` other calls behind it.
fn asks_four(upstream: &Upstream, more: &[(&str, &str, Value)]) {
    let option = |label: &str| json!({ "label": label, "description": "" });
    let question = |text: &str| {
        let options = [option("Yes"), option("No")];
        json!({ "question": text, "header": "Choice", "options": options })
    };
    let questions = ["One?", "Two?", "Three?", "Four?"].map(question);
    let input = json!({ "questions": questions });
    upstream.round(calls(&[&[("q", "AskUserQuestion", input)], more].concat()));
}

/// The questions of the dialog that is shown, and the id of its call.
fn dialog(talk: &Talk) -> (String, Vec<String>, Value) {
    assert_eq!(talk.finish_reason(), "tool_calls", "{}", talk.last);
    let [(id, name, arguments)] = &talk.calls()[..] else { panic!("one call: {}", talk.last) };
    assert_eq!(name, "ask_user");
    let questions = arguments["questions"].as_array().expect("questions").iter();
    let texts = questions.map(|question| question["question"].as_str().expect("text").to_owned());
    (id.clone(), texts.collect(), arguments.clone())
}

#[tokio::test]
async fn four_questions_come_in_two_dialogs_and_the_model_gets_all_answers() {
    for restarts in [false, true] {
        let upstream = Upstream::start();
        let mut first = server(&upstream).await;
        let members = with(ask_user(), json!({ "toolhand": { "include": ["messages"] } }));
        let mut talk = Talk::new(first.client()).with(members);
        asks_four(&upstream, &[]);
        talk.say("Ask me.").await;
        let (id, texts, arguments) = dialog(&talk);
        assert_eq!(texts, ["One?", "Two?", "Three?"]);
        talk.answer(&id, &chosen(&arguments, "no"));

        let text = talk.send().await;

        let (id, texts, arguments) = dialog(&talk);
        assert_eq!(texts, ["Four?"]);
        assert!(text.contains("Four?") && !text.contains("Three?"), "{text}");
        let extension = &talk.last["toolhand"];
        assert_eq!(extension["asked"][0]["questions"][0]["question"], "Four?");
        assert_eq!(extension["messages"][0]["tool_calls"][0]["id"], id.as_str());
        assert_eq!(upstream.requests().len(), 1, "no model was asked");
        assert_eq!(open(&talk.client).await.len(), 1, "it is one approval");
        let next = if restarts {
            first.stop();
            let next = after(&upstream, &first).argument("--sandbox=off").start().await;
            talk.client = next.client();
            Some(next)
        } else {
            None
        };
        talk.answer(&id, &chosen(&arguments, "Only on Sundays"));
        upstream.round(says("Thanks."));

        assert_eq!(talk.send().await, "Thanks.");

        let answers =
            r#"{"answers":{"One?":"No","Two?":"No","Three?":"No","Four?":"Only on Sundays"}}"#;
        let request = upstream.request(1).await;
        assert_eq!(tool_answers(&request), [answers]);
        assert_eq!(told(&request).len(), 3, "{:?}", told(&request));
        assert!(open(&talk.client).await.is_empty());
        upstream.round(says("Welcome."));
        talk.say("Goodbye.").await;
        let later = upstream.request(2).await;
        assert_eq!(told(&later)[..3], told(&request)[..]);
        drop(next);
    }
}

#[tokio::test]
async fn a_further_dialog_that_was_closed_denies_and_the_answers_before_it_count_for_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client()).with(ask_user());
    asks_four(&upstream, &[]);
    talk.say("Ask me.").await;
    let (id, _, arguments) = dialog(&talk);
    talk.answer(&id, &chosen(&arguments, "Yes"));
    talk.send().await;
    let (id, ..) = dialog(&talk);
    talk.answer(&id, "Error: tool call rejected by user.");
    upstream.round(says("As you like."));

    assert_eq!(talk.send().await, "As you like.");

    let answers = tool_answers(&upstream.request(1).await);
    assert!(answers[0].starts_with("Error: ") && !answers[0].contains("Yes"), "{answers:?}");
}

#[tokio::test]
async fn between_two_dialogs_rest_may_answer_all_questions() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client()).with(ask_user());
    asks_four(&upstream, &[]);
    talk.say("Ask me.").await;
    let (id, _, arguments) = dialog(&talk);
    talk.answer(&id, &chosen(&arguments, "Yes"));
    talk.send().await;
    let asked = open(&talk.client).await.remove(0);
    let left: Vec<_> = asked["questions"].as_array().expect("questions").iter().collect();
    assert!(left.len() == 1 && left[0]["question"] == "Four?", "what is left is listed: {asked}");
    // What the first dialog answered stands, unless it is answered anew.
    let answers = json!({ "answers": { "One?": "No", "Four?": "No" } });
    assert_eq!(decide(&talk.client, &asked, &answers).await.status(), 200);
    let (id, _, arguments) = dialog(&talk);
    talk.answer(&id, &chosen(&arguments, "Yes"));
    upstream.round(says("Thanks."));

    assert_eq!(talk.send().await, "Thanks.");

    let stands = r#"{"answers":{"One?":"No","Two?":"Yes","Three?":"Yes","Four?":"No"}}"#;
    assert_eq!(tool_answers(&upstream.request(1).await), [stands]);
}

/// The round holds an approval that was given before its questions: it is used once.
#[tokio::test]
async fn an_answer_that_is_sent_again_finds_the_dialog_that_it_led_to() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client()).with(ask_user());
    asks_four(&upstream, &[("m", "Bash", marks("a"))]);
    talk.say("Ask me, then run it.").await;
    let (id, _, arguments) = dialog(&talk);
    talk.answer(&id, &chosen(&arguments, "Allow once"));
    talk.send().await;
    let (id, texts, arguments) = dialog(&talk);
    assert_eq!(texts, ["One?", "Two?", "Three?"], "the approval comes first");
    talk.answer(&id, &chosen(&arguments, "Yes"));
    let mut again = talk.clone();

    talk.send().await;
    again.send().await;

    assert_eq!(dialog(&again), dialog(&talk));
    assert_eq!((times_run(&server, "a"), upstream.requests().len()), (0, 1));
    let (id, texts, arguments) = dialog(&talk);
    assert_eq!(texts, ["Four?"]);
    talk.answer(&id, &chosen(&arguments, "Yes"));
    upstream.round(says("Done."));
    assert_eq!(talk.send().await, "Done.");
    assert_eq!(times_run(&server, "a"), 1);
}

#[tokio::test]
async fn toolhand_approval_is_called_for_each_ask_and_answered_with_a_word() {
    for (words, expected) in [
        (["allow", "deny"], [1, 0]),
        (["\"always\"", "allow"], [1, 1]),
        (["Error: aborted", "what is it?"], [0, 0]),
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let mut talk = Talk::new(server.client()).with(toolhand_approval());
        runs(&upstream, &["a", "b"]);
        talk.say("Do it.").await;
        let asked = talk.calls();
        assert_eq!(asked.len(), 2, "{}", talk.last);
        let listed = open(&talk.client).await;
        for ((id, name, arguments), word) in asked.iter().zip(words) {
            assert_eq!(name, "toolhand_approval");
            assert_eq!(arguments["tool"], "Bash");
            assert_eq!(arguments["choices"], json!(["allow", "always", "deny"]));
            assert!(arguments["effect"].as_str().expect("Markdown").contains("echo ran"));
            let is_listed = |approval: &Value| approval["id"] == arguments["approval_id"];
            assert!(listed.iter().any(is_listed), "{arguments}");
            talk.answer(id, word);
        }
        upstream.round(says("Done."));

        assert_eq!(talk.send().await, "Done.");

        assert_eq!(["a", "b"].map(|file| times_run(&server, file)), expected);
    }
}

#[tokio::test]
async fn an_answer_to_only_some_of_the_asks_is_refused_and_spoils_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client()).with(toolhand_approval());
    runs(&upstream, &["a", "b"]);
    talk.say("Do it.").await;
    let asked = talk.calls();
    talk.answer(&asked[0].0, "allow");

    let refused = talk.client.chat(&talk.body()).await;
    assert_eq!(refused.refusal(), (400, "missing_tool_results".to_owned()));
    assert_eq!(times_run(&server, "a"), 0);
    talk.answer(&asked[1].0, "allow");
    upstream.round(says("Done."));
    talk.send().await;

    assert_eq!((times_run(&server, "a"), times_run(&server, "b")), (1, 1));
}

#[tokio::test]
async fn the_configuration_may_keep_asking_in_the_conversation() {
    let upstream = Upstream::start();
    let server = builder(&upstream).config("approval.channel", r#""conversation""#).start().await;
    for tools in [ask_user(), toolhand_approval()] {
        let mut talk = Talk::new(server.client()).with(tools);
        runs(&upstream, &["a"]);

        let question = talk.say("Do it.").await;

        assert_eq!(talk.finish_reason(), "stop");
        assert!(question.contains("`1` allow once"), "{question}");
    }
}

/// A client's own calls come first; then the person is asked, and nothing runs twice.
#[tokio::test]
async fn in_a_mixed_round_the_clients_calls_come_before_the_asks() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client()).with(declares("weather", "city"));
    upstream.round(calls(&[
        ("r", "Read", json!({ "file_path": "notes.txt" })),
        ("m", "Bash", marks("a")),
        ("w", "weather", json!({ "city": "Lyon" })),
    ]));
    talk.say("Do it.").await;
    let own = talk.calls();
    assert!(own.len() == 1 && own[0].1 == "weather", "{}", talk.last);
    assert!(open(&talk.client).await.is_empty(), "nothing is asked yet");
    talk.answer(&own[0].0, "sun");

    let question = talk.send().await;
    assert_eq!(talk.finish_reason(), "stop");
    assert!(question.contains("echo ran >> a"), "{question}");
    assert_eq!((times_run(&server, "a"), upstream.requests().len()), (0, 1));
    upstream.round(says("Done."));

    assert_eq!(talk.say("1").await, "Done.");

    assert_eq!(times_run(&server, "a"), 1);
    let answers = tool_answers(&upstream.request(1).await);
    assert!(answers.len() == 3 && answers[0].contains("needle"), "{answers:?}");
    assert_eq!(answers[2], "sun");
    assert_eq!(talk.messages[0], user("Do it."));
}
