//! What a chat completion request says of tools.

use serde_json::value::RawValue;

/// A tool of the client's own; we hand its calls out and never run them.
#[derive(Debug, Clone)]
pub(crate) struct ClientTool {
    pub(crate) name: String,
    /// The whole definition as it came.
    pub(crate) definition: Box<RawValue>,
}

#[derive(Debug, Clone, Default)]
pub(crate) enum ToolChoice {
    #[default]
    Auto,
    None,
    Required,
    /// The object that names a tool, as it came.
    Named(Box<RawValue>),
}
