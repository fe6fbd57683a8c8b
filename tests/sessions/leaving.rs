//! The client goes away: what stops, what goes on, and what the next request is told of it.

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use super::frontends::{builder, last_told, reads, server};
use super::{after, assistant, conversation, told, user};
use crate::seeded_agents::none_runs;
use crate::settings::client_keys::add;
use crate::support::chunks::{call_head, call_piece, calls, end, gate, says, text};
use crate::support::client::{Client, ask_streamed, with};
use crate::support::server::Server;
use crate::support::stream::{Event, Stream};
use crate::support::upstream::{Step, Upstream};
use crate::support::watch;

const PARTIAL: &str = "I have begun to tell you a long story about a needle in a haystack";

fn streamed(messages: &[Value]) -> Value {
    with(conversation(messages), json!({ "stream": true }))
}

fn half(said: &str) -> Vec<Step> {
    [vec![text("It is "), gate("half"), text(said)], end("stop")].concat()
}

/// A command that says in a file that it runs, and then takes for ever.
pub(crate) fn lasting() -> Vec<Step> {
    let command = "trap '' TERM; echo x >> started; sleep 1000; echo y >> started";
    calls(&[("c1", "Bash", json!({ "command": command }))])
}

pub(crate) async fn started(server: &Server) {
    while !server.workspace().join("started").exists() {
        tokio::task::yield_now().await;
    }
}

fn turn_of(stream: &Stream) -> String {
    stream.head.header("x-toolhand-turn").expect("a turn").to_owned()
}

fn stream_of(turn: &str) -> String {
    format!("/toolhand/v1/turns/{turn}/stream")
}

/// The text in the SSE events of a stream that was read whole.
fn said(answer: &crate::support::client::Answer) -> String {
    assert_eq!(answer.status(), 200, "{answer:?}");
    let body = String::from_utf8(answer.body.clone()).expect("UTF-8");
    assert!(body.ends_with("data: [DONE]\n\n"), "{body}");
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let chunks = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let text = |chunk: Value| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
    chunks.filter_map(text).collect()
}

/// The id of each SSE event, and the text up to it.
fn seen_until(answer: &crate::support::client::Answer) -> Vec<(String, String)> {
    let body = String::from_utf8(answer.body.clone()).expect("UTF-8");
    let (mut seen, mut text, mut id) = (Vec::new(), String::new(), None);
    for line in body.lines() {
        if let Some(own) = line.strip_prefix("id: ") {
            id = Some(own.to_owned());
        } else if let Some(data) = line.strip_prefix("data: ")
            && let Ok(chunk) = serde_json::from_str::<Value>(data)
            && let Some(id) = id.take()
        {
            text += chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
            seen.push((id, text.clone()));
        }
    }
    seen
}

/// By a name of its own, and by a frontend's chat id, which forks from a busy session.
fn clients(server: &Server) -> [Client; 2] {
    let client = server.client();
    [
        client.clone().header("x-toolhand-session", "mine"),
        client.header("x-openwebui-chat-id", "chat"),
    ]
}

/// The next request comes while the stopped turn still ends its processes.
#[tokio::test]
async fn h33_what_a_stopped_turn_did_is_told_to_a_request_that_comes_at_once() {
    for place in 0..2 {
        let upstream = Upstream::start();
        let server = builder(&upstream).free().start().await;
        let client = clients(&server)[place].clone();
        upstream.round(reads());
        upstream.round(lasting());
        let stream = client.stream(&streamed(&[user("Wait.")])).await;
        started(&server).await;
        let turns = server.client().get("/toolhand/v1/turns").await.json();
        let turn = turns["data"][0]["id"].as_str().expect("a turn").to_owned();
        drop(stream);
        let cancel = format!("/toolhand/v1/turns/{turn}/cancel");
        let cancelling = server.client();
        upstream.round(says("So."));

        let list = streamed(&[user("Wait."), user("And now?")]);
        let (_, next) =
            tokio::join!(cancelling.send("POST", &cancel, None), client.streamed(&list));

        assert_eq!(next.text(), "So.");
        server.no_children().await;
        assert_eq!(server.file("started"), "x\n");
        let told = last_told(&upstream);
        assert!(told.iter().any(|line| line.contains("needle")), "{told:?}");
        let interrupted = |line: &&String| line.starts_with("tool: Error: interrupted");
        assert_eq!(told.iter().filter(interrupted).count(), 1, "{told:?}");
        assert_eq!(told.last().map(String::as_str), Some("user: And now?"));
        let sessions = server.client().get("/toolhand/v1/sessions").await.json();
        assert_eq!(sessions["data"].as_array().map(Vec::len), Some(1), "{sessions}");
    }
}

