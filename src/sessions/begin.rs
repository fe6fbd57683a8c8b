//! Begins the turn of a request: resolves its session, puts list and records together, and starts
//! the agent.

use std::sync::Arc;

use super::Sessions;
use super::address::Chain;
use super::assemble::{self, Assembled, Outcome};
use super::decisions::{are_decided, decisions};
use super::message::ClientMessage;
use super::record::TurnRecord;
use super::request::ChatRequest;
use super::resolve::Place;
use super::running::limits::RunPermit;
use super::running::shape::AnswerForm;
use super::running::{Begun, RequestFingerprint, Subscriber};
use crate::agent::beginning::Beginning;
use crate::agent::record::Asked;
use crate::clock;
use crate::errors::ApiError;
use crate::http::client_key::ClientKey;
use crate::ids::Scope;
use crate::store::rows::{ApprovalRow, Change, TurnStatus};
use crate::store::{ApprovalKey, StoreError};
use crate::upstream::TraceHeaders;

/// How often a request looks again after somebody else has decided what it was about to decide.
const MAX_LOOKS: usize = 3;

/// Who asks, and how.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) scope: Scope,
    pub(crate) key: Arc<ClientKey>,
    pub(crate) fingerprint: RequestFingerprint,
    pub(crate) form: AnswerForm,
    /// Sent with each upstream request.
    pub(crate) headers: TraceHeaders,
}

/// What is known of a turn before it starts.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) place: Place,
    pub(super) chain: Chain,
    pub(super) assembled: Assembled,
    /// Decisions of the request's reply, which are committed before the turn acts on them.
    pub(super) decided: Vec<Change>,
    /// Asks that the reply leaves out: they are asked again, and nothing runs.
    pub(super) left_out: Vec<Asked>,
}

impl Sessions {
    /// Begins the turn of a request. `permit` lets one more turn run.
    pub(crate) async fn begin(
        &self,
        mut request: ChatRequest,
        caller: Caller,
        permit: RunPermit,
    ) -> Result<Begun, ApiError> {
        if request.is_background {
            return self.start_background(request, caller, permit);
        }
        let mut messages = std::mem::take(&mut request.messages);
        for _ in 0..MAX_LOOKS {
            let chain = Chain::new(&caller.scope, &messages);
            let place = self.resolve(caller.scope, &request, &chain).await?;
            if let Some(subscriber) = self.running_resume(caller.scope, &place) {
                return Ok(Begun::Known(Box::new(subscriber)));
            }
            let approvals = self.approvals(caller.scope, &place).await?;
            // Only a request that decides something may have to look again.
            let list = match approvals.is_empty() {
                true => std::mem::take(&mut messages),
                false => messages.clone(),
            };
            let prepared = self.prepare(&request, list, chain, place, &approvals)?;
            let Some(prepared) = prepared else { return Ok(Begun::Nothing) };
            match self.record(&request, &caller, prepared).await {
                Err(NotStarted::Conflict) => {}
                Err(NotStarted::Failed(error)) => return Err(error),
                Ok(recorded) => return Ok(self.launch(request, caller, recorded, permit)),
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Puts the list and the records together; `None` if there is nothing to do.
    fn prepare(
        &self,
        request: &ChatRequest,
        messages: Vec<ClientMessage>,
        chain: Chain,
        mut place: Place,
        approvals: &[ApprovalRow],
    ) -> Result<Option<Prepared>, ApiError> {
        let is_decided = is_decided(&place, approvals);
        place.recall();
        let found = std::mem::take(&mut place.found);
        let server_history = request.server_history;
        let list = assemble::Request { messages, found, is_decided, server_history };
        let Outcome::Turn(mut assembled) = assemble::assemble(&chain, list)? else {
            return Ok(None);
        };
        let (mut decided, mut left_out) = (Vec::new(), Vec::new());
        if let Beginning::Resume(resume) = &mut assembled.beginning {
            let reply = assembled.reply.as_ref().map(|reply| &reply.said);
            let channel = self.asking(request).channel;
            let known = decisions(&resume.open, approvals, reply, channel, clock::now_ms());
            (decided, left_out) = (known.new, known.left_out);
            resume.decisions = known.decided;
        }
        Ok(Some(Prepared { place, chain, assembled: *assembled, decided, left_out }))
    }

    /// The turn that has taken up the open round already, if it still runs: the same reply finds
    /// it.
    fn running_resume(&self, scope: Scope, place: &Place) -> Option<Subscriber> {
        let is_running =
            |turn: &&Arc<TurnRecord>| turn.body.resumes && turn.row.status == TurnStatus::Running;
        let turn = place.found.attempts.iter().find(is_running)?;
        self.running.join(scope, &turn.row.id)
    }

    /// The approvals of the round that the request may take up.
    async fn approvals(&self, scope: Scope, place: &Place) -> Result<Vec<ApprovalRow>, StoreError> {
        let Some(last) = place.found.path.last() else { return Ok(Vec::new()) };
        let Some(open) = last.open().filter(|open| !open.asked.is_empty()) else {
            return Ok(Vec::new());
        };
        let mut rows = self.store.approvals(scope, ApprovalKey::Turn(last.row.id.clone())).await?;
        // What is asked again keeps the approvals of the turn that asked first.
        for asked in &open.asked {
            if rows.iter().all(|row| row.id != asked.id) {
                rows.extend(self.store.approvals(scope, ApprovalKey::Id(asked.id.clone())).await?);
            }
        }
        Ok(rows)
    }
}

/// Why a turn did not start.
pub(super) enum NotStarted {
    Failed(ApiError),
    /// Somebody else was quicker with a decision.
    Conflict,
}

impl From<ApiError> for NotStarted {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for NotStarted {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict => Self::Conflict,
            StoreError::Unavailable => Self::Failed(error.into()),
        }
    }
}

/// Whether all asks of the open round were decided over REST, and no turn has acted on it yet.
fn is_decided(place: &Place, approvals: &[ApprovalRow]) -> bool {
    let open = place.found.path.last().and_then(|turn| turn.open());
    let was_resumed = place.found.attempts.iter().any(|turn| turn.body.resumes);
    !was_resumed && open.is_some_and(|open| are_decided(open, approvals))
}
