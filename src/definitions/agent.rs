//! Defines an agent of a file, and reads one.

use std::sync::Arc;

use serde::Deserialize;

use super::DefinitionOrigin;
use super::frontmatter::{ReadFrontmatter, names, readable, split};
use super::parsed::ParsedDefinition;
use crate::text::{self, shown_line};

/// The names of the agents that the server brings. No file may take one of them, in whatever
/// case: who asks for one means that.
pub(crate) const BUILT_IN_AGENTS: [&str; 4] = ["general-purpose", "Explore", "Plan", "Bash"];

/// Bytes of a file. It is the prompt of each of its requests.
pub(super) const MAX_BYTES: u64 = 64 << 10;

const MAX_NAME: usize = 64;

/// Characters of a description: the prompt has those of all agents.
pub(crate) const MAX_DESCRIPTION: usize = 1024;

/// What stands for all tools, in the place of a list of them.
const ALL_TOOLS: &str = "*";

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
    /// Reads a file, whose name without its ending is `stem`. The error follows its name.
    pub(super) fn parse(
        file: &str,
        stem: &str,
        origin: DefinitionOrigin,
    ) -> Result<ParsedDefinition<Self>, String> {
        let file = readable(file);
        let parts = split(&file)?;
        if !parts.has_frontmatter() {
            return Err(NO_FRONTMATTER.to_owned());
        }
        let ReadFrontmatter { values: written, remark } = parts.read::<Frontmatter>()?;
        let (name, name_remark) = name_of(written.name.as_deref(), stem)?;
        let description = shown_line(&written.description.unwrap_or_default());
        if description.is_empty() {
            return Err("has no description; add a line `description: …` that says when to use it"
                .to_owned());
        }
        let disallowed_tools = written.disallowed_tools.unwrap_or_default();
        let named_tools = written.tools.filter(|tools| *tools != [ALL_TOOLS]);
        let tools = named_tools.iter().flatten().chain(&disallowed_tools);
        tools.map(String::as_str).try_for_each(check_tool)?;
        if written.max_turns == Some(0) {
            return Err("maxTurns must be at least 1".to_owned());
        }
        let definition = Self {
            name,
            description: text::first_chars(&description, MAX_DESCRIPTION).to_owned(),
            tools: named_tools,
            disallowed_tools,
            model: written.model.map(|model| shown_line(&model)).filter(|model| !model.is_empty()),
            max_turns: written.max_turns,
            permission_mode: written.permission_mode.map(|mode| shown_line(&mode)),
            prompt: parts.text.into(),
            origin,
        };
        let remarks = [remark, name_remark].into_iter().flatten().collect();
        Ok(ParsedDefinition { definition, remarks })
    }
}

/// The agent's own name; where it has none that can be one, that of its file. Comes with a remark
/// where it is not the one that the file gives.
fn name_of(own: Option<&str>, stem: &str) -> Result<(String, Option<String>), String> {
    let (name, remark) = match own {
        Some(own) if is_name(own) || is_built_in(own) => (own.to_owned(), None),
        own => {
            let name = if is_name(stem) { stem.to_owned() } else { plain_name(stem) };
            let why = own.map_or_else(|| "has no name".to_owned(), no_name);
            let remark = format!("{why}; after its file it is called {name}");
            (name, Some(remark))
        }
    };
    if is_built_in(&name) {
        return Err(format!("{name} is the name of a built-in agent"));
    }
    if !is_name(&name) {
        return Err(no_name(stem));
    }
    Ok((name, remark))
}

fn is_built_in(name: &str) -> bool {
    BUILT_IN_AGENTS.iter().any(|built_in| built_in.eq_ignore_ascii_case(name))
}

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |c: char| is_letter(c) || c == '-';
    name.starts_with(is_letter) && name.chars().all(is_part) && name.len() <= MAX_NAME
}

fn no_name(name: &str) -> String {
    let name = text::quoted_name(name);
    format!("\"{name}\" is no name: small letters, digits and -, at most {MAX_NAME} characters")
}

