//! Decisions over REST: while the stream waits, on a suspended turn, and at the same moment as
//! something else.

use serde_json::json;

use super::asking::{
    Talk, allow, builder, codes, decide, marks, open, server, times_run, tool_answers, write,
};
use super::{after, conversation, user};
use crate::support::chunks::{calls, gate, says, text};
use crate::support::client::{ask_streamed, with};
use crate::support::stream::Event;
use crate::support::upstream::Upstream;

/// Two requests or decisions at the same moment, so often.
const RACES: usize = 25;

fn runs(upstream: &Upstream, file: &str) {
    upstream.round(calls(&[("m", "Bash", marks(file))]));
}

fn events() -> serde_json::Value {
    json!({ "toolhand": { "progress": "events" } })
}

#[tokio::test]
async fn a_decision_while_the_stream_waits_runs_the_call_at_once() {
    let upstream = Upstream::start();
    let server = builder(&upstream)
        .config("approval.wait", r#""10m""#)
        .config("turns.keep_alive", r#""50ms""#)
        .start()
        .await;
    let client = server.client();
    runs(&upstream, "a");
    runs(&upstream, "b");
    upstream.round(says("Done."));

    let mut stream = client.stream(&with(ask_streamed("Do it."), events())).await;
    for (file, choice) in [("a", "allow"), ("b", "deny")] {
        let asked = stream.until_progress("approval").await;
        assert_eq!(asked["choices"], json!(["allow", "always", "deny"]), "{asked}");
        stream.until(|event| matches!(event, Event::Comment(_))).await;
        let listed = open(&client).await;
        assert!(listed.len() == 1 && listed[0]["id"] == asked["id"], "{listed:?}");
        assert_eq!(listed[0]["choices"], asked["choices"]);
        let turns = client.get("/toolhand/v1/turns").await.json();
        assert_eq!(turns["data"][0]["state"], "waiting", "{turns}");
        assert_eq!(times_run(&server, file), 0);
        let decided = decide(&client, &asked, &json!({ "decision": choice })).await;
        assert_eq!(decided.status(), 200);
    }
    let transcript = stream.finish().await;

    assert_eq!(transcript.finish_reason.as_deref(), Some("stop"));
    assert_eq!(transcript.text(), "Done.", "what was decided is no part of the text");
    assert_eq!((times_run(&server, "a"), times_run(&server, "b")), (1, 0));
    assert!(tool_answers(&upstream.request(2).await)[1].starts_with("Error: "));
}

/// Each way in which two asks of one round are decided: which first, and how.
#[tokio::test]
async fn two_asks_of_a_round_are_decided_one_by_one_while_the_stream_waits() {
    for first in [0, 1] {
        for choices in [["allow", "allow"], ["allow", "deny"], ["deny", "allow"], ["deny", "deny"]]
        {
            let upstream = Upstream::start();
            let server = builder(&upstream).config("approval.wait", r#""10m""#).start().await;
            let client = server.client();
            let command = |line: &str| json!({ "command": format!("echo {line} >> log") });
            upstream.round(calls(&[("a", "Bash", command("a")), ("b", "Bash", command("b"))]));
            upstream.round(says("Done."));

            let mut stream = client.stream(&with(ask_streamed("Do it."), events())).await;
            let mut asked = Vec::new();
            for _ in 0..2 {
                asked.push(stream.until_progress("approval").await);
            }
            for (place, ask) in asked.iter().enumerate() {
                let effect = ask["effect"].as_str().expect("Markdown");
                assert!(effect.contains(["echo a", "echo b"][place]), "in the model's order");
            }
            let [one, other] = [&asked[first], &asked[1 - first]];
            let choice = |place: usize| json!({ "decision": choices[place] });
            assert_eq!(decide(&client, one, &choice(first)).await.status(), 200);
            // The first call's turn has come, the second one's comes behind it.
            if first == 0 {
                assert_eq!(stream.until_progress("tool_end").await["id"], "a");
            }
            let still = open(&client).await;
            assert!(still.len() == 1 && still[0]["id"] == other["id"], "{still:?}");
            let ran = if first == 0 && choices[0] == "allow" { "a\n" } else { "" };
            let log = || std::fs::read_to_string(server.workspace().join("log"));
            assert_eq!(log().unwrap_or_default(), ran, "{first} {choices:?}");
            assert_eq!(upstream.requests().len(), 1, "the round is not over");
            let again = decide(&client, one, &json!({ "decision": "allow" })).await;
            assert_eq!(again.refusal(), (409, "approval_closed".to_owned()));
            assert_eq!(decide(&client, other, &choice(1 - first)).await.status(), 200);

            assert_eq!(stream.finish().await.text(), "Done.");
            let ran =
                |place: usize| if choices[place] == "allow" { ["a\n", "b\n"][place] } else { "" };
            assert_eq!(log().unwrap_or_default(), [ran(0), ran(1)].concat(), "{first} {choices:?}");
            let answers = tool_answers(&upstream.request(1).await);
            let declined = |answer: &String| answer.starts_with("Error: the user declined");
            let expected = choices.map(|choice| choice == "deny");
            assert_eq!(answers.iter().map(declined).collect::<Vec<_>>(), expected, "{answers:?}");
        }
    }
}

#[tokio::test]
async fn when_the_wait_is_over_the_turn_suspends_and_the_reply_goes_on() {
    let upstream = Upstream::start();
    let server = builder(&upstream).config("approval.wait", r#""20ms""#).start().await;
    let mut talk = Talk::new(server.client());
    runs(&upstream, "a");
    let question = talk.say("Do it.").await;
    assert_eq!(codes(&question).len(), 1, "{question}");
    upstream.round(says("Done."));

    assert_eq!(talk.say("1").await, "Done.");

    assert_eq!(times_run(&server, "a"), 1);
}

#[tokio::test]
async fn a_changed_input_is_what_runs() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let mut talk = Talk::new(client.clone());
    runs(&upstream, "a");
    talk.say("Do it.").await;
    let approval = open(&client).await.remove(0);
    // Nobody was shown the rules of another input.
    let rule = json!({ "decision": "allow", "scope": "rule", "updated_input": marks("b") });
    let refused = decide(&client, &approval, &rule).await;
    assert_eq!(refused.refusal(), (400, "invalid_value".to_owned()));
    for broken in [
        &b"{\"decision\":\"allow\",\"decision\":\"deny\"}"[..],
        b"{\"decision\":\"allow\"} {}",
        b"{\"decision\":\"\\ud800\"}",
        b"",
    ] {
        let path = format!("/toolhand/v1/approvals/{}", approval["id"].as_str().expect("an id"));
        let refused = client.send("POST", &path, Some(broken)).await;
        assert_eq!(refused.refusal(), (400, "invalid_json".to_owned()));
    }
    let changed = json!({ "decision": "allow", "updated_input": marks("b") });
    assert_eq!(decide(&client, &approval, &changed).await.status(), 200);
    upstream.round(says("Done."));

    assert_eq!(talk.say("Go on.").await, "Done.");

    assert_eq!((times_run(&server, "a"), times_run(&server, "b")), (0, 1));
}

#[tokio::test]
async fn a_changed_input_that_the_tool_could_not_read_is_refused_and_decides_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let mut talk = Talk::new(client.clone());
    runs(&upstream, "a");
    talk.say("Do it.").await;
    let approval = open(&client).await.remove(0);

    for broken in [json!({}), json!({ "command": ["ls"] }), json!({ "cmd": "ls" }), json!("ls")] {
        let changed = json!({ "decision": "allow", "updated_input": broken });
        let refused = decide(&client, &approval, &changed).await;
        assert_eq!(refused.refusal(), (400, "invalid_value".to_owned()), "{broken}");
        assert_eq!(refused.json()["error"]["param"], "updated_input", "{broken}");
    }

    assert_eq!(open(&client).await.len(), 1, "it can still be decided");
    let changed = json!({ "decision": "allow", "updated_input": marks("b") });
    assert_eq!(decide(&client, &approval, &changed).await.status(), 200);
    upstream.round(says("Done."));
    assert_eq!(talk.say("Go on.").await, "Done.");
    assert_eq!((times_run(&server, "a"), times_run(&server, "b")), (0, 1));
}

#[tokio::test]
async fn x5_a_changed_input_goes_nowhere_that_is_denied() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let keys = server.state_dir().join("keys.toml");
    let outside = server.state_dir().with_file_name("outside.txt");
    for path in [&keys, &outside] {
        let mut talk = Talk::new(client.clone());
        upstream.round(calls(&[("w", "Write", write("new.txt"))]));
        talk.say(&format!("Write, and not to {}.", path.display())).await;
        let approval = open(&client).await.remove(0);
        let input = write(path.to_str().expect("UTF-8"));
        let changed = json!({ "decision": "allow", "scope": "session", "updated_input": input });
        assert_eq!(decide(&client, &approval, &changed).await.status(), 200);
        upstream.round(says("Then not."));

        assert_eq!(talk.say("Go on.").await, "Then not.");

        let answers = tool_answers(upstream.requests().last().expect("a request"));
        assert!(answers[0].starts_with("Error: not permitted: "), "{answers:?}");
        assert!(!path.exists() && !server.workspace().join("new.txt").exists());
    }
}

/// The operator has denied the tool when the call is to run.
#[tokio::test]
async fn x5_a_rule_that_denies_holds_against_a_changed_input() {
    let upstream = Upstream::start();
    let mut first = server(&upstream).await;
    let mut talk = Talk::new(first.client());
    runs(&upstream, "a");
    talk.say("Do it.").await;
    let approval = open(&first.client()).await.remove(0);
    let changed = json!({ "decision": "allow", "updated_input": marks("b") });
    assert_eq!(decide(&first.client(), &approval, &changed).await.status(), 200);
    first.stop();
    let denying = after(&upstream, &first).argument("--sandbox=off");
    let server = denying.config("permissions.deny", r#"["Bash"]"#).start().await;
    talk.client = server.client();
    upstream.round(says("Then not."));

    assert_eq!(talk.say("Go on.").await, "Then not.");

    assert_eq!((times_run(&first, "a"), times_run(&first, "b")), (0, 0));
    assert!(tool_answers(&upstream.request(1).await)[0].starts_with("Error: "));
}

#[tokio::test]
async fn what_is_allowed_for_the_session_is_what_the_changed_input_made() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let mut talk = Talk::new(client.clone()).with(json!({ "toolhand": { "session": "mine" } }));
    runs(&upstream, "a");
    talk.say("Do it.").await;
    let approval = open(&client).await.remove(0);
    let changed = json!({ "decision": "allow", "scope": "session", "updated_input": marks("b") });
    assert_eq!(decide(&client, &approval, &changed).await.status(), 200);
    // What was made runs again unasked, and what was asked first is asked again.
    runs(&upstream, "b");
    runs(&upstream, "a");

    let question = talk.say("Go on.").await;

    assert!(question.contains(">> a") && !question.contains(">> b"), "{question}");
    assert_eq!((times_run(&server, "a"), times_run(&server, "b")), (0, 2));
}

#[tokio::test]
async fn x5_a_changed_edit_of_a_file_that_changed_meanwhile_is_asked_about_anew() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let mut talk = Talk::new(client.clone());
    let edit =
        |new: &str| json!({ "file_path": "notes.txt", "old_string": "needle", "new_string": new });
    upstream.round(calls(&[("r", "Read", json!({ "file_path": "notes.txt" }))]));
    upstream.round(calls(&[("e", "Edit", edit("pin"))]));
    talk.say("Edit.").await;
    let approval = open(&client).await.remove(0);
    let changed = json!({ "decision": "allow", "updated_input": edit("thread") });
    assert_eq!(decide(&client, &approval, &changed).await.status(), 200);
    std::fs::write(server.workspace().join("notes.txt"), "needle\nand hay\n").expect("our file");

    let again = talk.say("Go on.").await;

    assert!(again.contains("changed since you were asked"), "{again}");
    assert_eq!(server.file("notes.txt"), "needle\nand hay\n");
    assert_eq!(upstream.requests().len(), 2, "the person is asked, and no model");
}

