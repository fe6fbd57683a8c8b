//! Tests which agents, skills and commands of files `toolhand check` lists, and what it says of
//! the others.

use std::fs;
use std::os::unix::fs::symlink;

use crate::settings::trust::{builder, toolhand, trust};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// Writes files below the workspace or the home.
pub(crate) fn definitions(server: &Server, files: &[(&str, &str)]) {
    let home = server.state_dir().parent().expect("the home").to_owned();
    for (name, text) in files {
        let path = match name.strip_prefix("~/") {
            Some(name) => home.join(name),
            None => server.workspace().join(name),
        };
        fs::create_dir_all(path.parent().expect("inside")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
}

/// What `check` says of definitions.
fn checked(server: &Server) -> String {
    let output = toolhand(server, &["check"]);
    let home = server.state_dir().parent().expect("the home").display().to_string();
    let text = String::from_utf8(output.stdout).expect("text").replace(&home, "~");
    let begins = ["agent:", "skill:", "command:", "skipped:", "trust:"];
    let is_about = |line: &&str| begins.iter().any(|begin| line.starts_with(begin));
    text.lines().filter(is_about).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn g4_check_lists_definitions_and_why_others_do_not_count() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    definitions(
        &server,
        &[
            ("~/.claude/skills/mine/SKILL.md", "---\nuser-invocable: false\n---\nMine"),
            (
                ".claude/agents/reviewer.md",
                "---\nname: reviewer\ndescription: Reviews.\ntools: Read, Grep\nmodel: haiku\n---\n",
            ),
            (
                ".claude/agents/wide.md",
                "---\nname: wide\ndescription: W.\ntools: Bash(git *)\n---\n",
            ),
            (".claude/agents/explore.md", "---\nname: explore\ndescription: E.\n---\n"),
            (".claude/commands/git/push.md", "---\ndisable-model-invocation: true\n---\nPush"),
        ],
    );
    symlink("/etc/passwd", server.workspace().join(".claude/agents/out.md")).expect("a link");
    insta::assert_snapshot!(checked(&server), @r"
    trust: ~/workspace is not trusted; `toolhand trust ~/workspace` lets all of its settings files, agents, skills, commands and imports from outside count
    skill: /mine: ~/.claude/skills/mine/SKILL.md; the model's alone
    skipped: ~/workspace/.claude/agents/explore.md: ignored (untrusted)
    skipped: ~/workspace/.claude/agents/out.md: ignored (untrusted)
    skipped: ~/workspace/.claude/agents/reviewer.md: ignored (untrusted)
    skipped: ~/workspace/.claude/agents/wide.md: ignored (untrusted)
    skipped: ~/workspace/.claude/commands/git/push.md: ignored (untrusted)
    ");
    trust(&server, "trust", &server.workspace());
    insta::assert_snapshot!(checked(&server), @r"
    trust: ~/workspace is trusted
    agent: reviewer: ~/workspace/.claude/agents/reviewer.md; tools: Read, Grep; model haiku
    command: /git:push: ~/workspace/.claude/commands/git/push.md; only at the start of a message
    skill: /mine: ~/.claude/skills/mine/SKILL.md; the model's alone
    skipped: ~/workspace/.claude/agents/explore.md: explore is the name of a built-in agent
    skipped: ~/workspace/.claude/agents/out.md: is a link that leads out of ~/workspace, to /etc/passwd
    skipped: ~/workspace/.claude/agents/wide.md: Bash(git *): a list of tools takes names, and no rules
    ");
}
