//! Sessions over REST, with what really happened in them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::asking::{marks, open};
use super::frontends::{last_told, reads, reads_and_says, server};
use super::{assistant, conversation, user};
use crate::support::chunks::{calls, end, gate, says, text};
use crate::support::client::{Client, with};
use crate::support::upstream::Upstream;

const SESSIONS: &str = "/toolhand/v1/sessions";

fn named(name: &str) -> Value {
    json!({ "toolhand": { "session": name } })
}

/// An id as a part of a path.
fn encoded(name: &str) -> String {
    let bytes: Vec<String> = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    bytes.concat()
}

async fn list(client: &Client, query: &str) -> (Vec<String>, bool) {
    let page = client.get(&format!("{SESSIONS}?{query}")).await.json();
    assert_eq!(page["object"], "list", "{page}");
    let names = page["data"].as_array().expect("sessions").iter();
    let names = names.map(|one| one["name"].as_str().unwrap_or("-").to_owned()).collect();
    (names, page["has_more"].as_bool().expect("a flag"))
}

#[tokio::test]
async fn sessions_are_listed_newest_first_in_pages_that_lose_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    upstream.otherwise(says("Hi."));
    for number in 0..5 {
        let body = with(conversation(&[user("Hi")]), named(&format!("chat {number}")));
        client.chat(&body).await;
    }
    client.chat(&with(conversation(&[user("Again")]), named("chat 1"))).await;
    let expected = ["chat 1", "chat 4", "chat 3", "chat 2", "chat 0"];

    assert_eq!(list(&client, "").await, (expected.map(str::to_owned).to_vec(), false));
    let (mut seen, mut query) = (Vec::new(), "limit=2".to_owned());
    loop {
        let (page, has_more) = list(&client, &query).await;
        query = format!("limit=2&after={}", encoded(page.last().expect("a page")));
        seen.extend(page);
        if !has_more {
            break;
        }
    }
    assert_eq!(seen, expected);
    let all = client.get(SESSIONS).await.json();
    let one = &all["data"][0];
    let members: Vec<&str> =
        one.as_object().expect("an object").keys().map(String::as_str).collect();
    for member in ["id", "name", "model", "created", "updated", "turns"] {
        assert!(members.contains(&member), "{members:?}");
    }
    assert_eq!((&one["turns"], &one["model"]), (&json!(2), &json!("scripted")));
    assert!(one["updated"].as_i64() >= one["created"].as_i64());
    let after = format!("after={}", one["id"].as_str().expect("an id"));
    assert_eq!(list(&client, &after).await.0, expected[1..]);
}

#[tokio::test]
async fn x6_a_session_has_one_spelling_and_any_name_can_stand_in_a_path() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    upstream.otherwise(says("Hi."));
    let names = [
        "a/b", "a%2Fb", "..", "x?y#z", " lead", "100%", "a+b", "\"'<>", "note_1", "note:1",
        "NOTE_1",
    ];
    for name in names {
        let body = with(conversation(&[user(&format!("I am {name}"))]), named(name));
        assert_eq!(client.chat(&body).await.json()["toolhand"]["session"], name);
    }
    for name in names {
        let path = format!("{SESSIONS}/{}", encoded(name));
        let shown = client.get(&path).await.json();
        assert_eq!((&shown["name"], &shown["turns"]), (&json!(name), &json!(1)), "{shown}");
        let asked = shown["messages"][0]["content"].clone();
        assert_eq!(asked, format!("I am {name}"));
        let id = shown["id"].as_str().expect("an id");
        assert_eq!(client.get(&format!("{SESSIONS}/{id}")).await.json()["name"], name);
        let upper = client.get(&format!("{SESSIONS}/{}", id.to_uppercase())).await;
        assert_eq!(upper.refusal(), (404, "not_found".to_owned()));
    }
    for name in names {
        let path = format!("{SESSIONS}/{}", encoded(name));
        let gone = client.send("DELETE", &path, None).await;
        assert_eq!((gone.status(), &gone.json()["deleted"]), (200, &json!(true)));
        assert_eq!(client.get(&path).await.status(), 404);
        assert_eq!(client.send("DELETE", &path, None).await.status(), 404);
    }
    assert_eq!(list(&client, "").await, (Vec::new(), false));
}

/// An id without its prefix.
fn number(id: &str) -> u128 {
    u128::from_str_radix(&id[5..], 16).expect("32 hexadecimal digits")
}

