//! Holds all tools that there are, and takes the snapshot that one turn works with.
//!
//! A turn keeps its snapshot to its end: what joins or leaves meanwhile is seen by the next one.

use super::toolset::Toolset;
use crate::ids::KeyId;

/// Whether a tool of this name may join at any time, with its server.
pub(crate) fn may_join(name: &str) -> bool {
    const MAX_NAME: usize = 64;
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let parts = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
    let has_parts = parts.is_some_and(|(server, tool)| !server.is_empty() && !tool.is_empty());
    has_parts && name.len() <= MAX_NAME && name.bytes().all(is_name_byte)
}

/// The built-in tools that are enabled. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolCatalogue {
    built_in: Toolset,
}

impl ToolCatalogue {
    pub(crate) fn new(built_in: Toolset) -> Self {
        Self { built_in }
    }

    /// The built-in tools, in list order.
    pub(crate) fn built_in(&self) -> &Toolset {
        &self.built_in
    }

    /// The tools that requests with this key have now: the built-in ones in list order.
    pub(crate) fn snapshot(&self, _key: &KeyId) -> Toolset {
        self.built_in.clone()
    }
}
