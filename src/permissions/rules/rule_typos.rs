//! Finds typos in the text of a rule, with which it would be read and never match.

use super::KnownTool;
use crate::permissions::kind::AccessKind;
use crate::permissions::unbuilt_tools::UnbuiltTool;
use crate::text::without_hidden;

/// Why the text, which could be read as a rule, would never match what its author means.
pub(super) fn find(rule: &str, known: &[KnownTool<'_>]) -> Option<&'static str> {
    if rule.chars().any(char::is_control) {
        return Some("a rule has no control characters");
    }
    if without_hidden(rule) != rule {
        return Some("remove the characters that cannot be seen");
    }
    let (tool, specifier) = specifier_of(rule);
    if names_a_parameter(specifier) {
        return Some("the pattern stands alone in the brackets, without a name and `=`");
    }
    if is_quoted(specifier) {
        return Some("remove the quotes around the pattern");
    }
    if is_of_paths(tool) && specifier.contains('|') {
        return Some("a rule is for one path pattern; write each as a rule of its own");
    }
    if lists_programs(specifier) {
        return Some("a rule is for one command; write one for each program");
    }
    if specifier.ends_with(":*") && is_of_paths(tool) {
        return Some("`:*` is for commands; write /** for all below a directory");
    }
    if has_long_dash(specifier) {
        return Some("an option begins with a hyphen (-), not with a longer dash");
    }
    for (at, _) in rule.match_indices(')') {
        if begins_with_another_rule(&rule[at + 1..], known) {
            return Some("these are two rules; write each as a text of its own");
        }
    }
    None
}

/// The tool, and what stands in the brackets behind it.
fn specifier_of(rule: &str) -> (&str, &str) {
    let (tool, behind) = rule.split_once('(').unwrap_or((rule, ""));
    (tool.trim(), behind.strip_suffix(')').unwrap_or(behind))
}

/// Whether the whole specifier stands in quotes: `Bash("rm *")`.
fn is_quoted(specifier: &str) -> bool {
    let inside = |quote: char| specifier.strip_prefix(quote)?.strip_suffix(quote);
    ['"', '\'', '`']
        .into_iter()
        .any(|quote| inside(quote).is_some_and(|text| !text.contains(quote)))
}

fn is_of_paths(tool: &str) -> bool {
    matches!(tool, "Read" | "Edit" | "Write" | "NotebookEdit" | "Glob" | "Grep")
}

/// Whether the specifier lists programs as a pattern of other kinds would: `rm|dd`, `(rm|dd) *`. A
/// line that pipes one program into another has blanks or arguments.
fn lists_programs(specifier: &str) -> bool {
    let list = specifier.trim_end_matches(['*', ':', ' ']).trim_matches(['(', ')']);
    let is_program = |word: &str| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        !word.is_empty() && word.chars().all(is_letter)
    };
    list.contains('|') && list.split('|').all(is_program)
}

/// Whether a dash stands like the hyphen of an option: editors turn one into the other.
fn has_long_dash(specifier: &str) -> bool {
    specifier.split(' ').any(|word| {
        let option = word.trim_start_matches(|c| matches!(c, '\u{2010}'..='\u{2015}'));
        option.len() < word.len() && option.starts_with(|c: char| c.is_ascii_alphanumeric())
    })
}

/// Whether the specifier begins like an argument of a call: `Read(file_path=/x)`.
fn names_a_parameter(specifier: &str) -> bool {
    const PARAMETERS: [&str; 7] =
        ["file_path", "notebook_path", "path", "pattern", "command", "url", "domain"];
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
        for (rule, expected) in [
            ("Bash(\"rm *\")", "quotes"),
            ("Read('src/a')", "quotes"),
            ("Read(src/a:*)", "`:*`"),
            ("Read(src/a|src/b)", "one path"),
            ("Bash(rm|dd)", "one command"),
            ("Bash((rm|dd) *)", "one command"),
            ("Bash(rm|dd:*)", "one command"),
            ("Bash(rm \u{2013}rf *)", "hyphen"),
            ("Read(src/\u{200b}a)", "cannot be seen"),
        ] {
            assert!(found(rule).is_some_and(|why| why.contains(expected)), "{rule}");
        }
        for rule in ["Bash(curl *|sh)", "Bash(echo x | sh)", "Bash(grep \"a|b\" *)"] {
            assert_eq!(found(rule), None, "{rule}");
        }
        for rule in ["Bash(npm:*)", "Bash(\"my tool\" \"x\")", "Read(a \u{2013} b.txt)"] {
            assert_eq!(found(rule), None, "{rule}");
        }
        assert!(found("Bash(a\nb)").is_some_and(|why| why.contains("control")));
    }
}
