//! A transcript that the model cannot take becomes shorter, and the session goes on from that.

use serde_json::{Value, json};

use super::plan_mode::plan_file;
use super::{after, assert_goes_on, assistant, conversation, told, user};
use crate::support::chunks::{call, calls, done, finish, gate, says, status, text, usage};
use crate::support::client::with;
use crate::support::server::{Builder, Server};
use crate::support::upstream::{Request, Step, Upstream};

/// Upstream's words for a request that is too long.
fn too_long() -> Vec<Step> {
    let message = "This model's maximum context length is 10000 tokens.";
    let error = json!({ "message": message, "type": "invalid_request_error", "code": "400" });
    status(400, &json!({ "error": error }))
}

/// A round that reads a file, and then has `tokens`.
fn reads(number: usize, tokens: u64) -> Vec<Step> {
    let arguments = json!({ "file_path": format!("f{number}.txt") });
    let call = call(0, &format!("c{number}"), "Read", &arguments);
    [call, vec![finish("tool_calls"), usage(tokens, 5), done()]].concat()
}

/// A server with five files of 4 kB.
fn with_files(upstream: &Upstream) -> Builder {
    let content = |number: usize| format!("needle {number}\n").repeat(400);
    let server = Server::builder(upstream);
    (1..=5).fold(server, |server, number| server.file(&format!("f{number}.txt"), &content(number)))
}

fn small_context(server: Builder) -> Builder {
    server.tables("[[models]]\nmatch = \"scripted\"\ncontext = 10000\n")
}

/// Five exchanges and a sixth question.
fn long_list() -> Vec<Value> {
    let mut list = Vec::new();
    for number in 1..=5 {
        list.push(user(&format!("Question {number}: {}", "of plums and pears ".repeat(60))));
        list.push(assistant(&format!("Answer {number}: {}", "blue and green ".repeat(60))));
    }
    list.push(user("Question 6."));
    list
}

/// The same, with answers that this server gave.
async fn spoken(upstream: &Upstream, server: &Server) -> Vec<Value> {
    let list = long_list();
    for number in 1..=5 {
        let answer = list[2 * number - 1]["content"].as_str().expect("a text");
        upstream.round(says(answer));
        server.client().chat(&conversation(&list[..2 * number - 1])).await;
    }
    list
}

/// Which of the files are whole in a request, and which are left out.
fn files(request: &Request) -> (Vec<usize>, Vec<usize>) {
    let told = told(request);
    let answers: Vec<_> = told.iter().filter(|line| line.starts_with("tool: ")).collect();
    let of = |words: &dyn Fn(usize) -> String| {
        let has = |number: &usize| answers.iter().any(|line| line.contains(&words(*number)));
        (1..=5).filter(has).collect()
    };
    let whole = of(&|number| format!("needle {number}"));
    (whole, of(&|number| format!("(The result of Read f{number}.txt is left out")))
}

fn roles(request: &Request) -> String {
    let body = request.json();
    let messages = body["messages"].as_array().expect("messages").iter();
    let roles: Vec<_> = messages.filter_map(|message| message["role"].as_str()).collect();
    roles.join(" ")
}

fn is_summary_request(request: &Request) -> bool {
    request.json().get("tools").is_none()
}

