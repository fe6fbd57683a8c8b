//! Keeps what rules know of all tools, for rules that are read while the server runs.

use super::kind::AccessKind;
use super::rules::KnownTool;

#[derive(Debug)]
pub(super) struct OwnedTools(Vec<OwnedTool>);

#[derive(Debug)]
pub(super) struct OwnedTool {
    pub(super) name: String,
    aliases: Vec<String>,
    pub(super) access: AccessKind,
}

impl OwnedTools {
    pub(super) fn new(known: &[KnownTool<'_>]) -> Self {
        let owned = |tool: &KnownTool<'_>| OwnedTool {
            name: tool.name.to_owned(),
            aliases: tool.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            access: tool.access,
        };
        Self(known.iter().map(owned).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &OwnedTool> {
        self.0.iter()
    }

    /// Calls `parse` with the tools as rules are parsed with them.
    pub(super) fn lend<T>(&self, parse: impl FnOnce(&[KnownTool<'_>]) -> T) -> T {
        let aliases: Vec<Vec<&str>> =
            self.iter().map(|tool| tool.aliases.iter().map(String::as_str).collect()).collect();
        let known = self.iter().zip(&aliases);
        let known = known.map(|(tool, aliases)| KnownTool {
            name: &tool.name,
            aliases,
            access: tool.access,
        });
        parse(&known.collect::<Vec<_>>())
    }
}
