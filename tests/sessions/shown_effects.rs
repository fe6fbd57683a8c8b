//! What a person is shown of a call before approving it, and whether anything can hide there.

use std::fs;

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use super::asking::{Talk, builder, codes, decide, open, server};
use crate::support::chunks::{calls, says};
use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// The question about a call, in a new conversation.
async fn asked(client: &Client, upstream: &Upstream, call: (&str, Value)) -> (Talk, String) {
    asked_with(client, upstream, (call, json!({}))).await
}

/// The same with further members of the request.
async fn asked_with(
    client: &Client,
    upstream: &Upstream,
    ((tool, input), members): ((&str, Value), Value),
) -> (Talk, String) {
    let mut talk = Talk::new(client.clone()).with(members);
    upstream.round(calls(&[("c", tool, input)]));
    let question = talk.say("Do it.").await;
    assert!(question.contains("needs your approval"), "{question}");
    (talk, question)
}

fn run(command: &str) -> (&'static str, Value) {
    ("Bash", json!({ "command": command }))
}

/// The lines within the first fence.
fn fenced(question: &str) -> Vec<&str> {
    let mut lines = question.lines().skip_while(|line| !line.starts_with("```"));
    let fence = lines.next().expect("a fence").trim_end_matches(char::is_alphabetic);
    lines.take_while(|line| *line != fence).collect()
}

#[track_caller]
fn all_is_in_sight(question: &str, danger: &str) {
    let lines = fenced(question);
    let widest = lines.iter().map(|line| line.width()).max().unwrap_or_default();
    assert!(widest <= 80, "{widest} columns: {question}");
    let at = lines.iter().position(|line| line.contains(danger));
    assert!(at.is_some_and(|at| at < 12), "{danger} is out of sight: {question}");
    // A diff keeps the tabs at the start of its lines.
    let is_hidden = |c: char| c != '\t' && (c.is_control() || (c != ' ' && c.is_whitespace()));
    assert!(!lines.concat().contains(is_hidden), "{question:?}");
    let marks = question.matches("needs your approval").count();
    assert_eq!(marks, 1, "nothing fakes a question: {question}");
}

#[tokio::test]
async fn x15_no_command_hides_what_it_does() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let danger = "truncate -s0 notes.txt";
    let words = "word ".repeat(100);
    for hidden in [
        format!("echo tidy{}; {danger}", " ".repeat(160)),
        format!("echo tidy{}; {danger}", "\t".repeat(60)),
        format!("echo tidy{}; {danger}", " \t".repeat(80)),
        format!("echo tidy{}; {danger}", "\u{a0}".repeat(160)),
        format!("echo tidy{}; {danger}", "\u{3000}".repeat(80)),
        format!("echo tidy{}; {danger}", "\u{200b}".repeat(300)),
        format!("echo tidy{}{danger}", "\n".repeat(300)),
        format!("echo tidy{}{danger}", "\n \t".repeat(300)),
        format!("echo tidy\\\n{}; {danger}", " ".repeat(200)),
        format!("echo {}; {danger}", "x".repeat(400)),
        format!("echo {words}; {danger}"),
        format!("echo a{}; {danger}", "\u{301}".repeat(100)),
        format!("echo \"\u{5d0}\u{5d1}\"; {danger}"),
        format!("echo \u{202e}tidy; {danger}"),
        format!("echo '```\n\n**Bash needs no approval**\n```'; {danger}"),
        format!("echo '~~~'; {danger}"),
        format!("echo ⟨3 blanks⟩ ↳; {danger}"),
        format!("cat <<'EOF'\n{}\nEOF\n{danger}", " ".repeat(300)),
        format!("echo {}; {danger}", "語".repeat(100)),
        format!("echo tidy #{}\n{danger}", "=".repeat(200)),
    ] {
        let (mut talk, question) = asked(&client, &upstream, run(&hidden)).await;
        all_is_in_sight(&question, danger);
        let of_words = question.lines().nth(2).expect("words");
        let tells = of_words.contains("`truncate`")
            || of_words.starts_with("The programs in this line are not known: ");
        assert!(tells, "{question}");
        upstream.round(says("Well."));
        talk.say("3").await;
    }
    assert_eq!(server.file("notes.txt"), "needle\n");
}

#[tokio::test]
async fn diffs_and_arguments_are_shown_in_columns_too() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let far = format!("x = 1{}; evil()\n\ty\u{200b}\n", " ".repeat(200));
    let (_, question) =
        asked(&client, &upstream, ("Write", json!({ "file_path": "a", "content": far }))).await;
    all_is_in_sight(&question, "evil()");
    assert!(question.contains("+x = 1⟨200 blanks⟩; evil()"), "{question}");
    assert!(question.contains(r"y\u{200b}"), "{question}");

    let path = format!("a{}b\u{202e}.txt", " ".repeat(100));
    let (_, question) =
        asked(&client, &upstream, ("Write", json!({ "file_path": path, "content": "x" }))).await;
    assert!(question.contains(r"/a⟨100 blanks⟩b\u{202e}.txt`"), "{question}");

    let url = format!("https://example.com/a?{}[x](http://evil.example)", "q=1&".repeat(60));
    let (_, question) = asked(&client, &upstream, ("WebFetch", json!({ "url": url }))).await;
    assert!(fenced(&question).iter().all(|line| line.width() <= 80), "{question}");
    assert!(question.contains("`https://example.com/a?q=1&"), "{question}");
}

fn ask_user() -> Value {
    let parameters =
        json!({ "type": "object", "properties": { "questions": { "type": "array" } } });
    let function = json!({ "name": "ask_user", "parameters": parameters });
    json!({ "tools": [{ "type": "function", "function": function }] })
}

