//! What commands leave in the workspace that other programs obey: the person is told, and
//! `auto_allow` waits for an answer.

use serde_json::{Value, json};

use super::asking::{Talk, marks, times_run};
use super::leaving::started;
use super::sandbox_effects::at_level;
use super::{after, conversation, user};
use crate::support::chunks::{calls, says};
use crate::support::client::{ask_streamed, with};
use crate::support::server::{Builder, Server};
use crate::support::stream::Stream;
use crate::support::upstream::Upstream;

const INTERRUPTED: &str =
    "an earlier command was interrupted before what was left was looked at (`";
const LEFT: &str = "an earlier command left a nested repository: ";

fn with_auto_allow(builder: Builder) -> Builder {
    builder.config("sandbox.auto_allow", "true").environment("GIT_CONFIG_GLOBAL", "/dev/null")
}

/// A server on which commands in bubblewrap need no approval. `None`: it does not hold here.
async fn server(upstream: &Upstream) -> Option<Server> {
    at_level(with_auto_allow(Server::builder(upstream)), "bwrap").await
}

/// A server on which commands run outside of any sandbox, and nobody is asked.
async fn unconfined(upstream: &Upstream) -> Server {
    let builder = Server::builder(upstream)
        .argument("--sandbox=off")
        .argument("--permission-mode=bypassPermissions");
    builder.environment("GIT_CONFIG_GLOBAL", "/dev/null").start().await
}

fn makes_repository(directory: &str) -> Value {
    json!({ "command": format!("git init -q {directory}") })
}

fn talk(server: &Server) -> Talk {
    Talk::new(server.client()).with(json!({ "toolhand": { "session": "mine" } }))
}

/// Says this, in answer to which the model runs these commands one after the other. The turn ends
/// with its last words, or with a question.
async fn run(talk: &mut Talk, upstream: &Upstream, said: &str, commands: &[Value]) -> String {
    for command in commands {
        upstream.round(calls(&[("c", "Bash", command.clone())]));
    }
    upstream.round(says("Done."));
    talk.say(said).await
}

/// Starts a server that goes on with what one that is gone has left, and lets it be talked to.
async fn successor(upstream: &Upstream, gone: &Server, talk: &mut Talk) -> Server {
    let server = with_auto_allow(after(upstream, gone)).start().await;
    talk.client = server.client();
    server
}

/// What only reads is confined to reading, and asks nobody.
async fn reads_unasked(talk: &mut Talk, upstream: &Upstream) {
    let reads = json!({ "command": "ls *" });
    assert_eq!(run(talk, upstream, "Look.", &[reads]).await, "Done.");
}

#[tokio::test]
async fn g9_auto_allow_pauses_on_a_find_until_a_person_approves() {
    let upstream = Upstream::start();
    let Some(server) = server(&upstream).await else { return };
    let mut talk = talk(&server);
    assert_eq!(run(&mut talk, &upstream, "Go.", &[marks("a")]).await, "Done.");
    assert_eq!(times_run(&server, "a"), 1);

    let asked = run(&mut talk, &upstream, "On.", &[makes_repository("sub"), marks("b")]).await;
    assert!(asked.contains(LEFT) && asked.contains("`auto_allow` does not count"), "{asked}");
    assert_eq!(times_run(&server, "b"), 0);
    let answer = upstream.requests().last().expect("a request").json().to_string();
    assert!(answer.contains("(left behind: a nested repository: "), "{answer}");

    assert_eq!(talk.say("1").await, "Done.");
    assert_eq!(times_run(&server, "b"), 1);
    assert_eq!(run(&mut talk, &upstream, "On.", &[marks("c")]).await, "Done.");
    assert_eq!(times_run(&server, "c"), 1);
}

#[tokio::test]
async fn g9_the_pause_outlives_a_killed_server_and_ends_by_a_denial() {
    let upstream = Upstream::start();
    let Some(mut first) = server(&upstream).await else { return };
    let mut talk = talk(&first);
    assert_eq!(run(&mut talk, &upstream, "Go.", &[makes_repository("sub")]).await, "Done.");
    rustix::process::kill_process(first.pid(), rustix::process::Signal::KILL).expect("killed");
    first.stop();
    let _again = successor(&upstream, &first, &mut talk).await;
    reads_unasked(&mut talk, &upstream).await;
    let asked = run(&mut talk, &upstream, "On.", &[marks("b")]).await;
    assert!(asked.contains(LEFT), "{asked}");
    upstream.forget_script();
    upstream.round(calls(&[("d", "Bash", marks("d"))]));
    upstream.round(says("Done."));
    assert_eq!(talk.say("3").await, "Done.");
    assert_eq!((times_run(&first, "b"), times_run(&first, "d")), (0, 1));

    let done = run(&mut talk, &upstream, "On.", &[marks("c")]).await;
    assert!(!done.contains("needs your approval"), "{done}");
    assert_eq!(times_run(&first, "c"), 1);
}

