//! Decides which recorded turn a client's list goes on from.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::address::{Chain, Link, MIN_PREFIX, NamedTurn, User};
use super::canonical;
use super::client_calls::CallDigest;
use super::delivery_state::{DeliveryState, is_interrupted};
use super::record::{SentMessage, TurnBody, TurnRecord};
use crate::ids::{SessionId, TurnId};
use crate::openai::message::text_of;
use crate::store::rows::{Digest, TurnRow, TurnStatus};

/// An answer of this many characters is proof enough that a list is of that conversation.
const MIN_PROOF: usize = 200;

/// Of so many turns with the same last answer, the newest are compared.
const MAX_COMPARED: usize = 64;

/// So many earlier answers are compared to tell such turns apart.
const MAX_ALIGNED: usize = 32;

/// The turns of a session, with those of other sessions that they go on from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    turns: HashMap<TurnId, Arc<Turn>>,
    /// Newest first.
    order: Vec<TurnId>,
    children: HashMap<Option<TurnId>, Vec<TurnId>>,
    /// The turns of other sessions that turns of this tree go on from. Some may have been added
    /// since (`add_ancestor`).
    foreign_parents: HashSet<TurnId>,
}

/// A recorded turn, with what its body tells of it.
#[derive(Debug)]
pub(crate) struct Turn {
    /// Its own `body` is empty: `body` has it.
    pub(crate) row: TurnRow,
    pub(crate) body: TurnBody,
}

/// The point that a list goes on from, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) turn: Option<TurnId>,
    /// The number of links of the list up to that turn.
    pub(crate) links: usize,
    /// The number of user messages behind them that belong to the turn: it was stopped before it
    /// said anything that the client kept.
    pub(crate) users: usize,
}

/// What the user messages say about several turns with the same answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Continue(TurnId),
    /// Hidden steps may be spliced if all of these have the same.
    Ambiguous(Vec<TurnId>),
    Fresh,
}

/// A turn with the known last answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) turn: TurnId,
    pub(crate) session: SessionId,
    /// Whether all its user messages agree with those of the list.
    pub(crate) agrees: bool,
    /// Whether the client's calls in the last answer are those of the list.
    pub(crate) calls_agree: bool,
}

impl Turn {
    /// `None` if the body cannot be read: then nothing goes on from the turn. It is kept as it
    /// is read alone: it may hold a message of any length.
    pub(crate) fn from_row(mut row: TurnRow) -> Option<Self> {
        let body = serde_json::from_slice(&std::mem::take(&mut row.body)).ok()?;
        Some(Self { row, body })
    }

    /// Tells how much of the turn its client can have heard.
    pub(crate) fn delivery(&self) -> DeliveryState {
        DeliveryState::new(self.row.status, self.body.unheard)
    }
}

/// Reads rows. Nothing goes on from a turn whose body cannot be read.
pub(crate) fn turns(rows: Vec<TurnRow>) -> Vec<Arc<Turn>> {
    rows.into_iter().filter_map(Turn::from_row).map(Arc::new).collect()
}

impl Tree {
    /// Adds turns that are newer than all others. They come newest first.
    pub(crate) fn add_newer(&mut self, turns: Vec<Arc<Turn>>) {
        let ids = turns.iter().map(|turn| turn.row.id.clone());
        self.order.splice(0..0, ids);
        for turn in turns.into_iter().rev() {
            if let Some(parent) = turn.row.parent.as_ref().filter(|id| !self.turns.contains_key(id))
            {
                self.foreign_parents.insert(parent.clone());
            }
            let children = self.children.entry(turn.row.parent.clone()).or_default();
            children.insert(0, turn.row.id.clone());
            self.turns.insert(turn.row.id.clone(), turn);
        }
    }

    pub(crate) fn get(&self, id: &TurnId) -> Option<&Arc<Turn>> {
        self.turns.get(id)
    }

    pub(crate) fn newest(&self) -> Option<&Arc<Turn>> {
        self.order.first().and_then(|id| self.turns.get(id))
    }

