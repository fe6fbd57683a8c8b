//! What a person allows for a workspace from now on: the scope `rule` of a decision.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::after;
use super::asking::{Talk, builder, decide, marks, open, server, times_run, tool_answers, write};
use crate::settings::client_keys::{add, key_command};
use crate::support::chunks::{calls, says};
use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

fn always() -> Value {
    json!({ "decision": "allow", "scope": "rule" })
}

fn grants(server: &Server) -> PathBuf {
    server.state_dir().join("grants.toml")
}

fn kept(server: &Server) -> String {
    fs::read_to_string(grants(server)).unwrap_or_default()
}

/// The approval that a new conversation asks for with this call.
async fn asked(client: &Client, upstream: &Upstream, call: (&str, Value)) -> (Talk, Value) {
    let mut talk = Talk::new(client.clone());
    upstream.round(calls(&[("m", call.0, call.1)]));
    let question = talk.say("Do it.").await;
    assert!(question.contains("needs your approval"), "{question}");
    let mut open = open(client).await;
    let newest = open.iter().position(|one| question.contains(one["code"].as_str().expect("code")));
    (talk, open.swap_remove(newest.expect("an approval")))
}

/// Lets a call run, and keeps the rules.
async fn keep(client: &Client, upstream: &Upstream, call: (&str, Value)) -> Value {
    let (mut talk, approval) = asked(client, upstream, call).await;
    let decided = decide(client, &approval, &always()).await;
    assert_eq!(decided.status(), 200, "{}", String::from_utf8_lossy(&decided.body));
    upstream.round(says("Done."));
    assert_eq!(talk.say("Go on.").await, "Done.");
    approval["suggestions"].clone()
}

/// Whether a new conversation is asked about the call. It is declined then.
async fn asks(client: &Client, upstream: &Upstream, call: (&str, Value)) -> bool {
    let mut talk = Talk::new(client.clone());
    upstream.round(calls(&[("m", call.0, call.1)]));
    upstream.round(says("Done."));
    let answer = talk.say("Do it.").await;
    if answer == "Done." {
        return false;
    }
    assert!(answer.contains("needs your approval"), "{answer}");
    assert_eq!(talk.say("3").await, "Done.");
    true
}

fn run(line: &str) -> (&'static str, Value) {
    ("Bash", json!({ "command": line }))
}

/// What `check` says of kept rules.
fn checked(server: &Server) -> String {
    let home = server.state_dir().parent().expect("the home").to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolhand"));
    command.env_clear().env("HOME", &home).env("PATH", "/usr/bin:/bin").arg("check");
    command.arg("--config").arg(home.join("toolhand.toml")).stdin(Stdio::null());
    command.env("TOOLHAND_STATE_DIR", server.state_dir());
    command.env("TOOLHAND_WORKSPACE", server.workspace());
    let output = command.output().expect("the binary");
    let text =
        String::from_utf8(output.stdout).expect("text").replace(home.to_str().expect("text"), "~");
    let lines = text.lines().skip_while(|line| !line.starts_with("kept rules: "));
    let lines = lines.take_while(|line| line.starts_with("kept rules: ") || line.starts_with("  "));
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_kept_rule_holds_for_its_key_and_workspace_until_it_is_taken_back() {
    let upstream = Upstream::start();
    let mut first = server(&upstream).await;
    let client = first.client();
    let rules = keep(&client, &upstream, ("Bash", marks("a"))).await;
    let out = first.workspace().join("a");
    assert_eq!(rules, json!(["Bash(echo ran)", format!("Edit(/{})", out.display())]));
    assert_eq!(times_run(&first, "a"), 1);

    let mode = fs::metadata(grants(&first)).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!asks(&client, &upstream, ("Bash", marks("a"))).await, "another session");
    assert!(asks(&client, &upstream, ("Bash", marks("b"))).await);
    assert!(asks(&client, &upstream, run("echo ran again >> a")).await);
    let check = checked(&first);
    let day = &check[check.find(", since ").expect("a day")..][..18];
    assert_eq!(
        check
            .lines()
            .map(|line| line.split(", since ").next().expect("a line"))
            .collect::<Vec<_>>(),
        [
            "kept rules: 2 in ~/state/grants.toml",
            "  Bash(echo ran) for the key default in ~/workspace",
            "  Edit(/~/workspace/a) for the key default in ~/workspace",
        ],
        "{check}"
    );
    assert!(day.starts_with(", since 20"), "{check}");

    let bob = add(&first, &["bob"]);
    let bob = Client::new(first.address(), &bob);
    assert!(asks(&bob, &upstream, ("Bash", marks("a"))).await, "another key");
    keep(&bob, &upstream, ("Bash", marks("a"))).await;
    assert!(!asks(&bob, &upstream, ("Bash", marks("a"))).await);
    assert!(key_command(&first, &["revoke", "bob"]).status.success());
    let bob = add(&first, &["bob"]);
    let bob = Client::new(first.address(), &bob);
    assert!(asks(&bob, &upstream, ("Bash", marks("a"))).await, "another key of the same name");

    first.stop();
    let second = after(&upstream, &first).argument("--sandbox=off").start().await;
    let client = second.client();
    assert!(!asks(&client, &upstream, ("Bash", marks("a"))).await, "after a restart");
    assert_eq!(times_run(&first, "a"), 5);
    fs::write(grants(&first), "").expect("our file");
    assert!(asks(&client, &upstream, ("Bash", marks("a"))).await, "taken back");
}

