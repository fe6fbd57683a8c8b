//! Runs a subagent: finds what it starts with, and drives its turn to the end.

mod background;
mod follow;
mod prepare;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::follow::{EndRecorder, follow};
use super::AgentStarter;
use super::answer::{RunEnd, Stop};
use super::records::{AgentRecord, RunStatus};
use crate::agent::agent_event::{AgentEvent, AgentStep};
use crate::agent::asking::bare_choice::CodeRequirement;
use crate::agent::beginning::{Asking, AskingChannel, Beginning, HistoryPiece};
use crate::agent::conversation::{Conversation, Opening};
use crate::agent::delegation::{QueuedSlot, Resumption, Tell};
use crate::agent::held_text::ContentRule;
use crate::agent::outbox::outbox;
use crate::agent::prompt::{self, PromptMode};
use crate::agent::record::{AgentAsk, Asked, Entry, Recorder, SuspendedAgent};
use crate::agent::settings::{AskedModel, Delivery};
use crate::agent::state::TurnStart;
use crate::agent::turn::{self, Turn};
use crate::blocking::FILES;
use crate::clock;
use crate::errors::{ApiError, ErrorCode};
use crate::execution::pipeline::Pipeline;
use crate::ids::{AgentId, TurnId};
use crate::markdown;
use crate::openai::request::ToolChoice;
use crate::openai::usage::Usage;
use crate::tools::agent_context::AgentContext;
use crate::tools::output::{ToolError, ToolOutput};
use crate::tools::subagent::AgentTask;

/// What a run came to.
pub(super) struct RunOutcome {
    /// [`ToolError::Suspended`] if `suspended` is set.
    pub(super) answer: Result<ToolOutput, ToolError>,
    pub(super) suspended: Option<SuspendedAgent>,
    pub(super) usage: Option<Usage>,
}

/// A run that can start.
struct Run {
    id: AgentId,
    record: AgentRecord,
    context: Arc<AgentContext>,
    pipeline: Arc<Pipeline>,
    /// Its transcript so far, without the system prompt.
    pieces: Vec<HistoryPiece>,
    /// The message that the run begins with; `None` if it takes up an open round.
    prompt: Option<String>,
    beginning: Beginning,
    max_rounds: u32,
}

impl AgentStarter {
    /// Runs a new agent, one that goes on, or one whose calls a person has decided about.
    pub(super) async fn run(
        &self,
        task: AgentTask,
        (slot, resumption): (QueuedSlot, Option<Resumption>),
        tell: &Tell,
    ) -> Result<RunOutcome, ToolError> {
        let run = match (resumption, &task.resume) {
            (Some(resumption), _) => self.continue_after_decision(resumption, &task).await?,
            (None, Some(id)) => self.resume_with_prompt(id, &task).await?,
            (None, None) => self.begin(&task).await?,
        };
        let Some(running) = self.family.running.begin(&run.id) else {
            return Err(ToolError::Failed(format!(
                "agent {} is still running; wait for its end, then resume it",
                run.id
            )));
        };
        if run.record.in_background {
            let answer = self.clone().in_background(run, (slot, running));
            return answer.map(|answer| RunOutcome {
                answer: Ok(answer),
                suspended: None,
                usage: None,
            });
        }
        self.drive(run, slot, tell).await
    }

