//! What counts as a person's consent, and in which session.

use serde_json::{Value, json};

use super::asking::{Talk, allow, codes, decide, marks, open, server, times_run, tool_answers};
use super::mixed::weather;
use super::{after, assistant, conversation, user};
use crate::support::chunks::{calls, end, says, text};
use crate::support::client::with;
use crate::support::upstream::Upstream;

const OFFER: &str = "I can do it in two ways. Which one would you like: 1 or 2?";

fn runs(upstream: &Upstream, file: &str) {
    upstream.round(calls(&[("c1", "Bash", marks(file))]));
}

/// Asks about two commands. Returns the conversation and the two codes.
async fn two(upstream: &Upstream, server: &crate::support::server::Server) -> (Talk, Vec<String>) {
    upstream.round(calls(&[("c1", "Bash", marks("a")), ("c2", "Bash", marks("b"))]));
    let mut talk = Talk::new(server.client());
    let codes = codes(&talk.say("Both.").await);
    assert_eq!(codes.len(), 2);
    (talk, codes)
}

/// A client that stopped before our question keeps the model's own words.
#[tokio::test]
async fn x5_a_reply_behind_a_question_that_is_not_shown_whole_approves_nothing() {
    for cut in ["", "\n\n---\n\n**Bash needs your"] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let arguments = json!({ "command": "echo ran >> a" });
        let call = crate::support::chunks::call(0, "c1", "Bash", &arguments);
        upstream.round([vec![text(OFFER)], call, end("tool_calls")].concat());
        let mut talk = Talk::new(server.client());
        let question = talk.say("Do it.").await;
        assert!(question.starts_with(OFFER) && question.contains("**Bash needs your approval**"));

        let mut list = vec![user("Do it."), assistant(&format!("{OFFER}{cut}")), user("1")];
        let again = server.client().chat(&conversation(&list)).await.text();

        assert_eq!((codes(&again), times_run(&server, "a")), (codes(&question), 0));
        // Asked again, and shown whole, it can still be answered by its code.
        upstream.round(says("Done."));
        let code = codes(&again).remove(0);
        list.extend([assistant(&again), user(&format!("{code} 1"))]);
        assert_eq!(server.client().chat(&conversation(&list)).await.text(), "Done.");
        assert_eq!(times_run(&server, "a"), 1);
    }
}

#[tokio::test]
async fn x5_a_choice_beside_other_content_is_none() {
    let parts = [
        json!({ "type": "input_text", "text": "do NOT do it" }),
        json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } }),
        json!({ "type": "file", "file": { "file_id": "f" } }),
    ];
    for part in parts {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let mut talk = Talk::new(server.client());
        runs(&upstream, "a");
        talk.say("Do it.").await;
        upstream.round(says("Then not."));
        let content = json!([part, { "type": "text", "text": "1" }]);
        talk.messages.push(json!({ "role": "user", "content": content }));

        assert_eq!(talk.send().await, "Then not.");

        assert_eq!(times_run(&server, "a"), 0);
        let told = tool_answers(&upstream.request(1).await);
        let kind = part["type"].as_str().expect("a type");
        assert!(told[0].contains(&format!("[{kind}]")) && told[0].contains('1'), "{told:?}");
    }
}

#[tokio::test]
async fn parts_of_text_alone_are_a_choice() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client());
    runs(&upstream, "a");
    talk.say("Do it.").await;
    upstream.round(says("Done."));
    let content = json!([{ "type": "text", "text": " 1\n" }]);
    talk.messages.push(json!({ "role": "user", "content": content }));

    assert_eq!(talk.send().await, "Done.");

    assert_eq!(times_run(&server, "a"), 1);
}

#[tokio::test]
async fn lines_may_name_what_was_decided_before() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let (mut talk, codes) = two(&upstream, &server).await;
    let approval = open(&talk.client).await.into_iter().find(|one| one["code"] == codes[0]);
    let decided = decide(&talk.client, &approval.expect("an approval"), &allow()).await;
    assert_eq!(decided.status(), 200);
    upstream.round(says("Done."));

    // What the line says of the decided one changes nothing.
    assert_eq!(talk.say(&format!("{} 3\n{} 1", codes[0], codes[1])).await, "Done.");

    assert_eq!((times_run(&server, "a"), times_run(&server, "b")), (1, 1));
}

