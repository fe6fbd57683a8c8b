//! Shares a turn among its subscribers: the client that asked, and each retry of its
//! request. The turn ends when the last one leaves.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Wake, Waker, ready};

use tokio::time::Instant;

use super::Shape;
use super::kept::{Forgettable, KeptMemory};
use super::log::{Cursor, Log};
use crate::agent::events::{Failure, TurnEvent};
use crate::agent::outbox::Inbox;
use crate::api::runs::RunPermit;
use crate::errors::{ApiError, ErrorCode};
use crate::ids::{SessionId, TurnId};
use crate::memory_budget::Reservation;
use crate::sessions::RunningTurn;
use crate::sync;

/// The largest log of one turn: many times a long answer.
const MAX_KEPT_BYTES: usize = 512 << 10;

/// A number that no subscriber has.
const NOBODY: usize = 0;

pub(super) struct SharedTurn {
    pub(super) session: SessionId,
    pub(super) turn: TurnId,
    pub(super) shape: Shape,
    /// Shared by the logs of all turns.
    memory: KeptMemory,
    state: Mutex<State>,
    wakers: Mutex<Vec<(usize, Waker)>>,
}

/// The mutable part of a shared turn.
struct State {
    source: Source,
    /// All events so far; `None` if they are not kept.
    log: Option<KeptLog>,
    /// The one subscriber that receives events that are not kept.
    only_subscriber: Option<usize>,
    subscribers: usize,
    /// The number given out last. Numbers tell subscribers apart.
    last_number: usize,
    tools_ran: bool,
    succeeded: bool,
    /// All subscribers left before the turn had ended.
    is_cancelled: bool,
    ended: Option<Instant>,
}

/// Where the next events come from.
enum Source {
    Turn {
        turn: RunningTurn,
        _permit: RunPermit,
    },
    /// All subscribers have left, and the turn is being stopped.
    Draining(Inbox),
    /// No further events.
    Ended,
}

/// A log and its share of the memory for logs.
struct KeptLog {
    log: Log,
    reservation: Reservation,
}

/// Receives the events of a turn. Dropping the last subscriber stops the turn.
pub(super) struct Subscriber {
    pub(super) run: Arc<SharedTurn>,
    number: usize,
    cursor: Cursor,
}

/// The outcome of [`SharedTurn::join`].
pub(super) enum Joined {
    Subscribed(Subscriber),
    /// Nothing has run that must not run twice, so the caller starts a new turn.
    StartNew,
    /// The turn is being stopped. Wait for [`SharedTurn::stopped`] and join again.
    Draining,
    Refused(ApiError),
}

/// Whether events are kept for retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retention {
    Nothing,
    All,
}

impl SharedTurn {
    /// Wraps a new turn and returns its first subscriber.
    pub(super) fn begin(
        mut turn: RunningTurn,
        permit: RunPermit,
        shape: Shape,
        retention: Retention,
        memory: &KeptMemory,
    ) -> Subscriber {
        let (session, id) = (turn.session.clone(), turn.id.clone());
        if !shape.stream {
            turn.events.wait_for_end();
        }
        let kept = || KeptLog { log: Log::default(), reservation: memory.reservation() };
        let state = State {
            log: (retention == Retention::All).then(kept),
            only_subscriber: None,
            subscribers: 0,
            last_number: 0,
            tools_ran: false,
            succeeded: false,
            is_cancelled: false,
            ended: None,
            source: Source::Turn { turn, _permit: permit },
        };
        let run = Self {
            session,
            turn: id,
            shape,
            memory: memory.clone(),
            state: Mutex::new(state),
            wakers: Mutex::default(),
        };
        Arc::new(run).subscriber()
    }

    fn subscriber(self: Arc<Self>) -> Subscriber {
        let mut state = self.state();
        state.subscribers += 1;
        state.last_number += 1;
        let number = state.last_number;
        if state.log.is_none() {
            state.only_subscriber = Some(number);
        }
        drop(state);
        Subscriber { run: self, number, cursor: Cursor::default() }
    }

