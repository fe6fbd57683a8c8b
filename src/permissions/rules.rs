//! The operator's rules: which tools are allowed, asked about, or denied.

use serde::Deserialize;
use std::path::PathBuf;

use super::mode::Mode;

/// `[permissions]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    /// Tools that run without asking.
    pub(crate) allow: Vec<String>,
    /// Tools that are asked about in every mode.
    pub(crate) ask: Vec<String>,
    /// Tools that never run; the model is not told of them.
    pub(crate) deny: Vec<String>,
    /// Directories beside the workspace that the file tools reach.
    pub(crate) additional_directories: Vec<PathBuf>,
}

/// A tool as far as rules care.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownTool<'a> {
    pub(crate) name: &'a str,
    pub(crate) aliases: &'a [&'a str],
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    /// As in the configuration, for messages.
    written: String,
    tool: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RuleError {
    #[error(
        "permissions.{list}: {rule:?} has a specifier; rules with a specifier come later, so write only the tool's name, {name:?}"
    )]
    Specifier { list: &'static str, rule: String, name: String },
    #[error("permissions.{list}: {rule:?} is no rule; write a tool's name, such as \"Read\"")]
    Malformed { list: &'static str, rule: String },
    #[error("permissions.{list}: there is no tool {rule:?}; the tools are {tools}")]
    UnknownTool { list: &'static str, rule: String, tools: String },
}

impl Rules {
    pub(super) fn parse(settings: &Settings, known: &[KnownTool<'_>]) -> Result<Self, RuleError> {
        let parse = |list, rules: &[String]| {
            rules.iter().map(|rule| Rule::parse(list, rule, known)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            allow: parse("allow", &settings.allow)?,
            ask: parse("ask", &settings.ask)?,
            deny: parse("deny", &settings.deny)?,
        })
    }

    /// The rule that denies `tool`, as written. Who may not read a file may neither
    /// search nor edit it, which would show it too.
    pub(super) fn denying(&self, tool: &str) -> Option<&str> {
        let through_read = |rule: &&Rule| {
            rule.tool == "Read" && matches!(tool, "Glob" | "Grep" | "Edit" | "Write")
        };
        find(&self.deny, tool)
            .or_else(|| self.deny.iter().find(through_read).map(|rule| rule.written.as_str()))
    }

    pub(super) fn asking(&self, tool: &str) -> Option<&str> {
        find(&self.ask, tool)
    }

    pub(super) fn allows(&self, tool: &str) -> bool {
        find(&self.allow, tool).is_some()
    }
}

fn find<'a>(rules: &'a [Rule], tool: &str) -> Option<&'a str> {
    rules.iter().find(|rule| rule.covers(tool)).map(|rule| rule.written.as_str())
}

impl Rule {
    fn parse(list: &'static str, rule: &str, known: &[KnownTool<'_>]) -> Result<Self, RuleError> {
        let written = rule.to_owned();
        let name = rule.split_once('(').map_or(rule, |(name, _)| name);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(RuleError::Malformed { list, rule: written });
        }
        let Some(tool) =
            known.iter().find(|tool| tool.name == name || tool.aliases.contains(&name))
        else {
            let tools = known.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ");
            return Err(RuleError::UnknownTool { list, rule: written, tools });
        };
        match rule.strip_prefix(name) {
            Some("") => Ok(Self { written, tool: tool.name.to_owned() }),
            Some(specifier) if specifier.ends_with(')') => {
                Err(RuleError::Specifier { list, rule: written, name: tool.name.to_owned() })
            }
            _ => Err(RuleError::Malformed { list, rule: written }),
        }
    }

    /// `Edit` stands for every way to change a file.
    fn covers(&self, tool: &str) -> bool {
        self.tool == tool || (self.tool == "Edit" && tool == "Write")
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    const KNOWN: [KnownTool<'_>; 4] = [
        KnownTool { name: "Read", aliases: &["FileRead", "read_file"] },
        KnownTool { name: "Write", aliases: &["write_file"] },
        KnownTool { name: "Edit", aliases: &[] },
        KnownTool { name: "Bash", aliases: &["shell"] },
    ];

    fn deny(rule: &str) -> Result<Rules, RuleError> {
        let deny = vec![rule.to_owned()];
        Rules::parse(&Settings { deny, ..Settings::default() }, &KNOWN)
    }

    #[test]
    fn a_rule_names_a_tool_or_its_alias() {
        assert_eq!(deny("Bash").unwrap().denying("Bash"), Some("Bash"));
        assert_eq!(deny("shell").unwrap().denying("Bash"), Some("shell"));
        assert_eq!(deny("Bash").unwrap().denying("Read"), None);
    }

    #[test]
    fn a_rule_for_edit_covers_write_and_one_against_read_covers_all_that_shows_files() {
        assert_eq!(deny("Edit").unwrap().denying("Write"), Some("Edit"));
        assert_eq!(deny("Write").unwrap().denying("Edit"), None);
        assert_eq!(deny("Read").unwrap().denying("Grep"), Some("Read"));
        assert_eq!(deny("Read").unwrap().denying("Bash"), None);
    }

    #[test]
    fn a_rule_that_could_fail_open_is_an_error() {
        let errors = ["Bash(npm *)", "Bsh", "Bash(", "", "Read Write", "bash"]
            .map(|rule| deny(rule).unwrap_err().to_string());

        assert_snapshot!(errors.join("\n"), @r#"
        permissions.deny: "Bash(npm *)" has a specifier; rules with a specifier come later, so write only the tool's name, "Bash"
        permissions.deny: there is no tool "Bsh"; the tools are Read, Write, Edit, Bash
        permissions.deny: "Bash(" is no rule; write a tool's name, such as "Read"
        permissions.deny: "" is no rule; write a tool's name, such as "Read"
        permissions.deny: "Read Write" is no rule; write a tool's name, such as "Read"
        permissions.deny: there is no tool "bash"; the tools are Read, Write, Edit, Bash
        "#);
    }
}
