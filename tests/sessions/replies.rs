//! What a reply is bound to: the question that the person was shown.

use serde_json::{Value, json};

use super::asking::{builder, codes, marks, open, server, times_run};
use super::{after, assistant, conversation, user};
use crate::settings::client_keys::add;
use crate::support::chunks::{calls, end, says, text};
use crate::support::client::{Client, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

const SAID: &str = "I build it.";

fn runs(upstream: &Upstream, file: &str) {
    upstream.round(calls(&[("c1", "Bash", marks(file))]));
}

/// Says something, and then runs a command.
fn says_and_runs(upstream: &Upstream, said: &str, file: &str) {
    let calling = crate::support::chunks::call(0, "c1", "Bash", &marks(file));
    upstream.round([vec![text(said)], calling, end("tool_calls")].concat());
}

fn server_history(session: &str, words: &str) -> Value {
    let members = json!({ "toolhand": { "session": session, "history": "server" } });
    with(conversation(&[user(words)]), members)
}

fn code_of(question: &str) -> String {
    codes(question).pop().expect("a code")
}

#[tokio::test]
async fn x14_where_the_server_keeps_the_history_only_the_code_counts() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    runs(&upstream, "a");
    let question = client.chat(&server_history("mine", "Do it.")).await.text();
    assert!(question.contains("A number alone does not count here."), "{question}");
    for bare in ["1", "yes", "always", "3", "no", "\u{ff11}", "1."] {
        let again = client.chat(&server_history("mine", bare)).await.text();
        assert_eq!(codes(&again), codes(&question), "{bare:?}");
        assert!(again.contains(&format!("such as `{} 1`", code_of(&question))), "{again}");
        assert_eq!(times_run(&server, "a"), 0, "{bare:?}");
    }
    assert_eq!((open(&client).await.len(), upstream.requests().len()), (1, 1));
    upstream.round(says("Done."));

    let reply = server_history("mine", &format!("{} 1", code_of(&question)));
    assert_eq!(client.chat(&reply).await.text(), "Done.");

    assert_eq!(times_run(&server, "a"), 1);
    // The same reply, and another one, find what was recorded.
    for choice in ["1", "3", "2"] {
        let reply = server_history("mine", &format!("{} {choice}", code_of(&question)));
        assert_eq!(client.chat(&reply).await.text(), "Done.", "{choice}");
    }
    assert_eq!((times_run(&server, "a"), upstream.requests().len()), (1, 2));
}

#[tokio::test]
async fn x14_other_words_without_a_list_still_deny() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    runs(&upstream, "a");
    client.chat(&server_history("mine", "Do it.")).await;
    upstream.round(says("Then not."));

    let answer = client.chat(&server_history("mine", "1 and then push")).await;

    assert_eq!((answer.text().as_str(), times_run(&server, "a")), ("Then not.", 0));
}

#[tokio::test]
async fn x14_the_code_of_a_question_that_was_decided_never_decides_the_newest_one() {
    for decided in ["3", "not that one"] {
        let upstream = Upstream::start();
        let mut first = server(&upstream).await;
        let client = first.client();
        runs(&upstream, "one");
        let one = client.chat(&server_history("mine", "Do one.")).await.text();
        runs(&upstream, "two");
        let decides =
            if decided == "3" { format!("{} 3", code_of(&one)) } else { decided.to_owned() };
        let two = client.chat(&server_history("mine", &decides)).await.text();
        assert_ne!(codes(&one), codes(&two));
        first.stop();
        let server = after(&upstream, &first).argument("--sandbox=off").start().await;
        let client = server.client();

        for choice in ["1", "2", "yes", "3", "no"] {
            let stale = server_history("mine", &format!("{} {choice}", code_of(&one)));
            let answer = client.chat(&stale).await.text();
            assert_eq!(answer, two, "{choice}: what was recorded");
        }
        // Also in a list that shows the newer question.
        let list = [user("Do one."), assistant(&one), user("3"), assistant(&two)];
        let stale = [&list[..], &[user(&format!("{} 1", code_of(&one)))]].concat();
        let again = client.chat(&conversation(&stale)).await.text();
        assert_eq!(codes(&again), codes(&two));

        assert_eq!((times_run(&first, "one"), times_run(&first, "two")), (0, 0));
        assert_eq!(open(&client).await.len(), 1);
        upstream.round(says("Done."));
        let reply = server_history("mine", &format!("{} 1", code_of(&two)));
        assert_eq!(client.chat(&reply).await.text(), "Done.");
        assert_eq!((times_run(&first, "one"), times_run(&first, "two")), (0, 1));
    }
}

