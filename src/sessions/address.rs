//! Computes the content address of a conversation: a chain of digests over the assistant's
//! answers.
//!
//! A link is all that the assistant said between two user messages, so it does not matter how a
//! frontend splits an answer. User messages are not in the chain: frontends wrap and date them.

#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use super::canonical;
use super::client_calls::{CallDigest, call_digests};
use super::message::{CallOf, ClientMessage, Role};
use crate::ids::{Scope, TurnId};
use crate::openai::message::Said;
use crate::store::rows::{Digest, LinkDigests};
use crate::text;

/// So many characters of a link are enough to find it by.
pub(crate) const MIN_PREFIX: usize = 40;

/// How many digests the first look-up has. Each following one has eight times as many, so even
/// the longest list needs few.
const FIRST_LOOKUP: usize = 16;
const MAX_LOOKUP: usize = 8192;

/// The answers in a client's list, and the user messages around them.
#[derive(Debug)]
pub(crate) struct Chain {
    scope: Scope,
    pub(crate) links: Vec<Link>,
    /// The user messages before each link, and those behind the last, by their place in the
    /// list.
    pub(crate) users: Vec<Vec<User>>,
    pub(crate) end: ListEnd,
    /// The turns that cards in the list name, in its order.
    pub(crate) named: Vec<NamedTurn>,
    /// The messages of the last link, as the client sent them.
    last_shown: ShownMessages,
    /// The whole text of the only message behind the last link, if the list ends with it.
    reply: Option<String>,
}

/// A turn that cards name: they were shown while it ran. The list may be that of any frontend, so
/// the turn need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedTurn {
    pub(crate) turn: TurnId,
    /// The number of links up to these cards. The last is theirs if they stand in one.
    pub(crate) links: usize,
    /// The number of user messages between that link and cards beside which nothing was said.
    /// `None`: the cards stand in a link.
    pub(crate) users: Option<usize>,
}

/// All that the assistant said between two user messages.
#[derive(Debug)]
pub(crate) struct Link {
    /// `canonical::said`.
    pub(crate) text: String,
    /// Of the calls that a client sees.
    pub(crate) call_ids: Vec<Box<str>>,
    /// The same calls with what they ask.
    pub(crate) calls: Vec<CallDigest>,
    /// `LinkDigests::chain`.
    pub(crate) chain: Digest,
    /// `LinkDigests::link`.
    pub(crate) own: Digest,
    /// From its first to its last message in the list.
    pub(crate) range: RangeInclusive<usize>,
    /// The client keeps the calls of the server's tools itself.
    pub(crate) has_hidden_calls: bool,
}

/// The end of a chain, to which an answer is added. A turn keeps it until it ends.
#[derive(Debug)]
pub(crate) struct ChainTail {
    scope: Scope,
    /// How many links are complete.
    links: usize,
    /// The chain digest of the last complete link.
    last: Option<Digest>,
    /// Of the link that goes on.
    text: String,
    call_ids: Vec<Box<str>>,
}

/// What the assistant's messages of a link say.
#[derive(Debug, Default)]
struct ShownMessages {
    text: String,
    /// The byte at which the last message begins that says something.
    last: usize,
}

#[derive(Debug)]
pub(crate) struct User {
    pub(crate) index: usize,
    /// `canonical::words`.
    pub(crate) words: String,
    /// `canonical::line_starts`.
    pub(crate) line_starts: Vec<usize>,
}

/// How a client's list ends, but for instructions and assistant messages that say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListEnd {
    User,
    Assistant,
    /// With answers to calls.
    Answers,
    /// With answers to cards of ours alone.
    CardAnswers,
}

/// A link that is being collected.
#[derive(Debug, Default)]
struct OpenLink {
    text: String,
    call_ids: Vec<Box<str>>,
    calls: Vec<CallDigest>,
    range: Option<(usize, usize)>,
    has_hidden_calls: bool,
    shown: ShownMessages,
    turn_of_cards: Option<TurnId>,
}

