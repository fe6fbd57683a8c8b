//! Finds typos in the text of a rule, with which it would be read and never match.

use super::KnownTool;
use crate::permissions::kind::AccessKind;
use crate::permissions::unbuilt_tools::UnbuiltTool;

/// Why the text, which could be read as a rule, would never match what its author means.
pub(super) fn find(rule: &str, known: &[KnownTool<'_>]) -> Option<&'static str> {
    if rule.chars().any(char::is_control) {
        return Some("a rule has no control characters");
    }
    if names_a_parameter(rule) {
        return Some("the pattern stands alone in the brackets, without a name and `=`");
    }
    for (at, _) in rule.match_indices(')') {
        if begins_with_another_rule(&rule[at + 1..], known) {
            return Some("these are two rules; write each as a text of its own");
        }
    }
    None
}

/// Whether the specifier begins like an argument of a call: `Read(file_path=/x)`.
fn names_a_parameter(rule: &str) -> bool {
    const PARAMETERS: [&str; 7] =
        ["file_path", "notebook_path", "path", "pattern", "command", "url", "domain"];
    let specifier = rule.split_once('(').map_or("", |(_, specifier)| specifier);
    specifier.split_once('=').is_some_and(|(name, _)| PARAMETERS.contains(&name.trim()))
}

/// Whether what stands behind a bracket is a separator and one more rule. A command may hold
/// `f(x), g(y)`, so only a tool's name counts.
fn begins_with_another_rule(rest: &str, known: &[KnownTool<'_>]) -> bool {
    let next = rest.trim_start_matches([',', ';', ' ']);
    let has_separator = next.len() < rest.len();
    has_separator && next.split_once('(').is_some_and(|(name, _)| is_tool(name, known))
}

fn is_tool(name: &str, known: &[KnownTool<'_>]) -> bool {
    known.iter().any(|tool| tool.name == name || tool.aliases.contains(&name))
        || AccessKind::from_word(name).is_some()
        || UnbuiltTool::named(name).is_some()
        || name.starts_with("mcp__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rules_in_one_text_are_an_error() {
        let bash = KnownTool { name: "Bash", aliases: &["shell"], access: AccessKind::Command };
        let found = |rule: &str| find(rule, &[bash]);
        for rule in [
            "Bash(git push *), Bash(rm *)",
            "Bash(git push *),shell(rm *)",
            "Bash(a) Read(b)",
            "Read(a); mcp__git__push(x)",
            "Bash(a), WebFetch(domain:x)",
        ] {
            assert!(found(rule).is_some_and(|why| why.contains("two rules")), "{rule}");
        }
        for rule in ["Bash(f(x), g(y))", "Bash(f(x))", "Read(a (1).txt)", "Bash(echo ) )"] {
            assert_eq!(found(rule), None, "{rule}");
        }
        for rule in ["Write(file_path=**/x)", "Bash(command = rm *)", "WebFetch(domain=x.org)"] {
            assert!(found(rule).is_some_and(|why| why.contains("alone")), "{rule}");
        }
        assert_eq!(found("Bash(git config user.name=*)"), None);
        assert!(found("Bash(a\nb)").is_some_and(|why| why.contains("control")));
    }
}