/// The client shows what the model said, and not the question.
#[tokio::test]
async fn x14_a_list_without_the_question_answers_it_by_its_code_alone() {
    let long = "I build it now, and then I look at what has come of it in the end.";
    for said in [SAID, long, "<think>hm", "<details type=\"reasoning\">\nhm"] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let list = |words: &str| conversation(&[user("Do it."), assistant(said), user(words)]);
        for (number, bare) in ["1", "yes", "always"].into_iter().enumerate() {
            let client = server.client().header("x-toolhand-session", &format!("bare-{number}"));
            says_and_runs(&upstream, said, "a");
            let question = client.chat(&conversation(&[user("Do it.")])).await.text();
            let before = upstream.requests().len();
            upstream.otherwise(says("I go on."));

            let answer = client.chat(&list(bare)).await.text();

            assert_eq!(times_run(&server, "a"), 0, "{said:?}: {bare}");
            if !said.starts_with('<') {
                assert_eq!(codes(&answer), codes(&question), "{said:?}: asked again");
                assert_eq!(upstream.requests().len(), before);
            }
            upstream.forget_script();
        }
        let client = server.client().header("x-toolhand-session", "code");
        says_and_runs(&upstream, said, "a");
        let question = client.chat(&conversation(&[user("Do it.")])).await.text();
        upstream.round(says("Done."));
        let reply = list(&format!("{} 1", code_of(&question)));
        if !said.starts_with('<') {
            assert_eq!(client.chat(&reply).await.text(), "Done.");
            assert_eq!(times_run(&server, "a"), 1, "{said:?}");
        }
        upstream.forget_script();
    }
}

/// Keeps the newest messages alone, as some frontends do.
struct Newest {
    client: Client,
    messages: Vec<Value>,
    kept: usize,
}

impl Newest {
    async fn say(&mut self, words: &str) -> String {
        self.messages.push(user(words));
        let first = self.messages.len().saturating_sub(self.kept);
        let answer = self.client.chat(&conversation(&self.messages[first..])).await.text();
        self.messages.push(assistant(&answer));
        answer
    }
}

/// A conversation whose newest messages end with a question. Returns it with the question.
async fn long_conversation(upstream: &Upstream, client: Client, kept: usize) -> (Newest, String) {
    let mut newest = Newest { client, messages: Vec::new(), kept };
    for number in 0..4 {
        upstream.round(says(&format!("Answer {number}.")));
        newest.say(&format!("Question {number}?")).await;
    }
    runs(upstream, "a");
    let question = newest.say("Do it.").await;
    (newest, question)
}

#[tokio::test]
async fn a_client_that_sends_its_newest_messages_can_approve() {
    for (kept, restarts) in [(2, false), (3, false), (5, false), (5, true), (2, true)] {
        let upstream = Upstream::start();
        let mut first = server(&upstream).await;
        let (mut newest, _) = long_conversation(&upstream, first.client(), kept).await;
        let restarted;
        let mut running = &first;
        if restarts {
            first.stop();
            restarted = after(&upstream, &first).argument("--sandbox=off").start().await;
            newest.client = restarted.client();
            running = &restarted;
        }
        upstream.round(says("Done."));

        assert_eq!(newest.say("1").await, "Done.", "{kept}");

        assert_eq!(times_run(&first, "a"), 1, "{kept}");
        // The next question is found as well, and a repeated reply runs nothing.
        runs(&upstream, "b");
        newest.say("And that.").await;
        upstream.round(says("Then not."));
        assert_eq!(newest.say("not now").await, "Then not.");
        let count = newest.messages.len();
        newest.messages.truncate(count - 2);
        assert_eq!(newest.say("1").await, "Then not.", "what was recorded");
        assert_eq!((times_run(&first, "a"), times_run(&first, "b")), (1, 0));
        assert_eq!(open(&running.client()).await.len(), 0);
    }
}

#[tokio::test]
async fn x1_a_question_is_found_by_itself_under_its_own_key_alone() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let (newest, question) = long_conversation(&upstream, server.client(), 3).await;
    let other = Client::new(server.address(), &add(&server, &["other"]));
    let list = [assistant("Answer 3."), user("Do it."), assistant(&question), user("1")];
    let by_code = format!("{} 1", code_of(&question));

    for words in ["1", &by_code] {
        upstream.round(says("Of what?"));
        let list = [&list[..3], &[user(words)]].concat();
        assert_eq!(other.chat(&conversation(&list)).await.text(), "Of what?");
    }

    assert_eq!(times_run(&server, "a"), 0);
    assert_eq!(open(&newest.client).await.len(), 1);
}

#[tokio::test]
async fn a_list_that_begins_later_and_lacks_the_question_approves_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let (newest, question) = long_conversation(&upstream, server.client(), 3).await;
    let cut = &question[..question.len() - 40];
    for (shown, behind) in [
        (cut.to_owned(), vec![user("1")]),
        (format!("(`{}`)", code_of(&question)), vec![user("1")]),
        (question.clone(), vec![user("1"), user("1")]),
        (question.clone(), vec![assistant("Or rather this?"), user("1")]),
    ] {
        upstream.round(says("Of what?"));
        let list = [vec![user("Do it."), assistant(&shown)], behind].concat();
        assert_eq!(newest.client.chat(&conversation(&list)).await.text(), "Of what?", "{shown}");
        assert_eq!(times_run(&server, "a"), 0);
    }
}

