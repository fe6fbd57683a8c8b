//! What frontends make of a conversation, request by request: they split, wrap, drop and repeat.

use serde_json::{Value, json};

use super::{assert_goes_on, assistant, conversation, told, user};
use crate::support::chunks::{calls, gate, says, text};
use crate::support::client::{Client, with};
use crate::support::server::{Builder, Server};
use crate::support::upstream::{Step, Upstream};

/// The call by which a scripted model reads `notes.txt`.
pub(crate) fn reads() -> Vec<Step> {
    calls(&[("c1", "Read", json!({ "file_path": "notes.txt" }))])
}

pub(crate) fn reads_and_says(upstream: &Upstream, answer: &str) {
    upstream.round(reads());
    upstream.round(says(answer));
}

pub(crate) fn builder(upstream: &Upstream) -> Builder {
    Server::builder(upstream).file("notes.txt", "needle\n")
}

pub(crate) async fn server(upstream: &Upstream) -> Server {
    builder(upstream).start().await
}

/// The last request upstream, as lines.
pub(crate) fn last_told(upstream: &Upstream) -> Vec<String> {
    told(upstream.requests().last().expect("a request"))
}

pub(crate) fn knows_needle(upstream: &Upstream) -> bool {
    last_told(upstream).iter().any(|line| line.starts_with("tool: ") && line.contains("needle"))
}

fn session(answer: &crate::support::client::Answer) -> String {
    answer.header("x-toolhand-session").expect("a session").to_owned()
}

fn streamed(messages: &[Value]) -> Value {
    with(conversation(messages), json!({ "stream": true }))
}

/// What Open WebUI sends back of a streamed answer with cards: text, call and output by turns.
async fn with_cards(client: &Client, upstream: &Upstream) -> Vec<Value> {
    let before = [vec![text("Let me look.")], reads()].concat();
    upstream.round(before);
    upstream.round(says("It says needle."));
    let first = client.streamed(&streamed(&[user("Read my notes.")])).await;
    assert_eq!(first.text(), "Let me look.\n\nIt says needle.");
    let items = first.card_items();
    let id = items[0]["call_id"].as_str().expect("an id");
    let output = items.iter().find(|item| item["type"] == "function_call_output");
    let call = json!({ "id": id, "type": "function",
        "function": { "name": "Read", "arguments": items[0]["arguments"] } });
    let output = output.expect("an output")["output"][0]["text"].clone();
    vec![
        user("Read my notes."),
        json!({ "role": "assistant", "content": "Let me look.", "tool_calls": [call] }),
        json!({ "role": "tool", "tool_call_id": id, "content": output }),
        assistant("It says needle."),
    ]
}

#[tokio::test]
async fn an_answer_that_comes_back_split_at_its_cards_is_what_really_happened() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-toolhand-progress", "cards");
    let list = with_cards(&client, &upstream).await;
    upstream.round(says("Yes."));

    client.streamed(&streamed(&[&list[..], &[user("Sure?")]].concat())).await;

    let [_, two, three] = &upstream.requests()[..] else { panic!("three requests") };
    assert_goes_on(two, three);
    let told = told(three);
    assert_eq!(told[1], "assistant: Let me look.Read");
    assert_eq!(told[3..], ["assistant: It says needle.", "user: Sure?"]);
    assert!(!String::from_utf8_lossy(&three.body).contains("card_"));
}

#[tokio::test]
async fn a_list_that_ends_with_answers_to_cards_starts_no_turn() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-toolhand-progress", "cards");
    let list = with_cards(&client, &upstream).await;
    let ended = &list[..3];

    let streamed_answer = client.streamed(&streamed(ended)).await;
    let whole = client.chat(&conversation(ended)).await;

    assert_eq!(
        (streamed_answer.text(), streamed_answer.finish_reason.as_deref()),
        ("", Some("stop"))
    );
    assert_eq!((whole.status(), whole.text()), (200, String::new()));
    assert_eq!(whole.json()["choices"][0]["finish_reason"], "stop");
    assert_eq!(upstream.requests().len(), 2, "no model was asked");
}

