//! Tests hooks that keep a turn from ending, or end it, where its answer has a form of its own or
//! its round stays open.

use serde_json::{Value, json};

use super::{glob, hooked};
use crate::sessions::{after, assert_goes_on, assistant, conversation, user};
use crate::support::chunks::{calls, says};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

/// Says no at the first of the times that it is asked from `first` on.
fn holds_at(first: u32) -> String {
    format!("cat >>stops; [[ $(wc -l <stops) -eq {first} ]] || exit 0; echo more >&2; exit 2")
}

const ENDS: &str = r#"echo '{"continue":false,"stopReason":"Enough for today."}'"#;

fn as_json(body: Value) -> Value {
    with(body, json!({ "response_format": { "type": "json_object" } }))
}

fn weather() -> Value {
    let function = json!({ "name": "weather", "parameters": { "type": "object" } });
    json!({ "tools": [{ "type": "function", "function": function }] })
}

#[tokio::test]
async fn an_answer_in_a_response_format_is_held_and_only_the_last_one_is_content() {
    for is_streamed in [false, true] {
        let upstream = Upstream::start();
        let server = hooked(&upstream, &[("Stop", &holds_at(1))]).start().await;
        upstream.round(says(r#"{"found":1}"#));
        upstream.round(calls(&[glob("c1")]));
        upstream.round(says(r#"{"found":2}"#));
        let client = server.client();

        let text = if is_streamed {
            let streamed = client.streamed(&as_json(ask_streamed("Go."))).await;
            assert!(streamed.reasoning().contains(r#"{"found":1}"#), "{}", streamed.reasoning());
            streamed.text().to_owned()
        } else {
            client.chat(&as_json(ask("Go."))).await.text()
        };

        assert_eq!(text, r#"{"found":2}"#);
        let held = upstream.requests().pop().expect("a request");
        upstream.round(says("{}"));
        let list = [user("Go."), assistant(&text), user("Bye.")];
        client.chat(&as_json(conversation(&list))).await;
        assert_goes_on(&held, &upstream.requests().pop().expect("a request"));
    }
}

#[tokio::test]
async fn a_hook_that_ends_a_turn_with_a_response_format_leaves_the_models_answer_whole() {
    let upstream = Upstream::start();
    let server = hooked(&upstream, &[("Stop", ENDS)]).start().await;
    upstream.round(says(r#"{"found":1}"#));

    let streamed = server.client().streamed(&as_json(ask_streamed("Go."))).await;

    assert_eq!(streamed.text(), r#"{"found":1}"#);
    assert!(streamed.reasoning().contains("Enough for today."), "{}", streamed.reasoning());
}

#[tokio::test]
async fn an_answer_that_the_client_wants_continued_is_held_as_well() {
    let upstream = Upstream::start();
    let server = hooked(&upstream, &[("Stop", &holds_at(2))]).start().await;
    let client = server.client();
    upstream.round(says("Once upon"));
    client.chat(&ask("Tell.")).await;
    upstream.round(says(" a time."));
    upstream.round(says("The end."));

    let list = [user("Tell."), assistant("Once upon")];
    let answer = client.chat(&conversation(&list)).await;

    assert_eq!(answer.text(), " a time.\n\nThe end.");
    let held = upstream.requests().pop().expect("a request");
    let told: Vec<String> = crate::sessions::told(&held);
    assert_eq!(told[..2], ["user: Tell.", "assistant: Once upon"]);
    assert!(told[2].contains("not finished") && told[3] == "assistant:  a time.", "{told:?}");
    assert!(told[4].contains("asks you to go on:\nmore"), "{told:?}");

    // What was hidden is there again, byte for byte.
    upstream.round(says("Bye."));
    let list = [user("Tell."), assistant("Once upon a time.\n\nThe end."), user("Thanks.")];
    client.chat(&conversation(&list)).await;
    assert_goes_on(&held, &upstream.requests().pop().expect("a request"));
}

#[tokio::test]
async fn a_turn_that_a_hook_ended_ends_when_the_client_has_answered_also_after_a_restart() {
    let upstream = Upstream::start();
    let mut server = hooked(&upstream, &[("PostToolUse", ENDS)]).start().await;
    upstream.round(calls(&[glob("g1"), ("w1", "weather", json!({}))]));
    let body = with(conversation(&[user("Go.")]), weather());
    let first = server.client().chat(&body).await.json();
    assert_eq!(first["choices"][0]["finish_reason"], "tool_calls");
    let message = first["choices"][0]["message"].clone();
    server.stop();
    let server = after(&upstream, &server).start().await;

    let sun = json!({ "role": "tool", "tool_call_id": "w1", "content": "sun" });
    let list = [user("Go."), message.clone(), sun.clone()];
    let answer = server.client().chat(&with(conversation(&list), weather())).await;

    assert_eq!(answer.text(), "Enough for today.");
    assert_eq!(answer.json()["choices"][0]["finish_reason"], "stop");
    assert_eq!(upstream.requests().len(), 1, "the model is not asked");

    upstream.round(says("Bye."));
    let said = assistant(&answer.text());
    let list = [user("Go."), message, sun, said, user("Bye.")];
    server.client().chat(&with(conversation(&list), weather())).await;
    let told = answers_in(&upstream.requests().pop().expect("a request").json());
    assert!(told[0].ends_with("a.txt") && told[1] == "sun", "what ran is known: {told:?}");
}

/// A call has run behind which a hook ends the turn, and another one needs a person.
async fn asking(upstream: &Upstream) -> (Server, String) {
    let table = format!(
        "\n[[hooks]]\nevent = \"PostToolUse\"\nmatcher = \"Glob\"\ncommand = '''{ENDS}'''\n"
    );
    let server = Server::builder(upstream).argument("--sandbox=off").tables(&table).start().await;
    let command = json!({ "command": "echo ran >>marks" });
    upstream.round(calls(&[glob("c1"), ("c2", "Bash", command)]));
    let question = server.client().chat(&ask("Go.")).await.text();
    assert!(question.contains("echo ran"), "{question}");
    (server, question)
}

fn marks(server: &Server) -> usize {
    let marks = std::fs::read_to_string(server.workspace().join("marks")).unwrap_or_default();
    marks.lines().count()
}

#[tokio::test]
async fn a_turn_that_a_hook_ended_ends_when_the_person_has_decided() {
    for (reply, times) in [("1", 1), ("no", 0)] {
        let upstream = Upstream::start();
        let (server, question) = asking(&upstream).await;

        let list = [user("Go."), assistant(&question), user(reply)];
        let answer = server.client().chat(&conversation(&list)).await;

        assert_eq!(answer.text(), "Enough for today.", "{reply}");
        assert_eq!(upstream.requests().len(), 1, "{reply}: the model is not asked");
        assert_eq!(marks(&server), times, "{reply}");
    }
}

#[tokio::test]
async fn new_words_beside_a_decision_begin_another_turn() {
    for words in [None, Some("And now?")] {
        let upstream = Upstream::start();
        let (server, question) = asking(&upstream).await;
        let client = server.client();
        let open = client.get("/toolhand/v1/approvals").await.json();
        let id = open["data"][0]["id"].as_str().expect("an id");
        let path = format!("/toolhand/v1/approvals/{id}");
        let decided = client.post(&path, &json!({ "decision": "allow" })).await;
        assert_eq!(decided.status(), 200);
        let expected = if words.is_some() { "Here." } else { "Enough for today." };
        if words.is_some() {
            upstream.round(says("Here."));
        }

        let list = [user("Go."), assistant(&question)].into_iter().chain(words.map(user));
        let answer = client.chat(&conversation(&list.collect::<Vec<_>>())).await;

        assert_eq!((answer.text().as_str(), marks(&server)), (expected, 1));
    }
}

#[tokio::test]
async fn what_hooks_say_of_calls_that_wait_for_a_person_is_shown_once() {
    let upstream = Upstream::start();
    let says_of = |event: &str, text: &str| {
        let line = format!("echo '{{\"systemMessage\":\"{text}\"}}'");
        format!("\n[[hooks]]\nevent = \"{event}\"\ncommand = '''{line}'''\n")
    };
    let tables = [says_of("PreToolUse", "seen"), says_of("Notification", "asked")].concat();
    let server = Server::builder(&upstream).argument("--sandbox=off").tables(&tables).start().await;
    let command = json!({ "command": "env true" });
    upstream.round(calls(&[("c1", "Bash", command.clone()), ("c2", "Bash", command)]));
    let events = json!({ "toolhand": { "progress": "events" } });
    let client = server.client();

    let question = client.streamed(&with(ask_streamed("Go."), events.clone())).await;

    let said = |events: Vec<&Value>| -> Vec<String> {
        let mut said: Vec<String> = events
            .into_iter()
            .map(|event| event["message"].as_str().expect("text").to_owned())
            .collect();
        said.sort();
        said
    };
    assert_eq!(said(question.progress("hook")), ["asked", "asked", "seen", "seen"]);

    // The hooks before a call are asked again, since it is another turn; nobody else is.
    upstream.round(says("Done."));
    let list = [user("Go."), assistant(question.text()), user("yes")];
    let body = with(conversation(&list), json!({ "stream": true }));
    let done = client.streamed(&with(body, events)).await;
    assert_eq!(done.text(), "Done.");
    assert_eq!(said(done.progress("hook")), ["seen", "seen"]);
}
