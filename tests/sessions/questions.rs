//! Questions of the model's own (`AskUserQuestion`), on every path to a person.

use serde_json::{Value, json};

use super::asking::{
    Talk, allow, builder, codes, decide, marks, open, server, times_run, tool_answers,
};
use super::{conversation, told, user};
use crate::support::chunks::{calls, says};
use crate::support::client::with;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

fn option(label: &str) -> Value {
    json!({ "label": label, "description": "" })
}

fn question(text: &str, labels: &[&str], several: bool) -> Value {
    let options: Vec<_> = labels.iter().map(|label| option(label)).collect();
    json!({ "question": text, "header": "Choice", "options": options, "multiSelect": several })
}

fn asks(upstream: &Upstream, questions: &[Value]) {
    let input = json!({ "questions": questions });
    upstream.round(calls(&[("q", "AskUserQuestion", input)]));
}

/// The answers that the model is given.
async fn answers(upstream: &Upstream, request: usize) -> Value {
    let answers = tool_answers(&upstream.request(request).await);
    let last = answers.last().expect("an answer");
    let answer: Value = serde_json::from_str(last).unwrap_or_else(|_| json!(last));
    answer.get("answers").cloned().unwrap_or(answer)
}

fn two() -> [Value; 2] {
    [question("Colour?", &["Red", "Green"], false), question("Sizes?", &["2", "1", "L, XL"], true)]
}

#[tokio::test]
async fn a_reply_in_the_conversation_answers_line_by_line() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    for (reply, colour, sizes) in [
        ("red\n2", "Red", "2"),
        ("2\n3", "Green", "L, XL"),
        ("1.\n1, l, xl", "Red", "1, L, XL"),
        ("-9\nnone of these", "-9", "none of these"),
        ("mauve", "mauve", "(no answer)"),
        ("### Task:\n<context>1\n1</context>\ngreen\n1", "Green", "1"),
    ] {
        let mut talk = Talk::new(server.client());
        asks(&upstream, &two());
        let text = talk.say(&format!("Order for {reply:?}.")).await;
        assert!(text.contains("Colour?") && text.contains("`2` Green"), "{text}");
        assert_eq!(talk.finish_reason(), "stop");
        upstream.round(says("Ordered."));
        let count = upstream.requests().len();

        assert_eq!(talk.say(reply).await, "Ordered.");

        let expected = json!({ "Colour?": colour, "Sizes?": sizes });
        assert_eq!(answers(&upstream, count).await, expected, "{reply:?}");
        let told = told(&upstream.request(count).await);
        assert!(told.len() == 3 && told[2].starts_with("tool: "), "{told:?}");
    }
}

#[tokio::test]
async fn a_number_beyond_the_options_is_asked_again_once_and_then_taken_as_text() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client());
    asks(&upstream, &two());
    let first = talk.say("Order.").await;
    let again = talk.say("9\n1").await;
    assert_eq!(codes(&again), codes(&first));
    assert!(again.contains("There is no option with that number"), "{again}");
    assert!(again.contains("Colour?") && again.contains("Sizes?"), "{again}");
    let sizes = talk.say("9\n7").await;
    assert!(sizes.contains("Sizes?") && !sizes.contains("Colour?"), "{sizes}");
    assert_eq!(upstream.requests().len(), 1);
    upstream.round(says("Ordered."));

    assert_eq!(talk.say("7").await, "Ordered.");

    assert_eq!(answers(&upstream, 1).await, json!({ "Colour?": "9", "Sizes?": "7" }));
}

#[tokio::test]
async fn several_questions_with_one_choice_each_are_answered_on_one_line() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    for (reply, inside, outside) in
        [("1, 2", "Red", "Blue"), ("2,1", "Green", "White"), ("green, blue.", "Green", "Blue")]
    {
        let mut talk = Talk::new(server.client());
        let inside_question = question("Inside?", &["Red", "Green"], false);
        let outside_question = question("Outside?", &["White", "Blue"], false);
        asks(&upstream, &[inside_question, outside_question]);
        talk.say(&format!("Paint for {reply:?}.")).await;
        upstream.round(says("Painted."));
        let count = upstream.requests().len();

        assert_eq!(talk.say(reply).await, "Painted.");

        let expected = json!({ "Inside?": inside, "Outside?": outside });
        assert_eq!(answers(&upstream, count).await, expected, "{reply:?}");
    }
}