#[tokio::test]
async fn an_answer_of_several_rounds_comes_back_as_one_message_or_as_many() {
    for shown in [
        vec!["Let me look.\n\nIt says needle."],
        vec!["Let me look.It says needle."],
        vec!["Let me look.", "It says", " needle."],
        vec!["", "Let me look. It says needle.", ""],
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        upstream.round([vec![text("Let me look.")], reads()].concat());
        reads_back(&upstream);
        upstream.round(says("Yes."));
        let client = server.client();
        client.chat(&conversation(&[user("Read.")])).await;

        let mut list = vec![user("Read.")];
        list.extend(shown.iter().map(|text| assistant(text)));
        list.push(user("Sure?"));
        client.chat(&conversation(&list)).await;

        let requests = upstream.requests();
        assert_goes_on(&requests[1], &requests[2]);
    }
}

fn reads_back(upstream: &Upstream) {
    upstream.round(says("It says needle."));
}

#[tokio::test]
async fn a_message_that_was_wrapped_stays_for_the_model_as_it_was() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let wrapped = "### Task:\nAnswer with the context.\n\n<context>\n<source id=\"1\">plums</source>\n\
                   </context>\n\nRead my notes.";
    reads_and_says(&upstream, "It says needle.");
    upstream.round(says("Yes."));
    let client = server.client();
    client.streamed(&streamed(&[user(wrapped)])).await;

    let list = [user("Read my notes."), assistant("It says needle."), user("Sure?")];
    client.streamed(&streamed(&list)).await;

    let [_, two, three] = &upstream.requests()[..] else { panic!("three requests") };
    assert_goes_on(two, three);
    assert!(told(three)[0].contains("plums"), "the bytes that it saw");
}

#[tokio::test]
async fn what_a_frontend_adds_of_reasoning_and_progress_is_dropped() {
    let progress = "→ Read notes.txt\n✓ Read notes.txt (0.1 s, 8 characters)\n";
    let details = "<details type=\"reasoning\" done=\"true\" duration=\"3\">\n\
                   <summary>Thought for 3 seconds</summary>\n> → Read notes.txt\n</details>\n";
    for back in [
        json!({ "role": "assistant", "content": "It says needle.", "reasoning_content": progress }),
        json!({ "role": "assistant", "content": format!("{details}It says needle.") }),
        json!({ "role": "assistant", "content": format!("{progress}It says needle.") }),
        json!({ "role": "assistant", "content": "<think>hm\n</think>\n\nIt says needle." }),
        json!({ "role": "assistant", "content": [{ "type": "text", "text": "It says needle." }] }),
    ] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        reads_and_says(&upstream, "It says needle.");
        upstream.round(says("Yes."));
        let client = server.client();
        client.streamed(&streamed(&[user("Read.")])).await;

        client.streamed(&streamed(&[user("Read."), back, user("Sure?")])).await;

        let requests = upstream.requests();
        assert_goes_on(&requests[1], &requests[2]);
    }
}

/// Below 200 characters an answer proves nothing: somebody else may have got the same.
#[tokio::test]
async fn an_answer_of_200_characters_proves_a_conversation_and_a_shorter_one_does_not() {
    for (length, is_known) in [(200, true), (199, false), (40, false), (3, false)] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let said = "needles ".repeat(40)[..length].replace(' ', "-");
        reads_and_says(&upstream, &said);
        upstream.round(says("Yes."));
        let client = server.client();
        let first = client.chat(&conversation(&[user("Read.")])).await;

        let list = [user("Quite another question"), assistant(&said), user("Sure?")];
        let second = client.chat(&conversation(&list)).await;

        assert_eq!(knows_needle(&upstream), is_known, "{length}");
        assert_eq!(session(&first) == session(&second), is_known, "{length}");
    }
}