#[tokio::test]
async fn h33_a_turn_that_was_stopped_before_its_first_token_runs_anew() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-openwebui-chat-id", "chat");
    upstream.round(vec![gate("never")]);
    let body = streamed(&[user("Hi")]);
    let connection = client.start(&body).await;
    upstream.request(0).await;
    drop(connection);
    upstream.abandoned(0).await;
    for list in [vec![user("Hi")], vec![user("Hi"), assistant(""), user("Hello?")]] {
        upstream.round(says("Hi."));
        assert_eq!(client.streamed(&streamed(&list)).await.text(), "Hi.");
        assert_eq!(last_told(&upstream)[0], "user: Hi");
        let told = last_told(&upstream);
        assert!(told.iter().all(|line| line.starts_with("user: ")), "{told:?}");
    }
}

/// A turn that has read the notes, and was stopped while it told of them.
async fn stopped(upstream: &Upstream, client: &Client, list: &[Value]) {
    let number = upstream.requests().len();
    upstream.round(reads());
    upstream.round(vec![text(PARTIAL), gate("never")]);
    let mut stream = client.stream(&streamed(list)).await;
    assert_eq!(stream.until_text().await, PARTIAL);
    drop(stream);
    upstream.abandoned(number + 1).await;
}

#[tokio::test]
async fn regenerating_a_stopped_answer_runs_it_anew_with_a_note_of_what_was_done() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-openwebui-chat-id", "chat");
    let list = [user("Tell.")];
    stopped(&upstream, &client, &list).await;
    upstream.round(says("As I said."));

    let again = client.streamed(&streamed(&list)).await;

    assert_eq!(again.text(), "As I said.");
    let told = last_told(&upstream);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("<reminder>") && told[0].contains("needle"), "{told:?}");
    assert!(told[0].ends_with("\n\nTell."), "{told:?}");
    // The note stays where it is in later requests.
    upstream.round(says("Bye."));
    let list = [user("Tell."), assistant("As I said."), user("Thanks")];
    client.streamed(&streamed(&list)).await;
    let [.., earlier, newest] = &upstream.requests()[..] else { panic!("requests") };
    super::assert_goes_on(earlier, newest);
}

#[tokio::test]
async fn continuing_a_stopped_answer_goes_on_from_what_the_client_shows() {
    for shown in [PARTIAL, &PARTIAL[..50]] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let client = server.client();
        stopped(&upstream, &client, &[user("Tell.")]).await;
        upstream.round(says(" and so on."));

        let list = [user("Tell."), assistant(shown)];
        let more = client.streamed(&streamed(&list)).await;

        assert_eq!(more.text(), " and so on.", "only what is new");
        let told = last_told(&upstream);
        assert!(told[2].contains("needle"), "{told:?}");
        assert_eq!(told[3], format!("assistant: {}", shown.trim_end()));
        assert!(told[4].starts_with("user: "), "a note of ours: {told:?}");
        upstream.round(says("Bye."));
        let whole = format!("{shown} and so on.");
        client.streamed(&streamed(&[user("Tell."), assistant(&whole), user("Thanks")])).await;
        let told = last_told(&upstream);
        assert!(told[2].contains("needle"), "{told:?}");
        assert_eq!(told.last().map(String::as_str), Some("user: Thanks"));
    }
}

#[tokio::test]
async fn a_turn_that_was_stopped_amid_a_call_of_the_client_bricks_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-openwebui-chat-id", "chat");
    let tools = super::mixed::weather();
    upstream.round(reads());
    let part = vec![call_head(0, "w1", "weather"), call_piece(0, "{\"city\":"), gate("never")];
    upstream.round(part);
    let mut stream = client.stream(&with(streamed(&[user("Weather?")]), tools.clone())).await;
    stream.until(|event| event.delta()["tool_calls"].is_array()).await;
    drop(stream);
    upstream.abandoned(1).await;

    let function = json!({ "name": "weather", "arguments": "{\"city\":" });
    let call = json!({ "id": "w1", "type": "function", "function": function });
    let half = json!({ "role": "assistant", "content": "", "tool_calls": [call] });
    for list in [
        vec![user("Weather?"), user("Never mind.")],
        vec![user("Weather?"), half, user("Never mind.")],
    ] {
        upstream.round(says("Fine."));
        let next = client.streamed(&with(streamed(&list), tools.clone())).await;
        assert_eq!(next.text(), "Fine.");
        assert_eq!(last_told(&upstream).last().map(String::as_str), Some("user: Never mind."));
    }
}

