//! Drives one turn: carries events to [`TurnState`] and its effects to the world.
//!
//! The turn owns all it starts. Dropping it closes upstream's connection, aborts
//! its tool calls and cancels their token.

use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

use super::outbox::Outbox;
use super::state::{Event, TurnEffect, TurnStart, TurnState};
use crate::execution::pipeline::{AdmittedCall, Pipeline, ToolResult};
use crate::execution::scheduler::Scheduler;
use crate::memory_budget::Reservation;
use crate::sync;
use crate::tools::tool::{CallContext, SessionContext};
use crate::upstream::{ChunkStream, Client, Fault, RequestBody, StreamEvent, TraceHeaders};

/// What a turn works with.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) start: TurnStart,
    pub(crate) upstream: Arc<Client>,
    /// Sent along with every round.
    pub(crate) headers: TraceHeaders,
    pub(crate) session: Arc<SessionContext>,
    pub(crate) refusals: Arc<ReasoningRefusals>,
    /// Of what all requests together may keep in memory.
    pub(crate) reservation: Reservation,
    /// Fires when the server's grace is over.
    pub(crate) shutdown: CancellationToken,
}

/// The models that take no reasoning back, as they have shown.
#[derive(Debug, Default)]
pub(crate) struct ReasoningRefusals(Mutex<HashSet<String>>);

impl ReasoningRefusals {
    /// Enough for every model of a gateway; names come from clients.
    const REMEMBERED: usize = 1024;

    pub(crate) fn contains(&self, model: &str) -> bool {
        sync::lock(&self.0).contains(model)
    }

    fn remember(&self, model: String) {
        let mut models = sync::lock(&self.0);
        if models.len() < Self::REMEMBERED {
            models.insert(model);
        }
    }
}

/// Runs the turn to its end; its last event is its one terminal event.
pub(crate) async fn run(turn: Turn, outbox: Outbox) {
    let Turn { start, upstream, headers, session, refusals, reservation, shutdown } = turn;
    let began = Instant::now();
    let cancelled = CancellationToken::new();
    let mut driver = Driver {
        headers,
        refusals,
        pipeline: Arc::new(start.pipeline.clone()),
        reservation,
        max_parallel: start.settings.max_parallel_tools,
        scheduler: Scheduler::new(start.settings.max_parallel_tools),
        source: ChunkSource::Idle,
        context: CallContext { session, cancelled: cancelled.clone() },
        outbox,
        time_is_up: Box::pin(sleep_until(began + start.settings.max_duration)),
        shutdown: Box::pin(shutdown.cancelled_owned()),
        upstream,
        _cancel_on_drop: cancelled.drop_guard(),
    };
    let mut state = TurnState::new(start);
    let mut effects = state.begin();
    loop {
        effects = driver.within_budget(&mut state, effects, began.elapsed());
        // A call that starts at once is an event of its own, before any other.
        let mut started = Vec::new();
        for effect in effects {
            match driver.apply(effect) {
                EffectOutcome::Started(positions) => started.extend(positions),
                // What started in the round before has been dropped with it.
                EffectOutcome::Asked => started.clear(),
                EffectOutcome::Over => return,
            }
        }
        effects = started
            .into_iter()
            .flat_map(|position| state.on(Event::Started(position), began.elapsed()))
            .collect();
        if effects.is_empty() {
            let (event, started) = driver.next().await;
            effects = state.on(event, began.elapsed());
            for position in started {
                effects.extend(state.on(Event::Started(position), began.elapsed()));
            }
        }
    }
}

/// Everything the turn reaches.
struct Driver {
    upstream: Arc<Client>,
    headers: TraceHeaders,
    refusals: Arc<ReasoningRefusals>,
    pipeline: Arc<Pipeline>,
    max_parallel: usize,
    scheduler: Scheduler<Timed>,
    source: ChunkSource,
    context: CallContext,
    outbox: Outbox,
    /// Counts what the turn keeps, and what waits for its subscriber.
    reservation: Reservation,
    time_is_up: Pin<Box<Sleep>>,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
    _cancel_on_drop: DropGuard,
}

/// A tool's answer, and how long it took.
struct Timed(ToolResult, Duration);

