//! Defines an agent of a file, and reads one.

use std::sync::Arc;

use serde::Deserialize;

use super::DefinitionOrigin;
use super::frontmatter::{names, split};
use crate::text::{self, shown_line};

/// The names of the agents that the server brings. No file may take one of them, in whatever
/// case: who asks for one means that.
pub(crate) const BUILT_IN_AGENTS: [&str; 4] = ["general-purpose", "Explore", "Plan", "Bash"];

/// Bytes of a file. It is the prompt of each of its requests.
pub(super) const MAX_BYTES: u64 = 64 << 10;

const MAX_NAME: usize = 64;

/// Characters of a description: the prompt has those of all agents.
pub(crate) const MAX_DESCRIPTION: usize = 1024;

const NO_FRONTMATTER: &str = "has no frontmatter: a line `---`, one with `name: …` and one with \
                              `description: …`, and a line `---` stand first in the file of an agent";

/// An agent that a file defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentDefinition {
    pub(crate) name: String,
    /// One line of at most [`MAX_DESCRIPTION`] characters.
    pub(crate) description: String,
    /// Names or aliases of tools, `mcp__server` or `mcp__server__tool`, as they are written;
    /// `None`: all tools.
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) disallowed_tools: Vec<String>,
    /// As it is written: `inherit`, or a name that the configuration may know.
    pub(crate) model: Option<String>,
    /// At least 1.
    pub(crate) max_turns: Option<u32>,
    /// As it is written. It may only narrow.
    pub(crate) permission_mode: Option<String>,
    pub(crate) prompt: Arc<str>,
    pub(crate) origin: DefinitionOrigin,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Frontmatter {
    name: Option<String>,
    description: Option<String>,
    #[serde(deserialize_with = "names")]
    tools: Option<Vec<String>>,
    #[serde(deserialize_with = "names")]
    disallowed_tools: Option<Vec<String>>,
    model: Option<String>,
    max_turns: Option<u32>,
    permission_mode: Option<String>,
}

impl AgentDefinition {
    /// Reads a file. The error follows its name.
    pub(super) fn parse(file: &str, origin: DefinitionOrigin) -> Result<Self, String> {
        let file = text::without_hidden(file);
        let parts = split(&file)?;
        let written: Frontmatter = parts.read()?;
        if !parts.has_frontmatter() {
            return Err(NO_FRONTMATTER.to_owned());
        }
        let name = written.name.ok_or("has no name; add a line `name: …`")?;
        check_name(&name)?;
        let description = shown_line(&written.description.unwrap_or_default());
        if description.is_empty() {
            return Err("has no description; add a line `description: …` that says when to use it"
                .to_owned());
        }
        let disallowed_tools = written.disallowed_tools.unwrap_or_default();
        let tools = written.tools.iter().flatten().chain(&disallowed_tools);
        tools.map(String::as_str).try_for_each(check_tool)?;
        if written.max_turns == Some(0) {
            return Err("maxTurns must be at least 1".to_owned());
        }
        Ok(Self {
            name,
            description: text::first_chars(&description, MAX_DESCRIPTION).to_owned(),
            tools: written.tools,
            disallowed_tools,
            model: written.model.map(|model| shown_line(&model)).filter(|model| !model.is_empty()),
            max_turns: written.max_turns,
            permission_mode: written.permission_mode.map(|mode| shown_line(&mode)),
            prompt: parts.text.into(),
            origin,
        })
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c == '-');
    if BUILT_IN_AGENTS.iter().any(|built_in| built_in.eq_ignore_ascii_case(name)) {
        return Err(format!("{name} is the name of a built-in agent"));
    }
    if !is_name || name.len() > MAX_NAME {
        return Err(format!(
            "{name:?} is no name: small letters, digits and -, at most {MAX_NAME} characters"
        ));
    }
    Ok(())
}

