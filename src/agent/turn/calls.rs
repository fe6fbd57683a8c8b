//! Carries the calls of one round: judges each when its turn comes, and runs it when it is told.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::agent::delegation::{AgentOutcome, QueuedSlot, Resumption, StartsAgents, Tell};
use crate::agent::record::SuspendedAgent;
use crate::agent::state::{Event, Judgement};
use crate::errors::ApiError;
use crate::execution::ask::{About, Ask, Decision, GrantScope};
use crate::execution::pipeline::{
    AdmittedCall, Executed, Judged, PermittedCall, Pipeline, ToolResult,
};
use crate::execution::schedule::Position;
use crate::execution::scheduler::{Scheduler, WorkOutcome};
use crate::openai::usage::Usage;
use crate::sync;
use crate::tools::call_progress::CallProgress;
use crate::tools::side_usage::SideUsage;
use crate::tools::subagent::TASK;
use crate::tools::tool::{CallContext, ToolError};

pub(super) type Commit = BoxFuture<'static, Result<(), ApiError>>;

/// The calls of a round. Dropping them aborts those that run.
pub(super) struct Calls {
    pipeline: Arc<Pipeline>,
    context: CallContext,
    subagents: Option<Arc<dyn StartsAgents>>,
    scheduler: Scheduler<CallEnd>,
    admitted: HashMap<Position, Arc<Mutex<AdmittedCall>>>,
    mailboxes: HashMap<Position, Mailbox>,
    /// What calls say that are not over.
    reports: UnboundedReceiver<Event>,
    reporter: UnboundedSender<Event>,
    /// Calls that a person must decide about. They hold their positions, and no room.
    held: HashSet<Position>,
    /// Judgements of calls that have not started.
    ahead: JoinSet<Event>,
}

/// How a call's instructions reach its task.
struct Mailbox {
    sender: UnboundedSender<Instruction>,
    /// Taken by the task.
    receiver: Option<UnboundedReceiver<Instruction>>,
}

enum Instruction {
    /// Run, when this is committed.
    Run(Option<Commit>),
    Decide(Decision),
    ResumeAgent(Resumption),
    Release,
}

/// How a call's task ended.
enum CallEnd {
    Answered(Box<ToolResult>, Duration, Option<Usage>),
    /// An agent that it has started needs a person: its position is held.
    Suspended(Box<SuspendedCall>, UnboundedReceiver<Instruction>),
    /// It needs a person: its position is held. With what hooks tell that person, and with its
    /// instructions: some may have come while it was judged.
    Asked(Box<Ask>, Vec<String>, UnboundedReceiver<Instruction>),
    NotCommitted(ApiError),
    Released,
}

/// What a call whose agent needs a person came to so far.
struct SuspendedCall {
    agent: SuspendedAgent,
    duration: Duration,
    usage: Option<Usage>,
}

impl WorkOutcome for CallEnd {
    fn is_held(&self) -> bool {
        matches!(self, Self::Asked(..) | Self::Suspended(..))
    }
}

impl Calls {
    pub(super) fn new(
        pipeline: Arc<Pipeline>,
        context: CallContext,
        subagents: Option<Arc<dyn StartsAgents>>,
        max_parallel: usize,
    ) -> Self {
        let (reporter, reports) = mpsc::unbounded_channel();
        Self {
            pipeline,
            context,
            subagents,
            scheduler: Scheduler::new(max_parallel),
            admitted: HashMap::new(),
            mailboxes: HashMap::new(),
            reports,
            reporter,
            held: HashSet::new(),
            ahead: JoinSet::new(),
        }
    }

    pub(super) fn reserve(&mut self) {
        self.scheduler.reserve();
    }

    /// Takes a whole call. Returns the calls that start because of it.
    pub(super) fn ready(&mut self, position: Position, call: AdmittedCall) -> Vec<Position> {
        let concurrency = call.concurrency();
        self.admitted.insert(position, Arc::new(Mutex::new(call)));
        match self.work(position) {
            Some(work) => self.scheduler.ready(position, concurrency, work),
            None => Vec::new(),
        }
    }

