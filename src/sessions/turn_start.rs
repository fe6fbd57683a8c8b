//! Combines a request with the operator's settings into what the agent starts with.

use std::sync::Arc;

use tokio::time::Instant;

use super::approval_settings::ApprovalChannel;
use super::request::{ChatRequest, Progress};
use super::running::TurnIdentity;
use super::{Sessions, answer_form};
use crate::agent::asking::bare_choice::CodeRequirement;
use crate::agent::asking::dialog::TOOLHAND_APPROVAL;
use crate::agent::beginning::{Asking, AskingChannel, Beginning, HistoryPiece};
use crate::agent::conversation::{Conversation, Opening};
use crate::agent::settings::AskedModel;
use crate::agent::state::TurnStart;
use crate::execution::pipeline::Pipeline;
use crate::hooks::Hooks;
use crate::openai::request::ToolChoice;
use crate::permissions::{Mode, Permissions};

/// The request fields that limit the length of one answer.
const OUTPUT_LIMITS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// The transcript before a turn, and how the turn begins.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) history: Vec<HistoryPiece>,
    pub(super) beginning: Beginning,
    /// The tokens of the conversation by the count of the turn before.
    pub(super) context_tokens: Option<u64>,
    /// What hooks told the person.
    pub(super) notices: Vec<String>,
    /// What background tasks have left since the turn before.
    pub(super) left_behind: Vec<String>,
    /// The text of earlier turns that the client shows in one message with this one's.
    pub(super) shown_before: String,
}

impl Sessions {
    pub(super) fn turn_start(
        &self,
        request: ChatRequest,
        (asking, pipeline): (Asking, Pipeline),
        pieces: Pieces,
        identity: &TurnIdentity,
    ) -> TurnStart {
        let ChatRequest {
            model,
            client_tools,
            fields,
            tool_choice,
            uncalled,
            parallel_tool_calls,
            max_rounds,
            stream,
            progress,
            include_messages,
            server_history,
            ..
        } = request;
        let Pieces { history, beginning, context_tokens, notices, left_behind, shown_before } =
            pieces;
        let limits_output = OUTPUT_LIMITS
            .iter()
            .any(|name| fields.get(*name).is_some_and(|limit| limit.get() != "null"));
        let has_tools = !pipeline.tools.tools().is_empty();
        let names = client_tools.iter().map(|tool| tool.name.clone()).collect();
        let (offered, declared) = match tool_choice {
            ToolChoice::None => (&uncalled.servers, uncalled.clients),
            _ => (&pipeline.tools, client_tools),
        };
        let server_tools = offered.joined_definitions().clone();
        let definitions = declared.into_iter().map(|tool| tool.definition).collect();
        let mut settings = self.settings.clone();
        if let Some(rounds) = max_rounds {
            settings.max_rounds = settings.max_rounds.min(rounds);
        }
        if parallel_tool_calls == Some(false) {
            settings.max_parallel_tools = 1;
        }
        TurnStart {
            session: identity.session_name.clone(),
            turn: identity.id.clone(),
            models: self.models(model),
            delivery: answer_form::delivery(stream, has_tools),
            content: answer_form::content_rule(&fields, has_tools),
            cards: stream && progress == Some(Progress::Cards),
            conversation: Conversation::new(Opening {
                fields,
                pieces: history,
                server_tools,
                client_tools: definitions,
                tool_choice,
                parallel_tool_calls,
            }),
            context_limits: Arc::new(self.context_limits.clone()),
            context_tokens,
            limits_output,
            pipeline,
            client_tools: names,
            settings,
            model_rules: Arc::clone(&self.model_rules),
            upstream: Arc::clone(self.upstream.settings()),
            max_round_chars: self.tool_settings.max_round_chars,
            beginning,
            notices,
            left_behind,
            asking,
            code_requirement: CodeRequirement::where_history_is_kept(server_history),
            shown_before,
            include_messages,
            began_ms: identity.started_ms,
        }
    }

    /// How the calls of the request's main agent are judged and run.
    pub(super) fn pipeline(
        &self,
        request: &ChatRequest,
        permissions: Permissions,
        hooks: Hooks,
    ) -> Pipeline {
        let max_result_chars = self.tool_settings.max_result_chars;
        Pipeline {
            tools: request.tools.clone(),
            hooks,
            permissions,
            max_result_chars,
            agent_type: None,
        }
    }

    /// How a person can be asked in this request.
    pub(super) fn asking(&self, request: &ChatRequest) -> Asking {
        let declares = |name: &str| request.client_tools.iter().any(|tool| tool.name == name);
        let asks_nobody = request.base_mode == Mode::DontAsk || request.mode == Some(Mode::DontAsk);
        if asks_nobody || request.is_background {
            return Asking { channel: AskingChannel::Nobody, wait: self.approval.wait };
        }
        let channel = match self.approval.channel {
            ApprovalChannel::None => AskingChannel::Nobody,
            ApprovalChannel::Rest => AskingChannel::Rest,
            ApprovalChannel::Auto if request.frontend.declares_ask_user => AskingChannel::AskUser,
            ApprovalChannel::Auto if declares(TOOLHAND_APPROVAL) => AskingChannel::ToolhandApproval,
            ApprovalChannel::Conversation | ApprovalChannel::Auto => AskingChannel::Conversation,
        };
        Asking { channel, wait: self.approval.wait }
    }

    /// The requested model, then its fallbacks.
    fn models(&self, model: String) -> Vec<AskedModel> {
        let fallbacks = self.upstream.settings().fallbacks.get(&model).cloned();
        let names = std::iter::once(model).chain(fallbacks.into_iter().flatten());
        let now = Instant::now();
        names
            .map(|name| {
                let learnt = self.upstream.traits().of(&name, now);
                AskedModel::new(name, &self.model_rules, learnt)
            })
            .collect()
    }
}
