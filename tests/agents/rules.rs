//! What agents of files may do, and how rules, modes and hooks hold for subagents.

use serde_json::{Value, json};

use super::{instructions, last_answer, offered, task};
use crate::sessions::conversation;
use crate::sessions::user;
use crate::settings::definitions::definitions;
use crate::support::chunks::{calls, says};
use crate::support::client::{ask, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

/// Starts an agent of this type alone, and returns the answer to its call.
async fn started(server: &Server, upstream: &Upstream, agent_type: &str) -> String {
    upstream.round_of("scripted", calls(&[("c1", "Task", task(agent_type, "Go.", json!({})))]));
    upstream.round_of("scripted", says("Well."));
    server.client().chat(&ask("Go.")).await;
    last_answer(&upstream.requests().pop().expect("a request"))
}

#[tokio::test]
async fn an_agent_of_a_file_has_what_the_file_says_and_nothing_that_is_excluded() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).free().start().await;
    let head = |name: &str, more: &str| {
        format!("---\nname: {name}\ndescription: Reviews.\n{more}---\nYou review.\n")
    };
    definitions(
        &server,
        &[
            (
                "~/.claude/agents/reviewer.md",
                &head(
                    "reviewer",
                    "tools: Read, Bash, FileEdit, Task, AskUserQuestion\n\
                     disallowedTools: shell\nmodel: haiku\nmaxTurns: 1\nhooks: {a: b}\n",
                ),
            ),
            ("~/.claude/agents/idle.md", &head("idle", "tools: Task, TaskStop\n")),
            ("~/.claude/agents/dear.md", &head("dear", "model: huge\n")),
            ("~/.claude/agents/wide.md", &head("wide", "permissionMode: bypassPermissions\n")),
        ],
    );
    upstream.round_of("haiku", says("Reviewed."));
    let answer = started(&server, &upstream, "reviewer").await;

    assert!(answer.starts_with("Reviewed.\nagent_id: "), "{answer}");
    let agents = upstream.requests().swap_remove(1);
    assert_eq!(agents.json()["model"], "haiku");
    assert_eq!(offered(&agents), ["Read", "Edit"]);
    assert!(instructions(&agents).starts_with("You review.\n"), "{}", instructions(&agents));
    let prompt = instructions(&upstream.requests()[0]);
    assert!(prompt.contains("- reviewer: Reviews."), "{prompt}");
    assert!(prompt.contains("- Explore: "), "{prompt}");

    let answer = started(&server, &upstream, "idle").await;
    assert!(answer.starts_with("Error: no tool is left for an agent of the type idle"), "{answer}");
    let answer = started(&server, &upstream, "dear").await;
    assert!(answer.starts_with("Error: there is no model \"huge\" for agents"), "{answer}");
}

#[tokio::test]
async fn x8_rules_and_what_a_request_takes_away_hold_for_agents() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .file("secret.txt", "needle\n")
        .config("permissions.deny", r#"["Task(Explore)", "Read(secret.txt)"]"#)
        .start()
        .await;
    let denied = started(&server, &upstream, "Explore").await;
    assert!(denied.starts_with("Error: not permitted: the rule `Task(Explore)`"), "{denied}");

    upstream.round(calls(&[("c1", "Task", task("general-purpose", "Go.", json!({})))]));
    upstream.round(calls(&[("k1", "Read", json!({ "file_path": "secret.txt" }))]));
    upstream.round(says("I may not."));
    upstream.round(says("Well."));
    let narrowed = json!({ "toolhand": { "tools": { "deny": ["Bash"] } } });
    server.client().chat(&with(ask("Go."), narrowed)).await;

    let requests = upstream.requests();
    let agents = &requests[requests.len() - 2];
    assert!(!offered(agents).contains(&"Bash".to_owned()), "{:?}", offered(agents));
    assert!(last_answer(agents).contains("Read(secret.txt)"), "{}", last_answer(agents));
}

#[tokio::test]
async fn while_the_session_plans_only_those_start_that_change_nothing() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).start().await;
    let asks = |agent_type: &str| task(agent_type, "Go.", json!({ "model": "haiku" }));
    upstream.round_of(
        "scripted",
        calls(&[("c1", "Task", asks("general-purpose")), ("c2", "Task", asks("Plan"))]),
    );
    upstream.round_of("haiku", says("A plan."));
    upstream.round_of("scripted", says("Well."));
    let plan = json!({ "toolhand": { "mode": "plan" } });
    server.client().chat(&with(ask("Go."), plan)).await;

    let answers = answers_in(&upstream.requests().pop().unwrap().json());
    assert!(
        answers[0].starts_with("Error: not permitted: in plan mode only Explore and Plan"),
        "{answers:?}"
    );
    assert!(answers[1].starts_with("A plan."), "{answers:?}");
}