#[tokio::test]
async fn g9_another_session_does_not_wait() {
    let upstream = Upstream::start();
    let Some(server) = server(&upstream).await else { return };
    run(&mut talk(&server), &upstream, "Go.", &[makes_repository("sub")]).await;
    let mut other = Talk::new(server.client()).with(json!({ "toolhand": { "session": "other" } }));
    assert_eq!(run(&mut other, &upstream, "Go.", &[marks("a")]).await, "Done.");
    assert_eq!(times_run(&server, "a"), 1);
}

#[tokio::test]
async fn g9_what_a_subagent_leaves_counts_for_its_session() {
    let upstream = Upstream::start();
    let Some(server) = server(&upstream).await else { return };
    let agent = json!({ "description": "Makes it.", "prompt": "Go.",
                       "subagent_type": "general-purpose" });
    upstream.round(calls(&[("t", "Task", agent)]));
    upstream.round(calls(&[("k", "Bash", makes_repository("sub"))]));
    upstream.round(says("Made."));
    let mut talk = talk(&server);
    let asked = run(&mut talk, &upstream, "Go.", &[marks("b")]).await;
    assert!(asked.contains(LEFT), "{asked}");
    assert_eq!(times_run(&server, "b"), 0);
    assert_eq!(talk.say("1").await, "Done.");
    assert_eq!(times_run(&server, "b"), 1);
}

#[tokio::test]
async fn g9_an_event_tells_the_person() {
    let upstream = Upstream::start();
    let server = unconfined(&upstream).await;
    let told = |progress: &str| {
        let (upstream, server, progress) = (&upstream, &server, progress.to_owned());
        async move {
            upstream.round(calls(&[("c", "Bash", makes_repository(&progress))]));
            upstream.round(says("Done."));
            let members = json!({ "toolhand": { "progress": progress } });
            server.client().streamed(&with(ask_streamed("Go."), members)).await
        }
    };
    let events = told("events").await;
    let left = events.progress("left_behind");
    assert_eq!(left.len(), 1, "{left:?}");
    let message = left[0]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("a nested repository: "), "{message}");
    assert!(message.contains("/events ("), "{message}");
    let reasoning = told("reasoning").await.reasoning();
    assert!(reasoning.contains("! a command left a nested repository: "), "{reasoning}");
    assert_eq!(told("none").await.reasoning(), "");
}

#[tokio::test]
async fn g9_what_a_task_has_left_is_told_by_the_first_answer_that_shows_it() {
    let upstream = Upstream::start();
    let server = unconfined(&upstream).await;
    let mut background = makes_repository("sub");
    background["run_in_background"] = json!(true);
    let mut talk = talk(&server);
    assert_eq!(run(&mut talk, &upstream, "Go.", &[background]).await, "Done.");
    while !has_ended(&server).await {
        tokio::task::yield_now().await;
    }

    assert_eq!(run(&mut talk, &upstream, "On.", &[]).await, "Done.");
    let streamed = async |progress: &str| {
        upstream.round(says("Done."));
        let members = json!({ "toolhand": { "session": "mine", "progress": progress } });
        let mut messages = talk.messages.clone();
        messages.push(user(&format!("With {progress}.")));
        let body = with(conversation(&messages), members);
        server.client().streamed(&with(body, json!({ "stream": true }))).await
    };
    for progress in ["none", "cards"] {
        assert_eq!(streamed(progress).await.reasoning(), "", "{progress}");
    }
    let told = streamed("reasoning").await.reasoning();
    assert!(told.contains("! a command left a nested repository: "), "{told}");
    let again = streamed("events").await;
    assert_eq!(again.progress("left_behind").len(), 0, "it is told once");
}

/// A command that leaves something in the workspace, and then takes for ever.
fn lasts_after(leaves: &str) -> Value {
    json!({ "command": format!("trap '' TERM; {leaves}; echo x >started; sleep 1000") })
}

/// Begins a turn with this command, and returns when it has left what it leaves.
async fn begin(server: &Server, upstream: &Upstream, talk: &Talk, command: Value) -> Stream {
    _ = std::fs::remove_file(server.workspace().join("started"));
    upstream.round(calls(&[("c", "Bash", command)]));
    let mut messages = talk.messages.clone();
    messages.push(user("Begin."));
    let body = with(conversation(&messages), talk.members.clone());
    let stream = server.client().stream(&with(body, json!({ "stream": true }))).await;
    started(server).await;
    stream
}