#[tokio::test]
async fn an_answer_cut_short_is_known_from_forty_characters_on() {
    let whole = "A-long-answer-about-the-needle-that-was-found-in-the-notes-of-mine-today.";
    for (shown, is_known) in [(40, true), (39, false)] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        reads_and_says(&upstream, whole);
        upstream.round(says("Yes."));
        let client = server.client();
        client.chat(&conversation(&[user("Read.")])).await;

        let cut = &whole[..shown];
        client.chat(&conversation(&[user("Read."), assistant(cut), user("Sure?")])).await;

        assert_eq!(knows_needle(&upstream), is_known, "{shown}");
    }
}

/// Two persons behind one key whose conversations begin with the same answer.
#[tokio::test]
async fn of_two_conversations_with_the_same_answers_the_user_messages_decide() {
    let upstream = Upstream::start();
    let server = builder(&upstream).file("other.txt", "thimble\n").start().await;
    let client = server.client();
    reads_and_says(&upstream, "Done.");
    let first = client.chat(&conversation(&[user("Read my notes.")])).await;
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "other.txt" }))]));
    upstream.round(says("Done."));
    let other = client.chat(&conversation(&[user("Look at the other.")])).await;
    assert_ne!(session(&first), session(&other));

    for (asked, known, mine) in
        [("Read my notes.", "needle", &first), ("Look at the other.", "thimble", &other)]
    {
        upstream.round(says("Yes."));
        let list = [user(asked), assistant("Done."), user("Sure?")];
        let answer = client.chat(&conversation(&list)).await;
        let told = last_told(&upstream);
        assert!(told[2].contains(known), "{told:?}");
        assert_eq!(session(&answer), session(mine));
    }
}

/// Very many conversations behind one key begin with the same short answer.
#[tokio::test]
async fn of_very_many_conversations_with_the_same_answer_the_user_messages_decide() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let asked = |number: usize| user(&format!("Read them for the {number}th time."));
    let mut first = None;
    for number in 0..20 {
        reads_and_says(&upstream, "Done.");
        let answer = client.chat(&conversation(&[asked(number)])).await;
        first.get_or_insert_with(|| session(&answer));
    }

    for (number, is_first) in [(0, true), (9, false), (19, false)] {
        upstream.round(says("Yes."));
        let list = [asked(number), assistant("Done."), user("Sure?")];
        let answer = client.chat(&conversation(&list)).await;
        assert!(knows_needle(&upstream), "{number}: {:?}", last_told(&upstream));
        assert_eq!(first.as_ref() == Some(&session(&answer)), is_first);
    }
}

/// Under a new chat id as well, what is ambiguous brings the steps that all share and no more.
#[tokio::test]
async fn a_new_chat_id_makes_nothing_certain() {
    let upstream = Upstream::start();
    let server = builder(&upstream).free().start().await;
    let asked = user("Read my notes.");
    for _ in 0..2 {
        reads_and_says(&upstream, "Done.");
        server.client().chat(&conversation(std::slice::from_ref(&asked))).await;
    }
    let edit = json!({ "file_path": "notes.txt", "old_string": "needle", "new_string": "pin" });
    upstream.round(calls(&[("e1", "Edit", edit)]));
    upstream.round(says("I must read it first."));

    let client = server.client().header("x-openwebui-chat-id", "new");
    client.chat(&conversation(&[asked, assistant("Done."), user("Change it.")])).await;

    assert!(knows_needle(&upstream), "{:?}", last_told(&upstream));
    let refused = |line: &String| line.starts_with("tool: Error: ");
    assert!(last_told(&upstream).iter().any(refused), "{:?}", last_told(&upstream));
    assert_eq!(server.file("notes.txt"), "needle\n");
}

