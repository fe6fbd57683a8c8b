//! A chat completion request that has passed every check.

use serde_json::value::RawValue;

use super::Body;

/// What the client asked for. Made only by `api::chat::validate`.
#[derive(Debug)]
pub(crate) struct ChatRequest {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    /// As they go upstream: pairs repaired, arguments valid JSON.
    pub(crate) messages: Vec<Box<RawValue>>,
    pub(crate) client_tools: Vec<ClientTool>,
    /// Server tools that a client's tool of the same name replaces.
    pub(crate) replaced_tools: Vec<String>,
    /// Aliases of server tools that client tools have as their names.
    pub(crate) released_aliases: Vec<String>,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) parallel_tool_calls: Option<bool>,
    /// Every other field that goes upstream unchanged, in the client's order:
    /// without `messages`, `tools`, `tool_choice`, `parallel_tool_calls`,
    /// `stream`, `stream_options` and `toolhand`. `model` is in it.
    pub(crate) fields: Body,
    pub(crate) extension: Extension,
    /// A frontend's background call (title, tags): no tools, no prompt of ours.
    pub(crate) background: bool,
}

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

/// The `toolhand` object of a request, or the headers of the same meaning.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extension {
    pub(crate) progress: Option<Progress>,
    /// A permission mode's name; may only tighten.
    pub(crate) mode: Option<String>,
    pub(crate) allow_tools: Option<Vec<String>>,
    pub(crate) deny_tools: Vec<String>,
    /// One of the configured workspaces.
    pub(crate) workspace: Option<String>,
    pub(crate) max_rounds: Option<u32>,
}

/// How a stream tells what the tools do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Progress {
    #[default]
    Reasoning,
    Events,
    None,
}
