//! Defines how a chat completion request declares and chooses tools.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Body;

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

/// Whether the request's `response_format` asks for something other than plain text.
pub(crate) fn expects_other_than_text(fields: &Body) -> bool {
    #[derive(Deserialize)]
    struct Format {
        #[serde(rename = "type")]
        kind: Option<String>,
    }
    let format = fields.get("response_format");
    let format = format.and_then(|format| serde_json::from_str::<Format>(format.get()).ok());
    format.is_some_and(|format| format.kind.is_some_and(|kind| kind != "text"))
}
