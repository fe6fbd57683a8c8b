//! Tests what settings files change for a server that runs: which tools are offered, and which
//! directories commands reach.

use std::fs;

use serde_json::{Value, json};

use super::trust::{SHARED, builder, permissions, settings, told, trust};
use crate::support::chunks::says;
use crate::support::client::{ask, with};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// The tools of a turn, as they go upstream.
async fn offered(server: &Server, upstream: &Upstream) -> Vec<String> {
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Go.")).await.text(), "Done.");
    let sent = upstream.requests().pop().expect("a request").json();
    let tools = sent["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().expect("a name").into()).collect()
}

fn without(all: &[String], name: &str) -> Vec<String> {
    all.iter().filter(|other| *other != name).cloned().collect()
}

#[tokio::test]
async fn a_bare_deny_of_any_settings_file_takes_the_tool_away_from_the_next_turn() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    let all = offered(&server, &upstream).await;
    assert!(all.iter().any(|name| name == "Bash"), "{all:?}");
    let user = server.state_dir().with_file_name(".claude");
    fs::create_dir(&user).expect("a directory");
    let of_user = user.join("settings.json");

    // Nobody trusted the workspace: its file takes away all the same.
    settings(&server, SHARED, &permissions("deny", "shell"));
    assert_eq!(offered(&server, &upstream).await, without(&all, "Bash"));
    let call = ("c1", "Bash", json!({ "command": "env true" }));
    let answer = told(&server, &upstream, call).await;
    assert!(answer.contains("no tool named Bash is available"), "{answer}");
    fs::remove_dir_all(server.workspace().join(".claude")).expect("it goes");
    assert_eq!(offered(&server, &upstream).await, all);
    settings(&server, ".claude/settings.local.json", &permissions("deny", "Write"));
    fs::write(&of_user, permissions("deny", "Glob").to_string()).expect("a file");
    let both = without(&without(&all, "Write"), "Glob");
    assert_eq!(offered(&server, &upstream).await, both);

    // A rule about some calls of a tool leaves it.
    settings(&server, ".claude/settings.local.json", &permissions("deny", "Bash(rm *)"));
    fs::write(&of_user, permissions("ask", "Glob").to_string()).expect("a file");
    assert_eq!(offered(&server, &upstream).await, all);
    // A reader's deny covers all that shows what files hold.
    fs::write(&of_user, permissions("deny", "Read").to_string()).expect("a file");
    let left = offered(&server, &upstream).await;
    assert!(left.contains(&"Bash".to_owned()) && !left.contains(&"Edit".to_owned()), "{left:?}");
}

#[tokio::test]
async fn a_request_that_insists_on_a_tool_that_is_taken_away_is_refused() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    settings(&server, SHARED, &json!({ "permissions": { "deny": ["Bash", "Read", "Glob"] } }));
    let choose = |choice: Value| with(ask("Go."), json!({ "tool_choice": choice }));
    let named = choose(json!({ "type": "function", "function": { "name": "Bash" } }));
    let client = server.client();

    let refused = client.post("/v1/chat/completions", &named).await;
    assert_eq!(refused.refusal(), (400, "invalid_value".to_owned()));
    let text = String::from_utf8(refused.body).expect("text");
    assert!(text.contains("There is no tool named \\\"Bash\\\": a rule denies it here."), "{text}");
    let mut only = choose(json!("required"));
    only["toolhand"] = json!({ "tools": { "allow": ["Bash", "Glob"] } });
    let refused = client.post("/v1/chat/completions", &only).await;
    assert_eq!(refused.refusal(), (400, "invalid_value".to_owned()));
    assert_eq!(upstream.requests().len(), 0);
}

/// A server whose commands need no approval, and the name of what confines them.
async fn confined(upstream: &Upstream, level: &str) -> (Server, String) {
    let server = builder(upstream)
        .config("permissions.mode", r#""bypassPermissions""#)
        .config("sandbox.use", &format!("[{level:?}]"))
        .start()
        .await;
    let status = server.client().get("/toolhand/v1/status").await.json();
    let found = status["sandbox"]["level"].as_str().expect("a level").to_owned();
    (server, found)
}

#[tokio::test]
async fn commands_reach_the_additional_directories_of_files_that_count_and_no_others() {
    let upstream = Upstream::start();
    for level in ["bwrap", "landlock"] {
        let (server, found) = confined(&upstream, level).await;
        if found != level {
            continue;
        }
        let docs = server.workspace().with_file_name("docs");
        fs::create_dir_all(docs.join(".git/hooks")).expect("directories");
        let directories = json!({ "permissions": { "additionalDirectories": ["../docs"] } });
        settings(&server, SHARED, &directories);
        let run = |line: &str| ("c1", "Bash", json!({ "command": line }));
        let write = "echo new > ../docs/new.txt && echo written";

        let answer = told(&server, &upstream, run(write)).await;
        assert!(!answer.contains("written") && !docs.join("new.txt").exists(), "{answer}");
        trust(&server, "trust", &server.workspace());
        let answer = told(&server, &upstream, run(write)).await;
        assert!(answer.contains("written"), "{level}: {answer}");
        assert_eq!(fs::read_to_string(docs.join("new.txt")).expect("a file"), "new\n");
        let answer = told(&server, &upstream, run("cd ../docs && env pwd")).await;
        assert!(!answer.contains("outside the workspace"), "{answer}");

        let hook = "echo evil > ../docs/.git/hooks/pre-commit && echo written";
        let answer = told(&server, &upstream, run(hook)).await;
        if level == "bwrap" {
            assert!(!answer.contains("written"), "{answer}");
            assert!(!docs.join(".git/hooks/pre-commit").exists());
        } else {
            assert!(answer.contains("docs/.git/hooks"), "it is named: {answer}");
        }

        settings(&server, SHARED, &json!({}));
        let again = "echo again > ../docs/again.txt && echo written";
        let answer = told(&server, &upstream, run(again)).await;
        assert!(!answer.contains("written") && !docs.join("again.txt").exists(), "{answer}");
    }
}