#[tokio::test]
async fn x5_a_reply_and_a_decision_at_the_same_moment_count_once() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    for race in 0..RACES {
        let file = format!("race-{race}");
        upstream.forget_script();
        let mut talk = Talk::new(client.clone());
        runs(&upstream, &file);
        upstream.otherwise(says("I go on from here."));
        talk.say(&format!("Race {race}.")).await;
        let approval = open(&client).await.remove(0);
        let deny = json!({ "decision": "deny" });
        let (answer, decided) = tokio::join!(talk.say("1"), decide(&client, &approval, &deny));

        assert_eq!(answer, "I go on from here.");
        let expected = usize::from(decided.status() != 200);
        assert_eq!(times_run(&server, &file), expected, "{:?}", decided.head);
        assert!([200, 409].contains(&decided.status()));
    }
    upstream.forget_script();
}

/// Whoever is second finds the turn of the first.
#[tokio::test]
async fn x5_two_replies_at_the_same_moment_run_the_call_once() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    for race in 0..RACES {
        for is_decided in [false, true] {
            let file = format!("race-{race}-{is_decided}");
            upstream.forget_script();
            let mut talk = Talk::new(client.clone());
            runs(&upstream, &file);
            upstream.otherwise(says("I go on from here."));
            talk.say(&format!("Race {race} {is_decided}.")).await;
            if is_decided {
                let approval = open(&client).await.remove(0);
                assert_eq!(decide(&client, &approval, &allow()).await.status(), 200);
            }
            let (mut one, mut other, mut third) = (talk.clone(), talk.clone(), talk);

            let answers = tokio::join!(one.say("1"), other.say("yes"), third.say("allow"));

            assert_eq!(answers.0, "I go on from here.", "{answers:?}");
            assert_eq!(times_run(&server, &file), 1, "{answers:?}");
        }
    }
    upstream.forget_script();
}

