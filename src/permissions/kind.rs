//! Defines the kinds of access, by which rules and modes know a tool beside its name.

use super::AccessRequest;

/// The kind of access of a tool. Each tool declares one. A call that asks for another kind is
/// refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessKind {
    /// Reads files or their names.
    Read,
    /// Changes files.
    Edit,
    /// Runs programs.
    Command,
    /// Uses what has a name: an agent's type, or a skill.
    Named,
    /// Fetches a page of the web.
    Fetch,
    /// Asks a search engine.
    WebSearch,
    /// Uses an MCP server.
    Mcp,
    /// Changes what the session may do.
    Consent,
    /// Touches nothing outside the session.
    None,
}

impl AccessKind {
    /// The kind that a word in a rule means. All other words are names of tools.
    pub(super) fn from_word(word: &str) -> Option<Self> {
        match word {
            "Read" => Some(Self::Read),
            "Edit" => Some(Self::Edit),
            _ => None,
        }
    }
}

impl AccessKind {
    /// Whether a call of a tool of this kind may ask for access of the other kind.
    pub(super) fn covers(self, other: Self) -> bool {
        // What may change the session need not do so in each call, and a URL that cannot be
        // fetched is not: such a call answers why.
        let may_do_nothing = matches!(self, Self::Consent | Self::Fetch);
        self == other || (may_do_nothing && other == Self::None)
    }
}

impl AccessRequest {
    pub(crate) fn kind(&self) -> AccessKind {
        match self {
            Self::Read(_) | Self::Search(_) => AccessKind::Read,
            Self::Write(_) => AccessKind::Edit,
            Self::Command { .. } => AccessKind::Command,
            Self::Named(_) => AccessKind::Named,
            Self::Fetch(_) => AccessKind::Fetch,
            Self::WebSearch(_) => AccessKind::WebSearch,
            Self::Mcp(_) => AccessKind::Mcp,
            Self::Consent => AccessKind::Consent,
            Self::Nothing => AccessKind::None,
        }
    }
}