    /// Turns that go on from this one, newest first.
    pub(crate) fn children(&self, id: Option<&TurnId>) -> impl Iterator<Item = &Arc<Turn>> {
        let children = self.children.get(&id.cloned()).into_iter().flatten();
        children.filter_map(|id| self.turns.get(id))
    }

    /// The turn and those before it, newest first.
    pub(crate) fn ancestry(&self, id: &TurnId) -> impl Iterator<Item = &Arc<Turn>> {
        let first = self.turns.get(id);
        let parent = |turn: &&Arc<Turn>| turn.row.parent.as_ref().and_then(|id| self.turns.get(id));
        // No stored circle leads to an endless walk.
        std::iter::successors(first, parent).take(self.turns.len())
    }

    /// The turns of other sessions that turns of this tree go on from, and that are not in it.
    pub(crate) fn foreign_parents(&self) -> Vec<TurnId> {
        let missing = |id: &&TurnId| !self.turns.contains_key(*id);
        self.foreign_parents.iter().filter(missing).cloned().collect()
    }

    /// The turn of another session whose turns are not loaded, if one goes on from it.
    pub(crate) fn missing_parent(&self, id: &TurnId) -> Option<TurnId> {
        let oldest = self.ancestry(id).last()?;
        oldest.row.parent.clone().filter(|parent| !self.turns.contains_key(parent))
    }

    /// Adds a turn of another session, with those before it.
    pub(crate) fn add_ancestor(&mut self, turn: Arc<Turn>) {
        self.turns.insert(turn.row.id.clone(), turn);
    }

    /// The last answer of ours in the list, for a session that is known by its id: the list
    /// may begin anywhere. Where cards in a link name a turn, only answers of that turn, or that go on
    /// from it, are of this list.
    pub(crate) fn last_answer(&self, chain: &Chain, named: Option<&NamedTurn>) -> Option<Point> {
        let mut by_link: HashMap<Digest, Vec<&Arc<Turn>>> = HashMap::new();
        for turn in self.order.iter().filter_map(|id| self.turns.get(id)) {
            if let Some(digests) = turn.row.digests {
                by_link.entry(digests.link).or_default().push(turn);
            }
        }
        let known = |(at, link): (usize, &Link)| {
            let mut turns = by_link.get(&link.own)?.clone();
            if let Some(named) = named {
                turns.retain(|turn| self.goes_on_from(&turn.row.id, named, at));
            }
            (!turns.is_empty()).then_some((at, turns))
        };
        let (at, turns) = chain.links.iter().enumerate().rev().find_map(known)?;
        let score = |turn: &Turn| {
            let users = self.users_agree(chain, &turn.row.id, at + 1);
            let calls = self.calls_agree(&chain.links[at], &turn.row.id);
            (calls, self.aligned(chain, turn, at), users)
        };
        // Of equals the newest, which `max_by_key` would find last. Those that were asked what the
        // list shows come first, however old they are.
        let has_users = |turn: &&&Arc<Turn>| has_same_users(&turn.body, &chain.users[at]);
        let alike: Vec<_> = turns.iter().filter(has_users).take(MAX_COMPARED).collect();
        let newest = turns.iter().take(MAX_COMPARED).filter(|turn| !has_users(turn));
        let compared: Vec<_> = alike.into_iter().chain(newest).collect();
        let turn = compared.into_iter().rev().max_by_key(|turn| score(turn))?;
        Some(Point { turn: Some(turn.row.id.clone()), links: at + 1, users: 0 })
    }

    /// Whether the turn may end the link at this place of a list in which cards name another: it is
    /// that turn or continues its link, or comes after it where the place does.
    fn goes_on_from(&self, turn: &TurnId, named: &NamedTurn, at: usize) -> bool {
        let mut links = 0;
        for earlier in self.ancestry(turn) {
            if earlier.row.id == named.turn {
                return if at + 1 == named.links {
                    links == 0
                } else {
                    named.links <= at && 0 < links
                };
            }
            links += usize::from(!earlier.body.continues);
        }
        false
    }