#[tokio::test]
async fn a_detached_turn_goes_on_and_its_result_is_in_the_session() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    upstream.round(reads());
    upstream.round(half("a needle in the notes."));
    let detach = json!({ "toolhand": { "detach": true } });
    let mut stream = client.stream(&with(ask_streamed("Read."), detach)).await;
    stream.until_text().await;
    let turn = turn_of(&stream);
    drop(stream);
    upstream.open("half");

    let whole = client.get(&stream_of(&turn)).await;
    assert_eq!(said(&whole), "It is a needle in the notes.");
    upstream.round(says("Yes."));
    let list = [user("Read."), assistant("It is a needle in the notes."), user("Sure?")];
    client.chat(&conversation(&list)).await;
    let told = last_told(&upstream);
    assert!(told[2].contains("needle"), "{told:?}");
}

#[tokio::test]
async fn the_grace_of_a_key_lets_its_turns_outlive_their_connection() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let key = add(&server, &["patient", "--disconnect-grace", "10m"]);
    let client = Client::new(server.address(), &key);
    upstream.round(half("done."));
    let mut stream = client.stream(&ask_streamed("Go.")).await;
    stream.until_text().await;
    let turn = turn_of(&stream);
    drop(stream);
    upstream.open("half");

    assert_eq!(said(&client.get(&stream_of(&turn)).await), "It is done.");
    // The stream of another key's turn, and cancelling it, is as that of none.
    let foreign = server.client().get(&stream_of(&turn)).await;
    assert_eq!(foreign.refusal(), (404, "not_found".to_owned()));
    let cancel = format!("/toolhand/v1/turns/{turn}/cancel");
    let foreign = server.client().send("POST", &cancel, None).await;
    assert_eq!(foreign.refusal(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn the_stream_of_a_turn_is_told_after_a_restart_whatever_its_progress_was() {
    for progress in ["reasoning", "events", "cards", "none"] {
        let upstream = Upstream::start();
        let mut server = server(&upstream).await;
        upstream.round([vec![text("Let me look.")], reads()].concat());
        upstream.round(says("It says needle."));
        let members = json!({ "toolhand": { "progress": progress } });
        let first = server.client().streamed(&with(ask_streamed("Read."), members)).await;
        let turn = first.toolhand["turn"].as_str().expect("a turn").to_owned();
        let path = stream_of(&turn);
        let live = server.client().get(&path).await;
        assert_eq!(said(&live), first.text());
        server.stop();
        let server = after(&upstream, &server).start().await;
        let client = server.client();

        let again = client.get(&path).await;

        assert_eq!(said(&again), first.text());
        let body = String::from_utf8(again.body).expect("UTF-8");
        let ids: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
        let last = ids.last().expect("ids");
        let behind = client.clone().header("last-event-id", last).get(&path).await;
        assert_eq!(said(&behind), "");
        let first_id = client.clone().header("last-event-id", ids[0]).get(&path).await;
        assert!(first.text().ends_with(&said(&first_id)));
        // Behind whatever the client had before the restart, nothing is missing.
        for (id, before) in seen_until(&live) {
            let behind = client.clone().header("last-event-id", &id).get(&path).await;
            assert_eq!(before + &said(&behind), first.text(), "{progress} behind {id}");
        }
        let cancel = format!("/toolhand/v1/turns/{turn}/cancel");
        let over = client.send("POST", &cancel, None).await;
        assert_eq!((over.status(), &over.json()["cancelled"]), (200, &json!(false)));
    }
}

#[tokio::test]
async fn a_suspended_turn_can_be_cancelled_and_followed_and_spoils_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let write = json!({ "file_path": "new.txt", "content": "new\n" });
    upstream.round(calls(&[("c1", "Write", write)]));
    let first = client.streamed(&ask_streamed("Write.")).await;
    let turn = first.toolhand["turn"].as_str().expect("a turn").to_owned();

    let cancel = format!("/toolhand/v1/turns/{turn}/cancel");
    assert_eq!(client.send("POST", &cancel, None).await.status(), 200);
    assert_eq!(said(&client.get(&stream_of(&turn)).await), first.text());
    upstream.round(says("Well."));
    let list = [user("Write."), assistant(first.text()), user("3")];
    assert_eq!(client.streamed(&streamed(&list)).await.text(), "Well.");
    assert!(!server.workspace().join("new.txt").exists());
}

#[tokio::test]
async fn a_detached_turn_that_a_shutdown_ends_is_known_after_it() {
    let upstream = Upstream::start();
    let mut gone = builder(&upstream).free().start().await;
    upstream.round(reads());
    upstream.round(lasting());
    let members = json!({ "toolhand": { "detach": true, "session": "mine" } });
    let stream = gone.client().stream(&with(ask_streamed("Wait."), members)).await;
    started(&gone).await;
    let turn = turn_of(&stream);
    drop(stream);
    gone.stop();
    let server = after(&upstream, &gone).free().start().await;
    let client = server.client().header("x-toolhand-session", "mine");
    upstream.round(says("So."));

    client.streamed(&streamed(&[user("Wait."), user("And now?")])).await;

    let told = told(&upstream.request(2).await);
    assert!(told.iter().any(|line| line.contains("needle")), "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("tool: Error: interrupted")), "{told:?}");
    let again = client.get(&stream_of(&turn)).await;
    assert!(String::from_utf8_lossy(&again.body).contains("\"error\""), "{again:?}");
    assert_eq!(gone.file("started"), "x\n");
}

/// A turn that went on when its client had left, after some of its text: its answer is whole, and
/// nobody heard it.
async fn ended_unheard(upstream: &Upstream, client: &Client, body: &Value) {
    upstream.round(reads());
    upstream.round(half("a needle in the notes."));
    let mut stream = client.stream(body).await;
    stream.until_text().await;
    let turn = turn_of(&stream);
    stream.leave().await;
    // The server lets go of a client right behind the close of its connection, which these see.
    for _ in 0..50 {
        client.get("/toolhand/v1/turns").await;
    }
    upstream.open("half");
    // Who follows the stream would hear the end.
    none_runs(client).await;
    assert_eq!(said(&client.get(&stream_of(&turn)).await), "It is a needle in the notes.");
}

#[tokio::test]
async fn what_a_turn_did_without_its_client_is_spliced_into_the_next_request() {
    let detach = || json!({ "toolhand": { "detach": true, "session": "mine" } });
    let patient = || json!({ "toolhand": { "session": "mine" } });
    for (has_grace, shown) in
        [(false, None), (false, Some("It is ")), (true, None), (true, Some("It is "))]
    {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let key = add(&server, &["patient", "--disconnect-grace", "10m"]);
        let client = if has_grace { Client::new(server.address(), &key) } else { server.client() };
        let members = if has_grace { patient() } else { detach() };
        ended_unheard(&upstream, &client, &with(ask_streamed("Read."), members.clone())).await;

        upstream.round(says("Yes."));
        let mut list = vec![user("Read.")];
        list.extend(shown.map(assistant));
        list.push(user("Sure?"));
        client.chat(&with(conversation(&list), members)).await;

        let told = last_told(&upstream);
        let says = |words: &str| told.iter().any(|message| message.contains(words));
        assert!(says("It is a needle in the notes."), "{has_grace} {shown:?}: {told:?}");
        assert!(told.iter().any(|message| message.starts_with("tool:")), "{told:?}");
        assert_eq!(told.last().map(String::as_str), Some("user: Sure?"), "{told:?}");
    }
}

#[tokio::test]
async fn the_same_list_after_a_turn_that_nobody_heard_is_told_what_it_did() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let members = json!({ "toolhand": { "detach": true, "session": "mine" } });
    let body = with(ask_streamed("Read."), members);
    ended_unheard(&upstream, &server.client(), &body).await;

    upstream.round(says("Again."));
    assert_eq!(server.client().streamed(&body).await.text(), "Again.");

    let told = last_told(&upstream);
    assert!(told.last().is_some_and(|message| message.contains("- Read")), "{told:?}");
}

/// A detached turn that has read the notes and runs a command; its client has left. Returns what its
/// client was shown.
async fn runs_unheard(
    upstream: &Upstream,
    server: &Server,
    client: &Client,
    is_seen: impl Fn(&Event) -> bool,
) -> Vec<Event> {
    for pipe in ["started", "held"] {
        mkfifoat(CWD, server.workspace().join(pipe), Mode::RWXU).expect("a pipe");
    }
    upstream.round([vec![text("I look.")], reads()].concat());
    let command = json!({ "command": "echo x >> runs; echo on > started; read x < held" });
    upstream.round(calls(&[("c2", "Bash", command)]));
    let detach = json!({ "toolhand": { "detach": true } });
    let mut stream = client.stream(&with(ask_streamed("Read."), detach)).await;
    stream.until(is_seen).await;
    let pipe = server.workspace().join("started");
    let started = tokio::task::spawn_blocking(move || std::fs::read(pipe));
    watch("the command to run", started).await.expect("no panic").expect("a pipe");
    let seen = stream.seen().to_vec();
    stream.leave().await;
    seen
}

fn is_text(event: &Event) -> bool {
    !event.text().is_empty()
}

/// The card that the event shows.
fn card(event: &Event) -> &Value {
    match event {
        Event::Chunk(chunk) => &chunk["item"],
        _ => &Value::Null,
    }
}

/// Lets the command of the turn that runs end, and then the turn.
async fn ends_unheard(upstream: &Upstream, server: &Server, client: &Client) {
    upstream.round(says("It is a needle."));
    let pipe = server.workspace().join("held");
    let on = tokio::task::spawn_blocking(move || std::fs::write(pipe, "on\n"));
    on.await.expect("no panic").expect("a pipe");
    none_runs(client).await;
}

#[tokio::test]
async fn what_a_turn_does_that_goes_on_without_its_client_is_known_to_the_next_request() {
    for shown in [None, Some("I look."), Some("I look")] {
        let upstream = Upstream::start();
        let server = builder(&upstream).free().start().await;
        let client = server.client().header("x-openwebui-chat-id", "chat");
        runs_unheard(&upstream, &server, &client, is_text).await;
        upstream.round(says("Yes."));
        let mut list = vec![user("Read.")];
        list.extend(shown.map(assistant));
        list.push(user("Sure?"));

        assert_eq!(client.chat(&conversation(&list)).await.text(), "Yes.");

        let told = last_told(&upstream);
        let has = |words: &str| told.iter().filter(|line| line.contains(words)).count();
        assert_eq!((has("needle"), has("I look")), (1, 1), "{shown:?}: {told:#?}");
        assert_eq!(has("tool: Error: still running"), 1, "{shown:?}: {told:#?}");
        let newest = told.last().expect("a message");
        assert!(newest.contains("still runs by itself"), "{told:#?}");
        assert!(newest.ends_with("Sure?"), "{told:#?}");

        ends_unheard(&upstream, &server, &client).await;
        upstream.round(says("Fine."));
        list.extend([assistant("Yes."), user("And now?")]);
        client.chat(&conversation(&list)).await;

        let told = last_told(&upstream);
        let has = |words: &str| told.iter().filter(|line| line.contains(words)).count();
        assert_eq!((has("It is a needle."), has("assistant: Yes.")), (1, 1), "{told:#?}");
        assert_eq!(has("tool: Error"), 0, "{shown:?}: {told:#?}");
        assert_eq!(server.file("runs"), "x\n");
    }
}

/// Without a chat id the cards of the turn that runs name it.
#[tokio::test]
async fn the_cards_of_a_turn_that_goes_on_without_its_client_name_it() {
    let upstream = Upstream::start();
    let server = builder(&upstream).free().start().await;
    let client = server.client().header("x-toolhand-progress", "cards");
    let is_bash = |event: &Event| card(event)["provider_function"]["name"] == "Bash";
    let seen = runs_unheard(&upstream, &server, &client, is_bash).await;
    let card = seen.iter().map(card).find(|item| item["name"] == "Read notes.txt");
    let card = card.expect("the card of the first call");
    let call = json!({ "id": card["call_id"], "type": "function",
        "function": card["provider_function"] });
    upstream.round(says("Yes."));

    let list = [
        user("Read."),
        json!({ "role": "assistant", "content": "I look.", "tool_calls": [call] }),
        json!({ "role": "tool", "tool_call_id": card["call_id"], "content": "needle" }),
        user("Sure?"),
    ];
    client.chat(&conversation(&list)).await;

    let told = last_told(&upstream);
    let has = |words: &str| told.iter().any(|line| line.contains(words));
    assert!(has("tool: Error: still running") && has("needle"), "{told:#?}");
    ends_unheard(&upstream, &server, &client).await;
    assert_eq!(server.file("runs"), "x\n");
}

/// It is a regenerate, and not told that nothing was done.
#[tokio::test]
async fn the_same_list_while_its_turn_goes_on_is_told_what_it_has_done() {
    let upstream = Upstream::start();
    let server = builder(&upstream).free().start().await;
    let client = server.client().header("x-openwebui-chat-id", "chat");
    runs_unheard(&upstream, &server, &client, is_text).await;
    upstream.round(says("Again."));

    assert_eq!(client.streamed(&streamed(&[user("Read.")])).await.text(), "Again.");

    let told = last_told(&upstream);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("- Read") && told[0].contains("still running"), "{told:#?}");
    upstream.round(says("Yes."));
    let list = [user("Read."), assistant("Again."), user("Sure?")];
    client.streamed(&streamed(&list)).await;
    let told = last_told(&upstream);
    assert_eq!(
        told[1..],
        ["assistant: Again.", "user: Sure?"],
        "the other turn's steps: {told:#?}"
    );
    ends_unheard(&upstream, &server, &client).await;
    assert_eq!(server.file("runs"), "x\n");
}