#[tokio::test]
async fn v23_old_results_make_room_before_the_context_is_full_and_stay_left_out() {
    let upstream = Upstream::start();
    let mut server = small_context(with_files(&upstream)).start().await;
    for (number, tokens) in [(1, 1000), (2, 2000), (3, 3000), (4, 4000), (5, 8600)] {
        upstream.round(reads(number, tokens));
    }
    upstream
        .round([vec![text("All read.")], vec![finish("stop"), usage(5000, 5), done()]].concat());
    let body = with(conversation(&[user("Read them.")]), json!({ "stream": true }));

    let first = server.client().streamed(&body).await;

    assert_eq!((first.text(), &first.error), ("All read.", &None));
    let requests = upstream.requests();
    assert_eq!(requests.len(), 6);
    assert_eq!(files(&requests[4]), (vec![1, 2, 3, 4], vec![]));
    assert_eq!(files(&requests[5]), (vec![3, 4, 5], vec![1, 2]));
    // The session goes on from there, after a restart too.
    let list = [user("Read them."), assistant("All read."), user("And?")];
    upstream.round(says("Nothing."));
    server.client().chat(&conversation(&list)).await;
    assert_goes_on(&requests[5], &upstream.request(6).await);
    server.stop();
    let server = small_context(after(&upstream, &server)).start().await;
    upstream.round(says("Still nothing."));
    let list = [&list[..], &[assistant("Nothing."), user("And now?")]].concat();
    server.client().chat(&conversation(&list)).await;
    assert_goes_on(&upstream.request(6).await, &upstream.request(7).await);
}

#[tokio::test]
async fn v23_upstreams_refusal_of_a_long_request_leaves_old_results_out() {
    for stream in [false, true] {
        let upstream = Upstream::start();
        let server = with_files(&upstream).start().await;
        (1..=5).for_each(|number| upstream.round(reads(number, 10)));
        upstream.round(too_long());
        upstream.round(says("All read."));
        let body = conversation(&[user("Read them.")]);

        let (answer, tokens) = if stream {
            let options = json!({ "include_usage": true });
            let body = with(body, json!({ "stream": true, "stream_options": options }));
            let answer = server.client().streamed(&body).await;
            let tokens = answer.usage.as_ref().expect("usage")["prompt_tokens"].clone();
            (answer.text().to_owned(), tokens)
        } else {
            let answer = server.client().chat(&body).await;
            let tokens = answer.json()["usage"]["prompt_tokens"].clone();
            (answer.text(), tokens)
        };

        assert_eq!((answer.as_str(), tokens), ("All read.", json!(60)));
        let requests = upstream.requests();
        assert_eq!(requests.len(), 7);
        assert_eq!(files(&requests[5]), (vec![1, 2, 3, 4, 5], vec![]));
        assert_eq!(files(&requests[6]), (vec![3, 4, 5], vec![1, 2]));
    }
}

#[tokio::test]
async fn v23_a_summary_stands_for_old_messages_and_the_client_sees_none_of_it() {
    for stream in [false, true] {
        let upstream = Upstream::start();
        let server = Server::start(&upstream).await;
        let list = spoken(&upstream, &server).await;
        upstream.round(too_long());
        upstream.round(says("They spoke of plums."));
        upstream.round(says("The sixth answer."));
        let options = json!({ "stream": stream });
        let body = with(conversation(&list), options);

        let answer = if stream {
            server.client().streamed(&body).await.text().to_owned()
        } else {
            server.client().chat(&body).await.text()
        };

        assert_eq!(answer, "The sixth answer.");
        let requests = upstream.requests();
        let [_, summary, accepted] = &requests[5..] else { panic!("{} requests", requests.len()) };
        assert!(is_summary_request(summary));
        assert_eq!(roles(summary), "system user");
        let transcript = told(summary)[0].clone();
        assert!(transcript.contains("Question 1") && transcript.contains("Answer 2"));
        assert!(!transcript.contains("Question 6"));
        assert_eq!(roles(accepted), "system user assistant user assistant user assistant user");
        let messages = told(accepted);
        assert!(messages[0].contains("They spoke of plums."), "{messages:?}");
        assert!(messages[1].starts_with("assistant: Answer 3"), "{messages:?}");
        assert_eq!(messages.last().map(String::as_str), Some("user: Question 6."));
        // The next turn goes on from the summary.
        upstream.round(says("The seventh."));
        let more = [assistant("The sixth answer."), user("Question 7.")];
        server.client().chat(&conversation(&[list, more.to_vec()].concat())).await;
        assert_goes_on(accepted, &upstream.request(8).await);
    }
}

