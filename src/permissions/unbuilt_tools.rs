//! Lists the tools that rules may name although the server does not have them: planned ones, others
//! of the public settings format, and those of MCP servers. Their rules are validated, so that a
//! slip is found now, and have no effect.

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
        if name.starts_with("mcp__") {
            return Some(Self { name: name.to_owned(), takes: Nothing });
        }
        let is_it = |(known, aliases, _): &&(&str, &[&str], Takes)| {
            *known == name || aliases.contains(&name)
        };
        let (name, _, takes) = TOOLS.iter().find(is_it)?;
        Some(Self { name: (*name).to_owned(), takes: *takes })
    }

    /// Refuses a name that an MCP tool cannot have. In `allow` the server must be named: a glob
    /// would let in servers that come later.
    pub(super) fn check_name(&self, list: &str) -> Result<(), String> {
        let Some(rest) = self.name.strip_prefix("mcp__") else { return Ok(()) };
        let (server, tool) = match rest.split_once("__") {
            Some((server, tool)) => (server, Some(tool)),
            None => (rest, None),
        };
        let is_part = |part: &str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.*".contains(&byte);
            !part.is_empty() && part.bytes().all(fits)
        };
        if !is_part(server) || !tool.is_none_or(is_part) {
            return Err("write mcp__server, mcp__server__* or mcp__server__tool".to_owned());
        }
        if matches!(list, "allow" | "allowed_tools") && server.contains('*') {
            return Err("an allow rule names its MCP server; only ask and deny rules may have \
                        a * there"
                .to_owned());
        }
        Ok(())
    }

    /// The error says what is wrong with the specifier; `None`: the tool takes none.
    pub(super) fn parse(&self, specifier: &str) -> Result<UnbuiltSpecifier, Option<String>> {
        match self.takes {
            Nothing => Err(None),
            Path => PathPattern::parse(specifier)
                .map(UnbuiltSpecifier::Path)
                .map_err(|error| Some(error.to_string())),
            Domain => check_domain(specifier).map_err(Some),
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
    Ok(specifier.strip_prefix('/').unwrap_or(specifier).to_owned())
}

fn check_domain(specifier: &str) -> Result<UnbuiltSpecifier, String> {
    let wrong = || "write domain: and a host, such as domain:example.com or domain:*.example.com";
    let domain = specifier.strip_prefix("domain:").ok_or_else(wrong)?;
    domain_host(domain).map(|_| UnbuiltSpecifier::Other).ok_or_else(|| wrong().to_owned())
}

/// The host of a domain as requests have it: in lower case, with its ASCII form, without a dot at
/// the end.
fn domain_host(domain: &str) -> Option<String> {
    let host = domain.strip_prefix("*.").unwrap_or(domain);
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/\\:@?#%*[]".contains(c);
    if host.is_empty() || host.contains(is_odd) || host.starts_with('.') || host.contains("..") {
        return None;
    }
    let url = reqwest::Url::parse(&format!("http://{host}/")).ok()?;
    url.host_str().filter(|host| !host.ends_with('.')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, specifier: Option<&str>, list: &str) -> Result<(), String> {
        let tool = UnbuiltTool::named(name).ok_or("unknown")?;
        tool.check_name(list)?;
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
    fn a_glob_over_mcp_servers_allows_nothing() {
        for name in ["mcp__git", "mcp__git__*", "mcp__git__get_log", "mcp__git__get_*"] {
            assert_eq!(check(name, None, "allow"), Ok(()), "{name}");
            assert_eq!(check(name, Some("x"), "deny"), Err("takes none".to_owned()));
        }
        for name in ["mcp__*", "mcp__git*__push", "mcp__*__push"] {
            assert_eq!(check(name, None, "deny"), Ok(()), "{name}");
            assert_eq!(check(name, None, "ask"), Ok(()), "{name}");
            assert!(check(name, None, "allow").unwrap_err().contains("names its MCP server"));
        }
        for name in ["mcp__", "mcp____x", "mcp__git__", "mcp__a b", "mcp__a/b"] {
            assert!(check(name, None, "deny").unwrap_err().contains("mcp__server"), "{name}");
        }
    }

    #[test]
    fn a_domain_is_a_host_and_nothing_else() {
        let host = |domain: &str| domain_host(domain).unwrap_or_default();
        assert_eq!(host("EXAMPLE.com."), "example.com");
        assert_eq!(host("*.bücher.example"), "xn--bcher-kva.example");
        assert_eq!(host("127.0.0.1"), "127.0.0.1");
        for wrong in
            ["", "*", "*.", "a/b", "a:80", "a@b", "a b", "..", "a..b", "a*", "x.*.y", "%41"]
        {
            assert_eq!(domain_host(wrong), None, "{wrong}");
        }
        assert_eq!(check("WebFetch", Some("domain:example.com"), "allow"), Ok(()));
        assert!(check("fetch_url", Some("example.com"), "allow").is_err());
        assert_eq!(check("WebSearch", Some("domain:x"), "deny"), Err("takes none".to_owned()));
    }

    #[test]
    fn names_and_paths_are_specifiers() {
        for (tool, specifier) in
            [("Workflow", "release"), ("PowerShell", "*"), ("NotebookRead", "*.ipynb")]
        {
            assert_eq!(check(tool, Some(specifier), "allow"), Ok(()), "{tool}");
        }
        assert!(check("Workflow", Some(" "), "allow").is_err());
        assert!(check("NotebookRead", Some("../x"), "deny").is_err());
        assert_eq!(check("TodoRead", Some("x"), "deny"), Err("takes none".to_owned()));
    }
}
