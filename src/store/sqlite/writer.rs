//! Writes in a thread of its own: commits what waits together, and looks after the file when
//! nothing waits.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::super::rows::{Change, ForgottenSession, TurnStatus};
use super::super::settings::StoreSettings;
use super::super::{SessionsInUse, StoreError};
use super::changes::{self, Applier, ChangeError};
use super::commits::{Commit, Commits, Incoming, Next, commits};
use super::file::{self, DatabaseFile, OpenError};
use super::readers::Readers;
use super::retention::{self, Clock, Progress, RetentionStep, Step};
use crate::clock;
use crate::ids::TurnId;
use crate::sync;

/// The log is copied into the database when about so much was written to it. SQLite's own
/// number is 1000 pages of 4 KiB.
const CHECKPOINT_AFTER: usize = 4 << 20;

/// The pages that a transaction writes beside the bodies, mostly of indices.
const TRANSACTION_SIZE: usize = 32 << 10;

/// The log is copied as well when nothing was written for this long: until then a loss of power
/// can take the last commits.
const IDLE: Duration = Duration::from_secs(2);

/// How often the store looks for sessions to forget, if nothing is written.
const MAX_RETENTION_INTERVAL: Duration = Duration::from_secs(60 * 10);
const MIN_RETENTION_INTERVAL: Duration = Duration::from_secs(1);

/// A session whose last turn just ends is still used: the store looks again so soon.
const AFTER_USED: Duration = Duration::from_secs(2);

/// While there is something to forget, every so many transactions one is a step of it.
const TRANSACTIONS_PER_STEP: u32 = 8;

/// Turns that do not run any more, though the disk does not say so: something of them could not
/// be written. They count as crashed.
pub(super) type Unended = Arc<Mutex<HashSet<TurnId>>>;

/// What knows which sessions are in use, once the store was told of it.
pub(super) type InUse = Arc<OnceLock<Arc<dyn SessionsInUse>>>;

/// What the thread shares with the store: where it reports, and what it asks.
pub(super) struct WriterChannels {
    pub(super) forgotten: mpsc::UnboundedSender<ForgottenSession>,
    pub(super) unended: Unended,
    pub(super) in_use: InUse,
}

/// The way to the thread. When it is dropped, the thread writes what it has got, and ends.
#[derive(Debug)]
pub(super) struct Writer {
    commits: Commits,
    thread: Thread,
}

impl Writer {
    pub(super) fn start(
        file: DatabaseFile,
        connection: Connection,
        readers: Arc<Readers>,
        settings: StoreSettings,
        WriterChannels { forgotten, unended, in_use }: WriterChannels,
    ) -> Result<Self, OpenError> {
        let path = file.path();
        let refuse = |error: &dyn std::fmt::Display| OpenError::new(&path, error);
        let newest = retention::newest_use(&connection).map_err(|error| refuse(&error))?;
        let next_use = next_use(&connection).map_err(|error| refuse(&error))?;
        let now = Instant::now();
        let thread = WriterThread {
            clock: Clock::new(clock::now_ms(), newest, now),
            progress: Progress::default(),
            next_use,
            file,
            connection: Some(connection),
            readers,
            settings,
            forgotten,
            unsaved: 0,
            since_step: 0,
            since_retention: 0,
            retention_at: now,
            unended,
            in_use,
            has_failed: false,
        };
        let (commits, incoming) = commits();
        let spawned = std::thread::Builder::new().name("store".into());
        let spawned = spawned.spawn(move || thread.run(&incoming));
        let thread = spawned.map_err(|error| refuse(&error))?.thread().clone();
        Ok(Self { commits, thread })
    }

    pub(super) fn commit(&self, commit: Commit) {
        self.commits.push(commit, &self.thread);
    }

    pub(super) fn close(&self, done: oneshot::Sender<()>) {
        self.commits.close(done, &self.thread);
    }
}

