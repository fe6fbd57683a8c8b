//! Owns the turns that run. Requests only look on: a turn ends by itself, when it is stopped, or
//! when its policy says so because nobody looks on any more.

mod audience;
mod fingerprint;
mod keeper;
mod kept;
pub(crate) mod limits;
mod log;
mod position;
pub(crate) mod records;
mod repeated;
mod requests;
mod retold;
pub(crate) mod shape;
mod shared_turn;
mod slots;
mod subscriber;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub(crate) use self::audience::Audience;
pub(crate) use self::fingerprint::{RequestFingerprint, RequestName};
pub(crate) use self::position::Position;
pub(crate) use self::shared_turn::{DisconnectPolicy, Held, Retention, SharedTurn};
pub(crate) use self::slots::{ResumeSlot, SessionSlot};
use self::slots::{ResumeSlots, SessionSlots};
pub(crate) use self::subscriber::Subscriber;

use self::kept::KeptMemory;
use self::records::Records;
use self::repeated::{Repeated, repeated};
use self::requests::{Requests, Seen};
use self::shape::{AnswerForm, AnswerShape, Envelope};
use self::shared_turn::{Parts, State};
use crate::agent::beginning::Decided;
use crate::agent::outbox::Inbox;
use crate::clock;
use crate::errors::ApiError;
use crate::ids::{Scope, SessionId, TurnId};
use crate::sessions::background_agents::BackgroundAgents;
use crate::sessions::known_turns::KnownTurns;
use crate::store::rows::ApprovalRow;
use crate::store::{Store, TurnKey};
use crate::sync;

/// Bytes kept for all turns together; the turns that ended first give way, and are then told
/// from their records.
const MAX_KEPT_BYTES: usize = 32 << 20;

/// Above this number of turns, those that are gone are removed.
const PLACES: usize = 64;

/// What a turn is known by.
#[derive(Clone, Debug)]
pub(crate) struct TurnIdentity {
    pub(crate) id: TurnId,
    pub(crate) session: SessionId,
    /// The client's own name of the session, or its id.
    pub(crate) session_name: String,
    pub(crate) scope: Scope,
    /// Milliseconds since 1970.
    pub(crate) started_ms: i64,
}

/// A turn that has been started.
pub(crate) struct StartedTurn {
    pub(crate) identity: TurnIdentity,
    /// The model that the request named.
    pub(crate) model: String,
    pub(crate) events: Inbox,
    /// Tells the turn to stop: to interrupt its calls, to record what it did, and to end.
    pub(crate) stop: CancellationToken,
    /// Where a person's decisions go while the turn waits for them.
    pub(crate) decisions: Option<mpsc::UnboundedSender<Box<Decided>>>,
    /// Runs the turn to its end.
    pub(crate) agent: BoxFuture<'static, ()>,
}

impl fmt::Debug for StartedTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedTurn").field("id", &self.identity.id).finish_non_exhaustive()
    }
}

/// How a turn is shared.
#[derive(Debug)]
pub(crate) struct Sharing {
    pub(crate) form: AnswerForm,
    pub(crate) policy: DisconnectPolicy,
    pub(crate) retention: Retention,
    pub(crate) held: Held,
    /// Cancelled when the client key is revoked.
    pub(crate) revoked: CancellationToken,
    /// The right to resume the parent's open round. Released when the turn can be found, so that
    /// a request that waits for it joins it.
    pub(crate) resume: Option<ResumeSlot>,
    /// Shared with the turn's record.
    pub(crate) audience: Audience,
}

/// What a request has come to.
#[derive(Debug)]
pub(crate) enum Begun {
    Turn(Box<(StartedTurn, Sharing)>),
    /// A turn that runs already, or one that the store knows.
    Known(Box<Subscriber>),
    /// The request needs no answer.
    Nothing,
}

/// The turns that run, and those that ended recently.
#[derive(Debug)]
pub(crate) struct Running {
    /// Keepers hold those that run; requests hold some that ended.
    turns: Mutex<Turns>,
    keepers: Mutex<JoinSet<()>>,
    requests: Requests,
    pub(crate) slots: SessionSlots,
    pub(crate) resumes: ResumeSlots,
    records: Records,
    memory: KeptMemory,
    /// What later requests need not load again.
    pub(crate) known: KnownTurns,
    pub(super) background_agents: BackgroundAgents,
}

#[derive(Debug, Default)]
struct Turns {
    by_id: HashMap<TurnId, Weak<SharedTurn>>,
    /// How many there were after the last removal.
    left: usize,
}