/// Where chunks come from.
enum ChunkSource {
    Idle,
    Opening(BoxFuture<'static, Result<ChunkStream, Fault>>),
    Open(Box<ChunkStream>),
}

enum EffectOutcome {
    Started(Vec<usize>),
    Asked,
    Over,
}

impl Driver {
    /// The effects, or the turn's end where there is no memory left for it. What has been
    /// told by then is told all the same: a tool that ended has ended.
    fn within_budget(
        &mut self,
        state: &mut TurnState,
        mut effects: Vec<TurnEffect>,
        elapsed: Duration,
    ) -> Vec<TurnEffect> {
        if self.reservation.hold(state.size_estimate() + self.outbox.size_estimate()).is_ok() {
            return effects;
        }
        let failed = state.on(Event::Overloaded, elapsed);
        // A turn that is over needs no more.
        if !failed.is_empty() {
            effects.retain(|effect| matches!(effect, TurnEffect::Emit(_)));
            effects.extend(failed);
        }
        effects
    }

    fn apply(&mut self, effect: TurnEffect) -> EffectOutcome {
        let started = match effect {
            TurnEffect::Emit(event) => {
                self.outbox.push(event);
                Vec::new()
            }
            TurnEffect::Ask { body, wait } => {
                self.ask(body, wait);
                return EffectOutcome::Asked;
            }
            TurnEffect::CloseStream => {
                self.source = ChunkSource::Idle;
                Vec::new()
            }
            TurnEffect::Reserve => {
                self.scheduler.reserve();
                Vec::new()
            }
            TurnEffect::Ready(position, call) => {
                let concurrency = call.concurrency();
                let work = Box::pin(self.work(*call));
                self.scheduler.ready(position, concurrency, work)
            }
            TurnEffect::Withdraw(positions) => self.scheduler.withdraw(&positions),
            TurnEffect::RememberRefusal(model) => {
                self.refusals.remember(model);
                Vec::new()
            }
            TurnEffect::Stop => return EffectOutcome::Over,
        };
        EffectOutcome::Started(started)
    }

    fn ask(&mut self, body: RequestBody, wait: Duration) {
        let (client, headers) = (Arc::clone(&self.upstream), self.headers.clone());
        self.scheduler = Scheduler::new(self.max_parallel);
        self.context.session.read_state.begin_round();
        self.source = ChunkSource::Opening(Box::pin(async move {
            if !wait.is_zero() {
                sleep(wait).await;
            }
            client.open(body, &headers).await
        }));
    }

    fn work(&self, call: AdmittedCall) -> impl Future<Output = Timed> + Send + 'static {
        let (pipeline, context) = (Arc::clone(&self.pipeline), self.context.clone());
        async move {
            let began = Instant::now();
            let result = pipeline.run(call, context).await;
            Timed(result, began.elapsed())
        }
    }

    /// The next thing to happen, and the calls that started by it.
    async fn next(&mut self) -> (Event, Vec<usize>) {
        let Self { source, scheduler, outbox, time_is_up, shutdown, .. } = self;
        outbox.hand_over().await;
        // What one read brought is taken in one go; one read is never much.
        if let Some(event) = source.at_hand() {
            return (event, Vec::new());
        }
        let next = async {
            tokio::select! {
                event = source.next(outbox) => (event, Vec::new()),
                Some((position, Timed(result, duration), started)) = scheduler.next() => {
                    (Event::Answered { position, result, duration }, started)
                }
                () = time_is_up => (Event::TimeIsUp, Vec::new()),
                () = shutdown => (Event::ShuttingDown, Vec::new()),
            }
        };
        outbox.flush_before(next).await
    }
}

impl ChunkSource {
    /// Cancel-safe: what was being awaited stays in place.
    async fn next(&mut self, outbox: &Outbox) -> Event {
        if let Self::Opening(opening) = self {
            match opening.await {
                Ok(stream) => *self = Self::Open(Box::new(stream)),
                Err(fault) => return self.faulted(fault),
            }
        }
        let Self::Open(stream) = self else { return std::future::pending().await };
        // Upstream is read no faster than the client reads us.
        outbox.wait_for_room().await;
        let found = stream.next().await;
        self.event_of(found)
    }

    /// What has been read already.
    fn at_hand(&mut self) -> Option<Event> {
        let Self::Open(stream) = self else { return None };
        let found = stream.at_hand()?;
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

/// Spreads retries of many streams over time.
fn jitter() -> f64 {
    let [first, second, ..] = *uuid::Uuid::new_v4().as_bytes();
    f64::from(u16::from_ne_bytes([first, second])) / f64::from(u16::MAX)
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}
