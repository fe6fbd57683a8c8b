//! Agents that work on when their turn is over.

use serde_json::{Value, json};

use super::{agent_id, last_answer, task};
use crate::sessions::{assistant, conversation, user};
use crate::support::chunks::{calls, gate, says};
use crate::support::client::with;
use crate::support::server::Server;
use crate::support::upstream::{Request, Step, Upstream};
use crate::support::watch;
use crate::turn::answers_in;

fn in_session(messages: &[serde_json::Value]) -> serde_json::Value {
    with(conversation(messages), json!({ "toolhand": { "session": "work" } }))
}

/// The requests with this model so far.
fn of_model(upstream: &Upstream, model: &str) -> Vec<Request> {
    let requests = upstream.requests().into_iter();
    requests.filter(|request| request.json()["model"] == model).collect()
}

#[tokio::test]
async fn it_answers_at_once_and_tells_when_it_has_ended() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let client = server.client();
    let input =
        task("Explore", "Find it.", json!({ "run_in_background": true, "model": "sonnet" }));
    upstream.round_of("scripted", calls(&[("c1", "Task", input)]));
    upstream.round_of("sonnet", [vec![gate("agent")], says("In notes.txt.")].concat());
    upstream.round_of("scripted", says("It works on."));

    let answer = client.chat(&in_session(&[user("Go.")])).await.text();
    assert_eq!(answer, "It works on.");
    let started = last_answer(&of_model(&upstream, "scripted").pop().unwrap());
    let id = agent_id(&started);
    upstream.reached("agent").await;
    let listed = client.get("/toolhand/v1/tasks").await.json();
    assert_eq!(listed["data"][0]["id"], id.as_str(), "{listed:#}");
    assert_eq!(listed["data"][0]["kind"], "agent");
    assert_eq!(listed["data"][0]["status"], "running");
    let shown = client.get("/toolhand/v1/sessions/work").await.json();
    assert_eq!(shown["tasks"], listed["data"]);
    assert_eq!(
        (&shown["agents"][0]["id"], &shown["agents"][0]["status"]),
        (&json!(id), &json!("running"))
    );

    // It runs: it is not resumed beside itself.
    let resume = json!({ "description": "d", "prompt": "More.", "resume": id });
    upstream.round_of("scripted", calls(&[("c3", "Task", resume)]));
    upstream.round_of("scripted", says("It runs."));
    client.chat(&in_session(&[user("Again.")])).await;
    let refused = last_answer(&of_model(&upstream, "scripted").pop().unwrap());
    assert_eq!(
        refused,
        format!("Error: agent {id} is still running; wait for its end, then resume it")
    );

    // Waiting for it.
    upstream.round_of("scripted", calls(&[("c2", "TaskOutput", json!({ "task_id": id }))]));
    upstream.round_of("scripted", says("Found."));
    let list = [user("Go."), assistant(&answer), user("And?")];
    let body = in_session(&list);
    let asking = client.chat(&body);
    upstream.open("agent");
    let answer = asking.await.text();

    assert_eq!(answer, "Found.");
    let output = last_answer(&of_model(&upstream, "scripted").pop().unwrap());
    assert!(output.starts_with("In notes.txt.\nagent_id: "), "{output}");
    assert!(output.contains(&format!("Task {id}: completed")), "{output}");
    let shown = client.get("/toolhand/v1/sessions/work").await.json();
    let agent = &shown["agents"][0];
    assert_eq!((&agent["status"], &agent["rounds"]), (&json!("completed"), &json!(1)), "{agent}");
    assert_eq!(shown["tasks"][0]["status"], "completed");
}

#[tokio::test]
async fn the_next_turn_is_told_of_its_end_and_it_can_be_stopped() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).start().await;
    let client = server.client();
    let input = |model: &str| {
        task("Explore", "Find it.", json!({ "run_in_background": true, "model": model }))
    };
    let both = [("c1", "Task", input("sonnet")), ("c2", "Task", input("haiku"))];
    upstream.round_of("scripted", calls(&both));
    upstream.round_of("sonnet", says("Done."));
    upstream.round_of("haiku", vec![gate("never")]);
    upstream.round_of("scripted", says("Both work on."));
    let answer = client.chat(&in_session(&[user("Go.")])).await.text();
    let answers = answers_in(&of_model(&upstream, "scripted").pop().unwrap().json());
    let started: Vec<String> = answers.iter().map(|answer| agent_id(answer)).collect();
    upstream.reached("never").await;

    upstream.round_of("scripted", calls(&[("c3", "TaskStop", json!({ "task_id": started[1] }))]));
    upstream.round_of("scripted", says("Stopped."));
    let list = [user("Go."), assistant(&answer), user("Stop it.")];
    client.chat(&in_session(&list)).await;

    let requests = of_model(&upstream, "scripted");
    let asked = requests[requests.len() - 2].json().to_string();
    assert!(
        asked.contains(&format!("Background task {} (looks around) completed", started[0])),
        "{asked}"
    );
    let stopped = last_answer(&requests[requests.len() - 1]);
    assert_eq!(stopped, format!("Successfully stopped task: {}", started[1]));
}

