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
pub(crate) fn checked(server: &Server) -> String {
    let output = toolhand(server, &["check"]);
    let home = server.state_dir().parent().expect("the home").display().to_string();
    let text = String::from_utf8(output.stdout).expect("text").replace(&home, "~");
    let begins =
        ["agent:", "unusable:", "  no effect:", "skill:", "command:", "odd:", "skipped:", "trust:"];
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
    trust: ~/workspace is not trusted; `toolhand trust ~/workspace` lets all of its settings files, agents, skills, commands, MCP servers and imports from outside count
    skill: /mine: ~/.claude/skills/mine/SKILL.md; the model's alone
    skipped: ~/workspace/.claude/agents/explore.md: ignored (untrusted); run `toolhand trust ~/workspace`
    skipped: ~/workspace/.claude/agents/out.md: ignored (untrusted); run `toolhand trust ~/workspace`
    skipped: ~/workspace/.claude/agents/reviewer.md: ignored (untrusted); run `toolhand trust ~/workspace`
    skipped: ~/workspace/.claude/agents/wide.md: ignored (untrusted); run `toolhand trust ~/workspace`
    skipped: ~/workspace/.claude/commands/git/push.md: ignored (untrusted); run `toolhand trust ~/workspace`
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

#[tokio::test]
async fn check_says_what_of_an_agents_file_has_no_effect_and_why() {
    let upstream = Upstream::start();
    let server = builder(&upstream).start().await;
    let agent = |more: &str| format!("---\nname: NAME\ndescription: D.\n{more}\n---\nWork.");
    let files = [
        ("typos", agent("tools: Read, Reed, AskUserQuestion, Edit\ndisallowedTools: [Edit, Bahs]")),
        ("servers", agent("tools: Read, mcp__git, mcp__git__*, mcp__git__log")),
        ("empty", agent("tools: mcp__git__*, Reed")),
        ("wide", agent("permissionMode: acceptEdits\nmodel: gpt-9")),
        ("odd", agent("permissionMode: fast\nmodel: haiku")),
        ("narrow", agent("permissionMode: plan\nmodel: inherit\nmaxTurns: 3")),
        ("kind", agent("maxTurns: many")),
        ("open", "---\nname: open\n".to_owned()),
        ("bare", "Work.".to_owned()),
        ("colon", "---\nname: colon\ndescription: Use it: often\n---\n".to_owned()),
        ("silent", "---\nname: silent\n---\n".to_owned()),
    ];
    for (name, text) in files {
        let path = format!("~/.claude/agents/{name}.md");
        definitions(&server, &[(&path, &text.replace("NAME", name))]);
    }
    insta::assert_snapshot!(checked(&server), @r#"
    agent: colon: ~/.claude/agents/colon.md
    unusable: empty: ~/.claude/agents/empty.md: no tool is left for this agent
      no effect: tools: mcp__git__*: there is no such MCP server here
      no effect: tools: Reed: no tool that is turned on here has this name; did you mean Read?
    agent: narrow: ~/.claude/agents/narrow.md; model inherit; at most 3 turns; mode plan
    agent: odd: ~/.claude/agents/odd.md; model haiku
      no effect: permissionMode: "fast" is no permission mode: it is "default", "acceptEdits", "dontAsk", "plan" or "bypassPermissions"
    agent: servers: ~/.claude/agents/servers.md; tools: Read
      no effect: tools: mcp__git: there is no such MCP server here
      no effect: tools: mcp__git__*: there is no such MCP server here
      no effect: tools: mcp__git__log: there is no such MCP server here
    agent: typos: ~/.claude/agents/typos.md; tools: Read; without Edit
      no effect: tools: Reed: no tool that is turned on here has this name; did you mean Read?
      no effect: tools: AskUserQuestion: no agent has it
      no effect: tools: Edit: disallowedTools takes it away
      no effect: disallowedTools: Bahs: no tool that is turned on here has this name; did you mean Bash?
    agent: wide: ~/.claude/agents/wide.md
      no effect: model: there is no model "gpt-9" for agents; use one of: inherit, sonnet, opus, haiku; it starts only where the call names one of them
      no effect: permissionMode: acceptEdits is wider than default, the mode of this server; it only narrows
    odd: ~/.claude/agents/colon.md: line 3: it is not YAML; put a text in quotes that has a colon and a blank, or begins with a sign such as [ { * & @ %; it was read line by line
    skipped: ~/.claude/agents/bare.md: has no frontmatter: a line `---`, one with `name: …` and one with `description: …`, and a line `---` stand first in the file of an agent
    skipped: ~/.claude/agents/kind.md: line 4: `maxTurns` takes a whole number from 1 on
    skipped: ~/.claude/agents/open.md: its frontmatter has no end: a second line `---` is missing
    skipped: ~/.claude/agents/silent.md: has no description; add a line `description: …` that says when to use it
    "#);
}
