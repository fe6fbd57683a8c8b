//! Tests the history that clients send back: the server repairs it where it can, so that
//! no chat becomes unusable, and sends a form that every provider accepts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::chunks::says;
use crate::support::client::{ask, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

use super::door;

fn call(id: &Value) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": "weather", "arguments": "{}" } })
}

fn asked(ids: &[Value]) -> Value {
    json!({ "role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>() })
}

fn answer(id: &str, content: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": content })
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// The messages that upstream gets, without our system prompt.
async fn sent(upstream: &Upstream, server: &Server, messages: &[Value]) -> Vec<Value> {
    upstream.round(says("Yes."));
    let answer = server.client().chat(&with(ask(""), json!({ "messages": messages }))).await;
    assert_eq!(answer.status(), 200, "{messages:?}: {}", String::from_utf8_lossy(&answer.body));
    let sent = upstream.requests().pop().expect("a request").json();
    let sent = sent["messages"].as_array().expect("a list").clone();
    sent.into_iter().filter(|message| message["role"] != "system").collect()
}

/// `(id, answer)` of each call in the first assistant message.
fn pairs(sent: &[Value]) -> Vec<(String, String)> {
    let at = sent.iter().position(|message| message["role"] == "assistant").expect("one");
    let calls = sent[at]["tool_calls"].as_array().expect("calls");
    let answers = &sent[at + 1..=at + calls.len()];
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    for (call, answer) in calls.iter().zip(answers) {
        assert_eq!(call["id"], answer["tool_call_id"], "right behind it, in order");
    }
    calls
        .iter()
        .zip(answers)
        .map(|(call, answer)| (text(&call["id"]), text(&answer["content"])))
        .collect()
}

#[tokio::test]
async fn v28_an_assistant_that_said_nothing_is_left_out() {
    let (upstream, server) = door().await;
    for nothing in [
        json!({ "role": "assistant", "content": null }),
        json!({ "role": "assistant" }),
        json!({ "role": "assistant", "content": null, "tool_calls": [] }),
        json!({ "role": "assistant", "content": null, "tool_calls": null, "refusal": null }),
        json!({ "role": "assistant", "content": null, "reasoning_content": "→ Read a.txt\n" }),
    ] {
        let list = [user("a"), nothing.clone(), user("b")];
        assert_eq!(sent(&upstream, &server, &list).await, [user("a"), user("b")], "{nothing}");
    }
    let thought = json!({ "role": "assistant", "content": null, "reasoning_content": "Hm." });
    let told = sent(&upstream, &server, &[user("a"), thought, user("b")]).await;
    assert_eq!(
        told[1],
        json!({ "role": "assistant", "content": "", "reasoning_content": "Hm." }),
        "null is an empty text where there is something else"
    );
}

#[tokio::test]
async fn v28_of_several_answers_the_first_counts() {
    let (upstream, server) = door().await;
    let list = [
        asked(&["c1".into(), "c2".into()]),
        answer("c1", "wet"),
        answer("c1", "dry"),
        answer("c2", "hot"),
        user("b"),
        answer("c2", "cold"),
    ];
    let told = sent(&upstream, &server, &list).await;
    let wanted = [("c1", "wet"), ("c2", "hot")].map(|(id, text)| (id.to_owned(), text.to_owned()));
    assert_eq!(pairs(&told), wanted);
    assert_eq!(told.len(), 4, "{told:?}");
}

#[tokio::test]
async fn v28_calls_without_an_id_of_their_own_get_one() {
    let (upstream, server) = door().await;
    for ids in [
        vec![json!(""), json!("")],
        vec![json!("x"), json!("x")],
        vec![json!(null), json!("")],
        vec![json!("x"), json!(""), json!("x"), json!("y"), json!("y")],
    ] {
        let mut list = vec![user("a"), asked(&ids)];
        for (at, id) in ids.iter().enumerate() {
            list.push(answer(id.as_str().unwrap_or_default(), &format!("answer {at}")));
        }
        list.push(user("b"));
        let told = sent(&upstream, &server, &list).await;
        let pairs = pairs(&told);
        let unique: BTreeSet<_> = pairs.iter().map(|(id, _)| id).collect();
        assert_eq!(unique.len(), ids.len(), "{pairs:?}");
        for ((id, text), (at, given)) in pairs.iter().zip(ids.iter().enumerate()) {
            // Equal ids are answered in order.
            let earlier = |other: &&Value| {
                other.as_str().unwrap_or_default() == given.as_str().unwrap_or_default()
            };
            let nth = ids[..at].iter().filter(earlier).count();
            let meant = (0..ids.len()).filter(|other| earlier(&&ids[*other])).nth(nth);
            assert_eq!(Some(text), meant.map(|at| format!("answer {at}")).as_ref());
            let is_ours = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            assert!(is_ours || id == given.as_str().unwrap_or_default(), "{id}");
        }
        // The same list gives the same bytes, and a longer list begins with them.
        assert_eq!(sent(&upstream, &server, &list).await, told);
        list.extend([asked(&[json!("")]), user("c")]);
        assert_eq!(sent(&upstream, &server, &list).await[..told.len()], told);
    }
}

#[tokio::test]
async fn v28_an_answer_without_an_id_belongs_to_the_call_without_one() {
    let (upstream, server) = door().await;
    let nameless = json!({ "role": "tool", "content": "wet" });
    let told = sent(&upstream, &server, &[asked(&[json!(null)]), nameless.clone()]).await;
    assert_eq!(pairs(&told)[0].1, "wet");
    let silent = json!({ "role": "tool", "tool_call_id": "c", "content": null });
    let told = sent(&upstream, &server, &[asked(&["c".into()]), silent]).await;
    assert_eq!(pairs(&told)[0].1, "", "null is an empty text");

    let refused =
        server.client().chat(&with(ask(""), json!({ "messages": [user("a"), nameless] }))).await;
    assert_eq!(refused.refusal(), (400, "missing_field".to_owned()));
}

#[tokio::test]
async fn v18_v28_what_cannot_be_repaired_is_still_refused() {
    let (_upstream, server) = door().await;
    let twice = asked(&["c".into(), "c".into()]);
    for (messages, code) in [
        (json!([user("a"), answer("lost", "")]), "unknown_tool_call"),
        (json!([user("a"), answer("", "")]), "unknown_tool_call"),
        (json!([answer("c", ""), twice]), "unknown_tool_call"),
        (json!([twice, answer("c", "")]), "missing_tool_results"),
        (json!([twice, answer("c", ""), { "role": "assistant" }]), "missing_tool_results"),
        (json!([{ "role": "assistant", "content": null }]), "invalid_value"),
    ] {
        let refused = server.client().chat(&with(ask(""), json!({ "messages": messages }))).await;
        assert_eq!(refused.refusal(), (400, code.to_owned()), "{messages}");
    }
}
