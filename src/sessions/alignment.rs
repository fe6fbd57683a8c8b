//! Assigns the turns of a path to the links and user messages of a client's list.

use std::collections::HashMap;
use std::sync::Arc;

use super::address::{Chain, User};
use super::canonical;
use super::matching::{ids_fit, shows};
use super::record::{SentMessage, TurnRecord};

/// Which parts of the list are recorded.
#[derive(Debug, Default)]
pub(crate) struct Alignment<'a> {
    /// The turns of each recognised link, by its place in the chain.
    pub(crate) links: HashMap<usize, Group<'a>>,
    /// Turns that the list shows no answer of, by the place of their last user message.
    pub(crate) behind: HashMap<usize, Group<'a>>,
    /// User messages with unchanged words, by their place in the list.
    pub(crate) sent: HashMap<usize, &'a SentMessage>,
}

/// The turns of one link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a> {
    pub(crate) turns: &'a [Arc<TurnRecord>],
    /// The turn that follows on the path.
    pub(crate) next: Option<&'a Arc<TurnRecord>>,
}

impl<'a> Group<'a> {
    fn user_messages(self) -> &'a [SentMessage] {
        self.turns.first().map_or(&[], |turn| &turn.body.user_messages)
    }

    pub(crate) fn last(self) -> Option<&'a Arc<TurnRecord>> {
        self.turns.last()
    }

    /// The ids of the calls that the client was sent.
    fn client_call_ids(self) -> Vec<&'a str> {
        self.turns.iter().flat_map(|turn| turn.client_call_ids()).collect()
    }

    pub(crate) fn said(self) -> String {
        self.joined(TurnRecord::said)
    }

    pub(crate) fn recorded_text(self) -> String {
        self.joined(TurnRecord::recorded_text)
    }

    fn joined(self, text: impl Fn(&TurnRecord) -> String) -> String {
        let texts: Vec<_> = self.turns.iter().map(|turn| canonical::said(&text(turn))).collect();
        texts.join(" ")
    }
}

/// The path in groups, one a link.
pub(crate) fn groups(path: &[Arc<TurnRecord>]) -> Vec<Group<'_>> {
    let mut groups = Vec::new();
    let mut start = 0;
    for end in 1..=path.len() {
        if path.get(end).is_none_or(|next| !next.body.continues) {
            groups.push(Group { turns: &path[start..end], next: path.get(end) });
            start = end;
        }
    }
    groups
}

/// Whether the user messages end with these.
fn ends_with(users: &[User], sent: &[SentMessage]) -> bool {
    let start = users.len().checked_sub(sent.len()).filter(|_| !sent.is_empty());
    start.is_some_and(|start| {
        users[start..].iter().zip(sent).all(|(user, sent)| user.words == sent.words)
    })
}

impl<'a> Alignment<'a> {
    /// Goes backwards from the end of the path, which is behind the first `links` links and
    /// `users` further user messages.
    pub(crate) fn new(
        path: &'a [Arc<TurnRecord>],
        chain: &Chain,
        links: usize,
        users: usize,
    ) -> Self {
        let mut alignment = Self::default();
        let mut link = links;
        // The user messages of the current gap that no later turn was asked.
        let mut left: &[User] = &chain.users[links][..users];
        for (back, group) in groups(path).into_iter().rev().enumerate() {
            let sent = group.user_messages();
            // A turn of which the client kept no answer, since it was stopped or went on without
            // the client: its words stand before those of a later turn. That is looked at first,
            // since answers may begin alike.
            let may_be_cut = group.last().is_some_and(|turn| turn.delivery().may_be_cut());
            if let Some(last) = left.last().filter(|_| may_be_cut && ends_with(left, sent)) {
                alignment.behind.insert(last.index, group);
                left = alignment.take_users(left, sent);
            } else if link > 0 && (back == 0 || Self::shows(chain, link - 1, group)) {
                link -= 1;
                alignment.links.insert(link, group);
                left = alignment.take_users(&chain.users[link], sent);
            } else {
                break;
            }
        }
        alignment
    }

    fn shows(chain: &Chain, link: usize, group: Group<'_>) -> bool {
        let (link, Some(last)) = (&chain.links[link], group.last()) else { return false };
        // The same digest is of the same words.
        last.row.digests.is_some_and(|own| own.link == link.own)
            || (ids_fit(link, &group.client_call_ids(), last.row.status)
                && shows(link, &group.said(), last.delivery()))
    }

    /// Notes the user messages whose words are unchanged. Returns those before the turn's.
    fn take_users<'u>(&mut self, users: &'u [User], sent: &'a [SentMessage]) -> &'u [User] {
        let (before, own) = users.split_at(users.len().saturating_sub(sent.len()));
        // Some may have been removed or edited: the others are found in their order.
        let mut known = sent.iter();
        for user in own {
            let mut rest = known.clone();
            if let Some(sent) = rest.find(|sent| sent.words == user.words) {
                self.sent.insert(user.index, sent);
                known = rest;
            }
        }
        before
    }
}
