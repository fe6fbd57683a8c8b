//! Drives one turn: passes events to [`TurnState`] and carries out its effects.
//!
//! The turn owns what it starts. Dropping it closes the connection to upstream, aborts its tool
//! calls and cancels their token.

mod calls;
mod plans;

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Fuse, FutureExt as _};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

use self::calls::{Calls, Commit};
use self::plans::AgentPlans;
use super::beginning::Decided;
use super::delegation::StartsAgents;
use super::outbox::Outbox;
use super::record::{Entry, Recorder};
use super::state::{Event, FinishedRound, TurnEffect, TurnStart, TurnState};
use crate::errors::ApiError;
use crate::execution::fitting;
use crate::execution::pipeline::Pipeline;
use crate::execution::reminders::{self, GatheredReminder, Moment};
use crate::execution::schedule::Position;
use crate::hooks::HookOutcome;
use crate::memory_budget::Reservation;
use crate::tools::agent_context::AgentContext;
use crate::tools::answer::AnswerText;
use crate::tools::session_context::SessionContext;
use crate::tools::tool::CallContext;
use crate::upstream::{ChunkStream, Client, Fault, RequestBody, StreamEvent, TraceHeaders};

/// What a turn needs to run.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) start: TurnStart,
    pub(crate) upstream: Arc<Client>,
    /// Sent with each upstream request.
    pub(crate) headers: TraceHeaders,
    pub(crate) session: Arc<SessionContext>,
    /// The agent whose turn it is.
    pub(crate) agent: Arc<AgentContext>,
    /// What starts its subagents. `None`: it has none.
    pub(crate) subagents: Option<Arc<dyn StartsAgents>>,
    /// The turn's part of the memory that all requests share.
    pub(crate) reservation: Reservation,
    /// Commits what the turn leaves behind.
    pub(crate) recorder: Arc<dyn Recorder>,
    /// Cancelled when the client has left, or somebody cancels the turn.
    pub(crate) stop: CancellationToken,
    /// What a person decides over REST while the turn waits for it. Boxed, since the channel has
    /// room for 32 from the start.
    pub(crate) decisions: UnboundedReceiver<Box<Decided>>,
    /// Cancelled when the server's grace period ends.
    pub(crate) shutdown: CancellationToken,
}

/// Runs the turn to its end. Its last event is its one terminal event.
pub(crate) fn run(turn: Turn, outbox: Outbox) -> impl Future<Output = ()> + Send + 'static {
    // An async function would hold its parameters twice, for each turn that runs.
    let began = Instant::now();
    let (mut driver, start) = Driver::new(turn, outbox, began);
    let mut state = TurnState::new(start, driver.plans());
    async move {
        let mut effects = state.begin();
        loop {
            let elapsed = began.elapsed();
            effects = driver.within_budget(&mut state, effects, elapsed);
            // The start of a call is an event of its own, and comes before any other event.
            let mut started = Vec::new();
            for effect in effects {
                match driver.apply(effect).await {
                    EffectOutcome::Started(positions) => started.extend(positions),
                    // `Ask` dropped the calls of the round before.
                    EffectOutcome::Asked => started.clear(),
                    EffectOutcome::Over => return,
                }
            }
            effects = tell_started(&mut state, started, elapsed);
            if effects.is_empty() {
                effects = state.settle(elapsed);
            }
            if effects.is_empty() {
                let (started, event) = driver.next().await;
                let elapsed = began.elapsed();
                effects = tell_started(&mut state, started, elapsed);
                if let Some(event) = event {
                    effects.extend(state.on(event, elapsed));
                }
            }
        }
    }
}

fn tell_started(
    state: &mut TurnState,
    started: Vec<Position>,
    elapsed: Duration,
) -> Vec<TurnEffect> {
    let started = started.into_iter();
    started.flat_map(|position| state.on(Event::Started(position), elapsed)).collect()
}

