//! The tool Config: what the model may read of the configuration, and what a person lets it set.

use serde_json::{Value, json};

use super::after;
use super::asking::{Talk, server, tool_answers};
use crate::support::chunks::{calls, says};
use crate::support::client::with;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

fn makes(upstream: &Upstream, input: Value) {
    upstream.round(calls(&[("c", "Config", input)]));
}

/// The answer that the model was told last.
fn last_answer(upstream: &Upstream) -> String {
    let request = upstream.requests().pop().expect("a request");
    tool_answers(&request).pop().expect("an answer")
}

#[tokio::test]
async fn the_listed_settings_are_read_without_asking_and_no_other_is_told_of() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client());
    let mut read = async |setting: &str| {
        makes(&upstream, json!({ "setting": setting }));
        upstream.round(says("Read."));
        assert_eq!(talk.say("What is it?").await, "Read.");
        last_answer(&upstream)
    };
    assert_eq!(read("model").await, "model = scripted");
    assert_eq!(read("sandbox").await, "sandbox = off");
    assert_eq!(read("permissions.mode").await, "permissions.mode = default");
    assert_eq!(read("turns.max_rounds").await, "turns.max_rounds = 100");
    assert_eq!(read("progress").await, "progress = reasoning");
    assert!(read("subagents.models").await.contains("sonnet"));
    let secret = read("upstream.api_key_file").await;
    assert!(secret.starts_with("Error: this setting cannot be read"), "{secret}");
    assert_eq!(read("no.such.setting").await, secret);
}

#[tokio::test]
async fn a_change_is_asked_about_in_every_mode_and_holds_for_the_session() {
    let upstream = Upstream::start();
    let mut first = Server::builder(&upstream).free().start().await;
    let mut talk = Talk::new(first.client().header("x-toolhand-session", "one"));
    makes(&upstream, json!({ "setting": "progress", "value": "events" }));
    let question = talk.say("Show me events.").await;
    assert!(question.contains("Sets `progress` to `events` for this session"), "{question}");
    assert!(question.contains("It is `reasoning` now."), "{question}");
    upstream.round(says("Done."));
    assert_eq!(talk.say("1").await, "Done.");
    assert_eq!(
        last_answer(&upstream),
        "progress is events for this session, from the next request on; it was reasoning"
    );
    first.stop();
    let second = after(&upstream, &first).free().start().await;

    for (named, expected) in [(json!({}), 1), (json!({ "progress": "none" }), 0)] {
        upstream.round(calls(&[("g", "Glob", json!({ "pattern": "*" }))]));
        upstream.round(says("Listed."));
        let mut list = talk.messages.clone();
        list.push(super::user(&format!("List, {expected}.")));
        let body = with(super::conversation(&list), json!({ "stream": true, "toolhand": named }));
        let client = second.client().header("x-toolhand-session", "one");
        let events = client.streamed(&body).await.progress("tool_end").len();
        assert_eq!(events, expected, "what the request says counts more");
    }
}

#[tokio::test]
async fn a_change_that_is_refused_or_the_operators_changes_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client());
    for (setting, value, expected) in [
        ("permissions.mode", "bypassPermissions", "the operator sets permissions.mode"),
        ("turns.max_rounds", "1", "the operator sets turns.max_rounds"),
        ("progress", "cards", "must be one of reasoning, events, none"),
        ("subagents.model", "gpt-5", "must be one of inherit"),
        ("upstream.url", "http://evil.example", "this setting cannot be read"),
    ] {
        makes(&upstream, json!({ "setting": setting, "value": value }));
        upstream.round(says("I see."));
        assert_eq!(talk.say("Set it.").await, "I see.", "{setting} asks nobody");
        let answer = last_answer(&upstream);
        assert!(answer.starts_with("Error: ") && answer.contains(expected), "{answer}");
    }
    makes(&upstream, json!({ "setting": "progress", "value": "none" }));
    talk.say("Be quiet.").await;
    upstream.round(says("Then not."));
    talk.say("no").await;
    makes(&upstream, json!({ "setting": "progress" }));
    upstream.round(says("Read."));
    talk.say("What is it?").await;
    assert_eq!(last_answer(&upstream), "progress = reasoning");
}

/// The model of the request goes upstream for the conversation, and the chosen one for agents.
#[tokio::test]
async fn agents_that_name_no_model_get_the_one_of_the_session() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).free().config("subagents.models.fast", r#""small""#).start();
    let server = server.await;
    let mut talk = Talk::new(server.client());
    makes(&upstream, json!({ "setting": "subagents.model", "value": "fast" }));
    talk.say("Be cheap.").await;
    upstream.round(says("Done."));
    talk.say("1").await;
    let look = json!({ "description": "Look", "prompt": "Look.", "subagent_type": "Explore" });
    upstream.round(calls(&[("t", "Task", look)]));
    upstream.round(says("I have looked."));
    upstream.round(says("It is there."));
    assert_eq!(talk.say("Look around.").await, "It is there.");
    let models: Vec<_> =
        upstream.requests().iter().map(|request| request.json()["model"].clone()).collect();
    assert_eq!(models[models.len() - 3..], ["scripted", "small", "scripted"]);
}