    /// Joins a turn whose request was sent again. `outcome_is_kept`: a turn that
    /// succeeded without tools counts as done too and is not started again.
    pub(super) fn join(self: &Arc<Self>, outcome_is_kept: bool) -> Joined {
        let state = self.state();
        match state.source {
            Source::Draining(_) => return Joined::Draining,
            Source::Turn { .. } => {}
            Source::Ended if state.has_outcome(outcome_is_kept) => {}
            Source::Ended => return Joined::StartNew,
        }
        if state.is_cancelled || state.log.is_none() {
            let error = if state.is_cancelled { cancelled() } else { too_long() };
            return Joined::Refused(error);
        }
        drop(state);
        Joined::Subscribed(self.clone().subscriber())
    }

    /// Waits until a turn without subscribers has stopped.
    pub(super) async fn stopped(self: &Arc<Self>) {
        let number = {
            let mut state = self.state();
            state.last_number += 1;
            state.last_number
        };
        std::future::poll_fn(|context| {
            let mut state = self.state();
            self.wait(number, context.waker());
            while let Source::Draining(inbox) = &mut state.source {
                let all = Waker::from(self.clone());
                let events = ready!(inbox.poll_take(&mut Context::from_waker(&all)));
                state.note_draining(events);
            }
            Poll::Ready(())
        })
        .await;
        self.forget_waker(number);
        self.wake_all();
    }

    /// When the turn ended, or when the last subscriber left.
    pub(super) fn ended(&self) -> Option<Instant> {
        self.state().ended
    }

    /// Whether events are kept, so that others may subscribe.
    pub(super) fn is_kept(&self) -> bool {
        self.state().log.is_some()
    }

    /// Whether a further request must not simply start a new turn.
    pub(super) fn has_outcome(&self, outcome_is_kept: bool) -> bool {
        let state = self.state();
        !matches!(state.source, Source::Ended) || state.has_outcome(outcome_is_kept)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }

    fn wait(&self, number: usize, waker: &Waker) {
        let mut wakers = sync::lock(&self.wakers);
        match wakers.iter_mut().find(|(who, _)| *who == number) {
            Some((_, known)) => known.clone_from(waker),
            None => wakers.push((number, waker.clone())),
        }
    }

    fn forget_waker(&self, number: usize) {
        sync::lock(&self.wakers).retain(|(who, _)| *who != number);
    }

    fn wake_all(&self) {
        let wakers = std::mem::take(&mut *sync::lock(&self.wakers));
        for (_, waker) in wakers {
            waker.wake();
        }
    }
}

/// Subscribers that have not read to the end get an error: the rest is no longer kept.
impl Forgettable for SharedTurn {
    fn forget(&self) {
        let mut state = self.state();
        state.log = None;
        state.only_subscriber = Some(NOBODY);
    }
}

/// Wakes all subscribers when the turn has new events.
impl Wake for SharedTurn {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

impl State {
    fn has_outcome(&self, outcome_is_kept: bool) -> bool {
        self.tools_ran || outcome_is_kept && self.succeeded
    }

    fn note(&mut self, events: &VecDeque<TurnEvent>, memory: &KeptMemory) {
        for event in events {
            self.tools_ran |= matches!(event, TurnEvent::ToolStarted(_));
            self.succeeded |= matches!(event, TurnEvent::Finished(_));
            if event.is_terminal() {
                self.source = Source::Ended;
                self.ended = Some(Instant::now());
            }
        }
        let is_kept = self.log.as_mut().is_none_or(|kept| kept.push(events, memory));
        if !is_kept {
            self.log = None;
        }
    }

    /// Kept events that other subscribers have taken and this one has not.
    fn missed_by(&self, number: usize, cursor: &mut Cursor) -> Option<VecDeque<TurnEvent>> {
        let Some(kept) = &self.log else {
            let is_cut_off =
                self.only_subscriber.is_some_and(|only_subscriber| only_subscriber != number);
            return is_cut_off.then(|| failed(too_long()));
        };
        let events: VecDeque<_> = kept.log.since(*cursor).collect();
        *cursor = kept.log.end();
        (!events.is_empty()).then_some(events)
    }