    /// The work of a call, from when its turn has come.
    fn work(&mut self, position: Position) -> Option<BoxFuture<'static, CallEnd>> {
        let call = Arc::clone(self.admitted.get(&position)?);
        let slot = self.queued_slot(&call);
        let inbox = self.mailbox(position).receiver.take()?;
        let task = CallTask {
            position,
            call,
            pipeline: Arc::clone(&self.pipeline),
            context: self.context.clone(),
            subagents: self.subagents.clone(),
            slot,
            reporter: self.reporter.clone(),
        };
        Some(Box::pin(task.run(inbox)))
    }

    /// Calls that start agents wait for a slot in the order of the calls.
    fn queued_slot(&self, call: &Mutex<AdmittedCall>) -> Option<QueuedSlot> {
        let starts_agents = sync::lock(call).tool() == TASK;
        self.subagents.as_ref().filter(|_| starts_agents).map(|subagents| subagents.queue())
    }

    pub(super) fn withdraw(&mut self, positions: &[Position]) -> Vec<Position> {
        self.scheduler.withdraw(positions)
    }

    pub(super) fn judge_ahead(&mut self, positions: Vec<Position>) {
        for position in positions {
            let Some(call) = self.admitted.get(&position).cloned() else { continue };
            let (pipeline, context) = (Arc::clone(&self.pipeline), self.context.clone());
            self.ahead.spawn(async move {
                let (ask, notices) = match judge(&pipeline, &call, &context, None).await {
                    Judged::Asked(ask) => (Some(ask), sync::lock(&call).take_notices()),
                    // Its answer comes when it is judged again, without them.
                    Judged::Answered(result) => (None, result.notices),
                    Judged::Permitted(_) => (None, Vec::new()),
                };
                Event::JudgedAhead { position, ask, notices }
            });
        }
    }

    /// Returns the calls that start because of it.
    pub(super) fn decide(&mut self, position: Position, decision: Decision) -> Vec<Position> {
        self.instruct(position, Instruction::Decide(decision));
        if !self.held.remove(&position) {
            return Vec::new();
        }
        self.resume(position)
    }

    /// Returns the calls that start because of it.
    pub(super) fn resume_agent(
        &mut self,
        position: Position,
        resumption: Resumption,
    ) -> Vec<Position> {
        self.instruct(position, Instruction::ResumeAgent(resumption));
        if !self.held.remove(&position) {
            return Vec::new();
        }
        self.resume(position)
    }

    /// Starts the work of a held call once more.
    fn resume(&mut self, position: Position) -> Vec<Position> {
        match self.work(position) {
            Some(work) => self.scheduler.resume(position, work),
            None => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, position: Position, commit: Option<Commit>) {
        self.instruct(position, Instruction::Run(commit));
    }

    /// Ends a call that was judged. Returns the calls that start because of it.
    pub(super) fn release(&mut self, position: Position) -> Vec<Position> {
        if self.held.remove(&position) {
            return self.scheduler.withdraw(&[position]);
        }
        self.instruct(position, Instruction::Release);
        Vec::new()
    }

    fn instruct(&mut self, position: Position, instruction: Instruction) {
        // A task that is over needs no instructions.
        let _ = self.mailbox(position).sender.send(instruction);
    }

    fn mailbox(&mut self, position: Position) -> &mut Mailbox {
        self.mailboxes.entry(position).or_insert_with(Mailbox::new)
    }

    /// Waits for the next event. Returns it with the positions of calls that started because of
    /// it. Cancel-safe.
    pub(super) async fn next(&mut self) -> (Vec<Position>, Option<Event>) {
        if self.mailboxes.is_empty() {
            return std::future::pending().await;
        }
        tokio::select! {
            // What a call says comes before its end.
            biased;
            Some(report) = self.reports.recv() => (Vec::new(), Some(report)),
            Some((position, end, mut started)) = self.scheduler.next() => {
                let event = match end {
                    CallEnd::Asked(ask, notices, inbox) => {
                        let is_instructed = !inbox.is_empty();
                        self.mailbox(position).receiver = Some(inbox);
                        if is_instructed {
                            started.extend(self.resume(position));
                            None
                        } else {
                            self.held.insert(position);
                            let judgement = Judgement::Asked { ask, notices };
                            Some(Event::Judged { position, judgement })
                        }
                    }
                    CallEnd::Suspended(suspended, inbox) => {
                        let SuspendedCall { agent, duration, usage } = *suspended;
                        self.mailbox(position).receiver = Some(inbox);
                        self.held.insert(position);
                        Some(Event::AgentSuspended { position, agent, duration, usage })
                    }
                    CallEnd::Answered(result, duration, usage) => {
                        Some(Event::Answered { position, result: *result, duration, usage })
                    }
                    CallEnd::NotCommitted(error) => Some(Event::NotRun(error)),
                    CallEnd::Released => None,
                };
                (started, event)
            }
            Some(judged) = self.ahead.join_next() => match judged {
                Ok(event) => (Vec::new(), Some(event)),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
        }
    }
}

impl Mailbox {
    fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver: Some(receiver) }
    }
}

