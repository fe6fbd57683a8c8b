//! Commands that go on in the background of a session: started, looked at, stopped, and ended with
//! what they belong to.

use std::fs;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::{assistant, conversation, user};
use crate::openapi::check_answer;
use crate::settings::client_keys::{add, key_command};
use crate::support::chunks::{calls, gate, says, status, text};
use crate::support::client::{Client, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

/// A conversation in a session called `mine`.
struct Talk<'a> {
    upstream: &'a Upstream,
    client: Client,
    messages: Vec<Value>,
}

impl<'a> Talk<'a> {
    fn new(upstream: &'a Upstream, client: Client) -> Self {
        let client = client.header("x-toolhand-session", "mine");
        Self { upstream, client, messages: Vec::new() }
    }

    /// The answer to a call that the model makes in a turn of its own.
    async fn call(&mut self, tool: &str, input: Value) -> String {
        let number = self.messages.len();
        self.messages.push(user(&format!("Turn {number}")));
        self.upstream.round(calls(&[(&format!("c{number}"), tool, input)]));
        self.upstream.round(says("Done."));
        let answer = self.client.chat(&conversation(&self.messages)).await;
        assert_eq!(answer.text(), "Done.");
        self.messages.push(assistant("Done."));
        let last = self.upstream.requests().pop().expect("a request").json();
        answers_in(&last).pop().expect("an answer")
    }

    /// Starts a task that runs until it is ended, and returns its id once it has begun.
    async fn start(&mut self) -> String {
        let command = "echo begun; trap '' TERM; while :; do env sleep 1000; done";
        let arguments = json!({ "command": command, "run_in_background": true });
        let started = self.call("Bash", arguments).await;
        let id = started.lines().next().and_then(|line| line.rsplit(' ').next());
        let id = id.expect("an id").to_owned();
        while !self.output_of(&id).await.contains("begun") {
            tokio::task::yield_now().await;
        }
        id
    }

    /// What is in the file of a task's output.
    async fn output_of(&self, id: &str) -> String {
        let tasks = self.tasks().await;
        let mut tasks = tasks.as_array().into_iter().flatten();
        let task = tasks.find(|task| task["id"] == id);
        let path = task.and_then(|task| task["output_path"].as_str());
        path.map(|path| fs::read_to_string(path).unwrap_or_default()).unwrap_or_default()
    }

    /// Another continuation of the conversation so far.
    fn branch(&self) -> Self {
        Self { client: self.client.clone(), messages: self.messages.clone(), ..*self }
    }

    /// How often the model is told in its newest request how the task ended.
    fn notices(&self, id: &str) -> usize {
        let request = self.upstream.requests().pop().expect("a request");
        let body = String::from_utf8(request.body).expect("text");
        body.matches(&format!("Background task {id} (")).count()
    }

    async fn tasks(&self) -> Value {
        self.client.get("/toolhand/v1/tasks").await.json()["data"].take()
    }