/// What a turn has said of a round that has not ended is not recorded yet.
#[tokio::test]
async fn the_beginning_of_an_answer_that_goes_on_without_its_client_is_told_once() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-openwebui-chat-id", "chat");
    upstream.round(reads());
    upstream.round(half("a needle."));
    let detach = json!({ "toolhand": { "detach": true } });
    let mut stream = client.stream(&with(ask_streamed("Read."), detach)).await;
    assert_eq!(stream.until_text().await, "It is ");
    stream.leave().await;
    upstream.round(says("Yes."));
    let mut list = vec![user("Read."), assistant("It is "), user("Sure?")];
    client.chat(&conversation(&list)).await;

    let told = last_told(&upstream);
    let has = |words: &str| told.iter().filter(|line| line.contains(words)).count();
    assert_eq!((has("needle"), has("assistant: It is")), (1, 1), "{told:#?}");
    assert!(told.last().is_some_and(|last| last.contains("still runs by itself")), "{told:#?}");

    upstream.open("half");
    none_runs(&client).await;
    upstream.round(says("Fine."));
    list.extend([assistant("Yes."), user("And now?")]);
    client.chat(&conversation(&list)).await;
    let told = last_told(&upstream);
    let has = |words: &str| told.iter().filter(|line| line.contains(words)).count();
    assert_eq!((has("It is a needle."), has("assistant: It is")), (1, 1), "{told:#?}");
}