/// Whoever has ids knows none beside them: the lower half of each is random.
#[tokio::test]
async fn x2_an_id_is_not_to_be_guessed_from_others() {
    const IDS: usize = 32;
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let names: Vec<String> = (0..IDS).map(|number| format!("c{number}")).collect();
    let commands: Vec<_> = names.iter().map(|name| (&**name, "Bash", marks("ran"))).collect();
    upstream.round(calls(&commands));
    client.chat(&conversation(&[user("Run them.")])).await;
    let asked = open(&client).await;
    let ids = asked.iter().map(|approval| approval["id"].as_str().expect("an id").to_owned());
    let approvals: Vec<String> = ids.collect();
    upstream.otherwise(says("Hi."));
    let (mut sessions, mut turns) = (Vec::new(), Vec::new());
    for _ in 0..IDS {
        let answer = client.chat(&conversation(&[user("Hi")])).await;
        let header = |name| answer.header(name).expect("an id").to_owned();
        sessions.push(header("x-toolhand-session"));
        turns.push(header("x-toolhand-turn"));
    }

    for (ids, method, before, behind) in [
        (&sessions, "GET", "sessions", ""),
        (&turns, "GET", "turns", "/stream"),
        (&approvals, "POST", "approvals", ""),
    ] {
        assert_eq!(ids.len(), IDS);
        let tails: BTreeSet<u128> = ids.iter().map(|id| number(id) & 0xffff_ffff).collect();
        assert_eq!(tails.len(), IDS, "{ids:?}");
        for digit in 0..8 {
            let values = tails.iter().map(|tail| tail >> (4 * digit) & 0xf);
            let values: BTreeSet<u128> = values.collect();
            assert!(values.len() > 3, "digit {digit} from behind is always the same: {ids:?}");
        }
        let known = ids.last().expect("ids");
        let beside = (1..=16).flat_map(|step| [number(known) + step, number(known) - step]);
        let flipped = (0..128).map(|bit| number(known) ^ (1 << bit));
        for guess in beside.chain(flipped) {
            let path = format!("/toolhand/v1/{before}/{}{guess:032x}{behind}", &known[..5]);
            let body = (method == "POST").then_some(&br#"{"decision":"allow"}"#[..]);
            let answer = client.send(method, &path, body).await;
            assert_eq!(answer.refusal(), (404, "not_found".to_owned()), "{path}");
        }
    }
    assert_eq!(open(&client).await.len(), IDS, "nothing was decided");
    upstream.forget_script();
}

#[tokio::test]
async fn deleting_a_session_stops_what_runs_in_it_and_forgets_it() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    upstream.round(reads());
    upstream.round(vec![text("I begin "), gate("never")]);
    let body = with(conversation(&[user("Read.")]), named("mine"));
    let mut stream = client.stream(&with(body, json!({ "stream": true }))).await;
    stream.until_text().await;
    let turn = stream.head.header("x-toolhand-turn").expect("a turn").to_owned();

    let gone = client.send("DELETE", &format!("{SESSIONS}/mine"), None).await;

    assert_eq!((gone.status(), &gone.json()["deleted"]), (200, &json!(true)));
    let told = client.get(&format!("/toolhand/v1/turns/{turn}/stream")).await;
    assert_eq!(told.refusal(), (404, "not_found".to_owned()));
    upstream.abandoned(1).await;
    assert_eq!(stream.finish().await.code(), "cancelled");
    assert_eq!(client.get(&format!("{SESSIONS}/mine")).await.status(), 404);
    assert_eq!(client.get("/toolhand/v1/turns").await.json()["data"], json!([]));
    // The name is free, and nothing of the old session is under it.
    upstream.round(says("Hello."));
    let list = [user("Read."), user("And?")];
    client.chat(&with(conversation(&list), named("mine"))).await;
    assert_eq!(last_told(&upstream), ["user: Read.", "user: And?"]);
}