/// Holds what the turn acts on, and carries out its effects.
struct Driver {
    upstream: Arc<Client>,
    headers: TraceHeaders,
    pipeline: Arc<Pipeline>,
    max_parallel: usize,
    calls: Calls,
    source: ChunkSource,
    context: CallContext,
    subagents: Option<Arc<dyn StartsAgents>>,
    outbox: Outbox,
    recorder: Arc<dyn Recorder>,
    /// Commits that nothing waits for before the end of the turn. One that fails ends it.
    records: VecDeque<Commit>,
    /// The commit that the turn waits for.
    commit: Option<Commit>,
    /// The hooks that are asked whether the turn may end.
    stopping: Option<BoxFuture<'static, HookOutcome>>,
    /// The round that is about to be closed.
    finishing: Option<BoxFuture<'static, (FinishedRound, Option<GatheredReminder>)>>,
    decisions: UnboundedReceiver<Box<Decided>>,
    /// The end of the wait for decisions.
    wait_is_over: Option<Pin<Box<Sleep>>>,
    /// Covers what the turn keeps, and the events that wait for the subscriber.
    reservation: Reservation,
    time_is_up: Fuse<Pin<Box<Sleep>>>,
    stopped: Fuse<Pin<Box<WaitForCancellationFutureOwned>>>,
    shutdown: Fuse<Pin<Box<WaitForCancellationFutureOwned>>>,
    cancel_on_drop: DropGuard,
}

/// The stream from upstream.
enum ChunkSource {
    /// No request is under way.
    Idle,
    /// A request waits for its retry time, or for its response head.
    Opening(BoxFuture<'static, Result<ChunkStream, Fault>>),
    /// Chunks can be read.
    Open(Box<ChunkStream>),
}

/// What the loop must do after an effect.
enum EffectOutcome {
    /// Tell the state that calls at these positions started.
    Started(Vec<Position>),
    /// A request was sent, and the schedule is empty.
    Asked,
    Over,
}

impl Driver {
    fn new(turn: Turn, outbox: Outbox, began: Instant) -> (Self, TurnStart) {
        let Turn { start, upstream, headers, session, agent, reservation, .. } = turn;
        let Turn { subagents, recorder, stop, decisions, shutdown, .. } = turn;
        let cancelled = CancellationToken::new();
        let context = CallContext::new(agent, session, cancelled.clone());
        let pipeline = Arc::new(start.pipeline.clone());
        let max_parallel = start.settings.max_parallel_tools;
        let driver = Self {
            calls: Calls::new(
                Arc::clone(&pipeline),
                context.clone(),
                subagents.clone(),
                max_parallel,
            ),
            subagents,
            headers,
            pipeline,
            reservation,
            max_parallel,
            source: ChunkSource::Idle,
            context,
            outbox,
            recorder,
            records: VecDeque::new(),
            commit: None,
            stopping: None,
            finishing: None,
            decisions,
            wait_is_over: None,
            time_is_up: Box::pin(sleep_until(began + start.settings.max_duration)).fuse(),
            stopped: Box::pin(stop.cancelled_owned()).fuse(),
            shutdown: Box::pin(shutdown.cancelled_owned()).fuse(),
            upstream,
            cancel_on_drop: cancelled.drop_guard(),
        };
        (driver, start)
    }

    fn plans(&self) -> Arc<AgentPlans> {
        let CallContext { session, agent, .. } = &self.context;
        let (session, agent) = (Arc::clone(session), Arc::clone(agent));
        Arc::new(AgentPlans { session, agent, pipeline: Arc::clone(&self.pipeline) })
    }

    /// Reserves memory for the turn. Returns the effects, or those that fail the turn if there
    /// is not enough. Of the effects that are left those still count that tell what was: a tool
    /// that ended has ended.
    fn within_budget(
        &mut self,
        state: &mut TurnState,
        mut effects: Vec<TurnEffect>,
        elapsed: Duration,
    ) -> Vec<TurnEffect> {
        let needed = state.size_estimate() + self.outbox.size_estimate();
        let read_state = &self.context.agent.read_state;
        if self.reservation.hold(needed + read_state.content_bytes()).is_ok() {
            return effects;
        }
        // The contents of known files only serve to show what has changed.
        read_state.forget_contents();
        if self.reservation.hold(needed).is_ok() {
            return effects;
        }
        let failed = state.on(Event::Overloaded, elapsed);
        // No effects means that the turn is over already.
        if !failed.is_empty() {
            effects.retain(TurnEffect::holds_after_failure);
            effects.extend(failed);
        }
        effects
    }