    /// Runs the agent when its turn has come.
    async fn drive(
        &self,
        mut run: Run,
        slot: QueuedSlot,
        tell: &Tell,
    ) -> Result<RunOutcome, ToolError> {
        let slot = slot.taken().await;
        let over = "no agent can be started any more: this session or the server is ending";
        let _slot = slot.ok_or_else(|| ToolError::failed(over))?;
        let records = &self.family.records;
        run.record.status = RunStatus::Running;
        let kept = records.put(&run.id, &run.record).await;
        kept.map_err(|error| not_kept(&error))?;
        if let Some(text) = run.prompt.take() {
            let kept = records.recorder(&run.id).commit(Entry::Prompt { text }).await;
            kept.map_err(|error| not_kept(&error))?;
        }
        let steps =
            Steps { run_id: run.id.clone(), agent_type: run.record.agent_type.name.clone(), tell };
        steps.tell(AgentStep::Started { description: run.record.description.clone() });
        let mut notes = Vec::new();
        let mut beginning = std::mem::take(&mut run.beginning);
        let is_asking = matches!(beginning, Beginning::Ask);
        let mut turned = self.turn(&run, beginning, &steps).await;
        // Only the first request may be retried with another model: later ones would repeat tool
        // calls.
        let is_first_request = is_asking && turned.end.counts.rounds <= 1;
        if is_first_request && turned.is_unknown_model() && run.record.model != self.model {
            notes.push(format!(
                "(upstream knows no model {}; the agent ran with the model of this conversation)",
                run.record.model
            ));
            run.record.model.clone_from(&self.model);
            beginning = Beginning::Ask;
            turned = self.turn(&run, beginning, &steps).await;
        }
        turned.end.counts = run.record.counts.and(turned.end.counts);
        (run.record.counts, run.record.status) = (turned.end.counts, turned.status());
        let asked = turned.asked.iter().flatten();
        run.record.waits_for = asked.map(|asked| asked.id.clone()).collect();
        run.keep_state().await;
        if let Err(error) = records.put(&run.id, &run.record).await {
            let error = error.message;
            tracing::warn!(agent = %run.id, error, "what an agent knows of files is not kept");
        }
        steps.tell(turned.end.step());
        let usage = turned.end.usage.clone();
        if let Some(asked) = turned.asked {
            let suspended =
                Some(SuspendedAgent { agent: run.id.clone(), asks: run.passed_on(asked) });
            return Ok(RunOutcome { answer: Err(ToolError::Suspended), suspended, usage });
        }
        let answer = turned.end.answer((&run.id, &run.record.agent_type.name), &notes);
        Ok(RunOutcome { answer, suspended: None, usage })
    }

    /// One turn of the subagent, to its end.
    async fn turn(&self, run: &Run, beginning: Beginning, steps: &Steps<'_>) -> Turned {
        let services = &self.family.services;
        let records = &self.family.records;
        let (recorder, decisions) = if run.record.in_background {
            records.in_background(&run.id, run.heading())
        } else {
            // Its parent hears what is decided.
            (records.recorder(&run.id), mpsc::unbounded_channel().1)
        };
        let recorder = Arc::new(EndRecorder::new(recorder));
        let below =
            self.below(Arc::clone(&run.context), Arc::clone(&run.pipeline), &run.record.model);
        let turn = Turn {
            start: self.turn_start(run, beginning),
            upstream: Arc::clone(&services.upstream),
            headers: self.family.headers.clone(),
            session: Arc::clone(&self.family.session),
            agent: Arc::clone(&run.context),
            subagents: Some(Arc::new(below)),
            reservation: services.memory_budget.reservation(),
            recorder: Arc::clone(&recorder) as Arc<dyn Recorder>,
            // The turn of the call that started it is stopped, and drops it.
            stop: CancellationToken::new(),
            shutdown: CancellationToken::new(),
            decisions,
        };
        let (outbox, inbox) = outbox();
        // It may start agents of its own: a future of no fixed depth.
        let driving: BoxFuture<'static, ()> = Box::pin(turn::run(turn, outbox));
        let ((), said) = futures::join!(driving, follow(inbox, steps));
        Turned::new(said, recorder.end(), run.max_rounds)
    }

    /// In the background nobody reads along, so only REST can decide.
    fn asking(&self, in_background: bool) -> Asking {
        let Asking { channel, wait } = self.family.asking.clone();
        let (channel, wait) = match channel {
            AskingChannel::Nobody => (AskingChannel::Nobody, Duration::ZERO),
            _ if !in_background => (AskingChannel::Parent, Duration::ZERO),
            _ if wait.is_zero() => (AskingChannel::Nobody, Duration::ZERO),
            _ => (AskingChannel::WaitingRest, wait),
        };
        Asking { channel, wait }
    }