#[tokio::test]
async fn rest_answers_by_the_text_of_the_question() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let mut talk = Talk::new(client.clone());
    asks(&upstream, &two());
    talk.say("Order.").await;
    let asked = open(&client).await.remove(0);
    assert_eq!((&asked["effect"], &asked["choices"]), (&Value::Null, &json!([])));
    assert_eq!(asked["questions"][0]["options"][1]["label"], "Green");
    for (body, code) in [
        (allow(), "invalid_value"),
        (json!({ "answers": { "Size?": "1" } }), "invalid_value"),
        (json!({}), "missing_field"),
    ] {
        assert_eq!(decide(&client, &asked, &body).await.refusal(), (400, code.to_owned()));
    }
    let body = json!({ "answers": { "Sizes?": "L, XL" } });
    assert_eq!(decide(&client, &asked, &body).await.status(), 200);
    assert_eq!(decide(&client, &asked, &body).await.status(), 409);
    upstream.round(says("Ordered."));

    assert_eq!(talk.say("Is it ordered?").await, "Ordered.");

    let expected = json!({ "Colour?": "(no answer)", "Sizes?": "L, XL" });
    assert_eq!(answers(&upstream, 1).await, expected);
    let told = told(&upstream.request(1).await);
    assert_eq!(told.last().map(String::as_str), Some("user: Is it ordered?"));
}

fn ask_user() -> Value {
    let parameters = json!({ "type": "object", "properties": { "questions": {} } });
    json!({ "tools": [{ "type": "function", "function": {
        "name": "ask_user", "parameters": parameters,
    } }] })
}

#[tokio::test]
async fn the_dialog_asks_what_fits_and_the_conversation_the_rest() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client()).with(ask_user());
    asks(&upstream, &[question("Colour?", &["Red", "Green"], false)]);
    talk.say("Order.").await;
    let (id, name, arguments) = talk.calls().remove(0);
    assert_eq!(name, "ask_user");
    let asked = &arguments["questions"][0];
    assert_eq!((&asked["question"], &asked["allow_other"]), (&json!("Colour?"), &json!(true)));
    let key = asked["id"].as_str().expect("an id");
    talk.answer(&id, &json!({ "answers": { key: { "label": "Green" } } }).to_string());
    upstream.round(says("Ordered."));
    assert_eq!(talk.send().await, "Ordered.");
    assert_eq!(answers(&upstream, 1).await, json!({ "Colour?": "Green" }));

    // Four options are more than the dialog can show.
    asks(&upstream, &[question("Size?", &["S", "M", "L", "XL"], false)]);
    let text = talk.say("And the size?").await;
    assert!(talk.calls().is_empty() && text.contains("`4` XL"), "{}", talk.last);
    upstream.round(says("Ordered."));
    talk.say("4").await;
    assert_eq!(answers(&upstream, 3).await, json!({ "Size?": "XL" }));
}

#[tokio::test]
async fn a_dialog_that_was_closed_answers_with_a_refusal() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client()).with(ask_user());
    asks(&upstream, &[question("Colour?", &["Red", "Green"], false)]);
    talk.say("Order.").await;
    let (id, ..) = talk.calls().remove(0);
    talk.answer(&id, "Error: tool call rejected by user.");
    upstream.round(says("As you like."));

    assert_eq!(talk.send().await, "As you like.");

    assert!(tool_answers(&upstream.request(1).await)[0].starts_with("Error: "));
}

#[tokio::test]
async fn a_question_comes_after_the_approvals_of_its_round_and_its_reply_approves_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client());
    let input = json!({ "questions": [question("Colour?", &["Red", "Green"], false)] });
    upstream.round(calls(&[("q", "AskUserQuestion", input), ("m", "Bash", marks("a"))]));
    let first = talk.say("Do both.").await;
    assert!(first.contains(">> a") && !first.contains("Colour?"), "{first}");

    let second = talk.say("1").await;
    assert!(second.contains("Colour?") && !second.contains(">> a"), "{second}");
    assert_eq!(codes(&second).len(), 1, "{second}");
    upstream.round(says("Done."));
    assert_eq!(talk.say("1").await, "Done.");

    let answers = tool_answers(&upstream.request(1).await);
    assert_eq!(answers[0], r#"{"answers":{"Colour?":"Red"}}"#);
    assert_eq!(times_run(&server, "a"), 1);
}