/// With an id of the client's own, the next request waits for the turn.
#[tokio::test]
async fn a_session_of_its_own_name_waits_for_the_turn_that_goes_on_without_its_client() {
    let upstream = Upstream::start();
    let server = builder(&upstream).free().start().await;
    let client = server.client().header("x-toolhand-session", "mine");
    runs_unheard(&upstream, &server, &client, is_text).await;
    let list = conversation(&[user("Read."), user("Sure?")]);
    let next = async {
        upstream.request(2).await;
        upstream.round(says("Yes."));
    };

    let watching = server.client();
    let ending = ends_unheard(&upstream, &server, &watching);
    let (answer, (), ()) = tokio::join!(client.chat(&list), ending, next);

    assert_eq!(answer.text(), "Yes.");
    let told = last_told(&upstream);
    let has = |words: &str| told.iter().any(|line| line.contains(words));
    assert!(has("It is a needle.") && !has("tool: Error"), "{told:#?}");
    assert_eq!(server.file("runs"), "x\n");
}

#[tokio::test]
async fn an_answer_that_its_client_has_taken_out_stays_out() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let members = || json!({ "toolhand": { "detach": true, "session": "mine" } });
    upstream.round(says("It is a needle."));
    let heard = server.client().chat(&with(conversation(&[user("Read.")]), members())).await;
    assert_eq!(heard.text(), "It is a needle.");

    upstream.round(says("Yes."));
    let list = [user("Read."), user("Sure?")];
    server.client().chat(&with(conversation(&list), members())).await;

    let told = last_told(&upstream);
    assert!(!told.iter().any(|message| message.contains("needle")), "{told:?}");
}
