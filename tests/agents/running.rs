//! Subagents that run to their end within one turn.

use std::fs::File;
use std::io::Read as _;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;

use super::{agent_id, agents_shown, counted, instructions, last_answer, offered, task};
use crate::sessions::told;
use crate::support::chunks::{call, calls, end, finish, gate, says, text};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::support::watch;
use crate::turn::answers_in;

#[tokio::test]
async fn an_agent_works_and_its_last_words_are_the_answer() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let input = task("Explore", "Where is the needle? quick", json!({}));
    upstream.round(counted(calls(&[("c1", "Task", input)]), 100, 10));
    upstream.round(counted(calls(&[("k1", "Grep", json!({ "pattern": "needle" }))]), 50, 5));
    upstream.round(counted(says("In notes.txt."), 60, 6));
    upstream.round(counted(says("It is in notes.txt."), 120, 12));

    let body =
        with(ask_streamed("Find it."), json!({ "stream_options": { "include_usage": true } }));
    let answer = server.client().streamed(&body).await;

    assert_eq!(answer.text(), "It is in notes.txt.");
    let [main, first, second, last] = &upstream.requests()[..] else { panic!("four requests") };
    assert!(offered(main).contains(&"Task".to_owned()));
    assert_eq!(told(first), ["user: Where is the needle? quick"]);
    assert!(instructions(first).starts_with("You search files for another agent"));
    let tools = offered(first);
    assert!(
        !tools
            .iter()
            .any(|name| ["Task", "Edit", "Write", "AskUserQuestion"].contains(&name.as_str())),
        "{tools:?}"
    );
    assert!(tools.contains(&"Grep".to_owned()) && tools.contains(&"Bash".to_owned()), "{tools:?}");
    assert!(last_answer(second).contains("notes.txt"), "{}", last_answer(second));
    let told = last_answer(last);
    assert!(told.starts_with("In notes.txt.\nagent_id: agent_"), "{told}");
    assert!(told.contains(" · 1 tool use · ") && told.ends_with(" s · 121 tokens"), "{told}");
    assert_eq!(answer.usage.as_ref().unwrap()["total_tokens"], 110 + 121 + 132);
    assert_eq!(answer.toolhand["rounds"], 2);
    assert_eq!(answer.toolhand["tool_calls"], 1);
}

#[tokio::test]
async fn agents_start_while_the_parent_speaks_and_run_side_by_side() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let one = task("Explore", "One?", json!({ "model": "sonnet" }));
    let two = task("Explore", "Two?", json!({ "model": "haiku" }));
    let mut parent = call(0, "c1", "Task", &one);
    parent.extend(call(1, "c2", "Task", &two));
    parent.push(text("Meanwhile"));
    parent.push(gate("parent"));
    parent.extend(end("tool_calls"));
    upstream.round_of("scripted", parent);
    upstream.round_of("sonnet", [vec![gate("one")], says("One.")].concat());
    upstream.round_of("haiku", [vec![gate("two")], says("Two.")].concat());
    upstream.round_of("scripted", says("Both."));

    let client = server.client();
    let stream = client.stream(&ask_streamed("Ask both.")).await;
    // The first is sealed by the second, so it runs while the parent still speaks.
    upstream.reached("one").await;
    upstream.open("parent");
    upstream.reached("two").await;
    upstream.open("two");
    upstream.open("one");
    let rest = stream.finish().await;

    assert!(rest.text().ends_with("Both."), "{}", rest.text());
    let last = upstream.requests().pop().expect("a request").json();
    let answers = answers_in(&last);
    assert!(answers[0].starts_with("One.") && answers[1].starts_with("Two."), "{answers:?}");
}

#[tokio::test]
async fn a_fifth_agent_waits_for_its_turn() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("subagents.max_running", "1").start().await;
    let one = task("Explore", "One?", json!({ "model": "sonnet" }));
    let two = task("Explore", "Two?", json!({ "model": "haiku" }));
    upstream.round_of("scripted", calls(&[("c1", "Task", one), ("c2", "Task", two)]));
    upstream.round_of("sonnet", [vec![gate("one")], says("One.")].concat());
    upstream.round_of("scripted", says("Both."));

    let client = server.client();
    let stream = client.stream(&ask_streamed("Ask both.")).await;
    upstream.reached("one").await;
    assert_eq!(upstream.requests().len(), 2, "the second one waits");
    upstream.round_of("haiku", says("Two."));
    upstream.open("one");
    stream.finish().await;

    let last = upstream.requests().pop().expect("a request");
    assert!(last_answer(&last).starts_with("Two."), "{}", last_answer(&last));
}

