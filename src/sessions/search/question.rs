//! Finds a question of ours by itself: by its text, with which the list ends, or by the code that
//! the reply names.
//!
//! A client that sends its newest messages alone has no chain from the first answer on. The code
//! and the effect of a question are the same nowhere else in the scope.

use std::sync::Arc;

use super::{Found, Search};
use crate::agent::asking::question_text::{codes_in, folded, shows};
use crate::agent::asking::reply::codes_of_reply;
use crate::ids::{ApprovalId, SessionId};
use crate::sessions::matching::Point;
use crate::sessions::record::TurnRecord;
use crate::store::rows::{ApprovalRow, TurnStatus};
use crate::store::{ApprovalKey, StoreError, TurnKey};

/// The most codes that are looked up for one question.
const MAX_CODES: usize = 8;

/// The most turns that are looked at because they asked the same again.
const MAX_ASKING_AGAIN: usize = 64;

impl Search<'_> {
    /// Finds the turn whose question the list ends with, one user message behind it. Where the list
    /// does not show all of it, the code that the reply names finds it. `None` also where several
    /// questions fit.
    pub(crate) async fn by_question(&self) -> Result<Option<Found>, StoreError> {
        let Some(reply) = self.chain.reply() else { return Ok(None) };
        let shown = self.chain.last_message();
        let is_shown = |turn: &TurnRecord| shows(shown, &turn.question());
        let mut asking = self.asking(codes_in(&folded(shown)), is_shown).await?;
        if asking.is_none() && !self.chain.links.is_empty() {
            asking = self.asking(codes_of_reply(reply), |_| true).await?;
        }
        match asking {
            Some(turn) => Ok(Some(self.at_question(&turn).await?)),
            None => Ok(None),
        }
    }

    /// Finds the newest turn that asks under these codes, of those that fit. `None` where turns fit
    /// that ask about different calls.
    async fn asking(
        &self,
        codes: Vec<String>,
        fits: impl Fn(&TurnRecord) -> bool,
    ) -> Result<Option<Arc<TurnRecord>>, StoreError> {
        let mut asking: Option<Arc<TurnRecord>> = None;
        for code in codes.into_iter().take(MAX_CODES) {
            for row in self.store.approvals(self.scope, ApprovalKey::Code(code)).await? {
                let turns = self.turns_asking(&row).await?;
                let Some(turn) = turns.iter().rev().find(|turn| fits(turn)) else { continue };
                if asking.as_ref().is_some_and(|known| !asks_same(known, turn)) {
                    return Ok(None);
                }
                asking.get_or_insert_with(|| Arc::clone(turn));
            }
        }
        Ok(asking)
    }

    /// Finds the turn that took up the decision named by the reply's code, if the session has
    /// decided about it before: another reply finds what became of it.
    pub(crate) async fn by_decided_code(
        &self,
        session: &SessionId,
    ) -> Result<Option<Found>, StoreError> {
        let codes = self.chain.reply().map(codes_of_reply).unwrap_or_default();
        for code in codes.into_iter().take(MAX_CODES) {
            for row in self.store.approvals(self.scope, ApprovalKey::Code(code)).await? {
                if row.session != *session || row.decision.is_none() {
                    continue;
                }
                for turn in self.turns_asking(&row).await?.iter().rev() {
                    let found = self.at_question(turn).await?;
                    let taken_up = found.attempts.iter().find(|attempt| attempt.body.resumes);
                    if taken_up.is_some_and(|attempt| stands(attempt) && !asks(attempt, &row.id)) {
                        return Ok(Some(found));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Loads the turn that asked, and those that asked the same again, in their order.
    async fn turns_asking(&self, row: &ApprovalRow) -> Result<Vec<Arc<TurnRecord>>, StoreError> {
        let mut asking: Vec<Arc<TurnRecord>> = Vec::new();
        let mut next = vec![row.turn.clone()];
        while asking.len() < MAX_ASKING_AGAIN
            && let Some(id) = next.pop()
        {
            let rows = self.store.turns(self.scope, TurnKey::Id(id)).await?;
            for mut turn in self.records(self.read(rows)).await? {
                // By now it may have been taken up.
                self.refresh(&mut turn).await?;
                if asks(&turn, &row.id) && asking.iter().all(|known| known.row.id != turn.row.id) {
                    next.extend(turn.body.resumed_by.iter().cloned());
                    asking.push(turn);
                }
            }
        }
        Ok(asking)
    }

    /// Returns what the list goes on from, if it ends with the question of this turn.
    async fn at_question(&self, asking: &TurnRecord) -> Result<Found, StoreError> {
        let session = asking.row.session.clone();
        let tree = self.tree(&session).await?;
        let turn = Some(asking.row.id.clone());
        let point = Point { turn, links: self.chain.links.len(), users: 0 };
        let found = self.found(&tree, &point).await?;
        Ok(Found { session: Some(session), agrees: true, ..found })
    }
}

fn asks(turn: &TurnRecord, approval: &ApprovalId) -> bool {
    turn.open().is_some_and(|open| open.asked.iter().any(|asked| asked.id == *approval))
}

/// Whether both ask about one approval at least: one of them asks again.
fn asks_same(one: &TurnRecord, other: &TurnRecord) -> bool {
    let asked = one.open().map_or(&[][..], |open| &open.asked);
    asked.iter().any(|asked| asks(other, &asked.id))
}

/// Whether the turn runs, or has an outcome that stands.
fn stands(turn: &TurnRecord) -> bool {
    matches!(
        turn.row.status,
        TurnStatus::Running
            | TurnStatus::Finished
            | TurnStatus::AwaitsClient
            | TurnStatus::Suspended
    )
}
