//! Makes typed messages of JSON, and a store in memory, for tests.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

use super::message::{CallOf, ClientCall, ClientMessage, Role};
use crate::agent::record::Entry;
use crate::ids::{CardId, Scope, SessionId, TurnId};
use crate::json;
use crate::store::rows::{ApprovalRow, Change, EntryRow, SessionRow, TurnRow};
use crate::store::{ApprovalKey, SessionKey, SessionPage, SizeOf, Store, StoreError, TurnKey};
use crate::sync::lock;

/// The id of a card of ours.
pub(crate) const CARD: &str = "card_00000000000040008000000000000001";

/// The messages as validation makes them. A call whose id begins with `server_` is one of a
/// tool of the server.
pub(crate) fn client_messages(list: &Value) -> Vec<ClientMessage> {
    let list = list.as_array().expect("a list");
    list.iter().enumerate().map(|(index, message)| client_message(index, message)).collect()
}

fn client_message(index: usize, message: &Value) -> ClientMessage {
    let role = match message["role"].as_str().expect("a role") {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        "function" => Role::Function,
        _ => Role::Instruction,
    };
    let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
        let id = call["id"].as_str().unwrap_or_default();
        let of = match () {
            () if CardId::parse(id).is_some() => CallOf::Card,
            () if id.starts_with("server_") => CallOf::Server,
            () => CallOf::Client,
        };
        ClientCall { id: id.into(), of }
    });
    ClientMessage {
        index,
        role,
        json: json::raw(message.to_string()),
        calls: calls.collect(),
        answers: message["tool_call_id"].as_str().map(Into::into),
        says_nothing: role == Role::Assistant
            && message["content"].is_null()
            && message["tool_calls"].is_null(),
    }
}

/// A store in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    turns: Mutex<Vec<(Scope, TurnRow)>>,
    entries: Mutex<Vec<EntryRow>>,
    pub(crate) lookups: AtomicUsize,
}

impl MemoryStore {
    pub(crate) fn add(&self, scope: Scope, row: TurnRow, entries: &[Entry]) {
        let of_turn = entries.iter().map(|entry| EntryRow {
            turn: row.id.clone(),
            body: serde_json::to_vec(entry).expect("an entry is JSON"),
        });
        lock(&self.entries).extend(of_turn);
        lock(&self.turns).push((scope, row));
    }

    pub(crate) fn forget(&self, session: &SessionId) {
        lock(&self.turns).retain(|(_, row)| row.session != *session);
    }
}

impl Store for MemoryStore {
    fn commit_together(
        &self,
        _: Vec<Change>,
        _: usize,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        unreachable!("nothing commits")
    }

    fn session(
        &self,
        _: Scope,
        _: SessionKey,
    ) -> BoxFuture<'static, Result<Option<SessionRow>, StoreError>> {
        unreachable!("sessions are not looked up")
    }

    fn sessions(
        &self,
        _: Scope,
        _: Option<SessionId>,
        _: usize,
    ) -> BoxFuture<'static, Result<SessionPage, StoreError>> {
        unreachable!("sessions are not listed")
    }

    fn turns(
        &self,
        scope: Scope,
        by: TurnKey,
    ) -> BoxFuture<'static, Result<Vec<TurnRow>, StoreError>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let is_wanted = |row: &TurnRow| match &by {
            TurnKey::Id(id) => row.id == *id,
            TurnKey::Session(session) | TurnKey::After(session, _) => row.session == *session,
            TurnKey::Chain(digests) => row.digests.is_some_and(|own| digests.contains(&own.chain)),
            TurnKey::Head(head) => row.digests.is_some_and(|own| own.head == Some(*head)),
            TurnKey::Idempotency(_)
            | TurnKey::Request(_)
            | TurnKey::Agent(_)
            | TurnKey::Agents(..) => false,
        };
        let turns = lock(&self.turns);
        let is_older = |row: &TurnRow| !matches!(&by, TurnKey::After(_, turn) if row.id == *turn);
        let newest = turns.iter().rev().take_while(|(_, row)| is_older(row));
        let found = newest.filter(|(own, row)| *own == scope && is_wanted(row));
        let found = found.map(|(_, row)| row.clone()).collect();
        async move { Ok(found) }.boxed()
    }

    fn size(&self, _: Scope, _: SizeOf) -> BoxFuture<'static, Result<usize, StoreError>> {
        async { Ok(0) }.boxed()
    }

    fn entries(
        &self,
        scope: Scope,
        turns: Vec<TurnId>,
    ) -> BoxFuture<'static, Result<Vec<EntryRow>, StoreError>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let known = lock(&self.turns);
        let is_own = |id: &TurnId| known.iter().any(|(own, row)| *own == scope && row.id == *id);
        let wanted: HashSet<_> = turns.into_iter().filter(is_own).collect();
        let entries = lock(&self.entries);
        let found = entries.iter().filter(|entry| wanted.contains(&entry.turn)).cloned().collect();
        async move { Ok(found) }.boxed()
    }

    fn approvals(
        &self,
        _: Scope,
        _: ApprovalKey,
    ) -> BoxFuture<'static, Result<Vec<ApprovalRow>, StoreError>> {
        unreachable!("approvals are not looked up")
    }
}
