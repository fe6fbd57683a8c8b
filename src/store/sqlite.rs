//! Implements the store on SQLite: one thread writes, a few read.

mod changes;
mod columns;
mod commits;
#[cfg(test)]
mod faulty_vfs;
mod file;
mod queries;
mod readers;
mod retention;
mod schema;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use self::commits::Commit;
use self::file::DatabaseFile;
pub(crate) use self::file::OpenError;
use self::readers::Readers;
use self::writer::{InUse, Unended, Writer, WriterChannels};
use super::rows::{
    ApprovalRow, Change, EntryRow, ForgottenSession, SessionRow, TurnRow, TurnStatus,
};
use super::settings::StoreSettings;
use super::{
    ApprovalKey, SessionKey, SessionPage, SessionsInUse, SizeOf, Store, StoreError, TurnKey,
};
use crate::blocking::{Pool, Size};
use crate::ids::{Scope, SessionId, TurnId};
use crate::sync;

/// Runs the reads of all stores of the process. SQLite's readers do not wait for its writer, so
/// few are enough.
static READS: Pool = Pool::new(
    "store",
    Size {
        at_once: 4,
        stuck: 12,
        threads_each: 1,
        waiting: 4096,
        max_wait: std::time::Duration::from_secs(20),
    },
);

/// The store of a state directory. Dropping it ends its thread, after all that was committed
/// before is written.
#[derive(Debug)]
pub(crate) struct SqliteStore {
    writer: Writer,
    readers: Arc<Readers>,
    unended: Unended,
    in_use: InUse,
}

/// The sessions that the store forgets: those that somebody deletes, and those that
/// `StoreSettings` leaves no room for.
pub(crate) type Forgotten = mpsc::UnboundedReceiver<ForgottenSession>;

impl SqliteStore {
    /// Opens `toolhand.db` in `directory`. A database that is damaged or not ours is set aside,
    /// with a warning, and a new one begins. Turns that ran when the server was killed are
    /// `Crashed` from now on. Blocks.
    pub(crate) fn open(
        directory: &Path,
        settings: StoreSettings,
    ) -> Result<(Self, Forgotten), OpenError> {
        Self::open_file(DatabaseFile::in_directory(directory)?, settings)
    }

    fn open_file(
        file: DatabaseFile,
        settings: StoreSettings,
    ) -> Result<(Self, Forgotten), OpenError> {
        let connection = file.open()?;
        let readers = Arc::new(Readers::new(file.clone()));
        let (forgotten, receiver) = mpsc::unbounded_channel();
        let unended = Unended::default();
        let in_use = InUse::default();
        let channels = WriterChannels {
            forgotten,
            unended: Arc::clone(&unended),
            in_use: Arc::clone(&in_use),
        };
        let writer = Writer::start(file, connection, Arc::clone(&readers), settings, channels)?;
        Ok((Self { writer, readers, unended, in_use }, receiver))
    }

    /// Tells the store which sessions are in use, so that retention spares them. Until this is
    /// called, none counts as in use.
    pub(crate) fn spare(&self, in_use: Arc<dyn SessionsInUse>) {
        // The first one stands: there is one server.
        _ = self.in_use.set(in_use);
    }

    /// Writes all that was committed before, and closes the database. What comes later gets
    /// `StoreError::Unavailable`.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        self.writer.close(done);
        // An error means that the thread has ended before.
        _ = closed.await;
        self.readers.close();
    }

    /// The ids of all sessions, whoever's they are: their directories are kept.
    pub(crate) async fn session_ids(&self) -> Result<HashSet<SessionId>, StoreError> {
        self.read(queries::session_ids).await
    }

    fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let readers = Arc::clone(&self.readers);
        Box::pin(async move {
            let read = READS.run(move || readers.read(query)).await;
            read.unwrap_or_else(|error| {
                tracing::error!(%error, "the store cannot be read");
                Err(StoreError::Unavailable)
            })
        })
    }
}

impl Store for SqliteStore {
    fn commit_together(
        &self,
        changes: Vec<Change>,
        others: usize,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let (reply, answer) = oneshot::channel();
        self.writer.commit(Commit { changes, others, reply });
        Box::pin(async move { answer.await.unwrap_or(Err(StoreError::Unavailable)) })
    }

    fn session(
        &self,
        scope: Scope,
        by: SessionKey,
    ) -> BoxFuture<'static, Result<Option<SessionRow>, StoreError>> {
        self.read(move |connection| queries::session(connection, scope, &by))
    }

    fn sessions(
        &self,
        scope: Scope,
        after: Option<SessionId>,
        limit: usize,
    ) -> BoxFuture<'static, Result<SessionPage, StoreError>> {
        self.read(move |connection| queries::sessions(connection, scope, after.as_ref(), limit))
    }

    fn turns(
        &self,
        scope: Scope,
        by: TurnKey,
    ) -> BoxFuture<'static, Result<Vec<TurnRow>, StoreError>> {
        let unended = Arc::clone(&self.unended);
        self.read(move |connection| {
            let mut turns = queries::turns(connection, scope, &by)?;
            let unended = sync::lock(&unended);
            for turn in turns.iter_mut().filter(|turn| unended.contains(&turn.id)) {
                if turn.status == TurnStatus::Running {
                    turn.status = TurnStatus::Crashed;
                }
            }
            Ok(turns)
        })
    }

    fn entries(
        &self,
        scope: Scope,
        turns: Vec<TurnId>,
    ) -> BoxFuture<'static, Result<Vec<EntryRow>, StoreError>> {
        self.read(move |connection| queries::entries(connection, scope, &turns))
    }

    fn size(&self, scope: Scope, of: SizeOf) -> BoxFuture<'static, Result<usize, StoreError>> {
        self.read(move |connection| queries::size(connection, scope, &of))
    }

    fn approvals(
        &self,
        scope: Scope,
        by: ApprovalKey,
    ) -> BoxFuture<'static, Result<Vec<ApprovalRow>, StoreError>> {
        self.read(move |connection| queries::approvals(connection, scope, &by))
    }
}
