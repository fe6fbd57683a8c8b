//! Defines the rows of the store and the changes to them.

use std::sync::Arc;

use crate::ids::{ApprovalId, KeyId, Scope, SessionId, TurnId};

/// A keyed hash of 256 bits.
pub(crate) type Digest = [u8; 32];

/// The name by which a client calls a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionName {
    /// The client's own id, of 1 to 128 printable ASCII characters.
    pub(crate) text: String,
    /// For the chat id of a frontend the requested model: side-by-side models share a chat id.
    /// `None` for an id that was given to us, which names one session whatever the model.
    pub(crate) model: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRow {
    pub(crate) id: SessionId,
    pub(crate) scope: Scope,
    pub(crate) key: KeyId,
    pub(crate) name: Option<SessionName>,
    /// The model of the last request.
    pub(crate) model: String,
    /// Milliseconds since 1970; for people, never for an order.
    pub(crate) created_ms: i64,
    pub(crate) updated_ms: i64,
    /// The system prompt, rendered once. Many sessions have the same.
    pub(crate) prompt: Option<Arc<str>>,
    /// What else the whole session shares: `sessions::record::SessionBody` as JSON.
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionSummary {
    pub(crate) session: SessionRow,
    pub(crate) turns: u64,
}

/// One turn, without its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnRow {
    pub(crate) id: TurnId,
    pub(crate) session: SessionId,
    /// The turn on whose answer this one goes on.
    pub(crate) parent: Option<TurnId>,
    pub(crate) status: TurnStatus,
    pub(crate) started_ms: i64,
    /// How many links the client's list has with this turn's answer.
    pub(crate) depth: u32,
    /// Of the last link, as the client sees it; `None` for an answer that nothing can match.
    pub(crate) digests: Option<LinkDigests>,
    /// The hash of the request.
    pub(crate) request: Option<Digest>,
    /// The hash of its `Idempotency-Key`.
    pub(crate) idempotency: Option<Digest>,
    /// `sessions::record::TurnBody` as JSON; of a subagent `agent::subagents::AgentRecord`.
    pub(crate) body: Vec<u8>,
}

/// The digests of one link: all that the assistant said between two user messages
/// (`sessions::address`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkDigests {
    /// Of the chain of links up to this one.
    pub(crate) chain: Digest,
    /// Of this link alone.
    pub(crate) link: Digest,
    /// Of the chain before this link and the link's first 40 characters; `None` for a shorter
    /// link.
    pub(crate) head: Option<Digest>,
}

/// How far a turn came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnStatus {
    /// It runs, or ran when the server was killed: `Store` implementations change it to
    /// `Crashed` when they open.
    Running,
    /// It waits for the client's answers to calls of its own.
    AwaitsClient,
    /// It waits for a person, and its request has ended.
    Suspended,
    Finished,
    Failed,
    /// Stopped before its end.
    Cancelled,
    /// The server was killed while it ran.
    Crashed,
    /// It is no turn: its entries are what a subagent of the session has done. Only
    /// `TurnKey::Agent` and `TurnKey::Agents` find it.
    Agent,
}

/// One entry of a turn's record: `agent::record::Entry` as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryRow {
    pub(crate) turn: TurnId,
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApprovalRow {
    pub(crate) id: ApprovalId,
    pub(crate) scope: Scope,
    pub(crate) session: SessionId,
    /// The turn that asked.
    pub(crate) turn: TurnId,
    pub(crate) created_ms: i64,
    pub(crate) expires_ms: i64,
    /// `agent::record::Asked` as JSON.
    pub(crate) body: Vec<u8>,
    /// `execution::ask::Decision` as JSON, once it is decided.
    pub(crate) decision: Option<Vec<u8>>,
}

/// A session that the store has forgotten, whoever wanted it to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForgottenSession {
    pub(crate) id: SessionId,
    /// What its row held: `sessions::record::SessionBody` as JSON.
    pub(crate) body: Vec<u8>,
}

/// One change to the store.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Inserts or replaces the session, and makes it the one used last.
    Session(SessionRow),
    /// Inserts the turn as the newest of its session, or replaces it in its place.
    Turn(TurnRow),
    Entry(EntryRow),
    /// Inserts the approval. Of a known one its body and the time of its end are changed.
    Approval(ApprovalRow),
    /// Fails with `StoreError::Conflict` if the approval is decided or does not exist.
    Decide {
        approval: ApprovalId,
        decision: Vec<u8>,
    },
    /// Removes a session with all that belongs to it.
    Forget(SessionId),
}
