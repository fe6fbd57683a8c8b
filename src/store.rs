//! Keeps sessions, turns and approvals, so that they survive the process.
//!
//! The store knows no meaning of what it keeps: rows have the columns that are searched, and a
//! body that only `sessions` reads.

#[cfg(test)]
pub(crate) mod memory;
pub(crate) mod rows;
pub(crate) mod settings;
pub(crate) mod sqlite;

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;

use self::rows::{
    ApprovalRow, Change, Digest, EntryRow, SessionName, SessionRow, SessionSummary, TurnRow,
};
use crate::errors::{ApiError, ErrorCode};
use crate::ids::{AgentId, ApprovalId, Scope, SessionId, TurnId};
use crate::memory_budget::Exhausted;

/// How long a person may answer a question of a turn that has suspended, and a client a call of its
/// own. No session is forgotten before that. For so long after a jump of the clock, retention counts
/// time without the clock: whatever waited then can be answered still.
pub(crate) const ANSWER_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// A durable store. Every look-up is by scope as well: what belongs to another scope is not
/// found.
pub(crate) trait Store: Send + Sync + fmt::Debug {
    /// Applies the changes in order, all or none. When it resolves they survive a kill of the
    /// process. Calls are applied in the order in which they were made, even if the returned
    /// future is dropped.
    fn commit(&self, changes: Vec<Change>) -> BoxFuture<'static, Result<(), StoreError>> {
        self.commit_together(changes, 0)
    }

    /// [`Self::commit`] of what may wait a moment for about so many other commits: written
    /// together, each costs less.
    fn commit_together(
        &self,
        changes: Vec<Change>,
        others: usize,
    ) -> BoxFuture<'static, Result<(), StoreError>>;

    fn session(
        &self,
        scope: Scope,
        by: SessionKey,
    ) -> BoxFuture<'static, Result<Option<SessionRow>, StoreError>>;

    /// The sessions of a scope, the one used last first: at most `limit`, from behind `after`.
    fn sessions(
        &self,
        scope: Scope,
        after: Option<SessionId>,
        limit: usize,
    ) -> BoxFuture<'static, Result<SessionPage, StoreError>>;

    /// The turns that match, the newest first, without their entries.
    fn turns(
        &self,
        scope: Scope,
        by: TurnKey,
    ) -> BoxFuture<'static, Result<Vec<TurnRow>, StoreError>>;

    /// The entries of these turns, turn by turn, each in the order in which they were appended.
    fn entries(
        &self,
        scope: Scope,
        turns: Vec<TurnId>,
    ) -> BoxFuture<'static, Result<Vec<EntryRow>, StoreError>>;

    /// The bytes of the bodies that a look-up would read.
    fn size(&self, scope: Scope, of: SizeOf) -> BoxFuture<'static, Result<usize, StoreError>>;

    fn approvals(
        &self,
        scope: Scope,
        by: ApprovalKey,
    ) -> BoxFuture<'static, Result<Vec<ApprovalRow>, StoreError>>;
}

/// Knows which sessions are used now: a turn runs or begins in them, or a task of theirs does.
/// `sessions` implements it.
pub(crate) trait SessionsInUse: Send + Sync + fmt::Debug {
    /// Keeps everyone from the session until the hold is dropped. `None`: it is used.
    fn try_hold(&self, session: &SessionId) -> Option<Box<dyn SessionHold>>;
}

/// Keeps everyone from a session.
pub(crate) trait SessionHold: Send + fmt::Debug {}

/// How a session is looked up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SessionKey {
    Id(SessionId),
    Name(SessionName),
    /// The session used last of those with a name of this text, whatever its model.
    NameText(String),
}

/// Of each digest, so many turns are found: the newest. A client that repeats a conversation
/// leaves many with the same.
pub(crate) const MAX_OF_DIGEST: usize = 256;

/// How turns are looked up.
#[derive(Clone, Debug)]
pub(crate) enum TurnKey {
    Id(TurnId),
    /// All turns of a session.
    Session(SessionId),
    /// The turns of a session that began after this one of it.
    After(SessionId, TurnId),
    /// Turns that ended with the first of these chain digests that is known.
    Chain(Vec<Digest>),
    /// Turns whose last link began with this: `rows::LinkDigests::head`.
    Head(Digest),
    /// Turns whose request had this `Idempotency-Key`, hashed.
    Idempotency(Digest),
    /// Turns of this very request.
    Request(Digest),
    /// What is kept of a subagent.
    Agent(AgentId),
    /// What is kept of so many subagents of a session, the newest of them.
    Agents(SessionId, usize),
}

/// What a look-up would read.
#[derive(Clone, Debug)]
pub(crate) enum SizeOf {
    /// All turns of a session, without their entries.
    Turns(SessionId),
    /// What is kept of so many subagents of a session, without their entries.
    Agents(SessionId, usize),
    /// The entries of these turns.
    Entries(Vec<TurnId>),
}

#[derive(Clone, Debug)]
pub(crate) enum ApprovalKey {
    Id(ApprovalId),
    /// Those of a turn, decided or not.
    Turn(TurnId),
    /// All that are not decided yet.
    Open,
    /// The approvals with this code, decided or not.
    Code(String),
}

/// How the body of an approval holds its code, as JSON: it is looked for as it stands there, since
/// it is looked up too seldom for a column of its own.
fn code_member(code: &str) -> String {
    format!(r#""code":"{code}""#)
}

#[derive(Clone, Debug)]
pub(crate) struct SessionPage {
    pub(crate) sessions: Vec<SessionSummary>,
    pub(crate) has_more: bool,
}

/// Why the store did not do what it was asked. The cause is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreError {
    /// The disk is full or broken, or the database is.
    #[error("the store cannot be used now")]
    Unavailable,
    /// What is to be read is larger than the memory that is left.
    #[error("the memory for running requests is used up")]
    Exhausted,
    /// A condition of a change does not hold: the approval is decided already.
    #[error("another request has decided it first")]
    Conflict,
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let (code, message) = match error {
            StoreError::Unavailable => (
                ErrorCode::StoreUnavailable,
                "The server cannot keep what this request needs kept, so it went no further; try \
                 again when its operator has looked at the disk.",
            ),
            StoreError::Exhausted => return Exhausted.into(),
            StoreError::Conflict => (
                ErrorCode::SessionBusy,
                "Another request has changed this session meanwhile. Ask again.",
            ),
        };
        Self::new(code, message)
    }
}
