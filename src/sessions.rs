//! Starts turns. For now a session is one request: its id is fresh, and its read state ends
//! with the turn.

mod answer_form;
pub(crate) mod record;
pub(crate) mod request;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::agent::beginning::{Asking, AskingChannel, Beginning, HistoryPiece};
use crate::agent::conversation::{Conversation, Opening};
use crate::agent::outbox::{Inbox, outbox};
use crate::agent::prompt::{self, Environment};
use crate::agent::record::NoRecord;
use crate::agent::settings::{AskedModel, ReasoningRule, Refused, traits_of};
use crate::agent::state::TurnStart;
use crate::agent::turn::{self, ModelRefusals, Turn};
use crate::agent::{ModelRule, TurnSettings};
use crate::errors::{ApiError, ErrorCode};
use crate::execution::pipeline::Pipeline;
use crate::hooks::Hooks;
use crate::ids::{SessionId, TurnId};
use crate::memory_budget::MemoryBudget;
use crate::permissions::Permissions;
use crate::tools::tool::SessionContext;
use crate::upstream;
use request::{ChatRequest, Progress};

/// The request fields that limit the length of one answer.
const OUTPUT_LIMITS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// What every turn is started with. `app` constructs the only one.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) upstream: Arc<upstream::Client>,
    pub(crate) tool_settings: crate::tools::ToolSettings,
    pub(crate) permissions: Permissions,
    /// The directory that `~` stands for.
    pub(crate) home: PathBuf,
    pub(crate) settings: TurnSettings,
    pub(crate) model_rules: Arc<[ModelRule]>,
    pub(crate) prompt: prompt::PromptSettings,
    pub(crate) progress: Progress,
    pub(crate) refusals: Arc<ModelRefusals>,
    pub(crate) memory_budget: MemoryBudget,
    pub(crate) shutdown: CancellationToken,
}

/// A turn that is under way. Dropping it stops the turn and everything it started.
#[derive(Debug)]
pub(crate) struct RunningTurn {
    pub(crate) session: SessionId,
    pub(crate) id: TurnId,
    /// Whether the request may use any of the server's tools.
    pub(crate) has_tools: bool,
    pub(crate) events: Inbox,
    /// Owns the turn's task, and aborts it on drop.
    _task: JoinSet<()>,
}

impl Sessions {
    pub(crate) fn settings(&self) -> &TurnSettings {
        &self.settings
    }

    pub(crate) fn default_progress(&self) -> Progress {
        self.progress
    }

    /// Starts the turn of a fresh session. `headers` are sent with each upstream request.
    pub(crate) fn start(
        &self,
        request: ChatRequest,
        headers: upstream::TraceHeaders,
    ) -> Result<RunningTurn, ApiError> {
        let (session, id) = (SessionId::random(), TurnId::random());
        let permissions = self.permissions_for(&request)?;
        let has_tools = request.tools.names().next().is_some();
        let context = SessionContext::new(Arc::clone(permissions.workspace()));
        let context = Arc::new(context.at_home(self.home.clone()));
        let pipeline = Pipeline {
            tools: request.tools.clone(),
            hooks: Hooks::default(),
            permissions,
            max_result_chars: self.tool_settings.max_result_chars,
        };
        let start = self.start_of(request, pipeline, &context, (session.clone(), id.clone()));
        let turn = Turn {
            start,
            upstream: Arc::clone(&self.upstream),
            headers,
            session: context,
            refusals: Arc::clone(&self.refusals),
            reservation: self.memory_budget.reservation(),
            recorder: Arc::new(NoRecord),
            stop: CancellationToken::new(),
            decisions: mpsc::unbounded_channel().1,
            shutdown: self.shutdown.clone(),
        };
        let (outbox, events) = outbox();
        let mut task = JoinSet::new();
        task.spawn(turn::run(turn, outbox));
        Ok(RunningTurn { session, id, has_tools, events, _task: task })
    }