#[tokio::test]
async fn cancelling_a_turn_that_asked_again_denies_what_it_asked() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let (mut talk, codes) = two(&upstream, &server).await;
    talk.say(&format!("{} 1", codes[0])).await;
    let turn = talk.last["toolhand"]["turn"].as_str().expect("a turn").to_owned();

    let cancelled =
        talk.client.post(&format!("/toolhand/v1/turns/{turn}/cancel"), &json!({})).await;

    assert_eq!(cancelled.json()["cancelled"], true);
    assert_eq!(open(&talk.client).await, [] as [Value; 0]);
    upstream.round(says("Then not."));
    talk.say("1").await;
    assert_eq!(times_run(&server, "b"), 0);
}

#[tokio::test]
async fn what_a_killed_server_asked_cannot_be_decided() {
    let upstream = Upstream::start();
    let builder = super::asking::builder(&upstream).config("approval.wait", r#""600s""#);
    let mut first = builder.start().await;
    runs(&upstream, "a");
    let body = with(conversation(&[user("Do it.")]), json!({ "stream": true }));
    let body = with(body, json!({ "toolhand": { "progress": "events" } }));
    let mut stream = first.client().stream(&body).await;
    stream.until_progress("approval").await;
    let approval = open(&first.client()).await.remove(0);
    let span = |name: &str| approval[name].as_i64().expect("seconds");
    assert_eq!(span("expires") - span("created"), 600, "while the stream waits");
    first.stop();
    let server = after(&upstream, &first).argument("--sandbox=off").start().await;

    assert_eq!(open(&server.client()).await, [] as [Value; 0]);
    let refused = decide(&server.client(), &approval, &allow()).await;
    assert_eq!(refused.refusal(), (409, "approval_closed".to_owned()));
}

#[tokio::test]
async fn a_turn_that_suspends_after_a_wait_can_be_answered_for_a_day() {
    let upstream = Upstream::start();
    let builder = super::asking::builder(&upstream).config("approval.wait", r#""20ms""#);
    let server = builder.start().await;
    let mut talk = Talk::new(server.client());
    runs(&upstream, "a");
    talk.say("Do it.").await;

    let approval = open(&talk.client).await.remove(0);

    let span = |name: &str| approval[name].as_i64().expect("seconds");
    assert!(span("expires") - span("created") >= 24 * 60 * 60, "{approval}");
}

#[tokio::test]
async fn a_decision_over_rest_is_taken_up_without_the_question_in_the_list() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-toolhand-session", "mine");
    runs(&upstream, "a");
    client.chat(&conversation(&[user("Do it.")])).await;
    let approval = open(&client).await.remove(0);
    assert_eq!(decide(&client, &approval, &allow()).await.status(), 200);
    upstream.round(says("Done."));

    let answer = client.chat(&conversation(&[user("Go on.")])).await;

    assert_eq!((answer.text().as_str(), times_run(&server, "a")), ("Done.", 1));
}

#[tokio::test]
async fn x5_a_question_is_answered_in_its_own_session_alone() {
    for header in ["x-toolhand-session", "x-openwebui-chat-id"] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        runs(&upstream, "a");
        let mine = server.client().header(header, "mine");
        let question = mine.chat(&conversation(&[user("Do it.")])).await.text();
        let reply = conversation(&[user("Do it."), assistant(&question), user("1")]);
        upstream.round(says("Of what?"));

        let other = server.client().header(header, "other").chat(&reply).await;

        assert_eq!((other.text().as_str(), times_run(&server, "a")), ("Of what?", 0));
        upstream.round(says("Done."));
        assert_eq!(mine.chat(&reply).await.text(), "Done.");
        assert_eq!(times_run(&server, "a"), 1);
    }
}