#[tokio::test]
async fn where_nothing_decides_a_request_gets_a_fresh_session_and_only_what_all_share() {
    let upstream = Upstream::start();
    let server = builder(&upstream).file("other.txt", "thimble\n").start().await;
    let client = server.client();
    let list = [user("Hi"), assistant("Hello! How can I help?"), user("What do my notes say?")];
    let mut sessions = Vec::new();
    // Two with the same steps, then one with others.
    for file in ["notes.txt", "notes.txt", "other.txt"] {
        upstream.round(calls(&[("c1", "Read", json!({ "file_path": file }))]));
        upstream.round(says("Hello! How can I help?"));
        sessions.push(session(&client.chat(&conversation(&list[..1])).await));
        upstream.round(says("So."));
        let on = client.chat(&conversation(&list)).await;
        let shared = sessions.len() < 3;
        assert_eq!(knows_needle(&upstream), shared, "{}", sessions.len());
        assert_eq!(sessions.contains(&session(&on)), sessions.len() == 1);
        assert!(!last_told(&upstream).iter().any(|line| line.contains("thimble")));
    }
}

#[tokio::test]
async fn x1_two_keys_with_identical_conversations_never_meet() {
    use crate::settings::client_keys::add;
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let other = Client::new(server.address(), &add(&server, &["other"]));
    reads_and_says(&upstream, "The file says needle.");
    let name = json!({ "toolhand": { "session": "shared name" } });
    let first = server.client().chat(&with(conversation(&[user("Read.")]), name.clone())).await;
    let id = first.json()["toolhand"]["session"].clone();
    assert_eq!(id, "shared name");
    let listed = server.client().get("/toolhand/v1/sessions").await.json();
    let own_id = listed["data"][0]["id"].as_str().expect("an id").to_owned();

    let list = [user("Read."), assistant("The file says needle."), user("What?")];
    let only = [user("What?")];
    let history =
        |session: &str| json!({ "toolhand": { "session": session, "history": "server" } });
    for body in [
        conversation(&list),
        with(conversation(&list), name),
        with(conversation(&list), json!({ "toolhand": { "session": own_id } })),
        with(conversation(&only), history("shared name")),
        with(conversation(&only), history(&own_id)),
    ] {
        upstream.round(says("I do not know."));
        let answer = other.chat(&body).await;
        assert_eq!(answer.status(), 200, "{}", answer.json());
        assert!(!knows_needle(&upstream), "{body}");
    }
    for path in ["shared%20name", &own_id] {
        let mine = server.client().get(&format!("/toolhand/v1/sessions/{path}")).await;
        assert_eq!(mine.json()["turns"], 1);
        let theirs = other.get(&format!("/toolhand/v1/sessions/{path}")).await;
        let theirs = theirs.json()["messages"].to_string();
        assert!(!theirs.contains("needle\\n") && theirs.contains("I do not know"), "{theirs}");
    }
}

#[tokio::test]
async fn x1_a_key_that_was_revoked_and_made_again_is_another() {
    use crate::settings::client_keys::{add, key_command};
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = Client::new(server.address(), &add(&server, &["alice"]));
    reads_and_says(&upstream, "The file says needle.");
    client.chat(&conversation(&[user("Read.")])).await;
    assert!(key_command(&server, &["revoke", "alice"]).status.success());
    let again = Client::new(server.address(), &add(&server, &["alice"]));
    upstream.round(says("I do not know."));

    let list = [user("Read."), assistant("The file says needle."), user("What?")];
    again.chat(&conversation(&list)).await;

    assert!(!knows_needle(&upstream));
    let sessions = again.get("/toolhand/v1/sessions").await.json();
    assert_eq!(sessions["data"].as_array().map(Vec::len), Some(1));
}