    /// The server's permissions, narrowed by the request's mode and moved to its workspace.
    fn permissions_for(&self, request: &ChatRequest) -> Result<Permissions, ApiError> {
        let permissions = self.permissions.tightened(request.mode).map_err(|error| {
            ApiError::new(ErrorCode::ModeNotAllowed, error.to_string()).param("toolhand.mode")
        })?;
        Ok(match &request.workspace {
            Some(workspace) => permissions.with_workspace(Arc::clone(workspace)),
            None => permissions,
        })
    }

    /// The turn's start: the request, combined with the operator's settings.
    fn start_of(
        &self,
        request: ChatRequest,
        pipeline: Pipeline,
        context: &SessionContext,
        (session, turn): (SessionId, TurnId),
    ) -> TurnStart {
        let ChatRequest {
            model,
            messages,
            client_tools,
            fields,
            tool_choice,
            parallel_tool_calls,
            max_rounds,
            stream,
            progress,
            ..
        } = request;
        let pieces = messages.into_iter().map(HistoryPiece::Client).collect();
        let pieces = self.with_prompt(pieces, &pipeline, context);
        let limits_output = OUTPUT_LIMITS
            .iter()
            .any(|name| fields.get(*name).is_some_and(|limit| limit.get() != "null"));
        let has_tools = !pipeline.tools.tools().is_empty();
        let (client_tools, definitions): (Vec<_>, Vec<_>) =
            client_tools.into_iter().map(|tool| (tool.name, tool.definition)).unzip();
        let mut settings = self.settings.clone();
        if let Some(rounds) = max_rounds {
            settings.max_rounds = settings.max_rounds.min(rounds);
        }
        if parallel_tool_calls == Some(false) {
            settings.max_parallel_tools = 1;
        }
        TurnStart {
            session,
            turn,
            models: self.models(model),
            delivery: answer_form::delivery(stream, has_tools),
            content: answer_form::content_rule(&fields, has_tools),
            cards: stream && progress == Some(Progress::Cards),
            conversation: Conversation::new(Opening {
                fields,
                pieces,
                server_tools: pipeline.tools.joined_definitions().clone(),
                client_tools: definitions,
                tool_choice,
                parallel_tool_calls,
            }),
            limits_output,
            pipeline,
            client_tools: client_tools.into(),
            settings,
            model_rules: Arc::clone(&self.model_rules),
            upstream: Arc::clone(self.upstream.settings()),
            max_round_chars: self.tool_settings.max_round_chars,
            beginning: Beginning::Ask,
            asking: Asking { channel: AskingChannel::Nobody, wait: Duration::ZERO },
            include_messages: false,
            began_ms: 0,
        }
    }

    /// The requested model, then its fallbacks.
    fn models(&self, model: String) -> Vec<AskedModel> {
        let fallbacks = self.upstream.settings().fallbacks.get(&model).cloned();
        let names = std::iter::once(model).chain(fallbacks.into_iter().flatten());
        names.map(|name| self.asked(name)).collect()
    }

    /// Applies the rules and remembered refusals of this very model, be it requested or a
    /// fallback.
    fn asked(&self, name: String) -> AskedModel {
        let rule = traits_of(&[&name], &self.model_rules).reasoning;
        let takes = |member: Refused| !self.refusals.contains(member, &name);
        let takes_reasoning = rule == ReasoningRule::Echo && takes(Refused::Reasoning);
        let takes_eager_input = takes(Refused::EagerInput);
        AskedModel { name, takes_reasoning, takes_eager_input }
    }

    /// Adds the server's system prompt, but only if there are tools to speak of.
    fn with_prompt(
        &self,
        pieces: Vec<HistoryPiece>,
        pipeline: &Pipeline,
        context: &SessionContext,
    ) -> Vec<HistoryPiece> {
        if pipeline.tools.tools().is_empty() {
            return pieces;
        }
        let environment = Environment {
            working_dir: &context.working_dir(),
            date: &prompt::today(),
            tools: &pipeline.tools,
        };
        prompt::apply(self.prompt.mode, &prompt::render(environment), pieces)
    }
}