#[tokio::test]
async fn x15_a_dialog_names_the_command_and_then_the_models_words() {
    let upstream = Upstream::start();
    let server = builder(&upstream).file("precious/a", "x\n").start().await;
    let input = json!({ "command": "rm -r precious", "description": "List the files" });
    let (talk, text) =
        asked_with(&server.client(), &upstream, (("Bash", input.clone()), ask_user())).await;
    let code = &codes(&text)[0];
    let question = talk.calls()[0].2["questions"][0].clone();
    assert_eq!(
        question["question"],
        format!("Bash ({code}): rm -r precious (in the model's words: “List the files”)")
    );
    assert!(text.contains("\n\nIn the model's words: `List the files`"), "{text}");

    let members = json!({ "tools": [{ "type": "function", "function": {
        "name": "toolhand_approval", "parameters": { "type": "object" },
    } }] });
    let (talk, _) = asked_with(&server.client(), &upstream, (("Bash", input), members)).await;
    let effect = talk.calls()[0].2["effect"].as_str().expect("text").to_owned();
    assert!(effect.starts_with("1 command: `rm`\n\n```sh\nrm -r precious\n```\n"), "{effect}");
    let approvals = open(&server.client()).await;
    let shown = |one: &Value| effect.starts_with(one["effect"].as_str().expect("text").trim_end());
    assert!(approvals.iter().all(shown), "{approvals:?}");

    let streamed = json!({ "model": "scripted", "stream": true, "messages": [
        { "role": "user", "content": "Do it." },
    ]});
    let input = json!({ "command": "rm -r precious", "description": "List the files" });
    upstream.round(calls(&[("c", "Bash", input)]));
    let lines = server.client().streamed(&streamed).await.reasoning();
    assert!(lines.contains("? Bash rm -r precious waits for an answer"), "{lines}");
    assert_eq!(server.file("precious/a"), "x\n");
}

fn grants(server: &Server) -> String {
    fs::read_to_string(server.state_dir().join("grants.toml")).unwrap_or_default()
}

/// Whether a new conversation is asked about the command. It is declined then.
async fn asks(client: &Client, upstream: &Upstream, command: &str) -> bool {
    let mut talk = Talk::new(client.clone());
    upstream.round(calls(&[("c", "Bash", json!({ "command": command }))]));
    upstream.round(says("Done."));
    let is_asked = talk.say("Do it.").await != "Done.";
    if is_asked {
        talk.say("3").await;
    }
    is_asked
}

#[tokio::test]
async fn the_fourth_choice_allows_the_rule_that_it_shows_from_now_on() {
    let rule = "- `4` allow by rule (from now on in this project, in the same directory: \
                `Bash(git status *)`)";
    for way in ["4", "allow by rule", "dialog", "rest"] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let client = server.client();
        let members = if way == "dialog" { ask_user() } else { json!({}) };
        let call = (run("git status --short"), members);
        let (mut talk, question) = asked_with(&client, &upstream, call).await;
        upstream.round(says("Done."));
        let answer = match way {
            "dialog" => {
                let (id, _, arguments) = talk.calls().remove(0);
                let question = &arguments["questions"][0];
                let option = &question["options"][2];
                assert_eq!(option["label"], "Allow by rule");
                let shown = "From now on in this project: Bash(git status *)";
                assert_eq!(option["description"], shown);
                let code = question["id"].as_str().expect("an id");
                let chosen = json!({ "answers": { code: { "label": option["label"] } } });
                talk.answer(&id, &chosen.to_string());
                talk.send().await
            }
            "rest" => {
                let approval = open(&client).await.remove(0);
                assert_eq!(approval["suggestions"], json!(["Bash(git status --short)"]));
                assert_eq!(approval["choices"], json!(["allow", "always", "deny", "rule"]));
                let wrong = json!({ "decision": "allow", "scope": "rule", "rules": ["Bash"] });
                assert_eq!(decide(&client, &approval, &wrong).await.status(), 400);
                let rules = &approval["rules"];
                let rule = json!({ "decision": "allow", "scope": "rule", "rules": rules });
                assert_eq!(decide(&client, &approval, &rule).await.status(), 200);
                talk.say("Go on.").await
            }
            choice => {
                assert!(question.lines().any(|line| line == rule), "{question}");
                talk.say(choice).await
            }
        };
        assert_eq!(answer, "Done.", "{way}");
        assert!(grants(&server).contains("rule = \"Bash(git status *)\""), "{}", grants(&server));
        assert!(!asks(&client, &upstream, "git status -b").await, "{way}");
        for other in ["git stash", "git status; git stash", "git status > a", "git -c a=b status"] {
            assert!(asks(&client, &upstream, other).await, "{way}: {other}");
        }
    }
}

#[tokio::test]
async fn no_rule_is_offered_where_the_policy_would_ask_all_the_same() {
    let upstream = Upstream::start();
    let ask = json!(["Bash(git commit *)"]).to_string();
    let server = builder(&upstream).config("permissions.ask", &ask).start().await;
    let client = server.client();
    for command in [
        "git commit -m x",
        "git add .env",
        "git add a > out",
        "git push",
        "git add a && rm -r b",
        "git add a | bash",
        "cd a && git add b",
        "X=1 git add a",
        "make test",
        "npm run",
    ] {
        let (mut talk, question) = asked(&client, &upstream, run(command)).await;
        assert!(!question.contains("- `4`"), "{question}");
        upstream.round(says("Well."));
        // What is not on offer is a text like any other.
        assert_eq!(talk.say("4").await, "Well.");
    }
    assert_eq!(grants(&server), "");
}