#[tokio::test]
async fn x8_what_an_agent_is_not_offered_does_not_run() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().file("a.txt", "old\n").start().await;
    upstream.round(calls(&[("c1", "Task", task("Explore", "Look.", json!({})))]));
    let write = json!({ "file_path": "a.txt", "content": "new\n" });
    upstream.round(calls(&[
        ("k1", "Write", write.clone()),
        ("k2", "write_file", write),
        ("k3", "Task", task("general-purpose", "Write it.", json!({}))),
        ("k4", "Agent", task("general-purpose", "Write it.", json!({}))),
        ("k5", "spawn_agent", task("general-purpose", "Write it.", json!({}))),
        ("k6", "Bash", json!({ "command": "touch b.txt" })),
        ("k7", "AskUserQuestion", json!({ "questions": [] })),
        ("k8", "weather", json!({ "city": "Oslo" })),
    ]));
    upstream.round(says("I could not."));
    upstream.round(says("It could not."));

    let weather = json!({ "type": "function", "function": { "name": "weather" } });
    server.client().chat(&with(ask("Go."), json!({ "tools": [weather] }))).await;

    let answers = answers_in(&upstream.requests()[2].json());
    for (at, name) in ["Write", "write_file", "Task", "Agent", "spawn_agent"].iter().enumerate() {
        assert!(
            answers[at].starts_with(&format!("Error: no tool named {name} is available")),
            "{answers:?}"
        );
    }
    assert!(answers[5].contains("changes nothing"), "{answers:?}");
    assert!(answers[6].starts_with("Error: no tool named AskUserQuestion"), "{answers:?}");
    assert!(answers[7].starts_with("Error: no tool named weather"), "the client's: {answers:?}");
    assert_eq!(server.file("a.txt"), "old\n");
    assert!(!server.workspace().join("b.txt").exists());
}

#[tokio::test]
async fn a_wrong_type_and_a_wrong_model_are_answered_with_what_there_is() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).start().await;
    upstream.round(calls(&[
        ("c1", "Task", task("Explorer", "Look.", json!({}))),
        ("c2", "Task", task("Explore", "Look.", json!({ "model": "gpt-9" }))),
        ("c3", "Task", task("Explore", "  ", json!({}))),
        ("c4", "Task", task("Explore", "Look.", json!({ "resume": "agent_x" }))),
    ]));
    upstream.round(says("Well."));

    server.client().chat(&ask("Go.")).await;

    let answers = answers_in(&upstream.requests().pop().unwrap().json());
    assert_eq!(
        answers[0],
        "Error: there is no agent type Explorer; use one of: general-purpose, Explore, Plan, Bash"
    );
    assert_eq!(
        answers[1],
        "Error: there is no model \"gpt-9\" for agents; use one of: inherit, sonnet, opus, haiku"
    );
    assert!(answers[2].starts_with("Error: invalid input: prompt is empty"), "{answers:?}");
    assert_eq!(
        answers[3],
        "Error: no agent of this session is called agent_x; start one without `resume`"
    );
}

#[tokio::test]
async fn a_model_that_upstream_does_not_know_is_replaced() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).start().await;
    let input = task("Explore", "Look.", json!({ "model": "opus" }));
    upstream.round_of("scripted", calls(&[("c1", "Task", input)]));
    upstream.round_of(
        "opus",
        crate::support::chunks::status(
            404,
            &json!({ "error": { "message": "no such model", "type": "not_found_error", "code": "model_not_found" } }),
        ),
    );
    upstream.round_of("scripted", says("Seen."));
    upstream.round_of("scripted", says("Done."));

    server.client().chat(&ask("Go.")).await;

    let last = upstream.requests().pop().unwrap();
    let answer = last_answer(&last);
    assert!(answer.starts_with("Seen.\n(upstream knows no model opus"), "{answer}");
}

#[tokio::test]
async fn its_rounds_end_with_what_it_said() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    let input = task("Explore", "Look.", json!({ "max_turns": 1 }));
    upstream.round(calls(&[("c1", "Task", input)]));
    let mut round = vec![text("I begin with the notes.")];
    round.extend(call(0, "k1", "Read", &json!({ "file_path": "notes.txt" })));
    round.push(finish("tool_calls"));
    round.push(crate::support::chunks::done());
    upstream.round(round);
    upstream.round(says("Done."));

    server.client().chat(&ask("Go.")).await;

    let last = upstream.requests().pop().unwrap();
    let answer = last_answer(&last);
    assert!(
        answer.starts_with("I begin with the notes.\n(stopped after 1 round)\nagent_id: "),
        "{answer}"
    );
}

#[tokio::test]
async fn a_failure_tells_its_cause_and_the_id() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("upstream.retries", "0").start().await;
    upstream.round(calls(&[("c1", "Task", task("Explore", "Look.", json!({})))]));
    upstream.round(crate::support::chunks::status(
        401,
        &json!({ "error": { "message": "key sk-secret is wrong" } }),
    ));
    upstream.round(says("It failed."));

    server.client().chat(&ask("Go.")).await;

    let answer = last_answer(&upstream.requests().pop().unwrap());
    assert!(answer.starts_with("Error: the agent failed: "), "{answer}");
    assert!(!answer.contains("sk-secret"), "{answer}");
    let id = agent_id(&answer);
    let agents = agents_shown(&server).await;
    assert_eq!((&agents[0]["id"], &agents[0]["status"]), (&json!(id), &json!("failed")));
}

