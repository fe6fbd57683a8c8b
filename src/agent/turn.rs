//! Drives one turn: passes events to [`TurnState`] and carries out its effects.
//!
//! The turn owns what it starts. Dropping it closes the connection to upstream, aborts its tool
//! calls and cancels their token.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

use super::outbox::Outbox;
use super::settings::Refused;
use super::state::{Event, TurnEffect, TurnStart, TurnState};
use crate::execution::pipeline::{AdmittedCall, Pipeline, ToolResult};
use crate::execution::scheduler::{Scheduler, WorkOutcome};
use crate::memory_budget::Reservation;
use crate::sync;
use crate::tools::tool::{CallContext, SessionContext};
use crate::upstream::{ChunkStream, Client, Fault, RequestBody, StreamEvent, TraceHeaders};

/// What a turn needs to run.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) start: TurnStart,
    pub(crate) upstream: Arc<Client>,
    /// Sent with each upstream request.
    pub(crate) headers: TraceHeaders,
    pub(crate) session: Arc<SessionContext>,
    pub(crate) refusals: Arc<ModelRefusals>,
    /// The turn's part of the memory that all requests share.
    pub(crate) reservation: Reservation,
    /// Cancelled when the server's grace period ends.
    pub(crate) shutdown: CancellationToken,
}

/// What models have refused, for all turns.
#[derive(Debug, Default)]
pub(crate) struct ModelRefusals(Mutex<HashMap<Refused, HashSet<String>>>);

impl ModelRefusals {
    /// The limit: more than the models of any gateway refuse, but bounded, since names come from
    /// clients.
    const MAX_REFUSALS: usize = 1024;

    pub(crate) fn contains(&self, refused: Refused, model: &str) -> bool {
        sync::lock(&self.0).get(&refused).is_some_and(|models| models.contains(model))
    }

    fn remember(&self, refused: Refused, model: String) {
        let mut refusals = sync::lock(&self.0);
        if refusals.values().map(HashSet::len).sum::<usize>() < Self::MAX_REFUSALS {
            refusals.entry(refused).or_default().insert(model);
        }
    }
}

/// Runs the turn to its end. Its last event is its one terminal event.
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
        // The start of a call is an event of its own, and comes before any other event.
        let mut started = Vec::new();
        for effect in effects {
            match driver.apply(effect) {
                EffectOutcome::Started(positions) => started.extend(positions),
                // `Ask` dropped the calls of the round before.
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

/// Holds what the turn acts on, and carries out its effects.
struct Driver {
    upstream: Arc<Client>,
    headers: TraceHeaders,
    refusals: Arc<ModelRefusals>,
    pipeline: Arc<Pipeline>,
    max_parallel: usize,
    scheduler: Scheduler<Timed>,
    source: ChunkSource,
    context: CallContext,
    outbox: Outbox,
    /// Covers what the turn keeps, and the events that wait for the subscriber.
    reservation: Reservation,
    time_is_up: Pin<Box<Sleep>>,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
    _cancel_on_drop: DropGuard,
}

/// A tool's answer, and how long the tool ran.
struct Timed(ToolResult, Duration);

impl WorkOutcome for Timed {
    fn is_held(&self) -> bool {
        false
    }
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
    Started(Vec<usize>),
    /// A request was sent, and the schedule is empty.
    Asked,
    Over,
}

impl Driver {
    /// Reserves memory for the turn. Returns the effects, or those that fail the turn if there
    /// is not enough. Events of effects that are left are still emitted: a tool that ended has
    /// ended.
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
        // No effects means that the turn is over already.
        if !failed.is_empty() {
            effects.retain(|effect| matches!(effect, TurnEffect::Emit(_)));
            effects.extend(failed);
        }
        effects
    }

    /// Carries out one effect.
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
            TurnEffect::RememberRefusal(refused, model) => {
                self.refusals.remember(refused, model);
                Vec::new()
            }
            TurnEffect::Stop => return EffectOutcome::Over,
        };
        EffectOutcome::Started(started)
    }

    /// Opens the request after `wait`, with an empty schedule.
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

    /// Runs a call and measures its time.
    fn work(&self, call: AdmittedCall) -> impl Future<Output = Timed> + Send + 'static {
        let (pipeline, context) = (Arc::clone(&self.pipeline), self.context.clone());
        async move {
            let began = Instant::now();
            let result = pipeline.run(call, context).await;
            Timed(result, began.elapsed())
        }
    }

    /// Waits for the next event. Returns it with the positions of calls that started because of
    /// it.
    async fn next(&mut self) -> (Event, Vec<usize>) {
        let Self { source, scheduler, outbox, time_is_up, shutdown, .. } = self;
        outbox.hand_over().await;
        // All chunks of one socket read are processed before anything else; a read is never
        // large.
        if let Some(event) = source.next_buffered() {
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
        f.debug_struct("Driver").field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}
