//! A turn and all who listen to it: the client that asked, and each retry of its
//! request. The turn ends when the last of them leaves.

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
use crate::buffers::Share;
use crate::ids::{SessionId, TurnId};
use crate::openai::error::{ApiError, ErrorCode};
use crate::sessions::RunningTurn;

/// The most that is kept of one turn: a long answer, many times over.
const MOST_OF_ONE: usize = 512 << 10;

/// The number of no listener.
const NOBODY: usize = 0;

pub(super) struct Run {
    pub(super) session: SessionId,
    pub(super) turn: TurnId,
    pub(super) shape: Shape,
    /// Of what is kept of all turns.
    memory: KeptMemory,
    told: Mutex<Told>,
    waiting: Mutex<Vec<(usize, Waker)>>,
}

/// What has come of the turn.
struct Told {
    source: Source,
    /// All of it; `None` where nothing is kept.
    log: Option<Kept>,
    /// Who takes what is not kept.
    sole: Option<usize>,
    listeners: usize,
    /// Of the listeners, who are told apart by their numbers.
    last_number: usize,
    tools_ran: bool,
    succeeded: bool,
    /// Everyone left before it had ended.
    is_cancelled: bool,
    ended: Option<Instant>,
}

/// Where events come from.
enum Source {
    Turn {
        turn: RunningTurn,
        _permit: RunPermit,
    },
    /// Everyone has left, and the turn is being stopped.
    Left(Inbox),
    /// Nothing more comes.
    Dry,
}

/// A log, and its share of what all of them may take.
struct Kept {
    log: Log,
    share: Share,
}

/// One who listens. Dropping the last one stops the turn.
pub(super) struct Listener {
    pub(super) run: Arc<Run>,
    number: usize,
    cursor: Cursor,
}

/// What a retry finds.
pub(super) enum Joined {
    Listening(Listener),
    /// Nothing has happened that must not happen again.
    Anew,
    /// The turn is being stopped: see [`Run::stopped`].
    Leaving,
    Refused(ApiError),
}

/// Whether what is told is kept for retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Nothing,
    All,
}

impl Run {
    /// The first listener of a turn.
    pub(super) fn begin(
        mut turn: RunningTurn,
        permit: RunPermit,
        shape: Shape,
        keep: Keep,
        memory: &KeptMemory,
    ) -> Listener {
        let (session, id) = (turn.session.clone(), turn.id.clone());
        if !shape.stream {
            turn.events.be_patient();
        }
        let kept = || Kept { log: Log::default(), share: memory.share() };
        let told = Told {
            log: (keep == Keep::All).then(kept),
            sole: None,
            listeners: 0,
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
            told: Mutex::new(told),
            waiting: Mutex::default(),
        };
        Arc::new(run).listener()
    }

    fn listener(self: Arc<Self>) -> Listener {
        let mut told = self.told();
        told.listeners += 1;
        told.last_number += 1;
        let number = told.last_number;
        if told.log.is_none() {
            told.sole = Some(number);
        }
        drop(told);
        Listener { run: self, number, cursor: Cursor::default() }
    }

    /// What someone finds who sends the same request again. `outcome_is_kept`: also
    /// one that has ended well without a tool is not asked for anew.
    pub(super) fn join(self: &Arc<Self>, outcome_is_kept: bool) -> Joined {
        let told = self.told();
        match told.source {
            Source::Left(_) => return Joined::Leaving,
            Source::Turn { .. } => {}
            Source::Dry if told.is_of_use(outcome_is_kept) => {}
            Source::Dry => return Joined::Anew,
        }
        if told.is_cancelled || told.log.is_none() {
            let error = if told.is_cancelled { cancelled() } else { too_long() };
            return Joined::Refused(error);
        }
        drop(told);
        Joined::Listening(self.clone().listener())
    }

    /// Waits until a turn that everyone has left is over.
    pub(super) async fn stopped(self: &Arc<Self>) {
        let number = {
            let mut told = self.told();
            told.last_number += 1;
            told.last_number
        };
        std::future::poll_fn(|context| {
            let mut told = self.told();
            self.wait(number, context.waker());
            while let Source::Left(inbox) = &mut told.source {
                let all = Waker::from(self.clone());
                let events = ready!(inbox.poll_take(&mut Context::from_waker(&all)));
                told.note_left(events);
            }
            Poll::Ready(())
        })
        .await;
        self.forget_waiting(number);
        self.wake_all();
    }

    /// When it ended, or when everyone had left it.
    pub(super) fn ended(&self) -> Option<Instant> {
        self.told().ended
    }

    /// Whether what is told is kept, so that others may come to listen.
    pub(super) fn is_kept(&self) -> bool {
        self.told().log.is_some()
    }