    fn turn_start(&self, run: &Run, beginning: Beginning) -> TurnStart {
        let services = &self.family.services;
        let learnt = services.upstream.traits().of(&run.record.model, Instant::now());
        let model = AskedModel::new(run.record.model.clone(), &services.model_rules, learnt);
        let pieces = run.pieces.clone();
        let pipeline = Pipeline::clone(&run.pipeline);
        let mut settings = services.turns.clone();
        settings.max_rounds = run.max_rounds;
        let passed = Duration::from_millis(run.record.counts.duration_ms);
        settings.max_duration = services.settings.max_duration.saturating_sub(passed);
        TurnStart {
            session: run.id.to_string(),
            turn: TurnId::of_agent(&run.id),
            models: vec![model],
            delivery: Delivery::Streamed,
            content: ContentRule::LastRound,
            cards: false,
            conversation: Conversation::new(Opening {
                fields: self.family.fields.clone(),
                pieces: prompt::apply(PromptMode::Append, &run.record.prompt, pieces),
                server_tools: pipeline.tools.joined_definitions().clone(),
                client_tools: Vec::new(),
                tool_choice: ToolChoice::Auto,
                parallel_tool_calls: None,
            }),
            context_limits: Arc::clone(&services.context_limits),
            context_tokens: None,
            limits_output: false,
            pipeline,
            client_tools: Arc::default(),
            settings,
            model_rules: Arc::clone(&services.model_rules),
            upstream: Arc::clone(services.upstream.settings()),
            max_round_chars: services.max_round_chars,
            beginning,
            notices: Vec::new(),
            left_behind: Vec::new(),
            asking: self.asking(run.record.in_background),
            // The parent asks in its own message.
            code_requirement: CodeRequirement::Optional,
            shown_before: String::new(),
            include_messages: false,
            began_ms: clock::now_ms(),
        }
    }
}

/// The most characters of an agent's task in front of what it asks.
const MAX_TASK: usize = 200;

impl Run {
    /// Notes what the agent has come to know, for its next run.
    async fn keep_state(&mut self) {
        let context = Arc::clone(&self.context);
        // Without it, changes are named and not shown.
        _ = FILES.run(move || context.read_state.keep_contents()).await;
        self.record.working_dir = Some(self.context.working_dir());
        self.record.read_state = self.context.read_state.save();
        self.record.todos = self.context.todos.save();
    }

    /// Says to a person which agent asks, in front of what the call would do.
    fn heading(&self) -> String {
        let AgentRecord { agent_type, description, .. } = &self.record;
        let name = markdown::line(&agent_type.name);
        let task = markdown::code_within(description, MAX_TASK);
        format!("The agent {name} asks. Its task, in the model's words: {task}.\n\n")
    }

    /// The asks as the parent puts them to the person: with the agent that they come from.
    fn passed_on(&self, asked: Vec<Asked>) -> Vec<AgentAsk> {
        let heading = self.heading();
        let asks = asked.into_iter().map(|Asked { id, mut ask, .. }| {
            ask.put_in_front(&heading);
            AgentAsk { id, ask, decision: None }
        });
        asks.collect()
    }
}

/// Tells what one agent does.
struct Steps<'a> {
    run_id: AgentId,
    agent_type: String,
    tell: &'a Tell,
}

impl Steps<'_> {
    fn tell(&self, step: AgentStep) {
        let (agent, agent_type) = (self.run_id.clone(), self.agent_type.clone());
        (self.tell)(AgentEvent { agent, agent_type, step });
    }
}

/// How a subagent's turn ended.
struct Turned {
    end: RunEnd,
    /// What it asks, if it was suspended.
    asked: Option<Vec<Asked>>,
}

impl Turned {
    fn status(&self) -> RunStatus {
        match &self.end.stopped {
            _ if self.asked.is_some() => RunStatus::Waiting,
            Some(Stop::Failed { .. }) => RunStatus::Failed,
            _ => RunStatus::Completed,
        }
    }

    fn is_unknown_model(&self) -> bool {
        matches!(&self.end.stopped, Some(Stop::Failed { code: ErrorCode::ModelNotFound, .. }))
    }
}

impl RunEnd {
    fn step(&self) -> AgentStep {
        let error = match &self.stopped {
            Some(Stop::Failed { message, .. }) => Some(message.clone()),
            _ => None,
        };
        AgentStep::Ended { counts: self.counts, error }
    }
}

fn not_kept(error: &ApiError) -> ToolError {
    ToolError::Failed(format!("the agent cannot be started: {}", error.message))
}
