//! Tests what the operator's hooks do to prompts, calls and turns, as client and model see it.

mod ending;
mod guarding;
mod session_end;

use std::path::Path;

use serde_json::{Value, json};

use crate::sessions::{assistant, conversation, transcript, user};
use crate::support::chunks::{calls, says};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

const PAGE: &str = include_str!("../docs/hooks.md");

/// A server with these hooks: an event, and a line for bash.
fn hooked(upstream: &Upstream, hooks: &[(&str, &str)]) -> Builder {
    let table = |(event, line): &(&str, &str)| {
        format!("\n[[hooks]]\nevent = \"{event}\"\ncommand = '''{line}'''\n")
    };
    let tables: String = hooks.iter().map(table).collect();
    Server::builder(upstream).free().file("a.txt", "one\n").tables(&tables)
}

fn glob(id: &str) -> (&str, &'static str, Value) {
    (id, "Glob", json!({ "pattern": "*" }))
}

/// The last words of the user that went upstream.
fn words_upstream(upstream: &Upstream) -> String {
    let body = upstream.requests().pop().expect("a request").json();
    let messages = body["messages"].as_array().expect("messages").iter().rev();
    let mut users = messages.filter(|message| message["role"] == "user");
    users.next().expect("a user")["content"].as_str().expect("text").to_owned()
}

#[tokio::test]
async fn a_hook_denies_changes_and_remarks_on_calls() {
    let upstream = Upstream::start();
    let before = r#"
        input=$(cat)
        case $input in
            *forbidden*) echo "leave that alone" >&2; exit 2;;
            *other*) echo '{"hookSpecificOutput":{"updatedInput":{"command":"echo changed"}}}';;
        esac"#;
    let after = r#"echo '{"hookSpecificOutput":{"additionalContext":"seen"}}'"#;
    let hooks = [("PreToolUse", before), ("PostToolUse", after)];
    let server = hooked(&upstream, &hooks).start().await;
    upstream.round(calls(&[
        ("c1", "Bash", json!({ "command": "echo forbidden" })),
        ("c2", "Bash", json!({ "command": "echo other" })),
    ]));
    upstream.round(says("Done."));

    let answer = server.client().chat(&ask("Go.")).await;

    assert_eq!(answer.text(), "Done.");
    let told = answers_in(&upstream.requests().pop().expect("a request").json());
    assert_eq!(told[0], "Error: not permitted: leave that alone");
    assert!(told[1].starts_with("changed"), "{}", told[1]);
    assert!(
        told[1].ends_with("<reminder>\nA hook of this server says:\nseen\n</reminder>"),
        "{}",
        told[1]
    );
}

#[tokio::test]
async fn k2_a_hook_that_allows_everything_beats_no_deny_rule() {
    let upstream = Upstream::start();
    let allows = r#"echo '{"hookSpecificOutput":{"permissionDecision":"allow"}}'"#;
    let server = hooked(&upstream, &[("PreToolUse", allows)])
        .config("permissions.deny", r#"["Read(a.*)"]"#)
        .start()
        .await;
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "a.txt" }))]));
    upstream.round(says("Done."));
    server.client().chat(&ask("Go.")).await;

    let told = answers_in(&upstream.requests().pop().expect("a request").json());
    assert!(told[0].starts_with("Error: not permitted: the rule `Read(a.*)`"), "{}", told[0]);
}