#[tokio::test]
async fn v23_the_todo_list_and_the_plan_outlive_a_summary_that_forgets_them() {
    let upstream = Upstream::start();
    let mut server = Server::start(&upstream).await;
    let mut list: Vec<Value> = Vec::new();
    let mut says_in = async |server: &Server, rounds: Vec<Vec<Step>>, answer: &str| {
        list.push(user(&format!("Question {}.", list.len())));
        for round in rounds {
            upstream.round(round);
        }
        upstream.round(says(answer));
        let mode = json!({ "toolhand": { "session": "mine", "mode": "plan" } });
        let said = server.client().chat(&with(conversation(&list), mode)).await;
        assert_eq!(said.text(), answer);
        list.push(assistant(answer));
        upstream.requests().pop().expect("a request")
    };
    let todo = |content: &str, status: &str| json!({ "content": content, "status": status });
    let todos = json!({ "todos": [todo("Look", "completed"), todo("Write", "pending")] });
    says_in(&server, vec![calls(&[("t", "TodoWrite", todos)])], "Listed.").await;
    let path = plan_file(&server).await;
    let plan = json!({ "file_path": path, "content": "1. Read\n2. Win\n" });
    says_in(&server, vec![calls(&[("w", "Write", plan)])], "Written.").await;
    for answer in ["One.", "Two.", "Three."] {
        says_in(&server, vec![], answer).await;
    }

    let rounds = vec![too_long(), says("They spoke of plums.")];
    let accepted = says_in(&server, rounds, "Four.").await;

    let messages = told(&accepted);
    let path = path.display();
    assert!(
        messages[0]
            .contains("They spoke of plums.\n</summary>\n\n<reminder>\nYour todo list is:\n")
            && messages[0].contains("\n- completed: Look\n- pending: Write\n\nPlan mode is on.")
            && messages[0]
                .ends_with(&format!("The plan in {path}:\n\n1. Read\n2. Win\n</reminder>")),
        "{messages:?}"
    );
    // It stays, after a restart too.
    server.stop();
    let server = after(&upstream, &server).start().await;
    let next = says_in(&server, vec![], "Five.").await;
    assert_eq!(told(&next)[0], messages[0]);
}

#[tokio::test]
async fn a_conversation_that_was_edited_before_the_summary_is_whole_again() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(too_long());
    upstream.round(says("They spoke of plums."));
    upstream.round(says("The sixth answer, which is long enough to be known again."));
    upstream.round(says("Yes."));
    let session = json!({ "toolhand": { "session": "mine" } });
    let mut list = long_list();
    server.client().chat(&with(conversation(&list), session.clone())).await;

    list[1] = assistant("Another first answer.");
    list.push(assistant("The sixth answer, which is long enough to be known again."));
    list.push(user("Sure?"));
    server.client().chat(&with(conversation(&list), session)).await;

    let messages = told(&upstream.request(3).await);
    assert_eq!(messages.len(), list.len(), "{messages:?}");
    assert_eq!(messages[1], "assistant: Another first answer.");
    assert!(messages.iter().all(|message| !message.contains("<summary>")));
}

#[tokio::test]
async fn v23_what_cannot_be_made_shorter_is_refused_with_what_is_too_big() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(too_long());
    let big = "many plums ".repeat(3000);

    let answer = server.client().chat(&conversation(&[user(&big)])).await;

    assert_eq!(answer.refusal(), (400, "context_length_exceeded".to_owned()));
    let message = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.starts_with("This model's maximum context length"), "{message}");
    assert!(message.contains("the largest part is a user's message"), "{message}");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn v23_at_most_three_tries_are_made_and_the_session_stays_as_it_was() {
    for stream in [false, true] {
        let upstream = Upstream::start();
        let server = Server::start(&upstream).await;
        (0..4).for_each(|_| upstream.round(too_long()));
        let list = long_list();
        let body = with(conversation(&list), json!({ "stream": stream }));

        let answer = server.client().chat(&body).await;

        assert_eq!(answer.refusal(), (400, "context_length_exceeded".to_owned()));
        let requests = upstream.requests();
        assert!(requests[1..].iter().all(is_summary_request));
        let sizes: Vec<_> = requests[1..].iter().map(|request| request.body.len()).collect();
        assert!(sizes.is_sorted_by(|a, b| a > b), "each asks for less: {sizes:?}");
        upstream.round(says("Now it fits."));
        server.client().chat(&conversation(&list)).await;
        assert_eq!(told(&upstream.request(4).await).len(), list.len());
    }
}