    /// The turn, and those that continue its link, as far as they are loaded. Newest last.
    pub(crate) fn continuing(&self, id: &TurnId) -> Vec<Arc<Turn>> {
        let mut found: Vec<Arc<Turn>> = self.turns.get(id).map(Arc::clone).into_iter().collect();
        let mut at = 0;
        while let Some(turn) = found.get(at).map(Arc::clone).filter(|_| at < MAX_ALIGNED) {
            let further = self.children(Some(&turn.row.id)).filter(|turn| turn.body.continues);
            found.extend(further.map(Arc::clone));
            at += 1;
        }
        found
    }

    /// How many answers in a row are the same, up to this link of the list.
    fn aligned(&self, chain: &Chain, turn: &Turn, at: usize) -> usize {
        let links = chain.links[..=at].iter().rev().map(|link| link.own);
        let turns = self.link_ends(&turn.row.id).map(|turn| turn.row.digests.map(|own| own.link));
        links.zip(turns).take(MAX_ALIGNED).take_while(|(link, own)| Some(*link) == *own).count()
    }

    /// The last turn of each link, newest first.
    fn link_ends(&self, id: &TurnId) -> impl Iterator<Item = &Arc<Turn>> {
        let mut continued = false;
        self.ancestry(id).filter(move |turn| {
            let is_end = !continued && turn.row.digests.is_some();
            continued = turn.body.continues;
            is_end
        })
    }

    /// Whether the user messages up to this link are those that the turns were asked, as far as
    /// both are known.
    pub(crate) fn users_agree(&self, chain: &Chain, id: &TurnId, links: usize) -> bool {
        let sent = self.user_messages(id, links);
        let shown = chain.users[..links].iter().rev();
        !sent.is_empty() && sent.iter().zip(shown).all(|(sent, shown)| agree(sent, shown))
    }

    /// Whether the calls of the link that ends with this turn are those that the client was sent.
    /// What earlier versions have recorded is taken for the same.
    pub(crate) fn calls_agree(&self, link: &Link, id: &TurnId) -> bool {
        let mut sent: Vec<CallDigest> = Vec::new();
        for turn in self.ancestry(id) {
            if turn.body.calls.is_empty() && turn.row.status == TurnStatus::AwaitsClient {
                return link.calls.ends_with(&sent);
            }
            sent.splice(0..0, turn.body.calls.iter().copied());
            if !turn.body.continues {
                break;
            }
        }
        link.calls == sent
    }

    /// What was asked before each link of the turn's own list, newest first.
    fn user_messages(&self, id: &TurnId, links: usize) -> Vec<Vec<&SentMessage>> {
        let mut all: Vec<Vec<&SentMessage>> = Vec::new();
        let (mut depth, mut continued) = (None, true);
        for turn in self.ancestry(id) {
            if turn.row.digests.is_some() && !continued {
                // A list that was shorter than the session has no more links.
                if depth.is_some_and(|depth: u32| turn.row.depth.checked_add(1) != Some(depth)) {
                    break;
                }
                if all.len() == links {
                    break;
                }
                all.push(Vec::new());
                depth = Some(turn.row.depth);
            } else if all.is_empty() {
                all.push(Vec::new());
                depth = Some(turn.row.depth);
            }
            if let Some(link) = all.last_mut() {
                link.splice(0..0, &turn.body.user_messages);
            }
            // A turn that said nothing belongs to the same gap as the one after it.
            continued = turn.body.continues;
        }
        all
    }
}

/// Whether the turn was asked what stands in the list, as far as that is the same.
pub(crate) fn has_same_users(body: &TurnBody, users: &[User]) -> bool {
    let sent: Vec<_> = body.user_messages.iter().collect();
    agree(&sent, users)
}