impl Running {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            turns: Mutex::default(),
            keepers: Mutex::default(),
            requests: Requests::default(),
            slots: SessionSlots::default(),
            resumes: ResumeSlots::default(),
            records: Records::new(store),
            memory: KeptMemory::new(MAX_KEPT_BYTES),
            known: KnownTurns::default(),
            background_agents: BackgroundAgents::default(),
        }
    }

    /// Answers a request: by the turn that the same request has started before, or by a new one;
    /// `None` if it needs no answer.
    /// `form` is how this request wants its answer. If the future is dropped before `start` has
    /// ended, another request of the same name may start the turn.
    pub(crate) async fn listen(
        &self,
        scope: Scope,
        fingerprint: RequestFingerprint,
        form: AnswerForm,
        start: impl AsyncFnOnce() -> Result<Begun, ApiError>,
    ) -> Result<Option<Subscriber>, ApiError> {
        let reservation = loop {
            match self.requests.look(scope, fingerprint)? {
                Seen::New(reservation) => break reservation,
                Seen::Turn(turn) => return Ok(Some(Subscriber::new(&turn))),
                Seen::Wait(settled) => settled.cancelled().await,
            }
        };
        if let Some(recorded) = self.recorded(scope, fingerprint, form).await? {
            return Ok(Some(recorded));
        }
        match start().await? {
            Begun::Turn(begun) => {
                let (turn, subscriber) = self.begin(begun.0, begun.1);
                reservation.publish(&turn);
                Ok(Some(subscriber))
            }
            Begun::Known(subscriber) => Ok(Some(*subscriber)),
            Begun::Nothing => Ok(None),
        }
    }

    /// The turn of a request that was sent before, if only the store knows it.
    async fn recorded(
        &self,
        scope: Scope,
        fingerprint: RequestFingerprint,
        form: AnswerForm,
    ) -> Result<Option<Subscriber>, ApiError> {
        let by = match fingerprint.idempotency() {
            Some(name) => TurnKey::Idempotency(name),
            None if fingerprint.is_retry => TurnKey::Request(fingerprint.request()),
            None => return Ok(None),
        };
        let Some(record) = self.records.newest(scope, by).await? else { return Ok(None) };
        if repeated(&record, fingerprint, clock::now_ms())? == Repeated::RunsAnew {
            return Ok(None);
        }
        let shape = AnswerShape::of_record(&record, form);
        Ok(Some(Subscriber::of_record(&record, shape, Position::default())))
    }

    /// Takes over a turn, and returns its first subscriber.
    pub(crate) fn begin(
        &self,
        started: StartedTurn,
        sharing: Sharing,
    ) -> (Arc<SharedTurn>, Subscriber) {
        let StartedTurn { identity, model, mut events, .. } = started;
        let Sharing { form, policy, retention, held, revoked, resume, audience } = sharing;
        if !form.stream {
            events.wait_for_end();
        }
        let envelope = Envelope::of_turn(&identity.id, identity.started_ms, model);
        let parts = Parts {
            identity,
            shape: AnswerShape { envelope, form },
            policy,
            stop: started.stop,
            decisions: started.decisions,
            records: self.records.clone(),
            memory: self.memory.clone(),
        };
        let state = State::new(events, (held, audience), retention, &self.memory);
        let turn = SharedTurn::new(parts, state);
        let subscriber = Subscriber::new(&turn);
        sync::lock(&self.turns).insert(&turn);
        // Whoever waited for it finds this turn.
        drop(resume);
        let mut keepers = sync::lock(&self.keepers);
        while keepers.try_join_next().is_some() {}
        keepers.spawn(keeper::keep(Arc::clone(&turn), started.agent, revoked));
        drop(keepers);
        (turn, subscriber)
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    /// The turns of a scope that run now.
    pub(crate) fn of_scope(&self, scope: Scope) -> Vec<Arc<SharedTurn>> {
        self.all()
            .into_iter()
            .filter(|turn| turn.identity.scope == scope && !turn.is_over())
            .collect()
    }

    /// The turn, if it runs or what it said is still kept.
    pub(crate) fn find(&self, scope: Scope, id: &TurnId) -> Option<Arc<SharedTurn>> {
        let turn = sync::lock(&self.turns).by_id.get(id).and_then(Weak::upgrade);
        turn.filter(|turn| turn.identity.scope == scope)
    }

    /// Whether who has asked for it runs: a turn, or an agent in the background.
    pub(crate) fn hears_of(&self, approval: &ApprovalRow) -> bool {
        let turn = self.find(approval.scope, &approval.turn);
        turn.is_some_and(|turn| !turn.is_over()) || self.background_agents.have_asked(approval)
    }

    /// Sends a decision to whoever waits for it. Others find it in the store.
    pub(crate) fn decide(&self, approval: &ApprovalRow, decided: Decided) {
        match self.find(approval.scope, &approval.turn) {
            Some(turn) => turn.decide(decided),
            None => self.background_agents.decide(approval, decided),
        }
    }

    /// Looks on at a turn that runs, from its beginning; `None` if it is not known here.
    pub(crate) fn join(&self, scope: Scope, id: &TurnId) -> Option<Subscriber> {
        Some(Subscriber::new(&self.find(scope, id)?))
    }

    /// Follows a turn behind `position`; `None` if it is not known here.
    pub(crate) fn follow(
        &self,
        scope: Scope,
        id: &TurnId,
        position: Position,
    ) -> Option<Subscriber> {
        Some(Subscriber::new(&self.find(scope, id)?).behind(position))
    }

    /// Stops the turns of a session, and waits until they are over.
    pub(crate) async fn stop_session(&self, scope: Scope, session: &SessionId) {
        let turns =
            self.of_scope(scope).into_iter().filter(|turn| turn.identity.session == *session);
        for turn in turns {
            turn.stop().await;
        }
    }

    /// Forgets what is kept of a session's turns, which are over: they are not told again.
    pub(crate) fn forget_session(&self, scope: Scope, session: &SessionId) {
        let is_of =
            |turn: &SharedTurn| turn.identity.scope == scope && turn.identity.session == *session;
        let is_gone = |turn: &Weak<SharedTurn>| turn.upgrade().is_none_or(|turn| is_of(&turn));
        sync::lock(&self.turns).by_id.retain(|_, turn| !is_gone(turn));
        self.requests.forget(is_of);
        self.known.forget(scope, session);
    }

    /// Waits until the turns of a session, or of the whole scope, that were told to stop are
    /// over: what they did belongs to the next request.
    pub(crate) async fn stopped(&self, scope: Scope, session: Option<&SessionId>) {
        let stopping = self.stopping(scope);
        for turn in
            stopping.iter().filter(|turn| session.is_none_or(|id| turn.identity.session == *id))
        {
            turn.over().await;
        }
    }

    /// The turns of a scope that go on though their clients have left, each with what it has said,
    /// unless that is not kept. What they have done by now belongs to the next request.
    pub(crate) fn unattended(&self, scope: Scope) -> HashMap<TurnId, Option<String>> {
        let turns = self.of_scope(scope).into_iter().filter(|turn| turn.is_unattended());
        turns.map(|turn| (turn.identity.id.clone(), turn.said_so_far())).collect()
    }

    /// The turns of a scope that were told to stop and are not over yet.
    pub(crate) fn stopping(&self, scope: Scope) -> Vec<Arc<SharedTurn>> {
        let turns = self.of_scope(scope).into_iter();
        turns.filter(|turn| turn.stop.is_cancelled()).collect()
    }

    /// Waits until all turns are over.
    pub(crate) async fn all_over(&self) {
        for turn in self.all() {
            turn.over().await;
        }
        // What a turn does behind its last event.
        let mut keepers = std::mem::take(&mut *sync::lock(&self.keepers));
        while keepers.join_next().await.is_some() {}
    }

    /// Gives up what is kept in memory of ended turns, for clients that come back and for the
    /// next requests of their sessions. These are then told from the records.
    pub(crate) fn forget_ended(&self) {
        self.memory.forget_unread();
        self.known.forget_all();
    }

    /// Ends all turns: they may go on for `grace`, then `turns_over` is cancelled, and what still
    /// runs after `limit` is stopped.
    pub(crate) async fn end(
        &self,
        grace: Duration,
        turns_over: &CancellationToken,
        limit: Duration,
    ) {
        if timeout(grace, self.all_over()).await.is_ok() {
            return;
        }
        turns_over.cancel();
        if timeout(limit, self.all_over()).await.is_err() {
            futures::future::join_all(self.all().iter().map(|turn| turn.stop())).await;
        }
    }

    fn all(&self) -> Vec<Arc<SharedTurn>> {
        sync::lock(&self.turns).by_id.values().filter_map(Weak::upgrade).collect()
    }
}

impl Turns {
    fn insert(&mut self, turn: &Arc<SharedTurn>) {
        if self.by_id.len() > 2 * self.left + PLACES {
            self.by_id.retain(|_, turn| turn.strong_count() > 0);
            self.left = self.by_id.len();
        }
        self.by_id.insert(turn.identity.id.clone(), Arc::downgrade(turn));
    }
}

impl SharedTurn {
    /// Stops the turn, and waits until it is over.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.over().await;
    }

    /// Waits until the turn is over: what it did is recorded.
    pub(crate) async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Sends a decision to the turn that waits for it. Whoever does not wait finds it in the
    /// store.
    pub(crate) fn decide(&self, decided: Decided) {
        if let Some(decisions) = &self.decisions {
            let _ = decisions.send(Box::new(decided));
        }
    }
}

#[cfg(test)]
pub(crate) use self::retold::samples as retold_samples;

#[cfg(test)]
mod tests;
