//! Defines how a chat completion request declares and chooses tools.

use serde_json::value::RawValue;

/// A tool of the client's. Its calls are sent to the client; the server never runs them.
#[derive(Debug, Clone)]
pub(crate) struct ClientTool {
    pub(crate) name: String,
    /// The whole definition, unparsed.
    pub(crate) definition: Box<RawValue>,
}

/// The request's `tool_choice`.
#[derive(Debug, Clone, Default)]
pub(crate) enum ToolChoice {
    #[default]
    Auto,
    None,
    Required,
    Named {
        name: String,
        /// The object that names the tool, unparsed.
        object: Box<RawValue>,
    },
}