struct WriterThread {
    file: DatabaseFile,
    /// `None` after a failure that makes it doubtful.
    connection: Option<Connection>,
    readers: Arc<Readers>,
    settings: StoreSettings,
    forgotten: mpsc::UnboundedSender<ForgottenSession>,
    clock: Clock,
    progress: Progress,
    /// The next sequence number of use.
    next_use: i64,
    /// About how many bytes of the log are not in the database yet.
    unsaved: usize,
    /// Transactions since the last step of the retention.
    since_step: u32,
    /// About how many bytes were written since nothing was left to forget.
    since_retention: u64,
    /// When to look for sessions to forget. It is past while there may be some.
    retention_at: Instant,
    unended: Unended,
    in_use: InUse,
    /// Whether the last commit failed. Only the first failure of a row is logged as an error.
    has_failed: bool,
}

impl WriterThread {
    fn run(mut self, incoming: &Incoming) {
        let closing = loop {
            match incoming.next(self.patience()) {
                Next::Write(batch, closing) => {
                    self.write(batch);
                    if closing.is_some() {
                        break closing;
                    }
                    self.maintain_under_load();
                }
                Next::Nothing => self.maintain(),
                Next::End(closing) => break closing,
            }
        };
        // Closing the last connection copies the log and removes it.
        self.readers.close();
        drop(self.connection.take());
        if let Some(done) = closing {
            _ = done.send(());
        }
    }

    /// How long to wait for a commit before looking after the file.
    fn patience(&self) -> Duration {
        let until_retention = self.retention_at.saturating_duration_since(Instant::now());
        if self.unsaved == 0 { until_retention } else { until_retention.min(IDLE) }
    }

    /// Writes the batch in one transaction. A caller whose changes do not fit does not spoil
    /// those of the others.
    fn write(&mut self, batch: Vec<Commit>) {
        match self.connected().and_then(|()| self.transaction(&batch)) {
            Ok(Fit::All) => {
                self.written(&batch);
                for commit in batch {
                    // A caller that has gone does not need to know.
                    _ = commit.reply.send(Ok(()));
                }
            }
            Ok(Fit::NotAll) if batch.len() == 1 => {
                for commit in batch {
                    _ = commit.reply.send(Err(StoreError::Conflict));
                }
            }
            Ok(Fit::NotAll) => batch.into_iter().for_each(|commit| self.write(vec![commit])),
            Err(error) => {
                self.failed(&error);
                for commit in batch {
                    sync::lock(&self.unended).extend(commit.changes.iter().filter_map(ended_turn));
                    _ = commit.reply.send(Err(StoreError::Unavailable));
                }
            }
        }
    }

    fn written(&mut self, batch: &[Commit]) {
        let changes = || batch.iter().flat_map(|commit| &commit.changes);
        let written: usize = changes().map(changes::size).sum();
        self.recovered();
        self.unsaved += TRANSACTION_SIZE + written;
        self.since_retention += written as u64;
        self.since_step += 1;
        if changes().any(|change| matches!(change, Change::Forget(_))) {
            self.retention_at = Instant::now();
        }
        self.mark_unended();
    }

    /// Applies all of the batch or nothing.
    fn transaction(&mut self, batch: &[Commit]) -> rusqlite::Result<Fit> {
        let Some(connection) = &self.connection else { return Ok(Fit::NotAll) };
        let run = |sql| connection.prepare_cached(sql)?.execute([]).map(drop);
        run("BEGIN IMMEDIATE")?;
        let mut applier = Applier::new(connection);
        for change in batch.iter().flat_map(|commit| &commit.changes) {
            let used = self.next_use;
            self.next_use += 1;
            match applier.apply(change, used) {
                Ok(()) => {}
                Err(ChangeError::Conflict) => {
                    run("ROLLBACK")?;
                    return Ok(Fit::NotAll);
                }
                Err(ChangeError::Sqlite(error)) => return Err(error),
            }
        }
        let forgotten = applier.forgotten;
        run("COMMIT")?;
        self.tell(forgotten);
        Ok(Fit::All)
    }

    /// Marks the turns as crashed whose end the store could not take.
    fn mark_unended(&mut self) {
        let Some(connection) = &self.connection else { return };
        let turns: Vec<TurnId> = sync::lock(&self.unended).iter().cloned().collect();
        if turns.is_empty() {
            return;
        }
        match changes::crash(connection, &turns) {
            Ok(()) => sync::lock(&self.unended).clear(),
            Err(error) => self.failed(&error),
        }
    }