/// Two persons behind one key, whom `header` names in the same chat.
async fn persons_meet(
    build: impl Fn(&Upstream) -> Builder,
    header: &str,
    is_trusted: bool,
) -> bool {
    use crate::settings::client_keys::add;
    let upstream = Upstream::start();
    let server = build(&upstream).start().await;
    let flags: &[&str] = if is_trusted { &["web", "--trust-forwarded-user"] } else { &["web"] };
    let key = add(&server, flags);
    let person = |name: &str| {
        let client = Client::new(server.address(), &key);
        client.header(header, name).header("x-openwebui-chat-id", "chat-1")
    };
    reads_and_says(&upstream, "The file says needle.");
    person("anna").chat(&conversation(&[user("Read.")])).await;
    let list = [user("Read."), assistant("The file says needle."), user("What?")];
    upstream.round(says("So."));
    person("bert").chat(&conversation(&list)).await;
    let meet = knows_needle(&upstream);
    upstream.round(says("So."));
    person("anna").chat(&conversation(&list)).await;
    assert!(knows_needle(&upstream), "{header} {is_trusted}");
    let sessions = person("bert").get("/toolhand/v1/sessions").await.json();
    let turns = sessions["data"][0]["turns"].as_u64();
    assert_eq!(turns, Some(if meet { 3 } else { 1 }), "{sessions}");
    meet
}

#[tokio::test]
async fn persons_behind_a_trusted_key_never_meet_and_behind_another_are_one() {
    for is_trusted in [true, false] {
        let meet = persons_meet(builder, "x-openwebui-user-id", is_trusted).await;
        assert_eq!(meet, !is_trusted);
    }
}

#[tokio::test]
async fn further_headers_name_persons_where_the_operator_says_so() {
    let configured = |upstream: &Upstream| {
        builder(upstream).config("sessions.user_headers", r#"["X-Team", "X-Person"]"#)
    };
    for header in ["x-team", "X-Person", "x-openwebui-user-id"] {
        assert!(!persons_meet(configured, header, true).await, "{header}");
        assert!(persons_meet(configured, header, false).await, "{header}");
    }
    assert!(persons_meet(builder, "x-person", true).await, "nobody has configured it");
}

#[tokio::test]
async fn without_content_address_only_an_id_brings_back_what_happened() {
    let upstream = Upstream::start();
    let server = builder(&upstream).config("sessions.content_address", "false").start().await;
    let client = server.client();
    reads_and_says(&upstream, "The file says needle.");
    let first = client.chat(&conversation(&[user("Read.")])).await;
    let list = [user("Read."), assistant("The file says needle."), user("What?")];
    let name = json!({ "toolhand": { "session": session(&first) } });
    for (members, knows) in [(json!({}), false), (name, true)] {
        upstream.round(says("So."));
        client.chat(&with(conversation(&list), members)).await;
        assert_eq!(knows_needle(&upstream), knows);
    }
}

#[tokio::test]
async fn instructions_beside_the_servers_history_replace_the_earlier_ones() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let system = |text: &str| json!({ "role": "system", "content": text });
    reads_and_says(&upstream, "Needle.");
    let name = json!({ "toolhand": { "session": "mine" } });
    client.chat(&with(conversation(&[system("Be brief."), user("Read.")]), name)).await;
    upstream.round(says("So."));

    let members = json!({ "toolhand": { "session": "mine", "history": "server" } });
    let list = [system("Be verbose."), user("What?")];
    client.chat(&with(conversation(&list), members.clone())).await;

    let sent = String::from_utf8(upstream.request(2).await.body).expect("JSON");
    assert!(sent.contains("Be verbose.") && !sent.contains("Be brief."));
    assert_eq!(last_told(&upstream)[3..], ["assistant: Needle.", "user: What?"]);
    // It needs an id, and a list without answers.
    let nameless =
        with(conversation(&[user("What?")]), json!({ "toolhand": { "history": "server" } }));
    assert_eq!(client.chat(&nameless).await.refusal(), (400, "invalid_value".to_owned()));
    let list = [user("Read."), assistant("Needle."), user("What?")];
    let answer = client.chat(&with(conversation(&list), members)).await;
    assert_eq!(answer.refusal(), (400, "invalid_value".to_owned()));
}

