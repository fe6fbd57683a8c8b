//! Tests skills and commands: what the model gets of them, what a message that begins with one
//! becomes, and that neither permits anything.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::sessions::{after, assert_goes_on, assistant, conversation, told, user};
use crate::settings::definitions::{checked, definitions};
use crate::support::chunks::{calls, says};
use crate::support::client::{ask, with};
use crate::support::server::{Builder, Server};
use crate::support::upstream::Upstream;
use crate::turn::answers_in;

type Call = (&'static str, Value);

/// Nobody answers questions, so what would ask is refused.
fn builder(upstream: &Upstream) -> Builder {
    Server::builder(upstream).config("approval.channel", r#""none""#)
}

fn home(server: &Server) -> PathBuf {
    server.state_dir().parent().expect("the home").to_owned()
}

const REVIEW: &str = "---\nname: review\ndescription: Reviews.\nallowed-tools: Bash(*), Write\n\
    model: huge\nhooks: { Stop: [] }\n---\nRead guide.md, then review $1. 1 allow yes\n";

fn with_skills(server: &Server) {
    definitions(
        server,
        &[
            ("~/.claude/skills/review/SKILL.md", REVIEW),
            ("~/.claude/skills/review/guide.md", "the guide\n"),
            ("~/.claude/skills/review/.env", "SECRET=1\n"),
            ("~/.claude/skills/review/denied.txt", "denied\n"),
            ("~/.claude/skills/other/guide.md", "other\n"),
            ("~/.claude/commands/git/push.md", "Push $ARGUMENTS for $10."),
            (
                "~/.claude/commands/mine.md",
                "---\ndisable-model-invocation: true\n---\nOnly for people.",
            ),
            ("~/.claude/commands/models.md", "---\nuser-invocable: false\n---\nOnly for models."),
            ("~/.claude/commands/yes.md", "1"),
        ],
    );
}

/// What the model is told of these calls, one after the other.
async fn told_of(server: &Server, upstream: &Upstream, rounds: &[&[Call]]) -> Vec<String> {
    for (round, list) in rounds.iter().enumerate() {
        let ids: Vec<String> = (0..list.len()).map(|call| format!("c{round}{call}")).collect();
        let list =
            list.iter().zip(&ids).map(|((name, input), id)| (id.as_str(), *name, input.clone()));
        upstream.round(calls(&list.collect::<Vec<_>>()));
    }
    upstream.round(says("Done."));
    let answer = server.client().chat(&conversation(&[user("Go.")])).await;
    assert_eq!(answer.text(), "Done.");
    let home = home(server).display().to_string();
    let answers = answers_in(&upstream.requests().pop().expect("a request").json());
    answers.into_iter().map(|answer| answer.replace(&home, "~")).collect()
}

fn skill(name: &str, args: &str) -> Call {
    ("Skill", json!({ "skill": name, "args": args }))
}

fn read(path: &Path) -> Call {
    ("Read", json!({ "file_path": path }))
}

#[tokio::test]
async fn g4_a_used_skills_directory_can_be_read_and_nothing_else_is_permitted() {
    let upstream = Upstream::start();
    let server = builder(&upstream).config("permissions.deny", r#"["Read(denied.txt)"]"#);
    let server = server.start().await;
    with_skills(&server);
    let directory = home(&server).join(".claude/skills/review");
    let file = |name: &str| directory.join(name);
    let write = ("Write", json!({ "file_path": file("new.txt"), "content": "x" }));
    let edit = json!({ "file_path": file("guide.md"), "old_string": "the", "new_string": "a" });
    let search = json!({ "pattern": "guide|SECRET|denied", "path": directory });

    let answers = told_of(
        &server,
        &upstream,
        &[
            &[read(&file("guide.md"))],
            &[skill("review", "src/main.rs")],
            &[
                read(&file("guide.md")),
                ("Grep", search),
                ("Glob", json!({ "pattern": "*", "path": directory })),
            ],
            &[read(&file(".env")), read(&file("denied.txt")), read(&file("../other/guide.md"))],
            &[write, ("Edit", edit)],
            &[("Write", json!({ "file_path": "new.txt", "content": "x" }))],
            &[("Bash", json!({ "command": "env touch new.txt" }))],
        ],
    )
    .await;

    assert!(answers[0].starts_with("Error: not permitted: Read needs an approval"), "{answers:?}");
    insta::assert_snapshot!(answers[1], @r"
    Base directory for this skill: ~/.claude/skills/review

    Its author meant it for the tools Bash(*), Write and the model huge; this permits nothing, and each call is judged as ever.

    Read guide.md, then review src/main.rs. 1 allow yes
    ");
    assert!(answers[2].contains("the guide"), "{answers:?}");
    assert!(answers[3].contains("guide.md") && !answers[3].contains("denied"), "{answers:?}");
    assert!(!answers[3].contains(".env") && answers[4].contains("guide.md"), "{answers:?}");
    for answer in &answers[5..] {
        assert!(answer.starts_with("Error: not permitted: "), "{answers:?}");
    }
    assert!(!file("new.txt").exists() && !server.workspace().join("new.txt").exists());
    let body = upstream.requests().pop().expect("a request").json();
    assert_eq!(body["model"], "scripted");
}

#[tokio::test]
async fn a_used_skills_directory_can_be_read_after_a_restart() {
    let upstream = Upstream::start();
    let mut first = builder(&upstream).start().await;
    with_skills(&first);
    told_of(&first, &upstream, &[&[skill("review", "")]]).await;
    let directory = home(&first).join(".claude/skills/review");
    let go_on = |say: &str| conversation(&[user("Go."), assistant("Done."), user(say)]);
    first.stop();
    let second = after(&upstream, &first).config("approval.channel", r#""none""#).start().await;
    let input = json!({ "file_path": directory.join("guide.md") });
    upstream.round(calls(&[("d1", "Read", input.clone())]));
    upstream.round(says("Read."));
    assert_eq!(second.client().chat(&go_on("And then?")).await.text(), "Read.");
    let answers = answers_in(&upstream.requests().pop().expect("a request").json());
    assert!(answers[1].contains("the guide"), "{answers:?}");

    // Another session has not used it.
    upstream.round(calls(&[("e1", "Read", input)]));
    upstream.round(says("No."));
    second.client().chat(&conversation(&[user("Another.")])).await;
    let answers = answers_in(&upstream.requests().pop().expect("a request").json());
    assert!(answers[0].contains("needs an approval"), "{answers:?}");
}

#[tokio::test]
async fn only_listed_skills_are_used_and_rules_hold_for_both_tools() {
    let upstream = Upstream::start();
    let server = builder(&upstream).config("permissions.deny", r#"["Skill(models)"]"#);
    let server = server.start().await;
    with_skills(&server);
    let command = |line: &str| ("SlashCommand", json!({ "command": line }));
    let answers = told_of(
        &server,
        &upstream,
        &[
            &[command("/git:push it, $1"), skill("/git:push", "")],
            &[skill("mine", ""), command("/mine"), skill("../review", "")],
            &[skill("models", ""), command("/models now")],
        ],
    )
    .await;
    insta::assert_snapshot!(answers.join("\n---\n"), @r"
    Push it, $1 for $10.
    ---
    Push  for $10.
    ---
    Error: no skill is called mine; there are git:push, models, review, yes
    ---
    Error: no skill is called mine; there are git:push, models, review, yes
    ---
    Error: no skill is called ../review; there are git:push, models, review, yes
    ---
    Error: not permitted: the rule `Skill(models)` in `permissions.deny` forbids Skill of models
    ---
    Error: not permitted: the rule `Skill(models)` in `permissions.deny` forbids SlashCommand of models
    ");
}

/// What upstream is told of the user's last message.
fn last_told(upstream: &Upstream, server: &Server) -> String {
    let home = home(server).display().to_string();
    told(&upstream.requests().pop().expect("a request"))
        .pop()
        .expect("a message")
        .replace(&home, "~")
}

#[tokio::test]
async fn a_message_that_begins_with_a_command_is_its_text_from_then_on() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    with_skills(&server);
    let client = server.client();
    let said = user("/review \"my file.rs\" fast");
    upstream.round(says("Reviewed."));
    client.chat(&conversation(std::slice::from_ref(&said))).await;
    insta::assert_snapshot!(last_told(&upstream, &server), @r"
    user: Base directory for this skill: ~/.claude/skills/review

    Its author meant it for the tools Bash(*), Write and the model huge; this permits nothing, and each call is judged as ever.

    Read guide.md, then review my file.rs. 1 allow yes
    ");

    // What the file says later changes nothing of it, and its directory can be read.
    let guide = home(&server).join(".claude/skills/review/guide.md");
    fs::write(guide.with_file_name("SKILL.md"), "Changed.").expect("our file");
    upstream.round(calls(&[("c1", "Read", json!({ "file_path": guide }))]));
    upstream.round(says("Again."));
    client.chat(&conversation(&[said, assistant("Reviewed."), user("And now?")])).await;
    let [one, two, three] = &upstream.requests()[..] else { panic!("three requests") };
    assert_goes_on(one, two);
    assert_goes_on(two, three);
    assert!(answers_in(&three.json())[0].contains("the guide"));
}

#[tokio::test]
async fn any_other_slash_is_left_alone() {
    let upstream = Upstream::start();
    let server = builder(&upstream).config("background_models", r#"["titles"]"#).start().await;
    with_skills(&server);
    upstream.round(says("A title"));
    server.client().chat(&with(ask("/git:push"), json!({ "model": "titles" }))).await;
    assert_eq!(last_told(&upstream, &server), "user: /git:push");
    let mut first = Vec::new();
    for text in [
        "/usr/bin is a directory",
        "/unknown",
        "/models",
        "Type /git:push",
        "<context>\n/git:push\n</context>\nDo it.",
    ] {
        upstream.round(says("Well."));
        first.push(user(text));
        server.client().chat(&conversation(&first)).await;
        first.push(assistant("Well."));
        assert_eq!(last_told(&upstream, &server), format!("user: {text}"));
    }
    upstream.round(says("Well."));
    first.push(user("<context>\nx\n</context>\n\n/git:push all"));
    server.client().chat(&conversation(&first)).await;
    let expected = "user: <context>\nx\n</context>\n\nPush all for $10.";
    assert_eq!(last_told(&upstream, &server), expected);
    upstream.round(says("Pushed."));
    first.extend([assistant("Well."), user("Thanks")]);
    server.client().chat(&conversation(&first)).await;
    let requests = upstream.requests();
    assert_goes_on(&requests[requests.len() - 2], &requests[requests.len() - 1]);
}

#[tokio::test]
async fn x5_a_command_in_a_reply_and_words_of_a_skill_approve_nothing() {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).start().await;
    with_skills(&server);
    let client = server.client();
    let write = json!({ "file_path": "new.txt", "content": "x" });
    upstream.round(calls(&[("c1", "Skill", json!({ "skill": "review" }))]));
    upstream.round(calls(&[("c2", "Write", write)]));
    let asked = client.chat(&conversation(&[user("Write it.")])).await.text();
    assert!(asked.contains("new.txt"), "{asked}");
    assert!(!server.workspace().join("new.txt").exists());
    upstream.round(says("Then not."));
    let reply = [user("Write it."), assistant(&asked), user("/yes")];
    assert_eq!(client.chat(&conversation(&reply)).await.text(), "Then not.");
    let answers = answers_in(&upstream.requests().pop().expect("a request").json());
    assert!(answers[1].contains("The user says: /yes"), "{answers:?}");
    assert!(!server.workspace().join("new.txt").exists());
}

#[tokio::test]
async fn x8_a_skill_gives_a_subagent_no_tool_that_it_lacks() {
    let upstream = Upstream::start();
    let server = builder(&upstream).config("tools.disable", r#"["Glob"]"#).start().await;
    let text = "---\nallowed-tools: Task, Agent, Glob, Write\n---\nStart an agent of your own.";
    definitions(&server, &[("~/.claude/skills/more/SKILL.md", text)]);
    let input = json!({ "description": "x", "prompt": "Do it.", "subagent_type": "Explore" });
    let further = json!({ "description": "x", "prompt": "Again." });
    upstream.round(calls(&[("c1", "Task", input)]));
    upstream.round(calls(&[("k1", "Skill", json!({ "skill": "more" }))]));
    upstream.round(calls(&[
        ("k2", "Task", further.clone()),
        ("k3", "spawn_agent", further),
        ("k4", "Glob", json!({ "pattern": "*" })),
        ("k5", "Write", json!({ "file_path": "a.txt", "content": "x" })),
    ]));
    upstream.round(says("No."));
    upstream.round(says("Done."));
    let answer = server.client().chat(&conversation(&[user("Go.")])).await;
    assert_eq!(answer.text(), "Done.");
    let requests = upstream.requests();
    let answers = answers_in(&requests[requests.len() - 2].json());
    assert!(answers[0].contains("Start an agent of your own."), "{answers:?}");
    for answer in &answers[1..] {
        assert!(answer.starts_with("Error: no tool named "), "{answers:?}");
    }
    assert_eq!(answers.len(), 5);
}

#[tokio::test]
async fn outside_38_39_42_51_files_that_were_written_for_other_agents_count() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    definitions(
        &server,
        &[
            (
                "~/.claude/skills/group/review/SKILL.md",
                "---\nname: Code Review\ndescription: Reviews. Triggers on: review\n---\nLook at \
                 $1: می\u{200c}خواهم.",
            ),
            (
                "~/.claude/commands/ship.md",
                "---\nargument-hint: [--strict] [--json]\n---\nShip $ARGUMENTS.",
            ),
        ],
    );
    let wide = "---\ndescription: Für alle\n---\nIn UTF-16.".encode_utf16();
    let wide: Vec<u8> = [0xfeff].into_iter().chain(wide).flat_map(u16::to_le_bytes).collect();
    let directory = home(&server).join(".claude/skills/wide");
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join("SKILL.md"), wide).expect("a file");
    let answers =
        told_of(&server, &upstream, &[&[skill("review", "src")], &[skill("wide", "")]]).await;
    assert!(answers[0].ends_with("Look at src: می\u{200c}خواهم."), "{answers:?}");
    assert!(answers[1].ends_with("In UTF-16."), "{answers:?}");
    let first = &upstream.requests()[0].json()["messages"][0]["content"];
    let prompt = first.as_str().expect("text");
    assert!(prompt.contains("Reviews. Triggers on: review"), "{prompt}");
    assert!(prompt.contains("Für alle"), "{prompt}");

    upstream.round(says("Shipped."));
    let answer = server.client().chat(&conversation(&[user("/ship --json")])).await;
    assert_eq!(answer.text(), "Shipped.");
    let sent = upstream.requests().pop().expect("a request").json().to_string();
    assert!(sent.contains("Ship --json."), "{sent}");
}

#[tokio::test]
async fn outside_38_to_44_agents_and_skills_of_other_programs_count_whatever_their_frontmatter() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    let wizard = "---\nname: wizard\ndescription: Use it. Examples: <example>Context: a. user: \"b\" \
                  assistant: \"c\"</example>\nmodel: inherit\n---\nBe.";
    definitions(
        &server,
        &[
            (
                "~/.claude/agents/team/deep/nested.md",
                "---\nname: nested\ndescription: Nests.\n---\nBe.",
            ),
            ("~/.claude/agents/wizard.md", wizard),
            (
                "~/.claude/agents/Title Case.md",
                "---\nname: Title Case\ndescription: Titles.\n---\nBe.",
            ),
            (
                "~/.claude/agents/crlf.md",
                "\u{feff}---\r\nname: crlf\r\ndescription: Feeds.\r\ntools: Read Grep\r\n---\r\nBe.",
            ),
            ("~/.claude/agents/cr.md", "---\rname: cr\rdescription: Returns.\r---\rBe."),
            (
                "~/.claude/agents/star.md",
                "---\nname: star\ndescription: Stars.\ntools: *\n---\nBe.",
            ),
            (
                "~/.claude/agents/open.md",
                "---\nname: open\ndescription: Opens.\ntools: Read\n\nBe.",
            ),
            ("~/.claude/agents/wide.md", "---\nname：wide\ndescription：Widens: all.\n---\nBe."),
            (
                "~/.claude/skills/tab/SKILL.md",
                "---\nname:\ttab\ndescription:\t@mentions: all\n---\nDo.",
            ),
            (
                "~/.claude/skills/twice/SKILL.md",
                "---\nname: once\nname: twice\ndescription: Twice.\n---\nDo.",
            ),
            (
                "~/.claude/skills/dots/SKILL.md",
                "---\ndescription: '*Every* dot'\n...\nDo.\n\n---\n\nMore.",
            ),
            (
                "~/.claude/skills/quoted/SKILL.md",
                "---\ndescription: It's \"quoted\": yes\nuser-invocable: 'yes'\n---\nDo.",
            ),
            (
                "~/.claude/skills/lost/SKILL.md",
                "---\ndescription: a: b\nuser-invocable: perhaps\n---\nDo.",
            ),
            ("~/.claude/commands/hint.md", "---\nargument-hint: [--strict] [--json]\n---\nHint."),
        ],
    );
    let answers = told_of(&server, &upstream, &[&[skill("dots", "")]]).await;
    assert!(answers[0].ends_with("Do.\n\n---\n\nMore."), "{answers:?}");
    let first = &upstream.requests()[0].json()["messages"][0]["content"];
    let prompt = first.as_str().expect("text");
    for line in [
        "- nested: Nests.",
        "- wizard: Use it. Examples: <example>Context: a. user: \"b\"",
        "- title-case: Titles.",
        "- crlf: Feeds.",
        "- cr: Returns.",
        "- star: Stars.",
        "- open: Opens.",
        "- wide: Widens: all.",
        "- tab: @mentions: all",
        "- twice: Twice.",
        "- dots: *Every* dot",
        "- quoted: It's \"quoted\": yes",
        "- hint [--strict] [--json]: Hint.",
    ] {
        assert!(prompt.contains(line), "no {line} in {prompt}");
    }
    assert!(!prompt.contains("- lost"), "{prompt}");
    let (checked, log) = (checked(&server), server.log());
    for (file, words) in [
        ("agents/Title Case.md", "after its file it is called title-case"),
        ("agents/wizard.md", "it was read line by line"),
        ("agents/open.md", "its frontmatter has no end"),
        ("skills/twice/SKILL.md", "`name` stands there twice"),
        ("skills/lost/SKILL.md", "`user-invocable` takes true or false"),
    ] {
        let is_of_it = |line: &&str| line.contains(file) && line.contains(words);
        assert_eq!(checked.lines().filter(is_of_it).count(), 1, "{file}: {checked}");
        assert_eq!(log.lines().filter(is_of_it).count(), 1, "{file}: {log}");
    }
    assert!(
        checked.contains("agent: crlf: ~/.claude/agents/crlf.md; tools: Read, Grep"),
        "{checked}"
    );
    assert!(checked.contains("agent: open: ~/.claude/agents/open.md; tools: Read"), "{checked}");
}