/// A round with a command that asks and a call of the client's: the question comes when the
/// client's result is back.
#[tokio::test]
async fn x5_results_that_are_sent_again_run_nothing_twice() {
    for replies in ["1", "2", "3"] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let client = server.client();
        let weather_call = ("w1", "weather", json!({ "city": "Oslo" }));
        upstream.round(calls(&[("b1", "Bash", marks("a")), weather_call]));
        let body = |list: &[Value]| with(conversation(list), weather());
        let mut list = vec![user("Both.")];
        let first = client.chat(&body(&list)).await.json();
        let result = json!({ "role": "tool", "tool_call_id": "w1", "content": "sun" });
        list.extend([first["choices"][0]["message"].clone(), result]);

        let question = client.chat(&body(&list)).await.text();
        let again = client.chat(&with(body(&list), json!({ "temperature": 0.5 }))).await.text();

        assert_eq!(again, question, "asked once");
        assert_eq!(open(&client).await.len(), 1);
        upstream.otherwise(says("Done."));
        let reply = [list.clone(), vec![assistant(&question), user(replies)]].concat();
        assert_eq!(client.chat(&body(&reply)).await.text(), "Done.");
        let runs = usize::from(replies != "3");
        assert_eq!(times_run(&server, "a"), runs);
        // What became of the call is known, and the model is asked again.
        let anew = client.chat(&with(body(&list), json!({ "temperature": 0.7 }))).await;
        assert_eq!(anew.text(), "Done.");
        assert_eq!(times_run(&server, "a"), runs);
        assert_eq!(open(&client).await, [] as [Value; 0]);
        upstream.forget_script();
    }
}

#[tokio::test]
async fn a_question_whose_session_was_deleted_is_denied_and_the_conversation_goes_on() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-openwebui-chat-id", "chat");
    upstream.round_of("scripted", calls(&[("c1", "Bash", marks("a")), ("c2", "Bash", marks("b"))]));
    let mut list = vec![user("Both.")];
    let question = client.chat(&conversation(&list)).await.text();
    list.extend([assistant(&question), user(&format!("{} 1", codes(&question)[0]))]);
    let of_other = |list: &[Value]| with(conversation(list), json!({ "model": "other" }));
    let again = client.chat(&of_other(&list)).await.text();
    let sessions = client.get("/toolhand/v1/sessions").await.json();
    let mut first = sessions["data"].as_array().expect("sessions").iter();
    let first = first.find(|one| one["model"] == "scripted").expect("the first session");
    let path = format!("/toolhand/v1/sessions/{}", first["id"].as_str().expect("an id"));
    assert_eq!(client.send("DELETE", &path, None).await.status(), 200);
    upstream.round_of("other", says("Then not."));
    list.extend([assistant(&again), user("1")]);

    let answer = client.chat(&of_other(&list)).await;

    assert_eq!(answer.text(), "Then not.", "{answer:?}");
    assert_eq!((times_run(&server, "a"), times_run(&server, "b")), (0, 0));
}

/// Also not while that chat is busy, so that the reply forks from it.
#[tokio::test]
async fn x5_a_fork_answers_nothing_of_another_chat() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let chat = |id: &str| server.client().header("x-openwebui-chat-id", id);
    runs(&upstream, "a");
    let question = chat("one").chat(&conversation(&[user("Do it.")])).await.text();
    upstream
        .round([vec![text("Long."), crate::support::chunks::gate("end")], end("stop")].concat());
    let busy = with(conversation(&[user("Tell.")]), json!({ "stream": true }));
    let mut stream = chat("two").stream(&busy).await;
    stream.until_text().await;
    let reply = conversation(&[user("Do it."), assistant(&question), user("1")]);
    upstream.round(says("Of what?"));

    let other = chat("two").chat(&reply).await;

    assert_eq!((other.text().as_str(), times_run(&server, "a")), ("Of what?", 0));
    upstream.open("end");
    stream.finish().await;
    upstream.round(says("Done."));
    assert_eq!(chat("one").chat(&reply).await.text(), "Done.");
    // A copy of the chat gets no answer of the original.
    upstream.round(says("As it was."));
    assert_eq!(chat("three").chat(&reply).await.text(), "As it was.");
    assert_eq!(times_run(&server, "a"), 1);
}

/// The person went on with two messages, so nothing comes back to the question.
#[tokio::test]
async fn a_question_that_the_conversation_has_passed_by_cannot_be_decided() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client());
    runs(&upstream, "a");
    talk.say("Do it.").await;
    let approval = open(&talk.client).await.remove(0);
    upstream.round(says("Something else, then."));
    talk.messages.push(user("Wait."));
    assert_eq!(talk.say("Do something else.").await, "Something else, then.");

    assert_eq!(open(&talk.client).await, [] as [Value; 0]);
    let refused = decide(&talk.client, &approval, &allow()).await;
    assert_eq!(refused.refusal(), (409, "approval_closed".to_owned()));
}
