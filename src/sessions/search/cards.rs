//! Finds the turn that a list goes on from by the cards in it: their ids name the turns that
//! showed them.
//!
//! Two conversations may have the same questions and the same answers. Their cards are never the
//! same, so they decide before any text does. What the client has changed of an answer is still its
//! own: it is taken as sent, in the session that its cards name.

use std::sync::Arc;

use super::{Found, MAX_SESSIONS, Search};
use crate::ids::SessionId;
use crate::sessions::address::NamedTurn;
use crate::sessions::delivery_state::is_interrupted;
use crate::sessions::matching::{Point, Tree, Turn};
use crate::store::rows::TurnStatus;
use crate::store::{StoreError, TurnKey};

/// The most turns that are looked up of those that a list names, the newest first. Usually the
/// first is it.
const MAX_NAMED: usize = 16;

impl Search<'_> {
    /// Finds the newest turn that cards name and whose answer the list shows. Where all those answers
    /// were changed, the request goes on behind the newest turn. `None` if no card names a turn of
    /// this scope.
    pub(super) async fn by_cards(&self) -> Result<Option<Found>, StoreError> {
        let mut changed: Option<(SessionId, Arc<Tree>, Point)> = None;
        for named in self.chain.named.iter().rev().take(MAX_NAMED) {
            let rows = self.store.turns(self.scope, TurnKey::Id(named.turn.clone())).await?;
            let Some(row) = rows.into_iter().next() else { continue };
            let tree = self.tree(&row.session).await?;
            let Some(point) = self.behind_cards(&tree, named).await? else {
                // Nothing but its own answer takes up what a turn has left open.
                if row.status == TurnStatus::Finished || is_interrupted(row.status) {
                    let behind = Point { turn: Some(row.id), links: 0, users: 0 };
                    changed.get_or_insert((row.session, tree, behind));
                }
                continue;
            };
            let (session, tree, point) = match self.forked_behind(&row.session, &point).await? {
                Some(fork) => fork,
                None => (row.session, tree, point),
            };
            let found = self.found(&tree, &point).await?;
            return Ok(Some(Found { session: Some(session), agrees: true, ..found }));
        }
        let Some((session, tree, behind)) = changed else { return Ok(None) };
        let found = self.found(&tree, &behind).await?;
        Ok(Some(Found { session: Some(session), ..found }))
    }

    /// Returns the point behind the newest cards that name a turn of this tree.
    pub(super) async fn named_within(&self, tree: &Tree) -> Result<Option<Point>, StoreError> {
        let known = self.chain.named.iter().rev().filter(|named| tree.get(&named.turn).is_some());
        for named in known.take(MAX_NAMED) {
            if let Some(point) = self.behind_cards(tree, named).await? {
                return Ok(Some(point));
            }
        }
        Ok(None)
    }

    /// Returns the last point of the list that goes on from the named turn.
    async fn behind_cards(
        &self,
        tree: &Tree,
        named: &NamedTurn,
    ) -> Result<Option<Point>, StoreError> {
        let point = match named.users {
            Some(users) => stopped_in_silence(tree, named, users),
            None => match tree.last_answer(self.chain, Some(named)) {
                Some(point) => Some(point),
                None => self.cut_answer(tree, named).await?,
            },
        };
        match point {
            Some(point) => Ok(Some(self.extend(tree, point).await?)),
            None => Ok(None),
        }
    }

    /// The named turn, or one that continues its link, where the list shows the beginning of what
    /// they said.
    async fn cut_answer(
        &self,
        tree: &Tree,
        named: &NamedTurn,
    ) -> Result<Option<Point>, StoreError> {
        let Some(link) = named.links.checked_sub(1).and_then(|at| self.chain.links.get(at)) else {
            return Ok(None);
        };
        for turn in tree.continuing(&named.turn) {
            let id = turn.row.id.clone();
            if self.is_shown_by(link, turn).await? {
                return Ok(Some(Point { turn: Some(id), links: named.links, users: 0 }));
            }
        }
        Ok(None)
    }

    /// Returns the turn of another session that went on from the point with further answers of the
    /// list: a request that came while a turn ran has forked there.
    async fn forked_behind(
        &self,
        session: &SessionId,
        point: &Point,
    ) -> Result<Option<(SessionId, Arc<Tree>, Point)>, StoreError> {
        if point.links == self.chain.links.len() {
            return Ok(None);
        }
        let (rows, links) = self.longest().await?;
        if links <= point.links {
            return Ok(None);
        }
        let others = rows.into_iter().filter(|row| row.session != *session);
        for row in others.take(MAX_SESSIONS) {
            let tree = self.tree(&row.session).await?;
            let is_point = |turn: &Arc<Turn>| Some(&turn.row.id) == point.turn.as_ref();
            let goes_on_from_it = tree.ancestry(&row.id).any(is_point);
            if goes_on_from_it {
                let further = Point { turn: Some(row.id), links, users: 0 };
                let further = self.extend(&tree, further).await?;
                return Ok(Some((row.session, tree, further)));
            }
        }
        Ok(None)
    }
}

/// The point behind a turn that was stopped before it said anything: only its cards are there.
fn stopped_in_silence(tree: &Tree, named: &NamedTurn, users: usize) -> Option<Point> {
    let turn = tree.get(&named.turn).filter(|turn| turn.delivery().may_be_cut())?;
    Some(Point { turn: Some(turn.row.id.clone()), links: named.links, users })
}