#[tokio::test]
async fn a_kept_rule_is_for_the_directory_that_was_the_workspace() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let workspace = server.workspace();
    fs::create_dir(workspace.join("sub")).expect("a directory");
    keep(&client, &upstream, run("touch made")).await;
    assert!(!asks(&client, &upstream, run("touch made")).await);

    let mut talk = Talk::new(client.clone());
    upstream.round(calls(&[("m", "Bash", json!({ "command": "cd sub" }))]));
    upstream.round(calls(&[("n", "Bash", json!({ "command": "touch made" }))]));
    let question = talk.say("Go there.").await;
    assert!(question.contains("needs your approval"), "another directory: {question}");

    let old = workspace.with_file_name("old");
    fs::rename(&workspace, &old).expect("it moves");
    fs::create_dir(&workspace).expect("another directory");
    assert!(asks(&client, &upstream, run("touch made")).await);
    assert!(checked(&server).contains("; no effect: another directory is there now"));
    fs::remove_dir_all(&workspace).expect("it goes");
    fs::rename(&old, &workspace).expect("it is back");
    assert!(!asks(&client, &upstream, run("touch made")).await);
}

#[tokio::test]
async fn deny_and_ask_rules_and_hooks_beat_a_kept_rule() {
    let upstream = Upstream::start();
    let hook = "\n[[hooks]]\nevent = \"PreToolUse\"\nmatcher = \"Write\"\ncommand = '''test ! -e \
                stop || echo '{\"hookSpecificOutput\": {\"hookEventName\": \"PreToolUse\", \
                \"permissionDecision\": \"ask\", \"permissionDecisionReason\": \"why\"}}' '''\n";
    let server = builder(&upstream).tables(hook).start().await;
    let client = server.client();
    keep(&client, &upstream, run("touch made")).await;
    keep(&client, &upstream, ("Write", write("new.txt"))).await;
    let settings = server.workspace().join(".claude/settings.json");
    fs::create_dir(settings.parent().expect("inside")).expect("a directory");
    let set = |list: &str, rule: &str| {
        let rules = json!({ "permissions": { list: [rule] } }).to_string();
        fs::write(&settings, rules).expect("a file");
    };

    set("ask", "Bash(touch *)");
    let (_, approval) = asked(&client, &upstream, run("touch made")).await;
    assert_eq!(approval["suggestions"], json!([]), "no rule would do");
    let refused = decide(&client, &approval, &always()).await;
    assert_eq!(refused.refusal(), (400, "invalid_value".to_owned()));
    set("deny", "Bash(touch *)");
    upstream.round(calls(&[("m", "Bash", json!({ "command": "touch made" }))]));
    upstream.round(says("Done."));
    let mut talk = Talk::new(client.clone());
    assert_eq!(talk.say("Do it.").await, "Done.");
    let told = tool_answers(&upstream.requests().pop().expect("a request")).remove(0);
    assert!(told.contains("`Bash(touch *)` in `permissions.deny` of "), "{told}");
    fs::remove_file(&settings).expect("it goes");
    assert!(!asks(&client, &upstream, run("touch made")).await);

    // Only a file that is new, or was read, is written.
    let gone = || fs::remove_file(server.workspace().join("new.txt")).expect("it goes");
    gone();
    assert!(!asks(&client, &upstream, ("Write", write("new.txt"))).await);
    gone();
    fs::write(server.workspace().join("stop"), "").expect("a file");
    let (_, approval) = asked(&client, &upstream, ("Write", write("new.txt"))).await;
    assert_eq!(approval["suggestions"], json!([]), "a hook asks about each call");
    fs::remove_file(server.workspace().join("stop")).expect("it goes");
    assert!(!asks(&client, &upstream, ("Write", write("new.txt"))).await);
}