/// A name made of another one: in small letters, with `-` for all that a name cannot have.
fn plain_name(name: &str) -> String {
    let small = name.to_ascii_lowercase();
    let words = small.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let plain = words.collect::<Vec<_>>().join("-");
    text::prefix(&plain, MAX_NAME).trim_end_matches('-').to_owned()
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
        let parsed = AgentDefinition::parse(file, "my-agent", DefinitionOrigin::of_user(path))?;
        Ok(parsed.definition)
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
        insta::assert_snapshot!(fault("name: a\ndescription: b\ntools: Read, *"), @r#""*" is no name of a tool"#);
        insta::assert_snapshot!(fault("name: a\ndescription: b\ndisallowedTools: '*'"), @r#""*" is no name of a tool"#);
        insta::assert_snapshot!(fault("name: expl\u{200b}ore\ndescription: b"), @"explore is the name of a built-in agent");
        insta::assert_snapshot!(fault("name: Explore\ndescription: b"), @"Explore is the name of a built-in agent");
        insta::assert_snapshot!(fault("name: a"), @"has no description; add a line `description: …` that says when to use it");
        insta::assert_snapshot!(fault("name: a\ndescription: ' '"), @"has no description; add a line `description: …` that says when to use it");
        insta::assert_snapshot!(fault("name: a\ndescription: b\nmaxTurns: 0"), @"maxTurns must be at least 1");
        insta::assert_snapshot!(fault("name: a\ndescription: b\nmaxTurns: -1"), @"line 4: `maxTurns` takes a whole number from 1 on");
        insta::assert_snapshot!(parse("Just text").unwrap_err(), @"has no frontmatter: a line `---`, one with `name: …` and one with `description: …`, and a line `---` stand first in the file of an agent");
    }

    #[test]
    fn outside_40_an_agent_without_a_name_of_its_own_has_its_files() {
        let name = |own: &str, stem: &str| {
            let origin = DefinitionOrigin::of_user(PathBuf::new());
            let file = format!("---\n{own}description: b\n---\n");
            let parsed = AgentDefinition::parse(&file, stem, origin)?;
            Ok::<_, String>((parsed.definition.name, parsed.remarks.join("|")))
        };
        let named = |own: &str, stem: &str| name(own, stem).unwrap().0;
        assert_eq!(name("name: own\n", "file"), Ok(("own".to_owned(), String::new())));
        assert_eq!(named("", "file"), "file");
        assert_eq!(named("name: Code Reviewer\n", "code-reviewer"), "code-reviewer");
        assert_eq!(named("name: code_reviewer\n", "Code_Reviewer v2"), "code-reviewer-v2");
        assert_eq!(named("name: ../a\n", "a"), "a");
        assert_eq!(named(&format!("name: {}\n", "a".repeat(65)), "long"), "long");
        insta::assert_snapshot!(name("name: Code Reviewer\n", "code-reviewer").unwrap().1, @r#""Code Reviewer" is no name: small letters, digits and -, at most 64 characters; after its file it is called code-reviewer"#);
        assert!(name("", "explore").unwrap_err().contains("built-in"));
        assert!(name("", "日本語").unwrap_err().contains("is no name"));
    }

    #[test]
    fn outside_40_lists_of_tools_are_read_as_other_programs_write_them() {
        let tools = |written: &str| {
            let file = format!("---\nname: a\ndescription: b\ntools: {written}\n---\n");
            parse(&file).unwrap().tools
        };
        let both = Some(vec!["Read".to_owned(), "Grep".to_owned()]);
        for written in ["Read Grep", "'[\"Read\", \"Grep\"]'", "\n- Read\n- Grep\n"] {
            assert_eq!(tools(written), both, "{written}");
        }
        for all in ["'*'", "[\"*\"]", "*"] {
            assert_eq!(tools(all), None, "{all}");
        }
        let old = parse("---\rname: a\rdescription: b\r---\rBody").unwrap();
        assert_eq!((old.name.as_str(), &*old.prompt), ("a", "Body"));
        let open = parse("---\nname: a\ndescription: b\ntools: Read\n\nBody").unwrap();
        assert_eq!((open.tools.unwrap(), &*open.prompt), (vec!["Read".to_owned()], "Body"));
    }

    #[test]
    fn outside_41_agents_of_wizards_are_read() {
        let example = "Use this agent when X. Examples: <example>Context: Y. user: \"Do Z\" \
                       assistant: \"Yes\"</example>";
        let one_line =
            format!("---\nname: a\ndescription: {example}\nmodel: opus\ncolor: red\n---\nBe.");
        let several =
            one_line.replace(": <example>", ":\n<example>\n").replace(" user:", "\nuser:");
        for file in [one_line, several] {
            let agent = parse(&file).unwrap();
            assert_eq!((agent.name.as_str(), agent.model.as_deref()), ("a", Some("opus")));
            let description = agent.description.replace("<example> ", "<example>");
            assert_eq!(description, example);
        }
    }
}
