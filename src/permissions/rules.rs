//! Parses the operator's rules, and finds the rule that allows, asks about or denies a call.

mod rule_typos;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use super::commands::{self, BashPattern};
use super::domain::DomainPattern;
use super::kind::AccessKind;
use super::mcp_rule::McpRule;
use super::mode::Mode;
use super::name_pattern::matches_name;
use super::opened_command::CommandAnalysis;
use super::path_index::PathIndex;
use super::path_lists::PathList;
use super::path_pattern::{PathPattern, PatternRoots};
use super::reached::ReachedPath;
use super::rule_entries::{self, RuleEntry};
use super::rule_origin::RuleOrigin;
use super::unbuilt_tools::{UnbuiltSpecifier, UnbuiltTool, name_pattern};

/// More rules than anyone writes by hand.
const MAX_RULES: usize = 1000;

/// The most characters of a rule.
const MAX_RULE: usize = 1000;

/// `[permissions]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PermissionSettings {
    pub(crate) mode: Mode,
    /// Calls that run without asking.
    pub(crate) allow: Vec<String>,
    /// Calls that need an approval in every mode.
    pub(crate) ask: Vec<String>,
    /// Calls that never run. A tool that is denied whole is not offered to the model.
    pub(crate) deny: Vec<String>,
    /// Further names of `allow` and `deny`.
    pub(crate) allowed_tools: Vec<String>,
    pub(crate) disabled_tools: Vec<String>,
    /// Rules with a reason and with examples.
    pub(crate) rules: Vec<RuleEntry>,
    /// Directories outside the workspace that the file tools and commands may use.
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
    allow: RuleList,
    ask: RuleList,
    deny: RuleList,
}

/// The rules with one verdict, in the order in which they count.
#[derive(Clone, Debug, Default)]
struct RuleList {
    rules: Vec<Rule>,
    /// Made when it is first needed.
    index: OnceLock<PathIndex>,
}

#[derive(Clone, Debug)]
struct Rule {
    origin: RuleOrigin,
    covers: Covered,
    specifier: Specifier,
    /// The server does not have its tool.
    is_idle: bool,
}

/// Which calls of a tool a rule covers.
#[derive(Clone, Debug)]
enum Specifier {
    All,
    Path(PathPattern),
    Command(BashPattern),
    /// A name; `*` in it stands for any text.
    Name(String),
    /// The host of a page.
    Domain(DomainPattern),
    /// Of a tool that the server does not have.
    Unbuilt,
}

/// The tools that a rule covers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Covered {
    /// Only the tool of this name.
    Tool(String),
    /// Every tool of this kind.
    Kind(AccessKind),
    /// Tools of MCP servers, whether the server runs or not.
    Mcp(McpRule),
}

/// What rules know of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuledCall<'a> {
    pub(super) tool: &'a str,
    pub(super) kind: AccessKind,
    /// The path that it reaches, if it is a call of a file tool.
    pub(super) reached: Option<ReachedPath<'a>>,
    /// The name that it uses, if it is of that kind.
    pub(super) name: Option<&'a str>,
    /// The host of the page that it fetches, if it fetches one.
    pub(super) host: Option<&'a str>,
    /// The MCP server that it uses, if it uses one.
    pub(super) server: Option<&'a str>,
    /// The command that it runs, if it runs one.
    pub(super) command: Option<&'a CommandAnalysis>,
    pub(super) roots: &'a PatternRoots,
}

