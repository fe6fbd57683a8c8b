//! Defines a validated chat completion request, from which a turn is started.

use std::sync::Arc;

use super::id_sources::ExplicitId;
use super::message::ClientMessage;
use crate::errors::{ApiError, ErrorCode};
use crate::openai::Body;
use crate::openai::request::{ClientTool, ToolChoice};
use crate::permissions::DeniedTools;
use crate::permissions::Mode;
use crate::tools::toolset::Toolset;
use crate::workspace::Workspace;

/// A validated request. Only `api::chat::validate` makes one. It has resolved every name in it:
/// tools, workspace and mode.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the wire")]
pub(crate) struct ChatRequest {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) messages: Vec<ClientMessage>,
    pub(crate) client_tools: Vec<ClientTool>,
    /// The server's tools that the request may use, without those that a client's tool
    /// replaces.
    pub(crate) tools: Toolset,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) uncalled: UncalledTools,
    pub(crate) parallel_tool_calls: Option<bool>,
    /// Every other field, which is sent upstream unchanged and in the client's order. `model`
    /// is among them; `messages`, `tools`, `tool_choice`, `parallel_tool_calls`, `stream`,
    /// `stream_options` and `toolhand` are not.
    pub(crate) fields: Body,
    pub(crate) progress: Option<Progress>,
    /// Whether the request itself says it, not the server or the session.
    pub(crate) names_progress: bool,
    pub(crate) frontend: FrontendSigns,
    /// The server's mode, or the key's stricter one.
    pub(crate) base_mode: Mode,
    /// What the request itself asks for; never more permissive than `base_mode`.
    pub(crate) mode: Option<Mode>,
    /// One of the configured workspaces; `None` means the default one.
    pub(crate) workspace: Option<Arc<Workspace>>,
    pub(crate) max_rounds: Option<u32>,
    /// A frontend's own request (titles, tags), which passes without tools and without a session.
    pub(crate) is_background: bool,
    /// The session that the client names.
    pub(crate) named: Option<ExplicitId>,
    /// The newest branch of the session goes in front of `messages`.
    pub(crate) server_history: bool,
    /// The answer tells the messages that the turn added.
    pub(crate) include_messages: bool,
    /// The turn goes on when its stream is lost.
    pub(crate) detach: bool,
}

/// The tools that a request with `tool_choice: none`, or one of a frontend's own, would have had.
/// No call of them runs; they go upstream where the history has calls, which some providers refuse
/// without tools.
#[derive(Debug, Default)]
pub(crate) struct UncalledTools {
    pub(crate) servers: Toolset,
    pub(crate) clients: Vec<ClientTool>,
}

impl ChatRequest {
    /// Takes tools of the server away that a rule denies now. Fails where the request insists on
    /// one, as it does if the operator has turned the tool off.
    pub(crate) fn take_away(&mut self, denied: &DeniedTools) -> Result<(), ApiError> {
        let chosen = match &self.tool_choice {
            ToolChoice::Named { name, .. } => self.tools.get(name),
            ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => None,
        };
        if let Some(tool) = chosen.filter(|tool| denied.contains(tool.known())) {
            let name = tool.name();
            let message = format!("There is no tool named {name:?}: a rule denies it here.");
            return Err(ApiError::new(ErrorCode::InvalidValue, message).param("tool_choice"));
        }
        self.tools = self.tools.without_denied(denied);
        self.uncalled.servers = self.uncalled.servers.without_denied(denied);
        let is_any_left = !self.client_tools.is_empty() || self.tools.names().next().is_some();
        if matches!(self.tool_choice, ToolChoice::Required) && !is_any_left {
            let message = "tool_choice is required, and rules deny every tool of this request.";
            return Err(ApiError::new(ErrorCode::InvalidValue, message).param("tool_choice"));
        }
        Ok(())
    }
}

/// What a request tells of the frontend that sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontendSigns {
    /// It has a header `X-OpenWebUI-…`.
    pub(crate) has_open_webui_header: bool,
    /// It declares the tool `ask_user` with a parameter `questions`, be it offered or not.
    pub(crate) declares_ask_user: bool,
}

/// How a stream reports the tools' progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Progress {
    /// As lines in the reasoning, for people.
    #[default]
    Reasoning,
    /// As `tool_start` and `tool_end` events, for programs.
    Events,
    /// As cards of Open WebUI, one for each call.
    Cards,
    /// Not at all.
    None,
}

impl Progress {
    /// Of the words of the configuration and of requests.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|progress| progress.as_str() == word)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Reasoning => "reasoning",
            Self::Events => "events",
            Self::Cards => "cards",
            Self::None => "none",
        }
    }

    const ALL: [Self; 4] = [Self::Reasoning, Self::Events, Self::Cards, Self::None];
}
