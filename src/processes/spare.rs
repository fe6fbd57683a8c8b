//! Keeps one supervisor started ahead of the next command.
//!
//! To start our own program takes longer than most commands do. A spare is a supervisor like any
//! other, started with the same command line and from the same environment, which is empty: it
//! waits for its job as one does that is started for a command. So nothing differs but the moment.
//! It is given one job or none, and it ends when the server's end of its socket closes.

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
use crate::file_id::FileId;
use crate::sync;

#[cfg(test)]
mod tests;

/// How long a command has the machine for itself before the next spare is started, unless it ends
/// earlier. Most end earlier.
const HEAD_START: Duration = Duration::from_millis(200);

/// Room for one spare.
#[derive(Debug, Default)]
pub(super) struct SpareSlot(Mutex<Slot>);

#[derive(Debug, Default)]
struct Slot {
    spare: Option<Spare>,
    is_being_filled: bool,
    /// They wait until a command has ended, and then fill the slot.
    fillers: JoinSet<()>,
}

/// A supervisor without a command. Dropping it ends it.
#[derive(Debug)]
struct Spare {
    /// `None`: it was taken.
    supervisor: Option<ReadySupervisor>,
    executed: ProgramFile,
    /// See [`placeholders::is_watched`].
    is_watched: bool,
}

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

impl SpareSlot {
    /// Takes the spare out, if it can still be used. `program` is what would be executed now.
    pub(super) fn take(&self, program: &Path) -> Option<ReadySupervisor> {
        let mut spare = self.lock().spare.take()?;
        if !spare.fits(program) {
            return None;
        }
        spare.supervisor.take()
    }

    /// Has `fill` called when the returned value is dropped, or after [`HEAD_START`].
    pub(super) fn fill_later(&self, fill: impl FnOnce() + Send + 'static) -> WorkBegun {
        let (sender, ended) = oneshot::channel();
        let mut slot = self.lock();
        while slot.fillers.try_join_next().is_some() {}
        slot.fillers.spawn(async move {
            _ = timeout(HEAD_START, ended).await;
            fill();
        });
        WorkBegun { _ended: sender }
    }

    /// Puts a spare in, unless there is one. That none can be started does no harm: the next
    /// command finds out why.
    pub(super) fn fill(&self, program: &Path, start: impl FnOnce() -> io::Result<ReadySupervisor>) {
        let Some(executed) = ProgramFile::look(program) else { return };
        {
            let mut slot = self.lock();
            if slot.spare.is_some() || slot.is_being_filled {
                return;
            }
            slot.is_being_filled = true;
        }
        // The order counts: what is watched already is inherited by what is started now.
        let is_watched = placeholders::is_watched();
        let started = start();
        let mut slot = self.lock();
        slot.is_being_filled = false;
        slot.spare = started.ok().map(|supervisor| Spare {
            supervisor: Some(supervisor),
            executed,
            is_watched,
        });
    }

    /// The process of the spare, if there is one.
    #[cfg(test)]
    pub(super) fn process(&self) -> Option<rustix::process::Pid> {
        let slot = self.lock();
        let unused = slot.spare.as_ref().and_then(|spare| spare.supervisor.as_ref());
        unused.and_then(|unused| unused.connection.supervisor.process())
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        sync::lock(&self.0)
    }
}

impl Spare {
    /// Whether one that is started now would be no other.
    fn fits(&mut self, program: &Path) -> bool {
        let is_alive = |it: &mut ReadySupervisor| it.connection.supervisor.is_alive();
        ProgramFile::look(program) == Some(self.executed)
            && self.is_watched == placeholders::is_watched()
            && self.supervisor.as_mut().is_some_and(is_alive)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if let Some(unused) = &mut self.supervisor {
            unused.connection.discard();
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
