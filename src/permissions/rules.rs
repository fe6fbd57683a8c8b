//! Parses the operator's rules, and finds the rule that allows, asks about or denies a tool.

use serde::Deserialize;
use std::path::PathBuf;

use super::kind::AccessKind;
use super::mode::Mode;

/// `[permissions]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PermissionSettings {
    pub(crate) mode: Mode,
    /// Tools that run without asking.
    pub(crate) allow: Vec<String>,
    /// Tools that need an approval in every mode.
    pub(crate) ask: Vec<String>,
    /// Tools that never run. They are not offered to the model.
    pub(crate) deny: Vec<String>,
    /// Directories outside the workspace that the file tools may use.
    pub(crate) additional_directories: Vec<PathBuf>,
}

/// The properties of a tool that rules use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownTool<'a> {
    pub(crate) name: &'a str,
    pub(crate) aliases: &'a [&'a str],
    pub(crate) access: AccessKind,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    /// The text in the configuration, for messages.
    written: String,
    covers: Covered,
}

/// The tools that a rule covers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Covered {
    /// Only the tool of this name.
    Tool(String),
    /// Every tool of this kind.
    Kind(AccessKind),
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
    pub(super) fn parse(
        settings: &PermissionSettings,
        known: &[KnownTool<'_>],
    ) -> Result<Self, RuleError> {
        let parse = |list, rules: &[String]| {
            rules.iter().map(|rule| Rule::parse(list, rule, known)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            allow: parse("allow", &settings.allow)?,
            ask: parse("ask", &settings.ask)?,
            deny: parse("deny", &settings.deny)?,
        })
    }

    /// The text of the rule that denies `tool`. A rule that denies reading denies editing too,
    /// because an edit shows what the file holds.
    pub(super) fn denying(&self, tool: &str, kind: AccessKind) -> Option<&str> {
        let through_read = || match kind {
            AccessKind::Edit => find(&self.deny, tool, AccessKind::Read),
            _ => None,
        };
        find(&self.deny, tool, kind).or_else(through_read)
    }

    pub(super) fn asking(&self, tool: &str, kind: AccessKind) -> Option<&str> {
        find(&self.ask, tool, kind)
    }

    pub(super) fn allows(&self, tool: &str, kind: AccessKind) -> bool {
        find(&self.allow, tool, kind).is_some()
    }
}

fn find<'a>(rules: &'a [Rule], tool: &str, kind: AccessKind) -> Option<&'a str> {
    rules.iter().find(|rule| rule.covers(tool, kind)).map(|rule| rule.written.as_str())
}

impl Rule {
    fn parse(list: &'static str, rule: &str, known: &[KnownTool<'_>]) -> Result<Self, RuleError> {
        let written = rule.to_owned();
        let name = rule.split_once('(').map_or(rule, |(name, _)| name);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(RuleError::Malformed { list, rule: written });
        }
        let tool = known.iter().find(|tool| tool.name == name || tool.aliases.contains(&name));
        let name_or_word = tool.map_or(name, |tool| tool.name);
        let covers = match AccessKind::from_word(name_or_word) {
            Some(kind) => Covered::Kind(kind),
            None if tool.is_some() => Covered::Tool(name_or_word.to_owned()),
            None => {
                let tools = known.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ");
                return Err(RuleError::UnknownTool { list, rule: written, tools });
            }
        };
        match rule.strip_prefix(name) {
            Some("") => Ok(Self { written, covers }),
            Some(specifier) if specifier.ends_with(')') => {
                Err(RuleError::Specifier { list, rule: written, name: name_or_word.to_owned() })
            }
            _ => Err(RuleError::Malformed { list, rule: written }),
        }
    }

    fn covers(&self, tool: &str, kind: AccessKind) -> bool {
        match &self.covers {
            Covered::Tool(name) => name == tool,
            Covered::Kind(covered) => *covered == kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    const KNOWN: [KnownTool<'_>; 6] = [
        KnownTool { name: "Read", aliases: &["FileRead", "read_file"], access: AccessKind::Read },
        KnownTool { name: "Write", aliases: &["write_file"], access: AccessKind::Edit },
        KnownTool { name: "Edit", aliases: &["edit_file"], access: AccessKind::Edit },
        KnownTool { name: "Bash", aliases: &["shell"], access: AccessKind::Command },
        // Not real tools: rules must work by kind for names that they do not know.
        KnownTool { name: "Preview", aliases: &[], access: AccessKind::Read },
        KnownTool { name: "Rename", aliases: &[], access: AccessKind::Edit },
    ];

    fn deny(rule: &str) -> Result<Rules, RuleError> {
        let deny = vec![rule.to_owned()];
        Rules::parse(&PermissionSettings { deny, ..PermissionSettings::default() }, &KNOWN)
    }

    /// The tools that a rule denies.
    fn denied(rule: &str) -> String {
        let rules = deny(rule).unwrap();
        let denied = KNOWN.iter().filter(|tool| rules.denying(tool.name, tool.access).is_some());
        denied.map(|tool| tool.name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_rule_names_a_tool_or_its_alias() {
        assert_eq!(denied("Bash"), "Bash");
        assert_eq!(denied("shell"), "Bash");
        assert_eq!(denied("Write"), "Write");
        assert_eq!(denied("Preview"), "Preview");
        assert_eq!(deny("shell").unwrap().denying("Bash", AccessKind::Command), Some("shell"));
    }

    #[test]
    fn read_and_edit_are_words_for_every_tool_that_does_so() {
        assert_eq!(denied("Edit"), "Write Edit Rename");
        assert_eq!(denied("edit_file"), "Write Edit Rename");
        assert_eq!(denied("Read"), "Read Write Edit Preview Rename");
        assert_eq!(denied("read_file"), "Read Write Edit Preview Rename");
    }

    #[test]
    fn where_reading_is_allowed_or_asked_about_editing_is_not() {
        let read = || vec!["Read".to_owned()];
        let settings =
            PermissionSettings { allow: read(), ask: read(), ..PermissionSettings::default() };
        let rules = Rules::parse(&settings, &KNOWN).unwrap();
        for tool in &KNOWN {
            let is_reading = tool.access == AccessKind::Read;
            assert_eq!(rules.allows(tool.name, tool.access), is_reading, "{}", tool.name);
            assert_eq!(rules.asking(tool.name, tool.access).is_some(), is_reading);
        }
    }

    #[test]
    fn the_words_for_kinds_stand_where_no_tool_bears_them() {
        let settings =
            PermissionSettings { deny: vec!["Read".to_owned()], ..PermissionSettings::default() };
        let rules = Rules::parse(&settings, &[]).unwrap();
        assert_eq!(rules.denying("Preview", AccessKind::Read), Some("Read"));
    }

    #[test]
    fn a_rule_that_could_fail_open_is_an_error() {
        let errors = ["Bash(npm *)", "Bsh", "Bash(", "", "Read Write", "bash"]
            .map(|rule| deny(rule).unwrap_err().to_string());

        assert_snapshot!(errors.join("\n"), @r#"
        permissions.deny: "Bash(npm *)" has a specifier; rules with a specifier come later, so write only the tool's name, "Bash"
        permissions.deny: there is no tool "Bsh"; the tools are Read, Write, Edit, Bash, Preview, Rename
        permissions.deny: "Bash(" is no rule; write a tool's name, such as "Read"
        permissions.deny: "" is no rule; write a tool's name, such as "Read"
        permissions.deny: "Read Write" is no rule; write a tool's name, such as "Read"
        permissions.deny: there is no tool "bash"; the tools are Read, Write, Edit, Bash, Preview, Rename
        "#);
    }
}