#[tokio::test]
async fn a_decision_while_the_resumed_turn_runs_is_too_late() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let mut talk = Talk::new(client.clone());
    runs(&upstream, "a");
    talk.say("Do it.").await;
    let approval = open(&client).await.remove(0);
    upstream.round([vec![text("So"), gate("held")], says(" far.")].concat());
    let streamed = |mut talk: Talk, reply: &str| {
        talk.messages.push(user(reply));
        with(talk.body(), json!({ "stream": true }))
    };
    let mut resumed = client.stream(&streamed(talk.clone(), "1")).await;
    assert_eq!(resumed.until_text().await, "So");

    let late = decide(&client, &approval, &json!({ "decision": "deny" })).await;
    assert_eq!(late.refusal(), (409, "approval_closed".to_owned()));
    // Another reply looks on at the turn that runs.
    let mut other = client.stream(&streamed(talk, "3")).await;
    assert_eq!(other.until_text().await, "So");
    upstream.open("held");

    assert_eq!(resumed.finish().await.text(), "So far.");
    assert_eq!(other.finish().await.text(), "So far.");
    assert_eq!(times_run(&server, "a"), 1);
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn who_cancels_a_suspended_turn_or_deletes_its_session_closes_its_approvals() {
    for deletes in [false, true] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let client = server.client();
        let mut talk = Talk::new(client.clone());
        runs(&upstream, "a");
        talk.say("Do it.").await;
        let approval = open(&client).await.remove(0);
        let id = |name: &str| approval[name].as_str().expect("an id").to_owned();

        let expected = if deletes {
            let path = format!("/toolhand/v1/sessions/{}", id("session"));
            assert_eq!(client.send("DELETE", &path, None).await.status(), 200);
            (404, "not_found".to_owned())
        } else {
            let path = format!("/toolhand/v1/turns/{}/cancel", id("turn"));
            for is_first in [true, false] {
                let cancelled = client.send("POST", &path, None).await;
                assert_eq!(cancelled.status(), 200);
                assert_eq!(cancelled.json()["cancelled"], is_first);
            }
            (409, "approval_closed".to_owned())
        };

        assert!(open(&client).await.is_empty());
        assert_eq!(decide(&client, &approval, &allow()).await.refusal(), expected);
        upstream.otherwise(says("Then not."));
        assert_eq!(talk.say("1").await, "Then not.");
        assert_eq!(times_run(&server, "a"), 0);
        upstream.forget_script();
    }
}

