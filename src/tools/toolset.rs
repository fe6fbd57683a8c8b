//! Holds the tools of one request, finds them by name, and suggests names for a wrong one.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::definition::definition;
use super::tool::{AnyTool, ToolError};
use crate::permissions::DeniedTools;
use crate::text;

/// Suggestions for an unknown name.
const MAX_SUGGESTIONS: usize = 3;

/// With at most this many tools, the answer to an unknown name lists them all.
const MAX_LISTED: usize = 20;

/// Below this similarity it is another word, not a typing error.
const MIN_SIMILARITY: f64 = 0.5;

/// Bytes of an unknown name that are compared.
const MAX_NAME: usize = 80;

/// Tools in a fixed order. Cheap to clone: a narrower set is a new value that shares the tools
/// and their definitions.
#[derive(Clone, Default)]
pub(crate) struct Toolset(Arc<Members>);

#[derive(Clone, Default)]
struct Members {
    tools: Vec<Arc<dyn AnyTool>>,
    /// Maps names and aliases to indexes in `tools`.
    places: HashMap<String, usize>,
    definitions: Vec<Arc<RawValue>>,
    /// The definitions with commas between them.
    joined: Bytes,
    /// Tools that were here before, by name, and why they are not now.
    withdrawn: Arc<HashMap<String, String>>,
    /// MCP servers that are not running, and why.
    absent_servers: Arc<[(String, String)]>,
    /// What MCP servers say of their use, by server.
    server_words: Arc<[(String, String)]>,
}

impl Toolset {
    pub(crate) fn new(tools: Vec<Arc<dyn AnyTool>>) -> Self {
        let definitions = tools.iter().map(|tool| definition(tool.as_ref()).into()).collect();
        Self::from_parts(tools, definitions)
    }

    fn from_parts(tools: Vec<Arc<dyn AnyTool>>, definitions: Vec<Arc<RawValue>>) -> Self {
        let mut places = HashMap::new();
        for (place, tool) in tools.iter().enumerate() {
            places.insert(tool.name().to_owned(), place);
            places.extend(tool.aliases().iter().map(|alias| ((*alias).to_owned(), place)));
        }
        let joined = definitions.iter().map(|raw| raw.get()).collect::<Vec<_>>().join(",").into();
        Self(Arc::new(Members { tools, places, definitions, joined, ..Members::default() }))
    }

    /// Whether it is this very value, or a clone of it.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// These tools, and then those.
    pub(crate) fn with(&self, others: &Self) -> Self {
        let tools = self.tools().iter().chain(others.tools()).cloned().collect();
        let definitions = self.definitions().iter().chain(others.definitions());
        Self::from_parts(tools, definitions.cloned().collect())
    }

    /// Knows of further tools why they are not here, for the answer to their calls.
    pub(crate) fn with_withdrawn(mut self, withdrawn: HashMap<String, String>) -> Self {
        Arc::make_mut(&mut self.0).withdrawn = Arc::new(withdrawn);
        self
    }

    /// Knows which MCP servers are not running, and why, for the answer to calls of their tools.
    pub(crate) fn with_absent_servers(mut self, servers: Vec<(String, String)>) -> Self {
        Arc::make_mut(&mut self.0).absent_servers = servers.into();
        self
    }

    /// With what MCP servers say of their use, as pairs of a server and its words.
    pub(crate) fn with_server_words(mut self, words: Vec<(String, String)>) -> Self {
        Arc::make_mut(&mut self.0).server_words = words.into();
        self
    }

    /// What MCP servers say of their use, of those whose tools are here.
    pub(crate) fn server_words(&self) -> impl Iterator<Item = &(String, String)> {
        let has_tools = |server: &str| {
            let prefix = format!("mcp__{server}__");
            self.names().any(|name| name.starts_with(&prefix))
        };
        self.0.server_words.iter().filter(move |(server, _)| has_tools(server))
    }

