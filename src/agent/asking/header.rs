//! Finds a header for a dialog about a call: a name that is short enough to be shown whole.

/// The most characters of a header in Open WebUI's dialog.
const MAX_CHARS: usize = 12;

/// The name of the tool, or of what it is about, in whole words.
pub(super) fn header(tool: &str) -> &str {
    match tool {
        "EnterPlanMode" => "Plan mode",
        "ListMcpResources" | "ReadMcpResource" => "MCP",
        _ if is_short_name(tool) => tool,
        _ if tool.starts_with("mcp__") => "MCP tool",
        _ => first_words(tool).unwrap_or("Approval"),
    }
}

fn is_short_name(tool: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    !tool.is_empty() && tool.len() <= MAX_CHARS && tool.chars().all(is_plain)
}

/// The first words of a name such as `NotebookEditor` or `list_all_files`, as many as fit.
fn first_words(tool: &str) -> Option<&str> {
    let last_end = tool.len().min(MAX_CHARS + 1);
    let end = (1..last_end).rev().find(|at| begins_word(tool.as_bytes(), *at))?;
    tool.get(..end).filter(|words| is_short_name(words))
}

/// Whether a word of the name begins at this byte, which is not the first one.
fn begins_word(name: &[u8], at: usize) -> bool {
    let before = name[at - 1];
    let here = name[at];
    matches!(here, b'_' | b'-') || (here.is_ascii_uppercase() && before.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_whole_words() {
        for (tool, expected) in [
            ("Bash", "Bash"),
            ("ExitPlanMode", "ExitPlanMode"),
            ("EnterPlanMode", "Plan mode"),
            ("mcp__github__create_issue", "MCP tool"),
            ("mcp__a__b", "mcp__a__b"),
            ("ReadMcpResource", "MCP"),
            ("NotebookEditor", "Notebook"),
            ("list_all_files_here", "list_all"),
            ("incomprehensibilities", "Approval"),
            ("ééééééééééééé", "Approval"),
            ("", "Approval"),
        ] {
            assert_eq!(header(tool), expected);
            assert!(header(tool).chars().count() <= MAX_CHARS);
        }
    }
}