/// Returns when no command of any session is left that was not looked at.
async fn looked_at(server: &Server) {
    let is_noted = || {
        let sessions = std::fs::read_dir(server.state_dir().join("sessions"));
        sessions.into_iter().flatten().flatten().any(|session| {
            let noted = std::fs::read_dir(session.path().join("under-way"));
            noted.is_ok_and(|mut noted| noted.next().is_some())
        })
    };
    while is_noted() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn g9_what_an_interrupted_command_has_left_is_looked_at() {
    for is_cancelled in [false, true] {
        let upstream = Upstream::start();
        let Some(server) = server(&upstream).await else { return };
        let mut talk = talk(&server);
        let command = lasts_after("git init -q sub");
        let stream = begin(&server, &upstream, &talk, command).await;
        let turn = stream.head.header("x-toolhand-turn").expect("a turn").to_owned();
        if is_cancelled {
            let cancel = format!("/toolhand/v1/turns/{turn}/cancel");
            assert_eq!(server.client().send("POST", &cancel, None).await.status(), 200);
        }
        drop(stream);
        looked_at(&server).await;

        let asked = run(&mut talk, &upstream, "On.", &[marks("b")]).await;
        assert!(asked.contains(LEFT) && !asked.contains(INTERRUPTED), "{is_cancelled}: {asked}");
        assert_eq!(times_run(&server, "b"), 0);
        assert_eq!(talk.say("1").await, "Done.");
        assert_eq!(run(&mut talk, &upstream, "On.", &[marks("c")]).await, "Done.");
    }
}

#[tokio::test]
async fn g9_an_interrupted_command_that_has_left_nothing_pauses_nothing() {
    let upstream = Upstream::start();
    let Some(server) = server(&upstream).await else { return };
    let mut talk = talk(&server);
    drop(begin(&server, &upstream, &talk, lasts_after("echo y >ordinary")).await);
    looked_at(&server).await;
    assert_eq!(run(&mut talk, &upstream, "On.", &[marks("b")]).await, "Done.");
    assert_eq!(times_run(&server, "b"), 1);
}

#[tokio::test]
async fn g9_what_a_command_that_timed_out_has_left_is_told() {
    let upstream = Upstream::start();
    let builder = with_auto_allow(Server::builder(&upstream));
    let builder = builder.config("tools.bash.background_tasks", "0");
    let Some(server) = at_level(builder, "bwrap").await else { return };
    let mut talk = talk(&server);
    let mut command = lasts_after("git init -q sub");
    command["timeout"] = json!(1000);
    let asked = run(&mut talk, &upstream, "Go.", &[command, marks("b")]).await;
    assert!(asked.contains(LEFT), "{asked}");
    assert_eq!(times_run(&server, "b"), 0);
    let answer = upstream.requests().last().expect("a request").json().to_string();
    assert!(answer.contains("timed out") && answer.contains("(left behind: "), "{answer}");
    assert_eq!(talk.say("1").await, "Done.");
    assert_eq!(times_run(&server, "b"), 1);
}

#[tokio::test]
async fn g9_a_command_that_a_killed_server_was_running_pauses_until_the_answer() {
    let upstream = Upstream::start();
    for in_background in [false, true] {
        upstream.forget_script();
        let Some(mut first) = server(&upstream).await else { return };
        let mut talk = talk(&first);
        let mut command = lasts_after("git init -q sub");
        command["run_in_background"] = json!(in_background);
        upstream.otherwise(says("Done."));
        let stream = begin(&first, &upstream, &talk, command).await;
        rustix::process::kill_process(first.pid(), rustix::process::Signal::KILL).expect("killed");
        drop(stream);
        first.stop();
        let mut again = successor(&upstream, &first, &mut talk).await;
        reads_unasked(&mut talk, &upstream).await;
        let asked = run(&mut talk, &upstream, "On.", &[marks("b")]).await;
        assert!(asked.contains(INTERRUPTED) && asked.contains("git init -q sub"), "{asked}");
        assert!(asked.contains("Until you answer, `auto_allow` does not count"), "{asked}");
        assert_eq!(times_run(&first, "b"), 0);
        assert_eq!(talk.say("1").await, "Done.");
        assert_eq!(times_run(&first, "b"), 1);
        assert_eq!(run(&mut talk, &upstream, "On.", &[marks("c")]).await, "Done.");

        again.stop();
        let _last = successor(&upstream, &first, &mut talk).await;
        assert_eq!(run(&mut talk, &upstream, "On.", &[marks("d")]).await, "Done.");
        assert_eq!((times_run(&first, "c"), times_run(&first, "d")), (1, 1));
    }
}

/// Whether the only task is over, and was looked at.
async fn has_ended(server: &Server) -> bool {
    let tasks = server.client().get("/toolhand/v1/tasks").await.json();
    tasks["data"].as_array().expect("a list").iter().all(|task| task["status"] != "running")
}