#[tokio::test]
async fn v23_a_summarised_request_that_is_refused_again_ends_the_turn() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(too_long());
    upstream.round(says("They spoke of plums."));
    upstream.round(too_long());
    let list = long_list();

    let answer = server.client().chat(&conversation(&list)).await;

    assert_eq!(answer.refusal(), (400, "context_length_exceeded".to_owned()));
    upstream.round(says("Now it fits."));
    server.client().chat(&conversation(&list)).await;
    let messages = told(&upstream.request(3).await);
    assert_eq!(messages.len(), list.len(), "upstream never accepted the summary: {messages:?}");
}

#[tokio::test]
async fn a_summary_that_is_empty_too_long_or_fails_is_asked_for_again() {
    let failed = status(500, &json!({ "error": { "message": "Busy." } }));
    let endless = says(&"plums ".repeat(5000));
    for (one, two) in [(says(""), endless), (failed, says(" \n"))] {
        let upstream = Upstream::start();
        let server = Server::start(&upstream).await;
        upstream.round(too_long());
        upstream.round(one);
        upstream.round(two);
        upstream.round(says("They spoke of plums."));
        upstream.round(says("The sixth answer."));

        let answer = server.client().chat(&conversation(&long_list())).await;

        assert_eq!(answer.text(), "The sixth answer.");
        let messages = told(&upstream.request(4).await);
        assert!(messages[0].contains("They spoke of plums."), "{messages:?}");
    }
}

#[tokio::test]
async fn a_turn_that_is_stopped_within_its_summary_leaves_the_session_as_it_was() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round(too_long());
    upstream.round(vec![text("They spoke"), gate("never")]);
    let list = long_list();
    let body = with(conversation(&list), json!({ "stream": true }));
    let client = server.client();
    let connection = client.start(&body).await;
    upstream.reached("never").await;
    drop(connection);
    upstream.abandoned(1).await;
    upstream.open("never");
    upstream.round(says("The sixth answer."));

    let answer = client.chat(&conversation(&list)).await;

    assert_eq!(answer.text(), "The sixth answer.");
    assert_eq!(told(&upstream.request(2).await).len(), list.len());
}

/// Also of a model whose whole context is shorter than many a request.
#[tokio::test]
async fn the_context_of_a_model_is_known_from_upstreams_model_info() {
    for (limit, repeats) in [(10_000, 2500), (5_000, 700)] {
        known_from_model_info(limit, repeats).await;
    }
}

async fn known_from_model_info(limit: u64, repeats: usize) {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("log.level", "\"info\"").start().await;
    let entry = json!({ "model_name": "scripted", "model_info": { "max_input_tokens": limit } });
    upstream.answer("/v1/model/info", status(200, &json!({ "data": [entry] })));
    let uncounted = |answer: &str| vec![text(answer), finish("stop"), done()];
    upstream.round(uncounted("The sixth answer."));
    let mut list = long_list();
    list[0] = user(&"of plums and pears ".repeat(repeats));
    server.client().chat(&conversation(&list)).await;
    server.logged("upstream told the contexts of models", 1).await;
    upstream.round(says("They spoke of plums."));
    upstream.round(uncounted("The seventh answer."));

    list.extend([assistant("The sixth answer."), user("Question 7.")]);
    let answer = server.client().chat(&conversation(&list)).await;

    assert_eq!(answer.text(), "The seventh answer.");
    assert!(is_summary_request(&upstream.request(1).await));
    assert!(told(&upstream.request(2).await)[0].contains("They spoke of plums."));
    let own = server.client().get("/v1/model/info").await;
    assert_eq!(own.status(), 404, "what upstream tells us is not the clients'");
}