#[tokio::test]
async fn a_chat_with_an_id_survives_its_oldest_messages_and_a_regenerated_answer() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-openwebui-chat-id", "chat-1");
    reads_and_says(&upstream, "First.");
    client.chat(&conversation(&[user("Read.")])).await;
    // Regenerate: the same bytes.
    reads_and_says(&upstream, "Second.");
    client.chat(&conversation(&[user("Read.")])).await;
    assert_eq!(told(&upstream.request(2).await), ["user: Read."]);
    upstream.round(says("So."));

    let list = [user("Read."), assistant("Second."), user("What?")];
    client.chat(&conversation(&list)).await;
    let lines = last_told(&upstream);
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert_eq!(lines[3], "assistant: Second.");
    let requests = upstream.requests();
    assert_goes_on(&requests[3], &requests[4]);

    upstream.round(says("Bye."));
    client
        .chat(&conversation(&[assistant("Second."), user("What?"), assistant("So."), user("Bye")]))
        .await;
    assert!(knows_needle(&upstream), "{:?}", last_told(&upstream));
    // The first message was edited: nothing of the other branches is shown.
    upstream.round(says("Other."));
    client.chat(&conversation(&[user("Read nothing.")])).await;
    assert_eq!(last_told(&upstream), ["user: Read nothing."]);
}

#[tokio::test]
async fn two_models_side_by_side_share_a_chat_id_and_nothing_else() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client().header("x-openwebui-chat-id", "chat-1");
    let of = |model: &str, list: &[Value]| with(conversation(list), json!({ "model": model }));
    upstream.round_of("a", reads());
    upstream.round_of("a", says("I am A and read it."));
    upstream.round_of("b", says("I am B."));
    let first = [user("Read.")];
    let (to_a, to_b) = (of("a", &first), of("b", &first));
    let (a, b) = tokio::join!(client.chat(&to_a), client.chat(&to_b));
    assert_eq!((a.text(), b.text()), ("I am A and read it.".to_owned(), "I am B.".to_owned()));

    upstream.round_of("b", says("So."));
    client.chat(&of("b", &[user("Read."), assistant("I am B."), user("And?")])).await;
    assert_eq!(last_told(&upstream).len(), 3);
    // A model that is new in the chat goes on from what its list says.
    upstream.round_of("c", says("So."));
    client.chat(&of("c", &[user("Read."), assistant("I am A and read it."), user("And?")])).await;
    assert!(knows_needle(&upstream));
}

/// Two columns of a new chat ask the same model at once. Each goes on from its own answer.
#[tokio::test]
async fn two_columns_of_one_model_in_a_new_chat_both_go_on() {
    let upstream = Upstream::start();
    let server = builder(&upstream).file("other.txt", "thimble\n").start().await;
    let client = server.client().header("x-openwebui-chat-id", "chat-1");
    for file in ["notes.txt", "other.txt"] {
        let read = calls(&[("c1", "Read", json!({ "file_path": file }))]);
        upstream.round([vec![gate(file)], read].concat());
    }
    upstream.round(says("One says needle."));
    upstream.round(says("The other says thimble."));
    let asked = conversation(&[user("Read.")]);
    let columns = futures::future::join(client.chat(&asked), client.chat(&asked));
    let (columns, ()) = tokio::join!(columns, async {
        // Both run before either has done anything.
        upstream.reached("notes.txt").await;
        upstream.reached("other.txt").await;
        upstream.open("notes.txt");
        upstream.request(2).await;
        upstream.open("other.txt");
    });
    let mut texts = [columns.0.text(), columns.1.text()];
    texts.sort();
    assert_eq!(texts, ["One says needle.", "The other says thimble."]);

    for (said, known, foreign) in
        [(&texts[0], "needle\n", "thimble"), (&texts[1], "thimble\n", "needle")]
    {
        upstream.round(says("So."));
        let list = [user("Read."), assistant(said), user("Sure?")];
        assert_eq!(client.chat(&conversation(&list)).await.text(), "So.");
        let told = last_told(&upstream);
        assert_eq!(told.len(), 5, "{said}: {told:?}");
        assert_eq!(told[1], "assistant: Read", "{said}");
        assert!(told[2].contains(known.trim()) && !told[2].contains(foreign), "{said}: {told:?}");
    }
}

