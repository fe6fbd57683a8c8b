//! A chat completion request that has passed every check, as a turn is started from it.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::openai::Body;
use crate::openai::request::{ClientTool, ToolChoice};
use crate::permissions::Mode;
use crate::tools::toolset::Toolset;
use crate::workspace::Workspace;

/// What the client asked for. Made only by `api::chat::validate`, which has looked up
/// whatever a request names: nothing here is a name that has to be found again.
#[derive(Debug)]
pub(crate) struct ChatRequest {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    /// As they go upstream: pairs repaired, arguments valid JSON.
    pub(crate) messages: Vec<Box<RawValue>>,
    pub(crate) client_tools: Vec<ClientTool>,
    /// The server's tools that it may use, without those that give way to the client's.
    pub(crate) tools: Toolset,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) parallel_tool_calls: Option<bool>,
    /// Every other field that goes upstream unchanged, in the client's order:
    /// without `messages`, `tools`, `tool_choice`, `parallel_tool_calls`,
    /// `stream`, `stream_options` and `toolhand`. `model` is in it.
    pub(crate) fields: Body,
    pub(crate) progress: Option<Progress>,
    /// No wider than the mode of the server.
    pub(crate) mode: Option<Mode>,
    /// One of the configured workspaces; by default it is the server's own.
    pub(crate) workspace: Option<Arc<Workspace>>,
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
