//! Matches the names of MCP tools with the rules for them: `mcp__server`, `mcp__server__*` and
//! `mcp__server__tool`.

use super::name_pattern::matches_name;

/// The beginning of the names of all MCP tools.
const PREFIX: &str = "mcp__";

/// The longest name that a tool is offered under.
const MAX_NAME: usize = 64;

/// The tools that a rule's name covers. A `*` in a part stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct McpRule {
    server: String,
    /// `None`: all of the server.
    tool: Option<String>,
}

/// Why a name is no rule. The text ends a sentence.
type NameFault = String;

impl McpRule {
    /// `None`: the name is not that of MCP tools. In a list that allows, the server must be named:
    /// a pattern would let in servers that come later.
    pub(super) fn parse(name: &str, allows: bool) -> Option<Result<Self, NameFault>> {
        let rest = name.strip_prefix(PREFIX)?;
        let (server, tool) = match rest.split_once("__") {
            Some((server, tool)) => (server, Some(tool)),
            None => (rest, None),
        };
        if !is_part(server) || !tool.is_none_or(is_part) {
            return Some(Err(
                "write mcp__server, mcp__server__* or mcp__server__tool, the tool by \
                             the name under which it is offered: letters, digits, _ and -"
                    .to_owned(),
            ));
        }
        if MAX_NAME < name.len() && !name.contains('*') {
            return Some(Err(format!(
                "no tool is offered under a name of more than {MAX_NAME} characters; \
                 `toolhand mcp list` shows how a longer one is cut"
            )));
        }
        if allows && server.contains('*') {
            return Some(Err("an allow rule names its MCP server; only ask and deny rules may \
                             have a * there"
                .to_owned()));
        }
        let tool = tool.filter(|tool| *tool != "*").map(str::to_owned);
        Some(Ok(Self { server: server.to_owned(), tool }))
    }

    /// Whether the rule covers a tool: an MCP tool by its name, another one that uses `server`.
    pub(super) fn covers(&self, name: &str, server: Option<&str>) -> bool {
        let named = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once("__"));
        let (server, tool) = match (named, server) {
            (Some((server, tool)), _) => (server, tool),
            (None, Some(server)) => (server, name),
            (None, None) => return false,
        };
        let covers_tool = |pattern: &String| matches_name(pattern, tool);
        matches_name(&self.server, server) && self.tool.as_ref().is_none_or(covers_tool)
    }
}

fn is_part(part: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-*".contains(&byte);
    !part.is_empty() && part.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, allows: bool) -> Result<McpRule, String> {
        McpRule::parse(name, allows).expect("the name of an MCP tool")
    }

    #[test]
    fn a_pattern_over_servers_allows_nothing() {
        for name in ["mcp__git", "mcp__git__*", "mcp__git__get_log", "mcp__git__get_*"] {
            assert!(parse(name, true).is_ok(), "{name}");
        }
        for name in ["mcp__*", "mcp__git*__push", "mcp__*__push"] {
            assert!(parse(name, false).is_ok(), "{name}");
            assert!(parse(name, true).unwrap_err().contains("names its MCP server"));
        }
        for name in ["mcp__", "mcp____x", "mcp__git__", "mcp__a b", "mcp__a/b"] {
            assert!(parse(name, false).unwrap_err().contains("mcp__server"), "{name}");
        }
        // A deny rule that no tool's name can match would deny nothing.
        for name in ["mcp__git__a.b", "mcp__git__*.b", "mcp__a.b"] {
            assert!(parse(name, false).unwrap_err().contains("letters, digits"), "{name}");
        }
        let long = |more: &str| format!("mcp__git__{}{more}", "x".repeat(54));
        assert!(parse(&long(""), false).is_ok() && parse(&long("x*"), false).is_ok());
        assert!(parse(&long("x"), false).unwrap_err().contains("more than 64"));
        assert_eq!(McpRule::parse("Bash", true), None);
    }

    #[test]
    fn m1_a_rule_covers_its_server_and_no_other() {
        let covers = |rule: &str, name: &str| parse(rule, false).unwrap().covers(name, None);
        for rule in ["mcp__git", "mcp__git__*", "mcp__git__push", "mcp__git__p*", "mcp__g*__push"] {
            assert!(covers(rule, "mcp__git__push"), "{rule}");
            for other in ["mcp__git2__push", "mcp__my_git__push", "git__push", "push", "mcp__git"] {
                assert!(!covers(rule, other) || rule == "mcp__g*__push", "{rule} {other}");
            }
        }
        assert!(!covers("mcp__git__push", "mcp__git__push_all"));
        // The first double underscore ends the server's name.
        assert!(covers("mcp__a", "mcp__a__b__c") && covers("mcp__a__b__c", "mcp__a__b__c"));
    }

    #[test]
    fn another_tool_that_uses_the_server_is_covered_with_it() {
        let read = |rule: &str| parse(rule, false).unwrap().covers("ReadMcpResource", Some("git"));
        assert!(read("mcp__git") && read("mcp__git__*") && read("mcp__git__ReadMcpResource"));
        assert!(!read("mcp__git__push") && !read("mcp__other"));
    }
}