    /// Records the events of a turn that is being stopped; `None` means it has stopped.
    fn note_draining(&mut self, events: Option<VecDeque<TurnEvent>>) {
        match events {
            None => self.source = Source::Ended,
            Some(events) => {
                let ran = |event: &TurnEvent| matches!(event, TurnEvent::ToolStarted(_));
                self.tools_ran |= events.iter().any(ran);
            }
        }
    }
}

impl KeptLog {
    /// Returns false, and copies nothing, if the log would exceed its limit.
    fn push(&mut self, events: &VecDeque<TurnEvent>, memory: &KeptMemory) -> bool {
        let more: usize = events.iter().map(Log::size_of).sum();
        let bytes = self.log.bytes() + more;
        if bytes > MAX_KEPT_BYTES || memory.hold(&mut self.reservation, bytes).is_err() {
            return false;
        }
        for event in events {
            self.log.push(event);
        }
        true
    }
}

impl Subscriber {
    /// Returns the next events, up to and including the terminal one; afterwards `None`.
    pub(super) fn poll_take(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<VecDeque<TurnEvent>>> {
        let Self { run, number, cursor } = self;
        let mut state = run.state();
        if let Some(missed) = state.missed_by(*number, cursor) {
            return Poll::Ready(Some(missed));
        }
        let Source::Turn { turn, .. } = &mut state.source else { return Poll::Ready(None) };
        run.wait(*number, context.waker());
        let all = Waker::from(run.clone());
        let events = ready!(turn.events.poll_take(&mut Context::from_waker(&all)));
        let events = events.unwrap_or_else(crashed);
        let was_kept = state.log.is_some();
        state.note(&events, &run.memory);
        let may_be_forgotten = state.log.is_some() && state.ended.is_some();
        match &state.log {
            Some(kept) => *cursor = kept.log.end(),
            None if was_kept => state.only_subscriber = Some(*number),
            None => {}
        }
        let others_listen = state.subscribers > 1;
        drop(state);
        if may_be_forgotten {
            let ended: Weak<SharedTurn> = Arc::downgrade(run);
            run.memory.ended(ended);
        }
        if others_listen {
            run.wake_all();
        }
        Poll::Ready(Some(events))
    }

    /// [`Self::poll_take`] as a future. Cancel-safe.
    pub(super) async fn take(&mut self) -> Option<VecDeque<TurnEvent>> {
        std::future::poll_fn(|context| self.poll_take(context)).await
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.run.forget_waker(self.number);
        let mut state = self.run.state();
        state.subscribers -= 1;
        if state.subscribers > 0 {
            return;
        }
        let source = std::mem::replace(&mut state.source, Source::Ended);
        if let Source::Turn { turn: RunningTurn { events, .. }, .. } = source {
            state.log = None;
            state.is_cancelled = true;
            state.ended = Some(Instant::now());
            state.source = Source::Draining(events);
        }
    }
}

/// The failure of a turn that ended without a terminal event: it has panicked, and the
/// log has the message.
fn crashed() -> VecDeque<TurnEvent> {
    VecDeque::from([TurnEvent::Failed(Box::new(Failure::crash()))])
}

fn failed(error: ApiError) -> VecDeque<TurnEvent> {
    VecDeque::from([TurnEvent::Failed(Box::new(Failure { error, tools_ran: true }))])
}

fn cancelled() -> ApiError {
    let message = "The turn of this request was stopped when its client left, after tools had \
                   run. It is not run again: look at what they did, then ask anew.";
    ApiError::new(ErrorCode::Cancelled, message)
}

fn too_long() -> ApiError {
    let message = "The turn of this request has run, but what it answered is too long to be \
                   said again. It is not run again: look at what its tools did, then ask anew.";
    ApiError::new(ErrorCode::Cancelled, message)
}

impl fmt::Debug for SharedTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("run", &self.run).finish_non_exhaustive()
    }
}
