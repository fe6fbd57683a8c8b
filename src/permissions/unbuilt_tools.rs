//! Lists the tools that rules may name although the server does not have them: planned ones, and
//! others of the public settings format. Their rules are validated, so that a
//! slip is found now, and have no effect.

use super::domain::DomainPattern;
use super::path_pattern::PathPattern;

/// What a tool's rules may have in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    Path,
    /// `domain:example.com`
    Domain,
    /// A name.
    Name,
}

use Takes::{Domain, Name, Nothing, Path};

/// Name, aliases, and what its rules take.
const TOOLS: [(&str, &[&str], Takes); 24] = [
    ("WebFetch", &["fetch_url"], Domain),
    ("WebSearch", &["web_search"], Nothing),
    ("LSP", &[], Nothing),
    ("ListMcpResources", &["ListMcpResourcesTool"], Nothing),
    ("ReadMcpResource", &["ReadMcpResourceTool"], Nothing),
    // Further names of the public format.
    ("LS", &[], Path),
    ("MultiEdit", &[], Path),
    ("NotebookRead", &[], Path),
    ("TodoRead", &[], Nothing),
    ("ToolSearch", &[], Nothing),
    ("EnterWorktree", &[], Nothing),
    ("ExitWorktree", &[], Nothing),
    ("CronCreate", &[], Nothing),
    ("CronDelete", &[], Nothing),
    ("CronList", &[], Nothing),
    ("Monitor", &[], Nothing),
    ("PowerShell", &[], Name),
    ("SendMessage", &[], Nothing),
    ("TeamCreate", &[], Nothing),
    ("TeamDelete", &[], Nothing),
    ("RemoteTrigger", &[], Nothing),
    ("PushNotification", &[], Nothing),
    ("Workflow", &[], Name),
    ("StructuredOutput", &[], Nothing),
];

/// A tool that the server does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnbuiltTool {
    pub(super) name: String,
    takes: Takes,
}

/// What a valid specifier of such a tool is.
#[derive(Clone, Debug)]
pub(super) enum UnbuiltSpecifier {
    Path(PathPattern),
    Other,
}

impl UnbuiltTool {
    /// The tool of this name or alias.
    pub(super) fn named(name: &str) -> Option<Self> {
        let is_it = |(known, aliases, _): &&(&str, &[&str], Takes)| {
            *known == name || aliases.contains(&name)
        };
        let (name, _, takes) = TOOLS.iter().find(is_it)?;
        Some(Self { name: (*name).to_owned(), takes: *takes })
    }

    /// The error says what is wrong with the specifier; `None`: the tool takes none.
    pub(super) fn parse(&self, specifier: &str) -> Result<UnbuiltSpecifier, Option<String>> {
        match self.takes {
            Nothing => Err(None),
            Path => PathPattern::parse(specifier)
                .map(UnbuiltSpecifier::Path)
                .map_err(|error| Some(error.to_string())),
            Domain => {
                DomainPattern::parse(specifier).map(|_| UnbuiltSpecifier::Other).map_err(Some)
            }
            Name => name_pattern(specifier).map(|_| UnbuiltSpecifier::Other).map_err(Some),
        }
    }
}

/// As it stands in the parentheses. The public format writes the name of a command as it is
/// typed, with a slash, and `:*` for any arguments.
pub(super) fn name_pattern(specifier: &str) -> Result<String, String> {
    if specifier.trim().is_empty() || specifier.chars().any(char::is_control) {
        return Err("write a name in the parentheses".to_owned());
    }
    if specifier.contains(',') {
        return Err("one name stands in the parentheses; write a rule for each".to_owned());
    }
    let name = specifier.trim();
    Ok(name.strip_prefix('/').unwrap_or(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, specifier: Option<&str>) -> Result<(), String> {
        let tool = UnbuiltTool::named(name).ok_or("unknown")?;
        let Some(specifier) = specifier else { return Ok(()) };
        let parsed = tool.parse(specifier).map(drop);
        parsed.map_err(|reason| reason.unwrap_or_else(|| "takes none".to_owned()))
    }

    #[test]
    fn names_and_aliases_of_tools_that_are_not_built_are_known() {
        assert_eq!(UnbuiltTool::named("fetch_url").unwrap().name, "WebFetch");
        for none in ["webfetch", "Bsh", "Task", "Skill"] {
            assert!(UnbuiltTool::named(none).is_none(), "{none}");
        }
    }

    #[test]
    fn a_domain_is_a_specifier_of_a_tool_that_fetches() {
        assert_eq!(check("WebFetch", Some("domain:example.com")), Ok(()));
        assert!(check("fetch_url", Some("example.com")).is_err());
        assert_eq!(check("WebSearch", Some("domain:x")), Err("takes none".to_owned()));
    }

    #[test]
    fn names_and_paths_are_specifiers() {
        for (tool, specifier) in
            [("Workflow", "release"), ("PowerShell", "*"), ("NotebookRead", "*.ipynb")]
        {
            assert_eq!(check(tool, Some(specifier)), Ok(()), "{tool}");
        }
        assert!(check("Workflow", Some(" ")).is_err());
        assert!(check("Workflow", Some("a, b")).unwrap_err().contains("a rule for each"));
        assert_eq!(name_pattern(" /review "), Ok("review".to_owned()));
        assert!(check("NotebookRead", Some("../x")).is_err());
        assert_eq!(check("TodoRead", Some("x")), Err("takes none".to_owned()));
    }
}