    /// The tool with exactly this name or alias.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn AnyTool>> {
        self.0.places.get(name).map(|place| &self.0.tools[*place])
    }

    /// The definitions that go upstream as `tools`, in a fixed order.
    pub(crate) fn definitions(&self) -> &[Arc<RawValue>] {
        &self.0.definitions
    }

    /// The definitions as the items of a JSON array. All requests with this set share them.
    pub(crate) fn joined_definitions(&self) -> &Bytes {
        &self.0.joined
    }

    pub(crate) fn tools(&self) -> &[Arc<dyn AnyTool>] {
        &self.0.tools
    }

    /// The advertised names, in a fixed order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.tools.iter().map(|tool| tool.name())
    }

    /// Keeps only the tools with one of these names or aliases.
    pub(crate) fn only<S: AsRef<str>>(&self, names: &[S]) -> Self {
        let chosen = self.places_of(names);
        self.kept(|place| chosen.contains(&place))
    }

    /// Removes the tools with one of these names or aliases.
    pub(crate) fn without<S: AsRef<str>>(&self, names: &[S]) -> Self {
        let dropped = self.places_of(names);
        self.kept(|place| !dropped.contains(&place))
    }

    /// Removes the tools that rules deny.
    pub(crate) fn without_denied(&self, denied: &DeniedTools) -> Self {
        let tools = self.tools();
        self.kept(|place| !denied.contains(tools[place].known()))
    }

    /// Removes aliases that are the names of client tools. The aliased tools stay, under their
    /// own names.
    pub(crate) fn without_aliases<S: AsRef<str>>(&self, aliases: &[S]) -> Self {
        let mut toolset = self.clone();
        for alias in aliases.iter().map(AsRef::as_ref) {
            if toolset.get(alias).is_some_and(|tool| tool.name() != alias) {
                Arc::make_mut(&mut toolset.0).places.remove(alias);
            }
        }
        toolset
    }

    /// The entries of `names` that match no tool: errors in the configuration.
    pub(crate) fn unknown<'a, S: AsRef<str>>(&self, names: &'a [S]) -> Vec<&'a str> {
        names.iter().map(AsRef::as_ref).filter(|name| !self.0.places.contains_key(*name)).collect()
    }

    /// The names most similar to `name`, best first.
    pub(crate) fn closest(&self, name: &str) -> Vec<&str> {
        let wanted = text::prefix(name, MAX_NAME).to_lowercase();
        let rated =
            self.0.places.iter().map(|(known, place)| {
                (strsim::jaro_winkler(&wanted, &known.to_lowercase()), *place)
            });
        let mut names: Vec<&str> = Vec::new();
        for place in text::closest(rated, MIN_SIMILARITY) {
            let known = self.0.tools[place].name();
            if !names.contains(&known) {
                names.push(known);
            }
        }
        names.truncate(MAX_SUGGESTIONS);
        names
    }

    /// The answer to a call of an unknown tool.
    pub(crate) fn unavailable(&self, name: &str) -> ToolError {
        if let Some(why) = self.0.withdrawn.get(name) {
            return ToolError::failed(why);
        }
        let is_of = |server: &str| {
            let own = name.strip_prefix("mcp__").and_then(|rest| rest.strip_prefix(server));
            own.is_some_and(|own| own.starts_with("__"))
        };
        if let Some((_, why)) = self.0.absent_servers.iter().find(|(server, _)| is_of(server)) {
            return ToolError::failed(why);
        }
        let closest = self.closest(name);
        let mut hint = String::new();
        if !closest.is_empty() {
            hint = format!("; closest: {}", closest.join(", "));
        }
        if self.0.tools.is_empty() {
            hint.push_str("; no tools are available in this conversation");
        } else if closest.is_empty() || self.0.tools.len() <= MAX_LISTED {
            let names: Vec<&str> = self.names().collect();
            hint = format!("{hint}; available: {}", names.join(", "));
        }
        let name = text::quoted_name(name);
        ToolError::Unavailable { name, hint }
    }

    fn places_of<S: AsRef<str>>(&self, names: &[S]) -> Vec<usize> {
        names.iter().filter_map(|name| self.0.places.get(name.as_ref()).copied()).collect()
    }

    /// Keeps the tools whose index satisfies `is_kept`. Aliases that were removed before stay
    /// removed.
    fn kept(&self, is_kept: impl Fn(usize) -> bool) -> Self {
        let Members { tools, places, definitions, .. } = &*self.0;
        let kept: Vec<usize> = (0..tools.len()).filter(|place| is_kept(*place)).collect();
        if kept.len() == tools.len() {
            return self.clone();
        }
        let mut toolset = Self::from_parts(
            kept.iter().map(|place| Arc::clone(&tools[*place])).collect(),
            kept.iter().map(|place| Arc::clone(&definitions[*place])).collect(),
        );
        let members = Arc::make_mut(&mut toolset.0);
        members.places.retain(|name, _| places.contains_key(name));
        members.withdrawn = Arc::clone(&self.0.withdrawn);
        members.absent_servers = Arc::clone(&self.0.absent_servers);
        members.server_words = Arc::clone(&self.0.server_words);
        toolset
    }
}

