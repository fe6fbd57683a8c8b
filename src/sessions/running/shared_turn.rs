//! Shares a turn among its subscribers: the client that asked, each retry of its request, and
//! who follows its stream. Subscribers only look on: the turn's policy says what it means that
//! the last one has left.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::task::AtomicWaker;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::TurnIdentity;
use super::audience::Audience;
use super::kept::{Forgettable, KeptMemory};
use super::limits::RunPermit;
use super::log::{Cursor, Log};
use super::records::Records;
use super::shape::AnswerShape;
use super::slots::SessionSlot;
use crate::agent::beginning::Decided;
use crate::agent::events::{Failure, TurnEvent};
use crate::agent::outbox::Inbox;
use crate::errors::{ApiError, ErrorCode};

use crate::memory_budget::Reservation;
use crate::sync;

/// The largest log of one turn: many times a long answer. What is longer is told from the
/// record.
const MAX_KEPT_BYTES: usize = 512 << 10;

/// A number that no subscriber has.
const NOBODY: usize = 0;

/// A turn, and what of it can be told again.
pub(crate) struct SharedTurn {
    pub(crate) identity: TurnIdentity,
    pub(crate) shape: Arc<AnswerShape>,
    pub(super) policy: DisconnectPolicy,
    pub(super) stop: CancellationToken,
    pub(super) decisions: Option<mpsc::UnboundedSender<Box<Decided>>>,
    pub(super) records: Records,
    /// Shared by the logs of all turns.
    pub(super) memory: KeptMemory,
    /// Cancelled when the turn is over.
    pub(super) over: CancellationToken,
    pub(super) state: Mutex<State>,
    wakers: Mutex<Vec<(usize, Waker)>>,
    keeper: AtomicWaker,
}

/// What it means for a turn that its last subscriber has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DisconnectPolicy {
    /// The turn stops.
    Stop,
    /// The turn stops when nobody has come back for so long.
    Grace(Duration),
    /// The turn goes on.
    Detach,
}

impl DisconnectPolicy {
    /// `detach` is the request's; `grace` is the key's or `turns.disconnect_grace`.
    pub(crate) fn new(detach: bool, grace: Duration) -> Self {
        match (detach, grace) {
            (true, _) => Self::Detach,
            (false, Duration::ZERO) => Self::Stop,
            (false, grace) => Self::Grace(grace),
        }
    }
}

/// What a turn holds as long as it runs.
#[derive(Debug)]
#[expect(dead_code, reason = "they are given back when they are dropped")]
pub(crate) struct Held {
    pub(crate) permit: Option<RunPermit>,
    pub(crate) slot: Option<SessionSlot>,
}

/// The mutable part of a shared turn.
pub(super) struct State {
    /// `None` once the turn is over.
    inbox: Option<Inbox>,
    held: Option<Held>,
    /// All events so far; `None` if they are not kept.
    log: Option<KeptLog>,
    /// Where events are not kept: the one subscriber that receives them.
    only_subscriber: Option<usize>,
    pub(super) subscribers: usize,
    audience: Audience,
    /// The number given out last. Numbers tell subscribers apart.
    last_number: usize,
    done: Done,
    succeeded: bool,
    ended: Option<Instant>,
    /// The task has ended, though a subscriber may not have read all it said.
    task_ended: bool,
}

/// What a turn has done that must not be done twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Done {
    Nothing,
    /// A person was asked. If the turn is stopped then, nothing has happened.
    Asked,
    ToolsRan,
}

/// A log and its share of the memory for logs.
struct KeptLog {
    log: Log,
    reservation: Reservation,
}

/// Whether events are kept for those who come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    Nothing,
    All,
}

/// What a subscriber finds.
pub(super) enum Found {
    Events(VecDeque<(Cursor, TurnEvent)>),
    /// Nothing new.
    Nothing,
    /// What it has not read is not kept.
    Missing,
}

/// What a retry finds.
pub(super) enum Outcome {
    /// The turn runs, or its outcome stands.
    Stands,
    /// The turn is being stopped: wait until it is over.
    Stopping,
    /// It was stopped after tools had run.
    Stopped,
    /// Nothing has run that must not run twice.
    None,
}

/// Who looks on.
pub(super) enum Attendance {
    Someone,
    Nobody,
    /// The turn is over.
    Over,
}