    /// Carries out one effect. It waits for nothing but the disk, and only where what comes next
    /// depends on it.
    async fn apply(&mut self, effect: TurnEffect) -> EffectOutcome {
        match effect {
            TurnEffect::Emit(event) => self.outbox.push(event),
            TurnEffect::Ask { body, wait } => {
                self.ask(body, wait);
                return EffectOutcome::Asked;
            }
            TurnEffect::CloseStream => self.source = ChunkSource::Idle,
            TurnEffect::Reserve => self.calls.reserve(),
            TurnEffect::Ready(position, call) => {
                return EffectOutcome::Started(self.calls.ready(position, *call));
            }
            TurnEffect::Withdraw(positions) => {
                return EffectOutcome::Started(self.calls.withdraw(&positions));
            }
            TurnEffect::JudgeAhead(positions) => self.calls.judge_ahead(positions),
            TurnEffect::Decide(position, decision) => {
                return EffectOutcome::Started(self.calls.decide(position, decision));
            }
            TurnEffect::AnswerFinds { call_id } => {
                self.pipeline.permissions.answer_finds(&call_id).await;
            }
            TurnEffect::ResumeAgent(position, resumption) => {
                return EffectOutcome::Started(self.calls.resume_agent(position, resumption));
            }
            TurnEffect::Run(position, entry) => {
                let commit = entry.map(|entry| self.recorder.commit(entry));
                self.calls.run(position, commit);
            }
            TurnEffect::Release(position) => {
                return EffectOutcome::Started(self.calls.release(position));
            }
            TurnEffect::AwaitDecisions(wait) => {
                self.wait_is_over = Some(Box::pin(sleep(wait)));
            }
            TurnEffect::AskStopHooks { is_held } => {
                let (pipeline, context) = (Arc::clone(&self.pipeline), self.context.clone());
                let asking = async move { pipeline.before_stopping(is_held, &context).await };
                self.stopping = Some(asking.boxed());
            }
            TurnEffect::FinishRound { answers, max_body } => {
                let (pipeline, context) = (Arc::clone(&self.pipeline), self.context.clone());
                self.finishing = Some(finish_round(answers, max_body, pipeline, context).boxed());
            }
            TurnEffect::Shown { lines, round } => {
                self.context.agent.read_state.showed(lines, round);
            }
            TurnEffect::ForgetShown => self.context.agent.read_state.forget_shown(),
            TurnEffect::Record(entry) => self.records.push_back(self.recorder.commit(entry)),
            TurnEffect::Commit(entry) => self.commit(entry),
            TurnEffect::Abort => self.abort(),
            TurnEffect::Learn(lesson) => self.upstream.traits().learn(lesson, Instant::now()),
            TurnEffect::Stop => return EffectOutcome::Over,
        }
        EffectOutcome::Started(Vec::new())
    }

    /// Commits an entry behind all that were recorded before.
    fn commit(&mut self, entry: Entry) {
        let records = std::mem::take(&mut self.records);
        if records.is_empty() {
            self.commit = Some(self.recorder.commit(entry));
            return;
        }
        let recorder = Arc::clone(&self.recorder);
        self.commit = Some(Box::pin(async move {
            for record in records {
                record.await?;
            }
            recorder.commit(entry).await
        }));
    }

    /// Closes the stream and ends the calls that run.
    fn abort(&mut self) {
        self.source = ChunkSource::Idle;
        self.stopping = None;
        self.finishing = None;
        let cancelled = CancellationToken::new();
        self.context.cancelled = cancelled.clone();
        // Cancels the token of the calls.
        self.cancel_on_drop = cancelled.drop_guard();
        self.calls = self.no_calls();
    }

    fn no_calls(&self) -> Calls {
        let (pipeline, subagents) = (Arc::clone(&self.pipeline), self.subagents.clone());
        Calls::new(pipeline, self.context.clone(), subagents, self.max_parallel)
    }

    /// Opens the request after `wait`, with an empty schedule.
    fn ask(&mut self, body: RequestBody, wait: Duration) {
        let (client, headers) = (Arc::clone(&self.upstream), self.headers.clone());
        self.calls = self.no_calls();
        self.source = ChunkSource::Opening(Box::pin(async move {
            if !wait.is_zero() {
                sleep(wait).await;
            }
            client.open(body, &headers).await
        }));
    }