/// Whether the same was asked: the same messages; one side has some that the other has not, before
/// or behind them; or one has lines of a frontend's around the same words. A part of a line is
/// never the same: "todo list 17" is another question than "todo list".
fn agree(sent: &[&SentMessage], shown: &[User]) -> bool {
    let was_asked: Vec<&str> = sent.iter().map(|sent| sent.words.as_str()).collect();
    let is_shown: Vec<&str> = shown.iter().map(|user| user.words.as_str()).collect();
    if was_asked == is_shown {
        return true;
    }
    if was_asked.is_empty() || is_shown.is_empty() {
        return false;
    }
    let has = |all: &[&str], part: &[&str]| all.starts_with(part) || all.ends_with(part);
    let (whole, other) = (was_asked.join(" "), is_shown.join(" "));
    whole == other
        || has(&was_asked, &is_shown)
        || has(&is_shown, &was_asked)
        || shown.iter().any(|user| surrounds(&user.words, &user.line_starts, &whole))
        || sent.iter().any(|sent| {
            let text = serde_json::from_str(&sent.sent).map(text_of).unwrap_or_default();
            surrounds(&canonical::words(&text), &canonical::line_starts(&text), &other)
        })
}

/// Whether these words are the first or last lines of the others. Few words may be so by chance.
fn surrounds(words: &str, line_starts: &[usize], inner: &str) -> bool {
    let is_long = inner.chars().nth(MIN_PREFIX - 1).is_some();
    let mut starts = line_starts.iter();
    is_long && starts.any(|start| words[*start..] == *inner || words[..start - 1] == *inner)
}

/// Decides among turns whose chain is the longest that is known. `candidates` come newest
/// first; `answer` is the last answer that they share with the list.
pub(crate) fn decide(candidates: &[Candidate], answer: &Link) -> Verdict {
    let sessions = |candidates: &[&Candidate]| {
        candidates.iter().map(|candidate| candidate.session.clone()).collect::<HashSet<_>>().len()
    };
    let agreeing: Vec<_> = candidates.iter().filter(|candidate| candidate.agrees).collect();
    let all: Vec<_> = candidates.iter().collect();
    let is_proof = answer.text.chars().nth(MIN_PROOF - 1).is_some();
    let (fit, newest) = match (agreeing.as_slice(), all.as_slice()) {
        ([newest, ..], _) => (&agreeing, newest),
        ([], [newest, ..]) if is_proof => (&all, newest),
        _ => return Verdict::Fresh,
    };
    if sessions(fit) == 1 {
        return Verdict::Continue(newest.turn.clone());
    }
    Verdict::Ambiguous(fit.iter().map(|candidate| candidate.turn.clone()).collect())
}

/// The point behind `child`, if the list goes on from it: its user messages follow, and then
/// its answer, perhaps cut short, or none if the client may not have heard it.
pub(crate) fn extended(chain: &Chain, point: &Point, child: &TurnRecord) -> Option<Point> {
    let users = &chain.users[point.links][point.users..];
    let own = &child.body.user_messages;
    let turn = Some(child.row.id.clone());
    if !begins_with(users, child) {
        return None;
    }
    if own.len() < users.len() {
        let users = point.users + own.len();
        let dropped = child.delivery().may_be_cut() && !own.is_empty();
        return dropped.then_some(Point { turn, links: point.links, users });
    }
    let link = chain.links.get(point.links)?;
    let sent: Vec<&str> = child.client_call_ids().collect();
    let is_its = ids_fit(link, &sent, child.row.status)
        && shows(link, &canonical::said(&child.said()), child.delivery());
    is_its.then_some(Point { turn, links: point.links + 1, users: 0 })
}

/// Whether the client shows this answer of ours: whole, or the beginning of it.
pub(crate) fn shows(link: &Link, said: &str, delivery: DeliveryState) -> bool {
    if canonical::is_same(said, &link.text) {
        return true;
    }
    let is_long = || link.text.chars().nth(MIN_PREFIX - 1).is_some();
    let is_cut = canonical::begins_with(said, &link.text) && !link.text.is_empty();
    // Of a crashed turn the client may have seen more than was recorded.
    let is_crashed = delivery.status == TurnStatus::Crashed;
    // A client may keep the model's own words without our question behind them.
    let is_suspended = delivery.status == TurnStatus::Suspended;
    (is_cut && (delivery.may_be_cut() || is_suspended || is_long()))
        || (is_crashed && canonical::begins_with(&link.text, said))
}