    /// Waits until the only task is not running.
    async fn ended(&self) -> Value {
        loop {
            let task = self.tasks().await[0].take();
            if task["status"] != "running" {
                return task;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn p16_a_command_that_takes_long_goes_on_and_is_read_later() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let mut talk = Talk::new(&upstream, server.client());
    let command = "echo begun; until [ -e go ]; do env sleep 0.01; done; echo built; exit 3";

    let arguments = json!({ "command": command, "timeout": 300, "description": "Build it" });
    let answer = talk.call("Bash", arguments).await;

    let (said, path) = answer.split_once("\nIts output: ").expect("the file");
    let (said, id) = said.split_once(" as background task ").expect("an id");
    assert_eq!(said, "begun\nStill running after 0.3 s: it goes on");
    assert!(path.starts_with(server.state_dir().to_str().unwrap()) && path.contains(id), "{path}");
    let listed = server.client().get("/toolhand/v1/tasks").await;
    check_answer("get", "/toolhand/v1/tasks", &listed);
    let listed = listed.json()["data"].take();
    assert_eq!(listed[0]["id"], id);
    assert_eq!((&listed[0]["status"], &listed[0]["exit_code"]), (&json!("running"), &Value::Null));
    assert_eq!(listed[0]["description"], "Build it");
    assert_eq!(listed[0]["output_path"], path);
    let looked = talk.call("TaskOutput", json!({ "task_id": id, "block": false })).await;
    assert_eq!(looked, format!("(no new output)\nTask {id}: running"));

    fs::write(server.workspace().join("go"), "").expect("a new file");
    let looked = talk.call("BashOutput", json!({ "bash_id": id })).await;
    assert_eq!(looked, format!("built\nTask {id}: failed, exit code 3"));
    assert_eq!(talk.ended().await["exit_code"], 3);
    assert_eq!(fs::read_to_string(path).expect("the output"), "begun\nbuilt\n");
    let read = talk.call("Read", json!({ "file_path": path, "offset": 2 })).await;
    assert!(read.contains("2\tbuilt"), "{read}");
}

/// A task that prints a line, and one more when the file `go` is made.
async fn build(talk: &mut Talk<'_>) -> String {
    let command = "echo begun; until [ -e go ]; do env sleep 0.01; done; echo built";
    let started = talk.call("Bash", json!({ "command": command, "run_in_background": true })).await;
    let (said, path) = started.split_once("\nIts output: ").expect("the file");
    while fs::read_to_string(path).is_ok_and(|printed| printed.is_empty()) {
        tokio::task::yield_now().await;
    }
    said.rsplit(' ').next().expect("an id").to_owned()
}

#[tokio::test]
async fn each_branch_of_a_conversation_sees_the_output_and_hears_of_the_end() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let mut talk = Talk::new(&upstream, server.client());
    let mut before = talk.branch();
    let id = build(&mut talk).await;
    let mut branches = [talk.branch(), talk.branch()];
    let look = json!({ "task_id": id, "block": false });
    for branch in &mut branches {
        let looked = branch.call("TaskOutput", look.clone()).await;
        assert_eq!(looked, format!("begun\nTask {id}: running"));
        let looked = branch.call("TaskOutput", look.clone()).await;
        assert_eq!(looked, format!("(no new output)\nTask {id}: running"));
    }

    fs::write(server.workspace().join("go"), "").expect("a new file");
    talk.ended().await;

    for branch in &mut branches {
        branch.call("ListTasks", json!({})).await;
        assert_eq!(branch.notices(&id), 1);
        branch.call("ListTasks", json!({})).await;
        assert_eq!(branch.notices(&id), 1, "the first one, once more");
        let looked = branch.call("TaskOutput", look.clone()).await;
        assert_eq!(looked, format!("built\nTask {id}: completed, exit code 0"));
    }
    // This one told of it itself.
    let looked = talk.call("TaskOutput", look).await;
    assert_eq!(looked, format!("begun\nbuilt\nTask {id}: completed, exit code 0"));
    talk.call("ListTasks", json!({})).await;
    assert_eq!(talk.notices(&id), 1);
    before.call("ListTasks", json!({})).await;
    assert_eq!(before.notices(&id), 0, "it has not started the task");
}

#[tokio::test]
async fn an_end_is_told_again_if_nobody_has_heard_it() {
    let upstream = Upstream::start();
    let mut server = Server::builder(&upstream).free().start().await;
    let mut talk = Talk::new(&upstream, server.client());
    let id = build(&mut talk).await;
    fs::write(server.workspace().join("go"), "").expect("a new file");
    talk.ended().await;

    // Upstream refuses the turn that tells it.
    upstream.round(status(400, &json!({ "error": { "message": "No.", "type": "x" } })));
    let mut messages = talk.messages.clone();
    messages.push(user("How is it?"));
    let refused = talk.client.post("/v1/chat/completions", &conversation(&messages)).await;
    assert_eq!((refused.status(), talk.notices(&id)), (400, 1));
    talk.call("ListTasks", json!({})).await;
    assert_eq!(talk.notices(&id), 1);

    fs::remove_file(server.workspace().join("go")).expect("our own file");
    let id = build(&mut talk).await;
    kill_process(server.pid(), Signal::KILL).expect("our child is there");
    server.stop();
    let server = super::after(&upstream, &server).free().start().await;
    let messages = std::mem::take(&mut talk.messages);
    let mut talk = Talk { messages, ..Talk::new(&upstream, server.client()) };
    talk.call("ListTasks", json!({})).await;
    let told = upstream.requests().pop().expect("a request").json().to_string();
    let how = "killed (the server restarted, or the session had been idle too long)";
    assert!(told.contains(&format!("Background task {id} (echo begun; until")), "{told}");
    assert_eq!(told.matches(how).count(), 1, "{told}");
}

#[tokio::test]
async fn p16_a_task_is_its_sessions_alone_and_ends_when_it_is_stopped() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let other_key = add(&server, &["other"]);
    let mut talk = Talk::new(&upstream, server.client());
    let id = talk.start().await;

    let mut other = Talk::new(&upstream, Client::new(server.address(), &other_key));
    for tool in ["TaskOutput", "TaskStop"] {
        let told = other.call(tool, json!({ "task_id": id })).await;
        let unknown = format!("Error: no background task is called {id}; ListTasks shows them");
        assert_eq!(told, unknown);
    }
    assert_eq!(other.call("ListTasks", json!({})).await, "No background tasks");
    assert_eq!(other.tasks().await, json!([]));

    assert!(talk.call("ListTasks", json!({})).await.starts_with(&format!("{id}  running  ")));
    let stopped = talk.call("KillShell", json!({ "shell_id": id })).await;
    assert_eq!(stopped, format!("Successfully stopped task: {id}"));
    server.no_children().await;
    let again = talk.call("TaskStop", json!({ "task_id": id })).await;
    assert_eq!(again, format!("Error: task {id} has ended already: killed"));
}

#[tokio::test]
async fn p16_a_cancelled_turn_leaves_its_task_and_a_deleted_session_takes_it_along() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let client = server.client().header("x-toolhand-session", "mine");
    let command = json!({ "command": "env sleep 1000", "run_in_background": true });
    upstream.round(calls(&[("c1", "Bash", command)]));
    upstream.round(vec![text("It runs"), gate("more")]);
    let request = with(conversation(&[user("Go.")]), json!({ "stream": true }));
    let stream = client.stream(&request).await;
    upstream.reached("more").await;

