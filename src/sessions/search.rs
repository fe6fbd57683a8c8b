//! Finds the record that a client's list goes on from: asks the store what `matching` decides by.

mod cards;
mod question;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::address::{Chain, Link};
use super::ancestry::MAX_FORKS;
use super::canonical;
use super::known_turns::KnownTurns;
use super::loading::Loading;
use super::matching::{self, Candidate, Point, Tree, Turn, Verdict, ids_fit};
use super::record::{TurnRecord, entries_by_turn};
use super::recorder;
use crate::agent::record::Entry;
use crate::ids::{Scope, SessionId, TurnId};
use crate::store::rows::{TurnRow, TurnStatus};
use crate::store::{SizeOf, Store, StoreError, TurnKey};

/// More sessions with the same answers are not told apart.
const MAX_SESSIONS: usize = 16;
/// Of turns that continue one another's link, so many are read.
const MAX_LINK_TURNS: usize = 64;
/// So many turns are loaded without asking for their size first.
const FEW_TURNS: usize = 2;
/// Of attempts at one answer, and of those that went on with what they left open, so many are
/// looked at.
const MAX_ATTEMPTS: usize = 64;
/// More turns that went on from one point are not looked at; the newest are.
const MAX_CHILDREN: usize = 8;

/// Turns that go on without their clients, each with what it has said by now, if that is known.
pub(crate) type Unattended = HashMap<TurnId, Option<String>>;

/// The record behind a list.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The session in which the request goes on. `None`: a fresh one, which finds no directory
    /// and no grants. `path` may be spliced nevertheless.
    pub(crate) session: Option<SessionId>,
    /// From the first turn to the one that the request hangs on, which is its `parent`.
    pub(crate) path: Vec<Arc<TurnRecord>>,
    /// How many links of the list are up to the last turn of `path`.
    pub(crate) links: usize,
    /// How many user messages behind them belong to the path: their turns were stopped.
    pub(crate) users: usize,
    /// Turns that went on from the same turn with the same list, newest first: interrupted
    /// attempts at an answer, and those that have closed an open round.
    pub(crate) attempts: Vec<Arc<TurnRecord>>,
    /// Whether the user messages of the list are those of the path.
    pub(crate) agrees: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Search<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) known: &'a KnownTurns,
    pub(crate) loading: &'a Loading,
    /// The turns that go on without their clients, with what each has said.
    pub(crate) unattended: &'a Unattended,
    pub(crate) scope: Scope,
    pub(crate) chain: &'a Chain,
}