impl<'a> RuledCall<'a> {
    /// A call of which nothing more is known.
    pub(super) fn new(tool: &'a str, kind: AccessKind, roots: &'a PatternRoots) -> Self {
        let (reached, name, host, server, command) = (None, None, None, None, None);
        Self { tool, kind, reached, name, host, server, command, roots }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RuleError {
    #[error(
        "permissions.{list}: {rule:?} has a specifier, and {name} has none; write only the tool's name, {name:?}"
    )]
    Specifier { list: &'static str, rule: String, name: String },
    #[error("permissions.{list}: {rule:?}: {reason}")]
    Pattern { list: &'static str, rule: String, reason: String },
    #[error(
        "permissions.{list}: {rule:?} is no rule; write a tool's name, such as \"Read\", with or without a specifier, such as \"Read(src/**)\" or \"Bash(npm test)\""
    )]
    Malformed { list: &'static str, rule: String },
    #[error("permissions.{list}: there is no tool {rule:?}; the tools are {tools}")]
    UnknownTool { list: &'static str, rule: String, tools: String },
    #[error("permissions.rules[{index}]: {reason}")]
    Entry { index: usize, reason: String },
    #[error("permissions: there are {count} rules in all; {MAX_RULES} are the most")]
    TooManyInAll { count: usize },
    #[error("permissions.{list} has {count} rules; {MAX_RULES} are the most")]
    TooMany { list: &'static str, count: usize },
    #[error("permissions.{list}: a rule has {length} characters; {MAX_RULE} are the most")]
    TooLong { list: &'static str, length: usize },
}

impl Rules {
    pub(super) fn parse(
        settings: &PermissionSettings,
        known: &[KnownTool<'_>],
    ) -> Result<Self, RuleError> {
        let parse = |list, rules: &[String]| {
            if MAX_RULES < rules.len() {
                return Err(RuleError::TooMany { list, count: rules.len() });
            }
            rules.iter().map(|rule| Rule::parse(list, rule, known)).collect::<Result<Vec<_>, _>>()
        };
        let listed = |rules| RuleList { rules, index: OnceLock::new() };
        let mut rules = Self {
            allow: listed(parse("allow", &settings.allow)?),
            ask: listed(parse("ask", &settings.ask)?),
            deny: listed(parse("deny", &settings.deny)?),
        };
        rules.allow.extend(parse("allowed_tools", &settings.allowed_tools)?);
        rules.deny.extend(parse("disabled_tools", &settings.disabled_tools)?);
        for (index, entry) in settings.rules.iter().enumerate() {
            let added = rules.add_entry(entry, known);
            added.map_err(|reason| RuleError::Entry { index, reason })?;
        }
        let count =
            [&rules.allow, &rules.ask, &rules.deny].map(|list| list.rules.len()).iter().sum();
        if MAX_RULES < count { Err(RuleError::TooManyInAll { count }) } else { Ok(rules) }
    }

    fn add_entry(&mut self, entry: &RuleEntry, known: &[KnownTool<'_>]) -> Result<(), String> {
        let list = entry.verdict.list();
        let text = entry.rule.as_str();
        let mut rule = Rule::parse(list, text, known).map_err(|error| error.to_string())?;
        let covers = |example: &str| rule.covers_example(list, example);
        let covers: Option<&dyn Fn(&str) -> bool> =
            if rule.path().is_some() || rule.command().is_some() { Some(&covers) } else { None };
        if let Some(wrong) = entry.wrong_example(covers) {
            return Err(wrong);
        }
        rule.origin.reason = entry.reason.as_deref().map(Into::into);
        rule.origin.list = "rules";
        self.push(list, rule);
        Ok(())
    }

    fn push(&mut self, list: &str, rule: Rule) {
        match list {
            "allow" => self.allow.extend([rule]),
            "ask" => self.ask.extend([rule]),
            _ => self.deny.extend([rule]),
        }
    }

    /// Adds a rule to one of the lists: `allow`, `ask` or `deny`.
    pub(super) fn add(
        &mut self,
        list: &'static str,
        rule: &str,
        known: &[KnownTool<'_>],
    ) -> Result<(), RuleError> {
        let rule = Rule::parse(list, rule, known)?;
        self.push(list, rule);
        Ok(())
    }

    /// Adds the rules of a settings file: all of them, or those that only take away.
    pub(super) fn add_from(&mut self, others: &Self, whole: bool) {
        self.allow.extend(others.allow.iter().filter(|_| whole).cloned());
        self.ask.extend(others.ask.iter().cloned());
        self.deny.extend(others.deny.iter().cloned());
    }

    /// Notes the settings file of all rules, and the directory that `/` means in them, if that is
    /// not the workspace.
    pub(super) fn come_from(&mut self, file: &Arc<Path>, base: Option<&Path>) {
        for rule in self.iter_mut() {
            rule.origin.file = Some(Arc::clone(file));
            if let (Specifier::Path(path), Some(base)) = (&mut rule.specifier, base) {
                path.count_from(base);
            }
        }
    }

    /// Makes rules for commands cover a part only as it is written, and those for paths nothing
    /// below.
    pub(super) fn make_literal(&mut self) {
        for rule in self.iter_mut() {
            match &mut rule.specifier {
                Specifier::Command(pattern) => pattern.make_literal(),
                Specifier::Path(pattern) => pattern.make_exact(),
                Specifier::All | Specifier::Name(_) | Specifier::Domain(_) | Specifier::Unbuilt => {
                }
            }
        }
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Rule> {
        let lists = [&mut self.allow, &mut self.ask, &mut self.deny];
        lists.into_iter().flat_map(RuleList::iter_mut)
    }

    /// The rules of tools that the server does not have.
    pub(super) fn idle(&self) -> impl Iterator<Item = &RuleOrigin> {
        let all = self.allow.iter().chain(self.ask.iter()).chain(self.deny.iter());
        all.filter(|rule| rule.is_idle).map(|rule| &rule.origin)
    }

    /// The rule that denies the call. A rule that denies reading denies editing too,
    /// because an edit shows what the file holds.
    pub(super) fn denying(&self, call: RuledCall<'_>) -> Option<&RuleOrigin> {
        self.deny.about(call).find(|rule| rule.denies(call)).map(|rule| &rule.origin)
    }

    /// Whether a rule denies the tool whatever it is called for.
    pub(super) fn deny_all_calls(&self, tool: &str, kind: AccessKind) -> bool {
        let denies = |rule: &Rule| rule.covers_all() && rule.denies_tool(tool, kind);
        self.deny.iter().any(denies)
    }

    /// Whether a rule denies the tool some paths.
    pub(super) fn deny_paths(&self, tool: &str, kind: AccessKind) -> bool {
        self.deny.iter().any(|rule| rule.path().is_some() && rule.denies_tool(tool, kind))
    }

    /// What can be protected as a whole where rules deny to change it, and the first rule for which
    /// nothing can. Rules that deny reading as well are about files that are there.
    pub(super) fn whole_denied_paths(
        &self,
        roots: &PatternRoots,
    ) -> (Vec<(PathBuf, &RuleOrigin)>, Option<&RuleOrigin>) {
        let is_about_edits = |rule: &&Rule| {
            rule.denies_tool("Edit", AccessKind::Edit)
                && !rule.denies_tool("Read", AccessKind::Read)
        };
        let (mut whole, mut other) = (Vec::new(), None);
        for rule in self.deny.iter().filter(is_about_edits) {
            match rule.path().map(|path| path.whole_paths(roots)) {
                Some(Some(paths)) => {
                    whole.extend(paths.into_iter().map(|path| (path, &rule.origin)));
                }
                Some(None) => other = other.or(Some(&rule.origin)),
                None => {}
            }
        }
        (whole, other)
    }

    /// The paths that rules without a wildcard deny the tool, with the rules.
    pub(super) fn denied_paths(
        &self,
        tool: &str,
        kind: AccessKind,
        roots: &PatternRoots,
    ) -> impl Iterator<Item = (PathBuf, &RuleOrigin)> {
        let rules = self.deny.iter().filter(move |rule| rule.denies_tool(tool, kind));
        rules.flat_map(|rule| {
            let paths = rule.path().map(|path| path.literal_paths(roots));
            paths.unwrap_or_default().into_iter().map(|path| (path, &rule.origin))
        })
    }

    pub(super) fn asking(&self, call: RuledCall<'_>) -> Option<&RuleOrigin> {
        let asks = |rule: &&Rule| rule.covers_call(call) && rule.reaches_either(call);
        self.ask.about(call).find(asks).map(|rule| &rule.origin)
    }

    /// Whether rules allow the call. For a command they may do so together: each part is allowed
    /// by one of them.
    pub(super) fn allows(&self, call: RuledCall<'_>) -> bool {
        if self.allow.about(call).any(|rule| rule.allows(call)) {
            return true;
        }
        let Some(command) = call.command else { return false };
        let rules = self.allow.iter().filter(|rule| rule.covers_call(call));
        let patterns: Vec<&BashPattern> = rules.filter_map(Rule::command).collect();
        !patterns.is_empty() && command.is_allowed_by(&patterns)
    }

    /// The rules that allow the command or a part of it.
    pub(super) fn allowing_parts(&self, call: RuledCall<'_>) -> Vec<&RuleOrigin> {
        let rules = self.allow.iter().filter(|rule| rule.covers_call(call));
        rules.filter(|rule| rule.reaches_either(call)).map(|rule| &rule.origin).collect()
    }

    /// Whether a rule allows every call of the tool.
    pub(super) fn allow_all_calls(&self, tool: &str, kind: AccessKind) -> bool {
        self.allow.iter().any(|rule| rule.covers_all() && rule.covers(tool, kind))
    }

    /// Whether a rule denies or asks about some commands.
    pub(super) fn restrict_commands(&self) -> bool {
        self.restricting().any(|rule| rule.command().is_some())
    }

    /// Whether a rule may deny or ask about the command when it runs, and cannot tell before.
    pub(super) fn may_restrict(&self, command: &CommandAnalysis) -> bool {
        let mut patterns = self.restricting().filter_map(Rule::command);
        patterns.any(|pattern| command.may_be_matched_by(pattern))
    }

    /// Whether a rule denies or asks about some paths.
    pub(super) fn restrict_paths(&self) -> bool {
        self.restricting().any(|rule| rule.path().is_some())
    }

    fn restricting(&self) -> impl Iterator<Item = &Rule> {
        self.deny.iter().chain(self.ask.iter())
    }

    /// Whether a rule allows the call that is written for places outside the workspace.
    pub(super) fn allows_outside(&self, call: RuledCall<'_>) -> bool {
        let is_absolute = |rule: &Rule| rule.path().is_some_and(PathPattern::is_absolute);
        self.allow.about(call).any(|rule| rule.allows(call) && is_absolute(rule))
    }

    /// Whether a rule allows the call that names a path of this list: one that covers all files
    /// does not mean these.
    pub(super) fn allows_by_name(&self, call: RuledCall<'_>, list: &PathList) -> bool {
        let names = |rule: &Rule| rule.path().is_some_and(|path| path.names(list));
        self.allow.about(call).any(|rule| rule.allows(call) && names(rule))
    }
}

impl RuleList {
    fn iter(&self) -> std::slice::Iter<'_, Rule> {
        self.rules.iter()
    }

    fn iter_mut(&mut self) -> std::slice::IterMut<'_, Rule> {
        self.index.take();
        self.rules.iter_mut()
    }

    fn extend(&mut self, rules: impl IntoIterator<Item = Rule>) {
        self.index.take();
        self.rules.extend(rules);
    }

    /// The rules that may cover the call: without those for paths if none covers its path.
    fn about(&self, call: RuledCall<'_>) -> impl Iterator<Item = &Rule> {
        let index = || PathIndex::new(self.rules.iter().filter_map(Rule::path));
        let with_paths = call
            .reached
            .is_some_and(|reached| self.index.get_or_init(index).may_cover(reached, call.roots));
        self.rules.iter().filter(move |rule| with_paths || rule.path().is_none())
    }
}

impl Rule {
    fn parse(list: &'static str, rule: &str, known: &[KnownTool<'_>]) -> Result<Self, RuleError> {
        let length = rule.chars().count();
        if MAX_RULE < length {
            return Err(RuleError::TooLong { list, length });
        }
        let (written, origin) = (rule.to_owned(), RuleOrigin::new(list, rule));
        if let Some(reason) = rule_typos::find(rule, known) {
            return Err(RuleError::Pattern { list, rule: written, reason: reason.to_owned() });
        }
        let name = rule.split_once('(').map_or(rule, |(name, _)| name);
        let allows = matches!(list, "allow" | "allowed_tools");
        if let Some(parsed) = McpRule::parse(name, allows) {
            return match parsed {
                Err(reason) => Err(RuleError::Pattern { list, rule: written, reason }),
                Ok(_) if name != rule => {
                    Err(RuleError::Specifier { list, rule: written, name: name.to_owned() })
                }
                Ok(covered) => Ok(Self {
                    origin,
                    covers: Covered::Mcp(covered),
                    specifier: Specifier::All,
                    is_idle: false,
                }),
            };
        }
        let is_known = known.iter().any(|tool| tool.name == name || tool.aliases.contains(&name));
        if let Some(unbuilt) = UnbuiltTool::named(name).filter(|_| !is_known) {
            return Self::parse_unbuilt(origin, &unbuilt, name);
        }
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
        let Some(specifier) = rule.strip_prefix(name).filter(|rest| !rest.is_empty()) else {
            return Ok(Self { origin, covers, specifier: Specifier::All, is_idle: false });
        };
        let specifier = specifier.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        let Some(specifier) = specifier else {
            return Err(RuleError::Malformed { list, rule: written });
        };
        let kind = match covers {
            Covered::Kind(kind) => kind,
            Covered::Tool(_) | Covered::Mcp(_) => tool.map_or(AccessKind::None, |tool| tool.access),
        };
        let parsed = match kind {
            AccessKind::Read | AccessKind::Edit => PathPattern::parse(specifier)
                .map(Specifier::Path)
                .map_err(|reason| reason.to_string()),
            AccessKind::Command => BashPattern::parse(specifier)
                .map(Specifier::Command)
                .map_err(|reason| reason.to_string()),
            AccessKind::Named => name_pattern(specifier).map(Specifier::Name),
            AccessKind::Fetch => DomainPattern::parse(specifier).map(Specifier::Domain),
            AccessKind::WebSearch | AccessKind::Mcp | AccessKind::Consent | AccessKind::None => {
                let name = name_or_word.to_owned();
                return Err(RuleError::Specifier { list, rule: written, name });
            }
        };
        match parsed {
            Ok(specifier) => Ok(Self { origin, covers, specifier, is_idle: false }),
            Err(reason) => Err(RuleError::Pattern { list, rule: written, reason }),
        }
    }

    /// Validates a rule of a tool that the server does not have.
    fn parse_unbuilt(
        origin: RuleOrigin,
        tool: &UnbuiltTool,
        name: &str,
    ) -> Result<Self, RuleError> {
        let (list, rule) = (origin.list, origin.text.clone());
        let specifier = match &origin.text[name.len()..] {
            "" => Specifier::All,
            rest => {
                let specifier = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
                let Some(specifier) = specifier else {
                    return Err(RuleError::Malformed { list, rule });
                };
                match tool.parse(specifier) {
                    Ok(UnbuiltSpecifier::Path(path)) => Specifier::Path(path),
                    Ok(UnbuiltSpecifier::Other) => Specifier::Unbuilt,
                    Err(Some(reason)) => return Err(RuleError::Pattern { list, rule, reason }),
                    Err(None) => {
                        let name = name.to_owned();
                        return Err(RuleError::Specifier { list, rule, name });
                    }
                }
            }
        };
        Ok(Self { origin, covers: Covered::Tool(tool.name.clone()), specifier, is_idle: true })
    }

    fn covers_all(&self) -> bool {
        matches!(self.specifier, Specifier::All)
    }

    fn path(&self) -> Option<&PathPattern> {
        match &self.specifier {
            Specifier::Path(path) => Some(path),
            _ => None,
        }
    }

    fn command(&self) -> Option<&BashPattern> {
        match &self.specifier {
            Specifier::Command(command) => Some(command),
            _ => None,
        }
    }

    /// Whether the rule covers a command or a path that its author wrote down.
    fn covers_example(&self, list: &str, example: &str) -> bool {
        match &self.specifier {
            Specifier::Path(pattern) => {
                let roots = rule_entries::example_roots();
                let path = rule_entries::example_path(example, &roots);
                pattern.covers(&path, example.ends_with('/'), &roots)
            }
            Specifier::Command(pattern) => match commands::parse(example) {
                Ok(parsed) if list == "allow" => parsed.is_allowed_by(&[pattern]),
                Ok(parsed) => parsed.is_matched_by(pattern),
                Err(unparsed) => list != "allow" && unparsed.is_matched_by(pattern),
            },
            Specifier::Name(pattern) => matches_name(pattern, example),
            Specifier::Domain(pattern) => pattern.covers(example),
            Specifier::All | Specifier::Unbuilt => true,
        }
    }

    fn covers_call(&self, call: RuledCall<'_>) -> bool {
        match &self.covers {
            Covered::Mcp(rule) => rule.covers(call.tool, call.server),
            Covered::Tool(_) | Covered::Kind(_) => self.covers(call.tool, call.kind),
        }
    }

    fn covers(&self, tool: &str, kind: AccessKind) -> bool {
        match &self.covers {
            Covered::Mcp(rule) => rule.covers(tool, None),
            Covered::Tool(name) => one_of_two(name) == one_of_two(tool),
            Covered::Kind(covered) => *covered == kind,
        }
    }

    fn denies_tool(&self, tool: &str, kind: AccessKind) -> bool {
        let through_read = kind == AccessKind::Edit && self.covers(tool, AccessKind::Read);
        self.covers(tool, kind) || through_read
    }

    fn denies(&self, call: RuledCall<'_>) -> bool {
        let through_read =
            call.kind == AccessKind::Edit && self.covers(call.tool, AccessKind::Read);
        (self.covers_call(call) || through_read) && self.reaches_either(call)
    }

    fn allows(&self, call: RuledCall<'_>) -> bool {
        let covers = match &self.specifier {
            Specifier::All => true,
            Specifier::Path(pattern) => reaches(pattern, call) == [true, true],
            Specifier::Name(pattern) => call.name.is_some_and(|name| matches_name(pattern, name)),
            Specifier::Domain(pattern) => call.host.is_some_and(|host| pattern.covers(host)),
            // Whether each part is allowed is asked of all rules together.
            Specifier::Command(_) | Specifier::Unbuilt => false,
        };
        covers && self.covers_call(call)
    }

    /// Whether the link or its target is covered, or any part of the command.
    fn reaches_either(&self, call: RuledCall<'_>) -> bool {
        match &self.specifier {
            Specifier::All => true,
            Specifier::Path(pattern) => reaches(pattern, call).contains(&true),
            Specifier::Command(pattern) => {
                call.command.is_some_and(|command| command.is_matched_by(pattern))
            }
            Specifier::Name(pattern) => call.name.is_some_and(|name| matches_name(pattern, name)),
            Specifier::Domain(pattern) => call.host.is_some_and(|host| pattern.covers(host)),
            Specifier::Unbuilt => false,
        }
    }
}

/// Two tools use the same skills: what is forbidden to one must not go through the other.
fn one_of_two(tool: &str) -> &str {
    if tool == "SlashCommand" { "Skill" } else { tool }
}

/// Whether the path as the call names it is covered, and the one that it really is.
fn reaches(pattern: &PathPattern, call: RuledCall<'_>) -> [bool; 2] {
    let Some(reached) = call.reached else { return [false, false] };
    [reached.asked, reached.real].map(|path| pattern.covers(path, reached.is_directory, call.roots))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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

    #[test]
    fn what_is_forbidden_to_one_tool_for_skills_is_to_the_other() {
        let known = [("Skill", AccessKind::Named), ("SlashCommand", AccessKind::Named)];
        let known = known.map(|(name, access)| KnownTool { name, aliases: &[], access });
        let denied = |rule: &str, name: &'static str| {
            let deny = vec![rule.to_owned()];
            let settings = PermissionSettings { deny, ..PermissionSettings::default() };
            let rules = Rules::parse(&settings, &known).unwrap();
            let denied = known.map(|tool| {
                let call = RuledCall { name: Some(name), ..call(tool.name, tool.access) };
                rules.denying(call).is_some()
            });
            assert_eq!(denied[0], denied[1], "{rule} {name}");
            denied[0]
        };
        for rule in ["Skill(deploy)", "SlashCommand(/deploy)", "SlashCommand(/deploy:*)", "Skill"] {
            assert!(denied(rule, "deploy"), "{rule}");
        }
        assert!(denied("Skill(git:*)", "git:push") && denied("Skill(git:*)", "git"));
        assert!(!denied("Skill(deploy)", "deploys") && !denied("Skill(git:*)", "github"));
    }

    fn deny(rule: &str) -> Result<Rules, RuleError> {
        let deny = vec![rule.to_owned()];
        Rules::parse(&PermissionSettings { deny, ..PermissionSettings::default() }, &KNOWN)
    }

    static ROOTS: PatternRoots = PatternRoots { home: PathBuf::new(), roots: Vec::new() };

    fn call(tool: &'static str, kind: AccessKind) -> RuledCall<'static> {
        RuledCall::new(tool, kind, &ROOTS)
    }

    /// The tools that a rule denies.
    fn denied(rule: &str) -> String {
        let rules = deny(rule).unwrap();
        let denied = KNOWN.iter().filter(|tool| {
            let is_denied = rules.denying(call(tool.name, tool.access)).is_some();
            assert_eq!(is_denied, rules.deny_all_calls(tool.name, tool.access));
            is_denied
        });
        denied.map(|tool| tool.name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_rule_names_a_tool_or_its_alias() {
        assert_eq!(denied("Bash"), "Bash");
        assert_eq!(denied("shell"), "Bash");
        assert_eq!(denied("Write"), "Write");
        assert_eq!(denied("Preview"), "Preview");
        assert_eq!(
            deny("shell").unwrap().denying(call("Bash", AccessKind::Command)),
            Some(&RuleOrigin::new("deny", "shell"))
        );
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
            let call = call(tool.name, tool.access);
            assert_eq!(rules.allows(call), is_reading, "{}", tool.name);
            assert_eq!(rules.asking(call).is_some(), is_reading);
        }
    }

    #[test]
    fn the_words_for_kinds_stand_where_no_tool_bears_them() {
        let settings =
            PermissionSettings { deny: vec!["Read".to_owned()], ..PermissionSettings::default() };
        let rules = Rules::parse(&settings, &[]).unwrap();
        let rule = RuleOrigin::new("deny", "Read");
        assert_eq!(rules.denying(call("Preview", AccessKind::Read)), Some(&rule));
    }

    fn roots() -> PatternRoots {
        PatternRoots { home: "/home/u".into(), roots: vec!["/ws".into()] }
    }

    /// Whether a rule in each list covers this call of Read or Write: allow, ask, deny.
    fn covered(rule: &str, tool: &str, asked: &str, real: &str) -> (bool, bool, bool) {
        let rule = || vec![rule.to_owned()];
        let settings = PermissionSettings {
            allow: rule(),
            ask: rule(),
            deny: rule(),
            ..PermissionSettings::default()
        };
        let rules = Rules::parse(&settings, &KNOWN).unwrap();
        let kind = KNOWN.iter().find(|known| known.name == tool).unwrap().access;
        let (asked, real) = (Path::new(asked), Path::new(real));
        let reached = ReachedPath::for_test(asked, real);
        let roots = roots();
        let call = RuledCall { reached: Some(reached), ..RuledCall::new(tool, kind, &roots) };
        assert!(!rules.deny_all_calls(tool, kind));
        (rules.allows(call), rules.asking(call).is_some(), rules.denying(call).is_some())
    }

    #[test]
    fn t22_an_allow_rule_needs_the_link_and_its_target_and_a_deny_rule_one_of_them() {
        let read = |asked, real| covered("Read(docs/**)", "Read", asked, real);
        assert_eq!(read("/ws/docs/a", "/ws/docs/a"), (true, true, true));
        assert_eq!(read("/ws/docs/a", "/ws/src/a"), (false, true, true));
        assert_eq!(read("/ws/a", "/ws/docs/a"), (false, true, true));
        assert_eq!(read("/ws/a", "/ws/src/a"), (false, false, false));
    }

    #[test]
    fn a_path_denied_to_reading_is_denied_to_editing() {
        let a = "/ws/a";
        assert_eq!(covered("Read(a)", "Write", a, a), (false, false, true));
        assert_eq!(covered("Edit(a)", "Write", a, a), (true, true, true));
        assert_eq!(covered("Edit(a)", "Read", a, a), (false, false, false));
        assert_eq!(covered("Write(a)", "Write", a, a), (true, true, true));
        assert_eq!(covered("Write(a)", "Edit", a, a), (false, false, false));
    }

    #[test]
    fn rules_are_few_and_short() {
        let many = PermissionSettings {
            ask: vec!["Read".to_owned(); MAX_RULES + 1],
            ..PermissionSettings::default()
        };
        let error = Rules::parse(&many, &KNOWN).unwrap_err().to_string();
        assert_eq!(error, "permissions.ask has 1001 rules; 1000 are the most");
        let stars = format!("Read({})", "*".repeat(100_000));
        let error = deny(&stars).unwrap_err().to_string();
        assert_eq!(error, "permissions.deny: a rule has 100006 characters; 1000 are the most");
    }

    #[test]
    fn a_rule_that_could_fail_open_is_an_error() {
        let errors = [
            "Bash()",
            "Bash(a\\)",
            "Bsh",
            "Bash(",
            "",
            "Read Write",
            "bash",
            "Read()",
            "Read(!a)",
            "Read(a",
            "Edit(../a)",
            "Read(~root/x)",
            "Bash(git reset:* --hard)",
            "Bash(git push *), Read(a)",
            "Bash(a\u{1b}b)",
            "Read(src/[a)",
            "Edit(src/{a,b)",
            "Edit(C:\\Users\\x)",
            "Read(src\\main.rs)",
            "Read([z-a])",
            "Read($HOME/.ssh/**)",
            "Read(file:///etc/passwd)",
            "Read( private/**)",
            "Read(a//b)",
        ]
        .map(|rule| deny(rule).unwrap_err().to_string());

        assert_snapshot!(errors.join("\n"), @r#"
        permissions.deny: "Bash()": the pattern is empty; write `Bash` for every command
        permissions.deny: "Bash(a\\)": the pattern ends in a single backslash; write `\\` for a backslash
        permissions.deny: there is no tool "Bsh"; the tools are Read, Write, Edit, Bash, Preview, Rename
        permissions.deny: "Bash(" is no rule; write a tool's name, such as "Read", with or without a specifier, such as "Read(src/**)" or "Bash(npm test)"
        permissions.deny: "" is no rule; write a tool's name, such as "Read", with or without a specifier, such as "Read(src/**)" or "Bash(npm test)"
        permissions.deny: "Read Write" is no rule; write a tool's name, such as "Read", with or without a specifier, such as "Read(src/**)" or "Bash(npm test)"
        permissions.deny: there is no tool "bash"; the tools are Read, Write, Edit, Bash, Preview, Rename
        permissions.deny: "Read()": the pattern is empty
        permissions.deny: "Read(!a)": a pattern cannot begin with '!'; escape it with a backslash
        permissions.deny: "Read(a" is no rule; write a tool's name, such as "Read", with or without a specifier, such as "Read(src/**)" or "Bash(npm test)"
        permissions.deny: "Edit(../a)": a pattern has no ".."; write the path that is meant
        permissions.deny: "Read(~root/x)": the only home a pattern can name is the server's own: ~/
        permissions.deny: "Bash(git reset:* --hard)": `:*` stands for any arguments at the end alone; write ` *` there, or `:\*` for the characters themselves
        permissions.deny: "Bash(git push *), Read(a)": these are two rules; write each as a text of its own
        permissions.deny: "Bash(a\u{1b}b)": a rule has no control characters
        permissions.deny: "Read(src/[a)": a [ is never closed; write \[ for the character itself
        permissions.deny: "Edit(src/{a,b)": error parsing glob 'src/{a,b': unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
        permissions.deny: "Edit(C:\\Users\\x)": this is a URL or a Windows path; write //path for a path from the root
        permissions.deny: "Read(src\\main.rs)": a backslash stands only before a character that means something else, such as \*; names are separated by /
        permissions.deny: "Read([z-a])": error parsing glob '[z-a]': invalid range; 'z' > 'a'
        permissions.deny: "Read($HOME/.ssh/**)": variables are not replaced; write ~/ for the home directory and // for the root, or \$ for the character itself
        permissions.deny: "Read(file:///etc/passwd)": this is a URL or a Windows path; write //path for a path from the root
        permissions.deny: "Read( private/**)": remove the blank at the start of the pattern
        permissions.deny: "Read(a//b)": remove the // or /./ in the pattern
        "#);
    }
}