/// To ignore what stands in parentheses would give the agent more than its file says.
fn check_tool(tool: &str) -> Result<(), String> {
    if tool.contains(['(', ')']) {
        return Err(format!("{tool}: a list of tools takes names, and no rules"));
    }
    // Of an MCP server all tools may be meant.
    let name = tool.strip_suffix("__*").filter(|server| server.starts_with("mcp__"));
    let name = name.unwrap_or(tool);
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_name = tool.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !is_name || !name.chars().all(is_part) {
        return Err(format!("{tool:?} is no name of a tool"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn parse(file: &str) -> Result<AgentDefinition, String> {
        let path = PathBuf::from("/home/me/.claude/agents/a.md");
        AgentDefinition::parse(file, DefinitionOrigin::of_user(path))
    }

    fn fault(frontmatter: &str) -> String {
        parse(&format!("---\n{frontmatter}\n---\nBody")).unwrap_err()
    }

    #[test]
    fn a_file_is_read_whole() {
        let file = "---\nname: reviewer\ndescription: |\n  Reviews.\n  Well.\ntools: Read, Grep\n\
            disallowedTools: [Bash]\nmodel: haiku\nmaxTurns: 3\npermissionMode: plan\n\
            hooks: {a: b}\ncolor: red\n---\n\nYou\u{200b} review.\n";
        let agent = parse(file).unwrap();
        assert_eq!(
            (agent.name.as_str(), agent.description.as_str()),
            ("reviewer", "Reviews. Well.")
        );
        assert_eq!(agent.tools.unwrap(), ["Read", "Grep"]);
        assert_eq!(agent.disallowed_tools, ["Bash"]);
        assert_eq!((agent.model.as_deref(), agent.max_turns), (Some("haiku"), Some(3)));
        assert_eq!(agent.permission_mode.as_deref(), Some("plan"));
        assert_eq!(&*agent.prompt, "You review.");
        let plain = parse("---\nname: a\ndescription: b\n---\n").unwrap();
        assert_eq!((plain.tools, plain.prompt), (None, "".into()));
    }

    #[test]
    fn g4_what_would_widen_or_mislead_is_refused() {
        insta::assert_snapshot!(fault("name: a\ndescription: b\ntools: Bash(git *)"), @"Bash(git *): a list of tools takes names, and no rules");
        insta::assert_snapshot!(fault("name: a\ndescription: b\ndisallowedTools: ['Read(.env)']"), @"Read(.env): a list of tools takes names, and no rules");
        insta::assert_snapshot!(fault("name: a\ndescription: b\ntools: '*'"), @r#""*" is no name of a tool"#);
        insta::assert_snapshot!(fault("name: expl\u{200b}ore\ndescription: b"), @"explore is the name of a built-in agent");
        insta::assert_snapshot!(fault("name: Explore\ndescription: b"), @"Explore is the name of a built-in agent");
        insta::assert_snapshot!(fault("name: ../a\ndescription: b"), @r#""../a" is no name: small letters, digits and -, at most 64 characters"#);
        insta::assert_snapshot!(fault("name: a"), @"has no description; add a line `description: …` that says when to use it");
        insta::assert_snapshot!(fault("name: a\ndescription: ' '"), @"has no description; add a line `description: …` that says when to use it");
        insta::assert_snapshot!(fault("description: b"), @"has no name; add a line `name: …`");
        insta::assert_snapshot!(fault("name: a\ndescription: b\nmaxTurns: 0"), @"maxTurns must be at least 1");
        insta::assert_snapshot!(fault("name: a\ndescription: b\nmaxTurns: -1"), @"line 4: `maxTurns` takes a whole number from 1 on");
        insta::assert_snapshot!(parse("Just text").unwrap_err(), @"has no frontmatter: a line `---`, one with `name: …` and one with `description: …`, and a line `---` stand first in the file of an agent");
        assert!(fault(&format!("name: {}\ndescription: b", "a".repeat(65))).contains("is no name"));
    }
}