impl Search<'_> {
    /// Reads a row. Nothing goes on from a turn whose body cannot be read.
    fn read_one(&self, row: TurnRow) -> Option<Turn> {
        let mut turn = Turn::from_row(row)?;
        let is_running = turn.row.status == TurnStatus::Running;
        if let Some(said) = self.unattended.get(&turn.row.id).filter(|_| is_running) {
            turn.body.unheard = true;
            turn.body.said_so_far.clone_from(said);
        }
        Some(turn)
    }

    fn read(&self, rows: Vec<TurnRow>) -> Vec<Arc<Turn>> {
        rows.into_iter().filter_map(|row| self.read_one(row)).map(Arc::new).collect()
    }

    /// Within a session that the client named.
    pub(crate) async fn in_session(&self, session: &SessionId) -> Result<Found, StoreError> {
        let tree = self.tree(session).await?;
        if let Some(point) = self.named_within(&tree).await? {
            let found = self.found(&tree, &point).await?;
            return Ok(Found { session: Some(session.clone()), agrees: true, ..found });
        }
        let base = tree.last_answer(self.chain, None).unwrap_or_default();
        let mut point = self.extend(&tree, base).await?;
        // Without an answer of ours, the request hangs on the newest turn.
        if point.turn.is_none()
            && let Some(newest) = tree.newest()
        {
            point = self.behind_newest(&tree, newest).await?;
        }
        let found = self.found(&tree, &point).await?;
        let turn = point.turn.as_ref();
        let agrees = turn.is_some_and(|turn| {
            let calls_agree =
                self.last_shown(&point).is_none_or(|link| tree.calls_agree(link, turn));
            calls_agree && tree.users_agree(self.chain, turn, point.links)
        });
        Ok(Found { session: Some(session.clone()), agrees, ..found })
    }

    /// The last link up to the point.
    fn last_shown(&self, point: &Point) -> Option<&Link> {
        self.chain.links.get(point.links.checked_sub(1)?)
    }

    /// A list that goes on from a turn whose answer its client did not hear, or repeats it, hangs on
    /// what that turn hung on. Any other hangs on the newest turn.
    async fn behind_newest(&self, tree: &Tree, newest: &Turn) -> Result<Point, StoreError> {
        if newest.delivery().may_be_cut() {
            let before = Point { turn: newest.row.parent.clone(), links: 0, users: 0 };
            let point = self.extend(tree, before.clone()).await?;
            if point != before || matching::is_attempt(self.chain, &before, newest) {
                return Ok(point);
            }
        }
        Ok(Point { turn: Some(newest.row.id.clone()), links: 0, users: 0 })
    }

    /// Finds it by content address: without an id, and where the id is new. Cards in the list name
    /// the turn exactly; the text decides where there are none.
    pub(crate) async fn by_content(&self) -> Result<Found, StoreError> {
        match self.by_cards().await? {
            Some(found) => Ok(found),
            None => self.by_text().await,
        }
    }

    async fn by_text(&self) -> Result<Found, StoreError> {
        let (rows, links) = self.longest().await?;
        let Some(last) = links.checked_sub(1).map(|last| &self.chain.links[last]) else {
            return Ok(Found::default());
        };
        let rows = self.told_apart(rows, links);
        if MAX_SESSIONS < sessions_of(&rows) {
            return Ok(Found::default());
        }
        let mut trees: HashMap<SessionId, Arc<Tree>> = HashMap::new();
        let mut candidates = Vec::new();
        for row in rows {
            if !trees.contains_key(&row.session) {
                trees.insert(row.session.clone(), self.tree(&row.session).await?);
            }
            let tree = &trees[&row.session];
            let agrees = tree.users_agree(self.chain, &row.id, links);
            let calls_agree = tree.calls_agree(last, &row.id);
            candidates.push(Candidate { turn: row.id, session: row.session, agrees, calls_agree });
        }
        // Where ids repeat, what the calls ask tells the turns apart.
        if candidates.iter().any(|candidate| candidate.calls_agree) {
            candidates.retain(|candidate| candidate.calls_agree);
        }
        let session = |turn: &TurnId| {
            candidates.iter().find(|known| known.turn == *turn).map(|known| known.session.clone())
        };
        match matching::decide(&candidates, last) {
            Verdict::Fresh => Ok(Found::default()),
            Verdict::Continue(turn) => {
                let Some(session) = session(&turn) else { return Ok(Found::default()) };
                let agrees = candidates.iter().any(|known| known.turn == turn && known.agrees);
                let point = Point { turn: Some(turn), links, users: 0 };
                let point = self.extend(&trees[&session], point).await?;
                let found = self.found(&trees[&session], &point).await?;
                Ok(Found { session: Some(session), agrees, ..found })
            }
            Verdict::Ambiguous(turns) => {
                let mut same: Option<Vec<Arc<TurnRecord>>> = None;
                for turn in turns {
                    let Some(session) = session(&turn) else { continue };
                    let path = self.path(&trees[&session], &turn).await?;
                    match &same {
                        Some(known) if !have_same_steps(known, &path) => {
                            return Ok(Found::default());
                        }
                        Some(_) => {}
                        None => same = Some(path),
                    }
                }
                Ok(Found { path: same.unwrap_or_default(), links, ..Found::default() })
            }
        }
    }

    /// Of turns in very many sessions, those that were asked what the list shows before their
    /// answer.
    fn told_apart(&self, rows: Vec<TurnRow>, links: usize) -> Vec<TurnRow> {
        if sessions_of(&rows) <= MAX_SESSIONS {
            return rows;
        }
        let users = &self.chain.users[links - 1];
        let has_same_users = |row: &TurnRow| {
            Turn::from_row(row.clone()).is_some_and(|turn| {
                turn.body.continues || matching::has_same_users(&turn.body, users)
            })
        };
        rows.into_iter().filter(has_same_users).collect()
    }

    /// The turns at the end of the longest chain that is known, newest first, and its length.
    async fn longest(&self) -> Result<(Vec<TurnRow>, usize), StoreError> {
        let links = &self.chain.links;
        let mut exact = (Vec::new(), 0);
        for digests in self.chain.lookups() {
            let rows = self.store.turns(self.scope, TurnKey::Chain(digests)).await?;
            let depth = rows.iter().map(|row| row.depth).max();
            if let Some(depth) = depth.and_then(|depth| usize::try_from(depth).ok()) {
                let rows = rows.into_iter().filter(|row| usize::try_from(row.depth) == Ok(depth));
                exact = (rows.collect(), depth.min(links.len()));
                break;
            }
        }
        if exact.1 == links.len() {
            return Ok(exact);
        }
        let cut = self.cut_short().await?;
        Ok(if cut.is_empty() { exact } else { (cut, links.len()) })
    }

    /// The turns of whose answer the list's last link is the beginning.
    async fn cut_short(&self) -> Result<Vec<TurnRow>, StoreError> {
        let Some(link) = self.chain.links.last() else { return Ok(Vec::new()) };
        let Some(head) = self.chain.last_head() else { return Ok(Vec::new()) };
        let rows = self.store.turns(self.scope, TurnKey::Head(head)).await?;
        let mut cut = Vec::new();
        for row in rows.into_iter().take(MAX_SESSIONS) {
            let Some(turn) = self.read_one(row.clone()) else { continue };
            if self.is_shown_by(link, Arc::new(turn)).await? {
                cut.push(row);
            }
        }
        Ok(cut)
    }

    /// Whether a link of the list shows the answer that ends with this turn, or its beginning.
    async fn is_shown_by(&self, link: &Link, turn: Arc<Turn>) -> Result<bool, StoreError> {
        let delivery = turn.delivery();
        let (said, sent) = self.link_shown(turn).await?;
        let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
        Ok(ids_fit(link, &sent, delivery.status) && matching::shows(link, &said, delivery))
    }

    /// Loads what was said in the link that ends with this turn, and the ids of the client's calls.
    async fn link_shown(&self, turn: Arc<Turn>) -> Result<(String, Vec<String>), StoreError> {
        let (mut turn, mut text) = (Some(turn), String::new());
        let mut ids: Vec<String> = Vec::new();
        for _ in 0..MAX_LINK_TURNS {
            let Some(known) = turn.take() else { break };
            let (continues, parent) = (known.body.continues, known.row.parent.clone());
            let records = self.records(vec![known]).await?;
            let said = records.first().map(|turn| turn.said());
            text = format!("{} {text}", canonical::said(&said.unwrap_or_default()));
            let own = records.iter().flat_map(|turn| turn.client_call_ids());
            ids.splice(0..0, own.map(str::to_owned));
            if let Some(parent) = parent.filter(|_| continues) {
                let rows = self.store.turns(self.scope, TurnKey::Id(parent)).await?;
                turn = rows.into_iter().find_map(|row| self.read_one(row)).map(Arc::new);
            }
        }
        Ok((text, ids))
    }

    /// The session's turns, and those of other sessions that they go on from.
    async fn tree(&self, session: &SessionId) -> Result<Arc<Tree>, StoreError> {
        let mut tree = self.own_turns(session).await?;
        for parent in tree.foreign_parents() {
            self.add_ancestors(&mut tree, parent).await?;
        }
        Ok(tree)
    }

    /// Adds a turn of another session, and those before it, also where that session forked.
    async fn add_ancestors(
        &self,
        tree: &mut Arc<Tree>,
        mut turn: TurnId,
    ) -> Result<(), StoreError> {
        for _ in 0..MAX_FORKS {
            if tree.get(&turn).is_some() {
                break;
            }
            let rows = self.store.turns(self.scope, TurnKey::Id(turn.clone())).await?;
            let Some(row) = rows.into_iter().next() else { break };
            let origin = self.own_turns(&row.session).await?;
            let tree = Arc::make_mut(tree);
            origin.ancestry(&turn).for_each(|turn| tree.add_ancestor(Arc::clone(turn)));
            match origin.missing_parent(&turn) {
                Some(parent) => turn = parent,
                None => break,
            }
        }
        Ok(())
    }

    /// The session's turns. Those that are known are not loaded again.
    async fn own_turns(&self, session: &SessionId) -> Result<Arc<Tree>, StoreError> {
        if let Some(newest) = self.known.newest(self.scope, session) {
            let key = TurnKey::After(session.clone(), newest);
            let newer = self.read(self.store.turns(self.scope, key).await?);
            if let Some(tree) = self.known.extended(self.scope, session, newer) {
                return Ok(tree);
            }
        }
        let size = self.store.size(self.scope, SizeOf::Turns(session.clone())).await?;
        self.loading.add(size)?;
        let rows = self.store.turns(self.scope, TurnKey::Session(session.clone())).await?;
        Ok(self.known.loaded(self.scope, session, self.read(rows)))
    }

    /// Goes on to turns that the list shows behind the point: stopped ones, or cut short.
    async fn extend(&self, tree: &Tree, mut point: Point) -> Result<Point, StoreError> {
        for _ in 0..MAX_CHILDREN {
            let children = tree.children(point.turn.as_ref()).take(MAX_CHILDREN);
            let children = self.records(children.map(Arc::clone).collect()).await?;
            let extended =
                children.iter().find_map(|child| matching::extended(self.chain, &point, child));
            match extended {
                Some(further) => point = further,
                None => break,
            }
        }
        Ok(point)
    }

    async fn found(&self, tree: &Tree, point: &Point) -> Result<Found, StoreError> {
        let mut path = match &point.turn {
            Some(turn) => self.path(tree, turn).await?,
            None => Vec::new(),
        };
        if let Some(last) = path.last_mut() {
            self.refresh(last).await?;
        }
        let is_end = point.links == self.chain.links.len();
        let resumes = |turn: &&Arc<Turn>| is_end && turn.body.resumes;
        let attempts = tree
            .children(point.turn.as_ref())
            .filter(|turn| resumes(turn) || matching::is_attempt(self.chain, point, turn));
        let mut attempts: Vec<Arc<Turn>> = attempts.take(MAX_CHILDREN).map(Arc::clone).collect();
        let taken_up = path.last().map_or(&[][..], |turn| turn.body.resumed_by.as_slice());
        for id in taken_up.iter().filter(|_| is_end) {
            // In a session of its own, if another request forked.
            if attempts.iter().all(|turn| turn.row.id != *id) {
                let rows = self.store.turns(self.scope, TurnKey::Id(id.clone())).await?;
                attempts.splice(0..0, self.read(rows));
            }
        }
        let mut attempts = self.records(attempts).await?;
        if is_end {
            self.add_resuming(tree, &mut attempts).await?;
        }
        let (links, users) = (point.links, point.users);
        Ok(Found { path, links, users, attempts, ..Found::default() })
    }

    /// Adds the turns that went on with a round which an attempt left open in its turn: what they
    /// ran is not run again.
    async fn add_resuming(
        &self,
        tree: &Tree,
        attempts: &mut Vec<Arc<TurnRecord>>,
    ) -> Result<(), StoreError> {
        let mut at = 0;
        while let Some(attempt) = attempts.get_mut(at).filter(|_| at < MAX_ATTEMPTS) {
            at += 1;
            if !attempt.body.resumes || attempt.open().is_none() {
                continue;
            }
            self.refresh(attempt).await?;
            let (id, mut further) = (attempt.row.id.clone(), attempt.body.resumed_by.clone());
            let own = tree.children(Some(&id)).filter(|turn| turn.body.resumes);
            further.extend(own.map(|turn| turn.row.id.clone()));
            for id in further {
                if attempts.iter().all(|turn| turn.row.id != id) {
                    let rows = self.store.turns(self.scope, TurnKey::Id(id)).await?;
                    attempts.extend(self.records(self.read(rows)).await?);
                }
            }
        }
        Ok(())
    }

    /// Reads the row of a turn with an open round again: it names the turns that have taken the
    /// round up, which may be more than when the turn was kept.
    async fn refresh(&self, turn: &mut Arc<TurnRecord>) -> Result<(), StoreError> {
        if turn.open().is_none() {
            return Ok(());
        }
        let rows = self.store.turns(self.scope, TurnKey::Id(turn.row.id.clone())).await?;
        if let Some(Turn { row, body }) = rows.into_iter().find_map(|row| self.read_one(row)) {
            *turn = Arc::new(TurnRecord { row, body, entries: turn.entries.clone() });
        }
        Ok(())
    }

    async fn path(&self, tree: &Tree, turn: &TurnId) -> Result<Vec<Arc<TurnRecord>>, StoreError> {
        let mut turns: Vec<_> = tree.ancestry(turn).map(Arc::clone).collect();
        turns.reverse();
        self.records(turns).await
    }

    /// The records of turns. Only those that are not known are loaded.
    async fn records(&self, turns: Vec<Arc<Turn>>) -> Result<Vec<Arc<TurnRecord>>, StoreError> {
        let mut records = self.known.records(self.scope, &turns);
        let missing = turns.iter().zip(&records).filter(|(_, record)| record.is_none());
        let missing: Vec<_> = missing.map(|(turn, _)| turn.row.id.clone()).collect();
        if missing.is_empty() {
            return Ok(records.into_iter().flatten().collect());
        }
        // A request that goes on from a known conversation loads its last turns alone.
        if FEW_TURNS < missing.len() {
            let size = self.store.size(self.scope, SizeOf::Entries(missing.clone())).await?;
            self.loading.add(size)?;
        }
        let mut sizes: HashMap<TurnId, usize> = HashMap::new();
        let rows = self.store.entries(self.scope, missing).await?;
        for row in &rows {
            *sizes.entry(row.turn.clone()).or_default() += row.body.len();
        }
        let mut entries = entries_by_turn(rows);
        for (turn, record) in turns.iter().zip(&mut records) {
            if record.is_none() {
                let entries = entries.remove(&turn.row.id).unwrap_or_default();
                let (row, body) = (turn.row.clone(), turn.body.clone());
                let new = Arc::new(TurnRecord { row, body, entries });
                let size = sizes.get(&turn.row.id).copied().unwrap_or_default();
                self.known.add_record(self.scope, &new, size);
                *record = Some(new);
            }
        }
        Ok(records.into_iter().flatten().collect())
    }
}