/// An agent that writes a file in the background. The turn that started it is over.
/// The agent ends with `end` when it has its answer.
async fn writes_in_background(server: &Server, upstream: &Upstream, end: Option<Vec<Step>>) {
    let prompt = json!({ "run_in_background": true, "model": "sonnet" });
    let input = task("general-purpose", "Write it.", prompt);
    upstream.round_of("scripted", calls(&[("c1", "Task", input)]));
    let write = json!({ "file_path": "new.txt", "content": "new\n" });
    for round in [calls(&[("k1", "Write", write)])].into_iter().chain(end) {
        upstream.round_of("sonnet", round);
    }
    upstream.round_of("scripted", says("It works on."));
    server.client().chat(&in_session(&[user("Go.")])).await;
}

/// The one approval that is open.
async fn open_approval(server: &Server) -> Value {
    let client = server.client();
    let asked = async {
        loop {
            let mut listed = client.get("/toolhand/v1/approvals").await.json();
            match listed["data"].as_array().map(Vec::len) {
                Some(1) => return listed["data"][0].take(),
                Some(0) => tokio::task::yield_now().await,
                _ => panic!("{listed:#}"),
            }
        }
    };
    watch("an approval that is open", asked).await
}

#[tokio::test]
async fn what_an_agent_in_the_background_asks_is_decided_over_rest() {
    for (decision, answer) in [
        (json!({ "decision": "allow" }), "Created"),
        (json!({ "decision": "deny", "feedback": "Not here." }), "Not here."),
    ] {
        let upstream = Upstream::start();
        let server = Server::builder(&upstream).config("approval.wait", "\"10m\"").start().await;
        writes_in_background(&server, &upstream, Some(says("That is all."))).await;

        let approval = open_approval(&server).await;
        let effect = approval["effect"].as_str().unwrap();
        assert!(effect.starts_with(
            "The agent general-purpose asks. Its task, in the model's words: `looks around`."
        ));
        assert!(effect.contains("+new"), "{effect}");
        let path = format!("/toolhand/v1/approvals/{}", approval["id"].as_str().unwrap());
        let decided = server.client().post(&path, &decision).await;
        assert_eq!(decided.status(), 200);
        upstream.request(3).await;

        let told = last_answer(&of_model(&upstream, "sonnet")[1]);
        assert!(told.contains(answer), "{told}");
        let is_allowed = decision["decision"] == "allow";
        assert_eq!(server.workspace().join("new.txt").exists(), is_allowed);
        let again = server.client().post(&path, &decision).await;
        assert_eq!(again.json()["error"]["code"], "approval_closed", "once alone");
    }
}

#[tokio::test]
async fn x5_what_nobody_decides_in_time_is_denied_for_good() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("approval.wait", "\"1ms\"").start().await;
    writes_in_background(&server, &upstream, Some(says("That is all."))).await;
    upstream.request(3).await;
    let refused = last_answer(&of_model(&upstream, "sonnet")[1]);
    assert!(refused.contains("nobody has decided in time"), "{refused}");
    assert!(refused.contains("permissions.allow"), "{refused}");
    let listed = server.client().get("/toolhand/v1/approvals").await.json();
    assert_eq!(listed["data"], json!([]), "too late");
    assert!(!server.workspace().join("new.txt").exists());
}