/// Whether a link can be of a turn that sent the client calls with these ids: two answers to equal
/// requests may have the same text, or none, and differ by their calls alone.
pub(crate) fn ids_fit(link: &Link, sent: &[&str], status: TurnStatus) -> bool {
    if link.call_ids.is_empty() {
        // Some frontends keep the text of an answer alone.
        return true;
    }
    if sent.is_empty() && is_interrupted(status) {
        // What the client was sent of a turn that was cut off is not recorded. Without a text
        // nothing tells that it was this one.
        return !link.text.is_empty();
    }
    link.call_ids.iter().map(|id| &**id).eq(sent.iter().copied())
}

/// Whether the very same list was sent before, and `child` tried to answer it.
pub(crate) fn is_attempt(chain: &Chain, point: &Point, child: &Turn) -> bool {
    let users = &chain.users[point.links][point.users..];
    point.links == chain.links.len()
        && child.delivery().may_be_cut()
        && child.body.user_messages.len() == users.len()
        && begins_with_users(users, &child.body)
}

fn begins_with(users: &[User], child: &TurnRecord) -> bool {
    begins_with_users(users, &child.body)
}

fn begins_with_users(users: &[User], body: &TurnBody) -> bool {
    body.user_messages.len() <= users.len()
        && body.user_messages.iter().zip(users).all(|(sent, user)| sent.words == user.words)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::sessions::address::Chain;
    use crate::sessions::test_support::client_messages;

    fn users(texts: &[&str]) -> Vec<User> {
        let list: Vec<Value> =
            texts.iter().map(|text| json!({ "role": "user", "content": text })).collect();
        let scope = crate::ids::Scope::from_bytes([7; 32]);
        let mut chain = Chain::new(&scope, &client_messages(&json!(list)));
        chain.users.remove(0)
    }

    fn asked(texts: &[&str]) -> Vec<SentMessage> {
        let asked = |text: &&str| SentMessage {
            words: canonical::words(text),
            sent: json!({ "role": "user", "content": text }).to_string(),
        };
        texts.iter().map(asked).collect()
    }

    #[track_caller]
    fn check(one: &[&str], other: &[&str], expected: bool) {
        for (sent, shown) in [(one, other), (other, one)] {
            let sent = asked(sent);
            let sent: Vec<_> = sent.iter().collect();
            assert_eq!(agree(&sent, &users(shown)), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_part_of_a_line_is_another_question() {
        let long = "Summarise the quarterly report for the northern region";
        for (one, other) in [
            ("todo list", "todo list 17"),
            ("todo list", "my todo list"),
            ("todo list", "todo list\n17"),
            ("todo list", "17\n\ntodo list"),
            ("17", "todo list 17"),
            ("a", "A"),
            (long, &format!("{long} and the southern one")),
            (long, &format!("Do not: {long}")),
            (long, &format!("First.\n{long}\nLast.")),
        ] {
            check(&[one], &[other], false);
        }
    }

    #[test]
    fn lines_around_the_words_and_further_messages_change_nothing() {
        let long = "Summarise the quarterly report for\n  the northern region";
        check(&["todo  list\n17"], &["todo list 17"], true);
        check(&[long], &[&format!("Today is Friday.\n\n{long}")], true);
        check(&[long], &[&format!("{long}\n\nAttached: plan.txt")], true);
        check(&["a", "todo list"], &["todo list"], true);
        check(&["todo list", "b"], &["todo list"], true);
        check(&["a", "b"], &["b", "a"], false);
        check(&["a", "todo list 17"], &["todo list"], false);
        check(&["todo list"], &[], false);
    }
}
