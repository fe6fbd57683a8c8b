//! Tests `tools`, `turns`, `permissions`, `sandbox`, `prompt` and the workspaces.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::permissions::has_sandbox;
use crate::support::OUR_TOOLS;
use crate::support::chunks::{call, calls, end, gate, says, text};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::turn::{answers, answers_in};

/// What the model is told when a server with these settings runs its calls.
async fn answers_of(settings: &[(&str, &str)], round: &[(&str, &str, Value)]) -> Vec<String> {
    let upstream = Upstream::start();
    let server = with_settings(Server::builder(&upstream).free(), settings).start().await;
    run(&upstream, &server, round, json!({})).await
}

/// Nobody is asked: what would ask is answered with what would allow it.
fn with_settings(builder: Builder, settings: &[(&str, &str)]) -> Builder {
    let builder = builder.config("approval.channel", r#""none""#);
    settings.iter().fold(builder, |builder, (key, value)| builder.config(key, value))
}

async fn run(
    upstream: &Upstream,
    server: &Server,
    round: &[(&str, &str, Value)],
    members: Value,
) -> Vec<String> {
    upstream.round(calls(round));
    upstream.round(says("Done."));
    let answer = server.client().chat(&with(ask("Go."), members)).await;
    assert_eq!(answer.text(), "Done.");
    answers_in(&upstream.requests().pop().expect("a request").json())
}

/// The tools that a server with these settings offers beside the client's.
async fn offered(settings: &[(&str, &str)]) -> Vec<String> {
    let upstream = Upstream::start();
    let server = with_settings(Server::builder(&upstream), settings).start().await;
    upstream.round(says("Hi."));
    let own = |name: &str| {
        let function = json!({ "name": name, "parameters": { "type": "object" } });
        json!({ "type": "function", "function": function })
    };
    let tools = json!({ "tools": [own("weather"), own("news")] });
    server.client().chat(&with(ask("Hi"), tools)).await;
    let sent = upstream.request(0).await.json();
    let names = sent["tools"].as_array().expect("tools").iter();
    names.map(|tool| tool["function"]["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn tools_are_named_or_left_out() {
    let all = [&OUR_TOOLS[..], &["weather", "news"]].concat();
    assert_eq!(offered(&[]).await, all);
    let some = offered(&[("tools.enable", r#"["Grep", "read_file"]"#)]).await;
    assert_eq!(some, ["Read", "Grep", "weather", "news"]);
    let fewer = offered(&[("tools.disable", r#"["shell", "Write", "Task"]"#)]).await;
    // What looks after background tasks goes with those that start them.
    let gone = ["Write", "Task", "Bash", "TaskOutput", "TaskStop", "ListTasks"];
    let left: Vec<_> = all.into_iter().filter(|name| !gone.contains(name)).collect();
    assert_eq!(fewer, left);
}

#[tokio::test]
async fn the_operator_says_which_tools_of_clients_reach_the_model() {
    let ours = ("tools.enable", r#"["Read"]"#);
    assert_eq!(offered(&[ours, ("tools.client_tools", r#""none""#)]).await, ["Read"]);
    let named = ("tools.client_tools", r#"["news", "sports"]"#);
    assert_eq!(offered(&[ours, named]).await, ["Read", "news"]);
}

#[tokio::test]
async fn answers_have_their_limits() {
    let long = |letter: &str| json!({ "command": format!("printf '{letter}%.0s' {{1..3000}}") });
    let round = [("c1", "Bash", long("a")), ("c2", "Bash", long("b"))];

    let each = answers_of(&[("tools.max_result_chars", "1000")], &round).await;
    assert!(each.iter().all(|answer| answer.len() < 1500), "{each:?}");
    let all = answers_of(&[("tools.max_round_chars", "4000")], &round).await;
    assert!(all.concat().len() < 5000, "{all:?}");
    let unlimited = answers_of(&[], &round).await;
    assert!(unlimited.iter().all(|answer| answer.len() == 3000), "{unlimited:?}");
}

#[tokio::test]
async fn a_command_has_its_time() {
    let settings = [("tools.bash.timeout", r#""50ms""#), ("tools.bash.max_timeout", r#""60ms""#)];
    let round = [
        ("c1", "Bash", json!({ "command": "sleep 600" })),
        ("c2", "Bash", json!({ "command": "sleep 600", "timeout": 500_000 })),
    ];

    let answers = answers_of(&settings, &round).await;

    assert!(answers[0].contains("timed out after 0.05 s"), "{answers:?}");
    assert!(answers[1].contains("timed out after 0.06 s"), "{answers:?}");
    assert!(answers[1].contains("timeout lowered to 0.06 s"), "{answers:?}");
}

#[tokio::test]
async fn a_round_has_so_many_calls() {
    let glob = |id| (id, "Glob", json!({ "pattern": "*" }));
    let answers = answers_of(&[("turns.max_tool_calls", "2")], &["a", "b", "c"].map(glob)).await;
    assert!(!answers[1].starts_with("Error: "), "{answers:?}");
    assert!(answers[2].starts_with("Error: only 2 tool calls"), "{answers:?}");
}

#[tokio::test]
async fn one_call_at_a_time_where_the_operator_wants_it() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).config("turns.max_parallel_tools", "1").start().await;
    let globs = (0..16).map(|at| (format!("c{at}"), json!({ "pattern": "*" })));
    let globs: Vec<_> = globs.collect();
    let round: Vec<_> = globs.iter().map(|(id, input)| (&**id, "Glob", input.clone())).collect();
    upstream.round(calls(&round));
    upstream.round(says("Done."));

    let progress = json!({ "toolhand": { "progress": "events" } });
    let answer = server.client().streamed(&with(ask_streamed("Go."), progress)).await;

    let told = answer.events.iter().filter_map(|event| event.progress()["type"].as_str());
    let told: Vec<_> = told.filter(|kind| kind.starts_with("tool_")).collect();
    assert_eq!(told.len(), 32);
    assert!(told.chunks(2).all(|pair| pair == ["tool_start", "tool_end"]), "{told:?}");
}

#[tokio::test]
async fn a_turn_has_its_time() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .free()
        .config("turns.max_duration", r#""500ms""#)
        .config("turns.head_hold", r#""1ms""#)
        .start()
        .await;

    upstream.round(vec![text("I begin."), gate("never")]);
    let answer = server.client().streamed(&ask_streamed("Go on.")).await;
    assert_eq!(answer.code(), "turn_time_limit");
    upstream.abandoned(0).await;

    let sleep = json!({ "command": "sleep 600" });
    upstream.round([call(0, "c1", "Bash", &sleep), end("tool_calls")].concat());
    let answer = server.client().streamed(&ask_streamed("Wait.")).await;
    assert_eq!(answer.code(), "turn_time_limit");
    server.no_children().await;
}

/// Which of Read, Write and a command are answered with an error.
async fn refused(builder: Builder) -> Vec<&'static str> {
    refused_with(builder, json!({})).await
}

async fn refused_with(builder: Builder, members: Value) -> Vec<&'static str> {
    let upstream = Upstream::start();
    let url = format!("{:?}", upstream.url());
    let builder = builder.config("upstream.url", &url).file("notes.txt", "needle\n");
    let server = builder.start().await;
    let round = [
        ("c1", "Read", json!({ "file_path": "notes.txt" })),
        ("c2", "Write", json!({ "file_path": "new.txt", "content": "made" })),
        ("c3", "Bash", json!({ "command": "touch made" })),
    ];
    let answers = run(&upstream, &server, &round, members).await;
    let tools = ["Read", "Write", "Bash"].into_iter().zip(answers);
    tools.filter(|(_, answer)| answer.starts_with("Error: ")).map(|(tool, _)| tool).collect()
}

#[tokio::test]
async fn rules_allow_and_ask() {
    // Nobody is asked: what would ask is refused.
    let nobody = r#""none""#;
    let builder = || Builder::new("http://127.0.0.1:1/v1").config("approval.channel", nobody);
    let off = || builder().config("sandbox.mode", r#""off""#);
    let bypass = |builder: Builder| builder.config("permissions.mode", r#""bypassPermissions""#);
    assert_eq!(refused(builder()).await, ["Write", "Bash"]);
    assert_eq!(refused(builder().config("permissions.allow", r#"["Write"]"#)).await, ["Bash"]);
    assert_eq!(refused(off().config("permissions.allow", r#"["shell"]"#)).await, ["Write"]);
    // Under `auto` a command runs in the sandbox, or asks where there is none.
    let is_confined = has_sandbox(&builder().start().await).await;
    let unconfined: &[&str] = if is_confined { &[] } else { &["Bash"] };
    assert_eq!(refused(bypass(builder())).await, unconfined);
    assert_eq!(refused(bypass(off())).await, [""; 0]);
    assert_eq!(refused(bypass(off()).config("permissions.ask", r#"["Write"]"#)).await, ["Write"]);
    assert_eq!(
        refused(bypass(off()).config("permissions.mode", r#""plan""#)).await,
        ["Write", "Bash"]
    );
    let required = bypass(builder()).config("sandbox.mode", r#""required""#);
    assert_eq!(refused(required).await, unconfined);
    let tighter = json!({ "toolhand": { "mode": "default" } });
    assert_eq!(refused_with(bypass(off()), tighter).await, ["Write", "Bash"]);
}

#[tokio::test]
async fn a_request_chooses_a_workspace_by_its_name() {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).file("notes.txt", "of the first\n");
    let docs = builder.home().join("docs");
    fs::create_dir(&docs).expect("a directory");
    fs::write(docs.join("notes.txt"), "of the docs\n").expect("a file");
    let table = format!("[server.workspaces]\ndocs = {:?}\n", docs.to_str().expect("UTF-8"));
    let server = with_settings(builder.tables(&table), &[]).start().await;
    let read = [("c1", "Read", json!({ "file_path": "notes.txt" }))];
    let chosen = |name: &str| json!({ "toolhand": { "workspace": name } });

    let usual = run(&upstream, &server, &read, json!({})).await;
    assert!(usual[0].contains("of the first"), "{usual:?}");
    let other = run(&upstream, &server, &read, chosen("docs")).await;
    assert!(other[0].contains("of the docs"), "{other:?}");
    let sent = upstream.requests().pop().expect("a request").json();
    let prompt = sent["messages"][0]["content"].as_str().expect("text");
    assert!(prompt.contains(docs.to_str().expect("UTF-8")), "{prompt}");

    // The first workspace is outside now, and a path is no workspace name.
    let first = server.workspace().join("notes.txt");
    let outside = [("c1", "Read", json!({ "file_path": first }))];
    let outside = run(&upstream, &server, &outside, chosen("docs")).await;
    assert!(outside[0].starts_with("Error: "), "{outside:?}");
    let body = with(ask("Hi"), chosen(docs.to_str().expect("UTF-8")));
    assert_eq!(server.client().chat(&body).await.refusal(), (400, "invalid_value".to_owned()));
}

#[tokio::test]
async fn further_directories_are_reached_when_they_are_named() {
    let upstream = Upstream::start();
    let accepting = [("permissions.mode", r#""acceptEdits""#)];
    let builder = with_settings(Server::builder(&upstream), &accepting);
    let named = builder.home().join("named");
    let other = builder.home().join("other");
    for directory in [&named, &other] {
        fs::create_dir(directory).expect("a directory");
        fs::write(directory.join("notes.txt"), "needle\n").expect("a file");
    }
    let list = format!("[{:?}]", named.to_str().expect("UTF-8"));
    let server = builder.config("permissions.additional_directories", &list).start().await;

    let answers = run(
        &upstream,
        &server,
        &[
            ("c1", "Read", json!({ "file_path": named.join("notes.txt") })),
            ("c2", "Grep", json!({ "pattern": "needle", "path": named })),
            ("c3", "Write", json!({ "file_path": named.join("new.txt"), "content": "made" })),
            ("c4", "Read", json!({ "file_path": other.join("notes.txt") })),
            ("c5", "Grep", json!({ "pattern": "needle", "path": other })),
            ("c6", "Write", json!({ "file_path": other.join("new.txt"), "content": "made" })),
        ],
        json!({}),
    )
    .await;

    assert!(answers[0].contains("needle") && answers[1].contains("notes.txt"), "{answers:?}");
    assert_eq!(fs::read_to_string(named.join("new.txt")).expect("it was made"), "made");
    assert!(answers[3..].iter().all(|answer| answer.starts_with("Error: ")), "{answers:?}");
    assert!(!other.join("new.txt").exists());
}

#[tokio::test]
async fn the_prompt_is_ours_theirs_or_both() {
    for (mode, ours, theirs) in
        [("append", true, true), ("replace", true, false), ("none", false, true)]
    {
        let upstream = Upstream::start();
        let server =
            Server::builder(&upstream).config("prompt.mode", &format!("{mode:?}")).start().await;
        upstream.round(says("Hi."));
        let messages = json!({ "messages": [
            { "role": "system", "content": "You are a quince." },
            { "role": "user", "content": "Hi" },
        ]});

        server.client().chat(&with(ask(""), messages)).await;

        let sent = upstream.request(0).await.json()["messages"].to_string();
        assert_eq!(sent.contains("Working directory: "), ours, "{mode}: {sent}");
        assert_eq!(sent.contains("You are a quince."), theirs, "{mode}: {sent}");
    }
}

#[tokio::test]
async fn background_calls_pass_through_without_tools() {
    let upstream = Upstream::start();
    let server =
        Server::builder(&upstream).config("background_models", r#"["titles"]"#).start().await;
    let client = server.client();
    let task = json!({ "stream": false, "messages": [
        { "role": "user", "content": "### Task:\nGenerate a concise title." },
    ]});
    let calls: [(_, Value, bool); 5] = [
        (client.clone(), json!({ "model": "titles" }), true),
        (client.clone(), task.clone(), true),
        (
            client.clone().header("x-openwebui-task", "title_generation"),
            json!({ "stream": false }),
            true,
        ),
        (client.clone(), with(task, json!({ "stream": true })), false),
        (client, json!({}), false),
    ];
    for (at, (client, members, is_background)) in calls.into_iter().enumerate() {
        upstream.round(says("A title."));
        let body = with(ask("Hi"), members);
        if body["stream"] == true {
            client.streamed(&body).await;
        } else {
            assert_eq!(client.chat(&body).await.text(), "A title.");
        }

        let sent = upstream.request(at).await.json();
        assert_eq!(sent.get("tools").is_none(), is_background, "{body}\n{sent}");
        assert_eq!(sent["messages"] == body["messages"], is_background, "{body}\n{sent}");
    }
}

#[tokio::test]
async fn a_call_that_a_background_model_makes_up_does_not_run() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream)
        .free()
        .config("background_models", r#"["titles"]"#)
        .start()
        .await;
    let write = json!({ "file_path": "new.txt", "content": "made" });
    upstream.round(calls(&[("c1", "Write", write)]));
    upstream.round(says("A title."));

    server.client().chat(&with(ask("Hi"), json!({ "model": "titles" }))).await;

    assert!(answers(&upstream, 1).await[0].starts_with("Error: "));
    assert!(!server.workspace().join("new.txt").exists());
}

/// What a command says whose program only the login shell finds.
async fn said_with_profile(value: &str) -> String {
    let upstream = Upstream::start();
    let builder = Server::builder(&upstream).free().config("tools.bash.profile", value);
    let home = builder.home().to_owned();
    for directory in [home.join("tools"), builder.workspace().join("bin")] {
        fs::create_dir_all(&directory).expect("a new directory");
        let program = directory.join("greet");
        let line =
            format!("#!/bin/sh\necho from {}\n", directory.file_name().expect("a name").display());
        fs::write(&program, line).expect("a new file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("our own");
    }
    let profile = "export PATH=$HOME/workspace/bin:$HOME/tools:$PATH KEY=secret; echo welcome\n";
    fs::write(home.join(".bash_profile"), profile).expect("a new file");
    let server = builder.start().await;
    upstream.round(calls(&[("c1", "Bash", json!({ "command": "greet; echo key: $KEY" }))]));
    upstream.round(says("Done."));
    server.client().chat(&ask("Greet.")).await;
    answers_in(&upstream.requests().pop().expect("a request").json()).remove(0)
}

#[tokio::test]
async fn commands_find_the_programs_of_a_login_shell_but_none_that_they_could_have_put_there() {
    assert_eq!(said_with_profile("true").await, "from tools\nkey:");
    let without = said_with_profile("false").await;
    assert!(without.contains("greet: command not found"), "{without}");
}