#[tokio::test]
async fn a_kept_rule_names_the_one_secret_that_was_approved() {
    let upstream = Upstream::start();
    let server = builder(&upstream).file(".env", "a\n").file("sub/.env", "b\n").start().await;
    let client = server.client();
    let read = |path: &str| ("Read", json!({ "file_path": path }));
    let secret = server.workspace().join(".env");
    let rules = keep(&client, &upstream, read(".env")).await;
    assert_eq!(rules, json!([format!("Read(/{})", secret.display())]));
    assert!(!asks(&client, &upstream, read(".env")).await);
    assert!(asks(&client, &upstream, read("sub/.env")).await);
    fs::remove_file(&secret).expect("it goes");
    assert!(asks(&client, &upstream, ("Write", write(".env"))).await);

    let outside = server.workspace().with_file_name("notes [1].txt");
    fs::write(&outside, "c\n").expect("a file");
    fs::write(outside.with_file_name("notes 1.txt"), "d\n").expect("a file");
    keep(&client, &upstream, read("../notes [1].txt")).await;
    assert!(!asks(&client, &upstream, read("../notes [1].txt")).await);
    assert!(asks(&client, &upstream, read("../notes 1.txt")).await);
}

#[tokio::test]
async fn what_no_rule_can_allow_is_not_offered_one() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let home = server.state_dir().parent().expect("the home").to_owned();
    for line in [
        "rm -rf /usr",
        "touch 'a",
        "touch a && touch b && touch c && touch d && touch e && touch f",
        "touch $NAME",
        "sh <<< 'touch a'",
        "printf 'touch a' | sh",
        "touch a | xargs rm",
        &format!("touch {}/state/keys.toml.new || true; rm -r /", home.display()),
    ] {
        upstream.round(calls(&[("m", "Bash", json!({ "command": line }))]));
        upstream.otherwise(says("Done."));
        Talk::new(client.clone()).say("Do it.").await;
        for approval in open(&client).await {
            assert_eq!(approval["suggestions"], json!([]), "{approval}");
            let refused = decide(&client, &approval, &always()).await;
            assert_eq!(refused.refusal(), (400, "invalid_value".to_owned()));
            let declined = decide(&client, &approval, &json!({ "decision": "deny" })).await;
            assert_eq!(declined.status(), 200);
        }
    }
    assert!(!grants(&server).exists());
}

#[tokio::test]
async fn a_broken_file_of_kept_rules_holds_nothing_and_is_left_alone() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    keep(&client, &upstream, run("touch made")).await;
    let good = kept(&server);
    let broken = [
        (good.replace("inode", "node"), "line "),
        (
            good.replace("Bash(touch made)", "Bsh(touch made)"),
            "line 6: permissions.allow: there is",
        ),
        (format!("{good}everything = true\n"), "line "),
    ];
    for (text, reason) in broken {
        fs::write(grants(&server), &text).expect("our file");
        let (mut talk, approval) = asked(&client, &upstream, run("touch made")).await;
        let refused = decide(&client, &approval, &always()).await;
        assert_eq!(refused.refusal(), (503, "store_unavailable".to_owned()));
        let told = String::from_utf8(refused.body).expect("text");
        assert!(told.contains("The rule is not kept: ") && told.contains(reason), "{told}");
        assert_eq!(kept(&server), text);
        let check = checked(&server);
        assert!(check.starts_with("kept rules: ~/state/grants.toml: line "), "{check}");
        assert!(check.contains("no rule that people kept holds until it is mended"), "{check}");
        // The person can still allow it once.
        upstream.round(says("Done."));
        assert_eq!(talk.say("1").await, "Done.");
    }
    server.logged("no kept grants", 3).await;
    fs::write(grants(&server), &good).expect("our file");
    assert!(!asks(&client, &upstream, run("touch made")).await);
    fs::set_permissions(grants(&server), fs::Permissions::from_mode(0o644)).expect("our file");
    assert!(asks(&client, &upstream, run("touch made")).await, "others may read it");
}

#[tokio::test]
async fn a_thousand_rules_are_kept_for_a_key_and_a_workspace() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    keep(&client, &upstream, run("touch made")).await;
    let good = kept(&server);
    let (header, entry) = good.split_once("[[grants]]").expect("an entry");
    let entries = (0..1000).map(|number| {
        format!("[[grants]]{}", entry.replace("touch made", &format!("touch {number}")))
    });
    let full = format!("{header}{}", entries.collect::<String>());
    fs::write(grants(&server), &full).expect("our file");

    let (mut talk, approval) = asked(&client, &upstream, run("touch made")).await;
    let refused = decide(&client, &approval, &always()).await;
    assert_eq!(refused.refusal(), (400, "invalid_value".to_owned()));
    let told = String::from_utf8(refused.body).expect("text");
    assert!(told.contains("1000 rules are kept for this key and this workspace"), "{told}");
    assert_eq!(kept(&server), full);
    upstream.round(says("Done."));
    assert_eq!(talk.say("1").await, "Done.");
    assert!(!asks(&client, &upstream, run("touch 999")).await);
}