#[tokio::test]
async fn x14_a_list_that_lacks_the_question_or_a_part_of_it_answers_it_by_its_code() {
    for kept in ["its words", "a part of it", "nothing"] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let client = server.client();
        runs(&upstream, "a");
        let question = client.chat(&conversation(&[user("Do it.")])).await.text();
        let shown = match kept {
            "its words" => "I do it.",
            "a part of it" => &question[..question.len() - 40],
            _ => "Something else.",
        };
        upstream.round(says("Done."));
        let by_code = user(&format!("{} 1", code_of(&question)));
        let list = [user("Do it."), assistant(shown), by_code];
        assert_eq!(client.chat(&conversation(&list)).await.text(), "Done.", "{shown}");
        assert_eq!(times_run(&server, "a"), 1, "{shown}");
    }
}

#[tokio::test]
async fn a_question_that_a_frontend_escaped_or_added_to_is_recognised() {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let backslashes = |text: &str| {
        let marks = ['*', '`', '>', '_', '-', '(', ')', '.', '#'];
        text.chars()
            .flat_map(|c| if marks.contains(&c) { vec!['\\', c] } else { vec![c] })
            .collect::<String>()
    };
    for named in [false, true] {
        for form in 0..6 {
            let upstream = Upstream::start();
            let server = server(&upstream).await;
            let client = server.client();
            let client = if named { client.header("x-toolhand-session", "mine") } else { client };
            runs(&upstream, "a");
            let question = client.chat(&conversation(&[user("Do it.")])).await.text();
            let shown = match form {
                0 => escaped(&question),
                1 => escaped(&escaped(&question)),
                2 => backslashes(&question),
                3 => format!("{question}\n\n---\n*Sent with some frontend*"),
                4 => format!("**Assistant:** {question}"),
                _ => question.replace('\n', "\r\n"),
            };
            upstream.round(says("Done."));

            let list = [user("Do it."), assistant(&shown), user("1")];
            let answer = client.chat(&conversation(&list)).await;

            assert_eq!((answer.text().as_str(), times_run(&server, "a")), ("Done.", 1), "{shown}");
        }
    }
}

#[tokio::test]
async fn a_question_behind_a_clients_own_call_is_separated_from_what_was_said_before() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let weather = ("w1", "weather", json!({ "city": "Oslo" }));
    let calling = calls(&[("b1", "Bash", marks("a")), weather]);
    upstream.round([vec![text("I look. <!-- ")], calling].concat());
    let body = |list: &[Value]| with(conversation(list), super::mixed::weather());
    let mut list = vec![user("Both.")];
    let first = client.chat(&body(&list)).await.json();
    let result = json!({ "role": "tool", "tool_call_id": "w1", "content": "sun" });
    list.extend([first["choices"][0]["message"].clone(), result]);

    let question = client.chat(&body(&list)).await.text();

    assert!(question.contains("<!-- -->") && question.contains("\n---\n"), "{question}");
    assert!(question.contains("A number alone does not count here."), "{question}");
    list.extend([assistant(&question), user("1")]);
    client.chat(&body(&list)).await;
    assert_eq!(times_run(&server, "a"), 0);
}

/// The question was asked by a version that did not keep how it was shown.
#[tokio::test]
async fn a_question_of_an_older_version_is_answered_by_its_code() {
    let upstream = Upstream::start();
    let mut first = builder(&upstream).start().await;
    runs(&upstream, "a");
    let question = first.client().chat(&conversation(&[user("Do it.")])).await.text();
    first.stop();
    forget_how_it_was_shown(&first);
    let server = after(&upstream, &first).argument("--sandbox=off").start().await;
    let list = |words: &str| conversation(&[user("Do it."), assistant(&question), user(words)]);

    let again = server.client().chat(&list("1")).await.text();

    assert_eq!((codes(&again), times_run(&first, "a")), (codes(&question), 0));
    upstream.round(says("Done."));
    let list = [
        user("Do it."),
        assistant(&question),
        user("1"),
        assistant(&again),
        user(&format!("{} 1", code_of(&question))),
    ];
    assert_eq!(server.client().chat(&conversation(&list)).await.text(), "Done.");
    assert_eq!(times_run(&first, "a"), 1);
}

/// Takes the member out of the records, as an older version wrote them.
fn forget_how_it_was_shown(server: &Server) {
    let path = server.state_dir().join("toolhand.db");
    let store = rusqlite::Connection::open(path).expect("the database");
    let changed = store
        .execute(
            "UPDATE entries SET body = CAST(json_remove(CAST(body AS TEXT), '$.open.question') AS BLOB) \
             WHERE json_extract(CAST(body AS TEXT), '$.kind') = 'end'",
            [],
        )
        .expect("the table");
    assert_eq!(changed, 1);
}