#[tokio::test]
async fn an_export_is_what_happened_on_the_newest_branch() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let name = named("mine");
    reads_and_says(&upstream, "It says needle.");
    let asked = "Read\n\n  my notes.";
    client.chat(&with(conversation(&[user(asked)]), name.clone())).await;
    let picture = json!([
        { "type": "text", "text": "Like this?" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
    ]);
    upstream.round(calls(&[
        ("w1", "weather", json!({ "city": "Oslo" })),
        ("c2", "Read", json!({ "file_path": "notes.txt" })),
    ]));
    let mut talk = vec![
        user(asked),
        assistant("It says needle."),
        json!({ "role": "user", "content": picture }),
    ];
    let tools = super::mixed::weather();
    let mixed = client.chat(&with(with(conversation(&talk), name.clone()), tools.clone())).await;
    talk.push(mixed.json()["choices"][0]["message"].clone());
    talk.push(json!({ "role": "tool", "tool_call_id": "w1", "content": "snow" }));
    upstream.round(says("Snow and a needle."));
    client.chat(&with(with(conversation(&talk), name), tools)).await;

    let export = client.get(&format!("{SESSIONS}/mine")).await.json();
    let messages = export["messages"].as_array().expect("messages");
    let roles: Vec<_> = messages.iter().filter_map(|one| one["role"].as_str()).collect();
    assert_eq!(
        roles,
        [
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant"
        ],
        "{export:#}"
    );
    // What the model was told is what is exported.
    assert_eq!(messages[0]["content"], asked);
    assert_eq!(messages[4]["content"], picture);
    let sent = upstream.request(3).await.json();
    let sent: Vec<_> = sent["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .filter(|one| one["role"] != "system")
        .collect();
    for (told, sent) in messages.iter().zip(&sent) {
        assert_eq!(
            (&told["content"], &told["tool_call_id"]),
            (&sent["content"], &sent["tool_call_id"])
        );
    }
    assert_eq!(messages[8]["content"], "Snow and a needle.");
    assert_eq!((&export["turns"], &export["name"]), (&json!(3), &json!("mine")));
}

/// A fork shows the conversation from its beginning.
#[tokio::test]
async fn an_export_of_a_fork_begins_with_what_it_forked_from() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    reads_and_says(&upstream, "It says needle.");
    client.chat(&conversation(&[user("Read.")])).await;
    let on = |text: &str| conversation(&[user("Read."), assistant("It says needle."), user(text)]);
    upstream.round([vec![text("One"), gate("end")], end("stop")].concat());
    let mut stream = client.stream(&with(on("One?"), json!({ "stream": true }))).await;
    stream.until_text().await;
    upstream.round(says("Two."));
    let fork = client.chat(&on("Two?")).await;
    upstream.open("end");
    stream.finish().await;

    let id = fork.header("x-toolhand-session").expect("a session").to_owned();
    let export = client.get(&format!("{SESSIONS}/{id}")).await.json();
    let texts: Vec<_> = export["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .filter(|one| one["role"] != "tool" && one["content"].is_string())
        .map(|one| one["content"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(texts, ["Read.", "It says needle.", "Two?", "Two."], "{export:#}");
}

#[tokio::test]
async fn a_session_whose_first_turn_runs_can_be_seen_and_deleted() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let running = || [vec![text("One"), gate("never")], end("stop")].concat();
    for name in ["by name", "by id"] {
        upstream.round(running());
        let body = with(conversation(&[user("One?")]), named(name));
        let mut stream = client.stream(&with(body, json!({ "stream": true }))).await;
        stream.until_text().await;
        let turns = client.get("/toolhand/v1/turns").await.json();
        let id = turns["data"][0]["session"].as_str().expect("a session").to_owned();
        let path = match name {
            "by id" => format!("{SESSIONS}/{id}"),
            name => format!("{SESSIONS}/{}", encoded(name)),
        };
        let seen = client.get(&path).await;
        assert_eq!((seen.status(), &seen.json()["id"]), (200, &json!(id)));

        let deleted = client.send("DELETE", &path, None).await;

        assert_eq!(deleted.status(), 200, "{deleted:?}");
        assert_eq!(client.get(&path).await.status(), 404);
        let turns = client.get("/toolhand/v1/turns").await.json();
        assert_eq!(turns["data"], json!([]));
    }
}

#[tokio::test]
async fn deleting_a_session_stops_the_requests_that_waited_for_it() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let body = |text: &str| with(conversation(&[user(text)]), named("mine"));
    let running = || [vec![text("One"), gate("never")], end("stop")].concat();
    upstream.round(running());
    let mut stream = client.stream(&with(body("One?"), json!({ "stream": true }))).await;
    stream.until_text().await;
    upstream.otherwise(running());
    let path = format!("{SESSIONS}/mine");
    let two = body("Two?");
    let delete = async {
        let deleted = client.send("DELETE", &path, None).await;
        // Should the request come after all, it runs in a new session.
        upstream.open("never");
        deleted
    };
    let (_, deleted) = futures::join!(client.chat(&two), delete);

    assert_eq!(deleted.status(), 200, "{deleted:?}");
    upstream.forget_script();
}
