//! Lists the turns under way, follows them and stops them.

use std::collections::HashSet;

use serde::Serialize;

use super::{Page, Rest, not_found, seconds};
use crate::errors::ApiError;
use crate::ids::{Scope, SessionId, TurnId};
use crate::sessions::open_approvals::open_approvals;
use crate::sessions::record::TurnRecord;
use crate::sessions::request::Progress;
use crate::sessions::running::shape::{AnswerForm, AnswerShape};
use crate::sessions::running::{Position, Subscriber, TurnIdentity};
use crate::store::TurnKey;
use crate::store::rows::{TurnRow, TurnStatus};

/// A turn in a list.
#[derive(Debug, Serialize)]
pub(crate) struct TurnItem {
    id: TurnId,
    session: SessionId,
    started: i64,
    state: TurnState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TurnState {
    Running,
    /// It runs, and waits for a person's decision.
    Waiting,
    /// Its request has ended with a question to a person.
    Suspended,
}

#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "a name of the wire")]
pub(crate) struct Cancelled {
    id: TurnId,
    object: &'static str,
    session: SessionId,
    /// Whether the turn still ran, or waited for a person.
    cancelled: bool,
}

impl Rest {
    /// The turns under way, the one started last first.
    pub(crate) async fn turns(&self, scope: Scope) -> Result<Page<TurnItem>, ApiError> {
        let open = open_approvals(&*self.store, &self.running, scope).await?;
        let mut asking: HashSet<TurnId> = open.into_iter().map(|approval| approval.turn).collect();
        let mut items: Vec<(i64, TurnItem)> = Vec::new();
        for turn in self.running.of_scope(scope) {
            let waits = asking.remove(&turn.identity.id);
            let state = if waits { TurnState::Waiting } else { TurnState::Running };
            let TurnIdentity { id, session, started_ms, .. } = turn.identity.clone();
            let started = seconds(started_ms);
            items.push((started_ms, TurnItem { id, session, started, state }));
        }
        for id in asking {
            let found = self.store.turns(scope, TurnKey::Id(id)).await?;
            let suspended = found.into_iter().filter(|row| row.status == TurnStatus::Suspended);
            items.extend(suspended.map(|row| (row.started_ms, suspended_item(row))));
        }
        items.sort_by(|(one, a), (other, b)| (other, a.id.as_str()).cmp(&(one, b.id.as_str())));
        Ok(Page::new(items.into_iter().map(|(_, item)| item).collect(), false))
    }

    /// The stream of a turn behind `position`.
    pub(crate) async fn follow(
        &self,
        scope: Scope,
        id: &str,
        position: Position,
    ) -> Result<Subscriber, ApiError> {
        let id = own(id);
        if let Some(running) = self.running.follow(scope, &id, position) {
            return Ok(running);
        }
        let record = self.running.records().newest(scope, TurnKey::Id(id)).await?;
        let record = record.ok_or_else(|| not_found("turn"))?;
        Ok(Subscriber::of_record(&record, shape_of(&record), position))
    }

    /// Stops the turn, if it runs, and returns when it is over. What it has asked a person is
    /// denied: nobody can approve it any more.
    pub(crate) async fn cancel(&self, scope: Scope, id: &str) -> Result<Cancelled, ApiError> {
        let id = own(id);
        let running = self.running.find(scope, &id).filter(|turn| !turn.is_over());
        let (session, cancelled) = match running {
            Some(turn) => {
                turn.stop().await;
                (turn.identity.session.clone(), true)
            }
            None => (self.session_of_ended(scope, &id).await?, false),
        };
        let closed = self.close_approvals(scope, id.clone()).await?;
        Ok(Cancelled { id, object: "turn", session, cancelled: cancelled || closed })
    }

    async fn session_of_ended(&self, scope: Scope, id: &TurnId) -> Result<SessionId, ApiError> {
        let row = self.store.turns(scope, TurnKey::Id(id.clone())).await?.into_iter().next();
        let kept = || self.running.find(scope, id).map(|turn| turn.identity.session.clone());
        row.map(|row| row.session).or_else(kept).ok_or_else(|| not_found("turn"))
    }
}

/// What could not be an id of ours is looked up as one that nobody has.
fn own(id: &str) -> TurnId {
    TurnId::parse(id).unwrap_or_else(TurnId::random)
}

fn suspended_item(row: TurnRow) -> TurnItem {
    let (started, state) = (seconds(row.started_ms), TurnState::Suspended);
    TurnItem { id: row.id, session: row.session, started, state }
}

/// A record holds no progress.
fn shape_of(record: &TurnRecord) -> AnswerShape {
    let include_usage = record.body.include_usage;
    let form = AnswerForm { stream: true, include_usage, progress: Progress::None };
    AnswerShape::of_record(record, form)
}