fn sessions_of(rows: &[TurnRow]) -> usize {
    rows.iter().map(|row| &row.session).collect::<HashSet<_>>().len()
}

/// Whether the same really happened in both: the steps, not who asked for them.
fn have_same_steps(one: &[Arc<TurnRecord>], other: &[Arc<TurnRecord>]) -> bool {
    let steps = |path: &[Arc<TurnRecord>]| -> Vec<String> {
        path.iter()
            .flat_map(|turn| turn.entries.iter().filter_map(|entry| step(turn, entry)))
            .collect()
    };
    steps(one) == steps(other)
}

/// What an entry tells of what happened.
fn step(turn: &TurnRecord, entry: &Entry) -> Option<String> {
    match entry {
        Entry::Round(round) => Some(round.messages.clone()),
        Entry::End(end) => {
            let last = end.last.as_ref().map(|last| &last.messages);
            let open = end.open.as_ref().map(recorder::json);
            Some(format!("{last:?} {open:?}"))
        }
        Entry::Compacted(_) => Some(String::from_utf8_lossy(&recorder::json(entry)).into_owned()),
        // A closed round has them.
        Entry::Intent(_) | Entry::Ran(_) if turn.end().is_some() => None,
        Entry::Intent(intent) => Some(intent.call.to_string()),
        Entry::Ran(ran) => Some(ran.answer.clone()),
        Entry::ClientAnswers { .. }
        | Entry::AgentStarted(_)
        | Entry::Asked { .. }
        | Entry::Prompt { .. } => None,
    }
}