#[tokio::test]
async fn where_only_rest_decides_a_reply_is_a_remark() {
    let upstream = Upstream::start();
    let server = builder(&upstream).config("approval.channel", r#""rest""#).start().await;
    let client = server.client();
    let mut talk = Talk::new(client.clone());
    runs(&upstream, "a");
    let question = talk.say("Do it.").await;
    let approval = open(&client).await.remove(0);
    assert!(question.contains(approval["id"].as_str().expect("an id")), "{question}");
    upstream.round(says("Then not."));
    talk.say("1").await;
    assert_eq!(times_run(&server, "a"), 0);
    assert!(tool_answers(&upstream.request(1).await)[0].starts_with("Error: "));

    runs(&upstream, "b");
    talk.say("And b?").await;
    let approval = open(&client).await.remove(0);
    decide(&client, &approval, &allow()).await;
    upstream.round(says("Done."));
    talk.say("Go on.").await;
    assert_eq!(times_run(&server, "b"), 1);
}

#[tokio::test]
async fn a_turn_of_another_mode_asks_nobody() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    runs(&upstream, "a");
    upstream.round(says("I may not."));
    let mode = json!({ "toolhand": { "mode": "dontAsk" } });
    let body = with(conversation(&[user("Do it.")]), mode);

    assert_eq!(server.client().chat(&body).await.text(), "I may not.");

    let answers = tool_answers(&upstream.request(1).await);
    assert!(answers[0].starts_with("Error: not permitted: "), "{answers:?}");
    assert_eq!(times_run(&server, "a"), 0);
}