/// Judges a call once more, or for the first time.
async fn judge(
    pipeline: &Pipeline,
    call: &Mutex<AdmittedCall>,
    context: &CallContext,
    decision: Option<&Decision>,
) -> Judged {
    let again = sync::lock(call).again();
    match again {
        Ok(call) => pipeline.judge(call, context, decision).await,
        Err(error) => Judged::Answered(ToolResult::error(&error)),
    }
}

/// The task of one call, from when its turn in the order has come. It holds that turn until it
/// ends.
struct CallTask {
    position: Position,
    call: Arc<Mutex<AdmittedCall>>,
    pipeline: Arc<Pipeline>,
    context: CallContext,
    subagents: Option<Arc<dyn StartsAgents>>,
    /// Where its agent waits, if it starts one.
    slot: Option<QueuedSlot>,
    reporter: UnboundedSender<Event>,
}

impl CallTask {
    async fn run(self, mut inbox: UnboundedReceiver<Instruction>) -> CallEnd {
        let (mut decision, mut resumption) = (None, None);
        while let Ok(instruction) = inbox.try_recv() {
            match instruction {
                Instruction::Decide(decided) => decision = Some(decided),
                Instruction::ResumeAgent(resumed) => resumption = Some(resumed),
                Instruction::Run(_) | Instruction::Release => return CallEnd::Released,
            }
        }
        let began = Instant::now();
        let mut judged = judge(&self.pipeline, &self.call, &self.context, decision.as_ref()).await;
        if resumption.is_some()
            && let Judged::Asked(ask) = &judged
            && let Some(approved) = approved_before(ask)
        {
            judged = judge(&self.pipeline, &self.call, &self.context, Some(&approved)).await;
        }
        let call = match judged {
            Judged::Answered(result) => {
                return CallEnd::Answered(Box::new(result), began.elapsed(), None);
            }
            Judged::Asked(ask) => {
                return CallEnd::Asked(ask, sync::lock(&self.call).take_notices(), inbox);
            }
            Judged::Permitted(call) => call,
        };
        let judgement = Judgement::Permitted { has_effect: call.has_effect() };
        // The turn may be over.
        let _ = self.reporter.send(Event::Judged { position: self.position, judgement });
        loop {
            match inbox.recv().await {
                Some(Instruction::Run(commit)) => {
                    return self.run_permitted(call, (commit, resumption), inbox).await;
                }
                // It came too late to be needed.
                Some(Instruction::Decide(_) | Instruction::ResumeAgent(_)) => {}
                Some(Instruction::Release) | None => return CallEnd::Released,
            }
        }
    }

    /// Runs the call. What may have an effect is committed first.
    async fn run_permitted(
        self,
        call: PermittedCall,
        (commit, resumption): (Option<Commit>, Option<Resumption>),
        inbox: UnboundedReceiver<Instruction>,
    ) -> CallEnd {
        if let Some(commit) = commit
            && let Err(error) = commit.await
        {
            return CallEnd::NotCommitted(error);
        }
        let began = Instant::now();
        let (position, reporter) = (self.position, self.reporter);
        let agent_reporter = reporter.clone();
        // The turn may be over.
        let tell: Tell = Arc::new(move |event| {
            let _ = agent_reporter.send(Event::Agent { position, event });
        });
        let progress = CallProgress::new(move |told| {
            let _ = reporter.send(Event::Progress { position, told });
        });
        let agent = self.subagents.zip(self.slot);
        let agent = agent.map(|(subagents, slot)| subagents.for_call(slot, resumption, tell));
        let subagents = agent.as_ref().map(|agent| agent.subagents());
        let side_usage = SideUsage::default();
        let side = side_usage.clone();
        let context = CallContext { subagents, side_usage: side, progress, ..self.context };
        let executed = call.run(context).await;
        let AgentOutcome { suspended, usage } =
            agent.map(|agent| agent.take_outcome()).unwrap_or_default();
        let usage = usage.or_else(|| side_usage.take());
        let duration = began.elapsed();
        match (executed, suspended) {
            (Executed::Answered(result), _) => CallEnd::Answered(result, duration, usage),
            (Executed::Suspended, Some(agent)) => {
                CallEnd::Suspended(Box::new(SuspendedCall { agent, duration, usage }), inbox)
            }
            (Executed::Suspended, None) => {
                let result = ToolResult::error(&ToolError::Cancelled);
                CallEnd::Answered(Box::new(result), duration, usage)
            }
        }
    }
}

/// The approval by which a call has started the agent that it takes up: it is not asked about once
/// more. What is denied by now stays denied.
fn approved_before(ask: &Ask) -> Option<Decision> {
    let About::Effect(effect) = &ask.about else { return None };
    Some(Decision::allow(effect.digest, GrantScope::Once))
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}