    drop(stream);
    upstream.abandoned(1).await;

    let tasks = client.get("/toolhand/v1/tasks").await.json();
    assert_eq!(tasks["data"][0]["status"], "running", "{tasks}");
    let deleted = server.client().send("DELETE", "/toolhand/v1/sessions/mine", None).await;
    assert_eq!(deleted.status(), 200, "{deleted:?}");
    server.no_children().await;
    assert_eq!(client.get("/toolhand/v1/tasks").await.json()["data"], json!([]));
}

#[tokio::test]
async fn p16_a_task_ends_with_its_key() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let key = add(&server, &["bob"]);
    let mut talk = Talk::new(&upstream, Client::new(server.address(), &key));
    talk.start().await;

    assert!(key_command(&server, &["revoke", "bob"]).status.success());

    // The server looks at its keys with a request, and by itself every few seconds.
    assert_eq!(talk.client.get("/toolhand/v1/tasks").await.status(), 401);
    server.no_children().await;
}

#[tokio::test]
async fn p16_a_task_ends_when_its_session_is_idle() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).free().config("sessions.idle", "\"200ms\"");
    let server = builder.start().await;
    let mut talk = Talk::new(&upstream, server.client());

    let id = talk.start().await;

    server.no_children().await;
    let told = talk.call("TaskOutput", json!({ "task_id": id })).await;
    assert!(told.starts_with("Error: no background task is called"), "{told}");
}

#[tokio::test]
async fn p16_a_server_that_is_killed_or_stops_leaves_no_task() {
    let upstream = Upstream::start();
    let mut server = Server::builder(&upstream).free().start().await;
    Talk::new(&upstream, server.client()).start().await;
    kill_process(server.pid(), Signal::KILL).expect("our child is there");
    // It fails if a process is left.
    server.stop();

    let mut server = super::after(&upstream, &server).free().start().await;
    let mut talk = Talk::new(&upstream, server.client());
    talk.start().await;
    assert_eq!(talk.tasks().await.as_array().map(Vec::len), Some(1));
    server.stop();
}

#[tokio::test]
async fn p16_nothing_is_offered_that_does_not_work() {
    let upstream = Upstream::start();
    let offered = async |settings: &[(&str, &str)]| {
        let mut builder = Server::builder(&upstream).free();
        for (key, value) in settings {
            builder = builder.config(key, value);
        }
        let server = builder.start().await;
        upstream.round(says("Hi."));
        server.client().chat(&conversation(&[user("Hi")])).await;
        let request = upstream.requests().pop().expect("a request").json();
        let tools = request["tools"].as_array().expect("tools").clone();
        let name = |tool: &Value| tool["function"]["name"].as_str().expect("a name").to_owned();
        let is_of_tasks = |name: &str| matches!(name, "TaskOutput" | "TaskStop" | "ListTasks");
        let of_tasks = tools.iter().filter(|tool| is_of_tasks(&name(tool))).count();
        let bash = tools.iter().find(|tool| name(tool) == "Bash");
        let input = bash.map(|bash| &bash["function"]["parameters"]["properties"]);
        (of_tasks, input.is_some_and(|input| input["run_in_background"].is_object()))
    };
    assert_eq!(offered(&[]).await, (3, true));
    assert_eq!(offered(&[("tools.bash.background_tasks", "0")]).await, (0, false));
    // Agents can still work in the background.
    assert_eq!(offered(&[("tools.disable", "[\"Bash\"]")]).await, (3, false));
    assert_eq!(offered(&[("tools.disable", "[\"Bash\", \"Task\"]")]).await, (0, false));
}

#[tokio::test]
async fn a_start_removes_what_belongs_to_no_session() {
    let upstream = Upstream::start();
    let mut server = Server::builder(&upstream).free().start().await;
    let long = json!({ "command": "seq 1 100000" });
    let answer = Talk::new(&upstream, server.client()).call("Bash", long).await;
    let (_, path) = answer.split_once("the whole text is in ").expect("a file");
    let (path, _) = path.split_once(": Read").expect("a file");
    assert_eq!(fs::metadata(path).expect("the output").len(), 588_895);
    server.stop();
    let sessions = server.state_dir().join("sessions");
    let unknown = sessions.join("sess_0123456789abcdef0123456789abcdef");
    fs::create_dir_all(unknown.join("output")).expect("a new directory");

    let server = super::after(&upstream, &server).free().start().await;

    assert!(!unknown.exists() && fs::metadata(path).is_ok());
    let deleted = server.client().send("DELETE", "/toolhand/v1/sessions/mine", None).await;
    assert_eq!(deleted.status(), 200, "{deleted:?}");
    while fs::read_dir(&sessions).expect("the directories").next().is_some() {
        tokio::task::yield_now().await;
    }
}