impl fmt::Debug for Toolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permissions::{AccessKind, AccessRequest, Permit};
    use crate::tools::tool::{CallContext, Tool, ToolOutput, erase};

    macro_rules! tool {
        ($type:ident, $name:literal, $aliases:expr) => {
            struct $type;

            impl Tool for $type {
                type Input = serde_json::Map<String, serde_json::Value>;
                const NAME: &'static str = $name;
                const ALIASES: &'static [&'static str] = $aliases;
                const ACCESS: AccessKind = AccessKind::None;
                const DESCRIPTION: &'static str = "";

                fn access_request(&self, _: &Self::Input, _: &CallContext) -> AccessRequest {
                    AccessRequest::Nothing
                }

                fn headline(&self, _: &Self::Input) -> String {
                    String::new()
                }

                async fn execute(
                    &self,
                    _: Self::Input,
                    _: Permit,
                    _: CallContext,
                ) -> Result<ToolOutput, ToolError> {
                    Ok(ToolOutput::text($name))
                }
            }
        };
    }

    tool!(Read, "Read", &["FileRead", "read_file"]);
    tool!(Grep, "Grep", &[]);
    tool!(Bash, "Bash", &["shell"]);

    fn toolset() -> Toolset {
        Toolset::new(vec![erase(Read), erase(Grep), erase(Bash)])
    }

    fn found<'a>(toolset: &'a Toolset, name: &str) -> Option<&'a str> {
        toolset.get(name).map(|tool| tool.name())
    }

    fn names(toolset: &Toolset) -> Vec<&str> {
        toolset.names().collect()
    }

    #[test]
    fn finds_by_exact_name_or_alias_only() {
        let toolset = toolset();
        assert_eq!(found(&toolset, "Read"), Some("Read"));
        assert_eq!(found(&toolset, "read_file"), Some("Read"));
        for wrong in ["read", "READ", "Rea", "", "Read "] {
            assert_eq!(found(&toolset, wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn narrows_by_name_or_alias_and_keeps_the_order() {
        assert_eq!(names(&toolset().only(&["shell", "FileRead"])), ["Read", "Bash"]);
        assert_eq!(names(&toolset().without(&["shell"])), ["Read", "Grep"]);
        assert_eq!(toolset().without(&["shell"]).definitions().len(), 2);
        assert_eq!(toolset().without(&["read_file"]).get("Read").map(|_| ()), None);
        assert_eq!(toolset().unknown(&["Read", "Tset", "shell"]), ["Tset"]);
    }

    #[test]
    fn an_alias_can_be_left_to_the_client() {
        let shadowed = toolset().without_aliases(&["shell", "Read"]);
        assert_eq!(found(&shadowed, "shell"), None);
        assert_eq!(found(&shadowed, "Bash"), Some("Bash"));
        assert_eq!(found(&shadowed, "Read"), Some("Read"), "a name is no alias");
        assert_eq!(found(&shadowed.without(&["Grep"]), "shell"), None);
        assert_eq!(found(&shadowed.without(&["Grep"]), "Bash"), Some("Bash"));
    }

    #[test]
    fn says_why_a_tool_has_gone() {
        let gone = HashMap::from([("mcp__a__b".to_owned(), "the server has stopped".to_owned())]);
        let both = Toolset::new(vec![erase(Read)])
            .with(&Toolset::new(vec![erase(Grep), erase(Bash)]))
            .with_withdrawn(gone);
        assert_eq!(names(&both), ["Read", "Grep", "Bash"]);
        assert_eq!(found(&both, "shell"), Some("Bash"));
        let refusal = both.without(&["Grep"]).unavailable("mcp__a__b").to_string();
        assert_eq!(refusal, "the server has stopped");
    }

    #[test]
    fn says_what_is_there_instead() {
        let refusal = |name: &str| toolset().unavailable(name).to_string();
        insta::assert_snapshot!(refusal("grep"), @"no tool named grep is available; closest: Grep, Read; available: Read, Grep, Bash");
        insta::assert_snapshot!(refusal("readfile"), @"no tool named readfile is available; closest: Read, Grep, Bash; available: Read, Grep, Bash");
        insta::assert_snapshot!(refusal("xyzzy"), @"no tool named xyzzy is available; available: Read, Grep, Bash");
        insta::assert_snapshot!(Toolset::default().unavailable("Read").to_string(), @"no tool named Read is available; no tools are available in this conversation");
        assert!(refusal(&"\u{1b}é".repeat(10_000)).len() < 1000);
    }
}