#[tokio::test]
async fn a_name_in_the_body_beats_the_header_and_ours_beats_a_frontends() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let both =
        client.clone().header("x-toolhand-session", "head").header("x-openwebui-chat-id", "chat");
    let own = json!({ "toolhand": { "session": "body" } });
    let metadata = json!({ "metadata": { "chat_id": "meta" } });
    for (client, members, name) in [
        (both.clone(), own, "body"),
        (both, json!({}), "head"),
        (client.clone().header("x-openwebui-chat-id", "chat"), metadata.clone(), "chat"),
        (client, metadata, "meta"),
    ] {
        upstream.round(says("Hi."));
        let answer = client.chat(&with(conversation(&[user("Hi")]), members)).await;
        assert_eq!(session(&answer), name);
    }
}

/// A client that keeps the hidden messages itself, and has shortened one of them.
#[tokio::test]
async fn what_a_client_kept_itself_is_used_as_it_is() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    reads_and_says(&upstream, "It says needle.");
    upstream.round(says("So."));
    let include = json!({ "toolhand": { "include": ["messages"] } });
    let first = client.chat(&with(conversation(&[user("Read.")]), include.clone())).await.json();
    let mut kept = first["toolhand"]["messages"].as_array().expect("messages").clone();
    assert_eq!(kept.len(), 3, "{kept:#?}");
    assert_eq!(kept[2], json!({ "role": "assistant", "content": "It says needle." }));
    kept[1]["content"] = json!("1\tsomething else");

    let list = [vec![user("Read.")], kept, vec![user("Sure?")]].concat();
    let second = client.chat(&with(conversation(&list), include)).await;

    let told = last_told(&upstream);
    assert_eq!(told[1..3], ["assistant: Read", "tool: 1\tsomething else"]);
    assert_eq!(told.len(), 5);
    let added = second.json()["toolhand"]["messages"].clone();
    assert_eq!(added, json!([{ "role": "assistant", "content": "So." }]));
}

#[tokio::test]
async fn a_question_that_a_client_kept_itself_is_answered_all_the_same() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    upstream.round(
        [
            vec![text("Let me.")],
            calls(&[("c1", "Write", json!({ "file_path": "new.txt", "content": "new\n" }))]),
        ]
        .concat(),
    );
    let include = json!({ "toolhand": { "include": ["messages"] } });
    let first = client.chat(&with(conversation(&[user("Write.")]), include.clone())).await.json();
    let kept = first["toolhand"]["messages"].as_array().expect("messages").clone();
    let question = kept.last().expect("the question");
    assert_eq!(question["content"], first["choices"][0]["message"]["content"], "{kept:#?}");
    assert!(!server.workspace().join("new.txt").exists());
    upstream.round(says("Written."));

    let list = [vec![user("Write.")], kept, vec![user("1")]].concat();
    let second = client.chat(&with(conversation(&list), include)).await.json();

    assert_eq!(second["choices"][0]["message"]["content"], "Written.");
    assert_eq!(server.file("new.txt"), "new\n");
    let told = last_told(&upstream);
    assert_eq!(told.len(), 3, "{told:?}");
    let added = second["toolhand"]["messages"].as_array().expect("messages");
    assert_eq!(added.len(), 3, "its calls come with the turn that resumes: {added:#?}");
    assert_eq!(added[0]["content"], Value::Null, "its text was told before");
    // The model sees it all once, as it was.
    upstream.round(says("Bye."));
    let list = [list, added.clone(), vec![user("Thanks")]].concat();
    client.chat(&conversation(&list)).await;
    let [_, two, three] = &upstream.requests()[..] else { panic!("three requests") };
    assert_goes_on(two, three);
    assert_eq!(told.len() + 2, last_told(&upstream).len());
}
