//! Tests what the permission mode, rules and path lists decide, as client and model see it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::sessions::{assistant, conversation, user};
use crate::support::chunks::{calls, says};
use crate::support::client::{ask, with};
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

/// A server in whose workspace some files are secret or protected.
fn builder(upstream: &Upstream, mode: &str) -> Builder {
    Server::builder(upstream)
        .config("permissions.mode", &json!(mode).to_string())
        .file("a.txt", "needle a\n")
        .file(".env", "needle secret\n")
        .file("private/b.txt", "needle private\n")
}

/// What the model is told of these calls. Nobody is asked.
async fn answers(
    builder: Builder,
    upstream: &Upstream,
    round: &[(&str, &str, Value)],
) -> Vec<String> {
    let server = builder.config("approval.channel", r#""none""#).start().await;
    told(&server, upstream, round).await
}

async fn told(server: &Server, upstream: &Upstream, round: &[(&str, &str, Value)]) -> Vec<String> {
    upstream.round(calls(round));
    upstream.round(says("Done."));
    let answer = server.client().chat(&with(ask("Go."), json!({}))).await;
    assert_eq!(answer.text(), "Done.");
    answers_in(&upstream.requests().pop().expect("a request").json())
}

fn write(name: &str) -> Value {
    json!({ "file_path": name, "content": "new\n" })
}

#[tokio::test]
async fn accept_edits_asks_only_about_protected_files() {
    let upstream = Upstream::start();
    let server = builder(&upstream, "acceptEdits").start().await;
    upstream.round(calls(&[
        ("c1", "Write", write("new.txt")),
        ("c2", "Write", write(".GitHub/workflows/ci.yml")),
    ]));
    let client = server.client();
    let first = client.chat(&ask("Write them.")).await;
    let question = first.text();
    assert!(question.contains(".GitHub/workflows/ci.yml"), "{question}");
    assert!(question.contains("`.github/workflows` decides what other programs run"), "{question}");
    assert!(!question.contains("new.txt"), "{question}");
    assert_eq!(server.file("new.txt"), "new\n");

    upstream.round(says("Done."));
    let list = [user("Write them."), assistant(&question), user("1")];
    let answer = client.chat(&conversation(&list)).await;
    assert_eq!(answer.text(), "Done.");
    assert_eq!(server.file(".GitHub/workflows/ci.yml"), "new\n");
}

#[tokio::test]
async fn secrets_are_not_read_unasked_and_grep_passes_over_them() {
    let upstream = Upstream::start();
    let round = [
        ("c1", "Read", json!({ "file_path": ".env" })),
        ("c2", "Grep", json!({ "pattern": "needle", "output_mode": "content" })),
        ("c3", "Grep", json!({ "pattern": "needle", "path": ".env" })),
        ("c4", "Glob", json!({ "pattern": "**/*" })),
    ];
    let answers = answers(builder(&upstream, "default"), &upstream, &round).await;
    assert!(answers[0].starts_with("Error: not permitted: Read needs an approval"), "{answers:#?}");
    assert!(answers[0].contains("Read(.env)"), "{answers:#?}");
    assert!(
        answers[1].contains("needle a") && !answers[1].contains("needle secret"),
        "{answers:#?}"
    );
    assert!(answers[1].contains("1 file that may hold secrets"), "{answers:#?}");
    assert!(answers[2].starts_with("Error: not permitted: Grep needs an approval"), "{answers:#?}");
    assert!(answers[3].contains(".env"), "its name is no secret: {answers:#?}");
}

#[tokio::test]
async fn a_rule_that_names_a_secret_lets_it_be_read_and_searched() {
    let upstream = Upstream::start();
    let round = [
        ("c1", "Read", json!({ "file_path": ".env" })),
        ("c2", "Grep", json!({ "pattern": "needle", "output_mode": "content" })),
    ];
    let builder = builder(&upstream, "dontAsk").config("permissions.allow", r#"["Read(.env)"]"#);
    let answers = answers(builder, &upstream, &round).await;
    assert!(answers[0].contains("needle secret"), "{answers:#?}");
    assert!(answers[1].contains("needle secret"), "{answers:#?}");
}

#[tokio::test]
async fn t32_a_denied_file_is_denied_by_whatever_name() {
    let upstream = Upstream::start();
    let builder = builder(&upstream, "bypassPermissions")
        .config("permissions.deny", r#"["Read(private/**)", "Read(a.txt)"]"#)
        .config("approval.channel", r#""none""#);
    let server = builder.start().await;
    let workspace = server.workspace();
    symlink(workspace.join("private"), workspace.join("link")).expect("a link");
    fs::hard_link(workspace.join("a.txt"), workspace.join("hard.txt")).expect("a hard link");
    let round = [
        ("c1", "Read", json!({ "file_path": "private/b.txt" })),
        ("c2", "Read", json!({ "file_path": "link/b.txt" })),
        ("c3", "Read", json!({ "file_path": "./private/../private/b.txt" })),
        ("c4", "Read", json!({ "file_path": "hard.txt" })),
        ("c5", "Write", write("private/new.txt")),
        ("c6", "Grep", json!({ "pattern": "needle", "path": "link/b.txt" })),
        ("c7", "Read", json!({ "file_path": "privat/b.txt" })),
    ];
    let answers = told(&server, &upstream, &round).await;
    for answer in &answers[..6] {
        assert!(answer.starts_with("Error: not permitted: the rule `Read("), "{answers:#?}");
    }
    assert!(!answers[6].contains("private/b.txt"), "no closest name tells of it: {answers:#?}");
    let round = [
        ("c1", "Glob", json!({ "pattern": "**/*.txt" })),
        ("c2", "Grep", json!({ "pattern": "needle", "output_mode": "content" })),
        ("c3", "Grep", json!({ "pattern": "needle", "path": "link" })),
    ];
    let answers = told(&server, &upstream, &round).await;
    let hidden = ["b.txt", "a.txt", "hard", "needle a", "needle private"];
    for answer in &answers {
        assert!(!hidden.iter().any(|it| answer.contains(it)), "{answers:#?}");
    }
    assert!(!workspace.join("private/new.txt").exists());
}

#[tokio::test]
async fn t22_an_approval_is_for_the_place_that_a_link_led_to() {
    let upstream = Upstream::start();
    let server = builder(&upstream, "acceptEdits").start().await;
    let outside = tempfile::tempdir().expect("a directory");
    let place = |name: &str| outside.path().canonicalize().expect("it is there").join(name);
    for name in ["one", "two"] {
        fs::write(place(name), name).expect("a file");
    }
    let link = server.workspace().join("link");
    symlink(place("one"), &link).expect("a link");
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": "link" }))]));
    let client = server.client();
    let first = client.chat(&ask("Read it.")).await.text();
    let shows =
        |question: &str, name: &str| question.contains(place(name).to_str().expect("UTF-8"));
    assert!(shows(&first, "one"), "{first}");

    fs::remove_file(&link).expect("a link");
    symlink(place("two"), &link).expect("a link");
    let mut list = vec![user("Read it."), assistant(&first), user("1")];
    let second = client.chat(&conversation(&list)).await.text();
    assert!(shows(&second, "two"), "{second}");
    assert_eq!(upstream.requests().len(), 1, "nothing was read yet");

    upstream.round(says("Done."));
    list.extend([assistant(&second), user("1")]);
    let answer = client.chat(&conversation(&list)).await;
    assert_eq!(answer.text(), "Done.");
    let told = answers_in(&upstream.requests().pop().expect("a request").json());
    assert!(told[0].contains("two") && !told[0].contains("one"), "{told:?}");
}

#[tokio::test]
async fn t5_what_lies_outside_is_denied_where_nobody_is_asked_and_never_in_the_kernels_directories()
{
    let upstream = Upstream::start();
    let round = [
        ("c1", "Read", json!({ "file_path": "/etc/hostname" })),
        ("c2", "Read", json!({ "file_path": "../../../../etc/hostname" })),
        ("c3", "Glob", json!({ "pattern": "/etc/*" })),
        ("c4", "Read", json!({ "file_path": "/proc/self/environ" })),
        ("c5", "Write", write("/etc/passwd")),
        ("c6", "Read", json!({ "file_path": "$HOME/x" })),
    ];
    let answers = answers(builder(&upstream, "dontAsk"), &upstream, &round).await;
    for answer in &answers[..5] {
        assert!(answer.starts_with("Error: not permitted: "), "{answers:#?}");
    }
    assert!(answers[5].contains("does not exist"), "nothing is interpreted: {answers:#?}");
}

#[tokio::test]
async fn t10_a_link_that_a_command_makes_leads_no_tool_out() {
    let upstream = Upstream::start();
    let outside = tempfile::tempdir().expect("a directory");
    let place = outside.path().canonicalize().expect("it is there");
    fs::write(place.join("there.txt"), "theirs\n").expect("a new file");
    let links =
        format!("ln -s {0} dir; ln -s {0}/there.txt file; ln -s {0}/new.txt new", place.display());
    let server = builder(&upstream, "acceptEdits")
        .argument("--sandbox=off")
        .config("approval.channel", r#""none""#)
        .config("permissions.allow", r#"["Bash(sh links.sh)"]"#)
        .file("links.sh", &links)
        .start()
        .await;
    told(&server, &upstream, &[("c1", "Bash", bash("sh links.sh"))]).await;
    assert!(server.workspace().join("new").is_symlink(), "the command made it");

    let round = [
        ("c1", "Write", write("file")),
        ("c2", "Write", write("new")),
        ("c3", "Write", write("dir/new.txt")),
        ("c4", "Read", json!({ "file_path": "file" })),
    ];
    let answers = told(&server, &upstream, &round).await;
    // It would fail anyway, so nobody is asked.
    assert!(answers[0].starts_with("Error: Must read file before editing"), "{answers:?}");
    for answer in &answers[1..] {
        assert!(answer.starts_with("Error: not permitted: "), "{answer}");
        assert!(answer.contains("outside the workspace"), "{answer}");
    }
    assert_eq!(fs::read_to_string(place.join("there.txt")).expect("it is there"), "theirs\n");
    assert_eq!(fs::read_dir(&place).expect("a directory").count(), 1);
}

#[tokio::test]
async fn a_file_outside_is_written_when_a_person_has_approved_it() {
    let upstream = Upstream::start();
    let server = builder(&upstream, "acceptEdits").start().await;
    let outside = tempfile::tempdir().expect("a directory");
    let place = outside.path().canonicalize().expect("it is there").join("deep/new.txt");
    let path = place.to_str().expect("UTF-8");
    upstream.round(calls(&[("c1", "Write", write(path))]));
    let client = server.client();
    let question = client.chat(&ask("Write it.")).await.text();
    assert!(question.contains(&format!("{path} is outside the workspace")), "{question}");
    assert!(!place.exists());

    upstream.round(says("Done."));
    let list = [user("Write it."), assistant(&question), user("1")];
    let answer = client.chat(&conversation(&list)).await;
    assert_eq!(answer.text(), "Done.");
    assert_eq!(fs::read_to_string(&place).expect("it was written"), "new\n");
}

/// A call of Bash.
fn bash(command: &str) -> Value {
    json!({ "command": command })
}

#[tokio::test]
async fn s2_s4_commands_are_judged_by_their_parts_and_files() {
    let upstream = Upstream::start();
    let round = [
        ("c1", "Bash", bash("cat a.txt | head -n 1")),
        ("c2", "Bash", bash("echo allowed")),
        ("c3", "Bash", bash("echo allowed; make")),
        ("c4", "Bash", bash("echo allowed && sudo rm -rf private")),
        ("c5", "Bash", bash("cat .e*")),
        ("c6", "Bash", bash("cat private/b.txt")),
        ("c7", "Bash", bash("echo x > new.txt")),
        ("c8", "Bash", bash("echo 'open")),
    ];
    let builder = builder(&upstream, "default")
        .config("sandbox.mode", r#""off""#)
        .config("permissions.allow", r#"["Bash(echo *)"]"#)
        .config("permissions.deny", r#"["Bash(rm *)", "Read(private/**)"]"#);
    let answers = answers(builder, &upstream, &round).await;
    assert!(answers[0].contains("needle a"), "{answers:#?}");
    assert!(answers[1].contains("allowed"), "{answers:#?}");
    let told = [
        (2, "Bash needs an approval"),
        (2, r#"["Bash(echo allowed)", "Bash(make)"]"#),
        (3, "the rule `Bash(rm *)` in `permissions.deny` forbids this command"),
        (4, "`.env` may hold secrets"),
        (5, "the rule `Read(private/**)` in `permissions.deny` forbids Bash this path"),
        (6, "it writes new.txt by `>`"),
        (7, "the command line does not parse"),
    ];
    for (answer, words) in told {
        assert!(answers[answer].starts_with("Error: not permitted: "), "{answers:#?}");
        assert!(answers[answer].contains(words), "{words}: {answers:#?}");
    }
}

/// Whether a sandbox holds on this machine.
pub(crate) async fn has_sandbox(server: &Server) -> bool {
    let status = server.client().get("/toolhand/v1/status").await.json();
    status["sandbox"]["level"] != "none"
}

/// A server in a sandbox, a file that a command inside cannot write, and the call that would
/// write it from outside. `None`: this machine has no sandbox.
async fn leaving(builder: Builder) -> Option<(Server, PathBuf, Value)> {
    let outside = builder.home().join("outside");
    let command = format!("echo made >{}", outside.display());
    let call = json!({ "command": command, "dangerouslyDisableSandbox": true });
    let server = builder.start().await;
    has_sandbox(&server).await.then_some((server, outside, call))
}

#[tokio::test]
async fn a_command_leaves_the_sandbox_only_with_a_persons_consent_to_this_call() {
    let upstream = Upstream::start();
    let builder = builder(&upstream, "bypassPermissions")
        .config("sandbox.escape", "true")
        .config("permissions.allow", r#"["Bash"]"#);
    let Some((server, outside, call)) = leaving(builder).await else { return };
    let inside = json!({ "command": call["command"] });
    upstream.round(calls(&[("c1", "Bash", inside), ("c2", "Bash", call.clone())]));
    let client = server.client();
    let question = client.chat(&ask("Run it.")).await.text();
    assert!(!outside.exists(), "the one inside cannot write there");
    assert!(question.contains("outside of the sandbox"), "{question}");
    assert!(!question.contains("for this session"), "it is asked about each time: {question}");
    assert!(question.contains("- `1` allow once\n- `3` deny\n"), "{question}");
    let approvals = client.get("/toolhand/v1/approvals").await.json();
    let approval = &approvals["data"][0];
    assert_eq!(approval["risks"][0]["severity"], "critical", "{approval}");
    assert_eq!(approval["suggestions"], json!([]), "{approval}");

    upstream.round(calls(&[("c3", "Bash", call)]));
    let mut list = vec![user("Run it."), assistant(&question), user("1")];
    let again = client.chat(&conversation(&list)).await.text();
    assert_eq!(fs::read_to_string(&outside).expect("made"), "made\n");
    assert!(again.contains("outside of the sandbox"), "it is asked about again: {again}");
    fs::remove_file(&outside).expect("removed");

    upstream.round(says("Done."));
    list.extend([assistant(&again), user("3")]);
    assert_eq!(client.chat(&conversation(&list)).await.text(), "Done.");
    assert!(!outside.exists());
}

#[tokio::test]
async fn t3_a_call_cannot_leave_the_sandbox_where_that_is_not_offered() {
    let upstream = Upstream::start();
    let builder = builder(&upstream, "bypassPermissions");
    let Some((server, outside, call)) = leaving(builder).await else { return };
    let answers = told(&server, &upstream, &[("c1", "Bash", call)]).await;
    assert!(answers[0].contains("does not know it: dangerouslyDisableSandbox"), "{answers:#?}");
    assert!(!outside.exists());
    let offered = upstream.requests()[0].json()["tools"].to_string();
    assert!(!offered.contains("dangerouslyDisableSandbox"), "{offered}");
}

#[tokio::test]
async fn a_person_sees_the_risks_of_a_command_and_the_rules_that_would_do() {
    let upstream = Upstream::start();
    let server = builder(&upstream, "default").config("sandbox.mode", r#""off""#).start().await;
    upstream.round(calls(&[("c1", "Bash", bash("true && touch made && sh run.sh"))]));
    let client = server.client();
    let question = client.chat(&ask("Run it.")).await.text();
    assert!(question.contains("- risk (medium): `sh` runs code"), "{question}");
    let approvals = client.get("/toolhand/v1/approvals").await.json();
    let approval = &approvals["data"][0];
    assert_eq!(approval["risks"][0]["kind"], "code_execution", "{approval}");
    let rules = json!(["Bash(sh run.sh)", "Bash(touch made)", "Bash(true)"]);
    assert_eq!(approval["suggestions"], rules, "{approval}");

    upstream.round(says("Done."));
    let list = [user("Run it."), assistant(&question), user("1")];
    assert_eq!(client.chat(&conversation(&list)).await.text(), "Done.");
    assert_eq!(server.file("made"), "");
}