    /// Waits for the next event. Returns it with the positions of calls that started because of
    /// it.
    async fn next(&mut self) -> (Vec<Position>, Option<Event>) {
        let Self { source, calls, outbox, time_is_up, stopped, shutdown, commit, .. } = self;
        let Self { decisions, wait_is_over, records, stopping, finishing, context, .. } = self;
        outbox.hand_over().await;
        // All chunks of one socket read are processed before anything else; a read is never
        // large.
        if let Some(event) = source.next_buffered() {
            return (Vec::new(), Some(event));
        }
        let next = async {
            let event = tokio::select! {
                event = source.next(outbox) => event,
                event = calls.next() => return event,
                event = committed(commit) => event,
                outcome = ended(stopping) => Event::Stopping(outcome),
                (finished, reminder) = ended(finishing) => {
                    // It is in the transcript with this event. A turn that is stopped before has
                    // told nothing.
                    let reminder = reminder.map(|reminder| reminder.told(&context.agent));
                    Event::RoundFinished(FinishedRound { reminder, ..finished })
                }
                error = not_recorded(records) => Event::NotCommitted(error),
                event = decided(decisions, wait_is_over) => event,
                () = time_is_up => Event::TimeIsUp,
                () = stopped => Event::Stopped,
                () = shutdown => Event::ShuttingDown,
            };
            (Vec::new(), Some(event))
        };
        outbox.flush_before(next).await
    }
}

/// Waits for the commit that the turn waits for. Cancel-safe.
async fn committed(commit: &mut Option<Commit>) -> Event {
    let Some(committing) = commit else { return std::future::pending().await };
    let outcome = committing.await;
    *commit = None;
    match outcome {
        Ok(()) => Event::Committed,
        Err(error) => Event::NotCommitted(error),
    }
}

/// Waits for what is under way, if anything is. Cancel-safe.
async fn ended<T>(under_way: &mut Option<BoxFuture<'static, T>>) -> T {
    let Some(future) = under_way else { return std::future::pending().await };
    let outcome = future.await;
    *under_way = None;
    outcome
}

/// Prepares a round to be closed.
async fn finish_round(
    mut answers: Vec<(Position, AnswerText)>,
    max_body: usize,
    pipeline: Arc<Pipeline>,
    context: CallContext,
) -> (FinishedRound, Option<GatheredReminder>) {
    for (_, text) in &mut answers {
        fitting::fit(text, max_body, &context.session).await;
    }
    let told = (&*context.session, &context.agent);
    let reminder =
        reminders::gather(Moment::RoundEnds, &pipeline.permissions, &pipeline.tools, told).await;
    (FinishedRound { answers, reminder: None }, reminder)
}

/// Waits for a record that could not be committed. Cancel-safe.
async fn not_recorded(records: &mut VecDeque<Commit>) -> ApiError {
    while let Some(record) = records.front_mut() {
        let outcome = record.await;
        records.pop_front();
        if let Err(error) = outcome {
            return error;
        }
    }
    std::future::pending().await
}

/// Waits for a decision, while the turn waits for one. Cancel-safe.
async fn decided(
    decisions: &mut UnboundedReceiver<Box<Decided>>,
    wait_is_over: &mut Option<Pin<Box<Sleep>>>,
) -> Event {
    let Some(over) = wait_is_over else { return std::future::pending().await };
    tokio::select! {
        Some(decided) = decisions.recv() => Event::Decided(*decided),
        () = over => {
            *wait_is_over = None;
            Event::WaitIsOver
        }
    }
}

impl ChunkSource {
    /// Waits for the response head or for the next chunk. Cancel-safe.
    async fn next(&mut self, outbox: &Outbox) -> Event {
        if let Self::Opening(opening) = self {
            match opening.await {
                Ok(stream) => *self = Self::Open(Box::new(stream)),
                Err(fault) => return self.faulted(fault),
            }
        }
        let Self::Open(stream) = self else { return std::future::pending().await };
        // Reads from upstream no faster than the client reads from the server.
        outbox.wait_for_room().await;
        let found = stream.next().await;
        self.event_of(found)
    }

    /// The next chunk of what has been read already, if there is one.
    fn next_buffered(&mut self) -> Option<Event> {
        let Self::Open(stream) = self else { return None };
        let found = stream.next_buffered()?;
        Some(self.event_of(found))
    }

    fn event_of(&mut self, found: Result<StreamEvent, Fault>) -> Event {
        match found {
            Ok(StreamEvent::Chunk(chunk)) => Event::Chunk(chunk),
            Ok(StreamEvent::Done | StreamEvent::End) => Event::StreamEnded { jitter: jitter() },
            Err(fault) => self.faulted(fault),
        }
    }

    fn faulted(&mut self, fault: Fault) -> Event {
        tracing::warn!(%fault, "upstream failed");
        *self = Self::Idle;
        if fault == Fault::Overloaded {
            return Event::Overloaded;
        }
        Event::Faulted { fault, jitter: jitter() }
    }
}

/// A random number between 0 and 1, so that turns that failed together do not retry together.
fn jitter() -> f64 {
    let [first, second, ..] = *uuid::Uuid::new_v4().as_bytes();
    f64::from(u16::from_ne_bytes([first, second])) / f64::from(u16::MAX)
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("calls", &self.calls).finish_non_exhaustive()
    }
}
