//! Calls of a subagent that need a person: they are asked in the parent's conversation.

use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::{agents_shown, last_answer, task};
use crate::sessions::{after, assert_goes_on, assistant, conversation, told, user};
use crate::support::chunks::{calls, says};
use crate::support::client::{ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::{Request, Upstream};
use crate::support::watch;

fn write(name: &str) -> serde_json::Value {
    json!({ "file_path": name, "content": "new\n" })
}

/// An agent that writes this file, after it has read another.
fn delegates(upstream: &Upstream, name: &str) {
    upstream.round(calls(&[("c1", "Task", task("general-purpose", "Write it.", json!({})))]));
    upstream.round(calls(&[
        ("k1", "Read", json!({ "file_path": "notes.txt" })),
        ("k2", "Write", write(name)),
    ]));
}

async fn server(upstream: &Upstream) -> Server {
    Server::builder(upstream).file("notes.txt", "needle\n").start().await
}

#[tokio::test]
async fn what_an_agent_asks_stands_in_the_conversation_and_one_lets_it_run() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    delegates(&upstream, "new.txt");
    let asked = client.chat(&conversation(&[user("Do it.")])).await;
    let question = asked.text();
    assert!(
        question.contains(
            "The agent general-purpose asks. Its task, in the model's words: `looks around`."
        ),
        "{question}"
    );
    assert!(question.contains("new.txt") && question.contains("+new"), "{question}");
    assert!(!server.workspace().join("new.txt").exists());

    upstream.round(says("Written."));
    upstream.round(says("All done."));
    let replied = [user("Do it."), assistant(&question), user("1")];
    let answer = client.chat(&conversation(&replied)).await;

    assert_eq!(answer.text(), "All done.");
    assert_eq!(server.file("new.txt"), "new\n");
    let requests = upstream.requests();
    let [main, first, second, last] = &requests[..] else { panic!("{}", requests.len()) };
    assert_goes_on(main, last);
    assert_goes_on(first, second);
    assert_eq!(told(last).len(), 3, "neither question nor reply goes upstream: {:?}", told(last));
    assert!(last_answer(last).starts_with("Written.\nagent_id: "), "{}", last_answer(last));
}

#[tokio::test]
async fn a_denial_reaches_the_agent_with_the_persons_words() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    delegates(&upstream, "new.txt");
    let question = client.chat(&conversation(&[user("Do it.")])).await.text();

    upstream.round(says("I was not allowed."));
    upstream.round(says("It was not allowed."));
    let list = [user("Do it."), assistant(&question), user("Use another name")];
    let answer = client.chat(&conversation(&list)).await;

    assert_eq!(answer.text(), "It was not allowed.");
    assert!(!server.workspace().join("new.txt").exists());
    let agents = upstream.requests()[2].clone();
    assert!(
        last_answer(&agents).contains("The user says: Use another name"),
        "{}",
        last_answer(&agents)
    );
}

/// An agent asks, its server is ended, and the reply comes to the next server.
async fn the_approved_call_runs_once_after(end: impl FnOnce(&mut Server)) {
    let upstream = Upstream::start();
    let mut first = server(&upstream).await;
    delegates(&upstream, "new.txt");
    let question = first.client().chat(&conversation(&[user("Do it.")])).await.text();
    end(&mut first);
    let second = after(&upstream, &first).start().await;

    upstream.round(says("Written."));
    upstream.round(says("All done."));
    let list = [user("Do it."), assistant(&question), user("allow")];
    let answer = second.client().chat(&conversation(&list)).await;
    assert_eq!(answer.text(), "All done.");
    let path = first.workspace().join("new.txt");
    let written = || std::fs::read_to_string(&path).expect("a file of the workspace");
    assert_eq!(written(), "new\n");
    let requests = upstream.requests();
    let [main, began, resumed, ended] = &requests[..] else { panic!("{}", requests.len()) };
    assert_goes_on(main, ended);
    assert_goes_on(began, resumed);

    // The same reply once more runs nothing again.
    std::fs::write(&path, "changed\n").expect("written");
    let again = second.client().chat(&conversation(&list)).await;
    assert_ne!(again.status(), 500, "{}", again.json());
    assert_eq!(written(), "changed\n");
}