    /// Opens the database again if the last connection was given up.
    fn connected(&mut self) -> rusqlite::Result<()> {
        if self.connection.is_none() {
            let _no_reader = self.readers.pause();
            self.connection = Some(self.file.reopen()?);
        }
        Ok(())
    }

    /// Leaves nothing of a transaction that failed. After anything but a full disk the
    /// connection is doubtful: a failed sync must not be followed by one that succeeds because
    /// the kernel has forgotten the failure.
    fn failed(&mut self, error: &rusqlite::Error) {
        if self.has_failed {
            tracing::debug!(%error, "the store still cannot be written");
        } else {
            tracing::error!(%error, "the store cannot be written");
        }
        self.has_failed = true;
        self.file.note(error);
        let is_full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
        let Some(connection) = self.connection.take() else { return };
        let is_rolled_back =
            connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
        if is_full && is_rolled_back {
            self.connection = Some(connection);
        } else {
            file::give_up(connection);
        }
    }

    fn recovered(&mut self) {
        if std::mem::take(&mut self.has_failed) {
            tracing::info!("the store can be written again");
        }
    }

    fn maintain_under_load(&mut self) {
        if CHECKPOINT_AFTER <= self.unsaved {
            self.checkpoint();
        }
        // Whoever writes much must not outrun the limit.
        if self.settings.max_bytes / 16 <= self.since_retention {
            self.retention_at = Instant::now();
        }
        let is_due = self.retention_at <= Instant::now();
        if is_due && TRANSACTIONS_PER_STEP <= self.since_step {
            self.forget_some();
        }
    }

    fn maintain(&mut self) {
        if CHECKPOINT_AFTER <= self.unsaved {
            self.checkpoint();
        }
        if self.retention_at <= Instant::now() {
            self.forget_some();
        } else if 0 < self.unsaved {
            self.checkpoint();
        }
    }

    fn checkpoint(&mut self) {
        self.unsaved = 0;
        let Some(connection) = &self.connection else { return };
        if let Err(error) = file::checkpoint(connection, "PASSIVE") {
            self.failed(&error);
        }
    }

    /// One step of the retention, in a transaction.
    fn forget_some(&mut self) {
        self.since_step = 0;
        let interval = self.settings.retention / 10;
        let interval = interval.clamp(MIN_RETENTION_INTERVAL, MAX_RETENTION_INTERVAL);
        let now = Instant::now();
        self.retention_at = now + interval;
        let time = self.clock.read(clock::now_ms(), now);
        let Some(connection) = &self.connection else { return };
        let mut retention_step = RetentionStep::new(self.in_use.get().cloned());
        let mut step = || -> rusqlite::Result<Step> {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            let (settings, progress) = (&self.settings, &mut self.progress);
            let step = retention::step(connection, settings, time, progress, &mut retention_step)?;
            connection.execute_batch("COMMIT")?;
            Ok(step)
        };
        match step() {
            Ok(Step::Done) => {
                self.since_retention = 0;
                if retention_step.has_met_used {
                    self.retention_at = now + AFTER_USED;
                }
            }
            Ok(Step::More) => {
                self.unsaved += TRANSACTION_SIZE;
                self.retention_at = now;
                self.tell(std::mem::take(&mut retention_step.forgotten));
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Tells of sessions that are forgotten.
    fn tell(&self, forgotten: Vec<ForgottenSession>) {
        for session in forgotten {
            tracing::debug!(session = %session.id, "forgot a session");
            // Nobody may want to know.
            _ = self.forgotten.send(session);
        }
    }
}

/// Whether changes fit what is there.
enum Fit {
    All,
    NotAll,
}

/// The turn that ends with this change, or because it is not there.
fn ended_turn(change: &Change) -> Option<TurnId> {
    match change {
        Change::Turn(row) if row.status != TurnStatus::Running => Some(row.id.clone()),
        Change::Entry(row) => Some(row.turn.clone()),
        _ => None,
    }
}

/// Behind every use so far.
fn next_use(connection: &Connection) -> rusqlite::Result<i64> {
    let sql = "SELECT coalesce(max(used), 0) + 1 FROM sessions WHERE id IS NOT NULL";
    connection.query_row(sql, [], |row| row.get(0))
}