impl Chain {
    pub(crate) fn new(scope: &Scope, messages: &[ClientMessage]) -> Self {
        let mut chain = Self {
            scope: *scope,
            links: Vec::new(),
            users: vec![Vec::new()],
            end: list_end(messages),
            named: Vec::new(),
            last_shown: ShownMessages::default(),
            reply: None,
        };
        let mut open = OpenLink::default();
        let mut last_said: Option<Said<'_>> = None;
        for (at, message) in messages.iter().enumerate() {
            match message.role {
                Role::User => {
                    chain.close(std::mem::take(&mut open));
                    let said = message.said();
                    let words = canonical::words(&said.text);
                    let line_starts = canonical::line_starts(&said.text);
                    if let Some(users) = chain.users.last_mut() {
                        users.push(User { index: at, words, line_starts });
                    }
                    last_said = Some(said);
                }
                Role::Assistant | Role::Tool | Role::Function => open.push(at, message),
                Role::Instruction => {}
            }
        }
        chain.close(open);
        if let [_user] = chain.last_users()
            && chain.end == ListEnd::User
        {
            chain.reply = last_said.map(Said::whole);
        }
        chain
    }

    /// Returns all that the assistant says in the last link, as the client sent it.
    pub(crate) fn last_shown(&self) -> &str {
        &self.last_shown.text
    }

    /// The last message of it that says something.
    pub(crate) fn last_message(&self) -> &str {
        &self.last_shown.text[self.last_shown.last..]
    }

    /// The message that may reply to what the assistant said last.
    pub(crate) fn reply(&self) -> Option<&str> {
        self.reply.as_deref()
    }

    /// Adds a link. An empty one is none: its text matches nothing.
    fn close(&mut self, open: OpenLink) {
        let Some((first, last)) = open.range else { return };
        let is_link = !open.text.is_empty() || !open.call_ids.is_empty();
        if let Some(turn) = open.turn_of_cards {
            let links = self.links.len() + usize::from(is_link);
            let users = (!is_link).then(|| self.last_users().len());
            self.named.push(NamedTurn { turn, links, users });
        }
        if !is_link {
            return;
        }
        let before = self.links.last().map(|link| link.chain);
        let own = own_digest(&self.scope, &open.text, &open.call_ids);
        self.links.push(Link {
            chain: chain_digest(&self.scope, before, &own),
            own,
            text: open.text,
            call_ids: open.call_ids,
            calls: open.calls,
            range: first..=last,
            has_hidden_calls: open.has_hidden_calls,
        });
        self.last_shown = open.shown;
        self.users.push(Vec::new());
    }

    /// The digest of the last link's beginning ([`LinkDigests`]).
    pub(crate) fn last_head(&self) -> Option<Digest> {
        let (last, before) = self.links.split_last()?;
        head_digest(&self.scope, before.last().map(|link| link.chain), &last.text)
    }

    /// The user messages behind the last link.
    pub(crate) fn last_users(&self) -> &[User] {
        self.users.last().map_or(&[], Vec::as_slice)
    }

    /// The chain digests to look up, newest first, in portions: the first portion of which any
    /// is known has the longest chain.
    pub(crate) fn lookups(&self) -> Vec<Vec<Digest>> {
        let mut digests = self.links.iter().rev().map(|link| link.chain).peekable();
        let mut portions = Vec::new();
        let mut size = FIRST_LOOKUP;
        while digests.peek().is_some() {
            portions.push(digests.by_ref().take(size).collect());
            size = (size * 8).min(MAX_LOOKUP);
        }
        portions
    }

    /// What the address of the turn that answers this list depends on.
    pub(crate) fn tail(&self) -> ChainTail {
        // What is said directly behind a link belongs to it.
        let continued = self.links.split_last().filter(|_| self.last_users().is_empty());
        let (before, text, call_ids) = match continued {
            Some((last, before)) => (before, last.text.clone(), last.call_ids.clone()),
            None => (self.links.as_slice(), String::new(), Vec::new()),
        };
        let last = before.last().map(|link| link.chain);
        ChainTail { scope: self.scope, links: before.len(), last, text, call_ids }
    }
}