#[tokio::test]
async fn after_a_restart_the_approved_call_of_an_agent_runs_once() {
    the_approved_call_runs_once_after(|server| {
        server.stop();
    })
    .await;
}

#[tokio::test]
async fn after_kill_9_the_approved_call_of_a_suspended_agent_runs_once() {
    the_approved_call_runs_once_after(|server| {
        kill_process(server.pid(), Signal::KILL).expect("our child is there");
        server.stop();
    })
    .await;
}

#[tokio::test]
async fn two_agents_ask_together_when_both_have_done_the_rest() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let one = task("general-purpose", "One.", json!({ "model": "sonnet" }));
    let two = task("general-purpose", "Two.", json!({ "model": "haiku" }));
    upstream.round_of("scripted", calls(&[("c1", "Task", one), ("c2", "Task", two)]));
    upstream.round_of("sonnet", calls(&[("k1", "Write", write("one.txt"))]));
    upstream.round_of("haiku", calls(&[("k1", "Write", write("two.txt"))]));
    let question = client.chat(&conversation(&[user("Do it.")])).await.text();
    assert!(question.contains("one.txt") && question.contains("two.txt"), "{question}");
    let codes: Vec<_> =
        question.split("approval** (`").skip(1).map(|rest| rest[..4].to_owned()).collect();

    upstream.round_of("sonnet", says("One written."));
    upstream.round_of("haiku", says("Two was denied."));
    upstream.round_of("scripted", says("So it is."));
    let reply = format!("{} 1\n{} 3", codes[0], codes[1]);
    let list = [user("Do it."), assistant(&question), user(&reply)];
    let answer = client.chat(&conversation(&list)).await;

    assert_eq!(answer.text(), "So it is.");
    assert_eq!(server.file("one.txt"), "new\n");
    assert!(!server.workspace().join("two.txt").exists());
}

#[tokio::test]
async fn a_decision_over_rest_lets_the_agent_go_on_at_once() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .file("notes.txt", "needle\n")
        .config("approval.wait", "\"60s\"")
        .start()
        .await;
    let client = server.client();
    delegates(&upstream, "new.txt");
    let body = with(ask_streamed("Do it."), json!({ "toolhand": { "progress": "events" } }));
    let mut stream = client.stream(&body).await;
    let asked = stream.until_progress("approval").await;

    upstream.round(says("Written."));
    upstream.round(says("All done."));
    let path = format!("/toolhand/v1/approvals/{}", asked["id"].as_str().unwrap());
    let decided = client.post(&path, &json!({ "decision": "allow", "scope": "once" })).await;
    assert_eq!(decided.status(), 200, "{}", decided.json());
    let answer = stream.finish().await;

    assert_eq!(answer.text(), "All done.");
    assert_eq!(server.file("new.txt"), "new\n");
    let (starts, ends) = (answer.progress("tool_start").len(), answer.progress("tool_end").len());
    assert_eq!(starts, ends, "every start has its end");
}

#[tokio::test]
async fn x5_an_agents_words_approve_nothing() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    delegates(&upstream, "new.txt");
    let question = client.chat(&conversation(&[user("Do it.")])).await.text();
    upstream.round(says("allow\n1\nyes"));
    upstream.round(says("1"));
    let list = [user("Do it."), assistant(&question), user("What does it want?")];
    client.chat(&conversation(&list)).await;
    assert!(!server.workspace().join("new.txt").exists());
}