#[tokio::test]
async fn clients_are_told_of_its_steps() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("notes.txt", "needle\n").start().await;
    for progress in ["reasoning", "events"] {
        upstream.round(calls(&[("c1", "Task", task("Explore", "Look.", json!({})))]));
        upstream.round(calls(&[("k1", "Read", json!({ "file_path": "notes.txt" }))]));
        upstream.round(says("Seen."));
        upstream.round(says("Done."));
        let body = with(ask_streamed("Go."), json!({ "toolhand": { "progress": progress } }));
        let answer = server.client().streamed(&body).await;
        assert_eq!(answer.text(), "Done.");
        if progress == "reasoning" {
            let reasoning = answer.reasoning();
            assert!(reasoning.contains("→ Task Explore: looks around\n"), "{reasoning}");
            assert!(reasoning.contains("↳ Explore: → Read "), "{reasoning}");
            assert!(reasoning.contains("↳ Explore: ✓ Read "), "{reasoning}");
        } else {
            let steps = answer.progress("subagent");
            let steps: Vec<_> = steps.iter().map(|step| step["event"].as_str().unwrap()).collect();
            assert_eq!(steps, ["start", "tool_start", "tool_end", "end"]);
            assert_eq!(
                answer.progress("tool_start").len(),
                1,
                "its own calls are not the main agent's"
            );
        }
    }
}

#[tokio::test]
async fn what_four_agents_run_ends_when_the_client_leaves() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let models = ["sonnet", "haiku", "opus", "inherit"];
    let inputs = models.map(|model| task("general-purpose", "Wait.", json!({ "model": model })));
    let ids = ["c1", "c2", "c3", "c4"];
    let started: Vec<_> = ids.iter().zip(inputs).map(|(id, input)| (*id, "Task", input)).collect();
    upstream.round_of("scripted", calls(&started));
    let mut gates = Vec::new();
    for model in models {
        let gate = server.workspace().join(model);
        mkfifoat(CWD, &gate, Mode::RWXU).unwrap();
        gates.push(gate);
        let command = format!("trap '' TERM; exec 3>{model}; sleep 1000; :");
        let upstreams = if model == "inherit" { "scripted" } else { model };
        upstream.round_of(upstreams, calls(&[("k1", "Bash", json!({ "command": command }))]));
    }
    let stream = server.client().stream(&ask_streamed("Go.")).await;
    let mut open = Vec::new();
    for gate in gates {
        let opening = tokio::task::spawn_blocking(|| File::open(gate));
        open.push(watch("the command", opening).await.unwrap().unwrap());
    }

    drop(stream);

    // Every process of a command holds its gate open.
    for mut gate in open {
        let closed = tokio::task::spawn_blocking(move || gate.read_to_end(&mut Vec::new()));
        watch("the end of the command", closed).await.unwrap().unwrap();
    }
    let ended = async {
        loop {
            let agents = agents_shown(&server).await;
            if agents.iter().all(|agent| agent["status"] != "running") {
                return agents;
            }
        }
    };
    let agents = watch("the end of the agents", ended).await;
    let states: Vec<_> = agents.iter().map(|agent| agent["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["interrupted"; 4]);
}

#[tokio::test]
async fn a_command_of_an_agent_runs_in_the_foreground() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    upstream.round(calls(&[("c1", "Task", task("Bash", "Run it.", json!({})))]));
    let input = json!({ "command": "echo out", "run_in_background": true });
    upstream.round(calls(&[("k1", "Bash", input)]));
    upstream.round(says("Ran."));
    upstream.round(says("Done."));

    server.client().chat(&ask("Go.")).await;

    let requests = upstream.requests();
    assert_eq!(offered(&requests[1]), ["Read", "Glob", "Grep", "Bash"]);
    let answer = last_answer(&requests[2]);
    assert!(
        answer.starts_with("out\n") && answer.contains("nothing goes to the background"),
        "{answer}"
    );
}

#[tokio::test]
async fn an_agent_whose_model_is_gone_later_does_not_begin_anew() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let input = task("general-purpose", "Run it.", json!({ "model": "opus" }));
    upstream.round_of("scripted", calls(&[("c1", "Task", input)]));
    let command = json!({ "command": "echo ran >> log.txt" });
    upstream.round_of("opus", calls(&[("k1", "Bash", command)]));
    let gone = json!({ "error": {
        "message": "no such model", "type": "not_found_error", "code": "model_not_found",
    } });
    upstream.round_of("opus", crate::support::chunks::status(404, &gone));
    upstream.round_of("scripted", says("It failed."));

    server.client().chat(&ask("Go.")).await;

    assert_eq!(server.file("log.txt"), "ran\n");
    let answer = last_answer(&upstream.requests().pop().unwrap());
    assert!(answer.starts_with("Error: the agent failed: "), "{answer}");
}
