//! What a conversation keeps between requests, and its turns. For now a session is
//! one request: its id is fresh, and what it knows of files ends with the turn.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::http::HeaderMap;
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::agent::conversation::{Conversation, Opening};
use crate::agent::outbox::{Inbox, outbox};
use crate::agent::prompt::{self, Environment};
use crate::agent::settings::{ReasoningRule, traits_of};
use crate::agent::state::Start;
use crate::agent::turn::{self, ReasoningRefusals, Turn};
use crate::agent::{ModelRule, Settings};
use crate::buffers::Buffers;
use crate::execution::pipeline::Pipeline;
use crate::hooks::Hooks;
use crate::ids::{SessionId, TurnId};
use crate::openai::error::{ApiError, ErrorCode};
use crate::openai::request::{ChatRequest, Progress, ToolChoice};
use crate::permissions::{ModeError, Permissions};
use crate::tools::tool::SessionFacts;
use crate::tools::toolset::Toolset;
use crate::upstream;
use crate::workspace::Workspace;

/// Starts turns. `app` makes the only one.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) upstream: Arc<upstream::Client>,
    /// Every tool that the operator leaves on.
    pub(crate) tools: Toolset,
    pub(crate) tool_settings: crate::tools::Settings,
    pub(crate) permissions: Permissions,
    /// The ones a request may choose, by name; by default it is the permissions' own.
    pub(crate) workspaces: BTreeMap<String, Arc<Workspace>>,
    /// What `~` stands for.
    pub(crate) home: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) model_rules: Arc<[ModelRule]>,
    pub(crate) prompt: prompt::Settings,
    pub(crate) progress: Progress,
    pub(crate) refusals: Arc<ReasoningRefusals>,
    pub(crate) buffers: Buffers,
    pub(crate) shutdown: CancellationToken,
}

/// A turn that is under way. Dropping it stops the turn and all it started.
#[derive(Debug)]
pub(crate) struct RunningTurn {
    pub(crate) session: SessionId,
    pub(crate) id: TurnId,
    /// Some of our tools may run in it.
    pub(crate) has_tools: bool,
    pub(crate) events: Inbox,
    /// Holds the turn's one task.
    _task: JoinSet<()>,
}

impl Sessions {
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn default_progress(&self) -> Progress {
        self.progress
    }

    /// Starts the one turn of a fresh session. `headers` go upstream with each round.
    pub(crate) fn start(
        &self,
        request: ChatRequest,
        headers: HeaderMap,
    ) -> Result<RunningTurn, ApiError> {
        let (session, id) = (SessionId::random(), TurnId::random());
        let permissions = self.permissions_for(&request)?;
        let tools = self.tools_for(&request);
        let has_tools = tools.names().next().is_some();
        let facts = SessionFacts::new(Arc::clone(permissions.workspace()));
        let facts = Arc::new(facts.at_home(self.home.clone()));
        let pipeline = Pipeline {
            tools,
            hooks: Hooks::default(),
            permissions,
            max_result_chars: self.tool_settings.max_result_chars,
        };
        let start = self.start_of(request, pipeline, &facts, (session.clone(), id.clone()));
        let turn = Turn {
            start,
            upstream: Arc::clone(&self.upstream),
            headers,
            session: facts,
            refusals: Arc::clone(&self.refusals),
            share: self.buffers.share(),
            shutdown: self.shutdown.clone(),
        };
        let (outbox, events) = outbox();
        let mut task = JoinSet::new();
        task.spawn(turn::run(turn, outbox));
        Ok(RunningTurn { session, id, has_tools, events, _task: task })
    }

    fn permissions_for(&self, request: &ChatRequest) -> Result<Permissions, ApiError> {
        let refused =
            |error: ModeError| ApiError::new(ErrorCode::ModeNotAllowed, error.to_string());
        let mode = request.extension.mode.as_deref().map(str::parse).transpose();
        let permissions = mode
            .and_then(|mode| self.permissions.tightened(mode))
            .map_err(|error| refused(error).param("toolhand.mode"))?;
        let Some(name) = &request.extension.workspace else { return Ok(permissions) };
        let workspace = self.workspaces.get(name).ok_or_else(|| {
            let message = format!("there is no workspace named {name:?}");
            ApiError::new(ErrorCode::InvalidValue, message).param("toolhand.workspace")
        })?;
        Ok(permissions.with_workspace(Arc::clone(workspace)))
    }

    /// The server's tools that this request may use.
    fn tools_for(&self, request: &ChatRequest) -> Toolset {
        if request.background || matches!(request.tool_choice, ToolChoice::None) {
            return self.tools.only(&[] as &[&str]);
        }
        let mut tools = self
            .tools
            .without(&request.extension.deny_tools)
            .without(&request.replaced_tools)
            .without_aliases(&request.released_aliases);
        if let Some(allowed) = &request.extension.allow_tools {
            tools = tools.only(allowed);
        }
        tools
    }

    fn start_of(
        &self,
        request: ChatRequest,
        pipeline: Pipeline,
        facts: &SessionFacts,
        (session, turn): (SessionId, TurnId),
    ) -> Start {
        let ChatRequest { model, messages, fields, tool_choice, parallel_tool_calls, .. } = request;
        let messages = self.with_prompt(messages, &pipeline, facts);
        let client_tools = match tool_choice {
            ToolChoice::None => Vec::new(),
            _ => request.client_tools,
        };
        let definitions = pipeline.tools.definitions().iter().cloned();
        let tools = definitions
            .chain(client_tools.iter().map(|tool| tool.definition.clone().into()))
            .collect();
        let takes_reasoning = traits_of(&[&model], &self.model_rules).reasoning
            == ReasoningRule::Echo
            && !self.refusals.contains(&model);
        let mut settings = self.settings.clone();
        if let Some(rounds) = request.extension.max_rounds {
            settings.max_rounds = settings.max_rounds.min(rounds);
        }
        if parallel_tool_calls == Some(false) {
            settings.max_parallel_tools = 1;
        }
        Start {
            session,
            turn,
            models: self.models(model),
            conversation: Conversation::new(Opening {
                fields,
                messages,
                tools,
                tool_choice,
                parallel_tool_calls,
                echo_reasoning: takes_reasoning,
            }),
            pipeline,
            client_tools: client_tools.into_iter().map(|tool| tool.name).collect(),
            settings,
            model_rules: Arc::clone(&self.model_rules),
            upstream: Arc::clone(self.upstream.settings()),
            max_round_chars: self.tool_settings.max_round_chars,
        }
    }

    /// The requested model, then its fallbacks.
    fn models(&self, model: String) -> Vec<String> {
        let fallbacks = self.upstream.settings().fallbacks.get(&model).cloned();
        std::iter::once(model).chain(fallbacks.into_iter().flatten()).collect()
    }

    /// A prompt of ours only where there are tools of ours to speak of.
    fn with_prompt(
        &self,
        messages: Vec<Box<RawValue>>,
        pipeline: &Pipeline,
        facts: &SessionFacts,
    ) -> Vec<Box<RawValue>> {
        if pipeline.tools.tools().is_empty() {
            return messages;
        }
        let environment = Environment {
            working_dir: &facts.working_dir(),
            date: &prompt::today(),
            tools: &pipeline.tools,
        };
        prompt::apply(self.prompt.mode, &prompt::render(environment), messages)
    }
}