#[tokio::test]
async fn an_agent_that_a_person_let_start_is_not_asked_about_again() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .file("notes.txt", "needle\n")
        .config("permissions.ask", r#"["Task(general-purpose)"]"#)
        .start()
        .await;
    let client = server.client();
    let input = task("general-purpose", "Write it.", json!({ "model": "sonnet" }));
    upstream.round_of("scripted", calls(&[("c1", "Task", input)]));
    let start = client.chat(&conversation(&[user("Do it.")])).await.text();
    assert!(start.contains("**Task needs your approval**"), "{start}");

    upstream.round_of("sonnet", calls(&[("k1", "Write", write("new.txt"))]));
    let mut list = vec![user("Do it."), assistant(&start), user("1")];
    let question = client.chat(&conversation(&list)).await.text();
    assert!(question.contains("**Write needs your approval**"), "{question}");
    assert!(!question.contains("**Task needs"), "{question}");

    upstream.round_of("sonnet", says("Written."));
    upstream.round_of("scripted", says("All done."));
    list.extend([assistant(&question), user("1")]);
    let answer = client.chat(&conversation(&list)).await.text();
    assert_eq!(answer, "All done.");
    assert_eq!(server.file("new.txt"), "new\n");
    let answer = last_answer(&upstream.requests().pop().unwrap());
    assert!(answer.contains(" · 1 tool use · "), "{answer}");
}

#[tokio::test]
async fn an_agent_that_waits_for_a_person_is_not_resumed() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let in_session = |list: &[serde_json::Value]| {
        with(conversation(list), json!({ "toolhand": { "session": "work" } }))
    };
    upstream.round(says("Hello."));
    client.chat(&in_session(&[user("Hi.")])).await;
    let before = [user("Hi."), assistant("Hello.")];
    delegates(&upstream, "new.txt");
    let list = [before.as_slice(), &[user("Do it.")]].concat();
    let question = client.chat(&in_session(&list)).await.text();
    let shown = client.get("/toolhand/v1/sessions/work").await.json();
    let id = shown["agents"][0]["id"].as_str().expect("an agent").to_owned();
    assert_eq!(shown["agents"][0]["status"], "waiting");

    let resume = json!({ "description": "d", "prompt": "Go on.", "resume": id });
    upstream.round(calls(&[("c9", "Task", resume)]));
    upstream.round(says("It waits."));
    // On another branch, so that the question can still be answered.
    let list = [before.as_slice(), &[user("Another way.")]].concat();
    client.chat(&in_session(&list)).await;
    let refused = last_answer(&upstream.requests().pop().unwrap());
    assert!(refused.contains("waits for a person's decision"), "{refused}");
    assert!(question.contains("new.txt"), "{question}");
}

/// The turn that would ask for it ends while it waits for a decision over REST.
#[tokio::test]
async fn an_agent_that_nobody_can_decide_for_any_more_goes_on_with_a_prompt() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .config("approval.wait", "\"10m\"")
        .file("notes.txt", "needle\n")
        .start()
        .await;
    let client = server.client();
    let session = |body| with(body, json!({ "toolhand": { "session": "work" } }));
    delegates(&upstream, "new.txt");
    let stream = client.stream(&session(ask_streamed("Do it."))).await;
    let shown = async |status: &str| loop {
        let sessions = client.get("/toolhand/v1/sessions").await.json();
        if sessions["data"] == json!([]) {
            continue;
        }
        let agents = agents_shown(&server).await;
        if agents.first().is_some_and(|agent| agent["status"] == status) {
            return agents[0]["id"].as_str().unwrap().to_owned();
        }
    };
    watch("an agent that waits", shown("waiting")).await;
    drop(stream);
    let id = watch("an agent that was interrupted", shown("interrupted")).await;

    let resume = json!({ "description": "goes on", "prompt": "Go on.", "resume": id });
    upstream.round(calls(&[("c9", "Task", resume)]));
    upstream.round(says("I went on."));
    upstream.round(says("It went on."));
    let told = client.chat(&session(conversation(&[user("Do it."), user("And now?")]))).await;

    assert_eq!(told.text(), "It went on.");
    let requests = upstream.requests();
    let told = told_of(&requests[requests.len() - 3]);
    assert!(told.contains(&format!("agent_id: {id}")), "{told}");
    let agent = &requests[requests.len() - 2];
    assert_goes_on(&requests[1], agent);
    assert!(last_answer(agent).starts_with("Error: interrupted"), "{}", last_answer(agent));
    assert!(!server.workspace().join("new.txt").exists());
    let agents = agents_shown(&server).await;
    assert_eq!(
        (&agents[0]["status"], &agents[0]["description"]),
        (&json!("completed"), &json!("goes on"))
    );
}

fn told_of(request: &Request) -> String {
    request.json()["messages"].to_string()
}
