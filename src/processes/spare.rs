//! Keeps supervisors started ahead of the next commands.
//!
//! To start our own program, and bubblewrap before it, takes longer than most commands do. A spare
//! is a supervisor like any other, started with the same arguments and from the same environment,
//! which is empty: it waits for its job as one does that is started for a command. So nothing
//! differs but the moment. What a spare inside of bubblewrap has mounted by then is compared with
//! what the job says, as it is for any other: see [`super::supervisor`].
//!
//! A spare is given one job or none, and it ends when the server's end of its socket closes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connection::ReadySupervisor;
use super::placeholders;
use super::supervisor_kind::SupervisorKind;
use crate::file_id::FileId;
use crate::sync;

#[cfg(test)]
mod tests;

/// How long a command has the machine for itself before the next spare is started, unless it ends
/// earlier. Most end earlier.
const HEAD_START: Duration = Duration::from_millis(200);

/// The most spares at a time. Sessions that take turns need one each.
const MAX_SPARES: usize = 4;

/// A pool of a few spares, one of each kind.
#[derive(Debug, Default)]
pub(super) struct Spares(Mutex<SparePool>);

/// The spares that are there or being started.
#[derive(Debug, Default)]
struct SparePool {
    /// The oldest first.
    spares: Vec<Spare>,
    being_started: Vec<SupervisorKind>,
    /// The number of spares that were put in so far.
    count: u64,
    /// They wait until a command has ended, and then put a spare in.
    fillers: JoinSet<()>,
}

/// A supervisor without a command. Dropping it ends it.
#[derive(Debug)]
struct Spare {
    number: SpareNumber,
    kind: SupervisorKind,
    /// `None`: it was taken.
    supervisor: Option<ReadySupervisor>,
    executed: ProgramFile,
    /// See [`placeholders::is_watched`].
    is_watched: bool,
}

/// Tells a spare from those before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpareNumber(u64);

/// A program's file as it was when it was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProgramFile {
    id: FileId,
    /// When its contents or its owner last changed, in seconds and nanoseconds.
    changed: (i64, i64),
}

/// Held while a command runs. A spare is started when it is dropped, at the latest.
#[derive(Debug)]
pub(super) struct WorkBegun {
    _ended: oneshot::Sender<()>,
}

impl Spares {
    /// Takes a spare of this kind out, if it can still be used. `program` is what would be executed
    /// now.
    pub(super) fn take(&self, kind: &SupervisorKind, program: &Path) -> Option<ReadySupervisor> {
        let mut spare = self.lock().remove(|it| it.kind == *kind)?;
        if !spare.fits(program) {
            return None;
        }
        spare.supervisor.take()
    }

    /// Runs `fill` when the returned value is dropped, or after [`HEAD_START`].
    pub(super) fn fill_later(&self, fill: impl Future<Output = ()> + Send + 'static) -> WorkBegun {
        let (sender, ended) = oneshot::channel();
        let mut pool = self.lock();
        while pool.fillers.try_join_next().is_some() {}
        pool.fillers.spawn(async move {
            _ = timeout(HEAD_START, ended).await;
            fill.await;
        });
        WorkBegun { _ended: sender }
    }

    /// Puts a spare in, unless there is one of its kind. That none can be started does no harm:
    /// the next command finds out why.
    pub(super) fn fill(
        &self,
        kind: &SupervisorKind,
        program: &Path,
        start: impl FnOnce() -> io::Result<ReadySupervisor>,
    ) -> Option<SpareNumber> {
        let executed = ProgramFile::look(program)?;
        if !self.lock().begin(kind) {
            return None;
        }
        // The order counts: what is watched already is inherited by what is started now.
        let is_watched = placeholders::is_watched();
        let started = start();
        let mut pool = self.lock();
        pool.being_started.retain(|started| started != kind);
        let number = pool.next_number();
        let supervisor = Some(started.ok()?);
        let spare = Spare { number, kind: kind.clone(), supervisor, executed, is_watched };
        pool.put(spare);
        Some(number)
    }

    /// Ends a spare, if nobody has taken it.
    pub(super) fn end(&self, number: SpareNumber) {
        drop(self.lock().remove(|spare| spare.number == number));
    }

    /// The process of the youngest spare, if there is one.
    #[cfg(test)]
    pub(super) fn process(&self) -> Option<rustix::process::Pid> {
        let pool = self.lock();
        pool.spares.last()?.supervisor.as_ref()?.connection.supervisor.process()
    }

    fn lock(&self) -> MutexGuard<'_, SparePool> {
        sync::lock(&self.0)
    }
}

impl SparePool {
    /// Whether a spare of this kind is to be started now. Whoever is told so starts one.
    fn begin(&mut self, kind: &SupervisorKind) -> bool {
        let is_there = self.spares.iter().any(|spare| spare.kind == *kind);
        if is_there || self.being_started.contains(kind) {
            return false;
        }
        self.being_started.push(kind.clone());
        true
    }

    fn next_number(&mut self) -> SpareNumber {
        self.count += 1;
        SpareNumber(self.count)
    }

    fn put(&mut self, spare: Spare) {
        if self.spares.len() == MAX_SPARES {
            self.spares.remove(0);
        }
        self.spares.push(spare);
    }

    fn remove(&mut self, is_it: impl Fn(&Spare) -> bool) -> Option<Spare> {
        let index = self.spares.iter().position(is_it)?;
        Some(self.spares.remove(index))
    }
}

impl Spare {
    /// Whether one that is started now would be no other.
    fn fits(&mut self, program: &Path) -> bool {
        ProgramFile::look(program) == Some(self.executed)
            && self.is_watched == placeholders::is_watched()
            && self.supervisor.as_mut().is_some_and(|it| it.connection.supervisor.is_alive())
    }
}

impl Drop for Spare {
    /// A supervisor ends when its socket closes, and a bubblewrap that has not come as far as to
    /// start one may never end. Outside of bubblewrap the socket is enough: if the monitor were
    /// killed, its reaper would be taken for an orphan of some command.
    fn drop(&mut self) {
        let is_inside_bwrap = matches!(self.kind, SupervisorKind::InsideBwrap(_));
        if let Some(unused) = self.supervisor.as_mut().filter(|_| is_inside_bwrap) {
            unused.connection.supervisor.kill();
        }
    }
}

impl ProgramFile {
    fn look(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let id = FileId::from_metadata(&metadata);
        Some(Self { id, changed: (metadata.ctime(), metadata.ctime_nsec()) })
    }
}