#[tokio::test]
async fn a_hook_of_subagentstop_keeps_an_agent_going() {
    let upstream = Upstream::start();
    let hook = r#"
        input=$(cat)
        case $input in
            *'"stop_hook_active":false'*'"agent_type":"Explore"'*) echo "look again" >&2; exit 2;;
        esac"#;
    let table = format!(
        "\n[[hooks]]\nevent = \"SubagentStop\"\nmatcher = \"Explore\"\ncommand = '''{hook}'''\n"
    );
    let server = Server::builder(&upstream).tables(&table).start().await;
    upstream.round(calls(&[("c1", "Task", task("Explore", "Go.", json!({})))]));
    upstream.round(says("First."));
    upstream.round(says("Second."));
    upstream.round(says("Done."));
    server.client().chat(&ask("Go.")).await;

    let requests = upstream.requests();
    let held = requests[2].json();
    let last = held["messages"].as_array().unwrap().last().unwrap().clone();
    assert!(last["content"].as_str().unwrap().contains("look again"), "{last}");
    let answer = last_answer(&requests[3]);
    assert!(answer.starts_with("Second.\n"), "{answer}");
}

#[tokio::test]
async fn an_agent_may_start_another_where_the_operator_lets_it() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .file("notes.txt", "needle\n")
        .config("subagents.max_depth", "2")
        .start()
        .await;
    let below = |agent_type: &str, model: &str| task(agent_type, "Go.", json!({ "model": model }));
    upstream.round_of("scripted", calls(&[("c1", "Task", below("general-purpose", "sonnet"))]));
    upstream.round_of("sonnet", calls(&[("k1", "Task", below("general-purpose", "haiku"))]));
    let write = json!({ "file_path": "new.txt", "content": "new\n" });
    upstream.round_of("haiku", calls(&[("m1", "Write", write)]));
    let client = server.client();
    let question = client.chat(&conversation(&[user("Go.")])).await.text();
    assert!(question.contains("new.txt"), "{question}");

    upstream.round_of("haiku", says("Deepest."));
    upstream.round_of("sonnet", says("Middle."));
    upstream.round_of("scripted", says("Top."));
    let list: [Value; 3] = [user("Go."), crate::sessions::assistant(&question), user("1")];
    let answer = client.chat(&conversation(&list)).await;

    assert_eq!(answer.text(), "Top.");
    assert_eq!(server.file("new.txt"), "new\n");
    let of_model = |model: &str| {
        let requests = upstream.requests().into_iter();
        requests.filter(|it| it.json()["model"] == model).collect::<Vec<_>>()
    };
    assert!(offered(&of_model("sonnet")[0]).contains(&"Task".to_owned()));
    assert!(!offered(&of_model("haiku")[0]).contains(&"Task".to_owned()));
    assert!(last_answer(&of_model("sonnet")[1]).starts_with("Deepest.\n"));
}

#[tokio::test]
async fn life_6a_an_agents_own_background_agent_is_waited_for() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("subagents.max_depth", "2").start().await;
    let below = |model: &str, more: Value| {
        let mut more = more;
        more["model"] = json!(model);
        task("general-purpose", "Go.", more)
    };
    let in_background = json!({ "run_in_background": true });
    upstream.round_of("scripted", calls(&[("c1", "Task", below("sonnet", json!({})))]));
    upstream.round_of("sonnet", calls(&[("k1", "Task", below("haiku", in_background))]));
    upstream.round_of("haiku", says("Deepest."));
    upstream.round_of("sonnet", says("Middle."));
    upstream.round_of("scripted", says("Top."));

    let answer = server.client().chat(&conversation(&[user("Go.")])).await;

    assert_eq!(answer.text(), "Top.");
    let requests = upstream.requests();
    let of_middle =
        |request: &&crate::support::upstream::Request| request.json()["model"] == "sonnet";
    let told = last_answer(requests.iter().rfind(of_middle).expect("its second request"));
    assert!(told.starts_with("Deepest.\n"), "{told}");
    assert!(
        told.ends_with("(nothing goes to the background here, so the agent ran to its end)"),
        "{told}"
    );
    let tasks = server.client().get("/toolhand/v1/tasks").await.json();
    assert_eq!(tasks["data"], json!([]), "{tasks}");
}