#[tokio::test]
async fn what_a_hook_allows_or_asks_about_counts_as_a_rule() {
    let decides = |decision: &str| {
        format!(r#"echo '{{"hookSpecificOutput":{{"permissionDecision":"{decision}"}}}}'"#)
    };
    for (mode, decision, file, expected) in [
        ("default", "allow", "new.txt", "Created"),
        ("default", "allow", "denied.txt", "Error: not permitted: the rule `Write(denied.txt)`"),
        ("default", "deny", "new.txt", "Error: not permitted: a hook blocks it"),
        ("bypassPermissions", "ask", "new.txt", "Error: not permitted: Write needs an approval"),
    ] {
        let upstream = Upstream::start();
        let table =
            format!("\n[[hooks]]\nevent = \"PreToolUse\"\ncommand = '''{}'''\n", decides(decision));
        let server = Server::builder(&upstream)
            .argument("--sandbox=off")
            .argument(&format!("--permission-mode={mode}"))
            .config("approval.channel", r#""none""#)
            .config("permissions.deny", r#"["Write(denied.txt)"]"#)
            .tables(&table)
            .start()
            .await;
        let input = json!({ "file_path": file, "content": "x" });
        upstream.round(calls(&[("c1", "Write", input)]));
        upstream.round(says("Done."));
        server.client().chat(&ask("Go.")).await;
        let told = answers_in(&upstream.requests().pop().expect("a request").json());
        assert!(told[0].starts_with(expected), "{mode} {decision} {file}: {}", told[0]);
    }
}

#[tokio::test]
async fn k1_a_broken_hook_does_not_break_the_turn_and_is_told_of() {
    let upstream = Upstream::start();
    let hooks = [
        ("SessionStart", "exit 3"),
        ("UserPromptSubmit", "printf '{\"decision\": \"blo'"),
        ("PostToolUse", "kill -KILL $$"),
        ("PostToolUse", "/nonexistent/hook"),
        ("Stop", "echo '{}}'"),
    ];
    let server = hooked(&upstream, &hooks).start().await;
    upstream.round(calls(&[glob("c1")]));
    upstream.round(says("Done."));
    let body = with(ask_streamed("Go."), json!({ "toolhand": { "progress": "events" } }));

    let streamed = server.client().streamed(&body).await;

    assert_eq!(streamed.text(), "Done.");
    let told: Vec<String> =
        upstream.requests().iter().flat_map(|it| answers_in(&it.json())).collect();
    assert!(told[0].ends_with("a.txt"), "{told:?}");
    let said: Vec<String> = streamed
        .progress("hook")
        .into_iter()
        .map(|event| event["message"].as_str().expect("text").to_owned())
        .collect();
    for (index, expected) in [
        "ended with code 3",
        "printed JSON that cannot be read",
        "was ended by signal 9",
        "ended with code 127",
        "printed JSON that cannot be read",
    ]
    .iter()
    .enumerate()
    {
        assert!(
            said[index].starts_with(&format!("the hook hooks[{index}] {expected}")),
            "{said:?}"
        );
    }
}

#[tokio::test]
async fn a_hooks_words_are_a_line_of_the_reasoning_and_never_go_back_upstream() {
    let upstream = Upstream::start();
    let says_hello = r#"echo '{"systemMessage":"hello"}'"#;
    let server = hooked(&upstream, &[("UserPromptSubmit", says_hello)]).start().await;
    upstream.round(says("Done."));
    let first = server.client().streamed(&ask_streamed("Go.")).await;
    assert_eq!(first.reasoning(), "! a hook says: hello\n");

    upstream.round(says("Again."));
    let mut kept = assistant("Unknown.");
    kept["reasoning_content"] = json!(first.reasoning());
    server.client().chat(&conversation(&[user("Go."), kept, user("On.")])).await;
    let sent = String::from_utf8(upstream.requests().pop().expect("a request").body).expect("JSON");
    assert!(!sent.contains("a hook says"), "{sent}");
}

#[tokio::test]
async fn a_blocked_prompt_is_403_and_nothing_goes_upstream() {
    let upstream = Upstream::start();
    let blocks = "grep -q secret && { echo 'no secrets here' >&2; exit 2; }; true";
    let server = hooked(&upstream, &[("UserPromptSubmit", blocks)]).start().await;
    let client = server.client();
    for body in [ask("My secret is 5."), ask_streamed("My secret is 5.")] {
        let refused = client.post("/v1/chat/completions", &body).await;
        assert_eq!(refused.refusal(), (403, "prompt_blocked".to_owned()));
        let message = refused.json()["error"]["message"].as_str().expect("text").to_owned();
        assert_eq!(message, "a hook of this server blocks this prompt: no secrets here");
    }
    assert!(upstream.requests().is_empty());

    upstream.round(says("Hello."));
    assert_eq!(client.chat(&ask("Hello.")).await.text(), "Hello.");
}

#[tokio::test]
async fn context_of_hooks_stays_in_front_of_the_prompt_in_later_requests() {
    let upstream = Upstream::start();
    let counts = "echo x >>count; echo \"prompt $(wc -l <count | tr -d ' ')\"";
    let hooks =
        [("SessionStart", "echo started >>starts; echo use tabs"), ("UserPromptSubmit", counts)];
    let server = hooked(&upstream, &hooks).start().await;
    let client = server.client();
    let note = |said: &str, words: &str| {
        format!(
            "<reminder>\nA hook of this server, not the user, says:\n{said}\n</reminder>\n\n{words}"
        )
    };
    upstream.round(says("First answer."));
    client.chat(&conversation(&[user("One.")])).await;
    let first = upstream.requests().pop().expect("a request");
    assert_eq!(words_upstream(&upstream), note("use tabs\nprompt 1", "One."));

    upstream.round(says("Second answer."));
    client.chat(&conversation(&[user("One."), assistant("First answer."), user("Two.")])).await;

    assert_eq!(words_upstream(&upstream), note("prompt 2", "Two."));
    let second = upstream.requests().pop().expect("a request");
    let (first, second) = (transcript(&first), transcript(&second));
    assert!(second.starts_with(&first), "{first}\n{second}");
    assert_eq!(server.file("starts"), "started\n", "one session has one start");
}

#[tokio::test]
async fn a_stop_hook_holds_the_turn_until_it_is_content() {
    let upstream = Upstream::start();
    let holds = r#"
        cat >>stops
        [[ $(wc -l <stops) -eq 1 ]] || exit 0
        echo "run the tests first" >&2; exit 2"#;
    let server = hooked(&upstream, &[("Stop", holds)]).start().await;
    upstream.round(says("Ready."));
    upstream.round(calls(&[glob("c1")]));
    upstream.round(says("Now ready."));
    let client = server.client();

    let answer = client.chat(&ask("Go.")).await;

    assert_eq!(answer.text(), "Ready.\n\nNow ready.");
    let second = &upstream.requests()[1].json()["messages"];
    let tail = second.as_array().expect("messages").iter().rev().take(2).collect::<Vec<_>>();
    assert_eq!(tail[1]["content"], "Ready.");
    let note = tail[0]["content"].as_str().expect("text");
    assert!(note.contains("not the user") && note.contains("run the tests first"), "{note}");
    let told = server.file("stops");
    let held = told.lines().map(|line| line.contains(r#""stop_hook_active":true"#));
    assert_eq!(held.collect::<Vec<_>>(), [false, true]);

    // What was hidden is there again, byte for byte.
    let before = transcript(&upstream.requests()[2]);
    upstream.round(says("Bye."));
    let list = [user("Go."), assistant("Ready.\n\nNow ready."), user("Bye.")];
    client.chat(&conversation(&list)).await;
    let after = transcript(&upstream.requests().pop().expect("a request"));
    assert!(after.starts_with(&before), "{before}\n{after}");
}

#[tokio::test]
async fn a_stop_hook_that_is_never_content_holds_a_turn_eight_times() {
    let upstream = Upstream::start();
    let server = hooked(&upstream, &[("Stop", "echo more >&2; exit 2")]).start().await;
    for round in 0..9 {
        upstream.round(says(&format!("Answer {round}.")));
    }
    let answer = server.client().chat(&ask("Go.")).await;
    assert!(answer.text().ends_with("Answer 8."), "{}", answer.text());
    assert_eq!(upstream.requests().len(), 9);
}

#[tokio::test]
async fn a_hook_ends_the_turn_when_the_answers_are_in() {
    for event in ["PreToolUse", "PostToolUse", "Stop"] {
        let upstream = Upstream::start();
        let ends = r#"echo '{"continue":false,"stopReason":"Enough for today."}'"#;
        let server = hooked(&upstream, &[(event, ends)]).start().await;
        if event == "Stop" {
            upstream.round(says("Ready."));
        } else {
            upstream.round(calls(&[glob("c1"), glob("c2")]));
        }
        let answer = server.client().chat(&ask("Go.")).await;
        assert!(answer.text().ends_with("Enough for today."), "{event}: {}", answer.text());
        assert_eq!(answer.json()["choices"][0]["finish_reason"], "stop", "{event}");
        assert_eq!(upstream.requests().len(), 1, "{event}");

        if event == "Stop" {
            continue;
        }
        upstream.round(says("Bye."));
        let list = [user("Go."), assistant(&answer.text()), user("Bye.")];
        server.client().chat(&conversation(&list)).await;
        let sent = upstream.requests().pop().expect("a request").json();
        assert_eq!(answers_in(&sent).len(), 2, "{event}: what ran is known");
    }
}

#[tokio::test]
async fn k5_each_run_leaves_one_line_in_the_log_and_nothing_of_the_input() {
    let upstream = Upstream::start();
    let hooks = [("PreToolUse", "cat; echo no-such-word >&2; exit 2")];
    let server = hooked(&upstream, &hooks).start().await;
    upstream.round(calls(&[("c1", "Bash", json!({ "command": "echo pass-word-5" }))]));
    upstream.round(says("Done."));
    server.client().chat(&ask("Go.")).await;

    server.logged("hook ran", 1).await;
    let log = server.log();
    let line = log.lines().find(|line| line.contains("hook ran")).expect("a line");
    for expected in ["hooks[0]", "PreToolUse", "exit", "duration_ms", "deny"] {
        assert!(line.contains(expected), "{expected}: {line}");
    }
    assert!(!log.contains("pass-word-5") && !log.contains("no-such-word"), "{log}");
}

/// The first block of the page in this language.
fn block(language: &str) -> &'static str {
    let begin = PAGE.find(&format!("```{language}\n")).expect("a block");
    let block = &PAGE[begin + language.len() + 4..];
    &block[..block.find("```").expect("its end")]
}

#[tokio::test]
async fn the_hook_of_the_page_denies_what_the_page_says() {
    let upstream = Upstream::start();
    let script = block("sh").split_once("<<'SCRIPT'\n").expect("a script").1;
    let script = script.split_once("SCRIPT\n").expect("its end").0;
    let builder = Server::builder(&upstream).free();
    let hooks = Path::new(builder.home()).join("hooks");
    std::fs::create_dir(&hooks).expect("a new directory");
    std::fs::write(hooks.join("no-force-push.sh"), script).expect("a new file");
    let server = builder.tables(&format!("\n{}", block("toml"))).start().await;
    upstream.round(calls(&[
        ("c1", "Bash", json!({ "command": "git push --force" })),
        ("c2", "Bash", json!({ "command": "echo fine" })),
    ]));
    upstream.round(says("Done."));
    server.client().chat(&ask("Go.")).await;

    let told = answers_in(&upstream.requests().pop().expect("a request").json());
    assert_eq!(told[0], "Error: not permitted: force pushes need a colleague");
    assert!(told[1].starts_with("fine"), "{told:?}");
}

#[test]
fn a_hook_that_cannot_be_read_is_an_error_at_start_that_names_it() {
    for (table, expected) in [
        ("event = \"PreTool\"\ncommand = \"a\"", "hooks[0].event: unknown variant `PreTool`"),
        ("event = \"Stop\"", "hooks[0]: missing field `command`"),
        ("event = \"Stop\"\ncommand = \"\"", "hooks[0].command: is empty"),
        (
            "event = \"PreToolUse\"\ncommand = \"a\"\nmatcher = \"Bash(\"",
            "hooks[0].matcher: the matcher \"Bash(\" does not compile",
        ),
        ("event = \"Stop\"\ncommand = \"a\"\ntimeout = \"0\"", "hooks[0].timeout: 0 would end"),
        ("event = \"Stop\"\ncommand = \"a\"\ntype = \"prompt\"", "unknown key hooks[0].type"),
    ] {
        let upstream = Upstream::start();
        let builder = Server::builder(&upstream).tables(&format!("\n[[hooks]]\n{table}\n"));
        let (status, _, stderr) = builder.run();
        assert!(!status.success() && stderr.contains(expected), "{expected}: {stderr}");
        assert_eq!(stderr.trim().lines().count(), 1, "{stderr}");
    }
}