impl State {
    pub(super) fn new(
        inbox: Inbox,
        (held, audience): (Held, Audience),
        retention: Retention,
        memory: &KeptMemory,
    ) -> Self {
        let kept = || KeptLog { log: Log::default(), reservation: memory.reservation() };
        Self {
            inbox: Some(inbox),
            held: Some(held),
            log: (retention == Retention::All).then(kept),
            only_subscriber: None,
            subscribers: 0,
            audience,
            last_number: 0,
            done: Done::Nothing,
            succeeded: false,
            ended: None,
            task_ended: false,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.inbox.is_none()
    }

    pub(super) fn is_kept(&self) -> bool {
        self.log.is_some()
    }

    /// Counts a further subscriber and returns its number.
    pub(super) fn enter(&mut self) -> usize {
        self.subscribers += 1;
        self.audience.set(self.subscribers);
        self.last_number += 1;
        if self.log.is_none() && self.last_number == NOBODY + 1 {
            self.only_subscriber = Some(self.last_number);
        }
        self.last_number
    }

    pub(super) fn leave(&mut self, number: usize) {
        self.subscribers -= 1;
        self.audience.set(self.subscribers);
        if self.only_subscriber == Some(number) {
            self.only_subscriber = Some(NOBODY);
        }
    }

    /// What others have taken and this subscriber has not.
    pub(super) fn find(&self, number: usize, cursor: Cursor) -> Found {
        match &self.log {
            None if self.only_subscriber == Some(number) => Found::Nothing,
            None => Found::Missing,
            Some(kept) => {
                let events: VecDeque<_> = kept.log.since(cursor).collect();
                if events.is_empty() { Found::Nothing } else { Found::Events(events) }
            }
        }
    }

    /// The kept events up to a place; `None` if they are not kept.
    pub(super) fn until(&self, cursor: Cursor) -> Option<Vec<TurnEvent>> {
        self.log.as_ref().map(|kept| kept.log.until(cursor))
    }

    pub(super) fn log_end(&self) -> Option<Cursor> {
        self.log.as_ref().map(|kept| kept.log.end())
    }

    /// Whether a subscriber takes the events of the turn. Otherwise the keeper does.
    fn has_reader(&self) -> bool {
        match (&self.log, self.only_subscriber) {
            (Some(_), _) => self.subscribers > 0,
            (None, reader) => reader != Some(NOBODY),
        }
    }

    fn note(&mut self, events: &VecDeque<TurnEvent>, reader: usize, memory: &KeptMemory) {
        for event in events {
            self.done = self.done.max(match event {
                TurnEvent::ToolStarted(_) => Done::ToolsRan,
                TurnEvent::Asked(_) => Done::Asked,
                _ => Done::Nothing,
            });
            if matches!(event, TurnEvent::Failed(failure) if !failure.tools_ran) {
                // A call that was told of has not run after all.
                self.done = Done::Nothing;
            }
            self.succeeded |= matches!(event, TurnEvent::Finished(_));
            if event.is_terminal() {
                self.inbox = None;
                self.ended = Some(Instant::now());
            }
        }
        let Some(kept) = &mut self.log else { return };
        if !kept.push(events, memory) {
            self.log = None;
            self.only_subscriber = Some(reader);
        }
    }

    fn outcome(&self, is_stopped: bool, outcome_is_kept: bool) -> Outcome {
        // What nobody has read yet may say that a tool has run.
        let is_unread = self.task_ended && !self.is_over();
        let is_kept = (outcome_is_kept || self.done == Done::Asked) && self.succeeded;
        let has_outcome = self.done == Done::ToolsRan || is_unread || is_kept;
        match (self.is_over() || self.task_ended, is_stopped && !self.succeeded) {
            (false, true) => Outcome::Stopping,
            (true, _) if !has_outcome => Outcome::None,
            (true, true) => Outcome::Stopped,
            (true | false, false) => Outcome::Stands,
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

/// What a turn is shared with.
pub(super) struct Parts {
    pub(super) identity: TurnIdentity,
    pub(super) shape: AnswerShape,
    pub(super) policy: DisconnectPolicy,
    pub(super) stop: CancellationToken,
    pub(super) decisions: Option<mpsc::UnboundedSender<Box<Decided>>>,
    pub(super) records: Records,
    pub(super) memory: KeptMemory,
}

impl SharedTurn {
    pub(super) fn new(parts: Parts, state: State) -> Arc<Self> {
        let Parts { identity, shape, policy, stop, decisions, records, memory } = parts;
        Arc::new(Self {
            identity,
            shape: Arc::new(shape),
            policy,
            stop,
            decisions,
            records,
            memory,
            over: CancellationToken::new(),
            state: Mutex::new(state),
            wakers: Mutex::default(),
            keeper: AtomicWaker::new(),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }

    /// When the turn ended.
    pub(super) fn ended(&self) -> Option<Instant> {
        self.state().ended
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Whether it goes on though nobody listens.
    pub(super) fn is_unattended(&self) -> bool {
        let may_go_on = self.policy != DisconnectPolicy::Stop && !self.stop.is_cancelled();
        may_go_on && self.state().subscribers == 0
    }

    /// What the turn has said by now; `None` if that is not kept.
    pub(super) fn said_so_far(&self) -> Option<String> {
        self.state().log.as_ref().map(|kept| kept.log.said())
    }

    /// Whether events are kept, so that others may hear them.
    pub(super) fn is_kept(&self) -> bool {
        self.state().is_kept()
    }

    /// What this turn is to a request that is sent again. `outcome_is_kept`: a turn that
    /// succeeded without tools counts as done too and is not started again. So does one that
    /// has asked a person.
    pub(super) fn outcome(&self, outcome_is_kept: bool) -> Outcome {
        self.state().outcome(self.stop.is_cancelled(), outcome_is_kept)
    }

    /// The task has ended: gives back what only a running turn holds, and does not wait for slow
    /// subscribers to read what is kept for them.
    pub(super) fn task_ended(self: &Arc<Self>) {
        let mut state = self.state();
        state.task_ended = true;
        let mut nobody = Context::from_waker(Waker::noop());
        while state.is_kept() && !state.is_over() {
            if self.poll_events(&mut state, NOBODY, &mut nobody).is_pending() {
                break;
            }
        }
        drop(state.held.take());
        drop(state);
        self.over.cancel();
        self.wake_all();
    }

    /// Takes the next events of the turn, and keeps them for others. `reader` is who takes them;
    /// should the log grow too long, they go on to nobody else.
    pub(super) fn poll_events(
        self: &Arc<Self>,
        state: &mut MutexGuard<'_, State>,
        reader: usize,
        context: &mut Context<'_>,
    ) -> Poll<VecDeque<TurnEvent>> {
        let Some(inbox) = &mut state.inbox else { return Poll::Ready(VecDeque::new()) };
        let Poll::Ready(events) = inbox.poll_take(context) else { return Poll::Pending };
        let events = events.unwrap_or_else(|| failed(self.broken_off()));
        state.note(&events, reader, &self.memory);
        if state.is_over() {
            self.end(state);
        }
        Poll::Ready(events)
    }

    /// Gives back what the turn held before anybody is told of its end: the next request may
    /// follow at once.
    fn end(self: &Arc<Self>, state: &mut MutexGuard<'_, State>) {
        drop(state.held.take());
        self.over.cancel();
        self.keeper.wake();
        if state.is_kept() {
            let turn: std::sync::Weak<Self> = Arc::downgrade(self);
            self.memory.ended(turn);
        }
    }

    /// The failure of a turn that ended without a terminal event: it was stopped, or has
    /// panicked, and the log has the message.
    fn broken_off(&self) -> Failure {
        if self.stop.is_cancelled() {
            Failure { error: cancelled(), tools_ran: true }
        } else {
            Failure::crash()
        }
    }

    /// From now on somebody follows each event, also of an answer that is sent whole.
    pub(super) fn follow(&self) {
        if let Some(inbox) = &mut self.state().inbox {
            inbox.wait_for_each();
        }
    }

    /// Who looks on. Where no subscriber takes the events of the turn, this takes them, so that
    /// a full queue does not stall it.
    pub(super) fn poll_attendance(self: &Arc<Self>, context: &mut Context<'_>) -> Attendance {
        self.keeper.register(context.waker());
        let mut state = self.state();
        let mut has_news = false;
        while !state.has_reader() && !state.is_over() {
            if self.poll_events(&mut state, NOBODY, context).is_pending() {
                break;
            }
            has_news = true;
        }
        let attendance = match (state.is_over(), state.subscribers) {
            (true, _) => Attendance::Over,
            (false, 0) => Attendance::Nobody,
            (false, _) => Attendance::Someone,
        };
        drop(state);
        if has_news {
            self.wake_all();
        }
        attendance
    }

    /// Tells the keeper that a subscriber has come or left.
    pub(super) fn attendance_changed(&self) {
        self.keeper.wake();
    }

    pub(super) fn wait(&self, number: usize, waker: &Waker) {
        let mut wakers = sync::lock(&self.wakers);
        match wakers.iter_mut().find(|(who, _)| *who == number) {
            Some((_, known)) => known.clone_from(waker),
            None => wakers.push((number, waker.clone())),
        }
    }

    pub(super) fn forget_waker(&self, number: usize) {
        sync::lock(&self.wakers).retain(|(who, _)| *who != number);
    }

    pub(super) fn wake_all(&self) {
        let wakers = std::mem::take(&mut *sync::lock(&self.wakers));
        for (_, waker) in wakers {
            waker.wake();
        }
    }
}

/// Subscribers that have not read to the end are told the rest from the record.
impl Forgettable for SharedTurn {
    fn forget(&self) {
        let mut state = self.state();
        state.log = None;
        state.only_subscriber = Some(NOBODY);
    }

    fn is_read(&self) -> bool {
        self.state().subscribers > 0
    }
}

/// Wakes all subscribers when the turn has new events.
impl Wake for SharedTurn {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

pub(super) fn failed(failure: Failure) -> VecDeque<TurnEvent> {
    VecDeque::from([TurnEvent::Failed(Box::new(failure))])
}

/// The outcome of a turn that was stopped after tools had run.
pub(super) fn cancelled() -> ApiError {
    let message = "The turn of this request was stopped after tools had run. It is not run \
                   again: look at what they did, then ask anew.";
    ApiError::new(ErrorCode::Cancelled, message)
}

/// The outcome of a turn of which neither log nor record can be read.
pub(super) fn too_long() -> ApiError {
    let message = "The turn of this request has run, but what it answered is too long to be \
                   said again. It is not run again: look at what its tools did, then ask anew.";
    ApiError::new(ErrorCode::Cancelled, message)
}

impl fmt::Debug for SharedTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTurn").field("id", &self.identity.id).finish_non_exhaustive()
    }
}