    /// Whether someone who comes may not simply begin anew.
    pub(super) fn is_of_use(&self, outcome_is_kept: bool) -> bool {
        let told = self.told();
        !matches!(told.source, Source::Dry) || told.is_of_use(outcome_is_kept)
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().expect("no holder panics")
    }

    fn wait(&self, number: usize, waker: &Waker) {
        let mut waiting = self.waiting.lock().expect("no holder panics");
        match waiting.iter_mut().find(|(who, _)| *who == number) {
            Some((_, known)) => known.clone_from(waker),
            None => waiting.push((number, waker.clone())),
        }
    }

    fn forget_waiting(&self, number: usize) {
        self.waiting.lock().expect("no holder panics").retain(|(who, _)| *who != number);
    }

    fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock().expect("no holder panics"));
        for (_, waker) in waiting {
            waker.wake();
        }
    }
}

/// Who still listens to the end is told that it cannot be said again.
impl Forgettable for Run {
    fn forget(&self) {
        let mut told = self.told();
        told.log = None;
        told.sole = Some(NOBODY);
    }
}

/// News of the turn are news for all who listen.
impl Wake for Run {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

impl Told {
    fn is_of_use(&self, outcome_is_kept: bool) -> bool {
        self.tools_ran || outcome_is_kept && self.succeeded
    }

    fn note(&mut self, events: &VecDeque<TurnEvent>, memory: &KeptMemory) {
        for event in events {
            self.tools_ran |= matches!(event, TurnEvent::ToolStarted(_));
            self.succeeded |= matches!(event, TurnEvent::Finished(_));
            if event.is_terminal() {
                self.source = Source::Dry;
                self.ended = Some(Instant::now());
            }
        }
        let is_kept = self.log.as_mut().is_none_or(|kept| kept.push(events, memory));
        if !is_kept {
            self.log = None;
        }
    }

    /// What others have taken, and this listener has not heard.
    fn missed_by(&self, number: usize, cursor: &mut Cursor) -> Option<VecDeque<TurnEvent>> {
        let Some(kept) = &self.log else {
            let is_cut_off = self.sole.is_some_and(|sole| sole != number);
            return is_cut_off.then(|| failed(too_long()));
        };
        let events: VecDeque<_> = kept.log.since(*cursor).collect();
        *cursor = kept.log.end();
        (!events.is_empty()).then_some(events)
    }

    /// The turn was being stopped when these came; `None`: it has been.
    fn note_left(&mut self, events: Option<VecDeque<TurnEvent>>) {
        match events {
            None => self.source = Source::Dry,
            Some(events) => {
                let ran = |event: &TurnEvent| matches!(event, TurnEvent::ToolStarted(_));
                self.tools_ran |= events.iter().any(ran);
            }
        }
    }
}

impl Kept {
    /// False when it would become too much; then nothing was copied.
    fn push(&mut self, events: &VecDeque<TurnEvent>, memory: &KeptMemory) -> bool {
        let more: usize = events.iter().map(Log::size_of).sum();
        let bytes = self.log.bytes() + more;
        if bytes > MOST_OF_ONE || memory.hold(&mut self.share, bytes).is_err() {
            return false;
        }
        for event in events {
            self.log.push(event);
        }
        true
    }
}

impl Listener {
    /// The next events, to the terminal one; then `None`.
    pub(super) fn poll_take(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<VecDeque<TurnEvent>>> {
        let Self { run, number, cursor } = self;
        let mut told = run.told();
        if let Some(missed) = told.missed_by(*number, cursor) {
            return Poll::Ready(Some(missed));
        }
        let Source::Turn { turn, .. } = &mut told.source else { return Poll::Ready(None) };
        run.wait(*number, context.waker());
        let all = Waker::from(run.clone());
        let events = ready!(turn.events.poll_take(&mut Context::from_waker(&all)));
        let events = events.unwrap_or_else(crashed);
        let was_kept = told.log.is_some();
        told.note(&events, &run.memory);
        let may_be_forgotten = told.log.is_some() && told.ended.is_some();
        match &told.log {
            Some(kept) => *cursor = kept.log.end(),
            None if was_kept => told.sole = Some(*number),
            None => {}
        }
        let others_listen = told.listeners > 1;
        drop(told);
        if may_be_forgotten {
            let ended: Weak<Run> = Arc::downgrade(run);
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

impl Drop for Listener {
    fn drop(&mut self) {
        self.run.forget_waiting(self.number);
        let mut told = self.run.told();
        told.listeners -= 1;
        if told.listeners > 0 {
            return;
        }
        let source = std::mem::replace(&mut told.source, Source::Dry);
        if let Source::Turn { turn: RunningTurn { events, .. }, .. } = source {
            told.log = None;
            told.is_cancelled = true;
            told.ended = Some(Instant::now());
            told.source = Source::Left(events);
        }
    }
}

/// A turn that is gone without a terminal event has panicked; the log says where.
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

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("run", &self.run).finish_non_exhaustive()
    }
}