impl ChainTail {
    /// The address of a turn that says this: how many links its list then has, and the digests
    /// of the last. `None` for an answer that nothing can match.
    pub(crate) fn after(
        &self,
        said: &str,
        call_ids: &[impl AsRef<str>],
    ) -> (u32, Option<LinkDigests>) {
        let (mut text, mut ids) = (self.text.clone(), self.call_ids.clone());
        append(&mut text, &canonical::said(said));
        ids.extend(call_ids.iter().map(|id| id.as_ref().into()));
        let depth = |links: usize| u32::try_from(links).unwrap_or(u32::MAX);
        if text.is_empty() && ids.is_empty() {
            return (depth(self.links), None);
        }
        let link = own_digest(&self.scope, &text, &ids);
        let chain = chain_digest(&self.scope, self.last, &link);
        let head = head_digest(&self.scope, self.last, &text);
        (depth(self.links + 1), Some(LinkDigests { chain, link, head }))
    }
}

impl OpenLink {
    fn push(&mut self, at: usize, message: &ClientMessage) {
        let (first, _) = self.range.unwrap_or((at, at));
        self.range = Some((first, at));
        self.turn_of_cards = message.turn_of_cards().or(self.turn_of_cards.take());
        if message.role != Role::Assistant {
            return;
        }
        let text = message.text();
        append(&mut self.text, &canonical::said(&text));
        self.shown.push(&text);
        if message.calls.is_empty() {
            return;
        }
        let digests = call_digests(&message.json, message.calls.len());
        for (at, call) in message.calls.iter().enumerate() {
            match call.of {
                CallOf::Client => {
                    self.call_ids.push(call.id.clone());
                    self.calls.extend(digests.get(at));
                }
                CallOf::Server => self.has_hidden_calls = true,
                CallOf::Card => {}
            }
        }
    }
}

impl ShownMessages {
    fn push(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.last = self.text.len();
        self.text.push_str(text);
    }
}

fn append(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}

fn list_end(messages: &[ClientMessage]) -> ListEnd {
    let is_silent = |message: &&ClientMessage| {
        message.role == Role::Assistant
            && message.calls.is_empty()
            && canonical::said(&message.text()).is_empty()
    };
    let mut newest = messages
        .iter()
        .rev()
        .filter(|message| message.role != Role::Instruction)
        .skip_while(is_silent)
        .peekable();
    match newest.peek().map(|message| message.role) {
        Some(Role::Tool) => {
            let mut answers = newest.take_while(|message| message.role == Role::Tool);
            let is_cards = answers.all(ClientMessage::answers_card);
            if is_cards { ListEnd::CardAnswers } else { ListEnd::Answers }
        }
        Some(Role::Function) => ListEnd::Answers,
        Some(Role::Assistant) => ListEnd::Assistant,
        Some(Role::User | Role::Instruction) | None => ListEnd::User,
    }
}

/// White space is left out: frontends join the pieces of an answer with it or without.
fn own_digest(scope: &Scope, text: &str, call_ids: &[Box<str>]) -> Digest {
    let mut own = Vec::with_capacity(text.len() + 64);
    own.extend_from_slice(b"link!");
    push_solid(&mut own, text);
    for id in call_ids {
        own.extend_from_slice(&(id.len() as u64).to_le_bytes());
        own.extend_from_slice(id.as_bytes());
    }
    keyed(scope, &own)
}

fn chain_digest(scope: &Scope, before: Option<Digest>, own: &Digest) -> Digest {
    keyed(scope, &[b"chain", &before.unwrap_or_default()[..], own].concat())
}

/// `None` if the text is too short to be found by its beginning.
fn head_digest(scope: &Scope, before: Option<Digest>, text: &str) -> Option<Digest> {
    let head = text::first_chars(text, MIN_PREFIX);
    (head.chars().count() == MIN_PREFIX).then(|| {
        let mut beginning = [b"head!", &before.unwrap_or_default()[..]].concat();
        push_solid(&mut beginning, head);
        keyed(scope, &beginning)
    })
}

fn keyed(scope: &Scope, bytes: &[u8]) -> Digest {
    *blake3::keyed_hash(scope.as_bytes(), bytes).as_bytes()
}

/// Adds the text without its spaces, and its length then.
fn push_solid(bytes: &mut Vec<u8>, text: &str) {
    let start = bytes.len();
    bytes.resize(start + text.len(), 0);
    let mut end = start;
    for byte in text.bytes() {
        bytes[end] = byte;
        end += usize::from(byte != b' ');
    }
    bytes.truncate(end);
    bytes.extend_from_slice(&((end - start) as u64).to_le_bytes());
}