#[tokio::test]
async fn every_mode_but_dont_ask_lets_the_model_ask() {
    for mode in ["bypassPermissions", "plan"] {
        let upstream = Upstream::start();
        let server = builder(&upstream).argument(&format!("--permission-mode={mode}")).start();
        let server: Server = server.await;
        let mut talk = Talk::new(server.client());
        asks(&upstream, &[question("Colour?", &["Red", "Green"], false)]);
        assert!(talk.say("Order.").await.contains("Colour?"), "{mode}");
        upstream.round(says("Ordered."));
        talk.say("Green").await;
        assert_eq!(answers(&upstream, 1).await, json!({ "Colour?": "Green" }), "{mode}");
    }
    for (key, value) in [("permissions.mode", r#""dontAsk""#), ("approval.channel", r#""none""#)] {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream).config(key, value).start().await;
        asks(&upstream, &[question("Colour?", &["Red", "Green"], false)]);
        upstream.round(says("I guess."));
        server.client().chat(&conversation(&[user("Order.")])).await;
        let answers = tool_answers(&upstream.request(1).await);
        assert!(answers[0].starts_with("Error: "), "{answers:?}");
    }
}

#[tokio::test]
async fn questions_out_of_bounds_reach_the_model_as_errors_and_no_person() {
    let red = || question("Colour?", &["Red", "Green"], false);
    for questions in [
        json!([]),
        json!([red(), red()]),
        json!([question("Colour?", &["Red", "Red"], false)]),
        json!([question("Colour?", &["Red"], false)]),
        json!([question(&"x".repeat(1001), &["Red", "Green"], false)]),
        json!([question("", &["Red", "Green"], false)]),
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let input = json!({ "questions": questions });
        upstream.round(calls(&[("q", "AskUserQuestion", input)]));
        upstream.round(says("Sorry."));
        let mut talk = Talk::new(server.client());

        assert_eq!(talk.say("Order.").await, "Sorry.", "{questions}");

        assert!(tool_answers(&upstream.request(1).await)[0].starts_with("Error: "));
    }
}

/// A question that is asked twice is a new one: an answer to the first does not answer it.
#[tokio::test]
async fn the_same_question_asked_again_is_asked_again() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client());
    let one = [question("Colour?", &["Red", "Green"], false)];
    asks(&upstream, &one);
    let first = talk.say("Order.").await;
    asks(&upstream, &one);
    let second = talk.say("1").await;
    assert_ne!(codes(&first), codes(&second));
    upstream.round(says("Ordered."));
    talk.say("2").await;

    assert_eq!(
        tool_answers(&upstream.request(2).await),
        [r#"{"answers":{"Colour?":"Red"}}"#, r#"{"answers":{"Colour?":"Green"}}"#]
    );
}

#[tokio::test]
async fn while_a_question_is_open_nothing_is_proposed_to_say() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let chat = server.client().header("x-openwebui-chat-id", "chat-1");
    let follow_ups = |quoting: &str| {
        let prompt = format!(
            "### Task:\nSuggest follow-ups.\n### Output:\n{{ \"follow_ups\": [] }}\n\
             ### Chat History:\n{quoting}"
        );
        with(conversation(&[user(&prompt)]), json!({ "stream": false }))
    };
    let mut talk = Talk::new(chat.clone());
    asks(&upstream, &[question("Colour?", &["Red", "Green"], false)]);
    let text = talk.say("Order.").await;
    let named = chat.clone().header("x-openwebui-task", "follow_up_generation");
    let nothing = r#"{"follow_ups": []}"#;

    assert_eq!(named.chat(&follow_ups("…")).await.text(), nothing, "by its chat id");
    let quoted = server.client().chat(&follow_ups(&text)).await;
    assert_eq!(quoted.text(), nothing, "by the question's code");
    assert_eq!(upstream.requests().len(), 1, "no model was asked");
    upstream.round(says("other"));
    assert_eq!(server.client().chat(&follow_ups("another chat")).await.text(), "other");

    upstream.round(says("Ordered."));
    talk.say("1").await;
    upstream.round(says("proposals"));
    assert_eq!(named.chat(&follow_ups(&text)).await.text(), "proposals", "it is answered");
}