/// A reply in the conversation decides nothing about it.
#[tokio::test]
async fn x5_an_approval_of_the_background_is_closed_when_its_agent_is_stopped() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("approval.wait", "\"10m\"").start().await;
    writes_in_background(&server, &upstream, None).await;
    let approval = open_approval(&server).await;
    let path = format!("/toolhand/v1/approvals/{}", approval["id"].as_str().unwrap());
    let id = server.client().get("/toolhand/v1/tasks").await.json()["data"][0]["id"].clone();

    upstream.round_of("scripted", calls(&[("c2", "TaskStop", json!({ "task_id": id }))]));
    upstream.round_of("scripted", says("Stopped."));
    let list = [user("Go."), assistant("It works on."), user("1")];
    server.client().chat(&in_session(&list)).await;
    let late = server.client().post(&path, &json!({ "decision": "allow" })).await;
    assert_eq!(late.json()["error"]["code"], "approval_closed");
    assert!(!server.workspace().join("new.txt").exists());

    // Nor does it count for a later run of the same agent.
    let again = json!({
        "description": "again", "prompt": "More.", "resume": id, "run_in_background": true,
        "subagent_type": "general-purpose",
    });
    upstream.round_of("scripted", calls(&[("c3", "Task", again)]));
    upstream.round_of("sonnet", vec![gate("more")]);
    upstream.round_of("scripted", says("It works again."));
    let list = [list.as_slice(), &[assistant("Stopped."), user("Again.")]].concat();
    server.client().chat(&in_session(&list)).await;
    upstream.reached("more").await;
    let listed = server.client().get("/toolhand/v1/approvals").await.json();
    assert_eq!(listed["data"], json!([]));
    let late = server.client().post(&path, &json!({ "decision": "allow" })).await;
    assert_eq!(late.json()["error"]["code"], "approval_closed");
}

#[tokio::test]
async fn an_agent_in_the_background_is_asked_for_nothing() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).start().await;
    writes_in_background(&server, &upstream, Some(says("I may not."))).await;
    upstream.request(3).await;
    let refused = last_answer(&of_model(&upstream, "sonnet")[1]);
    assert!(refused.starts_with("Error: not permitted: Write needs an approval"), "{refused}");
    assert!(refused.contains("permissions.allow"), "{refused}");
    assert!(!server.workspace().join("new.txt").exists());
}

#[tokio::test]
async fn an_agent_of_an_earlier_turn_writes_nothing_while_the_session_plans() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).config("permissions.mode", r#""acceptEdits""#).start().await;
    let client = server.client();
    let input = task(
        "general-purpose",
        "Write it.",
        json!({ "run_in_background": true, "model": "sonnet" }),
    );
    upstream.round_of("scripted", calls(&[("c1", "Task", input)]));
    let write = json!({ "file_path": "new.txt", "content": "new\n" });
    let late = [vec![gate("agent")], calls(&[("k1", "Write", write)])].concat();
    upstream.round_of("sonnet", late);
    upstream.round_of("sonnet", says("I may not."));
    upstream.round_of("scripted", says("It works on."));
    let answer = client.chat(&in_session(&[user("Go.")])).await.text();
    upstream.reached("agent").await;

    upstream.round_of("scripted", says("I plan."));
    let list = [user("Go."), assistant(&answer), user("Plan.")];
    let mut body = in_session(&list);
    body["toolhand"]["mode"] = json!("plan");
    client.chat(&body).await;
    upstream.open("agent");
    upstream.request(4).await;

    let refused = last_answer(&of_model(&upstream, "sonnet")[1]);
    assert!(
        refused.contains("in the mode plan, which only looks; the session plans: end with"),
        "{refused}"
    );
    assert!(!server.workspace().join("new.txt").exists());
}

#[tokio::test]
async fn an_agent_that_goes_on_in_the_background_is_one_task() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).start().await;
    let client = server.client();
    let input =
        task("Explore", "Find it.", json!({ "run_in_background": true, "model": "sonnet" }));
    upstream.round_of("scripted", calls(&[("c1", "Task", input)]));
    upstream.round_of("sonnet", says("First."));
    upstream.round_of("scripted", says("It works on."));
    let answer = client.chat(&in_session(&[user("Go.")])).await.text();
    let id = agent_id(&last_answer(&of_model(&upstream, "scripted")[1]));
    upstream.request(2).await;

    let look = json!({ "task_id": id });
    let again =
        json!({ "description": "d", "prompt": "More.", "resume": id, "run_in_background": true });
    upstream.round_of("scripted", calls(&[("c2", "TaskOutput", look.clone())]));
    upstream.round_of("scripted", calls(&[("c3", "Task", again)]));
    upstream.round_of("sonnet", [vec![gate("more")], says("Second.")].concat());
    upstream.round_of("scripted", calls(&[("c4", "TaskStop", look)]));
    upstream.round_of("scripted", says("Stopped."));
    let list = [user("Go."), assistant(&answer), user("Again.")];
    client.chat(&in_session(&list)).await;

    let requests = of_model(&upstream, "scripted");
    let stopped = last_answer(&requests[requests.len() - 1]);
    assert_eq!(stopped, format!("Successfully stopped task: {id}"));
    let listed = client.get("/toolhand/v1/tasks").await.json();
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(1), "{listed:#}");
    upstream.forget_script();
}
